//! Task lists owned by the agent: it edits the file and commits; changes outside its role are
//! reverted, reported and fed back.

use rustix::process::Signal;
use serde_json::{Value, json};

use ralph_testkit::sealed::{Sealed, merge_into};

use super::{assert_clean, build, commit_all};
use crate::repository;
use crate::users_refs::{DESTROY, UsersRefs, all_backends, expect_report, ralph_in};

/// A shell function that changes a field of a story, which is on its own line.
const SET: &str =
    r#"set_in() { sed -i "/\"id\": \"$1\"/,/}/ s|\"$2\": .*[^,]|\"$2\": $3|" ralph/tasks.json; }"#;

pub(super) fn story(id: &str) -> Value {
    json!({
        "id": id, "title": format!("Story {id}"), "description": format!("Make {id}."),
        "acceptanceCriteria": [format!("{id} is there")], "priority": 1, "passes": false,
        "reviewStatus": null, "reviewCount": 0, "reviewFeedback": "", "notes": "", "dependsOn": []
    })
}

/// A repository with a list of stories that the agent owns.
pub(super) fn project(ids: &[&str], calls: &Value, settings: Value) -> Sealed {
    let sealed = repository();
    let mut all = json!({ "tasks": { "keeper": "agent" } });
    merge_into(&mut all, &settings);
    sealed.write_script(calls, &all);
    let stories: Vec<Value> = ids.iter().map(|id| story(id)).collect();
    let list = json!({
        "project": "p", "branchName": "ralph/p", "description": "d", "userStories": stories
    });
    sealed.write_file("ralph/tasks.json", &format!("{list:#}\n"));
    sealed.write_file("ralph/progress.txt", "# Progress\n\n## Codebase Patterns\n\n---\n");
    commit_all(&sealed);
    sealed
}

/// A call in which the agent runs a command and prints a text.
pub(super) fn does(role: &str, command: &str) -> Value {
    json!({ "when": { "role": role }, "do": [
        { "run": { "command": format!("set -e; {SET}; {command}") } },
        { "text": "Did it." }
    ] })
}

pub(super) fn once(mut call: Value) -> Value {
    call["repeat"] = json!(1);
    call
}

pub(super) const IMPLEMENT: &str = "echo \"$RALPH_ITERATION\" > \"$RALPH_TASK.txt\"; \
    set_in \"$RALPH_TASK\" reviewStatus '\"needs_review\"'; \
    set_in \"$RALPH_TASK\" notes '\"Wrote the file\"'; \
    echo \"- $RALPH_TASK\" >> ralph/progress.txt; \
    git add -A; git commit -qm \"feat: [$RALPH_TASK] - Story\"";
const ASK_FOR_CHANGES: &str = "set_in \"$RALPH_TASK\" reviewStatus '\"changes_requested\"'; \
    set_in \"$RALPH_TASK\" reviewCount 1; \
    set_in \"$RALPH_TASK\" reviewFeedback '\"Fix the file\"'; \
    git commit -qam \"review: [$RALPH_TASK] - changes requested\"";
const FIX: &str = "echo fixed >> \"$RALPH_TASK.txt\"; \
    set_in \"$RALPH_TASK\" reviewStatus '\"needs_review\"'; \
    set_in \"$RALPH_TASK\" reviewFeedback '\"\"'; \
    git commit -qam \"fix: [$RALPH_TASK] - address review feedback\"";
pub(super) const APPROVE: &str = "set_in \"$RALPH_TASK\" reviewStatus '\"approved\"'; \
    set_in \"$RALPH_TASK\" reviewCount $(($(grep -A9 \"\\\"id\\\": \\\"$RALPH_TASK\\\"\" ralph/tasks.json | sed -n 's/.*reviewCount\": \\([0-9]*\\).*/\\1/p') + 1)); \
    set_in \"$RALPH_TASK\" passes true; \
    git commit -qam \"review: [$RALPH_TASK] - approved\"";

#[track_caller]
fn stories(sealed: &Sealed) -> Vec<Value> {
    let list: Value = serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
    list["userStories"].as_array().expect("stories").clone()
}

/// Id, passes, review status and count of every story.
#[track_caller]
pub(super) fn standing(sealed: &Sealed) -> Vec<(String, bool, String, u64)> {
    stories(sealed)
        .iter()
        .map(|story| {
            (
                story["id"].as_str().unwrap_or_default().to_owned(),
                story["passes"] == true,
                story["reviewStatus"].as_str().unwrap_or("null").to_owned(),
                story["reviewCount"].as_u64().unwrap_or(99),
            )
        })
        .collect()
}

fn made(sealed: &Sealed) -> Vec<String> {
    super::made(sealed)
}

#[test]
fn refs_that_an_agent_deletes_are_restored_although_it_keeps_the_list() {
    for backend in all_backends() {
        let destroys = format!("{IMPLEMENT}; set +e; {DESTROY}; true");
        let calls = json!([
            does("review", APPROVE),
            once(does("implement", &destroys)),
            does("fix", IMPLEMENT),
            does("implement", IMPLEMENT),
        ]);
        let sealed = project(&["US-1"], &calls, json!({}));
        sealed.run_git(&["checkout", "--quiet", "-b", "ralph/p"]);
        let refs = UsersRefs::make(&sealed);
        sealed.run_git(&["checkout", "--quiet", "ralph/p"]);
        let end = ralph_in(&sealed, backend, &["build"]).expect_code(0);
        refs.expect_all(&sealed, backend);
        expect_report(&sealed, &end);
        let done = [("US-1".to_owned(), true, "approved".to_owned(), 1)];
        assert_eq!(standing(&sealed), done, "{backend}");
    }
}

#[test]
fn the_whole_cycle_is_the_agents_own_work() {
    let calls = json!([
        once(does("review", ASK_FOR_CHANGES)),
        does("review", APPROVE),
        does("fix", FIX),
        does("implement", IMPLEMENT),
    ]);
    let sealed = project(&["US-1", "US-2"], &calls, json!({}));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        [
            "feat: [US-1] - Story",
            "review: [US-1] - changes requested",
            "fix: [US-1] - address review feedback",
            "review: [US-1] - approved",
            "feat: [US-2] - Story",
            "review: [US-2] - approved",
        ]
    );
    assert_eq!(
        standing(&sealed),
        [
            ("US-1".to_owned(), true, "approved".to_owned(), 2),
            ("US-2".to_owned(), true, "approved".to_owned(), 1),
        ]
    );
    assert_eq!(sealed.read_file("US-1.txt"), "1\nfixed\n");
    let facts: Value =
        serde_json::from_str(&sealed.run_ralph(&["status", "--json"]).stdout).expect("JSON");
    assert_eq!(facts["totals"]["commits"], 6, "the agent's commits count");
    assert_clean(&sealed);
}

pub(super) const DONE: [(&str, bool, &str, u64); 1] = [("US-1", true, "approved", 1)];

#[track_caller]
pub(super) fn assert_standing(sealed: &Sealed, expect: &[(&str, bool, &str, u64)]) {
    let standing = standing(sealed);
    let standing: Vec<(&str, bool, &str, u64)> =
        standing.iter().map(|(id, is, status, count)| (&**id, *is, &**status, *count)).collect();
    assert_eq!(standing, expect);
}

/// The output without line wrapping.
fn shown(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_implementer_approves_its_own_work() {
    for backend in all_backends() {
        let cheat = "echo 1 > a.txt; set_in US-1 reviewStatus '\"approved\"'; set_in US-1 passes true; \
            set_in US-1 notes '\"Done\"'; git add -A; git commit -qm 'feat: [US-1] - all done'";
        let calls = json!([
            once(does("implement", cheat)),
            does("implement", IMPLEMENT),
            does("review", APPROVE),
        ]);
        let sealed = project(&["US-1"], &calls, json!({}));
        let end = ralph_in(&sealed, backend, &["build"]).expect_code(0);
        let message = shown(&end.stderr);
        assert!(
            message.contains("reverted in the task list: Story `US-1`: `passes` went from"),
            "{message}"
        );
        assert!(message.contains("Task US-1: not handed in as required"), "{message}");
        assert_eq!(
            made(&sealed),
            [
                "feat: [US-1] - all done",
                "ralph[1]: the list after US-1 — Story US-1",
                "feat: [US-1] - Story",
                "review: [US-1] - approved",
            ]
        );
        let prompts = sealed.prompts();
        assert!(prompts[1].contains("`reviewStatus` went from null to"), "{}", prompts[1]);
        assert_standing(&sealed, &DONE);
        let report = sealed.run_ralph(&["report"]).stdout;
        assert!(report.contains("reverted after implement"), "{report}");
        assert_clean(&sealed);
    }
}

#[test]
fn changes_outside_the_role_are_reverted_and_its_own_change_is_kept() {
    let greedy = format!(
        "set_in US-2 passes true; set_in US-2 reviewStatus '\"approved\"'; \
         sed -i 's/US-2 is there/US-2 may be there/' ralph/tasks.json; {IMPLEMENT}"
    );
    let calls = json!([
        once(does("implement", &greedy)),
        does("implement", IMPLEMENT),
        does("review", APPROVE),
    ]);
    let sealed = project(&["US-1", "US-2"], &calls, json!({}));
    build(&sealed, &["1"]).expect_code(1);
    assert_standing(&sealed, &[("US-1", false, "needs_review", 0), ("US-2", false, "null", 0)]);
    assert_eq!(stories(&sealed)[1]["acceptanceCriteria"], json!(["US-2 is there"]));
    assert_clean(&sealed);
    sealed.run_ralph(&["resume", "-m", "9"]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("not allowed and have been reverted already"), "{}", prompts[1]);
    assert_standing(&sealed, &[("US-1", true, "approved", 1), ("US-2", true, "approved", 1)]);
    assert_clean(&sealed);
}

#[test]
fn work_that_is_not_committed_is_not_handed_in() {
    let lazy = IMPLEMENT.replace("git add -A; git commit", "true");
    let calls = json!([
        once(does("implement", &lazy)),
        does("implement", IMPLEMENT),
        does("review", APPROVE),
    ]);
    let sealed = project(&["US-1"], &calls, json!({}));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("There are uncommitted changes"), "{}", prompts[1]);
    assert_eq!(made(&sealed), ["feat: [US-1] - Story", "review: [US-1] - approved"]);
    assert_standing(&sealed, &DONE);
    assert_clean(&sealed);
}

#[test]
fn unmarked_work_continues_and_other_notes_are_kept() {
    let unfinished = "echo 1 > a.txt; set_in US-1 notes '\"Half of it\"'; \
        git add -A; git commit -qm 'feat: [US-1] - half'";
    let calls = json!([
        once(does("implement", unfinished)),
        does("implement", IMPLEMENT),
        does("review", APPROVE),
    ]);
    let sealed = project(&["US-1"], &calls, json!({}));
    build(&sealed, &["1"]).expect_code(1);
    assert_eq!(stories(&sealed)[0]["notes"], "Half of it");
    sealed.run_ralph(&["resume", "-m", "9"]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("`US-1` is not handed in yet"), "{}", prompts[1]);
    assert_standing(&sealed, &DONE);
}

#[test]
fn code_changes_of_a_reviewer_are_reverted_and_its_verdict_counts() {
    let meddler = format!("echo better > US-1.txt; {APPROVE}");
    let calls = json!([does("review", &meddler), does("implement", IMPLEMENT)]);
    let sealed = project(&["US-1"], &calls, json!({}));
    let end = build(&sealed, &[]).expect_code(0);
    let message = shown(&end.stderr);
    assert!(
        message.contains(
            "files changed during the review: the changes, also any of yours, were undone; kept on"
        ),
        "{message}"
    );
    // The others are about the sandbox and the branch.
    assert!(message.contains(", 3 warnings"), "{message}");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("files changed during the review"), "{report}");
    assert_eq!(sealed.read_file("US-1.txt"), "1\n");
    assert_eq!(
        made(&sealed),
        ["feat: [US-1] - Story", "ralph[2]: review: approve US-1 — Story US-1"]
    );
    assert_standing(&sealed, &DONE);
    assert_clean(&sealed);
}

#[test]
fn a_question_for_a_missing_verdict_takes_no_iteration_of_the_limit() {
    let calls = json!([
        once(does("review", "echo looked")),
        does("review", APPROVE),
        does("implement", IMPLEMENT)
    ]);
    let sealed = project(&["US-1"], &calls, json!({}));
    build(&sealed, &["2"]).expect_code(0);
    assert_standing(&sealed, &[("US-1", true, "approved", 1)]);
    assert_eq!(sealed.find_events("iteration_started").len(), 3);
    let review = &sealed.prompts()[1];
    let author = "## What the author says\n";
    assert!(review.find(author) < review.find("which agents write:\nWrote the file"), "{review}");
    assert!(review.contains(author), "{review}");
}

#[test]
fn reviewer_without_verdict_is_asked_a_limited_number_of_times() {
    let calls = json!([does("review", "echo looked"), does("implement", IMPLEMENT)]);
    let sealed = project(&["US-1"], &calls, json!({}));
    let end = build(&sealed, &["40"]).expect_code(1);
    let message = shown(&end.stderr);
    assert!(message.contains("stuck, the same failure 5 times"), "{message}");
    assert_standing(&sealed, &[("US-1", false, "needs_review", 0)]);
    let prompts = sealed.prompts();
    assert!(prompts[2].contains("left no verdict in the task list"), "{}", prompts[2]);
    // The work is not reviewed again: the answer is quoted, and only the verdict is asked for.
    assert!(prompts[2].contains("The review answered:\n\n> Did it."), "{}", prompts[2]);
    assert!(prompts[2].contains("Do not review everything again"), "{}", prompts[2]);
    assert!(!prompts[2].contains("## The change"), "{}", prompts[2]);
    let (full, short) = (prompts[1].len(), prompts[2].len());
    assert!(short < full, "{short} characters after {full}");
    assert_clean(&sealed);
}

#[test]
fn the_cap_ends_reviews_that_the_agent_keeps() {
    let again = ASK_FOR_CHANGES.replace(
        "reviewCount 1",
        "reviewCount $(($(sed -n 's/.*reviewCount\": \\([0-9]*\\).*/\\1/p' ralph/tasks.json) + 1))",
    );
    let calls = json!([does("review", &again), does("fix", FIX), does("implement", IMPLEMENT)]);
    let sealed = project(&["US-1"], &calls, json!({}));
    let end = build(&sealed, &["--review-cap", "3"]).expect_code(1);
    assert_standing(&sealed, &[("US-1", true, "approved", 3)]);
    assert_eq!(stories(&sealed)[0]["reviewFeedback"], "[AUTO-APPROVED AT CAP] Fix the file");
    let screen = shown(&end.stderr);
    assert!(screen.contains("Task US-1: approved at the cap: "), "{screen}");
    assert_eq!(screen.matches("the review wants changes").count(), 2, "{screen}");
    let last = made(&sealed).pop().unwrap_or_default();
    assert!(last.contains("review: approve at the cap US-1"), "{last}");
    assert!(shown(&end.stderr).contains("do not converge"), "{}", end.stderr);
    assert_clean(&sealed);
}

#[test]
fn without_review_the_agent_completes_only_its_own_story() {
    let ticks = "echo 1 > \"$RALPH_TASK.txt\"; set_in US-1 passes true; set_in US-2 passes true; \
        set_in \"$RALPH_TASK\" notes '\"Did it\"'; git add -A; git commit -qm \"feat: $RALPH_TASK\"";
    let calls = json!([does("implement", ticks)]);
    let sealed = project(&["US-1", "US-2"], &calls, json!({}));
    build(&sealed, &["1", "--skip-review"]).expect_code(1);
    assert_standing(&sealed, &[("US-1", true, "null", 0), ("US-2", false, "null", 0)]);
    sealed.run_ralph(&["resume", "-m", "3"]).expect_code(0);
    assert_standing(&sealed, &[("US-1", true, "null", 0), ("US-2", true, "null", 0)]);
    assert_clean(&sealed);
}

#[test]
fn stories_and_checks_cannot_be_thrown_away() {
    for backend in all_backends() {
        let purge = "printf '%s' '{\"project\":\"p\",\"branchName\":\"b\",\"description\":\"d\",\
            \"verifyCommands\":[\"true\"],\"userStories\":[]}' > ralph/tasks.json; echo 1 > a.txt; \
            git add -A; git commit -qm 'feat: all done'";
        let damage = "echo '{' > ralph/tasks.json; echo 2 > a.txt; git commit -qam 'feat: worse'";
        let vanish =
            "git rm -q ralph/tasks.json; echo 3 > a.txt; git add -A; git commit -qm 'feat: gone'";
        let calls = json!([
            once(does("implement", purge)),
            once(does("implement", damage)),
            once(does("implement", vanish)),
            does("implement", IMPLEMENT),
            does("review", APPROVE),
        ]);
        let sealed = project(&["US-1", "US-2"], &calls, json!({}));
        let before = sealed.read_file("ralph/tasks.json");
        for iterations in ["1", "2", "3"] {
            let words = if iterations == "1" {
                vec!["build", "1"]
            } else {
                vec!["resume", "-m", iterations]
            };
            ralph_in(&sealed, backend, &words).expect_code(1);
            assert_eq!(
                sealed.read_file("ralph/tasks.json"),
                before,
                "after iteration {iterations}"
            );
            assert_clean(&sealed);
        }
        ralph_in(&sealed, backend, &["resume", "-m", "15"]).expect_code(0);
        assert_standing(&sealed, &[("US-1", true, "approved", 1), ("US-2", true, "approved", 1)]);
    }
}

#[test]
fn failed_gates_revert_the_list_change() {
    let sealed = project(
        &["US-1"],
        &json!([does("implement", IMPLEMENT)]),
        json!({ "gates": [{ "name": "t", "kind": "test", "command": "false" }], "baseline": "off" }),
    );
    build(&sealed, &["1"]).expect_code(1);
    assert_standing(&sealed, &[("US-1", false, "null", 0)]);
}

#[test]
fn list_is_restored_after_the_agent_is_killed() {
    let tick = format!(
        "set -e; {SET}; set_in US-1 reviewStatus '\"approved\"'; set_in US-1 passes true; \
         set_in US-1 reviewCount 1; set_in US-1 notes '\"x\"'; git commit -qam 'feat: done'"
    );
    let calls = json!([{ "do": [
        { "run": { "command": tick } },
        { "fail": { "class": "auth_required" } }
    ] }]);
    for keeper in ["agent", "ralph"] {
        let sealed = project(&["US-1"], &calls, json!({ "tasks": { "keeper": keeper } }));
        build(&sealed, &[]).expect_code(4);
        assert_standing(&sealed, &[("US-1", false, "null", 0)]);
    }
}

#[test]
fn ralph_can_own_the_list_while_the_agent_commits() {
    let uncommitted = super::writes("\"$RALPH_TASK.txt\"");
    let committed = json!({ "do": [
        { "run": { "command": "echo 2 > US-1.txt; git add -A; git commit -qm 'Make US-1'" } },
        super::handoff("Wrote it.")
    ] });
    let approves = json!({ "when": { "role": "review" }, "do": [
        { "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } }
    ] });
    let calls = json!([approves, once(uncommitted), committed]);
    let settings = json!({ "tasks": { "keeper": "ralph" }, "commit": "agent" });
    let sealed = project(&["US-1"], &calls, settings);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("There are uncommitted changes"), "{}", prompts[1]);
    assert!(prompts[2].contains("+++ b/US-1.txt"), "the review sees the work: {}", prompts[2]);
    assert_eq!(
        made(&sealed),
        [
            "Make US-1",
            "ralph[2]: the list after US-1 — Story US-1",
            "ralph[3]: review: approve US-1 — Story US-1",
        ]
    );
    assert_standing(&sealed, &DONE);
    assert_clean(&sealed);
}

#[test]
fn files_written_by_a_gate_are_not_committed_with_the_list() {
    let committed = json!({ "do": [
        { "run": { "command": "echo 1 > US-1.txt; git add -A; git commit -qm 'Make US-1'" } },
        super::handoff("Wrote it.")
    ] });
    let settings = json!({
        "tasks": { "keeper": "ralph" }, "commit": "agent", "review": { "enabled": false },
        "baseline": "off", "guardrails": [{ "command": "echo dropped > dropped.txt" }]
    });
    let sealed = project(&["US-1"], &json!([committed]), settings);
    build(&sealed, &[]).expect_code(0);
    assert_eq!(made(&sealed), ["Make US-1", "ralph[1]: the list after US-1 — Story US-1"]);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "?? dropped.txt\n");
}

#[test]
fn ralph_may_commit_a_list_that_the_agent_owns() {
    let uncommitted = |action: &str| action.split("git ").next().unwrap_or_default().to_owned();
    let calls =
        json!([does("review", &uncommitted(APPROVE)), does("implement", &uncommitted(IMPLEMENT)),]);
    let sealed = project(&["US-1"], &calls, json!({ "commit": "ralph" }));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        ["ralph[1]: US-1 — Story US-1", "ralph[2]: review: approve US-1 — Story US-1"]
    );
    assert_standing(&sealed, &DONE);
    assert_clean(&sealed);
}

/// An agent that marks everything as done and weakens the checks, and is then killed together with
/// ralph.
fn killed_in_the_act(settings: Value) -> Sealed {
    let tick = format!(
        "{SET}; for story in US-1 US-2; do set_in $story reviewStatus '\"approved\"'; \
         set_in $story passes true; set_in $story reviewCount 1; set_in $story notes '\"x\"'; done; \
         sed -i 's/\"false\"/\"true\"/' ralph/tasks.json; git commit -qam 'feat: done'; touch ticked"
    );
    let calls = json!([{ "do": [{ "run": { "command": tick } }, { "sleep": 60 }] }]);
    let sealed = project(&["US-1", "US-2"], &calls, settings);
    let list = sealed.read_file("ralph/tasks.json");
    let guarded = list.replacen("{\n", "{\n  \"verifyCommands\": [\n    \"false\"\n  ],\n", 1);
    sealed.write_file("ralph/tasks.json", &guarded);
    commit_all(&sealed);
    let running = sealed.start_ralph(&["build"]);
    sealed.wait_for("ticked");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    sealed
}

#[test]
fn list_changes_before_a_kill_are_not_trusted_by_the_next_run() {
    for keeper in ["agent", "ralph"] {
        let settings = json!({ "tasks": { "keeper": keeper }, "baseline": "off" });
        let sealed = killed_in_the_act(settings);
        assert!(sealed.read_file("ralph/tasks.json").contains("approved"));
        sealed.write_script(
            &json!([{ "do": [{ "text": "no" }] }]),
            &json!({ "tasks": { "keeper": keeper } }),
        );
        let end = build(&sealed, &["1", "--include-dirty"]).expect_code(1);
        let message = shown(&end.stderr);
        assert!(message.contains("was killed: the task "), "{message}");
        assert!(sealed.read_file("ralph/tasks.json").contains("\"false\""), "the check is back");
        assert!(message.contains("Gate false"), "{message}");
        let standing = standing(&sealed);
        assert!(
            standing.iter().all(|(_, is_done, status, _)| !is_done && status == "null"),
            "{standing:?}"
        );
    }
}

#[test]
fn user_edits_after_a_kill_are_kept() {
    let sealed = killed_in_the_act(json!({ "baseline": "off" }));
    let end = sealed.run_ralph(&["tasks", "set-status", "US-2", "skipped"]).expect_code(0);
    assert!(end.stderr.contains("was killed: the task "), "{}", end.stderr);
    let status = sealed.run_ralph(&["tasks", "list", "--json"]).stdout;
    let list: Value = serde_json::from_str(&status).expect("JSON");
    let statuses: Vec<&Value> =
        list["tasks"].as_array().expect("tasks").iter().map(|task| &task["status"]).collect();
    assert_eq!(statuses, [&json!("pending"), &json!("skipped")]);
    sealed.run_ralph(&["tasks", "set-status", "US-2", "pending"]).expect_code(0).expect_stderr("");
    assert!(sealed.run_ralph(&["status"]).stdout.contains("interrupted"));
}

#[test]
fn stop_before_landing_keeps_the_list_change() {
    let gate = "touch ../at-gate; while [ ! -e ../go ]; do sleep 0.05; done";
    let settings = json!({
        "gates": [{ "name": "slow", "kind": "test", "command": gate, "allowEmpty": true }],
        "baseline": "off"
    });
    let sealed = project(
        &["US-1"],
        &json!([does("review", APPROVE), does("implement", IMPLEMENT)]),
        settings,
    );
    let before = sealed.read_file("ralph/tasks.json");
    let running = sealed.start_ralph(&["build"]);
    sealed.wait_for("../at-gate");
    running.send_signal(Signal::INT);
    sealed.write_file("../go", "");
    running.wait_for_end();
    assert_eq!(sealed.read_file("ralph/tasks.json"), before, "a list change that was not judged");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_standing(&sealed, &DONE);
    assert_eq!(sealed.prompts().len(), 2, "no call is repeated");
    assert_clean(&sealed);
}

#[test]
fn open_review_does_not_block_a_run_without_reviews() {
    for keeper in ["agent", "ralph"] {
        let ticks = "echo \"$RALPH_ITERATION\" > US-1.txt; set_in US-1 passes true; \
            set_in US-1 notes '\"Did it\"'; git add -A; git commit -qm 'feat: US-1'";
        let calls = match keeper {
            "agent" => json!([does("implement", ticks), does("fix", ticks)]),
            _ => json!([super::writes("US-1.txt")]),
        };
        let sealed = project(&["US-1"], &calls, json!({ "tasks": { "keeper": keeper } }));
        let open = sealed
            .read_file("ralph/tasks.json")
            .replace("\"reviewStatus\": null", "\"reviewStatus\": \"needs_review\"");
        sealed.write_file("ralph/tasks.json", &open);
        commit_all(&sealed);
        build(&sealed, &["--skip-review"]).expect_code(0);
        assert_standing(&sealed, &[("US-1", true, "null", 0)]);
        sealed.run_ralph(&["tasks", "validate"]).expect_code(0);
    }
}
