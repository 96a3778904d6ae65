//! The examples of the repository do what their descriptions say.

use std::fs;
use std::path::Path;

use serde_json::json;

use ralph_testkit::sealed::Sealed;

use super::{assert_clean, assert_statuses, build, commit_all, made};
use crate::repository;

/// Returns a repository with a copy of an example.
fn example(name: &str) -> Sealed {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("an example") {
            let entry = entry.expect("an entry");
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).expect("copied");
            }
        }
    }
    let sealed = repository();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    copy(&examples.join(name), &sealed.project());
    commit_all(&sealed);
    sealed
}

#[test]
fn the_orchestrator_rolls_back_and_amends_its_plan() {
    let sealed = example("orchestrator");
    build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        [
            "ralph[2]: TASK-001 — Add numbers",
            "ralph[3]: TASK-003 — Double a number",
            "ralph[4]: TASK-002 — Say how to use it"
        ]
    );
    assert_statuses(&sealed, &[("TASK-001", "done"), ("TASK-003", "done"), ("TASK-002", "done")]);
    assert_clean(&sealed);
    let kept = sealed.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    let [kept] = &kept.lines().collect::<Vec<_>>()[..] else { panic!("{kept}") };
    assert!(sealed.git(&["show", &format!("{kept}:lib/add.sh")]).contains("XXX"));
    assert!(sealed.prompts()[1].contains("FAIL  lib/add.sh 1 2 3: wanted 6, got 3"));
    assert!(sealed.read(".ralph/logs/amendments.log").contains("add TASK-003 after TASK-001"));
    assert!(sealed.read(".ralph/handoffs/handoff-004.json").contains("USAGE.md"));
}

#[test]
fn gated_tasks_escalate_and_are_judged() {
    let sealed = example("gated-tasks");
    build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        ["ralph[5]: count — Count words", "ralph[6]: longest — Find the longest word"]
    );
    assert_statuses(&sealed, &[("count", "done"), ("longest", "done")]);
    assert_clean(&sealed);
    let prompts = sealed.prompts();
    let shifted: Vec<usize> = (0..prompts.len())
        .filter(|at| prompts[*at].contains("## Another approach is required"))
        .collect();
    assert_eq!(shifted, [3]);
    let told = "count.sh: empty input gives nothing, not 0.";
    assert!(prompts.iter().any(|prompt| prompt.contains(told)));
    let checked = sealed.events_of("gate_checked");
    let soft = checked.iter().filter(|event| event["result"]["gate"] == json!("quality"));
    assert!(soft.clone().count() == 2 && soft.clone().all(|it| it["result"]["status"] == "failed"));
    assert_eq!(sealed.read("count.sh"), "wc -w | tr -d ' '\n");
}
