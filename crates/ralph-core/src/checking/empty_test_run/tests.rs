//! Runners with handwritten output; recorded output of others is in `tests/data/runners`.

use super::*;

fn seen(output: &str) -> TestsSeen {
    let mut count = TestCount::default();
    count.feed_text(output);
    count.tests_seen()
}

#[test]
fn a_run_without_tests_is_detected() {
    for (output, line) in [
        ("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n", "running 0 tests"),
        ("test result: ok. 0 passed; 0 failed; 3 ignored; 0 measured", ""),
        ("    Starting 0 tests across 1 binary", "Starting 0 tests across 1 binary"),
        ("     Summary [   0.000s] 0 tests run: 0 passed, 0 skipped", ""),
        ("no tests ran in 0.01s", ""),
        ("3 deselected in 0.02s", ""),
        ("Ran 3 tests in 0.000s\n\nOK (skipped=3)", "OK (skipped=3)"),
        ("Tests:       0 total", ""),
        ("testing: warning: no tests to run\nPASS", "testing: warning: no tests to run"),
        ("Tests run: 0, Failures: 0, Errors: 0, Skipped: 0", ""),
        ("[WARNING] Tests run: 2, Failures: 0, Errors: 0, Skipped: 2", ""),
        ("[INFO] No tests to run.", ""),
        ("> Task :app:test NO-SOURCE\n> Task :compileJava", "> Task :app:test NO-SOURCE"),
        ("OK (0 tests)", ""),
        ("0 examples, 0 failures", ""),
        ("3 examples, 0 failures, 3 pending", ""),
        ("No tests executed!", ""),
        (
            "OK, but some tests were skipped!\nTests: 3, Assertions: 0, Skipped: 3.",
            "Tests: 3, Assertions: 0, Skipped: 3.",
        ),
        ("No test is available in /x/y.dll. Make sure", ""),
        ("Passed!  - Failed:     0, Passed:     0, Skipped:     2, Total:     2", ""),
        ("No tests were found!!!", ""),
        ("1..0 # skipped", ""),
        ("1..1\nok 1 - a # SKIP no network", "ok 1 - a # SKIP no network"),
        ("0 tests, 0 failures", ""),
        ("[  PASSED  ] 0 tests.", ""),
        ("ℹ tests 0\nℹ pass 0", "ℹ tests 0"),
    ] {
        let line = if line.is_empty() { output.trim() } else { line };
        assert_eq!(seen(output), TestsSeen::NoneRan { line: line.into() }, "{output}");
    }
}

#[test]
fn one_test_is_enough() {
    for output in [
        "running 0 tests\ntest result: ok. 0 passed; 0 failed;\ntest result: ok. 1 passed; 0 failed;",
        "?   \ta\t[no test files]\nok  \tb\t0.01s",
        "?   \ta\t[no test files]\nok  \tb\t(cached)",
        "     Summary [   0.000s] 1 test run: 1 passed, 0 skipped",
        "1 passed, 3 skipped in 0.12s",
        "==== 2 passed, 1 warning in 61.02s (0:01:01) ====",
        "Ran 3 tests in 0.000s\n\nOK (skipped=2)",
        "Ran 1 test in 0.000s",
        "Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\nTests run: 3, Failures: 0, Errors: 0, Skipped: 1",
        "> Task :a:test NO-SOURCE\n> Task :b:test",
        "> Task :test UP-TO-DATE",
        "OK (1 test)",
        "OK (3 tests, 5 assertions)",
        "100% tests passed, 0 tests failed out of 3",
        "Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3",
        "Total tests: 3",
        "[  PASSED  ] 3 tests.",
        "1..2\nok 1 - a # SKIP\nok 2 - b",
        "3 tests, 0 failures, 2 skipped",
        "  12 passing (3s)",
    ] {
        assert_eq!(seen(output), TestsSeen::Ran, "{output}");
    }
}

#[test]
fn unrelated_output_shows_nothing() {
    for output in [
        "",
        "all good",
        "0 problems",
        "Tests are good",
        "running 3 tests",
        "No tests needed here",
        "0 errors, 0 warnings",
        "compiled in 3s",
        "Passed the time",
    ] {
        assert_eq!(seen(output), TestsSeen::Unknown, "{output}");
    }
}
