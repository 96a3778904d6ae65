//! The loop itself: the gap between two agents, and how it grows with the history.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ralph_testkit::measure::{Times, wait_with_peak_memory};
use serde_json::{Value, json};

use crate::gaps::{self, Landing, Place, Ran, Walls};
use crate::row::{Bar, Figure, Row};
use crate::whole;

/// What a user would do by hand in a gap.
const BY_HAND: [&str; 2] = ["the agent's start", "the agent's start, `git add -A`, `git commit`"];

/// The settings of both landings.
const LANDINGS: [(Landing, &str); 2] =
    [(Landing::Nothing, "`commit` \"none\""), (Landing::Commit, "`commit` \"ralph\"")];

/// Blocks of iterations that are measured in turns with others.
struct Blocks {
    rounds: usize,
    iterations: usize,
}

impl Blocks {
    /// Returns the median gap under ralph and in a bare loop.
    fn compare_with_bare(&self, place: &Place) -> [Figure; 2] {
        self.in_turns(&mut || place.ralph(self.iterations).gaps, &mut || {
            place.bare(self.iterations)
        })
    }

    fn in_turns(
        &self,
        one: &mut dyn FnMut() -> Vec<Duration>,
        other: &mut dyn FnMut() -> Vec<Duration>,
    ) -> [Figure; 2] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            ours.extend(one());
            theirs.extend(other());
        }
        [ours, theirs].map(|gaps| Figure::Time(Times::from(gaps).median()))
    }
}

/// From one agent's end to the next one's start in a small repository.
pub(crate) fn gap(report: &mut dyn FnMut(Row)) {
    let blocks = Blocks { rounds: 16, iterations: 12 };
    for ((landing, setting), by_hand) in LANDINGS.into_iter().zip(BY_HAND) {
        let place = Place::with_files(landing, Walls::None, 0);
        let [ours, bare] = blocks.compare_with_bare(&place);
        let what = format!("gap between two agents of `ralph run`: {setting}, no gate, no sandbox");
        let limits = match landing {
            Landing::Nothing => vec![Bar::Below(milliseconds(10))],
            Landing::Commit => vec![Bar::Times(1.3)],
        };
        report(Row::compared(what, ours, (bare, by_hand), limits));
    }
}

/// The same if agent and git start in a sandbox.
pub(crate) fn native(report: &mut dyn FnMut(Row)) {
    let blocks = Blocks { rounds: 6, iterations: 8 };
    for ((landing, setting), by_hand) in LANDINGS.into_iter().zip(BY_HAND) {
        let what =
            format!("gap between two agents of `ralph run`: {setting}, no gate, native sandbox");
        if !gaps::has_native_sandbox() {
            report(Row::skipped(&what, "there is no native sandbox here"));
            continue;
        }
        let [ours, bare] = blocks.compare_with_bare(&Place::with_files(landing, Walls::Native, 0));
        let by_hand = format!("{by_hand}, no sandbox");
        report(Row::compared(what, ours, (bare, &by_hand), [Bar::Below(milliseconds(35))]));
    }
}

/// From the start of `ralph run` to that of its first agent.
pub(crate) fn first(report: &mut dyn FnMut(Row)) {
    for (walls, name, most) in
        [(Walls::None, "no sandbox", 15), (Walls::Native, "native sandbox", 25)]
    {
        let what = format!("`ralph run` to its first agent: `commit` \"ralph\", no gate, {name}");
        if walls == Walls::Native && !gaps::has_native_sandbox() {
            report(Row::skipped(&what, "there is no native sandbox here"));
            continue;
        }
        let place = Place::with_files(Landing::Commit, walls, 0);
        let (mut ours, mut direct) = (Vec::new(), Vec::new());
        // The first start of a sandbox tests it, and the result is kept.
        place.time_to_first_agent();
        for _ in 0..40 {
            ours.push(place.time_to_first_agent());
            direct.push(place.time_to_direct_agent());
        }
        let [ours, direct] = [ours, direct].map(|times| Figure::Time(Times::from(times).median()));
        let bars = [Bar::Below(milliseconds(most))];
        report(Row::compared(what, ours, (direct, "a direct start of the agent"), bars));
    }
}

fn milliseconds(count: u64) -> Figure {
    Figure::Time(Duration::from_millis(count))
}

/// The gap after ten thousand iterations, the memory they leave, and commands that read them.
pub(crate) fn history(report: &mut dyn FnMut(Row)) {
    let place = Place::with_files(Landing::Nothing, Walls::None, 0);
    let Ran { gaps, peak } = place.ralph(10_000);
    let of = |gaps: &[Duration]| Figure::Time(Times::from(gaps.to_vec()).median());
    let (early, late) = (of(&gaps[..1_000]), of(&gaps[gaps.len() - 1_000..]));
    let what = "last 1 000 of 10 000 gaps of `ralph run`: `commit` \"none\", no gate, no sandbox";
    report(Row::compared(what, late, (early, "the first 1 000"), [Bar::Times(1.2)]));
    let bars = [Bar::Below(Figure::Size(25_000_000))];
    report(Row::single("peak memory of 10 000 iterations", Figure::Size(peak * 1024), bars));
    whole::reading(&place.sealed, report);
}

/// The gap with ten thousand tasks.
pub(crate) fn tasks(report: &mut dyn FnMut(Row)) {
    let [many, few] = [10_000, 20].map(|count| {
        let place = Place::with_files(Landing::Commit, Walls::None, 0);
        place.write_settings(&without_review());
        (place, count)
    });
    let blocks = Blocks { rounds: 4, iterations: 8 };
    let gaps = |(place, count): &(Place, usize)| {
        place.sealed.write_file("plan.json", &format!("{:#}\n", plan(*count)));
        place.ralph_with(blocks.iterations, &["build"]).gaps
    };
    let [ours, few] = blocks.in_turns(&mut || gaps(&many), &mut || gaps(&few));
    let what = "gap of `ralph build`: 10 000 tasks (3.4 MB) that git ignores, `commit` \"ralph\", no gate, no review, no sandbox";
    report(Row::compared(what, ours, (few, "20 tasks"), [Bar::Times(1.2)]));
}

/// The gap with a hundred thousand files.
pub(crate) fn files(report: &mut dyn FnMut(Row)) {
    let blocks = Blocks { rounds: 3, iterations: 6 };
    let place = Place::with_files(Landing::Commit, Walls::None, 100_000);
    let [ours, bare] = blocks.compare_with_bare(&place);
    let what = "gap of `ralph run`: 100 000 files, `commit` \"ralph\", no gate, no sandbox";
    report(Row::compared(what, ours, (bare, BY_HAND[1]), [Bar::Times(1.0)]));
}

/// `ralph build` compared with a loop of bash and jq with the same agent, list and gate.
pub(crate) fn bash(report: &mut dyn FnMut(Row)) {
    const TASKS: usize = 12;
    const GATE: &str = "test -s work.txt";
    let what = "gap of `ralph build`: `commit` \"ralph\", one gate, no review, no sandbox";
    if !crate::starts::has_program("jq") || !crate::starts::has_program("bash") {
        return report(Row::skipped(what, "bash and jq are needed"));
    }
    let place = Place::with_files(Landing::Commit, Walls::None, 0);
    let mut settings = without_review();
    settings["gates"] = json!([{ "name": "test", "command": GATE }]);
    place.write_settings(&settings);
    let sealed = &place.sealed;
    sealed.write_file(".gitignore", "/times\n/log/\n*.bak\n");
    fs::create_dir(sealed.project_dir().join("log")).expect("made");
    let begin = || {
        sealed.write_file("plan.json", &format!("{:#}\n", plan(TASKS)));
        sealed.run_git(&["add", "-A"]);
        sealed.run_git(&["commit", "-qm", "Begin", "--allow-empty"]);
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/table/plain-loop.sh");
    let (mut peaks, mut their_peaks) = (0, 0);
    let blocks = Blocks { rounds: 6, iterations: TASKS };
    let [ours, theirs] = blocks.in_turns(
        &mut || {
            begin();
            let ran = place.ralph_with(TASKS, &["build"]);
            peaks = peaks.max(ran.peak);
            ran.gaps
        },
        &mut || {
            begin();
            let mut command = sealed.build_command("bash");
            command.arg(&script).args(["plan.json", &TASKS.to_string(), GATE]);
            command.arg(std::env::current_exe().expect("this program")).arg("agent");
            command.stdout(Stdio::null()).stderr(Stdio::null());
            place.timed_elsewhere(TASKS, || {
                let child = command.spawn().expect("it starts");
                let (status, peak) = wait_with_peak_memory(child, Duration::from_millis(5));
                assert!(status.success(), "the loop went through: {status}");
                their_peaks = their_peaks.max(peak);
            })
        },
    );
    let compared_with = "a loop of bash and jq";
    report(Row::compared(what, ours, (theirs, compared_with), []));
    let [ours, theirs] = [peaks, their_peaks].map(|kibibytes| Figure::Size(kibibytes * 1024));
    report(Row::compared(
        "peak memory of the same",
        ours,
        (theirs, "bash, without jq and git"),
        [],
    ));
}

fn without_review() -> Value {
    json!({ "review": { "enabled": false }, "memory": { "enabled": false } })
}

/// Returns a list of tasks, each waiting for the one before and one long before.
fn plan(count: usize) -> Value {
    let id = |at: usize| format!("TASK-{at:05}");
    let task = |at: usize| {
        let depends_on: Vec<String> = match at {
            0 => Vec::new(),
            at => vec![id(at - 1), id(at / 2)],
        };
        json!({
            "id": id(at),
            "title": format!("Task number {at}"),
            "description": "What is wanted, in a sentence or two that a person would write.",
            "status": "pending",
            "acceptance_criteria": ["It builds", "It is tested"],
            "depends_on": depends_on,
        })
    };
    json!({ "project": "large", "tasks": (0..count).map(task).collect::<Vec<_>>() })
}
