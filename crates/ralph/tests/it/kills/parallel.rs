//! A run with several workers: the run itself, its worker host or a worker is killed at twelve marks
//! each. The list has a conflict and reviews; all tasks are done in the end, each by one commit, no
//! answer is paid for twice, and what was killed takes its processes with it within a second.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ralph_testkit::effort;
use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::kill_injector::{Journals, Moment, OpenCall, Talk, all_runs, open_call_in, talk_in};
use crate::repository;

/// The phases at which a process is killed, counted over the journals of the run and its workers.
/// Each row is one run: a worker may be lost three times, and the host started four times.
const MARKS: [[(&str, usize); 3]; 4] = [
    [("job_assigned", 1), ("worker_ended", 1), ("candidate_merged", 2)],
    [("worker_started", 1), ("iteration_started:merge", 1), ("replied", 5)],
    [("asked:implement", 2), ("candidate_merged", 1), ("asked:review", 3)],
    [("replied", 1), ("landed:committed", 2), ("asked:implement", 4)],
];

/// Which process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Run,
    Host,
    Worker,
}

/// The kills of one kind of process.
#[derive(Debug, Default)]
struct Tally {
    hits: usize,
    missed: Vec<&'static str>,
    /// How long what a run started was still there.
    outlived: Vec<Duration>,
}

#[test]
fn a_run_with_workers_is_killed() {
    let mut tally = kill_at_all_marks(Victim::Run);
    tally.outlived.sort_unstable();
    let usual = tally.outlived[tally.outlived.len() / 2];
    assert!(usual <= Duration::from_secs(1), "{:?}", tally.outlived);
}

#[test]
fn worker_hosts_are_killed() {
    kill_at_all_marks(Victim::Host);
}

#[test]
fn workers_are_killed() {
    kill_at_all_marks(Victim::Worker);
}

/// Kills at all marks; in a quick test at those of one run.
#[expect(clippy::print_stderr, reason = "how long what was killed outlived is worth a look")]
fn kill_at_all_marks(victim: Victim) -> Tally {
    let mut tally = Tally::default();
    let rows = effort::choose_count(MARKS.len(), 1);
    for marks in &MARKS[..rows] {
        play(victim, marks, &mut tally);
    }
    // On a loaded machine a phase may be over before its kill.
    assert!(tally.hits * 6 >= rows * 3 * 5, "{victim:?}: {tally:?}");
    eprintln!("{victim:?}: {tally:?}");
    tally
}

/// Two tasks write the same line, and one of them ends only after a third has begun.
fn make() -> (Sealed, PathBuf) {
    let sealed = repository();
    let meet = sealed.root().join("meet");
    fs::create_dir(&meet).expect("a directory");
    let place = meet.display();
    let command = format!(
        "touch {place}/$RALPH_TASK; sleep 0.1; if grep -q '<<<' shared.txt; \
         then grep -v '^[<=>|]' shared.txt | sort > all; mv all shared.txt; \
         elif [ $RALPH_TASK = c ]; then echo c > c.txt; else \
         while [ $RALPH_TASK = b ] && [ ! -e {place}/c ]; do sleep 0.05; done; \
         echo $RALPH_TASK > shared.txt; fi"
    );
    let done = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    let verdict = json!({ "verdict": "approved", "feedback": "", "criteria": [] });
    let calls = json!([
        { "when": { "role": "review" }, "do": [{ "sleep": 0.1 }, { "verdict": verdict }] },
        { "do": [{ "run": { "command": command } }, { "handoff": done }] }
    ]);
    let task = |id: &str, depends_on: &[&str]| {
        json!({
            "id": id, "title": "A task", "description": "Do it.", "status": "pending",
            "acceptance_criteria": ["It is done"], "depends_on": depends_on
        })
    };
    let tasks = json!([task("a", &[]), task("b", &[]), task("c", &["a"])]);
    sealed.write_script(&calls, &json!({ "gates": [{ "command": "! grep '<<<' shared.txt" }] }));
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": tasks }).to_string());
    sealed.write_file("shared.txt", "start\n");
    sealed.commit_all("Begin");
    (sealed, meet)
}

/// Plays one run, with a kill at each mark.
fn play(victim: Victim, marks: &[(&'static str, usize)], tally: &mut Tally) {
    let (sealed, meet) = make();
    let mut run = sealed.start_ralph(&["build", "--jobs", "2"]);
    let mut answered: Vec<(PathBuf, OpenCall)> = Vec::new();
    let mut kills = Vec::new();
    for (phase, nth) in marks {
        let moment = Moment::At { phase: (*phase).to_owned(), nth: *nth, then: Duration::ZERO };
        moment.wait_for(&sealed, Journals::default(), run.id());
        let Some(pid) = find_victim(victim, run.id()) else {
            tally.missed.push(phase);
            continue;
        };
        tally.hits += 1;
        kills.push(*phase);
        let killed = Instant::now();
        // It may be exiting by itself.
        let _ = kill_process(pid, Signal::KILL);
        let open = all_runs(&sealed).into_iter().filter_map(|run| {
            let call = open_call_in(&run).filter(|call| call.is_answered)?;
            Some((run, call))
        });
        answered.extend(open);
        if victim == Victim::Run {
            run.wait_for_end();
            wait_until("no process is left", || sealed.survivors().is_empty());
            tally.outlived.push(killed.elapsed());
            run = sealed.start_ralph(&["resume"]);
        }
    }
    let end = run.wait_for_end();
    let context = format!("{victim:?} killed at {kills:?} in {}", meet.display());
    assert_eq!(end.code, Some(0), "{context}:\n{}", end.stderr);
    check_end(&sealed, &context);
    for (run, OpenCall { iteration, ask, .. }) in answered {
        let talk = talk_in(&run);
        let place = talk.iter().position(|it| *it == Talk::Asked { iteration, ask });
        let next = place.and_then(|place| talk.get(place + 1));
        assert_eq!(next, Some(&Talk::Replied { iteration, ask }), "asked again, {context}");
    }
}

/// Waits until there is such a process. None if the run ends before.
fn find_victim(victim: Victim, run: u32) -> Option<Pid> {
    let run = i32::try_from(run).ok()?;
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        let host = || find_child(run, b"__workers");
        let found = match victim {
            Victim::Run => Some(run),
            Victim::Host => host(),
            Victim::Worker => host().and_then(|host| find_child(host, b"__worker")),
        };
        if let Some(pid) = found.filter(|pid| *pid > 1) {
            return Pid::from_raw(pid);
        }
    }
    None
}

/// Returns a child whose command line has a word.
fn find_child(parent: i32, word: &[u8]) -> Option<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent_of.and_then(|it| it.parse().ok()) == Some(parent)
            && words.split(|byte| *byte == 0).any(|it| it == word)
    };
    pids.into_iter().find(is_child)
}

/// Checks what is left at the end of every run.
fn check_end(sealed: &Sealed, context: &str) {
    assert_eq!(sealed.survivors(), Vec::<String>::new(), "{context}");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{context}");
    let list: Value = serde_json::from_str(&sealed.read_file("plan.json")).expect("a list");
    for task in list["tasks"].as_array().expect("tasks") {
        assert_eq!(task["status"], "done", "{context}");
    }
    let format = "--format=%(trailers:key=Ralph-Task,valueonly,separator=%x2c)";
    let landed = sealed.run_git(&["log", "--first-parent", format]);
    let mut landed: Vec<&str> = landed.lines().filter(|line| !line.is_empty()).collect();
    landed.sort_unstable();
    assert_eq!(landed, ["a", "b", "c"], "{context}");
    assert_eq!(sealed.read_file("shared.txt"), "a\nb\n", "{context}");
    assert_eq!(sealed.run_git(&["log", "--merges", "--format=%H"]), "", "{context}");
}
