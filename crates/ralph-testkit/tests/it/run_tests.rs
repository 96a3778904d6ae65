//! `scripts/run-tests` repeats a few failed tests and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// What a test program prints whose output imitates a list of failures.
const FAILED: &str = "failures:\n\n---- a::first stdout ----\n    made::up\n\nfailures:\n    a::first\n    \
                      b::second\n\ntest result: FAILED. 3 passed; 2 failed\n";

/// Runs the script with a stand-in for cargo: it prints the first text and fails, and in its second
/// run exits with a code. Returns the exit code, the listed tests, and the arguments of each run.
fn repeat(first: &str, second: i32) -> (Option<i32>, String, String) {
    let place = TempDir::new().expect("a directory");
    let path = |name: &str| place.path().join(name);
    fs::write(path("first"), first).expect("written");
    let program = format!(
        "#!/bin/sh\ncd {}\necho \"$@\" >>runs\n[ -e begun ] && exit {second}\ntouch begun\ncat first\nexit 101\n",
        place.path().display()
    );
    fs::write(path("cargo"), program).expect("written");
    fs::set_permissions(path("cargo"), fs::Permissions::from_mode(0o755)).expect("executable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-tests");
    let end = Command::new(script)
        .arg(path("cargo"))
        .args(["test", "--lib", "--", "--skip", "slow"])
        .env("REPEATED_TESTS", path("repeated"))
        .output()
        .expect("it runs");
    let read = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    (end.status.code(), read("repeated"), read("runs"))
}

#[test]
fn a_few_failed_tests_are_repeated_and_listed() {
    let (code, listed, runs) = repeat(FAILED, 0);
    assert_eq!((code, listed.as_str()), (Some(0), " a::first b::second\n"));
    assert_eq!(runs, "test --lib -- --skip slow\ntest --lib -- --exact a::first b::second\n");
}

#[test]
fn tests_that_fail_twice_fail_the_check() {
    let (code, listed, _) = repeat(FAILED, 101);
    assert_eq!((code, listed.as_str()), (Some(101), ""));
}

#[test]
fn many_failures_and_other_errors_are_not_repeated() {
    let names: String = "    a::test\n".repeat(6);
    let many = format!("failures:\n{names}\ntest result: FAILED. 0 passed\n");
    for text in [many.as_str(), "error: could not compile `ralph`\n"] {
        let (code, _, runs) = repeat(text, 0);
        assert_eq!((code, runs.lines().count()), (Some(101), 1), "{text}");
    }
}
