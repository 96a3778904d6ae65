//! Tests of relevant and irrelevant lines.

use super::*;

#[test]
fn progress_and_what_passed_do_not_count() {
    for line in [
        "   Compiling sample v0.1.0 (/tmp/a1)",
        "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.42s",
        "     Running unittests src/lib.rs (target/debug/deps/sample-e6daf73c296d6df0)",
        "running 6 tests",
        "test tests::adds ... ok",
        "test tests::adds ... ignored",
        "[INFO] Downloading from central: https://repo.example.org/x.pom",
        "> Task :compileJava",
        "go: downloading example.org/x v1.0.0",
        "Collecting pytest",
        "ok 3 - adds",
        "ok  \texample.org/x\t0.01s",
        "=== RUN   TestAdds",
        "--- PASS: TestAdds (0.00s)",
        "  ✓ adds (3 ms)",
        "│     ├─ adds() ✔",
        "PASS src/a.test.js",
        "test_a.py::test_b PASSED                 [ 50%]",
        "..F.                                     [100%]",
        "test_a.py .F.                            [ 50%]",
        "..F..",
        "45%",
        "⠙ building",
        "1..3",
        "",
        "    12 | const x = 1;",
    ] {
        assert_eq!(strip_noise(line), None, "{line}");
    }
    for line in [
        "test tests::adds ... FAILED",
        "> Task :test FAILED",
        "not ok 3 - adds",
        "Running migrations failed",
        "Checking the lock failed",
        "--- FAIL: TestAdds (0.00s)",
        "    > 12 | const x = 1;",
        "12 | let x = 1;",
        "F",
        "...",
        "=== what is it",
    ] {
        let expect = if line == "..." { None } else { Some(line.trim_start()) };
        assert_eq!(strip_noise(line), expect, "{line}");
    }
    assert_eq!(strip_noise("FAILED a.py::b - assert '/tmp/..."), Some("FAILED a.py::b"));
}
