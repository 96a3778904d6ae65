//! Checks on the output of real test runners. `tests/data/runners/README.md` says how
//! each capture was made.

use std::collections::BTreeMap;
use std::path::Path;

use expect_test::expect;
use ralph_core::checking::empty_test_run::{TestCount, TestsSeen};
use ralph_core::checking::stuck::{ErrorHasher, FailingChecks};
use ralph_model::stuck::ErrorHash;

/// Returns the captures of each runner, by name.
#[expect(clippy::disallowed_methods, reason = "a test may read its data")]
fn captures() -> BTreeMap<String, BTreeMap<String, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runners");
    let mut captures: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let directories = std::fs::read_dir(root).expect("captures").flatten();
    for directory in directories.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let runner = directory.file_name().expect("a name").to_string_lossy().into_owned();
        for file in std::fs::read_dir(&directory).expect("readable").flatten() {
            let name = file.path().file_stem().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(file.path()).expect("text");
            captures.entry(runner.clone()).or_default().insert(name, text);
        }
    }
    captures
}

fn hash(text: &str) -> ErrorHash {
    let mut hasher = ErrorHasher::new("test");
    hasher.feed_text(text);
    hasher.finish_hash()
}

#[test]
fn the_same_failure_has_the_same_hash_and_others_have_others() {
    let mut seen: BTreeMap<ErrorHash, String> = BTreeMap::new();
    let mut count = 0;
    for (runner, runs) in captures() {
        let is_failure = |name: &str| !name.starts_with("empty") && name != "passed";
        for (name, text) in runs.iter().filter(|(name, _)| is_failure(name)) {
            let failure = name.strip_suffix("-2").or(name.strip_suffix("-1")).unwrap_or(name);
            let failure = format!("{runner}/{failure}");
            let other = seen.insert(hash(text), failure.clone());
            if let Some(other) = other {
                assert_eq!(other, failure, "{runner}/{name}");
            }
            count += 1;
        }
        if let (Some(one), Some(two)) = (runs.get("same-1"), runs.get("same-2")) {
            assert_ne!(one, two, "{runner}");
            assert_eq!(hash(one), hash(two), "{runner}");
        }
        if let (Some(one), Some(two)) = (runs.get("panic-1"), runs.get("panic-2")) {
            assert_eq!(hash(one), hash(two), "{runner}");
        }
    }
    assert!(count > 60, "{count} captures were found");
}

#[test]
fn another_gate_is_another_failure() {
    let mut hasher = ErrorHasher::new("lint");
    hasher.feed_text("boom");
    assert_ne!(hasher.finish_hash(), hash("boom"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn the_failing_checks_are_named() {
    let mut table = String::new();
    for (runner, runs) in captures() {
        for (name, text) in &runs {
            let mut checks = FailingChecks::default();
            checks.feed_text(text);
            table.push_str(&format!("{runner}/{name}\n"));
            for check in checks.names() {
                table.push_str(&format!("    {check}\n"));
            }
        }
    }
    expect![[r"
        bats/empty
        bats/other-message
            prints
        bats/other-test
            prints
        bats/other-value
            adds
        bats/passed
        bats/same-1
            adds
        bats/same-2
            adds
        cargo/empty
        cargo/empty-ignored
        cargo/other-compile
        cargo/other-file
        cargo/other-message
            tests::refuses
        cargo/other-test
            tests::refuses
        cargo/other-value
            tests::adds
            tests::adds_zero
        cargo/passed
        cargo/same-1
            tests::adds
            tests::adds_zero
        cargo/same-2
            tests::adds
            tests::adds_zero
        go/empty
        go/empty-file
        go/other-compile
            example.org/sample [build failed]
        go/other-file
            example.org/sample [build failed]
        go/other-message
            example.org/sample/parse.TestRefuses
        go/other-test
            example.org/sample/parse.TestRefuses
        go/other-value
            example.org/sample.TestAdds
            example.org/sample.TestAdds/n1
            example.org/sample.TestAdds/n2
            example.org/sample.TestAddsZero
        go/panic-1
            example.org/sample/parse.TestBoom
        go/panic-2
            example.org/sample/parse.TestBoom
        go/passed
        go/same-1
            example.org/sample.TestAdds
            example.org/sample.TestAdds/n1
            example.org/sample.TestAdds/n2
            example.org/sample.TestAddsZero
        go/same-2
            example.org/sample.TestAdds
            example.org/sample.TestAdds/n1
            example.org/sample.TestAdds/n2
            example.org/sample.TestAddsZero
        jest/empty
        jest/empty-skipped
        jest/other-file
            ./extra.test.js: Test suite failed to run
        jest/other-import
            ./more.test.js: Test suite failed to run
        jest/other-message
            parse › refuses
        jest/other-test
            parse › refuses
        jest/other-value
            calc › adds
            calc › adds objects
        jest/passed
        jest/same-1
            calc › adds
            calc › adds objects
        jest/same-2
            calc › adds
            calc › adds objects
        junit/empty
        junit/empty-skipped
        junit/other-compile
        junit/other-file
        junit/other-message
            CalcTest:refuses()
        junit/other-test
            CalcTest:refuses()
        junit/other-value
            CalcTest:adds()
            CalcTest:addsZero()
        junit/passed
        junit/same-1
            CalcTest:adds()
            CalcTest:addsZero()
        junit/same-2
            CalcTest:adds()
            CalcTest:addsZero()
        mocha/empty
        mocha/empty-skipped
        mocha/other-file
        mocha/other-import
        mocha/other-message
            parse refuses
        mocha/other-test
            parse refuses
        mocha/other-value
            calc adds
            calc adds objects
        mocha/passed
        mocha/same-1
            calc adds
            calc adds objects
        mocha/same-2
            calc adds
            calc adds objects
        nextest/empty
        nextest/empty-ignored
        nextest/other-compile
        nextest/other-file
        nextest/other-message
            sample tests::refuses
        nextest/other-test
            sample tests::refuses
        nextest/other-value
            sample tests::adds
            sample tests::adds_zero
        nextest/passed
        nextest/same-1
            sample tests::adds
            sample tests::adds_zero
        nextest/same-2
            sample tests::adds
            sample tests::adds_zero
        node/empty
        node/empty-skipped
        node/other-file
            /tmp/a1/extra.test.js
        node/other-import
            /tmp/a1/more.test.js
        node/other-message
            parse
            refuses
        node/other-test
            parse
            refuses
        node/other-value
            adds
            adds objects
            calc
        node/passed
        node/same-1
            adds
            adds objects
            calc
        node/same-2
            adds
            adds objects
            calc
        node/spec
            adds
            adds objects
            calc
        pytest/empty
        pytest/empty-skipped
        pytest/other-file
            test_extra.py
        pytest/other-import
            test_more.py
        pytest/other-message
            test_calc.py::test_refuses
        pytest/other-test
            test_calc.py::test_refuses
        pytest/other-value
            test_calc.py::test_adds[1]
            test_calc.py::test_adds[2]
            test_calc.py::test_adds_zero
        pytest/passed
        pytest/same-1
            test_calc.py::test_adds[1]
            test_calc.py::test_adds[2]
            test_calc.py::test_adds_zero
        pytest/same-2
            test_calc.py::test_adds[1]
            test_calc.py::test_adds[2]
            test_calc.py::test_adds_zero
        unittest/empty
        unittest/other-value
            test_adds (test_u.Calc.test_adds)
        unittest/passed
        unittest/same-1
            test_adds (test_u.Calc.test_adds)
        unittest/same-2
            test_adds (test_u.Calc.test_adds)
        vitest/empty
        vitest/empty-skipped
        vitest/other-file
            extra.test.js [ extra.test.js ]
        vitest/other-import
            more.test.js [ more.test.js ]
        vitest/other-message
            parse.test.js > parse > refuses
        vitest/other-test
            parse.test.js > parse > refuses
        vitest/other-value
            calc.test.js > calc > adds
            calc.test.js > calc > adds objects
        vitest/passed
        vitest/same-1
            calc.test.js > calc > adds
            calc.test.js > calc > adds objects
        vitest/same-2
            calc.test.js > calc > adds
            calc.test.js > calc > adds objects
    "]]
    .assert_eq(&table);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn a_run_without_tests_is_seen() {
    let mut table = String::new();
    for (runner, runs) in captures() {
        for (name, text) in &runs {
            let mut count = TestCount::default();
            count.feed_text(text);
            let seen = match count.tests_seen() {
                TestsSeen::Ran => "ran".to_owned(),
                TestsSeen::Failed { line } => format!("failed: {line}"),
                TestsSeen::NoneRan { line } => format!("none: {line}"),
                TestsSeen::Unknown => "unknown".to_owned(),
            };
            table.push_str(&format!("{runner}/{name}: {seen}\n"));
        }
    }
    expect![[r"
        bats/empty: none: 1..0
        bats/other-message: failed: not ok 2 prints
        bats/other-test: failed: not ok 2 prints
        bats/other-value: failed: not ok 1 adds
        bats/passed: ran
        bats/same-1: failed: not ok 1 adds
        bats/same-2: failed: not ok 1 adds
        cargo/empty: none: running 0 tests
        cargo/empty-ignored: none: test result: ok. 0 passed; 0 failed; 6 ignored; 0 measured; 0 filtered out; finished in 0.00s
        cargo/other-compile: unknown
        cargo/other-file: unknown
        cargo/other-message: failed: test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.12s
        cargo/other-test: failed: test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.11s
        cargo/other-value: failed: test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.09s
        cargo/passed: ran
        cargo/same-1: failed: test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.13s
        cargo/same-2: failed: test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
        go/empty: none: ?    example.org/sample [no test files]
        go/empty-file: none: ?    example.org/sample [no test files]
        go/other-compile: ran
        go/other-file: ran
        go/other-message: failed: --- FAIL: TestRefuses (0.00s)
        go/other-test: failed: --- FAIL: TestRefuses (0.00s)
        go/other-value: failed: --- FAIL: TestAdds/n2 (0.00s)
        go/panic-1: failed: --- FAIL: TestBoom (0.00s)
        go/panic-2: failed: --- FAIL: TestBoom (0.00s)
        go/passed: ran
        go/same-1: failed: --- FAIL: TestAdds/n2 (0.00s)
        go/same-2: failed: --- FAIL: TestAdds/n2 (0.00s)
        jest/empty: none: No tests found, exiting with code 0
        jest/empty-skipped: none: Tests:       5 skipped, 5 total
        jest/other-file: ran
        jest/other-import: ran
        jest/other-message: failed: Tests:       1 failed, 4 passed, 5 total
        jest/other-test: failed: Tests:       1 failed, 4 passed, 5 total
        jest/other-value: failed: Tests:       2 failed, 3 passed, 5 total
        jest/passed: ran
        jest/same-1: failed: Tests:       2 failed, 3 passed, 5 total
        jest/same-2: failed: Tests:       2 failed, 3 passed, 5 total
        junit/empty: none: [         0 tests started         ]
        junit/empty-skipped: none: [         0 tests started         ]
        junit/other-compile: unknown
        junit/other-file: unknown
        junit/other-message: ran
        junit/other-test: ran
        junit/other-value: ran
        junit/passed: ran
        junit/same-1: ran
        junit/same-2: ran
        mocha/empty: none: 0 passing (1ms)
        mocha/empty-skipped: none: 0 passing (3ms)
        mocha/other-file: unknown
        mocha/other-import: unknown
        mocha/other-message: failed: 1 failing
        mocha/other-test: failed: 1 failing
        mocha/other-value: failed: 2 failing
        mocha/passed: ran
        mocha/same-1: failed: 2 failing
        mocha/same-2: failed: 2 failing
        nextest/empty: none: Starting 0 tests across 2 binaries
        nextest/empty-ignored: none: Starting 0 tests across 1 binary (6 tests skipped)
        nextest/other-compile: unknown
        nextest/other-file: unknown
        nextest/other-message: failed: Summary [   0.154s] 6 tests run: 5 passed, 1 failed, 0 skipped
        nextest/other-test: failed: Summary [   0.103s] 6 tests run: 5 passed, 1 failed, 0 skipped
        nextest/other-value: failed: Summary [   0.159s] 6 tests run: 4 passed, 2 failed, 0 skipped
        nextest/passed: ran
        nextest/same-1: failed: Summary [   0.141s] 6 tests run: 4 passed, 2 failed, 0 skipped
        nextest/same-2: failed: Summary [   0.119s] 6 tests run: 4 passed, 2 failed, 0 skipped
        node/empty: none: 1..0
        node/empty-skipped: none: # skipped 5
        node/other-file: failed: # fail 1
        node/other-import: failed: # fail 1
        node/other-message: failed: # fail 1
        node/other-test: failed: # fail 1
        node/other-value: failed: # fail 2
        node/passed: ran
        node/same-1: failed: # fail 2
        node/same-2: failed: # fail 2
        node/spec: failed: ℹ fail 2
        pytest/empty: none: collected 0 items
        pytest/empty-skipped: none: ============================== 2 skipped in 0.01s ==============================
        pytest/other-file: failed: ========================== 7 passed, 1 error in 0.65s ==========================
        pytest/other-import: failed: ========================== 7 passed, 1 error in 0.82s ==========================
        pytest/other-message: failed: ========================= 1 failed, 6 passed in 0.72s ==========================
        pytest/other-test: failed: ========================= 1 failed, 6 passed in 0.72s ==========================
        pytest/other-value: failed: ========================= 3 failed, 4 passed in 0.95s ==========================
        pytest/passed: ran
        pytest/same-1: failed: ========================= 3 failed, 4 passed in 0.82s ==========================
        pytest/same-2: failed: ========================= 3 failed, 4 passed in 1.36s ==========================
        unittest/empty: none: Ran 0 tests in 0.000s
        unittest/other-value: failed: FAILED (failures=1)
        unittest/passed: ran
        unittest/same-1: failed: FAILED (failures=1)
        unittest/same-2: failed: FAILED (failures=1)
        vitest/empty: none: No test files found, exiting with code 0
        vitest/empty-skipped: none: Tests  5 skipped (5)
        vitest/other-file: ran
        vitest/other-import: ran
        vitest/other-message: failed: Tests  1 failed | 4 passed (5)
        vitest/other-test: failed: Tests  1 failed | 4 passed (5)
        vitest/other-value: failed: Tests  2 failed | 3 passed (5)
        vitest/passed: ran
        vitest/same-1: failed: Tests  2 failed | 3 passed (5)
        vitest/same-2: failed: Tests  2 failed | 3 passed (5)
    "]]
    .assert_eq(&table);
}

proptest::proptest! {
    #[test]
    fn it_does_not_matter_how_the_output_is_cut(pick in 0usize..1000, cuts in proptest::collection::vec(0usize..200, 1..8)) {
        let captures = captures();
        let texts: Vec<&String> = captures.values().flat_map(BTreeMap::values).collect();
        let text = texts[pick % texts.len()];
        let (mut hasher, mut checks, mut count) =
            (ErrorHasher::new("test"), FailingChecks::default(), TestCount::default());
        let mut rest = text.as_str();
        for cut in cuts.iter().cycle() {
            let mut at = (*cut + 1).min(rest.len());
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            let (piece, after) = rest.split_at(at);
            hasher.feed_text(piece);
            checks.feed_text(piece);
            count.feed_text(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let (mut whole_checks, mut whole_count) = (FailingChecks::default(), TestCount::default());
        whole_checks.feed_text(text);
        whole_count.feed_text(text);
        proptest::prop_assert_eq!(hasher.finish_hash(), hash(text));
        proptest::prop_assert_eq!(checks.names(), whole_checks.names());
        proptest::prop_assert_eq!(count.tests_seen(), whole_count.tests_seen());
    }

    #[test]
    fn it_does_not_matter_in_which_order_the_lines_come(pick in 0usize..1000, seed in 0u64..1000) {
        let captures = captures();
        let texts: Vec<&String> = captures.values().flat_map(BTreeMap::values).collect();
        let text = texts[pick % texts.len()];
        let mut lines: Vec<&str> = text.lines().collect();
        let mut state = seed;
        for at in (1..lines.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let other = usize::try_from(state >> 33).expect("small") % (at + 1);
            lines.swap(at, other);
        }
        proptest::prop_assert_eq!(hash(&lines.join("\n")), hash(text));
    }

    #[test]
    fn no_text_makes_it_panic(text in "(\\PC|[\\n\\t 0-9:/.()\\[\\]#%=@+-]|FAIL|not ok |ok |✗ |● |Tests: |[.]rs:|[(]line |ms|0x|/tmp/){0,80}") {
        let mut checks = FailingChecks::default();
        checks.feed_text(&text);
        for name in checks.names() {
            proptest::prop_assert!(name.chars().count() <= 200);
        }
        let mut count = TestCount::default();
        count.feed_text(&text);
        count.tests_seen();
        proptest::prop_assert_eq!(hash(&text).0.len(), 8);
    }
}
