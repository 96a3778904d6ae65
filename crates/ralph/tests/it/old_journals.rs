//! Runs of an older version that were killed or stopped in every phase of every workflow: they are
//! shown, resumed, and end as they would have without a kill. `scripts/record-journals` made them.
//! Not here: the fold of their journals, which the test kit checks event by event.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use ralph_io::store::layout::ProjectLayout;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

/// Stands for the sealed directory in the recorded files.
const ROOT: &str = "@ROOT@";

/// Stands for the name of the project's state directory.
const STATE: &str = "@STATE@";

/// Unpacks a recorded run into a new environment.
fn unpack(recording: &Path) -> Sealed {
    let sealed = crate::sealed();
    let mut unpacking = sealed.build_command("tar");
    unpacking.args(["-xzmf"]).arg(recording.join("files.tar.gz")).current_dir(sealed.root());
    assert!(unpacking.status().expect("tar runs").success());
    // A gate of its own that ralph gives a run names its binary.
    let binary = sealed.root().join("tools/ralph");
    fs::create_dir(sealed.root().join("tools")).expect("a directory");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ralph"), binary).expect("a link");
    let (project, states) = (sealed.project_dir(), sealed.state_dir());
    let layout = ProjectLayout::for_project(&project, &project, &states).expect("a project");
    let state = layout.state();
    fs::rename(states.join(STATE), state).expect("a state");
    let run = fs::read_dir(state.join("runs")).expect("runs").flatten().next().expect("a run");
    fs::copy(recording.join("journal.jsonl"), run.path().join("journal.jsonl")).expect("a journal");
    let name = state.file_name().expect("a name").to_string_lossy().into_owned();
    fill_in(sealed.root(), &sealed.root().to_string_lossy(), &name);
    sealed
}

/// Fills in the names that are different in every environment.
fn fill_in(directory: &Path, root: &str, state: &str) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            fill_in(&path, root, state);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
            && (text.contains(ROOT) || text.contains(STATE))
        {
            fs::write(&path, text.replace(ROOT, root).replace(STATE, state)).expect("written");
        }
    }
}

/// Returns the lines of a git command that must be the same at the end.
fn list_lines(sealed: &Sealed, args: &[&str]) -> Vec<String> {
    sealed.run_git(args).lines().map(str::to_owned).collect()
}

/// Returns the files of a commit. Some have times in them.
fn list_files(sealed: &Sealed, commit: &str) -> Vec<String> {
    let is_dated = |path: &str| {
        ["progress.txt", "plan.json", "tasks.json"].iter().any(|dated| path.ends_with(dated))
    };
    let lines = list_lines(sealed, &["ls-tree", "-r", commit]);
    let shorten = |line: String| match line.split_once('\t') {
        Some((_, path)) if is_dated(path) => path.to_owned(),
        _ => line.splitn(3, ' ').last().unwrap_or_default().to_owned(),
    };
    lines.into_iter().map(shorten).collect()
}

fn read_end(sealed: &Sealed) -> Value {
    let branches =
        list_lines(sealed, &["for-each-ref", "--format=%(refname:short)", "refs/heads/wip"]);
    let failed: Vec<Vec<String>> = branches
        .into_iter()
        .map(|branch| {
            let files = list_files(sealed, &branch);
            [vec![branch], files].concat()
        })
        .collect();
    json!({
        "subjects": list_lines(sealed, &["log", "--format=%s", "main"]),
        "files": list_files(sealed, "main"),
        "failed": drop_times(&json!(failed)),
        "status": list_lines(
            sealed,
            &["status", "--porcelain", "--untracked-files=all", "--", ":!.ralph"]
        ),
    })
}

/// Drops the times from failure branches: they are in the name, and in the report on it.
fn drop_times(failed: &Value) -> Value {
    let drop_time = |line: &str| match line.split_once('\t') {
        Some((_, "ralph-failure.md")) => "ralph-failure.md".to_owned(),
        Some(_) => line.to_owned(),
        None => line.trim_end_matches(|it: char| it.is_ascii_digit() || it == '-').to_owned(),
    };
    let branches = failed.as_array().into_iter().flatten();
    let lines = branches.map(|branch| branch.as_array().into_iter().flatten());
    lines.map(|it| it.filter_map(Value::as_str).map(drop_time).collect::<Vec<_>>()).collect()
}

/// Returns the agent's own record of its calls.
fn read_calls(sealed: &Sealed) -> Vec<String> {
    let text = fs::read_to_string(sealed.root().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn check(recording: &Path) {
    let name = recording.file_name().expect("a name").to_string_lossy();
    let text = fs::read_to_string(recording.join("expect.json")).expect("an expectation");
    let expect: Value = serde_json::from_str(&text).expect("JSON");
    let sealed = unpack(recording);
    let run = sealed.runs().pop().expect("a run");
    let run = run.file_name().expect("a name").to_string_lossy().into_owned();
    let status = sealed.run_ralph(&["status"]);
    assert_eq!(status.code, Some(0), "{name}: {}", status.stderr);
    assert!(status.stdout.contains(&run), "{name}: no {run} in\n{}", status.stdout);
    let args: Vec<&str> =
        expect["resume"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
    let end = sealed.run_ralph(&args);
    assert_eq!(json!(end.code), expect["code"], "{name}: {}", end.stderr);
    let found = read_end(&sealed);
    for part in ["subjects", "files", "status"] {
        assert_eq!(found[part], expect[part], "{name}, {part}: {}", end.stderr);
    }
    assert_eq!(found["failed"], drop_times(&expect["failed"]), "{name}: {}", end.stderr);
    assert_eq!(sealed.survivors(), [""; 0], "{name}");
    check_calls(&name, &read_calls(&sealed), &expect);
}

/// Nothing is asked for that was answered: at most the call that was killed is made again, with
/// the next number.
fn check_calls(name: &str, calls: &[String], expect: &Value) {
    let usual = expect["calls"].as_u64().expect("a number");
    assert!(calls.len() as u64 <= usual + 1, "{name}: {calls:#?}");
    let mut different = calls.to_vec();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), calls.len(), "{name}: {calls:#?}");
}

fn find_recordings() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journals");
    let entries = fs::read_dir(directory).expect("the recordings").flatten();
    let mut found: Vec<PathBuf> = entries.map(|it| it.path()).filter(|it| it.is_dir()).collect();
    found.sort();
    found
}

/// The recorded workflows, in groups that are tried side by side.
const GROUPS: [&[&str]; 5] = [
    &["prompt-", "delay-", "limit-", "rollback-", "at-will-"],
    &["specs-"],
    &["tasks-", "rejected-", "draft-", "memory-", "failing-"],
    &["stories-"],
    &["parallel-"],
];

/// Resumes every run of a group of workflows, two at a time.
fn check_group(group: usize) {
    let is_in = |path: &PathBuf, group: &[&str]| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        group.iter().any(|workflow| name.starts_with(workflow))
    };
    let mut recordings = find_recordings();
    let is_in_any = |path: &PathBuf| GROUPS.iter().any(|group| is_in(path, group));
    assert!(recordings.iter().all(is_in_any), "each belongs to a group: {recordings:?}");
    recordings.retain(|path| is_in(path, GROUPS[group]));
    assert!(!recordings.is_empty());
    let (even, odd): (Vec<_>, Vec<_>) =
        recordings.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    thread::scope(|scope| {
        for half in [&even, &odd] {
            scope.spawn(move || half.iter().for_each(|(_, recording)| check(recording)));
        }
    });
}

#[test]
fn old_runs_of_a_prompt_are_resumed() {
    check_group(0);
}

#[test]
fn old_runs_by_specifications_are_resumed() {
    check_group(1);
}

#[test]
fn old_runs_of_a_task_list_that_ralph_keeps_are_resumed() {
    check_group(2);
}

#[test]
fn old_runs_of_a_task_list_that_the_agent_keeps_are_resumed() {
    check_group(3);
}

/// Their clones and workers are lost as well.
#[test]
fn old_runs_with_workers_are_resumed() {
    check_group(4);
}
