//! What commands print and write: to stdout, and to the files that the user names.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::json;

use crate::{done, repository, run, sealed};

/// Runs a shell command; `ralph` is the built binary.
fn run_in_shell(sealed: &Sealed, script: &str) -> Finished {
    let script = script.replace("ralph ", &format!("{} ", env!("CARGO_BIN_EXE_ralph")));
    let mut command = sealed.build_command("sh");
    command.args(["-c", &script]);
    Running::start_command(command).wait_for_end()
}

fn with_run() -> Sealed {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    sealed.write_file(
        ".ralph/memory.jsonl",
        "{\"type\":\"entity\",\"name\":\"parser\",\"entityType\":\"module\",\"observations\":[]}\n",
    );
    run(&sealed, &[]).expect_code(0);
    sealed
}

#[test]
fn a_page_is_written_to_what_has_the_name() {
    let sealed = with_run();
    let page = |file: &str| sealed.run_ralph(&["report", "--html", file]);
    sealed.write_file("real.html", "old");
    symlink("real.html", sealed.project_dir().join("link.html")).expect("a link");
    page("link.html").expect_code(0);
    assert!(sealed.read_file("real.html").contains("<html"));
    assert!(sealed.project_dir().join("link.html").is_symlink());

    let real = sealed.project_dir().join("real.html");
    fs::write(&real, "mine").expect("written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o444)).expect("a mode");
    page("link.html").expect_code(2).expect_stderr("Cannot write");
    assert_eq!(sealed.read_file("real.html"), "mine");

    let script = "mkfifo pipe && { cat pipe > copy & } && ralph report --html pipe && wait";
    run_in_shell(&sealed, script).expect_code(0);
    assert!(sealed.read_file("copy").contains("<html"));
    let script = "mkfifo chart && { cat chart > copy & } && ralph memory export --mermaid chart && wait && [ -p chart ]";
    run_in_shell(&sealed, script).expect_code(0);
    assert!(sealed.read_file("copy").contains("parser"));

    for words in [&["report", "--html"][..], &["memory", "export", "--html"]] {
        for name in ["-", "/dev/stdout"] {
            let end = sealed.run_ralph(&[words, &[name]].concat()).expect_code(0);
            assert!(end.stdout.contains("<html"), "{words:?}");
        }
    }
    assert!(!sealed.project_dir().join("-").exists());
}

#[test]
fn lost_output_is_an_error() {
    let sealed = with_run();
    for words in [
        "report --json",
        "report --html -",
        "log",
        "log --json",
        "log --raw",
        "status",
        "status --json",
        "completions bash",
        "man",
        "init --print-schema",
        "memory export",
        "memory",
        "stats",
        "doctor --agent sim",
        "help gates",
        "run -p base --dry-run",
        "--version",
        "--help",
        "",
    ] {
        let end = run_in_shell(&sealed, &format!("ralph {words} > /dev/full"));
        assert!(matches!(end.code, Some(1 | 4)), "{words}: {:?} {}", end.code, end.stderr);
        assert!(
            end.stderr.contains("cannot write to stdout: No space left"),
            "{words}: {}",
            end.stderr
        );
        // A reader that has seen enough is no error.
        let end = run_in_shell(&sealed, &format!("{{ ralph {words}; echo $? >&2; }} | true"));
        assert!(!end.stderr.contains("cannot write"), "{words}: {}", end.stderr);
    }
}

#[test]
fn a_run_continues_without_its_terminal() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    run_in_shell(&sealed, "ralph run -p base > /dev/full 2>&1").expect_code(0);
}
