//! The examples of the repository do what their descriptions say.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

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
fn stories_are_planned_kept_by_the_agent_reviewed_and_archived() {
    let sealed = example("reviewed-stories");
    sealed.ralph(&["plan"]).expect_code(0);
    let end = build(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("put back in the task list: Story `US-002`"), "{}", end.stderr);
    sealed.ralph(&["archive", "--label", "slugs"]).expect_code(0);
    let made = made(&sealed);
    assert_eq!(
        made[..9],
        [
            "ralph[1]: plan — 2 stories for Slugs",
            "feat: [US-001] - Print the slug of a title",
            "review: [US-001] - changes requested",
            "fix: [US-001] - address review feedback",
            "review: [US-001] - approved",
            "feat: [US-002] - Show how to use it",
            "ralph[5]: the list after US-002 — Show how to use it",
            "feat: [US-002] - Show how to use it, twice",
            "review: [US-002] - approved",
        ]
    );
    assert_eq!(made.len(), 10);
    let archive = fs::read_dir(sealed.project().join("ralph-archive"));
    let archive = archive.expect("an archive").next().expect("one").expect("an entry").path();
    let kept = |name: &str| fs::read_to_string(archive.join(name)).expect(name);
    assert!(kept("summary.md").contains("## Completed: 2/2 tasks"), "{}", kept("summary.md"));
    let list: Value = serde_json::from_str(&kept("tasks.json")).expect("JSON");
    let counts: Vec<&Value> = (list["userStories"].as_array().expect("stories").iter())
        .map(|story| &story["reviewCount"])
        .collect();
    assert_eq!(counts, [&json!(2), &json!(1)]);
    assert!(kept("progress.txt").contains("- US-001 (fix): hyphens at the ends are cut"));
    assert_clean(&sealed);
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
