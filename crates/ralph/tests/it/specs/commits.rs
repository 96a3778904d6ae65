//! Who commits, what is left uncommitted, and what must not be changed.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    PLAN, check_items, commit, commit_all, complete, plan, planned, prompt, says, specs, with_agent,
};
use crate::users_refs::{DESTROY, UsersRefs, all_backends, expect_report, ralph_in};
use crate::{always, first_then, repository, sealed};

/// Changes a file, adds one, and deletes one, without committing any of it.
fn leftovers() -> Value {
    json!({ "run": { "command": "echo more >> README.md; mkdir -p src; echo x > 'src/a b.rs'; rm .gitignore" } })
}

const LEFT: [&str; 3] = ["README.md", "src/a b.rs", ".gitignore"];

#[test]
fn uncommitted_changes_are_fed_back_and_prevent_completion() {
    let first = json!([check_items(), leftovers(), complete()]);
    let then = json!([commit("All of it"), complete()]);
    let sealed = planned(&first_then(first.clone(), then), &json!({}));
    let end = sealed.run_ralph(&["build", "2"]).expect_code(0);
    let prompt_text = prompt(&sealed, 2);
    assert!(
        prompt_text.contains("There are uncommitted changes in the work tree."),
        "{prompt_text}"
    );
    for path in LEFT {
        assert!(prompt_text.contains(&format!("\n  {path}")), "{path}:\n{prompt_text}");
    }
    assert!(end.stderr.contains("uncommitted"), "{}", end.stderr);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    // No other process commits it.
    let sealed = planned(&always(first), &json!({}));
    sealed.run_ralph(&["build", "2"]).expect_code(1);
    assert_eq!(sealed.subjects(), ["Specify", "Begin"]);
    assert_eq!(sealed.read_file("README.md").matches("more").count(), 2);
}

#[test]
fn a_gate_that_commits_has_to_pass_again() {
    let gates = json!({ "gates": [{ "command": "sh t.sh" }], "baseline": "off" });
    for (action, why) in [
        ("echo bad > src.txt; git commit --quiet -am Sneaky", "sh t.sh"),
        // The files stay the same, and HEAD does not.
        (
            "echo bad > src.txt; git commit --quiet -am Sneaky; echo good > src.txt; true",
            "There are uncommitted changes",
        ),
    ] {
        let test = format!("grep -q good src.txt || exit 1\n{action}\n");
        let write = json!({ "write": { "path": "t.sh", "text": test } });
        let good = json!({ "run": { "command": "echo good > src.txt" } });
        let first = json!([check_items(), write, good, commit("All of it"), complete()]);
        let repair = json!({ "run": { "command": "echo true > t.sh; echo good > src.txt" } });
        let then = json!([repair, commit("Repaired"), complete()]);
        let sealed = planned(&first_then(first, then), &gates);
        sealed.run_ralph(&["build", "2"]).expect_code(0);
        assert!(prompt(&sealed, 2).contains(why), "{why}: {}", prompt(&sealed, 2));
        assert_eq!(sealed.run_git(&["show", "HEAD:src.txt"]), "good\n", "{why}");
    }
}

#[test]
fn refs_that_an_agent_deletes_are_restored_although_it_may_commit() {
    for backend in all_backends() {
        let destroy = json!({ "run": { "command": format!("{DESTROY}; true") } });
        let first = json!([check_items(), commit("All of it"), destroy, complete()]);
        let sealed = planned(&first_then(first, json!([complete()])), &json!({}));
        let refs = UsersRefs::make(&sealed);
        let end = ralph_in(&sealed, backend, &["build", "2"]).expect_code(0);
        refs.expect_all(&sealed, backend);
        expect_report(&sealed, &end);
        assert_eq!(sealed.subjects(), ["All of it", "Specify", "Begin"], "{backend}");
        let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
        assert!(kept.contains("/1-refs/heads/other\n"), "{kept}");
    }
}

#[test]
fn objects_that_an_agent_overwrites_or_deletes_are_restored() {
    let name = |of: &str| format!(".git/objects/$(git rev-parse {of} | sed 's,^..,&/,')");
    let overwrite = format!("chmod u+w {0}; : > {0}", name("precious"));
    let delete = format!("rm -f {}", name("v1^{commit}"));
    for backend in all_backends() {
        for (damage, report) in
            [(&overwrite, "object files (overwritten)"), (&delete, "objects (deleted)")]
        {
            let damage = json!({ "run": { "command": damage } });
            let first = json!([check_items(), commit("All of it"), damage, complete()]);
            let sealed = planned(&first_then(first, json!([complete()])), &json!({}));
            let refs = UsersRefs::make(&sealed);
            ralph_in(&sealed, backend, &["build", "2"]).expect_code(0);
            refs.expect_all(&sealed, backend);
            assert!(prompt(&sealed, 2).contains(report), "{}", prompt(&sealed, 2));
        }
    }
}

#[test]
fn refs_that_an_agent_deleted_before_ralph_was_killed_are_restored_by_resume() {
    let destroy = json!({ "run": { "command": format!("{DESTROY}; touch ../begun; true") } });
    let calls = json!([
        { "when": { "call": 1 }, "do": [check_items(), commit("All of it"), destroy, "hang"] },
        { "do": [complete()] }
    ]);
    let sealed = planned(&calls, &json!({}));
    let refs = UsersRefs::make(&sealed);
    let running = sealed.start_ralph(&["build", "2"]);
    sealed.wait_for("../begun");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    // It is unknown who moved a branch before the run was resumed: the moved ones stay, and their
    // former commits are kept.
    assert_eq!(sealed.run_git(&["log", "-1", "--format=%s", "other"]), "All of it\n");
    refs.move_back(&sealed);
    refs.expect_all(&sealed, "after a kill");
}

#[test]
fn refs_are_restored_in_a_run_without_gates() {
    let destroy = json!({ "run": { "command": format!("{DESTROY}; true") } });
    let sealed = repository();
    sealed.write_script(&always(json!([destroy, { "claim": "DONE" }])), &json!({}));
    commit_all(&sealed, "Settings");
    let refs = UsersRefs::make(&sealed);
    let end = sealed.run_ralph(&["run", "-p", "base", "-m", "1"]).expect_code(1);
    refs.expect_all(&sealed, "ralph run");
    let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("refs/heads/precious (deleted)"), "{}", end.stderr);
    assert!(!sealed.runs().pop().expect("a run").join("git-kept").exists());
}

#[test]
fn other_work_trees_and_new_refs_are_left_alone() {
    let elsewhere = "git -C ../elsewhere commit --quiet --allow-empty -m Elsewhere";
    let mine = "git branch mine; git tag mine; git stash push --quiet --include-untracked; \
                git commit --quiet --allow-empty -m Mine";
    let calls = json!([{ "do": [
        { "run": { "command": format!("set -e; echo x > new.txt; {elsewhere}; {mine}") } },
        check_items(), commit("All of it"), complete()
    ] }]);
    let sealed = planned(&calls, &json!({}));
    UsersRefs::make(&sealed);
    sealed.run_git(&["worktree", "add", "--quiet", "-b", "elsewhere", "../elsewhere"]);
    sealed.run_git(&["stash", "clear"]);
    let end = sealed.run_ralph(&["build", "1"]).expect_code(0);
    assert!(!end.stderr.contains("git's own files"), "{}", end.stderr);
    assert_eq!(sealed.run_git(&["log", "-1", "--format=%s", "elsewhere"]), "Elsewhere\n");
    sealed.run_git(&["rev-parse", "refs/heads/mine", "refs/tags/mine", "refs/stash"]);
    // The refs that were kept during the run are removed.
    let kept = sealed.runs().pop().expect("a run").join("git-kept");
    assert!(!kept.exists(), "{}", kept.display());
}

#[test]
fn a_plan_that_is_not_committed_is_not_complete() {
    let items = plan("- [ ] Greet\n");
    let calls = first_then(json!([items, complete()]), json!([commit("Plan"), complete()]));
    let sealed = specs(&calls, &json!({}));
    sealed.run_ralph(&["plan", "2"]).expect_code(0);
    assert!(prompt(&sealed, 2).contains(&format!("\n  {PLAN}")), "{}", prompt(&sealed, 2));
    assert_eq!(sealed.subjects(), ["Plan", "Specify", "Begin"]);
}

#[test]
fn prompt_run_reports_uncommitted_changes_without_refusing() {
    let first = json!([leftovers(), says("Half.")]);
    let sealed = specs(&first_then(first, json!([complete()])), &json!({}));
    sealed.write_file("ask.md", "Do it, then say ${SIGNAL}.\n");
    commit_all(&sealed, "Ask");
    sealed.run_ralph(&["prompt", "ask.md", "2"]).expect_code(0);
    let prompt_text = prompt(&sealed, 2);
    assert!(prompt_text.contains("left uncommitted changes in the work tree"), "{prompt_text}");
    for path in LEFT {
        assert!(prompt_text.contains(&format!("\n  {path}")), "{path}:\n{prompt_text}");
    }
    let sealed = specs(&always(json!([leftovers(), complete()])), &json!({ "commit": "agent" }));
    sealed.write_file("ask.md", "Do it, then say ${SIGNAL}.\n");
    commit_all(&sealed, "Ask");
    sealed.run_ralph(&["prompt", "ask.md", "2"]).expect_code(1);
    assert!(prompt(&sealed, 2).contains("did not hand in its work"), "{}", prompt(&sealed, 2));
}

#[test]
fn ralph_commits_where_the_settings_say_so() {
    let actions =
        json!([check_items(), { "write": { "path": "hello.txt", "text": "hello\n" } }, complete()]);
    for settings in
        [json!({ "commit": "ralph" }), json!({ "scm": { "command": "git", "tasks": ["commit"] } })]
    {
        let calls = json!([
            { "when": { "role": "message" }, "do": [says("Greet people")] },
            { "do": actions },
        ]);
        let sealed = planned(&calls, &settings);
        let end = sealed.run_ralph(&["build", "1"]);
        assert_eq!(end.code, Some(0), "{settings}:\n{}", end.stderr);
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{settings}");
        assert_eq!(sealed.subjects().len(), 3, "{settings}: {:?}", sealed.subjects());
        let committed = sealed.run_git(&["show", "--stat", "--format=%s", "HEAD"]);
        assert!(
            committed.contains("hello.txt") && committed.contains("implementation_plan.md"),
            "{committed}"
        );
        assert!(prompt(&sealed, 1).contains("Do not commit: that is done for you"));
    }
    let sealed = planned(&always(actions), &json!({ "commit": "none" }));
    sealed.run_ralph(&["build", "1"]).expect_code(0);
    assert_eq!(sealed.subjects(), ["Specify", "Begin"]);
    assert!(prompt(&sealed, 1).contains("Do not commit."));
}

/// Whether the agent commits a forbidden change.
const LANDINGS: [&str; 2] = ["true", "git add -A && git commit --quiet -m Loosen"];

#[test]
fn a_builder_may_not_change_the_specifications() {
    for landing in LANDINGS {
        let loosen = format!("echo 'Anything goes.' > specs/greeting.md; {landing}");
        let first = json!([check_items(), { "run": { "command": loosen } }, complete()]);
        let fix = "git checkout :/Specify -- specs; git add -A; git commit --quiet -m Fix";
        let then = json!([{ "run": { "command": fix } }, complete()]);
        let sealed = planned(&first_then(first, then), &json!({}));
        let end = sealed.run_ralph(&["build", "2"]);
        assert_eq!(end.code, Some(0), "{landing}:\n{}", end.stderr);
        let prompt_text = prompt(&sealed, 2);
        assert!(prompt_text.contains("specs/greeting.md"), "{landing}:\n{prompt_text}");
        assert!(sealed.read_file("specs/greeting.md").contains("says hello"), "{landing}");
    }
}

#[test]
fn protected_paths_come_from_the_settings() {
    for (protect, path, code) in [
        (json!([]), "specs/greeting.md", 0),
        (json!(["docs/**"]), "specs/greeting.md", 0),
        (json!(["docs/**"]), "docs/x.md", 1),
        (json!(["specs/**"]), "specs/new.md", 1),
    ] {
        let change = json!({ "write": { "path": path, "text": "Anything goes.\n" } });
        let actions = json!([check_items(), change, commit("Do it"), complete()]);
        let sealed = planned(&always(actions), &json!({ "protect": protect }));
        let end = sealed.run_ralph(&["build", "1"]);
        assert_eq!(end.code, Some(code), "{protect} {path}:\n{}", end.stderr);
    }
}

#[test]
fn the_settings_and_the_templates_are_not_the_agents_to_change() {
    for path in [".ralph/settings.json", ".ralph/prompts/build.md"] {
        let actions = json!([
            check_items(),
            { "append": { "path": path, "text": "\n" } },
            commit("Loosen"),
            complete(),
        ]);
        let sealed = repository();
        sealed.write_file("specs/greeting.md", "# Greeting\n");
        sealed.write_file(PLAN, "- [ ] Greet\n");
        sealed.write_file(".ralph/prompts/build.md", "Do it. ${SIGNAL}\n");
        with_agent(&sealed, &always(actions), &json!({}));
        sealed.run_ralph(&["build", "2"]).expect_code(1);
        assert!(prompt(&sealed, 2).contains(path), "{path}:\n{}", prompt(&sealed, 2));
    }
}

#[test]
fn uncommitted_user_changes_stop_the_run() {
    let done = || always(json!([check_items(), commit("Do it"), complete()]));
    for mode in ["plan", "build"] {
        let sealed = planned(&done(), &json!({}));
        sealed.write_file("mine.txt", "mine\n");
        sealed.run_ralph(&[mode]).expect_code(2).expect_stderr("mine.txt");
        assert_eq!(sealed.runs().len(), 0, "{mode}");
        let end = sealed.run_ralph(&[mode, "2", "--set-aside"]);
        assert_eq!(end.code, Some(0), "{mode}:\n{}", end.stderr);
        assert_eq!(sealed.read_file("mine.txt"), "mine\n", "{mode}");
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "?? mine.txt\n", "{mode}");
    }
    let sealed = planned(&done(), &json!({}));
    sealed.write_file("mine.txt", "mine\n");
    sealed.run_ralph(&["build", "2", "--include-dirty"]).expect_code(0);
    assert!(sealed.run_git(&["ls-files"]).contains("mine.txt"));
}

#[test]
fn files_that_were_uncommitted_before_are_not_blamed_on_the_agent() {
    let work =
        json!({ "run": { "command": format!("echo x > hello.txt; git add hello.txt {PLAN}") } });
    let calls = always(json!([check_items(), work,
        { "run": { "command": "git commit --quiet -m Greet" } }, complete()]));
    let sealed = planned(&calls, &json!({}));
    sealed.write_file("mine.txt", "mine\n");
    sealed.write_file("specs/new.md", "# New\n");
    let end = sealed.run_ralph(&["build", "3", "--include-dirty"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 1, "{}", end.stderr);
    let named = "Uncommitted before you began; take them into your first commit: `mine.txt`, `specs/new.md`.";
    assert!(prompts[0].contains(named), "{}", prompts[0]);
}

#[test]
fn users_may_edit_plan_and_specifications_between_commands() {
    let builds = always(json!([check_items(), commit("Do it"), complete()]));
    let sealed = planned(&builds, &json!({}));
    sealed.write_file(PLAN, "- [ ] Greet\n- [ ] Wave\n");
    sealed.write_file("specs/greeting.md", "# Greeting\n\n`hello.txt` says hello, and waves.\n");
    let end = sealed.run_ralph(&["build", "1"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(sealed.read_file(PLAN), "- [x] Greet\n- [x] Wave\n");
    assert!(sealed.read_file("specs/greeting.md").contains("waves"));
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    // A planner commits only the plan; the specifications stay as the user left them.
    let alone = format!("git add {PLAN} && git commit --quiet -m Plan");
    let plans = always(json!([plan("- [ ] x\n"), { "run": { "command": alone } }, complete()]));
    let sealed = specs(&plans, &json!({}));
    sealed.write_file("specs/greeting.md", "# Greeting\n\nMine, not yet committed.\n");
    let end = sealed.run_ralph(&["plan", "1"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(sealed.read_file("specs/greeting.md").contains("not yet committed"));
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), " M specs/greeting.md\n");
}

#[test]
fn specifications_that_are_not_committed_are_not_lost_to_a_planner() {
    let actions = json!([
        plan("- [ ] x\n"),
        { "write": { "path": "specs/greeting.md", "text": "Rewritten.\n" } },
        { "delete": { "path": "specs/new.md" } },
        commit("Plan"),
        complete(),
    ]);
    let sealed = specs(&always(actions), &json!({}));
    sealed.write_file("specs/greeting.md", "# Greeting\n\nMine, not yet committed.\n");
    sealed.write_file("specs/new.md", "# New\n");
    sealed.run_ralph(&["plan", "1"]).expect_code(1);
    assert!(sealed.read_file("specs/greeting.md").contains("not yet committed"));
    assert_eq!(sealed.read_file("specs/new.md"), "# New\n");
    assert_eq!(sealed.read_file(PLAN), "- [ ] x\n");
}

#[test]
fn changes_that_were_there_before_are_not_blamed_on_the_agent() {
    let sealed = specs(&first_then(json!([says("Hm.")]), json!([complete()])), &json!({}));
    sealed.write_file("ask.md", "Say ${SIGNAL}.\n");
    let end = sealed.run_ralph(&["prompt", "ask.md", "2"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!prompt(&sealed, 2).contains("previous iteration left"), "{}", prompt(&sealed, 2));
}

#[test]
fn many_leftovers_are_not_all_named() {
    let many = json!({ "run": { "command": "for i in $(seq 30); do echo x > left-$i; done" } });
    let sealed = planned(&always(json!([many, says("Hm.")])), &json!({}));
    sealed.run_ralph(&["build", "2"]).expect_code(1);
    let prompt_text = prompt(&sealed, 2);
    assert_eq!(prompt_text.matches("\n  left-").count(), 20, "{prompt_text}");
    assert!(prompt_text.contains("`git status` shows all"), "{prompt_text}");
}

#[test]
fn gates_decide_before_the_completion_signal() {
    let first = json!([check_items(), commit("Do it"), complete()]);
    let then = json!([{ "write": { "path": "ok", "text": "" } }, commit("Fix"), complete()]);
    let gates = json!({ "gates": [{ "name": "ok", "kind": "custom", "command": "echo no ok; test -f ok", "hint": "Make ok." }] });
    let sealed = planned(&first_then(first, then), &gates);
    sealed.run_ralph(&["build", "2"]).expect_code(0);
    assert!(prompt(&sealed, 1).contains("echo no ok; test -f ok"), "{}", prompt(&sealed, 1));
    let prompt_text = prompt(&sealed, 2);
    assert!(prompt_text.contains("failed with exit code 1.\nHint: Make ok."), "{prompt_text}");
    assert!(prompt_text.contains("no ok"), "{prompt_text}");
    // Gates for the code do not check a plan.
    let sealed = specs(&always(json!([plan("- [ ] x\n"), commit("Plan"), complete()])), &gates);
    sealed.run_ralph(&["plan", "1"]).expect_code(0);
}

#[test]
fn runtime_files_do_not_count_as_uncommitted() {
    // No line of .gitignore hides ralph's own files.
    let sealed = repository();
    sealed.write_file("specs/greeting.md", "# Greeting\n");
    sealed.write_file(PLAN, "- [ ] Greet\n");
    sealed.write_script(
        &always(json!([
            check_items(),
            { "run": { "command": format!("git add {PLAN} && git commit --quiet -m 'Do it'") } },
            complete(),
        ])),
        &json!({ "workflow": "specs", "gates": [{ "name": "t", "kind": "custom", "command": "true" }] }),
    );
    commit_all(&sealed, "Specify");
    let end = sealed.run_ralph(&["build", "1"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[test]
fn a_prompt_file_needs_no_repository() {
    let sealed = sealed();
    sealed.write_script(
        &always(json!([{ "write": { "path": "x", "text": "" } }, complete()])),
        &json!({}),
    );
    sealed.write_file("ask.md", "Say ${SIGNAL}.\n");
    sealed.run_ralph(&["prompt", "ask.md", "1"]).expect_code(0);
}

/// Commits everything on its own branch.
fn goes_away() -> Value {
    let away = "git checkout --quiet -b side && git add -A && git commit --quiet -m Side";
    json!({ "run": { "command": away } })
}

#[test]
fn switched_branch_is_restored_and_fed_back() {
    let first = json!([check_items(), goes_away(), complete()]);
    let sealed = planned(&first_then(first, json!([commit("Here"), complete()])), &json!({}));
    let end = sealed.run_ralph(&["build", "2"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(sealed.run_git(&["branch", "--show-current"]), "main\n");
    assert_eq!(sealed.subjects(), ["Here", "Specify", "Begin"]);
    let prompt_text = prompt(&sealed, 2);
    assert!(
        prompt_text.contains("The branch was switched or the history was rewritten."),
        "{prompt_text}"
    );
    assert!(
        prompt_text.contains("refs/ralph/kept/") && prompt_text.contains(PLAN),
        "{prompt_text}"
    );
}

#[test]
fn a_prompt_file_may_ask_for_a_branch() {
    let actions = json!([{ "write": { "path": "x", "text": "" } }, goes_away(), complete()]);
    let sealed = specs(&always(actions), &json!({}));
    sealed.write_file("ask.md", "Do it on a branch `side`, then say ${SIGNAL}.\n");
    commit_all(&sealed, "Ask");
    sealed.run_ralph(&["prompt", "ask.md", "1"]).expect_code(0);
    assert_eq!(sealed.run_git(&["branch", "--show-current"]), "side\n");
    assert_eq!(sealed.subjects()[0], "Side");
}

#[test]
fn files_written_by_a_gate_do_not_count_as_uncommitted() {
    let actions = json!([check_items(), commit("Greet people"), complete()]);
    let gate =
        json!({ "guardrails": [{ "command": "echo dropped > dropped.txt" }], "baseline": "off" });
    let sealed = planned(&always(actions), &gate);
    let end = sealed.run_ralph(&["build", "1"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(sealed.subjects()[0], "Greet people", "{:?}", sealed.subjects());
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "?? dropped.txt\n");
}
