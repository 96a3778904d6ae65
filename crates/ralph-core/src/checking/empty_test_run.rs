//! Empty test runs: test commands that pass without running a test.
//!
//! Knows the summaries of cargo test and nextest, pytest and unittest, jest, vitest, mocha and
//! node, go test, `JUnit` with its console, surefire and gradle, bats and other TAP, rspec,
//! phpunit, dotnet, ctest and googletest. A skipped test did not run. The gate decides what
//! follows.

use ralph_model::text::{BoundedLines, shorten_to_line};

/// Summaries are short.
const LONGEST_LINE: usize = 512;

/// What an output shows about the number of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestsSeen {
    /// A line shows that tests ran.
    Ran,
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
        let scan =
            TestCountScan { seen: TestsSeen::Unknown, unittest: None, lists: TapNumbering::Tests };
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
        if scan.unittest.is_some() { TestsSeen::Ran } else { scan.seen }
    }
}

/// The result of the lines so far.
#[derive(Debug, Clone)]
struct TestCountScan {
    seen: TestsSeen,
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

/// What one line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestEvidence {
    Ran,
    NoneRan,
    Unrelated,
}

impl TestEvidence {
    fn from_count(count: u64) -> Self {
        if count > 0 { Self::Ran } else { Self::NoneRan }
    }
}

impl TestCountScan {
    fn take_line(&mut self, line: &str) {
        if self.seen == TestsSeen::Ran {
            return;
        }
        let text = line.trim();
        match self.read_line(line, text) {
            TestEvidence::Ran => self.seen = TestsSeen::Ran,
            TestEvidence::NoneRan if self.seen == TestsSeen::Unknown => {
                self.seen = TestsSeen::NoneRan { line: shorten_to_line(text, 200) };
            }
            TestEvidence::NoneRan | TestEvidence::Unrelated => {}
        }
    }

    fn read_line(&mut self, line: &str, text: &str) -> TestEvidence {
        if let Some(count) = text.strip_prefix("Ran ").and_then(parse_unittest_count)
            && count > 0
        {
            self.unittest = Some(count);
            return TestEvidence::Unrelated;
        }
        if let Some(count) = self.unittest
            && (text.starts_with("OK") || text.starts_with("FAILED"))
        {
            self.unittest = None;
            let skipped = find_number_after(text, "skipped=").unwrap_or(0);
            return TestEvidence::from_count(count.saturating_sub(skipped));
        }
        if text.starts_with("# Subtest: ") {
            self.lists = TapNumbering::Suites;
        }
        match self.lists {
            TapNumbering::Suites if text.starts_with("ok ") => TestEvidence::Unrelated,
            TapNumbering::Suites | TapNumbering::Tests => classify_line(line, text),
        }
    }
}

fn classify_line(line: &str, text: &str) -> TestEvidence {
    let Some(first) = text.bytes().next() else {
        return TestEvidence::Unrelated;
    };
    match first {
        b'r' => classify_cargo_running(text),
        b't' => classify_cargo_or_go(text),
        b'S' => classify_nextest(text),
        b'c' => classify_collected(text),
        b'n' => classify_quiet_pytest(text).fallback_to_tap(text),
        b'N' => classify_no_tests(text),
        b'R' if text.starts_with("Ran 0 tests") => TestEvidence::NoneRan,
        b'T' => classify_totals(text),
        b'?' if text.ends_with("[no test files]") => TestEvidence::NoneRan,
        b'o' => classify_go_or_tap(text),
        b'-' if text.starts_with("--- FAIL: ") || text.starts_with("--- PASS: ") => {
            TestEvidence::Ran
        }
        b'O' => classify_junit4_or_phpunit(text),
        b'#' | 0xe2 => classify_node(text),
        b'[' => classify_bracketed(text),
        b'>' => classify_gradle(text),
        b'P' | b'F' if text.starts_with("Passed!") || text.starts_with("Failed!") => {
            TestEvidence::from_count(sum_numbers_after(text, &["Passed:", "Failed:"]))
        }
        b'1' if text == "1..0" || text.starts_with("1..0 ") => TestEvidence::NoneRan,
        b'0'..=b'9' => classify_counted(text),
        b'=' => classify_counted(text.trim_matches(['=', ' '])),
        _ if line.starts_with('\t') && text.ends_with("coverage: 0.0% of statements") => {
            TestEvidence::NoneRan
        }
        _ => TestEvidence::Unrelated,
    }
}

impl TestEvidence {
    /// Counts `not ok 3` if nothing else matched.
    fn fallback_to_tap(self, text: &str) -> Self {
        if self == Self::Unrelated && text.starts_with("not ok ") { Self::Ran } else { self }
    }
}

/// `running 0 tests` of cargo; with more tests nothing is certain, since all may be ignored.
fn classify_cargo_running(text: &str) -> TestEvidence {
    if text == "running 0 tests" { TestEvidence::NoneRan } else { TestEvidence::Unrelated }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored`, `testing: warning: no tests to run`.
fn classify_cargo_or_go(text: &str) -> TestEvidence {
    if text.starts_with("test result: ") {
        return TestEvidence::from_count(
            find_number_before(text, " passed") + find_number_before(text, " failed"),
        );
    }
    if text == "testing: warning: no tests to run" {
        TestEvidence::NoneRan
    } else {
        TestEvidence::Unrelated
    }
}

/// `Summary [   0.012s] 3 tests run: 3 passed, 0 skipped`.
fn classify_nextest(text: &str) -> TestEvidence {
    match text.strip_prefix("Summary [").and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) if rest.contains(" run: ") => {
            TestEvidence::from_count(parse_leading_number(rest).unwrap_or(0))
        }
        None if text.starts_with("Starting 0 tests across ") => TestEvidence::NoneRan,
        Some(_) | None => TestEvidence::Unrelated,
    }
}

/// `collected 0 items` of pytest; with more items nothing is certain.
fn classify_collected(text: &str) -> TestEvidence {
    if text.starts_with("collected 0 items") {
        TestEvidence::NoneRan
    } else {
        TestEvidence::Unrelated
    }
}

/// `no tests ran in 0.01s` of pytest in quiet mode.
fn classify_quiet_pytest(text: &str) -> TestEvidence {
    if text.starts_with("no tests ran in ") {
        TestEvidence::NoneRan
    } else {
        TestEvidence::Unrelated
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
        "No tests to run",
    ];
    if known.iter().any(|known| text.starts_with(known)) {
        TestEvidence::NoneRan
    } else {
        TestEvidence::Unrelated
    }
}

/// The totals of jest, vitest, surefire, phpunit and dotnet.
fn classify_totals(text: &str) -> TestEvidence {
    if let Some(rest) = text.strip_prefix("Tests run:") {
        let ran = parse_leading_number(rest.trim_start()).unwrap_or(0);
        return TestEvidence::from_count(
            ran.saturating_sub(find_number_after(text, "Skipped: ").unwrap_or(0)),
        );
    }
    if let Some(rest) = text.strip_prefix("Total tests: ") {
        return parse_leading_number(rest)
            .map_or(TestEvidence::Unrelated, TestEvidence::from_count);
    }
    let Some(rest) = text.strip_prefix("Tests: ").or_else(|| text.strip_prefix("Tests  ")) else {
        return TestEvidence::Unrelated;
    };
    let rest = rest.trim_start();
    if rest.starts_with("no tests") {
        return TestEvidence::NoneRan;
    }
    if rest.contains(", Assertions: ") {
        let ran = parse_leading_number(rest).unwrap_or(0);
        return TestEvidence::from_count(
            ran.saturating_sub(find_number_after(rest, "Skipped: ").unwrap_or(0)),
        );
    }
    let is_jest = rest.ends_with(" total");
    let is_vitest = rest.ends_with(')') && parse_leading_number(rest).is_some();
    if is_jest || is_vitest {
        return TestEvidence::from_count(
            find_number_before(rest, " passed") + find_number_before(rest, " failed"),
        );
    }
    TestEvidence::Unrelated
}

/// `ok package 0.01s` of Go, and `ok 3 - name` of TAP.
fn classify_go_or_tap(text: &str) -> TestEvidence {
    if let Some(rest) = text.strip_prefix("ok  \t") {
        let is_empty = rest.ends_with("[no tests to run]") || rest.ends_with("[no test files]");
        return if is_empty { TestEvidence::NoneRan } else { TestEvidence::Ran };
    }
    match text.strip_prefix("ok ") {
        Some(rest) if rest.starts_with(|next: char| next.is_ascii_digit()) => {
            let directive = rest.split_once(" # ").map(|(_, directive)| directive);
            let is_skipped =
                directive.is_some_and(|reason| reason.to_ascii_lowercase().starts_with("skip"));
            if is_skipped { TestEvidence::NoneRan } else { TestEvidence::Ran }
        }
        Some(_) | None => TestEvidence::Unrelated,
    }
}

/// `OK (3 tests)`, `OK (3 tests, 5 assertions)`.
fn classify_junit4_or_phpunit(text: &str) -> TestEvidence {
    let rest = text.strip_prefix("OK (");
    let count = rest.filter(|rest| rest.contains(" test")).and_then(parse_leading_number);
    count.map_or(TestEvidence::Unrelated, TestEvidence::from_count)
}

/// `# pass 3` and `ℹ pass 3`; the number of tests includes skipped ones.
fn classify_node(text: &str) -> TestEvidence {
    let rest = text.strip_prefix("# ").or_else(|| text.strip_prefix("ℹ "));
    match rest.and_then(|rest| rest.split_once(' ')) {
        Some(("pass" | "fail", count)) => {
            if parse_leading_number(count).is_some_and(|count| count > 0) {
                TestEvidence::Ran
            } else {
                TestEvidence::Unrelated
            }
        }
        Some(("tests", "0")) => TestEvidence::NoneRan,
        // All were skipped: the line before this one had no passed tests.
        Some(("skipped", count)) if is_count(count) && count != "0" => TestEvidence::NoneRan,
        Some(_) | None => TestEvidence::Unrelated,
    }
}

/// googletest, the console of `JUnit`, and surefire.
fn classify_bracketed(text: &str) -> TestEvidence {
    if let Some(rest) = text.strip_prefix("[INFO] ").or_else(|| text.strip_prefix("[WARNING] ")) {
        return if rest.starts_with("No tests to run") {
            TestEvidence::NoneRan
        } else {
            classify_totals(rest)
        };
    }
    if let Some(rest) = text.strip_prefix("[ERROR] ") {
        return classify_totals(rest);
    }
    if let Some(rest) = text.strip_prefix("[  PASSED  ] ") {
        return parse_leading_number(rest)
            .map_or(TestEvidence::Unrelated, TestEvidence::from_count);
    }
    let inner = text.trim_matches(['[', ']', ' ']);
    match (inner.strip_suffix(" tests started"), parse_leading_number(inner)) {
        (Some(_), Some(count)) => TestEvidence::from_count(count),
        (Some(_) | None, _) => TestEvidence::Unrelated,
    }
}

/// `> Task :app:test NO-SOURCE`. A task that is up to date ran before on the same sources.
fn classify_gradle(text: &str) -> TestEvidence {
    let Some(rest) = text.strip_prefix("> Task :") else {
        return TestEvidence::Unrelated;
    };
    let (path, outcome) = rest.split_once(' ').unwrap_or((rest, ""));
    let task = path.rsplit(':').next().unwrap_or_default();
    if task != "test" && !task.ends_with("Test") {
        return TestEvidence::Unrelated;
    }
    match outcome {
        "NO-SOURCE" | "SKIPPED" => TestEvidence::NoneRan,
        "" | "FAILED" | "UP-TO-DATE" | "FROM-CACHE" => TestEvidence::Ran,
        _ => TestEvidence::Unrelated,
    }
}

/// Summaries that begin with a number: pytest, mocha, bats, rspec, ctest.
fn classify_counted(text: &str) -> TestEvidence {
    if text.starts_with("no tests ran in ") {
        return TestEvidence::NoneRan;
    }
    let Some(count) = parse_leading_number(text) else {
        return TestEvidence::Unrelated;
    };
    let rest = text.trim_start_matches(|next: char| next.is_ascii_digit());
    if rest.starts_with(" passing") || rest == " failing" {
        return TestEvidence::from_count(count);
    }
    if rest.starts_with(" example") && rest.contains(" failure") {
        return TestEvidence::from_count(
            count.saturating_sub(find_number_before(rest, " pending")),
        );
    }
    if rest.starts_with(" test") && rest.contains(" failure") {
        return TestEvidence::from_count(
            count.saturating_sub(find_number_before(rest, " skipped")),
        );
    }
    if rest.starts_with("% tests passed, ") {
        return find_number_after(rest, " out of ")
            .map_or(TestEvidence::Unrelated, TestEvidence::from_count);
    }
    // `1 failed, 3 passed, 2 skipped in 0.12s` of pytest.
    let is_pytest = ["passed", "failed", "skipped", "error", "xfailed", "xpassed", "deselected"]
        .iter()
        .any(|word| rest.trim_start().starts_with(word))
        && rest.contains(" in ")
        && rest.trim_end_matches(')').ends_with(|last: char| last == 's' || last.is_ascii_digit());
    if !is_pytest {
        return TestEvidence::Unrelated;
    }
    let ran = ["passed", "failed", "error", "xfailed", "xpassed"];
    TestEvidence::from_count(
        ran.iter().map(|word| find_number_before(text, &format!(" {word}"))).sum(),
    )
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

/// Returns the number directly before a pattern, or 0.
fn find_number_before(text: &str, pattern: &str) -> u64 {
    let Some(at) = text.find(pattern) else {
        return 0;
    };
    let start = text[..at].rfind(|before: char| !before.is_ascii_digit()).map_or(0, |at| at + 1);
    text.get(start..at).and_then(|digits| digits.parse().ok()).unwrap_or(0)
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
