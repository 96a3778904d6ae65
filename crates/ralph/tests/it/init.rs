//! `ralph init`: the documents and settings of a workflow.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use expect_test::expect;
use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::json;

use crate::{repository, sealed};

const DOCUMENTS: [&str; 4] =
    ["ralph/prd.md", "ralph/tasks.json", "ralph/progress.txt", "ralph/prompt.md"];

fn init(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["init", "--workflow", "tasks"], words].concat())
}

#[test]
fn a_fresh_project_gets_everything() {
    let sealed = repository();
    sealed.write_file("Cargo.toml", "[package]\nname = \"x\"\n");
    sealed.write_program("cargo", "#!/bin/sh\n");
    let end = init(&sealed, &["--name", "Search in notes"]).expect_code(0);
    expect![[r#"
        found   cargo test (Cargo.toml)
        wrote   ralph/prd.md
        wrote   ralph/tasks.json
        wrote   ralph/progress.txt
        wrote   ralph/prompt.md
        wrote   .ralph/settings.json
        wrote   .ralph/schema.json
        added   /ralph/*.bak to .gitignore

        After every story these must succeed: cargo test

        Next:
          1. Describe in ralph/prd.md what is to be built.
          2. Name your agent in .ralph/settings.json: "agent": { "command": "claude" }
          3. ralph plan     turns it into a task list
          4. ralph build    does them, one verified commit at a time
    "#]]
    .assert_eq(&end.stdout);
    expect![[r#"
        {
          "project": "Search in notes",
          "branchName": "ralph/search-in-notes",
          "description": "",
          "verifyCommands": ["cargo test"],
          "userStories": []
        }
    "#]]
    .assert_eq(&sealed.read_file("ralph/tasks.json"));
    assert!(sealed.read_file("ralph/prd.md").starts_with("# Search in notes\n"));
    let progress = sealed.read_file("ralph/progress.txt");
    assert!(progress.contains("\nPRD: Search in notes\n"), "{progress}");
    assert!(progress.contains("\nStarted: 20"), "{progress}");
    assert!(progress.contains("\n## Codebase Patterns\n\n---\n"), "{progress}");
    assert_eq!(sealed.read_file(".gitignore"), "/ralph/*.bak\n");
    let mode =
        |path: &str| fs::metadata(sealed.project_dir().join(path)).expect("there").permissions();
    assert_eq!(mode("ralph/prd.md").mode() & 0o600, 0o600);
    // The written files work at once.
    sealed.run_ralph(&["tasks", "validate"]).expect_code(0);
    sealed.run_ralph(&["tasks", "add", "A title", "--criterion", "It is there"]).expect_code(0);
    sealed.run_ralph(&["doctor"]).expect_code(4);
    let ignored = sealed.run_git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!ignored.contains(".bak"), "{ignored}");
}

#[test]
fn schema_matches_the_settings_reference() {
    let sealed = sealed();
    init(&sealed, &["--name", "x"]).expect_code(0);
    let printed = sealed.run_ralph(&["init", "--print-schema"]).expect_code(0).stdout;
    assert_eq!(sealed.read_file(".ralph/schema.json"), printed);
    assert!(sealed.read_file(".ralph/settings.json").contains("\"$schema\": \"./schema.json\""));
    assert!(!sealed.project_dir().join(".gitignore").exists(), "there is no repository");
}

#[test]
fn existing_files_are_kept_and_reported() {
    let sealed = repository();
    sealed.write_file("ralph/prd.md", "# Mine\n");
    sealed.write_file(".gitignore", "/target");
    sealed.write_file(".ralph/settings.json", "{ \"agent\": { \"command\": \"claude\" } }\n");
    let end = init(&sealed, &["--name", "x"]).expect_code(0);
    for line in
        ["kept    ralph/prd.md\n", "kept    .ralph/settings.json\n", "--force", "\"workflow\""]
    {
        assert!(end.stdout.contains(line), "{}", end.stdout);
    }
    assert_eq!(sealed.read_file("ralph/prd.md"), "# Mine\n");
    assert_eq!(sealed.read_file(".gitignore"), "/target\n/ralph/*.bak\n");
    assert!(!end.stdout.contains("Name your agent"), "{}", end.stdout);
    let before: Vec<String> = DOCUMENTS.map(|path| sealed.read_file(path)).into();
    let again = init(&sealed, &["--name", "other"]).expect_code(0);
    assert!(!again.stdout.contains("wrote"), "{}", again.stdout);
    assert_eq!(DOCUMENTS.map(|path| sealed.read_file(path)).to_vec(), before);
    assert_eq!(sealed.read_file(".gitignore"), "/target\n/ralph/*.bak\n");
}

#[test]
fn force_keeps_backups() {
    let sealed = repository();
    init(&sealed, &["--name", "First"]).expect_code(0);
    sealed.write_file("ralph/prd.md", "Mine, first.\n");
    init(&sealed, &["--name", "Second", "--force"]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/prd.md.bak"), "Mine, first.\n");
    assert!(sealed.read_file("ralph/tasks.json").contains("ralph/second"));
    assert!(!sealed.project_dir().join("ralph/tasks.json.bak").exists(), "it was not written");
    sealed.write_file("ralph/prd.md", "Mine, second.\n");
    let end = init(&sealed, &["--name", "Third", "--force"]).expect_code(0);
    assert!(end.stdout.contains("the old one is ralph/prd.md.2.bak"), "{}", end.stdout);
    assert!(end.stdout.contains("are kept, also with --force"), "{}", end.stdout);
    assert_eq!(sealed.read_file("ralph/prd.md.bak"), "Mine, first.\n");
    assert_eq!(sealed.read_file("ralph/prd.md.2.bak"), "Mine, second.\n");
}

#[test]
fn without_a_name_the_directory_gives_it() {
    let sealed = sealed();
    init(&sealed, &[]).expect_code(0);
    assert!(sealed.read_file("ralph/tasks.json").contains("\"branchName\": \"ralph/project\""));
}

#[test]
fn silly_names_write_nothing() {
    for name in ["", "  ", "?!", "a\nb", &"x".repeat(300)] {
        let sealed = sealed();
        init(&sealed, &["--name", name]).expect_code(2).expect_stderr("--name");
        assert_eq!(fs::read_dir(sealed.project_dir()).expect("readable").count(), 0, "{name:?}");
    }
}

#[test]
fn odd_places_are_refused() {
    let sealed = sealed();
    sealed.write_file("ralph", "a file");
    init(&sealed, &["--name", "x"])
        .expect_code(2)
        .expect_stderr("is a file, and must be a directory");
    assert_eq!(sealed.read_file("ralph"), "a file");

    fs::remove_file(sealed.project_dir().join("ralph")).expect("removed");
    fs::create_dir(sealed.root().join("elsewhere")).expect("a directory");
    symlink(sealed.root().join("elsewhere"), sealed.project_dir().join("ralph")).expect("a link");
    init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr("is a link");
    let through = fs::read_dir(sealed.root().join("elsewhere")).expect("readable").count();
    assert_eq!(through, 0);

    fs::remove_file(sealed.project_dir().join("ralph")).expect("removed");
    fs::remove_dir_all(sealed.project_dir().join(".ralph")).expect("removed");
    sealed.write_file(".ralph", "a file");
    init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr(".ralph");
    assert!(!sealed.project_dir().join("ralph").exists(), "nothing is written by halves");
}

#[test]
fn a_link_in_place_of_a_document_is_not_written_through() {
    let sealed = sealed();
    let target = sealed.root().join("precious");
    fs::write(&target, "precious").expect("written");
    fs::create_dir(sealed.project_dir().join("ralph")).expect("a directory");
    symlink(&target, sealed.project_dir().join("ralph/prd.md")).expect("a link");
    init(&sealed, &["--name", "x", "--force"]).expect_code(0);
    assert_eq!(fs::read_to_string(&target).expect("there"), "precious");
    assert!(sealed.read_file("ralph/prd.md").starts_with("# x\n"));
}

#[test]
fn unwritable_directory_is_reported() {
    let sealed = sealed();
    let readonly = fs::Permissions::from_mode(0o555);
    fs::set_permissions(sealed.project_dir(), readonly).expect("a mode");
    // Root may write anywhere.
    let is_refused = fs::write(sealed.project_dir().join("probe"), "").is_err();
    if is_refused {
        init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr("annot create");
    }
    fs::set_permissions(sealed.project_dir(), fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn a_project_gets_a_first_specification_and_the_gates_that_were_found() {
    let sealed = repository();
    sealed.write_file("package.json", r#"{"scripts": {"test": "vitest run", "lint": "eslint ."}}"#);
    let words = ["init", "--workflow", "specs", "--name", "Search in notes"];
    let end = sealed.run_ralph(&words).expect_code(0);
    expect![[r#"
        found   npm run test (package.json)
        found   npm run lint (package.json)
        wrote   specs/overview.md
        wrote   .ralph/settings.json
        wrote   .ralph/schema.json

        After every iteration these must succeed: npm run test, npm run lint

        Next:
          1. Describe in specs/overview.md what is to be built.
          2. Name your agent in .ralph/settings.json: "agent": { "command": "claude" }
          3. git add specs .ralph && git commit -m "Add the specification"
          4. ralph plan     compares it with the code, and plans what is missing
          5. ralph build    does the plan, one item an iteration
    "#]]
    .assert_eq(&end.stdout);
    assert!(sealed.read_file("specs/overview.md").starts_with("# Search in notes\n"));
    expect![[r#"
        {
          "$schema": "./schema.json",
          "workflow": "specs",
          "gates": [
            { "kind": "test", "command": "npm run test" },
            { "kind": "lint", "command": "npm run lint" }
          ]
        }
    "#]]
    .assert_eq(&sealed.read_file(".ralph/settings.json"));
    assert!(!sealed.project_dir().join(".gitignore").exists(), "there is nothing to ignore");
    sealed.run_git(&["add", "specs", ".ralph"]);
    let staged = sealed.run_git(&["diff", "--cached", "--name-only"]);
    assert_eq!(staged, ".ralph/schema.json\n.ralph/settings.json\nspecs/overview.md\n");
    sealed.run_ralph(&["doctor"]).expect_code(4);
}

#[test]
fn specifications_that_are_there_stay() {
    let specs = ["init", "--workflow", "specs"];
    let sealed = repository();
    sealed.write_file("specs/search.md", "# Search\n");
    let end = sealed.run_ralph(&specs).expect_code(0);
    assert!(end.stdout.contains("kept    specs/\n"), "{}", end.stdout);
    assert!(end.stdout.contains("1. Describe in specs/ what"), "{}", end.stdout);
    assert!(end.stdout.contains("\"gates\": [{ \"kind\": \"test\""), "{}", end.stdout);
    let there = fs::read_dir(sealed.project_dir().join("specs")).expect("readable").count();
    assert_eq!(there, 1);

    let sealed = repository();
    sealed.run_ralph(&specs).expect_code(0);
    let end = sealed.run_ralph(&specs).expect_code(0);
    assert!(end.stdout.starts_with("kept    specs/overview.md\nkept    .ralph/"), "{}", end.stdout);
    let forced = [&specs[..], &["--force"]].concat();
    sealed.run_ralph(&forced).expect_code(0);
    assert!(!sealed.project_dir().join("specs/overview.md.bak").exists(), "it was not written");
    sealed.write_file("specs/overview.md", "Mine.\n");
    let end = sealed.run_ralph(&forced).expect_code(0);
    assert!(end.stdout.contains("the old one is specs/overview.md.bak"), "{}", end.stdout);
    assert_eq!(sealed.read_file("specs/overview.md.bak"), "Mine.\n");
    let status = sealed.run_git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains(".bak"), "{status}");
}

#[test]
fn specifications_are_where_the_settings_say() {
    let settings = |directory: &str| format!("{{ \"specsDir\": \"{directory}\" }}\n");
    let sealed = sealed();
    sealed.write_file(".ralph/settings.json", &settings("docs/specs/"));
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    let end = sealed.run_ralph(&["init", "--workflow", "specs"]).expect_code(0);
    for line in [
        "wrote   docs/specs/overview.md\n",
        "Set \"workflow\": \"specs\" in .ralph/settings.json.\n",
        "\"gates\": [{ \"kind\": \"test\", \"command\": \"make test\" }]\n",
        "git init && git add docs/specs .ralph",
    ] {
        assert!(end.stdout.contains(line), "{}", end.stdout);
    }
    assert_eq!(sealed.read_file(".ralph/settings.json"), settings("docs/specs/"));
    for outside in ["../specs", "/specs"] {
        sealed.write_file(".ralph/settings.json", &settings(outside));
        let end = sealed.run_ralph(&["init", "--workflow", "specs"]).expect_code(2);
        end.expect_stderr("is not in the project directory").expect_stderr("`specsDir`");
    }
    sealed.write_file(".ralph/settings.json", "{}");
    symlink(sealed.project_dir().join("docs"), sealed.project_dir().join("specs")).expect("a link");
    sealed.run_ralph(&["init", "--workflow", "specs"]).expect_code(2).expect_stderr("is a link");
}

#[test]
fn a_prompt_needs_settings_alone() {
    let sealed = repository();
    sealed.write_program("go", "#!/bin/sh\n");
    sealed.write_file("go.mod", "module notes\n");
    let end = sealed.run_ralph(&["init", "--workflow", "prompt"]).expect_code(0);
    expect![[r#"
        found   go test ./... (go.mod)
        found   go vet ./... (go.mod)
        wrote   .ralph/settings.json
        wrote   .ralph/schema.json

        After every iteration these must succeed: go test ./..., go vet ./...

        Next:
          1. Name your agent in .ralph/settings.json: "agent": { "command": "claude" }
          2. ralph run "Implement X, with tests."
    "#]]
    .assert_eq(&end.stdout);
    assert!(sealed.read_file(".ralph/settings.json").contains("\"workflow\": \"prompt\""));
    let mine =
        "{ \"agent\": { \"command\": \"amp\" }, \"guardrails\": [{ \"command\": \"./check\" }] }";
    sealed.write_file(".ralph/settings.json", mine);
    let end = sealed.run_ralph(&["init", "--workflow", "prompt"]).expect_code(0);
    expect![[r#"
        kept    .ralph/settings.json

        After every iteration these must succeed: ./check

        Next:
          1. ralph run "Implement X, with tests."
    "#]]
    .assert_eq(&end.stdout);
    assert_eq!(sealed.read_file(".ralph/settings.json"), mine);
    for flag in [&["--name", "x"][..], &["--force"]] {
        let words = [&["init", "--workflow", "prompt"], flag].concat();
        sealed.run_ralph(&words).expect_code(2).expect_stderr("a prompt has none");
    }
}

#[test]
fn contradictory_options_write_nothing() {
    let sealed = sealed();
    sealed.run_ralph(&["init", "--workflow", "waterfall"]).expect_code(2);
    sealed.run_ralph(&["init", "--name", "x"]).expect_code(2).expect_stderr("no terminal");
    sealed.run_ralph(&["init", "--print-schema", "--yes"]).expect_code(2);
    sealed.run_ralph(&["init", "--from", "x", "--workflow", "tasks"]).expect_code(2);
    assert_eq!(fs::read_dir(sealed.project_dir()).expect("readable").count(), 0);
}

#[test]
fn yes_uses_detected_values_and_reports_their_source() {
    let sealed = repository();
    sealed.write_program("codex", "#!/bin/sh\necho 'codex-cli 0.139.0'\n");
    sealed.write_program("amp", "#!/bin/sh\nexit 1\n");
    sealed.write_file("backend/Cargo.toml", "[package]\n");
    sealed.write_file("pyproject.toml", "[project]\n");
    let end = sealed.run_ralph(&["init", "--yes"]).expect_code(0);
    let codex = sealed.bin_dir().join("codex");
    let reported =
        format!("found   codex 0.139.0 as the agent ({}); also installed: amp\n", codex.display());
    assert!(end.stdout.starts_with(&reported), "{}", end.stdout);
    assert!(end.stdout.contains("found   cd backend && cargo test (backend/Cargo.toml)\n"));
    assert!(!end.stdout.contains("Name your agent"), "{}", end.stdout);
    expect![[r#"
        {
          "$schema": "./schema.json",
          "workflow": "prompt",
          "agent": { "command": "codex" },
          "gates": [
            { "kind": "test", "command": "cd backend && cargo test" }
          ]
        }
    "#]]
    .assert_eq(&sealed.read_file(".ralph/settings.json"));
    // Existing files decide about the workflow.
    let sealed = repository();
    sealed.write_file("prd.json", r#"{"userStories": []}"#);
    sealed.run_ralph(&["init", "--yes"]).expect_code(0);
    assert!(sealed.read_file(".ralph/settings.json").contains("\"workflow\": \"tasks\""));
}

#[test]
fn an_agent_that_your_own_settings_name_is_not_named_again() {
    let sealed = sealed();
    sealed.write_program("claude", "#!/bin/sh\necho 2.1.3\n");
    let own = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&own).expect("a directory");
    fs::write(own.join("settings.json"), r#"{"agent": {"command": "amp"}}"#).expect("written");
    let end = sealed.run_ralph(&["init", "--yes"]).expect_code(0);
    assert!(!sealed.read_file(".ralph/settings.json").contains("agent"), "{}", end.stdout);
    assert!(end.stdout.contains("Your own settings apply here too"), "{}", end.stdout);
}

#[test]
fn a_dry_run_shows_everything_and_writes_nothing() {
    let sealed = repository();
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    let before = sealed.run_git(&["status", "--porcelain", "--untracked-files=all"]);
    let end = sealed.run_ralph(&["init", "--workflow", "tasks", "--dry-run"]).expect_code(0);
    expect![[r#"
        found   make test (Makefile)
        would write  ralph/prd.md
        would write  ralph/tasks.json
        would write  ralph/progress.txt
        would write  ralph/prompt.md
        would write  .ralph/settings.json
            {
              "$schema": "./schema.json",
              "workflow": "tasks"
            }
        would write  .ralph/schema.json
        would add    /ralph/*.bak to .gitignore
    "#]]
    .assert_eq(&end.stdout);
    assert_eq!(sealed.run_git(&["status", "--porcelain", "--untracked-files=all"]), before);
    sealed.write_file(".ralph/settings.json", "{}");
    sealed.write_file(".gitignore", "*.bak\n");
    let end = sealed.run_ralph(&["init", "--workflow", "tasks", "--dry-run"]).expect_code(0);
    assert!(end.stdout.contains("would keep   .ralph/settings.json\n"), "{}", end.stdout);
    assert!(!end.stdout.contains(".gitignore"), "{}", end.stdout);
}

/// An existing list stays in use: nothing is written that would hide it.
#[test]
fn a_list_in_another_usual_place_is_kept() {
    for words in [&["--yes"][..], &["--workflow", "tasks"], &["--workflow", "tasks", "--force"]] {
        let sealed = repository();
        let task = json!({ "id": "a", "title": "The a", "description": "Make a.", "status": "pending",
            "acceptance_criteria": ["a is there"] });
        let list = json!({ "project": "p", "tasks": [task], "verify_commands": ["true"] });
        sealed.write_file("plan.json", &list.to_string());
        let end = sealed.run_ralph(&[&["init"], words].concat()).expect_code(0);
        let message = "found   plan.json as the task list (1 task)";
        assert!(end.stdout.contains(message), "{}", end.stdout);
        assert!(end.stdout.contains("must succeed: true"), "{}", end.stdout);
        assert_eq!(sealed.read_file("plan.json"), list.to_string());
        assert!(!sealed.project_dir().join("ralph").exists(), "{words:?}");
        assert!(sealed.read_file(".ralph/settings.json").contains("\"tasks\""));
        let shown = sealed.run_ralph(&["tasks"]).expect_code(0);
        assert!(shown.stdout.contains("The a"), "{}", shown.stdout);
    }
}

#[test]
fn of_two_lists_the_used_one_is_reported() {
    let sealed = repository();
    init(&sealed, &["--name", "x"]).expect_code(0);
    let task = json!({ "id": "a", "title": "The a", "description": "Make a.", "status": "pending",
            "acceptance_criteria": ["a is there"] });
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task] }).to_string());
    let end = init(&sealed, &["--name", "x"]).expect_code(0);
    let message = "found   plan.json, which is not used: ralph/tasks.json is the task list";
    assert!(end.stdout.contains(message), "{}", end.stdout);
    sealed.run_ralph(&["build"]).expect_code(2).expect_stderr("`plan.json` exists too");
}

#[test]
fn commands_of_a_second_terminal_find_the_project_above() {
    let sealed = repository();
    sealed.write_program("say", "#!/bin/sh\necho Not yet.\n");
    // Only the settings of the project say where its runs are.
    sealed.write_file(".ralph/settings.json", r#"{ "stateDir": "../runs-of-this" }"#);
    sealed.trust_project(&[]);
    sealed.run_ralph(&["run", "Do it.", "--agent", "say", "-n", "1"]).expect_code(1);
    fs::create_dir_all(sealed.project_dir().join("sub/deep")).expect("made");
    let ralph = |words: &[&str]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.current_dir(sealed.project_dir().join("sub/deep")).args(words);
        Running::start_command(command).wait_for_end()
    };
    for words in [&["status"][..], &["log"], &["report"]] {
        let end = ralph(words).expect_code(0);
        assert!(end.stdout.contains("iteration"), "{words:?}: {}", end.stdout);
        assert_eq!(end.stdout, sealed.run_ralph(words).stdout, "{words:?}");
    }
    // It finds the run, which is over.
    ralph(&["stop"]).expect_stderr("`ralph resume` resumes run");
    assert!(!ralph(&["-C", ".", "status"]).stdout.contains("iteration"));
}

/// Work that is started below a project is work on the project, with its gates; `init` asks which
/// directory is meant.
#[test]
fn subdirectory_of_a_project_is_not_a_project() {
    let sealed = repository();
    let calls = json!([{ "do": [{ "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "false" }] }));
    fs::create_dir_all(sealed.project_dir().join("sub/deep")).expect("made");
    let ralph = |directory: &str, words: &[&str]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.current_dir(sealed.project_dir().join(directory)).args(words);
        Running::start_command(command).wait_for_end()
    };
    for words in [&["init", "--yes"][..], &["init", "--workflow", "tasks"]] {
        let end = ralph("sub/deep", words).expect_code(2);
        let message = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains("belongs to the project in `../..`"), "{words:?}: {message}");
        let hint = format!("`ralph -C ../.. {}`", words[0]);
        assert!(message.contains(&hint), "{words:?}: {message}");
        assert!(!sealed.project_dir().join("sub/deep/.ralph").exists(), "{words:?}");
    }
    // The guardrail of the project runs, so these runs are not done.
    sealed.write_file("sub/deep/prompt.md", "Say DONE.\n");
    for words in [&["run", "-p", "x"][..], &["run", "-f", "prompt.md"], &["prompt", "prompt.md"]] {
        let end = ralph("sub/deep", &[words, &["-m", "1"]].concat()).expect_code(1);
        assert!(
            end.stderr.contains("belongs to the project in `../..`"),
            "{words:?}: {}",
            end.stderr
        );
        assert_eq!(sealed.find_events("gate_checked").len(), 1, "{words:?}: {}", end.stderr);
    }
    ralph("sub/deep", &["build"]).expect_code(2).expect_stderr("plan not found");
    ralph("sub/deep", &["plan"]).expect_code(2).expect_stderr("nothing to plan from");
    ralph("sub", &["-C", "..", "run", "-p", "x", "-m", "1"]).expect_code(1);
    // Commands that start no new work find the project.
    let run = sealed
        .runs()
        .pop()
        .expect("a run")
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    for words in [
        &["status"][..],
        &["log"],
        &["report"],
        &["stats"],
        &["context"],
        &["doctor"],
        &["sandbox", "show"],
        &["clean", "--dry-run"],
        &["resume", "--dry-run"],
    ] {
        let (here, above) = (ralph("sub/deep", words), ralph(".", words));
        assert_eq!(here.code, above.code, "{words:?}: {}", here.stderr);
        let names_run = ["status", "log", "report"].contains(&words[0]);
        assert!(!names_run || here.stdout.contains(&run), "{words:?}: {}", here.stdout);
        assert!(!sealed.project_dir().join("sub/deep/.ralph").exists(), "{words:?}");
    }
    // A directory with its own settings is a project, and so is one that is named.
    sealed.write_file("sub/.ralph/settings.json", "{}");
    ralph("sub", &["init", "--workflow", "tasks"]).expect_code(0);
    ralph("sub/deep", &["tasks"]).expect_code(0);
    ralph("sub/deep", &["-C", ".", "init", "--workflow", "tasks"]).expect_code(0);
    ralph("sub/deep", &["tasks"]).expect_code(0);
}

#[test]
fn checks_whose_program_is_missing_are_not_written() {
    let sealed = repository();
    sealed.write_file("mix.exs", "");
    sealed.write_file(".golangci.yml", "");
    sealed.write_file("go.mod", "module x\n");
    sealed.write_program("go", "#!/bin/sh\n");
    let init = || sealed.run_ralph(&["init", "--yes"]).expect_code(0).stdout;
    let text = init();
    for program in ["mix", "golangci-lint"] {
        let line = format!(": `{program}` is not installed\n");
        assert!(text.contains("SKIPPED ") && text.contains(&line), "{text}");
        assert!(!sealed.read_file(".ralph/settings.json").contains(program), "{text}");
        assert!(!text.contains(&format!("found   {program}")), "{text}");
    }
    assert!(text.contains("these must succeed: go test ./..., go vet ./...\n"), "{text}");
    fs::remove_file(sealed.project_dir().join(".ralph/settings.json")).expect("removed");
    sealed.write_program("mix", "#!/bin/sh\n");
    assert!(init().contains("found   mix test (mix.exs)\n"));

    // Nothing is left of what was found.
    let sealed = repository();
    sealed.write_file("mix.exs", "");
    for workflow in ["prompt", "tasks"] {
        let end = sealed.run_ralph(&["init", "--yes", "--workflow", workflow]).expect_code(0);
        let text = "Nothing checks this project yet, because `mix test` cannot run here";
        assert!(end.stdout.contains(text), "{}", end.stdout);
        fs::remove_file(sealed.project_dir().join(".ralph/settings.json")).expect("removed");
    }
}

#[test]
fn what_is_there_already_is_not_asked_for() {
    let sealed = repository();
    init(&sealed, &["--name", "Search"]).expect_code(0);
    sealed.write_file("ralph/prd.md", "# Search\n\nNotes can be searched by word.\n");
    let end = init(&sealed, &["--yes"]).expect_code(0).stdout;
    assert!(!end.contains("Describe in"), "{end}");
    assert!(end.contains("ralph plan"), "{end}");
    sealed.run_ralph(&["tasks", "add", "A title", "--criterion", "It is there"]).expect_code(0);
    let end = init(&sealed, &["--yes"]).expect_code(0).stdout;
    assert!(!end.contains("Describe in") && !end.contains("ralph plan "), "{end}");
    assert!(end.contains("ralph build    does the tasks"), "{end}");
}

#[test]
fn instructions_of_another_loop_are_warned_about() {
    let sealed = repository();
    sealed.write_file("ralph/prompt.md", "Pick one story of prd.json. Say COMPLETE at the end.\n");
    let warning = "it tells the agent how to loop";
    let end = init(&sealed, &["--name", "Search"]).expect_code(0).stdout;
    assert!(end.contains(warning), "{end}");
    let from = sealed.run_ralph(&["init", "--from", "ralph/prompt.md", "--yes"]);
    assert!(!from.stdout.contains("into ralph/prompt.md"), "{}", from.stdout);
    sealed.run_ralph(&["tasks", "add", "A title", "--criterion", "It is there"]).expect_code(0);
    sealed.commit_all("A list");
    sealed.write_file(".ralph/settings.local.json", r#"{"retries": {"max": 0}}"#);
    let preview = sealed.run_ralph(&["build", "--agent", "false", "--dry-run"]).stdout;
    let end = sealed.run_ralph(&["build", "--agent", "false"]).stderr;
    for shown in [preview, end] {
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(warning), "{shown}");
    }
}
