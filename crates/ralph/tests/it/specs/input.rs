//! User errors with the three commands: one clear message, the documented exit code, and nothing
//! started.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::{
    PLAN, check_items, commit, commit_all, complete, expect_warning, plan, planned, specs,
};
use crate::{always, done, repository};

const PLAN_MISSING: &str = "Implementation plan not found. Run 'ralph plan' first.";

/// Makes an error in a project.
type Mistake = fn(&Sealed);

/// Returns a repository with an agent that would plan at once, without specifications.
fn bare() -> Sealed {
    let sealed = repository();
    let actions = json!([plan("- [ ] x\n"), commit("Plan"), complete()]);
    sealed.write_script(&always(actions), &json!({ "workflow": "specs" }));
    sealed.write_file(".gitignore", "/.ralph/logs/\n/.ralph/state.json\n");
    sealed
}

#[test]
fn without_specifications_nothing_is_planned() {
    let mistakes: [(&str, Mistake, &str); 9] = [
        ("missing", |_| {}, "There is no directory `specs` with specifications."),
        ("a file", |sealed| sealed.write_file("specs", "# One\n"), "`specs` is not a directory"),
        (
            "empty",
            |sealed| fs::create_dir(sealed.project_dir().join("specs")).expect("made"),
            "`specs` has no specification in it",
        ),
        (
            "blank",
            |sealed| sealed.write_file("specs/one.md", " \n\n"),
            "has no specification in it",
        ),
        (
            "hidden",
            |sealed| sealed.write_file("specs/.one.md", "# One\n"),
            "has no specification in it",
        ),
        (
            "not UTF-8",
            |sealed| {
                sealed.write_file("specs/x", "");
                fs::write(sealed.project_dir().join("specs/x"), b"caf\xe9 \xff\n")
                    .expect("written");
            },
            "has no specification that can be read",
        ),
        (
            "a dangling link",
            |sealed| symlink("nowhere", sealed.project_dir().join("specs")).expect("a link"),
            "`specs`",
        ),
        (
            "a link out of the project",
            |sealed| {
                sealed.write_file("../outside/one.md", "# One\n");
                symlink("../outside", sealed.project_dir().join("specs")).expect("a link");
            },
            "leads out of the project",
        ),
        (
            "a pipe",
            |sealed| {
                let made = sealed.build_command("mkfifo").arg("specs").status();
                assert!(made.is_ok_and(|it| it.success()));
            },
            "`specs` is not a directory",
        ),
    ];
    for (name, make, expect) in mistakes {
        let sealed = bare();
        make(&sealed);
        let end = sealed.run_ralph(&["plan", "--include-dirty"]);
        assert_eq!(end.code, Some(2), "{name}:\n{}", end.stderr);
        assert!(end.stderr.contains(expect), "{name}:\n{}", end.stderr);
        assert!(end.stderr.contains("hint:"), "{name}:\n{}", end.stderr);
        assert_eq!(sealed.runs().len(), 0, "{name}");
        assert!(!sealed.project_dir().join(PLAN).exists(), "{name}");
    }
}

#[test]
fn the_setting_names_another_directory() {
    let sealed = repository();
    let script = |directory: &str, actions: Value| {
        let settings = json!({ "workflow": "specs", "specsDir": directory });
        sealed.write_script(&always(actions), &settings);
        commit_all(&sealed, "Specify");
    };
    sealed.write_file("docs/specs/one.md", "# One\n");
    sealed.write_file(".gitignore", "/.ralph/logs/\n/.ralph/state.json\n");
    let plans = json!([plan("- [ ] x\n"), commit("Plan"), complete()]);
    for directory in [".", "..", ""] {
        script(directory, plans.clone());
        let end = sealed.run_ralph(&["plan", "1"]);
        assert_eq!(end.code, Some(2), "{directory:?}:\n{}", end.stderr);
    }
    script("./docs/specs/", plans);
    sealed.run_ralph(&["plan", "1"]).expect_code(0);
    assert!(sealed.prompts()[0].contains("docs/specs"));
    // It is protected under any of its names.
    let append = json!({ "append": { "path": "docs/specs/one.md", "text": "x" } });
    script("./docs/specs/", json!([check_items(), append, commit("Do"), complete()]));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
}

#[test]
fn specifications_that_cannot_be_read_are_named() {
    let sealed = specs(&always(json!([plan("- [ ] x\n"), commit("Plan"), complete()])), &json!({}));
    fs::write(sealed.project_dir().join("specs/latin.md"), b"caf\xe9\n").expect("written");
    commit_all(&sealed, "More");
    sealed.run_ralph(&["plan", "1"]).expect_code(0);
    expect_warning(&sealed, "latin.md");
}

#[test]
fn huge_specification_folder_is_read_in_bounded_time_with_a_warning() {
    let sealed = specs(&always(json!([plan("- [ ] x\n"), commit("Plan"), complete()])), &json!({}));
    for number in 0..12_000 {
        sealed.write_file(&format!("specs/many/{number}.md"), "# One of many\n");
    }
    commit_all(&sealed, "Many");
    let begun = Instant::now();
    sealed.run_ralph(&["plan", "1"]).expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    expect_warning(&sealed, "`specs` is enormous");
}

#[test]
fn without_a_plan_nothing_is_built() {
    let mistakes: [(&str, Mistake); 6] = [
        ("missing", |_| {}),
        ("empty", |sealed| sealed.write_file(PLAN, "")),
        ("blank", |sealed| sealed.write_file(PLAN, " \n\t\n")),
        ("a directory", |sealed| fs::create_dir(sealed.project_dir().join(PLAN)).expect("made")),
        ("a link out of the project", |sealed| {
            symlink("/etc/hostname", sealed.project_dir().join(PLAN)).expect("a link");
        }),
        ("not UTF-8", |sealed| {
            fs::write(sealed.project_dir().join(PLAN), b"- [ ] caf\xe9\n").expect("written");
        }),
    ];
    for (name, make) in mistakes {
        let sealed = specs(&always(json!([complete()])), &json!({}));
        make(&sealed);
        let end = sealed.run_ralph(&["build", "--include-dirty"]);
        assert_eq!(end.code, Some(2), "{name}:\n{}", end.stderr);
        assert!(end.stderr.contains(PLAN_MISSING), "{name}:\n{}", end.stderr);
        assert_eq!(sealed.runs().len(), 0, "{name}");
    }
}

#[test]
fn a_build_goes_by_the_plan_and_warns_of_missing_specifications() {
    let sealed = planned(&always(json!([check_items(), commit("Do it"), complete()])), &json!({}));
    sealed.run_git(&["rm", "-r", "--quiet", "specs"]);
    commit_all(&sealed, "No specs");
    sealed.run_ralph(&["build", "1"]).expect_code(0);
    expect_warning(&sealed, "no directory `specs`");
}

#[test]
fn a_prompt_file_must_name_the_signal() {
    let vars = json!({ "vars": { "MINE": "<promise>COMPLETE</promise>" } });
    let sealed = specs(&always(json!([complete()])), &vars);
    let mut runs = 0;
    for (text, code) in [
        ("Do it.\n", 1),
        ("Do it, and say COMPLETE.\n", 1),
        ("Say <promise>DONE</promise>.\n", 1),
        ("Say <promise>COMPLETE.\n", 1),
        ("Say $${SIGNAL}.\n", 1),
        ("Say <promise>COMPLETE</promise>.\n", 0),
        ("Say <promise> complete </promise>.\n", 0),
        ("Say <response>COMPLETE</response>.\n", 0),
        ("Say ${SIGNAL}.\n", 0),
        ("Say ${MINE}.\n", 0),
    ] {
        sealed.write_file("ask.md", text);
        let end = sealed.run_ralph(&["prompt", "ask.md", "1"]);
        assert_eq!(end.code, Some(code), "{text:?}:\n{}", end.stderr);
        if code == 1 {
            assert!(end.stderr.contains("ask.md"), "{text:?}:\n{}", end.stderr);
            assert!(
                end.stderr.contains("<promise>COMPLETE</promise>"),
                "{text:?}:\n{}",
                end.stderr
            );
        }
        runs += usize::from(code == 0);
        assert_eq!(sealed.runs().len(), runs, "{text:?}");
    }
    let sealed = specs(&done(), &json!({ "completionResponse": "DONE" }));
    sealed.write_file("ask.md", "Say <promise>COMPLETE</promise>.\n");
    sealed
        .run_ralph(&["prompt", "ask.md", "1"])
        .expect_code(1)
        .expect_stderr("<promise>DONE</promise>");
    sealed.write_file("ask.md", "Say <promise>DONE</promise>.\n");
    sealed.run_ralph(&["prompt", "ask.md", "1"]).expect_code(0);
}

#[test]
fn unreadable_prompt_file_is_reported() {
    let sealed = specs(&always(json!([complete()])), &json!({}));
    let file = |name: &str, bytes: &[u8]| {
        fs::write(sealed.project_dir().join(name), bytes).expect("written");
    };
    file("empty.md", b"");
    file("latin.md", b"caf\xe9 <promise>COMPLETE</promise>\n");
    file("huge.md", &b"<promise>COMPLETE</promise>\n".repeat(700_000));
    fs::create_dir(sealed.project_dir().join("folder")).expect("made");
    symlink("nowhere", sealed.project_dir().join("dangling.md")).expect("a link");
    assert!(sealed.build_command("mkfifo").arg("pipe.md").status().is_ok_and(|it| it.success()));
    for name in
        ["empty.md", "latin.md", "huge.md", "folder", "dangling.md", "pipe.md", "missing.md"]
    {
        let end = sealed.run_ralph(&["prompt", name, "1"]);
        assert_eq!(end.code, Some(2), "{name}:\n{}", end.stderr);
        assert!(end.stderr.contains(name), "{name}:\n{}", end.stderr);
    }
    let end = sealed.run_ralph(&["prompt"]);
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn flags_of_task_lists_are_refused_here() {
    let sealed = planned(&always(json!([complete()])), &json!({}));
    for words in [
        ["build", "--task", "T1"].as_slice(),
        &["build", "--skip-review"],
        &["build", "--review-cap", "2"],
        &["build", "--retry-failed"],
        &["plan", "--force"],
    ] {
        sealed.run_ralph(words).expect_code(2).expect_stderr("task list");
    }
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn workflow_is_chosen_by_existing_files() {
    let sealed = repository();
    sealed.write_script(&always(json!([complete()])), &json!({}));
    let end = sealed.run_ralph(&["plan"]).expect_code(2);
    assert!(end.stderr.contains("nothing to plan from"), "{}", end.stderr);
    let end = sealed.run_ralph(&["build"]).expect_code(2).expect_stderr(PLAN_MISSING);
    assert!(end.stderr.contains("hint: `ralph run \"TEXT\"` loops"), "{}", end.stderr);
    sealed.write_file("specs/one.md", "# One\n");
    sealed
        .run_ralph(&["plan", "1", "--include-dirty"])
        .expect_code(1)
        .expect_stderr("workflow specs");
    sealed.write_file("ralph/prd.md", "# Requirements\n");
    let end = sealed.run_ralph(&["plan", "1", "--include-dirty"]);
    assert!(!end.stderr.contains("workflow specs"), "{}", end.stderr);
}
