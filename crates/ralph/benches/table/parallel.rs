//! Several tasks at once: how much sooner a list is done, what landing and clones cost, and what
//! idle workers use.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ralph_io::git::{CloneRequest, GitRepository, RepositoryDiscovery, prepare_clone};
use ralph_io::process::Watch;
use ralph_io::worker_slots::{SlotRequest, WorkerSlot};
use ralph_model::ids::WorkerId;
use ralph_model::worktree::CommitId;
use ralph_testkit::measure::{measure_alternating, time_command};
use ralph_testkit::sealed::{Running, Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::RALPH;
use crate::row::{Bar, Figure, Row};

/// How many files the repository has whose clones are measured.
const FILES: usize = 1_000;

/// How many tasks the list has, and how long its agent works on each.
const TASKS: usize = 12;
const SECONDS: f64 = 10.0;

/// Measures everything.
pub(crate) fn parallel(report: &mut dyn FnMut(Row)) {
    speed_up(report);
    landing(report);
    for (files, limit) in [(100, 150), (10_000, 600)] {
        landing_merged(report, files, Duration::from_millis(limit));
    }
    clones(report);
    idle(report);
    resume(report);
}

/// Returns a project with a task list, whose agent runs a command for each task.
fn project(count: usize, is_chain: bool, command: &str, gate: Option<&str>) -> Sealed {
    let sealed = Sealed::with_repository(RALPH);
    let tasks: Vec<Value> = (0..count)
        .map(|number| {
            let needs: Vec<String> =
                (number > 0 && is_chain).then(|| format!("t{}", number - 1)).into_iter().collect();
            json!({
                "id": format!("t{number}"), "title": "A task", "description": "Do it.",
                "status": "pending", "acceptance_criteria": ["It is done"], "depends_on": needs
            })
        })
        .collect();
    let end =
        json!({ "handoff": { "task_completed": { "summary": "Done.", "fully_complete": true } } });
    let calls = json!([{ "do": [{ "run": { "command": command } }, end] }]);
    let gates: Vec<Value> = gate.into_iter().map(|it| json!({ "command": it })).collect();
    let settings = json!({
        "review": { "enabled": false }, "memory": { "enabled": false }, "gates": gates,
        "maximumIterations": 100
    });
    sealed.write_script(&calls, &settings);
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": tasks }).to_string());
    sealed.commit_all("Start");
    sealed
}

fn build(sealed: &Sealed, jobs: &str) -> Duration {
    let mut command = sealed.build_command(RALPH);
    command.args(["build", "--jobs", jobs]).stdout(Stdio::null()).stderr(Stdio::null());
    time_command(&mut command)
}

fn speed_up(report: &mut dyn FnMut(Row)) {
    let command = format!("sleep {SECONDS}; echo x > $RALPH_TASK.txt");
    let times = ["4", "1"].map(|jobs| {
        let sealed = project(TASKS, false, &command, Some("sleep 0.5"));
        Figure::Time(build(&sealed, jobs))
    });
    let what = format!("{TASKS} independent tasks of {SECONDS} s, gate 0.5 s, 4 workers");
    let bars = [Bar::Times(1.0 / 3.4)];
    report(Row::compared(what, times[0], (times[1], "one at a time"), bars));
}

/// The time from the end of a worker to the end of its merge, where nothing landed since its
/// base, compared with the git commands alone. With its gate it would take a second.
fn landing(report: &mut dyn FnMut(Row)) {
    let sealed = project(8, true, "echo x > $RALPH_TASK.txt", Some("sleep 1"));
    build(&sealed, "2");
    let run = sealed.runs().pop().expect("a run");
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    let (mut ended, mut took) = (None, Vec::new());
    for line in journal.lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let at = recorded["at"].as_u64().unwrap_or_default();
        match recorded["event"]["type"].as_str() {
            Some("worker_ended") => ended = Some(at),
            Some("iteration_ended") => took.extend(ended.take().map(|since| at - since)),
            _ => {}
        }
    }
    let ours = find_median(took);
    let (by_hand, name) = measure_by_hand(&sealed);
    let bars = [Bar::Times(3.0), Bar::Below(Figure::Time(Duration::from_millis(200)))];
    report(Row::compared("landing, nothing landed since", ours, (by_hand, name), bars));
}

/// The time of a merge with what landed since, without gates, in a repository of so many files.
fn landing_merged(report: &mut dyn FnMut(Row), files: usize, limit: Duration) {
    let sealed = project(8, false, "echo x > $RALPH_TASK.txt", None);
    write_files(&sealed, files);
    build(&sealed, "2");
    let run = sealed.runs().pop().expect("a run");
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    let (mut begun, mut is_merged, mut took) = (0, false, Vec::new());
    for line in journal.lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let (at, event) = (recorded["at"].as_u64().unwrap_or_default(), &recorded["event"]);
        match event["type"].as_str() {
            Some("iteration_started") => (begun, is_merged) = (at, false),
            Some("candidate_merged") => is_merged = event["outcome"]["is"] == "clean",
            Some("iteration_ended") if is_merged => took.push(at - begun),
            _ => {}
        }
    }
    if took.is_empty() {
        let what = format!("landing after others, {files} files");
        return report(Row::skipped(&what, "nothing had landed meanwhile"));
    }
    let (by_hand, name) = measure_by_hand(&sealed);
    let bars = [Bar::Times(3.0), Bar::Below(Figure::Time(limit))];
    let what = format!("landing after others, {files} files, no gate");
    report(Row::compared(what, find_median(took), (by_hand, name), bars));
}

/// Returns the median of times in milliseconds.
fn find_median(mut took: Vec<u64>) -> Figure {
    took.sort_unstable();
    Figure::Time(Duration::from_millis(took.get(took.len() / 2).copied().unwrap_or_default()))
}

/// Returns the time that git alone takes to land the last commit again, and what was measured.
fn measure_by_hand(sealed: &Sealed) -> (Figure, &'static str) {
    let git = |args: &[&str]| sealed.run_git(args).trim().to_owned();
    let [by_hand] = measure_alternating(
        15,
        [&mut || {
            let merged = git(&["merge-tree", "--write-tree", "HEAD~1", "HEAD"]);
            let tree = merged.lines().next().unwrap_or_default().to_owned();
            let commit = git(&["commit-tree", &tree, "-p", "HEAD", "-m", "x"]);
            git(&["update-ref", "refs/bench/x", &commit]);
        }],
    );
    (Figure::Time(by_hand.median()), "`merge-tree`, `commit-tree`, `update-ref`")
}

/// Commits so many files.
fn write_files(sealed: &Sealed, count: usize) {
    for number in 0..count {
        sealed.write_file(&format!("d{}/f{number}.txt", number % 20), &format!("{number}\n"));
    }
    sealed.commit_all("Files");
}

fn clones(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::with_repository(RALPH);
    write_files(&sealed, FILES);
    let base = CommitId(sealed.run_git(&["rev-parse", "HEAD"]).trim().to_owned());
    let branch = sealed.run_git(&["branch", "--show-current"]).trim().to_owned();
    let env = vec![("PATH".into(), std::env::var_os("PATH").expect("set"))];
    let found = GitRepository::discover(&sealed.project_dir(), env, Watch::new_detached());
    let Ok(RepositoryDiscovery::Repository(source)) = found else { return };
    let request = CloneRequest {
        base,
        branch: Some(branch),
        start_tree: None,
        include: Vec::new(),
        copy_limit: 0,
    };
    let make = |root: &std::path::Path, number: usize| {
        let worker = WorkerId(format!("r-t{number}-r1"));
        let slot = WorkerSlot::acquire(SlotRequest {
            root,
            work_tree: source.top(),
            worker: &worker,
            keep: &[],
            most: None,
        });
        prepare_clone(&source, &slot.expect("a slot"), &request).expect("a clone");
    };
    let (mut number, mut other) = (0, 0);
    let [ours, theirs] = measure_alternating(
        7,
        [
            &mut || {
                number += 1;
                make(&sealed.root().join(format!("clones{number}")), number);
            },
            &mut || {
                other += 1;
                let target = sealed.root().join(format!("other{other}"));
                let mut command = Command::new("git");
                command
                    .args(["clone", "--quiet", "--shared"])
                    .arg(sealed.project_dir())
                    .arg(target);
                time_command(&mut command);
            },
        ],
    )
    .map(|times| Figure::Time(times.median()));
    let what = format!("make a clone of {FILES} files");
    report(Row::compared(what, ours, (theirs, "`git clone --shared`"), [Bar::Times(1.15)]));
    let root = sealed.root().join("again");
    make(&root, 0);
    let [ours, theirs] = measure_alternating(
        7,
        [
            &mut || {
                number += 1;
                make(&root, number);
            },
            &mut || {
                let target = sealed.root().join("other1");
                let mut command = Command::new("git");
                time_command(command.arg("-C").arg(target).args(["checkout", "--quiet", "HEAD"]));
            },
        ],
    )
    .map(|times| Figure::Time(times.median()));
    let what = "the next task in a clone";
    report(Row::compared(what, ours, (theirs, "`git checkout`"), [Bar::Times(1.5)]));
}

/// What eight workers use whose agents do nothing, and the memory of the run itself.
fn idle(report: &mut dyn FnMut(Row)) {
    let sealed = project(8, false, "sleep 60", None);
    let run: Running = sealed.start_ralph(&["build", "--jobs", "8"]);
    wait_until("all workers work", || {
        let text = sealed.runs().pop().map(|run| run.join("journal.jsonl"));
        let text = text.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.matches("\"worker_progressed\"").count() >= 8
    });
    thread::sleep(Duration::from_secs(1));
    let pid = run.id();
    let tree = list_tree(pid);
    let begun = (Instant::now(), sum_ticks(&tree));
    thread::sleep(Duration::from_secs(10));
    let ticks = sum_ticks(&tree).saturating_sub(begun.1);
    let used = Duration::from_millis(ticks * 10).div_f64(begun.0.elapsed().as_secs_f64());
    let bars = [Bar::Below(Figure::Time(Duration::from_millis(10)))];
    report(Row::single(
        "8 idle workers and their run, processor time per second",
        Figure::Time(used),
        bars,
    ));
    let bars = [Bar::Below(Figure::Size(25_000_000))];
    report(Row::single("the run with 8 workers, memory", Figure::Size(read_peak(pid)), bars));
    let is_worker = |pid: &&u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|word| word == b"__worker")
    };
    let largest = tree.iter().filter(is_worker).map(|pid| read_peak(*pid)).max();
    let bars = [Bar::Below(Figure::Size(16_000_000))];
    let what = "the largest of 8 workers, memory";
    report(match largest {
        Some(bytes) => Row::single(what, Figure::Size(bytes), bars),
        None => Row::skipped(what, "no worker was found"),
    });
    run.stop_at_once();
}

/// The time from `ralph resume` to the first agent call, with 8 workers and with one task at a time.
fn resume(report: &mut dyn FnMut(Row)) {
    let projects = ["8", "1"].map(|jobs| {
        let sealed = project(8, false, "touch \"$HOME/began\"; sleep 60", None);
        let run = sealed.start_ralph(&["build", "--jobs", jobs]);
        wait_until("all work", || {
            let text = sealed.runs().pop().map(|run| run.join("journal.jsonl"));
            let text = text.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
            jobs == "1" || text.matches("\"worker_progressed\"").count() >= 8
        });
        kill_once_called(&sealed, run);
        sealed
    });
    let [mut ours, mut one] = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (sealed, times) in projects.iter().zip([&mut ours, &mut one]) {
            let begun = Instant::now();
            let run = sealed.start_ralph(&["resume"]);
            times.push(kill_once_called(sealed, run).duration_since(begun));
        }
    }
    let [ours, one] = [ours, one].map(|mut times| {
        times.sort_unstable();
        Figure::Time(times.get(times.len() / 2).copied().unwrap_or_default())
    });
    let what = "`ralph resume` of 8 workers to the first agent call";
    report(Row::compared(what, ours, (one, "one task at a time"), [Bar::Times(1.5)]));
}

/// Kills a run once an agent was called. Returns when that was.
fn kill_once_called(sealed: &Sealed, run: Running) -> Instant {
    let began = sealed.root().join("home/began");
    wait_until("an agent works", || began.exists());
    let called = Instant::now();
    run.send_signal(Signal::KILL);
    run.wait_for_end();
    wait_until("no process is left", || sealed.survivors().is_empty());
    fs::remove_file(&began).expect("removed");
    called
}

/// Returns a process and its descendants that are ralph.
fn list_tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let is_ralph = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "ralph"
        };
        found.extend(children.split_whitespace().filter_map(|it| it.parse().ok()).filter(is_ralph));
    }
    found
}

/// Returns the processor time of processes, in hundredths of a second.
fn sum_ticks(pids: &[u32]) -> u64 {
    let read = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<String> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
        ticks(11) + ticks(12)
    };
    pids.iter().map(read).sum()
}

/// Returns the largest memory that a process has used, in bytes.
fn read_peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
