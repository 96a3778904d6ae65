//! Empty test runs: test commands that pass without running a test.
//!
//! Knows the summaries of cargo test and nextest, pytest and unittest, jest, vitest, mocha and
//! node, go test, `JUnit` with its console, surefire and gradle, bats and other TAP, rspec,
//! phpunit, dotnet, ctest and googletest. A skipped test did not run. The gate decides what
//! follows.

use crate::text::{Lines, glance};

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
    lines: Lines,
    scan: Scan,
}

impl Default for TestCount {
    fn default() -> Self {
        let scan = Scan { seen: TestsSeen::Unknown, unittest: None, lists: Lists::Tests };
        Self { lines: Lines::new(LONGEST_LINE), scan }
    }
}

impl TestCount {
    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed(&mut self, text: &str) {
        let Self { lines, scan } = self;
        lines.feed(text, |line| scan.take(line));
    }

    /// Returns the result so far, including a last line without a line end.
    pub fn seen(&self) -> TestsSeen {
        let Self { mut lines, mut scan } = self.clone();
        lines.finish(|line| scan.take(line));
        if scan.unittest.is_some() { TestsSeen::Ran } else { scan.seen }
    }
}

/// The result of the lines so far.
#[derive(Debug, Clone)]
struct Scan {
    seen: TestsSeen,
    /// The number of tests that unittest ran; a later line has the number of skipped ones.
    unittest: Option<u64>,
    lists: Lists,
}

/// What the numbered lines of TAP are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// One test each.
    Tests,
    /// Also suites, as node lists them: these are `ok` even if empty; node prints counts below.
    Suites,
}

/// What one line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Some,
    None,
    Nothing,
}

impl Says {
    fn of(count: u64) -> Self {
        if count > 0 { Self::Some } else { Self::None }
    }
}

impl Scan {
    fn take(&mut self, line: &str) {
        if self.seen == TestsSeen::Ran {
            return;
        }
        let text = line.trim();
        match self.says(line, text) {
            Says::Some => self.seen = TestsSeen::Ran,
            Says::None if self.seen == TestsSeen::Unknown => {
                self.seen = TestsSeen::NoneRan { line: glance(text, 200) };
            }
            Says::None | Says::Nothing => {}
        }
    }

    fn says(&mut self, line: &str, text: &str) -> Says {
        if let Some(count) = text.strip_prefix("Ran ").and_then(unittest_count)
            && count > 0
        {
            self.unittest = Some(count);
            return Says::Nothing;
        }
        if let Some(count) = self.unittest
            && (text.starts_with("OK") || text.starts_with("FAILED"))
        {
            self.unittest = None;
            let skipped = number_behind(text, "skipped=").unwrap_or(0);
            return Says::of(count.saturating_sub(skipped));
        }
        if text.starts_with("# Subtest: ") {
            self.lists = Lists::Suites;
        }
        match self.lists {
            Lists::Suites if text.starts_with("ok ") => Says::Nothing,
            Lists::Suites | Lists::Tests => says(line, text),
        }
    }
}

fn says(line: &str, text: &str) -> Says {
    let Some(first) = text.bytes().next() else {
        return Says::Nothing;
    };
    match first {
        b'r' => cargo_running(text),
        b't' => cargo_or_go(text),
        b'S' => nextest(text),
        b'c' => collected(text),
        b'n' => no_tests(text).or_tap(text),
        b'N' => no_tests_said(text),
        b'R' if text.starts_with("Ran 0 tests") => Says::None,
        b'T' => tests_or_total(text),
        b'?' if text.ends_with("[no test files]") => Says::None,
        b'o' => go_or_tap(text),
        b'-' if text.starts_with("--- FAIL: ") || text.starts_with("--- PASS: ") => Says::Some,
        b'O' => junit4_or_phpunit(text),
        b'#' | 0xe2 => node(text),
        b'[' => bracketed(text),
        b'>' => gradle(text),
        b'P' | b'F' if text.starts_with("Passed!") || text.starts_with("Failed!") => {
            Says::of(sum(text, &["Passed:", "Failed:"]))
        }
        b'1' if text == "1..0" || text.starts_with("1..0 ") => Says::None,
        b'0'..=b'9' => counted(text),
        b'=' => counted(text.trim_matches(['=', ' '])),
        _ if line.starts_with('\t') && text.ends_with("coverage: 0.0% of statements") => Says::None,
        _ => Says::Nothing,
    }
}

impl Says {
    /// Counts `not ok 3` if nothing else matched.
    fn or_tap(self, text: &str) -> Self {
        if self == Self::Nothing && text.starts_with("not ok ") { Self::Some } else { self }
    }
}

/// `running 0 tests` of cargo; with more tests nothing is certain, since all may be ignored.
fn cargo_running(text: &str) -> Says {
    if text == "running 0 tests" { Says::None } else { Says::Nothing }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored`, `testing: warning: no tests to run`.
fn cargo_or_go(text: &str) -> Says {
    if text.starts_with("test result: ") {
        return Says::of(number_before(text, " passed") + number_before(text, " failed"));
    }
    if text == "testing: warning: no tests to run" { Says::None } else { Says::Nothing }
}

/// `Summary [   0.012s] 3 tests run: 3 passed, 0 skipped`.
fn nextest(text: &str) -> Says {
    match text.strip_prefix("Summary [").and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) if rest.contains(" run: ") => Says::of(leading_number(rest).unwrap_or(0)),
        None if text.starts_with("Starting 0 tests across ") => Says::None,
        Some(_) | None => Says::Nothing,
    }
}

/// `collected 0 items` of pytest; with more items nothing is certain.
fn collected(text: &str) -> Says {
    if text.starts_with("collected 0 items") { Says::None } else { Says::Nothing }
}

/// `no tests ran in 0.01s` of pytest in quiet mode.
fn no_tests(text: &str) -> Says {
    if text.starts_with("no tests ran in ") { Says::None } else { Says::Nothing }
}

/// jest, vitest, ctest, dotnet, phpunit.
fn no_tests_said(text: &str) -> Says {
    let known = [
        "No tests found",
        "No test files found",
        "No tests were found",
        "No test is available in ",
        "No test matches the given testcase filter",
        "No tests executed",
        "No tests to run",
    ];
    if known.iter().any(|known| text.starts_with(known)) { Says::None } else { Says::Nothing }
}

/// The totals of jest, vitest, surefire, phpunit and dotnet.
fn tests_or_total(text: &str) -> Says {
    if let Some(rest) = text.strip_prefix("Tests run:") {
        let ran = leading_number(rest.trim_start()).unwrap_or(0);
        return Says::of(ran.saturating_sub(number_behind(text, "Skipped: ").unwrap_or(0)));
    }
    if let Some(rest) = text.strip_prefix("Total tests: ") {
        return leading_number(rest).map_or(Says::Nothing, Says::of);
    }
    let Some(rest) = text.strip_prefix("Tests: ").or_else(|| text.strip_prefix("Tests  ")) else {
        return Says::Nothing;
    };
    let rest = rest.trim_start();
    if rest.starts_with("no tests") {
        return Says::None;
    }
    if rest.contains(", Assertions: ") {
        let ran = leading_number(rest).unwrap_or(0);
        return Says::of(ran.saturating_sub(number_behind(rest, "Skipped: ").unwrap_or(0)));
    }
    let is_jest = rest.ends_with(" total");
    let is_vitest = rest.ends_with(')') && leading_number(rest).is_some();
    if is_jest || is_vitest {
        return Says::of(number_before(rest, " passed") + number_before(rest, " failed"));
    }
    Says::Nothing
}

/// `ok package 0.01s` of Go, and `ok 3 - name` of TAP.
fn go_or_tap(text: &str) -> Says {
    if let Some(rest) = text.strip_prefix("ok  \t") {
        let is_empty = rest.ends_with("[no tests to run]") || rest.ends_with("[no test files]");
        return if is_empty { Says::None } else { Says::Some };
    }
    match text.strip_prefix("ok ") {
        Some(rest) if rest.starts_with(|next: char| next.is_ascii_digit()) => {
            let directive = rest.split_once(" # ").map(|(_, directive)| directive);
            let is_skipped =
                directive.is_some_and(|reason| reason.to_ascii_lowercase().starts_with("skip"));
            if is_skipped { Says::None } else { Says::Some }
        }
        Some(_) | None => Says::Nothing,
    }
}

/// `OK (3 tests)`, `OK (3 tests, 5 assertions)`.
fn junit4_or_phpunit(text: &str) -> Says {
    let rest = text.strip_prefix("OK (");
    let count = rest.filter(|rest| rest.contains(" test")).and_then(leading_number);
    count.map_or(Says::Nothing, Says::of)
}

/// `# pass 3` and `ℹ pass 3`; the number of tests includes skipped ones.
fn node(text: &str) -> Says {
    let rest = text.strip_prefix("# ").or_else(|| text.strip_prefix("ℹ "));
    match rest.and_then(|rest| rest.split_once(' ')) {
        Some(("pass" | "fail", count)) => {
            if leading_number(count).is_some_and(|count| count > 0) {
                Says::Some
            } else {
                Says::Nothing
            }
        }
        Some(("tests", "0")) => Says::None,
        // All were skipped: the line before this one had no passed tests.
        Some(("skipped", count)) if is_count(count) && count != "0" => Says::None,
        Some(_) | None => Says::Nothing,
    }
}

/// googletest, the console of `JUnit`, and surefire.
fn bracketed(text: &str) -> Says {
    if let Some(rest) = text.strip_prefix("[INFO] ").or_else(|| text.strip_prefix("[WARNING] ")) {
        return if rest.starts_with("No tests to run") { Says::None } else { tests_or_total(rest) };
    }
    if let Some(rest) = text.strip_prefix("[ERROR] ") {
        return tests_or_total(rest);
    }
    if let Some(rest) = text.strip_prefix("[  PASSED  ] ") {
        return leading_number(rest).map_or(Says::Nothing, Says::of);
    }
    let inner = text.trim_matches(['[', ']', ' ']);
    match (inner.strip_suffix(" tests started"), leading_number(inner)) {
        (Some(_), Some(count)) => Says::of(count),
        (Some(_) | None, _) => Says::Nothing,
    }
}

/// `> Task :app:test NO-SOURCE`. A task that is up to date ran before on the same sources.
fn gradle(text: &str) -> Says {
    let Some(rest) = text.strip_prefix("> Task :") else {
        return Says::Nothing;
    };
    let (path, outcome) = rest.split_once(' ').unwrap_or((rest, ""));
    let task = path.rsplit(':').next().unwrap_or_default();
    if task != "test" && !task.ends_with("Test") {
        return Says::Nothing;
    }
    match outcome {
        "NO-SOURCE" | "SKIPPED" => Says::None,
        "" | "FAILED" | "UP-TO-DATE" | "FROM-CACHE" => Says::Some,
        _ => Says::Nothing,
    }
}

/// Summaries that begin with a number: pytest, mocha, bats, rspec, ctest.
fn counted(text: &str) -> Says {
    if text.starts_with("no tests ran in ") {
        return Says::None;
    }
    let Some(count) = leading_number(text) else {
        return Says::Nothing;
    };
    let rest = text.trim_start_matches(|next: char| next.is_ascii_digit());
    if rest.starts_with(" passing") || rest == " failing" {
        return Says::of(count);
    }
    if rest.starts_with(" example") && rest.contains(" failure") {
        return Says::of(count.saturating_sub(number_before(rest, " pending")));
    }
    if rest.starts_with(" test") && rest.contains(" failure") {
        return Says::of(count.saturating_sub(number_before(rest, " skipped")));
    }
    if rest.starts_with("% tests passed, ") {
        return number_behind(rest, " out of ").map_or(Says::Nothing, Says::of);
    }
    // `1 failed, 3 passed, 2 skipped in 0.12s` of pytest.
    let is_pytest = ["passed", "failed", "skipped", "error", "xfailed", "xpassed", "deselected"]
        .iter()
        .any(|word| rest.trim_start().starts_with(word))
        && rest.contains(" in ")
        && rest.trim_end_matches(')').ends_with(|last: char| last == 's' || last.is_ascii_digit());
    if !is_pytest {
        return Says::Nothing;
    }
    let ran = ["passed", "failed", "error", "xfailed", "xpassed"];
    Says::of(ran.iter().map(|word| number_before(text, &format!(" {word}"))).sum())
}

fn unittest_count(rest: &str) -> Option<u64> {
    rest.contains(" in ").then(|| leading_number(rest)).flatten()
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the number that a text begins with.
fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the number directly before a pattern, or 0.
fn number_before(text: &str, pattern: &str) -> u64 {
    let Some(at) = text.find(pattern) else {
        return 0;
    };
    let start = text[..at].rfind(|before: char| !before.is_ascii_digit()).map_or(0, |at| at + 1);
    text.get(start..at).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the number directly after a pattern.
fn number_behind(text: &str, pattern: &str) -> Option<u64> {
    text.split_once(pattern).and_then(|(_, rest)| leading_number(rest))
}

/// Returns the sum of the numbers after these patterns, with spaces between.
fn sum(text: &str, patterns: &[&str]) -> u64 {
    patterns
        .iter()
        .filter_map(|word| text.split_once(word))
        .filter_map(|(_, rest)| leading_number(rest.trim_start()))
        .sum()
}

#[cfg(test)]
mod tests;
