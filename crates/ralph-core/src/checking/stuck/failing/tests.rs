//! Runners with handwritten output; recorded output of others is in `tests/data/runners`.

use super::*;

#[track_caller]
fn check(output: &str, expect: &[&str]) {
    let mut checks = FailingChecks::default();
    checks.feed_text(output);
    assert_eq!(checks.names(), expect, "{output}");
}

#[test]
fn the_usual_runners_name_what_fails() {
    check(
        "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! -- in app.CalcTest\n\
         [ERROR] app.CalcTest.adds -- Time elapsed: 0.01 s <<< FAILURE!\n",
        &["app.CalcTest.adds"],
    );
    check(
        "Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 sec <<< FAILURE!\n\
         adds(app.CalcTest)  Time elapsed: 0.01 sec  <<< ERROR!\n",
        &["adds(app.CalcTest)"],
    );
    check("CalcTest > adds() FAILED\n> Task :test FAILED\n", &["CalcTest > adds()"]);
    check("1) adds(app.CalcTest)\njava.lang.AssertionError\n", &["adds(app.CalcTest)"]);
    check("There was 1 failure:\n\n1) App\\CalcTest::testAdds\n", &["App\\CalcTest::testAdds"]);
    check("rspec ./spec/calc_spec.rb:5 # Calc adds\n", &["Calc adds"]);
    check("  Failed App.CalcTests.Adds [12 ms]\nFailed!  - Failed: 1\n", &["App.CalcTests.Adds"]);
    check(
        "The following tests FAILED:\n\t  3 - adds (Failed)\n\t  4 - b (SEGFAULT)\nErrors",
        &["adds", "b"],
    );
    check("[  FAILED  ] Calc.Adds (3 ms)\n[  FAILED  ] 1 test, listed below:\n", &["Calc.Adds"]);
    check("not ok 3 - adds\nnot ok 4 - later # TODO\nnot ok 5 bare\n", &["adds", "bare"]);
    check(" ✗ adds [12]\n ✗ b\n✖ 3 problems (3 errors)\n", &["adds", "b"]);
    check("test src/lib.rs - add (line 12) ... FAILED\n", &["src/lib.rs - add"]);
    check("failures:\n    a::b\n    c\n\ntest result: FAILED.\n", &["a::b", "c"]);
    check(
        "  TIMEOUT [   1.004s] app tests::slow\n  SIGABRT [   0.1s] app b\n",
        &["app b", "app tests::slow"],
    );
    check("test_a.py::test_b FAILED      [ 50%]\n", &["test_a.py::test_b"]);
    check("[gw0] [ 50%] FAILED test_a.py::test_b[x y]\n", &["test_a.py::test_b[x y]"]);
}

#[test]
fn unrelated_output_has_no_names() {
    check("FAIL\nFAILED\nFAILED to start\nFAIL: it broke: badly\nerror: boom\nfailures:\n\n", &[]);
    check("1) first do this\n2) then that\n● Console\n", &[]);
}

#[test]
fn names_are_few_and_short() {
    let lines: Vec<String> =
        (0..300).map(|count| format!("not ok {count} - n{count:03}")).collect();
    let mut checks = FailingChecks::default();
    checks.feed_text(&lines.join("\n"));
    let names = checks.names();
    assert_eq!((names.len(), names[0].as_str(), names[99].as_str()), (100, "n000", "n099"));
    let mut checks = FailingChecks::default();
    checks.feed_text(&format!("not ok 1 - {}\n", "ä".repeat(500)));
    assert_eq!(checks.names()[0].chars().count(), 200);
}
