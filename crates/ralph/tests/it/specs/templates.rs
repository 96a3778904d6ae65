//! The prompts of the three commands: templates, their variables, and `--dry-run`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::{
    PLAN, SIGNAL, check_items, commit, commit_all, complete, expect_warning, plan, planned, prompt,
    says, warnings,
};
use crate::{always, first_then};

#[test]
fn a_project_has_templates_of_its_own() {
    let done = json!([check_items(), commit("Do it"), complete()]);
    let sealed = planned(&always(done), &json!({ "vars": { "TONE": "brief" } }));
    sealed.write_file(
        ".ralph/prompts/plan.md",
        "Plan ${MODE}: ${SPECS_DIR} into ${PLAN_FILE}, be ${TONE}. ${SIGNAL} ${COMMITTING}\n",
    );
    sealed.write_file(
        ".ralph/prompts/build.md",
        "Build ${ITERATION} of ${MAX_ITERATIONS}, ${MODE}.\n${GATES}\n",
    );
    commit_all(&sealed, "Templates");
    sealed.run_ralph(&["plan", "2"]).expect_code(0);
    assert_eq!(
        prompt(&sealed, 1),
        format!(
            "Plan plan: specs into {PLAN}, be brief. {SIGNAL} When you are done, commit `{PLAN}` alone.\n"
        )
    );
    sealed.write_file(PLAN, "- [ ] Again\n");
    commit_all(&sealed, "Again");
    sealed.run_ralph(&["build", "7"]).expect_code(0);
    let text = prompt(&sealed, 1);
    assert!(text.starts_with("Build 1 of 7, build.\n"), "{text}");
    // Without the signal the agent could not end the run.
    assert!(text.contains("## Completion") && text.contains(SIGNAL), "{text}");
}

#[test]
fn unusable_template_falls_back_with_a_warning() {
    for make in [
        |path: &Path| fs::write(path, b"caf\xe9").expect("written"),
        |path: &Path| fs::write(path, b" \n").expect("written"),
        |path: &Path| symlink("/etc/hostname", path).expect("a link"),
    ] {
        let done = json!([check_items(), commit("Do it"), complete()]);
        let sealed = planned(&always(done), &json!({}));
        fs::create_dir_all(sealed.project_dir().join(".ralph/prompts")).expect("made");
        make(&sealed.project_dir().join(".ralph/prompts/build.md"));
        commit_all(&sealed, "Template");
        sealed.run_ralph(&["build", "1"]).expect_code(0);
        expect_warning(&sealed, "`.ralph/prompts/build.md` cannot be used");
        assert!(prompt(&sealed, 1).contains("You do one item of a plan"), "{}", prompt(&sealed, 1));
    }
}

#[test]
fn variables_are_expanded_once_and_unknown_ones_warned_about_once() {
    let vars = json!({ "vars": {
        "NESTED": "${MODE} $$ ${X}", "MODE": "mine", "EMPTY": "", "DOLLAR": "$5",
    } });
    let sealed = planned(&always(json!([says("Hm.")])), &vars);
    sealed.write_file(
        "ask.md",
        "${MODE}|${NESTED}|$$5|${DOLLAR}|$HOME|$(date)|${UNKNOWN}|${UNKNOWN}|${EMPTY}|${ITERATION}/${MAX_ITERATIONS}|${RALPH_ITERATION}/${RALPH_MAX_ITERATIONS}\n${SIGNAL}\n",
    );
    sealed.run_ralph(&["prompt", "ask.md", "3"]).expect_code(1);
    for iteration in 1..=3 {
        let expect = format!(
            "prompt|${{MODE}} $$ ${{X}}|$5|$5|$HOME|$(date)|${{UNKNOWN}}|${{UNKNOWN}}||{iteration}/3|{iteration}/3\n{SIGNAL}\n"
        );
        let prompt = prompt(&sealed, iteration);
        let text = prompt.split("\n\n## Notes").next().unwrap_or_default();
        assert_eq!(text.trim_end(), expect.trim_end());
    }
    expect_warning(&sealed, "unknown variable `${UNKNOWN}`");
    assert!(warnings(&sealed).iter().all(|it| !it.contains("${X}")), "{:?}", warnings(&sealed));
}

#[test]
fn prompt_file_is_read_each_iteration_and_its_loss_ends_the_run() {
    let first =
        json!([{ "write": { "path": "ask.md", "text": "Second. ${SIGNAL}\n" } }, says("Hm.")]);
    let then = json!([{ "delete": { "path": "ask.md" } }, says("Hm.")]);
    let sealed = planned(&first_then(first, then), &json!({}));
    sealed.write_file("ask.md", "First. ${SIGNAL}\n");
    commit_all(&sealed, "Ask");
    sealed.run_ralph(&["prompt", "ask.md", "5"]).expect_code(2).expect_stderr("ask.md");
    assert!(prompt(&sealed, 1).starts_with("First."));
    assert!(prompt(&sealed, 2).starts_with("Second."));
    sealed.write_file("ask.md", "Third. ${SIGNAL}\n");
    sealed.run_ralph(&["resume", "-m", "3"]);
    assert!(prompt(&sealed, 3).starts_with("Third."), "{}", prompt(&sealed, 3));
}

#[test]
fn missing_signal_is_warned_about() {
    let first = json!([{ "write": { "path": "ask.md", "text": "Continue.
" } }, says("Hm.")]);
    let sealed = planned(&first_then(first, json!([complete()])), &json!({}));
    sealed.write_file("ask.md", "First. ${SIGNAL}\n");
    commit_all(&sealed, "Ask");
    sealed.run_ralph(&["prompt", "ask.md", "2"]).expect_code(0);
    expect_warning(&sealed, "does not name the completion signal");
}

#[test]
fn template_changed_by_a_planner_is_restored() {
    let actions = json!([
        plan("- [ ] x\n"),
        { "write": { "path": ".ralph/prompts/build.md", "text": "Say ${SIGNAL} at once.\n" } },
        commit("Plan"),
        complete(),
    ]);
    let sealed = planned(&always(actions), &json!({}));
    sealed.run_ralph(&["plan", "1"]).expect_code(1);
    assert!(!sealed.project_dir().join(".ralph/prompts/build.md").exists());
}

#[test]
fn a_dry_run_shows_the_prompt_filled_in_and_changes_nothing() {
    let sealed = planned(&always(json!(["hang"])), &json!({ "vars": { "TONE": "brief" } }));
    sealed.write_file("ask.md", "Be ${TONE} in ${MODE}, ${UNKNOWN}. ${SIGNAL}\n");
    commit_all(&sealed, "Ask");
    let listing = || {
        let output = sealed.build_command("find").args([".", "-not", "-path", "./.git/*"]).output();
        let mut lines: Vec<String> = String::from_utf8_lossy(&output.expect("listed").stdout)
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let before = listing();
    for (words, texts) in [
        (["plan", "3"].as_slice(), ["Up to 3 iterations", "| ", PLAN, "specs/"]),
        (&["build"], ["Up to 50 iterations", "You do one item of a plan", PLAN, SIGNAL]),
        (
            &["prompt", "ask.md"],
            [
                "| Be brief in prompt, ${UNKNOWN}. <promise>COMPLETE</promise>",
                "__sim",
                "unknown variable",
                "Dry run",
            ],
        ),
    ] {
        let end = sealed.run_ralph(&[words, &["--dry-run"]].concat());
        assert_eq!(end.code, Some(0), "{words:?}:\n{}", end.stderr);
        for text in texts {
            assert!(end.stdout.contains(text), "{words:?}: no {text:?} in\n{}", end.stdout);
        }
        assert_eq!(listing(), before, "{words:?}");
    }
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    assert!(!sealed.state_dir().exists());
    sealed.run_git(&["rm", "--quiet", PLAN]);
    commit_all(&sealed, "No plan");
    sealed
        .run_ralph(&["build", "--dry-run"])
        .expect_code(2)
        .expect_stderr("Run 'ralph plan' first.");
}
