//! Reports about bad files; files on disk.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes its snapshots so")]

use std::fs::{FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use expect_test::{Expect, expect};
use proptest::prelude::*;
use ralph_model::ids::TaskId;
use ralph_model::task::{TaskFields, TaskStatus};

use super::*;

const GOOD: &str = r#"{"tasks": [
  {"id": "T1", "title": "t", "description": "d", "status": "pending", "acceptance_criteria": ["x"]}
]}"#;

fn shown(result: Result<TaskFile, Vec<FileProblem>>) -> String {
    let problems = result.expect_err("there are mistakes");
    problems.iter().flat_map(|problem| [problem.to_string(), "\n".into()]).collect()
}

#[track_caller]
fn check(text: &str, expect: &Expect) {
    expect.assert_eq(&shown(TaskFile::from_text(Path::new("plan.json"), text.into())));
}

#[test]
fn a_file_that_is_no_task_file_is_reported() {
    check(
        "",
        &expect![[r#"
            plan.json: is empty (write `{"tasks": []}` for no tasks)
        "#]],
    );
    check(
        "\u{feff} \r\n",
        &expect![[r#"
            plan.json: is empty (write `{"tasks": []}` for no tasks)
        "#]],
    );
    check(
        "[]",
        &expect![[r#"
        plan.json:1:1: must be an object, not a list (a task file is an object with `tasks` or `userStories`)
    "#]],
    );
    check(
        "null",
        &expect![[r#"
        plan.json:1:1: must be an object, not null (a task file is an object with `tasks` or `userStories`)
    "#]],
    );
    check(
        "{}",
        &expect![[r#"
        plan.json:1:1: has no tasks (a task file is an object with `tasks` or `userStories`)
    "#]],
    );
    check(
        "{\"tasks\": [], \"userStories\": []}",
        &expect![[r#"
        plan.json:1:1: has both `tasks` and `userStories` (keep the one that holds the tasks)
    "#]],
    );
    check(
        "{\"tasks\": {}}",
        &expect![[r#"
        plan.json:1:11: tasks: must be a list, not an object
    "#]],
    );
    check(
        "{\"userStories\": [7, []]}",
        &expect![[r#"
        plan.json:1:18: userStories[0]: must be an object, not a number (a task is an object with `id`, `title` and more)
        plan.json:1:21: userStories[1]: must be an object, not a list (a task is an object with `id`, `title` and more)
    "#]],
    );
}

#[test]
fn malformed_json_is_reported_with_its_position() {
    check(
        "{\"tasks\": [\n  {\"id\": \"T1\",}\n]}",
        &expect![[r#"
            plan.json:2:15: not valid JSON: key must be a string (remove the comma after the last entry)
        "#]],
    );
    check(
        "{\"tasks\": [\n  {\"id\": \"T1\" \"title\": 1}\n]}",
        &expect![[r#"
        plan.json:2:15: not valid JSON: expected `,` or `}` (is there a comma missing before this?)
    "#]],
    );
    check(
        "\u{feff}{\r\n  // the tasks\r\n  \"tasks\": []}",
        &expect![[r#"
        plan.json:2:3: not valid JSON: key must be a string (JSON has no comments; remove it)
    "#]],
    );
    check(
        "{\"tasks\": [",
        &expect![[r#"
        plan.json:1:11: not valid JSON: EOF while parsing a list (a closing bracket or quote is missing)
    "#]],
    );
    check(
        "{\"tasks\": []} x",
        &expect![[r#"
        plan.json:1:15: not valid JSON: trailing characters
    "#]],
    );
}

#[test]
fn every_mistake_of_a_plan_is_reported_at_once() {
    check(
        r#"{
  "project": 7,
  "max_iterations": -1,
  "validation_strategy": "strickt",
  "verify_commands": "make",
  "project": "again",
  "tasks": [
    {"id": 1, "title": ["t"], "description": null, "acceptance_criteria": "x", "status": "pendng"},
    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["a", 2, "\ud800"],
     "order": 1.5, "needs_docs": "yes", "depends_on": ["1", "T3", "T2"], "retry_count": 99999999999},
    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": [],
     "depends_on": ["T4"], "dependsOn": ["T2"], "status": "completed", "review_status": "changes_requested"},
    {"id": "T4", "title": "t", "description": "d", "acceptance_criteria": ["x"],
     "depends_on": ["T5"], "notes": 1},
    {"id": "T5", "title": "t", "description": "d", "acceptance_criteria": ["x"], "depends_on": ["T4"]}
  ]
}"#,
        &expect![[r#"
            plan.json:2:14: project: must be a string, not a number (put it in quotes)
            plan.json:3:21: max_iterations: must be a whole number from 0 (without quotes, sign or fraction)
            plan.json:4:26: validation_strategy: unknown validation strategy `strickt` (did you mean `strict`?)
            plan.json:5:22: verify_commands: must be a list of strings, not a string (write `[…]`)
            plan.json:6:3: project: is there twice (remove one of them)
            plan.json:8:12: tasks[0].id: must be a string, not a number (put it in quotes: "1")
            plan.json:8:24: tasks[0].title: must be a string, not a list (put it in quotes)
            plan.json:8:46: tasks[0].description: task `1` has no description (describe what is wanted)
            plan.json:8:75: tasks[0].acceptance_criteria: must be a list of strings, not a string (write `[…]`)
            plan.json:8:90: tasks[0].status: unknown status `pendng` (did you mean `pending`?)
            plan.json:9:81: tasks[1].acceptance_criteria[1]: must be a string, not a number (put it in quotes)
            plan.json:9:84: tasks[1].acceptance_criteria[2]: holds half a character (`\ud800` to `\udfff` only come in pairs)
            plan.json:10:15: tasks[1].order: must be a whole number (lower comes first)
            plan.json:10:34: tasks[1].needs_docs: must be true or false, not a string (without quotes)
            plan.json:10:55: tasks[1].depends_on: task `T2` waits for itself: T2 → T2 (remove one of these dependencies)
            plan.json:10:61: tasks[1].depends_on[1]: task `T2` depends on an unknown task `T3` (add that task, or remove the dependency)
            plan.json:10:89: tasks[1].retry_count: must be a whole number from 0 (without quotes, sign or fraction)
            plan.json:11:5: tasks[2].review_feedback: task `T2` has changes requested without feedback (add what to fix and where)
            plan.json:11:12: tasks[2].id: task `T2` has the id of another task, number 2 in the list (give one of them another id)
            plan.json:11:75: tasks[2].acceptance_criteria: task `T2` has no acceptance criteria (add conditions for being done)
            plan.json:12:28: tasks[2].dependsOn: is there twice: it is a spelling of `depends_on` (remove one of them)
            plan.json:12:59: tasks[2].status: unknown status `completed` (it is one of pending, in_progress, done, failed, skipped)
            plan.json:14:20: tasks[3].depends_on: task `T4` waits for itself: T4 → T5 → T4 (remove one of these dependencies)
            plan.json:14:37: tasks[3].notes: must be a string, not a number (put it in quotes)
        "#]],
    );
}

#[test]
fn every_mistake_of_a_list_of_stories_is_reported_at_once() {
    check(
        r#"{
  "userStories": [
    {"id": "US-001", "title": "t", "acceptanceCriteria": ["x"], "passes": "no", "priority": "high"},
    {"id": "US-002", "title": "t", "description": "d", "acceptanceCriteria": ["x"],
     "passes": true, "status": "failed"},
    {"id": "US-003", "title": "t", "description": "d", "acceptanceCriteria": ["x"],
     "passes": true, "reviewStatus": "needs-review", "reviewCount": "1"},
    {"id": "US-004", "title": "t", "description": "d", "acceptanceCriteria": ["x"],
     "passes": false, "reviewStatus": "approved", "dependsOn": ["US-04"]}
  ]
}"#,
        &expect![[r#"
            plan.json:3:5: userStories[0].description: task `US-001` has no description (describe what is wanted)
            plan.json:3:75: userStories[0].passes: must be true or false, not a string (without quotes)
            plan.json:3:93: userStories[0].priority: must be a whole number (lower comes first)
            plan.json:5:16: userStories[1].passes: is true although `status` says `failed` (make them agree)
            plan.json:7:38: userStories[2].reviewStatus: unknown review status `needs-review` (did you mean `needs_review`?)
            plan.json:7:69: userStories[2].reviewCount: must be a whole number from 0 (without quotes, sign or fraction)
            plan.json:9:39: userStories[3].reviewStatus: task `US-004` is approved but not done (mark it done, or remove the approval)
            plan.json:9:65: userStories[3].dependsOn[0]: task `US-004` depends on an unknown task `US-04` (add that task, or remove the dependency)
        "#]],
    );
}

#[test]
fn expected_paths_are_read_kept_and_written() {
    let read = |text: &str| TaskFile::from_text(Path::new("plan.json"), text.to_owned());
    for key in ["tasks", "userStories"] {
        let task = r#"{"id": "a", "title": "t", "description": "d", "acceptanceCriteria": ["c"]"#;
        let text = format!(r#"{{"{key}": [{task}, "touches": ["src/**"]}}, {task}}}]}}"#).replacen(
            r#"{"id": "a""#,
            r#"{"id": "b""#,
            1,
        );
        let mut file = read(&text).expect("valid");
        assert_eq!(file.list().tasks[0].touches, ["src/**"]);
        let touches = Some(vec!["docs/".to_owned()]);
        for id in ["a", "b"] {
            let fields = Box::new(TaskFields { touches: touches.clone(), ..TaskFields::default() });
            let change = TaskChange::Modify { task: TaskId(id.into()), fields };
            file.apply_changes(&[change]).expect("possible");
        }
        let written = file.text().matches(r#""touches": ["docs/"]"#).count();
        assert_eq!(written, 2, "{}", file.text());
        assert_eq!(read(file.text()).expect("valid").list(), file.list());
        let problems = read(&text.replace("src/**", "src/[a")).expect_err("a bad glob");
        let message = "touches[0]: task `b` has a bad path: unclosed character class";
        assert!(problems[0].to_string().contains(message), "{}", problems[0]);
    }
}

#[test]
fn an_unreadable_file_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let fifo = here.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe");
    symlink(&fifo, here.join("link")).expect("a link");
    fs::write(here.join("latin"), b"{\"tasks\":\n [\"\xe4\"]}").expect("a file");
    let large = File::create(here.join("large")).expect("a file");
    large.set_len(100 << 20).expect("a hole costs nothing");
    let mut text = String::new();
    for name in ["gone", ".", "fifo", "link", "latin", "large"] {
        let problems = shown(TaskFile::read(&here.join(name)));
        text.push_str(&problems.replace(&here.display().to_string(), ""));
    }
    expect![[r#"
        /gone: there is no such file (is the name right?)
        /.: is not a file (name the task file itself)
        /fifo: is not a file (name the task file itself)
        /link: is not a file (name the task file itself)
        /latin:2:4: is not UTF-8 (save it as UTF-8)
        /large: is larger than 64 MiB (split the list)
    "#]]
    .assert_eq(&text);
}

fn done() -> [TaskChange; 1] {
    [TaskChange::SetStatus { task: TaskId("T1".into()), status: TaskStatus::Done }]
}

#[test]
fn a_file_is_replaced_with_a_backup_and_its_permissions() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("plan.json");
    fs::write(&path, GOOD).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("allowed");
    let mut file = TaskFile::read(&path).expect("valid");
    let backup = directory.path().join("plan.json.bak");
    file.write(&backup).expect("nothing to write");
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1);

    file.apply_changes(&done()).expect("possible");
    file.write(&backup).expect("written");
    assert_eq!(fs::read_to_string(&path).expect("readable"), GOOD.replace("pending", "done"));
    assert_eq!(fs::read_to_string(&backup).expect("readable"), GOOD);
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o664);
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 2);
}

#[test]
fn changes_of_others_are_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("plan.json");
    fs::write(&path, GOOD).expect("a file");
    let mut file = TaskFile::read(&path).expect("valid");
    file.apply_changes(&done()).expect("possible");
    fs::write(&path, "{}").expect("another program");
    let backup = directory.path().join("plan.json.bak");
    assert!(matches!(file.write(&backup), Err(WriteError::Changed(_))));
    assert_eq!(fs::read_to_string(&path).expect("readable"), "{}");
}

/// Writes something of the same length into a file, and sets its times back.
fn edit_in_secret(path: &Path, from: &str, to: &str) {
    let before = fs::metadata(path).expect("there");
    let text = fs::read_to_string(path).expect("readable");
    assert_eq!((from.len(), text.contains(from)), (to.len(), true));
    fs::write(path, text.replace(from, to)).expect("written");
    let times = FileTimes::new()
        .set_accessed(before.accessed().expect("known"))
        .set_modified(before.modified().expect("known"));
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    file.set_times(times).expect("set");
}

#[test]
fn changes_of_a_file_are_noticed() {
    type Action = fn(&Path);
    let actions: [(&str, [bool; 2], Action); 7] = [
        ("nothing", [true, true], |_| ()),
        ("touched", [true, false], |path| {
            let file = OpenOptions::new().write(true).open(path).expect("opened");
            file.set_times(FileTimes::new().set_modified(std::time::UNIX_EPOCH)).expect("set");
        }),
        ("replaced by the same", [true, false], |path| {
            fs::write(path.with_extension("new"), GOOD).expect("written");
            fs::rename(path.with_extension("new"), path).expect("replaced");
        }),
        ("longer", [false, false], |path| fs::write(path, format!("{GOOD}\n")).expect("written")),
        ("removed", [false, false], |path| fs::remove_file(path).expect("removed")),
        ("a directory", [false, false], |path| {
            fs::remove_file(path).expect("removed");
            fs::create_dir(path).expect("made");
        }),
        ("edited in secret", [false, false], |path| edit_in_secret(path, "pending", "skipped")),
    ];
    for (what, expect, action) in actions {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plan.json");
        fs::write(&path, GOOD).expect("a file");
        let mut file = TaskFile::read(&path).expect("valid");
        // The time of the last change is as coarse as a tick of the kernel's clock.
        let looked = fs::metadata(&path).expect("there").ctime_nsec();
        while {
            fs::write(path.with_extension("tick"), "").expect("written");
            fs::metadata(path.with_extension("tick")).expect("there").ctime_nsec() == looked
        } {}
        action(&path);
        let outside = file.looks_current();
        assert_eq!([file.is_current(), outside], expect, "{what}");
        // After a comparison the file is known by its metadata.
        assert_eq!(file.looks_current(), expect[0], "{what}");
    }
}

#[test]
fn changes_are_written_at_once_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("plan.json");
    let backup = directory.path().join("kept/plan.json.bak");
    fs::create_dir(directory.path().join("kept")).expect("made");
    fs::write(&path, GOOD).expect("a file");
    let read = || TaskFile::read(&path).expect("valid");
    let same = read().change_on_disk(&[], &backup).expect("nothing to do");
    assert!(same.looks_current() && !backup.exists());
    let mut file = read().change_on_disk(&done(), &backup).expect("written");
    assert!(file.looks_current() && file.is_current());
    assert_eq!(fs::read_to_string(&path).expect("readable"), GOOD.replace("pending", "done"));
    assert_eq!(fs::read_to_string(&backup).expect("readable"), GOOD);
    let unknown = TaskChange::Remove { task: TaskId("T9".into()) };
    let error = read().change_on_disk(&[unknown], &backup).expect_err("no such task");
    assert_eq!(error.to_string(), "there is no task `T9`");
    let stale = read();
    fs::write(&path, "{}").expect("another program");
    let undo = TaskChange::SetStatus { task: TaskId("T1".into()), status: TaskStatus::Failed };
    let error = stale.change_on_disk(&[undo], &backup).expect_err("changed");
    assert!(matches!(error, WriteError::Changed(_)), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("readable"), "{}");
}

#[test]
fn a_link_stays_a_link() {
    let directory = tempfile::tempdir().expect("a directory");
    let real = directory.path().join("real.json");
    let link = directory.path().join("plan.json");
    fs::write(&real, GOOD).expect("a file");
    symlink("real.json", &link).expect("a link");
    let mut file = TaskFile::read(&link).expect("valid");
    file.apply_changes(&done()).expect("possible");
    file.write(&directory.path().join("plan.json.bak")).expect("written");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(&real).expect("readable"), GOOD.replace("pending", "done"));
}

proptest! {
    /// Good files with something knocked out of them are read or refused, never more.
    #[test]
    fn nothing_makes_it_panic(at in 0usize..200, length in 0usize..20, with in "[\\[\\]{}\",:0a\\\\ \u{e4}]{0,5}") {
        let mut text = GOOD.to_owned();
        let at = at.min(text.len());
        text.replace_range(at..(at + length).min(text.len()), &with);
        if let Ok(mut file) = TaskFile::from_text(Path::new("plan.json"), text.clone()) {
            prop_assert_eq!(file.text(), &text);
            let _ = file.apply_changes(&done());
        }
    }
}

#[test]
fn a_list_is_cut_to_one_task_and_those_that_it_depends_on() {
    for text in [
        r#"{"project": "p", "tasks": [
            {"id": "a", "title": "A", WANTED, "status": "done", "depends_on": ["z"]},
            {"id": "b", "title": "B", WANTED, "status": "pending"},
            {"id": "c", "title": "C", WANTED, "status": "pending", "depends_on": ["a"], "own": 1},
            {"id": "z", "title": "Z", WANTED, "status": "done"}
        ]}"#,
        r#"{"project": "p", "userStories": [
            {"id": "a", "title": "A", WANTED, "passes": true, "dependsOn": ["z"]},
            {"id": "b", "title": "B", WANTED, "passes": false},
            {"id": "c", "title": "C", WANTED, "passes": false, "dependsOn": ["a"], "own": 1},
            {"id": "z", "title": "Z", WANTED, "passes": true}
        ]}"#,
    ] {
        let path = Path::new("plan.json");
        let wanted = r#""description": "d", "acceptance_criteria": ["c"]"#;
        let file = TaskFile::from_text(path, text.replace("WANTED", wanted)).expect("a list");
        let cut = file.cut_to_task(&TaskId("c".into()));
        assert!(cut.contains("\"own\": 1") && !cut.contains("\"B\""), "{cut}");
        let cut = TaskFile::from_text(path, cut).expect("still a list");
        let ids: Vec<&str> = cut.list().tasks.iter().map(|it| it.id.0.as_str()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(cut.list().tasks[0].status, ralph_model::task::TaskStatus::Done);
    }
}
