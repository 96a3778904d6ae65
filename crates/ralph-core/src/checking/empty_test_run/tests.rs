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
        ("ok | 0 passed | 0 failed (2ms)", ""),
        ("ok | 0 passed | 0 failed | 3 ignored (2ms)", ""),
        ("3 tests, 0 failures, 3 excluded", ""),
        ("There are no tests to run", ""),
        ("0 runs, 0 assertions, 0 failures, 0 errors, 0 skips", ""),
        ("3 runs, 0 assertions, 0 failures, 0 errors, 3 skips", ""),
        ("\t Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.001) seconds", ""),
        ("All 0 tests passed.", ""),
        ("No tests ran.", ""),
        ("No tests match regular expression \"x\".", ""),
        ("Ran 0 of 5 Specs in 0.000 seconds", ""),
        ("Total number of tests run: 0", ""),
        ("[ FAIL 0 | WARN 0 | SKIP 2 | PASS 0 ]", ""),
        (" 0 pass\n 3 skip\n 0 fail\nRan 3 tests across 1 file. [5.00ms]", "0 pass"),
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

#[test]
fn a_summary_with_failed_tests_is_detected() {
    for output in [
        "test result: FAILED. 2 passed; 1 failed; 0 ignored",
        "     Summary [   0.012s] 3 tests run: 2 passed, 1 failed, 0 skipped",
        "==== 1 failed, 3 passed in 0.12s ====",
        "1 passed, 2 errors in 0.12s",
        "Ran 3 tests in 0.000s\n\nFAILED (failures=1)",
        "Tests:       1 failed, 2 passed, 3 total",
        "      Tests  1 failed | 2 passed (3)",
        "  2 passing (5ms)\n  1 failing",
        "ℹ pass 2\nℹ fail 1",
        "--- FAIL: TestX (0.00s)\nok  \tb\t0.01s",
        "Tests run: 3, Failures: 1, Errors: 0, Skipped: 0",
        "Tests: 3, Assertions: 5, Failures: 1.",
        "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3",
        "67% tests passed, 1 tests failed out of 3",
        "[  PASSED  ] 2 tests.\n[  FAILED  ] 1 test, listed below:",
        "1..2\nnot ok 1 - a\nok 2 - b",
        "3 examples, 1 failure",
        "3 runs, 5 assertions, 0 failures, 1 errors, 0 skips",
        "Executed 3 tests, with 1 failure (0 unexpected) in 0.01 seconds",
        "FAILED | 2 passed | 1 failed (12ms)",
        "FAIL! -- 2 Passed | 1 Failed | 0 Pending | 0 Skipped",
        "Tests: succeeded 2, failed 1, canceled 0, ignored 0, pending 0",
        "[ FAIL 1 | WARN 0 | SKIP 0 | PASS 2 ]",
        " 2 pass\n 1 fail",
    ] {
        assert!(matches!(seen(output), TestsSeen::Failed { .. }), "{output}: {:?}", seen(output));
    }
}

#[test]
fn a_later_summary_without_failures_decides() {
    for output in [
        "test result: FAILED. 2 passed; 1 failed;\ntest result: ok. 3 passed; 0 failed;",
        "1 failed, 2 passed in 0.1s\n3 passed in 0.1s",
        "1..1\nnot ok 1 - later # TODO not built\n# pass 1\n# fail 0",
        "Ran 3 tests in 0.000s\n\nOK",
        "2 tests, 0 failures",
    ] {
        assert_eq!(seen(output), TestsSeen::Ran, "{output}");
    }
}

#[test]
fn tests_are_counted() {
    let surefire = "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A\n\
                    Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n";
    for (output, expect) in [
        (
            "test result: ok. 3 passed; 0 failed; 1 ignored\ntest result: ok. 4 passed; 0 failed",
            Some(7),
        ),
        ("     Summary [   0.012s] 3 tests run: 2 passed, 1 failed, 0 skipped", Some(3)),
        ("==== 2 passed, 1 warning in 61.02s (0:01:01) ====", Some(2)),
        ("1 failed, 8 passed in 0.12s", Some(9)),
        ("Ran 9 tests in 0.000s\n\nOK (skipped=2)", Some(7)),
        ("Ran 9 tests in 0.000s", Some(9)),
        ("Tests:       1 skipped, 8 passed, 9 total", Some(8)),
        ("  9 passing (12ms)", Some(9)),
        ("# tests 4\n# pass 3\n# fail 0", Some(3)),
        ("OK (3 tests, 5 assertions)", Some(3)),
        ("3 examples, 0 failures, 1 pending", Some(2)),
        ("100% tests passed, 0 tests failed out of 3", Some(3)),
        (surefire, Some(2)),
        ("ok  \tb\t0.01s", None),
        ("ok 1 - a\nok 2 - b", None),
        ("", None),
    ] {
        let mut count = TestCount::default();
        count.feed_text(output);
        assert_eq!(count.tests_run(), expect, "{output}");
    }
}
