//! Help, completions, manual pages, and the position of options.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;

use ralph_testkit::sealed::{Finished, Running, Sealed, wait_until};
use serde_json::json;

use crate::{done, repository, sealed};

const TOPICS: [&str; 12] = [
    "agents",
    "cost",
    "exit-codes",
    "files",
    "gates",
    "overnight",
    "parallel",
    "prompts",
    "sandbox",
    "settings",
    "tasks",
    "variables",
];

/// Returns the commands that `ralph --help` lists.
fn commands(sealed: &Sealed) -> BTreeSet<String> {
    let help = sealed.run_ralph(&["--help"]).expect_code(0).stdout;
    let (_, list) = help.split_once("\nStart:\n").expect("a list");
    let (list, _) = list.split_once("\nOptions:\n").expect("an end");
    let heads = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    heads.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_topic_fits_two_screens_and_a_narrow_terminal() {
    let sealed = sealed();
    for topic in TOPICS {
        let text = sealed.run_ralph(&["help", topic]).expect_code(0).stdout;
        assert!(text.lines().count() <= 48, "{topic}: {} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 79), "{topic}");
        assert!(
            !text.contains("```") && !text.contains("](") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(!text.starts_with('#'), "{text}");
    }
    let parallel = sealed.run_ralph(&["help", "parallel"]).stdout;
    for other in ["jobs", "fleet", "workers"] {
        assert_eq!(sealed.run_ralph(&["help", other]).expect_code(0).stdout, parallel);
    }
    let help = sealed.run_ralph(&["--help"]).expect_code(0).stdout;
    let missing: Vec<&&str> = TOPICS.iter().filter(|it| !help.contains(**it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(sealed.run_ralph(&["help", "tasks"]).stdout.contains("`ralph tasks --help`"));
    let bold = sealed.run_ralph(&["help", "cost", "--color", "always"]).expect_code(0).stdout;
    assert!(bold.starts_with("\u{1b}[1mCost"), "{bold:?}");
}

#[test]
fn commands_are_explained_too() {
    let sealed = sealed();
    for words in [&["run"][..], &["tasks", "add"], &["plugin", "install"]] {
        let by_help = sealed.run_ralph(&[&["help"], words].concat()).expect_code(0).stdout;
        let by_flag = sealed.run_ralph(&[words, &["--help"]].concat()).expect_code(0).stdout;
        assert_eq!(by_help, by_flag, "{words:?}");
        // A command's own help has the same summary as the list above it.
        let above = sealed.run_ralph(&[&words[..words.len() - 1], &["--help"]].concat()).stdout;
        let about = by_flag.lines().next().expect("a first line");
        assert!(above.contains(about), "{about:?} is not in:\n{above}");
    }
    let all = sealed.run_ralph(&["help"]).expect_code(0).stdout;
    assert_eq!(all, sealed.run_ralph(&["--help"]).stdout);
    for (words, reported) in [
        (&["paralel"][..], "did you mean `ralph help parallel`?"),
        (&["gate"], "did you mean `ralph help gates`?"),
        (&["biuld"], "did you mean `ralph help build`?"),
        (&["__sim"], "There is no topic and no command `__sim`"),
        (&["run", "fast"], "There is no topic and no command `fast`"),
        (&["zzz"], "topics: agents, cost, exit-codes"),
    ] {
        sealed.run_ralph(&[&["help"], words].concat()).expect_code(2).expect_stderr(reported);
    }
}

#[test]
fn global_options_are_accepted_before_the_command() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    let project = sealed.project_dir();
    let project = project.to_str().expect("text");
    let elsewhere = |words: &[&str]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).current_dir(sealed.root());
        Running::start_command(command).wait_for_end()
    };
    elsewhere(&["-C", project, "run", "-p", "base"]).expect_code(0);
    elsewhere(&["run", "-C", project, "-p", "base"]).expect_code(0);
    elsewhere(&["--project-dir", project, "-q", "status"]).expect_code(0);
    assert_eq!(sealed.runs().len(), 2);
    elsewhere(&["-q", "-v", "status"]).expect_code(2);
    let end = elsewhere(&["-C", "nowhere", "status"]).expect_code(2);
    end.expect_stderr("Cannot open the project directory `nowhere`");
    assert!(elsewhere(&["-C", project]).expect_code(0).stdout.contains("ralph demo"));
}

/// Requests completions as a shell does, and returns them with their descriptions.
fn ask(sealed: &Sealed, line: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["--", "ralph"])
        .args(line)
        .env("RALPH_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", line.len().to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n");
    Running::start_command(command).wait_for_end()
}

fn project() -> Sealed {
    let sealed = repository();
    sealed.write_file(
        "ralph/tasks.json",
        r#"{"userStories": [
            {"id": "US-001", "title": "One", "description": "d", "acceptanceCriteria": ["a"], "passes": false},
            {"id": "US-002", "title": "Two", "description": "d", "acceptanceCriteria": ["a"], "passes": true}]}"#,
    );
    sealed.write_script(&done(), &json!({}));
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    sealed
}

#[test]
fn values_are_completed_from_the_project() {
    let sealed = project();
    let run = only_run(&sealed);
    let directory = sealed.project_dir();
    let directory = directory.to_str().expect("text");
    for (line, expect) in [
        (&["build", "--task", ""][..], &["US-001", "US-002"][..]),
        (&["tasks", "show", "US-002"], &["US-002"]),
        (&["tasks", "set-status", "US-001", "d"], &["done"]),
        (&["-C", directory, "tasks", "show", ""], &["US-001", "US-002"]),
        (&["log", ""], &[run.as_str()]),
        (&["report", ""], &[run.as_str()]),
        (&["resume", ""], &[run.as_str()]),
        (&["run", "--agent", "co"], &["codex", "copilot"]),
        (&["run", "--sandbox=la"], &["--sandbox=landlock"]),
        (&["build", "--print-prompt", "plan"], &["plan-tasks", "plan-specs"]),
        (&["completions", "p"], &["powershell"]),
        (&["init", "--workflow", ""], &["prompt", "specs", "tasks"]),
        (&["help", "exit"], &["exit-codes"]),
        (&["comp"], &["completions"]),
    ] {
        let end = ask(&sealed, line).expect_code(0);
        let found: Vec<&str> = end.stdout.lines().map(str::trim_end).collect();
        assert_eq!(found, expect, "{line:?}");
        assert_eq!(end.stderr, "", "{line:?}");
    }
}

#[test]
fn completion_writes_nothing_and_fails_silently() {
    let sealed = sealed();
    sealed.write_file("ralph/tasks.json", "{ broken");
    sealed.write_file(".ralph/settings.json", "{ broken");
    for line in [&["build", "--task", ""][..], &["log", ""], &["-C", "nowhere", "log", ""]] {
        let end = ask(&sealed, line);
        assert!(end.stdout.lines().all(|word| word.starts_with('-')), "{line:?}: {}", end.stdout);
        assert_eq!(end.stderr, "", "{line:?}");
    }
    let state = fs::read_dir(sealed.root().join("state")).expect("readable").count();
    let home = fs::read_dir(sealed.root().join("home")).expect("readable").count();
    assert_eq!((state, home), (0, 0));
    assert_eq!(fs::read_dir(sealed.project_dir()).expect("readable").count(), 2);
    // An unknown shell gets no answer either.
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["--", "ralph", ""]).env("RALPH_COMPLETE", "/bin/tcsh");
    let end = Running::start_command(command).wait_for_end();
    assert_eq!((end.stdout.as_str(), end.stderr.as_str()), ("", ""));
    assert_ne!(end.code, Some(0));
}

#[test]
fn a_real_bash_completes() {
    let sealed = project();
    symlink(env!("CARGO_BIN_EXE_ralph"), sealed.bin_dir().join("ralph")).expect("a link");
    let script = r#"
        source <(ralph completions bash)
        complete_line() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
            COMP_TYPE=9; COMPREPLY=()
            local function; function=$(complete -p ralph | sed 's/.*-F \([^ ]*\).*/\1/')
            "$function" ralph "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}"
        }
        complete_line ralph build --task US-
        complete_line ralph help over
    "#;
    let mut command = sealed.build_command("bash");
    command.args(["--norc", "-c", script]);
    let end = Running::start_command(command).wait_for_end().expect_code(0);
    let found: Vec<&str> = end.stdout.lines().map(str::trim_end).collect();
    assert_eq!(found, ["US-001", "US-002", "overnight"], "{}", end.stderr);
}

/// Returns whether a shell is installed. CI must have it.
fn is_installed(sealed: &Sealed, shell: &str) -> bool {
    let found = sealed.build_command("sh").args(["-c", &format!("command -v {shell}")]).output();
    let is_there = found.expect("sh runs").status.success();
    assert!(is_there || env::var_os("CI").is_none(), "{shell} is missing in CI");
    is_there
}

/// Completes lines in a shell that has loaded its script, and returns its answer for each.
fn complete_in(shell: &str, sealed: &Sealed, script: &str, lines: &[&str]) -> Vec<String> {
    symlink(env!("CARGO_BIN_EXE_ralph"), sealed.bin_dir().join("ralph")).expect("a link");
    let file = sealed.root().join("script");
    fs::write(&file, script).expect("written");
    let mut command = sealed.build_command(shell);
    command.arg(file).args(lines);
    let end = Running::start_command(command).wait_for_end().expect_code(0);
    assert_eq!(end.stderr, "", "{}", end.stdout);
    end.stdout.lines().map(str::to_owned).collect()
}

/// The id of the only run of a project.
fn only_run(sealed: &Sealed) -> String {
    let run = sealed.runs().pop().expect("a run");
    run.file_name().and_then(|name| name.to_str()).expect("text").to_owned()
}

#[test]
fn a_real_fish_completes() {
    let sealed = project();
    if !is_installed(&sealed, "fish") {
        return;
    }
    let script = "
        ralph completions fish | source
        for line in $argv
            complete --do-complete=$line
        end
    ";
    let lines = ["ralph build --task US-", "ralph help over", "ralph log "];
    let found = complete_in("fish", &sealed, script, &lines);
    let words: Vec<&str> = found.iter().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["US-001", "US-002", "overnight", &only_run(&sealed)], "{found:?}");
    assert!(found[1].contains("Two"), "the title of a task is shown: {found:?}");
}

#[test]
fn a_real_zsh_completes() {
    let sealed = project();
    if !is_installed(&sealed, "zsh") {
        return;
    }
    // Completion is part of the line editor, which needs a terminal: runs a shell in a terminal of
    // its own. Quotes inside the markers keep the echo of a line from being read as its answer.
    let script = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        lines=(
            'PS1= RPS1=; unsetopt prompt_cr prompt_sp beep'
            'autoload -U compinit; compinit -D; source <(ralph completions zsh)'
            'tell() { BUFFER=$typed; CURSOR=$#BUFFER; zle complete-word; print -r -- "<$BUFFER>"; BUFFER= }'
            'zle -N tell; bindkey "^X" tell'
            'print rea""dy'
        )
        zpty -w shell "${(pj:\n:)lines}"
        zpty -r shell answer '*ready*'
        for typed in "$@"; do
            zpty -w shell "typed=${(q)typed}; print se''t"
            zpty -r shell answer '*set*'
            zpty -w -n shell $'\x18'
            zpty -r shell answer '*<*>*'
            print -r -- "${${answer##*<}%%>*}"
        done
        zpty -d shell
    "#;
    // The common prefix of two tasks.
    let lines = ["ralph build --task U", "ralph tasks show US-002", "ralph log "];
    let found = complete_in("zsh", &sealed, script, &lines);
    let run = format!("ralph log {} ", only_run(&sealed));
    assert_eq!(found, ["ralph build --task US-00", "ralph tasks show US-002 ", &run]);
}

#[test]
fn every_shell_has_its_script() {
    let sealed = sealed();
    for (shell, sign) in [
        ("bash", "complete "),
        ("zsh", "#compdef ralph"),
        ("fish", "complete --"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer"),
    ] {
        let script = sealed.run_ralph(&["completions", shell]).expect_code(0).stdout;
        assert!(script.contains(sign), "{shell}: {script}");
        assert!(script.contains("RALPH_COMPLETE"), "{shell}: {script}");
    }
    sealed.run_ralph(&["completions", "tcsh"]).expect_code(2).expect_stderr("tcsh");
}

#[test]
fn every_command_has_its_manual_page() {
    let sealed = sealed();
    let end = sealed.run_ralph(&["man", "--out", "man/man1"]).expect_code(0);
    let written: BTreeSet<String> = fs::read_dir(sealed.project_dir().join("man/man1"))
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    assert!(end.stdout.starts_with(&format!("{} pages in ", written.len())), "{}", end.stdout);
    let commands = commands(&sealed);
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(written.contains(&format!("ralph-{command}.1")), "{command}: {written:?}");
    }
    assert!(written.contains("ralph-tasks-add.1") && !written.iter().any(|it| it.contains("__")));
    let page = sealed.run_ralph(&["man"]).expect_code(0).stdout;
    assert_eq!(page, sealed.read_file("man/man1/ralph.1"));
    assert!(page.contains(".TH ralph 1"), "{page}");
    // Rendered, if a renderer is installed.
    for (renderer, words) in [("man", &["-l"][..]), ("mandoc", &["-T", "ascii"])] {
        let found =
            sealed.build_command("sh").args(["-c", &format!("command -v {renderer}")]).output();
        if !found.expect("sh runs").status.success() {
            continue;
        }
        for name in ["ralph.1", "ralph-run.1", "ralph-tasks-add.1"] {
            let mut command = sealed.build_command(renderer);
            command
                .args(words)
                .arg(format!("man/man1/{name}"))
                .env("MANWIDTH", "80")
                .env("MANPAGER", "cat");
            let end = Running::start_command(command).wait_for_end().expect_code(0);
            // Minimal systems have a `man` that only prints that it was removed.
            if !end.stdout.contains("minimized") {
                assert!(end.stdout.contains("SYNOPSIS"), "{name}: {}", end.stdout);
                assert_eq!(end.stderr, "", "{name}");
            }
        }
    }
    sealed.write_file("file", "");
    sealed.run_ralph(&["man", "--out", "file"]).expect_code(2).expect_stderr("Cannot write `file`");
}

#[test]
fn usual_spellings_of_options_are_understood() {
    let sealed = repository();
    sealed.write_script(&json!([{ "do": [{ "text": "Not yet." }] }]), &json!({}));
    sealed.trust_project(&[]);
    for limit in [["-n", "1"], ["--max-iterations", "1"], ["-m", "1"]] {
        let end = sealed.run_ralph(&[&["run", "Do it."], limit.as_slice()].concat());
        end.expect_code(1).expect_stderr("at most 1 iteration");
    }
    let end = sealed.run_ralph(&["run", "Do it.", "-v", "-n", "1"]).expect_code(1);
    assert!(end.stderr.contains("Do it."), "the prompt is not shown: {}", end.stderr);
    sealed.run_ralph(&["run", "Do it.", "-p", "And that."]).expect_code(2);
}

#[test]
fn mistaken_commands_get_a_suggestion() {
    for (words, meant) in [
        (&["rnu"][..], "'run'"),
        (&["biuld"], "'build'"),
        (&["statuss"], "a similar subcommand exists: 'status'"),
        (&["specs"], "tip: `ralph init --workflow specs`"),
        (&["undo"], "docs/trouble.md, Undoing a run"),
        (&["config"], "tip: `ralph help settings`"),
        (&["start"], "tip: `ralph run TEXT` loops a prompt"),
        (&["init", "tasks"], "tip: `ralph init --workflow WORKFLOW`"),
        (&["stats", "-f"], "tip: `ralph run -f FILE`"),
        (&["tasks", "ad"], "a similar subcommand exists: 'add'"),
        (&["build", "--resume"], "`ralph resume`"),
        (&["-p", "Do it."], "`ralph run -p TEXT`"),
    ] {
        sealed().run_ralph(words).expect_code(2).expect_stderr(meant);
    }
    let misspelled = ["run", "Do it.", "--agent", "cluade"];
    sealed().run_ralph(&misspelled).expect_code(4).expect_stderr("did you mean `claude`?");
    let sealed = sealed();
    sealed
        .write_file(".ralph/settings.json", r#"{ "agent": { "command": "cat --squeeze-blank" } }"#);
    let hint = r#"write "--squeeze-blank" into `agent.flags`"#;
    sealed.run_ralph(&["run", "Do it."]).expect_code(4).expect_stderr(hint);
}

#[test]
fn the_page_of_a_report_has_a_default_name_and_is_opened() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    sealed.run_ralph(&["run", "Do it."]).expect_code(0);
    let run = sealed.runs().remove(0);
    let run = run.file_name().expect("a name").to_string_lossy();
    sealed.write_program("xdg-open", "#!/bin/sh\necho \"$1\" > ../opened\n");
    sealed.run_ralph(&["report", "--html", "--open"]).expect_code(0);
    let page = format!(".ralph/report-{run}.html");
    assert!(sealed.read_file(&page).contains("<html"), "no page");
    sealed.wait_for("../opened");
    wait_until("it is opened", || sealed.read_file("../opened").trim_end().ends_with(&page));
}

#[test]
fn the_demo_of_several_tasks_shows_workers_and_their_history() {
    let end = sealed().run_ralph(&["demo", "--fast", "--jobs", "3"]).expect_code(0);
    assert!(end.stdout.contains("The workers worked for"), "{}", end.stdout);
    for name in ["count", "upper", "longest", "lines"] {
        assert!(end.stdout.contains(&format!("Ralph-Task: {name}")), "{}", end.stdout);
    }
}

#[test]
fn the_demo_rejects_an_early_claim_and_protects_its_test() {
    let end = sealed().run_ralph(&["demo", "--fast"]).expect_code(0);
    let end = end.expect_stderr("protected: test.sh").expect_stderr("Failed gate: sh test.sh");
    assert!(end.stdout.contains("The test failed, so that did not count"), "{}", end.stdout);
    assert!(end.stdout.contains("The agent said DONE, and the test passed."), "{}", end.stdout);
}
