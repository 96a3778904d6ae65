//! What agents do to the plan: they write it, update it, lose it, and contradict it.

use std::fs;

use ralph_testkit::effort;
use serde_json::{Value, json};

use super::{
    PLAN, check_items, commit, complete, expect_warning, plan, planned, prompt, says, specs,
    warnings,
};
use crate::users_refs::{all_backends, ralph_in};
use crate::{always, first_then};

const TWO: &str = "# Plan\n\n- [ ] Greet\n- [ ] Part\n";

#[test]
fn plan_without_items_is_not_a_plan() {
    for (first, expect) in [
        (json!([complete()]), "There is no plan: `.ralph/implementation_plan.md` was not written."),
        (
            json!([plan("# Plan\n\nGreet, then part.\n"), commit("Plan"), complete()]),
            "`.ralph/implementation_plan.md` has no items. Write each as a line with a check box",
        ),
        (
            json!([plan(" \n"), commit("Plan"), complete()]),
            "There is no plan: `.ralph/implementation_plan.md` is empty.",
        ),
        (
            json!([plan("```\n- [ ] in a code block\n```\n"), commit("Plan"), complete()]),
            "has no items",
        ),
    ] {
        let second = json!([plan(TWO), commit("Plan"), complete()]);
        let sealed = specs(&first_then(first, second), &json!({}));
        sealed.run_ralph(&["plan", "2"]).expect_code(0);
        assert!(prompt(&sealed, 2).contains(expect), "{expect}:\n{}", prompt(&sealed, 2));
        assert!(prompt(&sealed, 2).contains("did not hand in its work"));
        assert!(!prompt(&sealed, 1).contains("did not hand"));
        assert_eq!(sealed.read_file(PLAN), TWO);
    }
}

#[test]
fn a_plan_that_is_there_is_brought_up_to_date() {
    let sealed = planned(
        &always(json!([plan("- [x] Greet\n- [ ] Part\n- [ ] Wave\n"), commit("Plan"), complete()])),
        &json!({}),
    );
    sealed.run_ralph(&["plan"]).expect_code(0);
    assert_eq!(sealed.read_file(PLAN), "- [x] Greet\n- [ ] Part\n- [ ] Wave\n");
    let end = sealed.run_ralph(&["status"]).expect_code(0);
    assert!(end.stdout.contains("1 of 3 items done"), "{}", end.stdout);
}

/// Whether the agent commits a forbidden change.
const UNCOMMITTED: &str = "true";
const COMMITTED: &str = "git add -A && git commit --quiet -m 'Plan and more'";

#[test]
fn other_changes_of_the_planner_are_reverted_and_kept_on_a_ref() {
    for landing in [UNCOMMITTED, COMMITTED] {
        let actions = json!([
            plan(TWO),
            { "write": { "path": "README.md", "text": "mine\n" } },
            { "write": { "path": "src/new.rs", "text": "fn main() {}\n" } },
            { "delete": { "path": "specs/greeting.md" } },
            { "run": { "command": landing } },
            says("Half of it."),
        ]);
        let then = json!([commit("Plan"), complete()]);
        let sealed = specs(&first_then(actions, then), &json!({}));
        let end = sealed.run_ralph(&["plan", "3"]);
        assert_eq!(end.code, Some(0), "{landing}:\n{}", end.stderr);
        assert_eq!(sealed.read_file("README.md"), "# Project\n", "{landing}");
        assert!(sealed.read_file("specs/greeting.md").contains("hello"), "{landing}");
        assert!(!sealed.project_dir().join("src/new.rs").exists(), "{landing}");
        assert_eq!(sealed.read_file(PLAN), TWO, "{landing}");
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{landing}");
        let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept/"]);
        let kept: Vec<&str> = kept.lines().collect();
        let has_work = kept.iter().any(|kept| {
            let path = format!("{kept}:src/new.rs");
            sealed
                .build_command("git")
                .args(["cat-file", "-e", &path])
                .status()
                .is_ok_and(|it| it.success())
        });
        assert!(has_work, "{landing}: {kept:?}");
        assert!(end.stderr.contains("restored; kept on"), "{landing}:\n{}", end.stderr);
        for path in ["README.md", "src/new.rs", "specs/greeting.md"] {
            assert!(prompt(&sealed, 2).contains(path), "{landing}:\n{}", prompt(&sealed, 2));
        }
        let is_reset =
            prompt(&sealed, 2).contains("They were in your commits, which have been reset");
        assert_eq!(is_reset, landing == COMMITTED, "{landing}:\n{}", prompt(&sealed, 2));
        let subjects = sealed.run_git(&["log", "--format=%s", "HEAD", "--not", ":/Specify"]);
        assert_eq!(subjects.trim(), "Plan", "{landing}: the other commit is only on the ref");
        // Only the plan is new at the end.
        let changed = sealed.run_git(&["diff", "--name-only", ":/Specify", "HEAD"]);
        assert_eq!(changed.trim(), PLAN, "{landing}");
    }
}

/// Ways to lose a plan, as shell commands, and the feedback for each.
const LOSSES: [(&str, &str); 8] = [
    ("rm $plan", "was deleted"),
    ("git rm -q $plan && git commit -q -m Lost", "was deleted"),
    (": > $plan", "was emptied"),
    ("printf ' \\n\\n' > $plan", "was emptied"),
    ("rm $plan && mkdir $plan && echo x > $plan/precious", "could not be read"),
    ("rm $plan && ln -s /etc/hostname $plan", "could not be read"),
    ("rm $plan && mkfifo $plan", "could not be read"),
    ("printf 'caf\\351 - [ ] x\\n' > $plan", "could not be read"),
];

fn losing(command: &str) -> Value {
    json!({ "run": { "command": format!("plan={PLAN}; {command}") } })
}

#[test]
fn lost_plan_is_restored_and_fed_back() {
    for (command, expect) in LOSSES.into_iter().step_by(effort::choose_count(1, 2)) {
        // Not even a completion signal counts then.
        let first = json!([losing(command), complete()]);
        let then = json!([check_items(), commit("Do it"), complete()]);
        let sealed = planned(&first_then(first, then), &json!({}));
        let end = sealed.run_ralph(&["build", "2"]);
        assert_eq!(end.code, Some(0), "{command}:\n{}", end.stderr);
        let prompt_text = prompt(&sealed, 2);
        assert!(prompt_text.contains(&format!("`{PLAN}` {expect}")), "{command}:\n{prompt_text}");
        assert!(prompt_text.contains("it was restored"), "{command}:\n{prompt_text}");
        assert!(end.stderr.contains(expect), "{command}:\n{}", end.stderr);
        assert_eq!(sealed.read_file(PLAN), TWO.replace("[ ]", "[x]"), "{command}");
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{command}");
    }
}

#[test]
fn plan_lost_in_the_last_iteration_is_restored_too() {
    let (first, every) = if effort::is_quick() { (1, 2) } else { (0, 1) };
    let modes = ["build", "plan", "plan", "build"].repeat(2);
    for ((command, _), mode) in LOSSES.into_iter().zip(modes).skip(first).step_by(every) {
        let sealed = planned(&always(json!([losing(command), says("Hm.")])), &json!({}));
        let end = sealed.run_ralph(&[mode, "1"]);
        assert_eq!(end.code, Some(1), "{mode} {command}:\n{}", end.stderr);
        assert_eq!(sealed.read_file(PLAN), TWO, "{mode} {command}");
        assert!(end.stderr.contains("it was restored"), "{command}:\n{}", end.stderr);
    }
}

#[test]
fn replacement_of_a_plan_is_kept_on_a_ref() {
    let folder = "rm $plan && mkdir $plan && echo x > $plan/precious";
    let sealed = planned(&always(json!([losing(folder), says("Hm.")])), &json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    assert_eq!(sealed.read_file(".ralph/logs/implementation_plan.md.lost-1/precious"), "x\n");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "there is nothing to commit");
    let latin = "printf 'caf\\351\\n' > $plan";
    let sealed = planned(&always(json!([losing(latin), says("Hm.")])), &json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let kept = sealed.runs()[0].join("plan-lost");
    assert_eq!(fs::read(kept).expect("kept"), b"caf\xe9\n");
}

#[test]
fn gate_failures_and_a_lost_plan_are_fed_back_together() {
    let first = json!([losing("rm $plan"), says("Hm.")]);
    let then = json!([check_items(), { "write": { "path": "ok", "text": "" } }, commit("Do it"), complete()]);
    let gates = json!({ "gates": [{ "name": "ok", "kind": "custom", "command": "test -f ok" }] });
    let sealed = planned(&first_then(first, then), &gates);
    sealed.run_ralph(&["build", "2"]).expect_code(0);
    let prompt_text = prompt(&sealed, 2);
    assert!(prompt_text.contains("Guardrail \"test -f ok\" failed"), "{prompt_text}");
    assert!(prompt_text.contains("was deleted; it was restored"), "{prompt_text}");
}

#[test]
fn open_items_refuse_the_first_completion_signal_only() {
    for backend in all_backends() {
        let sealed = planned(&always(json!([complete()])), &json!({}));
        let end = ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 2);
        let prompt_text = prompt(&sealed, 2);
        let expect = "You said that the work is complete, but 2 items are open in `.ralph/implementation_plan.md`:\n  - [ ] Greet\n  - [ ] Part\n";
        assert!(prompt_text.contains(expect), "{prompt_text}");
        let warned = end.stderr.replace("\n  ", " ");
        assert!(warned.contains("2 items") && warned.contains("open"), "{}", end.stderr);
        let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
        assert!(report.contains("open"), "{report}");
    }
}

#[test]
fn only_consecutive_completion_signals_count() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [complete()] },
        { "when": { "iteration": 2 }, "do": [says("Going on.")] },
        { "when": { "iteration": 3 }, "do": [complete()] },
        { "do": [complete()] },
    ]);
    let sealed = planned(&calls, &json!({}));
    sealed.run_ralph(&["build", "10"]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 4);
}

#[test]
fn signal_refused_for_another_reason_is_not_questioned_again() {
    let calls = json!([
        { "when": { "iteration": 3 }, "do": [commit("Leave it so"), complete()] },
        { "do": [{ "write": { "path": "left", "text": "" } }, complete()] },
    ]);
    let sealed = planned(&calls, &json!({}));
    sealed.run_ralph(&["build", "10"]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 3);
    assert!(prompt(&sealed, 2).contains("2 items are open"), "{}", prompt(&sealed, 2));
    assert!(!prompt(&sealed, 3).contains("items are open"), "{}", prompt(&sealed, 3));
}

#[test]
fn struck_items_are_not_open() {
    let struck = plan("- [x] Greet\n- ~~Part~~ because it is not needed\n");
    let sealed = planned(&always(json!([struck, commit("Do it"), complete()])), &json!({}));
    sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 1);
    expect_warning(&sealed, "1 item was removed from the plan and never marked done: Part");
}

#[test]
fn items_removed_from_the_plan_refuse_the_first_completion_signal_and_are_reported() {
    for backend in all_backends() {
        let drop = json!({ "run": { "command": format!("sed -i '/Part/d' {PLAN}") } });
        let calls = json!([
            { "when": { "iteration": 1 }, "do": [drop, commit("Think again"), says("Hm.")] },
            { "when": { "iteration": 2 }, "do": [check_items(), commit("Do it"), complete()] },
            { "do": [complete()] },
        ]);
        let sealed = planned(&calls, &json!({}));
        let end = ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 3);
        let prompt_text = prompt(&sealed, 3);
        let expect = format!(
            "1 item was removed from `{PLAN}` in this run and never marked as done:\n  - [ ] Part\n"
        );
        assert!(prompt_text.contains(&expect), "{prompt_text}");
        let line = "1 item was removed from the plan and never marked done: Part";
        expect_warning(&sealed, line);
        let (_, summary) = end.stderr.split_once("Run ended: complete").expect("an end");
        assert!(summary.contains(line), "{}", end.stderr);
        let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
        assert!(report.contains(line), "{report}");
        // An item that comes back, marked, is done.
        let done = json!([plan(&TWO.replace("[ ]", "[x]")), commit("Both"), complete()]);
        let calls = json!([
            { "when": { "iteration": 1 }, "do": [plan("- [x] Greet\n"), commit("One"), complete()] },
            { "do": done },
        ]);
        let sealed = planned(&calls, &json!({}));
        ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert!(
            warnings(&sealed).iter().all(|it| !it.contains("removed")),
            "{:?}",
            warnings(&sealed)
        );
    }
}

#[test]
fn items_that_are_marked_at_once_do_not_replace_open_ones() {
    for backend in all_backends() {
        let calls = first_then(
            json!([plan("- [x] Tidy up\n- [x] Wave\n"), commit("Do it"), complete()]),
            json!([complete()]),
        );
        let gate = json!({ "gates": [{ "name": "ok", "kind": "custom", "command": "true" }] });
        let sealed = planned(&calls, &gate);
        let end = ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 2);
        let line = "2 items were removed from the plan and never marked done: Greet; Part";
        assert!(end.stderr.contains(line), "{}", end.stderr);
    }
}

#[test]
fn marks_that_nothing_checks_are_reported() {
    for backend in all_backends() {
        let unchecked = "nothing but the agent's word supports 2 marked items of the plan";
        let all_done = always(json!([check_items(), commit("Do it"), complete()]));
        let sealed = planned(&all_done, &json!({}));
        ralph_in(&sealed, backend, &["build"]).expect_code(0);
        expect_warning(&sealed, unchecked);
        let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
        assert!(report.contains(unchecked), "{report}");
        let gate = json!({ "gates": [{ "name": "ok", "kind": "custom", "command": "true" }] });
        let sealed = planned(&all_done, &gate);
        ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert!(warnings(&sealed).iter().all(|it| !it.contains("word")), "{:?}", warnings(&sealed));
        // Marks count only once the gates pass.
        let gate =
            json!({ "gates": [{ "name": "ok", "kind": "custom", "command": "test -f ok" }] });
        let sealed = planned(&all_done, &gate);
        ralph_in(&sealed, backend, &["build", "2"]).expect_code(1);
        let then = json!([{ "write": { "path": "ok", "text": "" } }, commit("Do it"), complete()]);
        let first = json!([check_items(), commit("Mark"), complete()]);
        let sealed = planned(&first_then(first, then), &gate);
        ralph_in(&sealed, backend, &["build"]).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 2);
    }
}

#[test]
fn many_open_items_are_not_all_named() {
    let many = "- [ ] Another one\n".repeat(40);
    let first = json!([plan(&many), commit("Plan"), complete()]);
    let sealed = planned(&first_then(first, json!([says("Hm.")])), &json!({}));
    sealed.run_ralph(&["build", "2"]).expect_code(1);
    let prompt_text = prompt(&sealed, 2);
    assert!(
        prompt_text.contains("40 items are open") && prompt_text.contains("and 35 more"),
        "{prompt_text}"
    );
}

#[test]
fn completion_signal_is_checked_after_gates_and_commits() {
    let first = json!([check_items(), complete()]);
    let then = json!([commit("Do it"), complete()]);
    let sealed = planned(&first_then(first, then), &json!({}));
    sealed.run_ralph(&["build", "2"]).expect_code(0);
    assert!(prompt(&sealed, 2).contains("uncommitted changes"), "{}", prompt(&sealed, 2));
    assert!(prompt(&sealed, 2).contains(PLAN), "{}", prompt(&sealed, 2));
}

#[test]
fn odd_bytes_in_plan_items_are_handled() {
    let odd = plan("- [ ] \u{1b}[2Jgone\u{7} $(touch ../ran) ${MODE} `touch ../ran`\r\n");
    let sealed = planned(
        &first_then(json!([odd, commit("Odd"), complete()]), json!([says("Hm.")])),
        &json!({}),
    );
    let end = sealed.run_ralph(&["build", "2"]).expect_code(1);
    assert!(!end.stderr.contains('\u{1b}'), "{:?}", end.stderr);
    assert!(prompt(&sealed, 2).contains("$(touch ../ran) ${MODE}"), "{}", prompt(&sealed, 2));
    assert!(!sealed.root().join("ran").exists());
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(!status.contains('\u{1b}'), "{status:?}");
    let warnings = warnings(&sealed);
    assert!(warnings.iter().all(|it| it.contains("there is no sandbox")), "{warnings:?}");
}

#[test]
fn items_for_a_person_do_not_contradict_completion() {
    let marks = plan("# Plan\n\n- [x] Greet\n- [?] Part: the key of the service\n");
    let sealed = planned(&always(json!([marks, commit("Greet"), complete()])), &json!({}));
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 1);
    let asked = prompt(&sealed, 1).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(asked.contains("`- [?] item: what is needed`"), "{asked}");
    assert!(
        end.stderr.contains("Plan: 1 of 2 items done, 1 item needs a person"),
        "{}",
        end.stderr
    );
    expect_warning(&sealed, "1 item needs a person: Part: the key of the service");
    let status = sealed.run_ralph(&["status"]).stdout;
    assert!(status.contains("  [?] Part: the key of the service\n"), "{status}");
    let report = sealed.run_ralph(&["report"]).stdout;
    assert!(report.contains("1 of 2 items of the plan done. 1 item needs a person."), "{report}");
    assert!(report.contains("the key of the service"), "{report}");
}
