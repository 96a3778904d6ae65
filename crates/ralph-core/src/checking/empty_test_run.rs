//! Test commands that pass although no test ran, or although tests failed.
//!
//! Knows the summaries of cargo test and nextest, pytest and unittest, jest, vitest, mocha, node,
//! bun and deno, go test and ginkgo, `JUnit` with its console, surefire and gradle, `ScalaTest`, bats
//! and other TAP, rspec and minitest, phpunit, dotnet, ctest and googletest, mix, swift, zig, dart
//! and testthat. A skipped test did not run. The gate decides what follows.

use ralph_model::text::{BoundedLines, shorten_to_line};

/// Summaries are short.
const LONGEST_LINE: usize = 512;

/// What an output shows about the number of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestsSeen {
    /// A line shows that tests ran.
    Ran,
    /// Tests ran, and the last summary says that some failed.
    Failed {
        /// That summary.
        line: String,
    },
    /// Lines show that no test ran, and none that one did.
    NoneRan {
        /// The first of these lines.
        line: String,
    },
    Unknown,
}

/// Searches streamed output for the summaries of the usual test runners.
#[derive(Debug, Clone)]
pub struct TestCount {
    lines: BoundedLines,
    scan: TestCountScan,
}

impl Default for TestCount {
    fn default() -> Self {
        let scan = TestCountScan {
            seen: TestsSeen::Unknown,
            failed: None,
            ran: None,
            unittest: None,
            lists: TapNumbering::Tests,
        };
        Self { lines: BoundedLines::new(LONGEST_LINE), scan }
    }
}

impl TestCount {
    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed_text(&mut self, text: &str) {
        let Self { lines, scan } = self;
        lines.feed_text(text, |line| scan.take_line(line));
    }

    /// Returns the result so far, including a last line without a line end.
    pub fn tests_seen(&self) -> TestsSeen {
        let Self { mut lines, mut scan } = self.clone();
        lines.finish_line(|line| scan.take_line(line));
        match (scan.failed, scan.unittest) {
            (Some(line), _) => TestsSeen::Failed { line },
            (None, Some(_)) => TestsSeen::Ran,
            (None, None) => scan.seen,
        }
    }
}

impl TestCount {
    /// Returns how many tests ran, if the output has a summary that counts them.
    pub fn tests_run(&self) -> Option<u64> {
        let Self { mut lines, mut scan } = self.clone();
        lines.finish_line(|line| scan.take_line(line));
        let open = scan.unittest.unwrap_or(0);
        scan.ran.map(|ran| ran.saturating_add(open)).or(scan.unittest)
    }
}

/// The result of the lines so far.
#[derive(Debug, Clone)]
struct TestCountScan {
    seen: TestsSeen,
    /// The last summary, if it has failed tests.
    failed: Option<String>,
    /// The sum over all summaries that count tests.
    ran: Option<u64>,
    /// The number of tests that unittest ran; a later line has the number of skipped ones.
    unittest: Option<u64>,
    lists: TapNumbering,
}

/// What the numbered lines of TAP are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TapNumbering {
    /// One test each.
    Tests,
    /// Also suites, as node lists them: these are `ok` even if empty; node prints counts below.
    Suites,
}

/// What one line shows; what it does not show is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TestEvidence {
    has_run: Option<bool>,
    has_failed: Option<bool>,
    /// How many tests ran, in a summary that no other line repeats.
    ran: Option<u64>,
}

impl TestEvidence {
    const UNRELATED: Self = Self { has_run: None, has_failed: None, ran: None };
    const RAN: Self = Self { has_run: Some(true), has_failed: None, ran: None };
    const FAILED: Self = Self { has_run: Some(true), has_failed: Some(true), ran: None };
    const NONE_RAN: Self = Self { has_run: Some(false), has_failed: None, ran: None };

    /// A line that counts tests, and says nothing about failures.
    fn from_count(count: u64) -> Self {
        Self { has_run: Some(count > 0), has_failed: None, ran: Some(count) }
    }

    /// A summary.
    fn from_counts(ran: u64, failed: u64) -> Self {
        let all = ran.saturating_add(failed);
        Self { has_run: Some(all > 0), has_failed: Some(failed > 0), ran: Some(all) }
    }

    /// The same without the number, which another line repeats.
    fn without_number(self) -> Self {
        Self { ran: None, ..self }
    }
}

impl TestCountScan {
    fn take_line(&mut self, line: &str) {
        let text = line.trim();
        let TestEvidence { has_run, has_failed, ran } = self.read_line(line, text);
        if let Some(ran) = ran {
            self.ran = Some(self.ran.unwrap_or(0).saturating_add(ran));
        }
        match has_run {
            Some(true) => self.seen = TestsSeen::Ran,
            Some(false) if self.seen == TestsSeen::Unknown => {
                self.seen = TestsSeen::NoneRan { line: shorten_to_line(text, 200) };
            }
            Some(false) | None => {}
        }
        if let Some(has_failed) = has_failed {
            self.failed = has_failed.then(|| shorten_to_line(text, 200));
        }
    }

    fn read_line(&mut self, line: &str, text: &str) -> TestEvidence {
        if let Some(count) = text.strip_prefix("Ran ").and_then(parse_unittest_count)
            && count > 0
        {
            self.unittest = Some(count);
            return TestEvidence::UNRELATED;
        }
        if let Some(count) = self.unittest
            && (text.starts_with("OK") || text.starts_with("FAILED"))
        {
            self.unittest = None;
            let skipped = find_number_after(text, "skipped=").unwrap_or(0);
            let failed = sum_numbers_after(text, &["failures=", "errors="]);
            let ran = count.saturating_sub(skipped);
            return TestEvidence::from_counts(ran.saturating_sub(failed), failed);
        }
        if text.starts_with("# Subtest: ") {
            self.lists = TapNumbering::Suites;
        }
        match self.lists {
            TapNumbering::Suites if text.starts_with("ok ") => TestEvidence::UNRELATED,
            TapNumbering::Suites | TapNumbering::Tests => classify_line(line, text),
        }
    }
}

fn classify_line(line: &str, text: &str) -> TestEvidence {
    let Some(first) = text.bytes().next() else {
        return TestEvidence::UNRELATED;
    };
    match first {
        b'r' => classify_cargo_running(text),
        b't' => classify_cargo_or_go(text),
        b'S' if !text.starts_with("SUCCESS! -- ") => classify_nextest(text),
        b'c' => classify_collected(text),
        b'n' => classify_quiet_pytest(text).fallback_to_tap(text),
        b'N' => classify_no_tests(text),
        b'R' if text.starts_with("Ran 0 tests") || text.starts_with("Ran 0 of ") => {
            TestEvidence::NONE_RAN
        }
        b'T' => classify_totals(text),
        b'?' if text.ends_with("[no test files]") => TestEvidence::NONE_RAN,
        b'o' => classify_go_or_tap(text),
        b'-' if text.starts_with("--- FAIL: ") => TestEvidence::FAILED,
        b'-' if text.starts_with("--- PASS: ") => TestEvidence::RAN,
        b'O' => classify_junit4_or_phpunit(text),
        b'#' | 0xe2 => classify_node(text),
        b'[' => classify_bracketed(text),
        b'>' => classify_gradle(text),
        b'P' | b'F' if text.starts_with("Passed!") || text.starts_with("Failed!") => {
            let [passed, failed] = ["Passed:", "Failed:"].map(|it| sum_numbers_after(text, &[it]));
            TestEvidence::from_counts(passed, failed)
        }
        b'F' | b'S' if text.starts_with("FAIL! -- ") || text.starts_with("SUCCESS! -- ") => {
            count_passed_and_failed(text)
        }
        b'F' if text.starts_with("FAILED | ") => count_passed_and_failed(text),
        b'E' => classify_swift(text),
        b'A' => classify_zig(text),
        b'1' if text == "1..0" || text.starts_with("1..0 ") => TestEvidence::NONE_RAN,
        b'0'..=b'9' => classify_counted(text),
        b'=' => classify_counted(text.trim_matches(['=', ' '])),
        _ if line.starts_with('\t') && text.ends_with("coverage: 0.0% of statements") => {
            TestEvidence::NONE_RAN
        }
        _ => TestEvidence::UNRELATED,
    }
}

impl TestEvidence {
    /// Counts `not ok 3` if nothing else matched.
    fn fallback_to_tap(self, text: &str) -> Self {
        let is_expected = text.contains(" # TODO") || text.contains(" # SKIP");
        match self == Self::UNRELATED && text.starts_with("not ok ") {
            true if is_expected => Self::RAN,
            true => Self::FAILED,
            false => self,
        }
    }
}

/// `running 0 tests` of cargo; with more tests nothing is certain, since all may be ignored.
fn classify_cargo_running(text: &str) -> TestEvidence {
    if text == "running 0 tests" { TestEvidence::NONE_RAN } else { TestEvidence::UNRELATED }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored`, `testing: warning: no tests to run`.
fn classify_cargo_or_go(text: &str) -> TestEvidence {
    if text.starts_with("test result: ") {
        return count_passed_and_failed(text);
    }
    if text == "testing: warning: no tests to run" {
        TestEvidence::NONE_RAN
    } else {
        TestEvidence::UNRELATED
    }
}

/// `Summary [   0.012s] 3 tests run: 3 passed, 0 skipped`.
fn classify_nextest(text: &str) -> TestEvidence {
    match text.strip_prefix("Summary [").and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) if rest.contains(" run: ") => {
            let ran = parse_leading_number(rest).unwrap_or(0);
            let failed = find_number_before(rest, " failed");
            TestEvidence::from_counts(ran.saturating_sub(failed), failed)
        }
        None if text.starts_with("Starting 0 tests across ") => TestEvidence::NONE_RAN,
        Some(_) | None => TestEvidence::UNRELATED,
    }
}

/// `collected 0 items` of pytest; with more items nothing is certain.
fn classify_collected(text: &str) -> TestEvidence {
    if text.starts_with("collected 0 items") {
        TestEvidence::NONE_RAN
    } else {
        TestEvidence::UNRELATED
    }
}

/// `no tests ran in 0.01s` of pytest in quiet mode.
fn classify_quiet_pytest(text: &str) -> TestEvidence {
    if text.starts_with("no tests ran in ") {
        TestEvidence::NONE_RAN
    } else {
        TestEvidence::UNRELATED
    }
}

/// jest, vitest, ctest, dotnet, phpunit.
fn classify_no_tests(text: &str) -> TestEvidence {
    let known = [
        "No tests found",
        "No test files found",
        "No tests were found",
        "No test is available in ",
        "No test matches the given testcase filter",
        "No tests executed",
        "No tests ran",
        "No tests match",
        "No tests to run",
    ];
    if known.iter().any(|known| text.starts_with(known)) {
        TestEvidence::NONE_RAN
    } else {
        TestEvidence::UNRELATED
    }
}

/// The totals of jest, vitest, surefire, phpunit, dotnet, `ScalaTest` and mix.
fn classify_totals(text: &str) -> TestEvidence {
    if let Some(rest) = text.strip_prefix("Tests run:") {
        let all = count_from_total(text, parse_leading_number(rest.trim_start()).unwrap_or(0));
        // Surefire prints a line for each class, and one for all.
        return if text.contains("Time elapsed") { all.without_number() } else { all };
    }
    for start in ["Total tests: ", "Total number of tests run: "] {
        if let Some(count) = text.strip_prefix(start).and_then(parse_leading_number) {
            return TestEvidence::from_count(count).without_number();
        }
    }
    if let Some(rest) = text.strip_prefix("Tests: succeeded ") {
        let failed = find_number_after(rest, "failed ").unwrap_or(0);
        return TestEvidence::from_counts(parse_leading_number(rest).unwrap_or(0), failed);
    }
    if text == "There are no tests to run" {
        return TestEvidence::NONE_RAN;
    }
    let Some(rest) = text.strip_prefix("Tests: ").or_else(|| text.strip_prefix("Tests  ")) else {
        return TestEvidence::UNRELATED;
    };
    let rest = rest.trim_start();
    if rest.starts_with("no tests") {
        return TestEvidence::NONE_RAN;
    }
    if rest.contains(", Assertions: ") {
        return count_from_total(rest, parse_leading_number(rest).unwrap_or(0));
    }
    let is_jest = rest.ends_with(" total");
    let is_vitest = rest.ends_with(')') && parse_leading_number(rest).is_some();
    if is_jest || is_vitest {
        return count_passed_and_failed(rest);
    }
    TestEvidence::UNRELATED
}

/// `3 passed` and `1 failed` anywhere in a summary.
fn count_passed_and_failed(text: &str) -> TestEvidence {
    let text = text.to_ascii_lowercase();
    let [passed, failed] = [" passed", " failed"].map(|word| find_number_before(&text, word));
    TestEvidence::from_counts(passed, failed)
}

/// A summary with the number of all tests, and with `Failures: 1, Errors: 0, Skipped: 2`.
fn count_from_total(text: &str, all: u64) -> TestEvidence {
    let failed = sum_numbers_after(text, &["Failures: ", "Errors: "]);
    let ran = all.saturating_sub(find_number_after(text, "Skipped: ").unwrap_or(0));
    TestEvidence::from_counts(ran.saturating_sub(failed), failed)
}

/// `Executed 3 tests, with 1 failure (0 unexpected) in 0.01 seconds`.
fn classify_swift(text: &str) -> TestEvidence {
    let Some(rest) = text.strip_prefix("Executed ").filter(|it| it.contains(" test")) else {
        return TestEvidence::UNRELATED;
    };
    let (ran, failed) = (parse_leading_number(rest), find_number_before(rest, " failure"));
    let skipped = find_number_before(rest, " tests skipped");
    let ran = ran.unwrap_or(0).saturating_sub(skipped).saturating_sub(failed);
    // It prints a line for each suite, and one for all.
    TestEvidence::from_counts(ran, failed).without_number()
}

/// `All 3 tests passed.`
fn classify_zig(text: &str) -> TestEvidence {
    let rest = text.strip_prefix("All ").filter(|it| it.contains(" tests passed"));
    rest.and_then(parse_leading_number).map_or(TestEvidence::UNRELATED, TestEvidence::from_count)
}

/// `[ FAIL 0 | WARN 0 | SKIP 0 | PASS 3 ]`.
fn classify_testthat(text: &str) -> TestEvidence {
    let [failed, passed] = ["FAIL ", "PASS "].map(|it| find_number_after(text, it).unwrap_or(0));
    TestEvidence::from_counts(passed, failed)
}

/// `ok package 0.01s` of Go, `ok | 3 passed | 0 failed` of deno, and `ok 3 - name` of TAP.
fn classify_go_or_tap(text: &str) -> TestEvidence {
    if text.starts_with("ok | ") {
        return count_passed_and_failed(text);
    }
    if let Some(rest) = text.strip_prefix("ok  \t") {
        let is_empty = rest.ends_with("[no tests to run]") || rest.ends_with("[no test files]");
        return if is_empty { TestEvidence::NONE_RAN } else { TestEvidence::RAN };
    }
    match text.strip_prefix("ok ") {
        Some(rest) if rest.starts_with(|next: char| next.is_ascii_digit()) => {
            let directive = rest.split_once(" # ").map(|(_, directive)| directive);
            let is_skipped =
                directive.is_some_and(|reason| reason.to_ascii_lowercase().starts_with("skip"));
            if is_skipped { TestEvidence::NONE_RAN } else { TestEvidence::RAN }
        }
        Some(_) | None => TestEvidence::UNRELATED,
    }
}

/// `OK (3 tests)`, `OK (3 tests, 5 assertions)`.
fn classify_junit4_or_phpunit(text: &str) -> TestEvidence {
    let rest = text.strip_prefix("OK (");
    let count = rest.filter(|rest| rest.contains(" test")).and_then(parse_leading_number);
    count.map_or(TestEvidence::UNRELATED, TestEvidence::from_count)
}

/// `# pass 3` and `ℹ pass 3`; the number of tests includes skipped ones.
fn classify_node(text: &str) -> TestEvidence {
    let rest = text.strip_prefix("# ").or_else(|| text.strip_prefix("ℹ "));
    match rest.and_then(|rest| rest.split_once(' ')) {
        Some(("pass", count)) if is_count(count) && count != "0" => {
            TestEvidence { ran: count.parse().ok(), ..TestEvidence::RAN }
        }
        Some(("fail", "0")) => TestEvidence { has_failed: Some(false), ..TestEvidence::UNRELATED },
        Some(("fail", count)) if is_count(count) => TestEvidence::FAILED,
        Some(("tests", "0")) => TestEvidence::NONE_RAN,
        // All were skipped: the line before this one had no passed tests.
        Some(("skipped", count)) if is_count(count) && count != "0" => TestEvidence::NONE_RAN,
        Some(_) | None => TestEvidence::UNRELATED,
    }
}

/// googletest, the console of `JUnit`, and surefire.
fn classify_bracketed(text: &str) -> TestEvidence {
    if let Some(rest) = text.strip_prefix("[INFO] ").or_else(|| text.strip_prefix("[WARNING] ")) {
        return if rest.starts_with("No tests to run") {
            TestEvidence::NONE_RAN
        } else {
            classify_totals(rest)
        };
    }
    if let Some(rest) = text.strip_prefix("[ERROR] ") {
        return classify_totals(rest);
    }
    if text.starts_with("[ FAIL ") {
        return classify_testthat(text);
    }
    if text.starts_with("[  FAILED  ] ") && text.ends_with("listed below:") {
        return TestEvidence::FAILED;
    }
    if let Some(rest) = text.strip_prefix("[  PASSED  ] ") {
        return parse_leading_number(rest)
            .map_or(TestEvidence::UNRELATED, TestEvidence::from_count);
    }
    let inner = text.trim_matches(['[', ']', ' ']);
    match (inner.strip_suffix(" tests started"), parse_leading_number(inner)) {
        (Some(_), Some(count)) => TestEvidence::from_count(count),
        (Some(_) | None, _) => TestEvidence::UNRELATED,
    }
}

/// `> Task :app:test NO-SOURCE`. A task that is up to date ran before on the same sources.
fn classify_gradle(text: &str) -> TestEvidence {
    let Some(rest) = text.strip_prefix("> Task :") else {
        return TestEvidence::UNRELATED;
    };
    let (path, outcome) = rest.split_once(' ').unwrap_or((rest, ""));
    let task = path.rsplit(':').next().unwrap_or_default();
    if task != "test" && !task.ends_with("Test") {
        return TestEvidence::UNRELATED;
    }
    match outcome {
        "NO-SOURCE" | "SKIPPED" => TestEvidence::NONE_RAN,
        "FAILED" => TestEvidence::FAILED,
        "" | "UP-TO-DATE" | "FROM-CACHE" => TestEvidence::RAN,
        _ => TestEvidence::UNRELATED,
    }
}

/// Summaries that begin with a number: pytest, mocha, bun, bats, mix, rspec, minitest, ctest.
fn classify_counted(text: &str) -> TestEvidence {
    if text.starts_with("no tests ran in ") {
        return TestEvidence::NONE_RAN;
    }
    let Some(count) = parse_leading_number(text) else {
        return TestEvidence::UNRELATED;
    };
    let rest = text.trim_start_matches(|next: char| next.is_ascii_digit());
    match rest {
        " pass" => return TestEvidence::from_count(count),
        " failing" | " fail" if count > 0 => return TestEvidence::FAILED,
        _ if rest.starts_with(" passing") => return TestEvidence::from_count(count),
        _ => {}
    }
    // rspec, bats and mix, minitest.
    let is_listed = [" example", " test", " run"].iter().any(|it| rest.starts_with(it));
    if is_listed && rest.contains(" failure") {
        let failed = find_number_before(rest, " failure") + find_number_before(rest, " error");
        let left_out = [" pending", " skip", " excluded"].map(|it| find_number_before(rest, it));
        let ran = count.saturating_sub(left_out.iter().sum()).saturating_sub(failed);
        return TestEvidence::from_counts(ran, failed);
    }
    if rest.starts_with("% tests passed, ") {
        let failed = find_number_before(rest, " tests failed");
        return find_number_after(rest, " out of ").map_or(TestEvidence::UNRELATED, |all| {
            TestEvidence::from_counts(all.saturating_sub(failed), failed)
        });
    }
    // `1 failed, 3 passed, 2 skipped in 0.12s` of pytest.
    let is_pytest = ["passed", "failed", "skipped", "error", "xfailed", "xpassed", "deselected"]
        .iter()
        .any(|word| rest.trim_start().starts_with(word))
        && rest.contains(" in ")
        && rest.trim_end_matches(')').ends_with(|last: char| last == 's' || last.is_ascii_digit());
    if !is_pytest {
        return TestEvidence::UNRELATED;
    }
    let sum = |words: &[&str]| -> u64 {
        words.iter().map(|word| find_number_before(text, &format!(" {word}"))).sum()
    };
    TestEvidence::from_counts(sum(&["passed", "xfailed", "xpassed"]), sum(&["failed", "error"]))
}

fn parse_unittest_count(rest: &str) -> Option<u64> {
    rest.contains(" in ").then(|| parse_leading_number(rest)).flatten()
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the number that a text begins with.
fn parse_leading_number(text: &str) -> Option<u64> {
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the first number that is directly before a pattern, or 0.
fn find_number_before(text: &str, pattern: &str) -> u64 {
    let number = |at: usize| {
        let start = text[..at].rfind(|before: char| !before.is_ascii_digit());
        text.get(start.map_or(0, |it| it + 1)..at)?.parse().ok()
    };
    text.match_indices(pattern).find_map(|(at, _)| number(at)).unwrap_or(0)
}

/// Returns the number directly after a pattern.
fn find_number_after(text: &str, pattern: &str) -> Option<u64> {
    text.split_once(pattern).and_then(|(_, rest)| parse_leading_number(rest))
}

/// Returns the sum of the numbers after these patterns, with spaces between.
fn sum_numbers_after(text: &str, patterns: &[&str]) -> u64 {
    patterns
        .iter()
        .filter_map(|word| text.split_once(word))
        .filter_map(|(_, rest)| parse_leading_number(rest.trim_start()))
        .sum()
}

#[cfg(test)]
mod tests;
