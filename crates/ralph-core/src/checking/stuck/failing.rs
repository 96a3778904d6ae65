//! Finds the names of failing checks in the output of the usual test runners.
//!
//! cargo test and nextest, pytest and unittest, jest, vitest, mocha and node, go test, `JUnit` with
//! its console, surefire and gradle, bats and other TAP, rspec, phpunit, dotnet, ctest and
//! googletest.

use std::collections::BTreeSet;

use ralph_model::text::BoundedLines;

/// Names are on one line, and no relevant line is longer.
const LONGEST_LINE: usize = 2048;

/// With more failing checks than this, it does not matter which ones.
const MOST_NAMES: usize = 100;

/// The longest name: names of parameterized tests contain their values.
const LONGEST_NAME: usize = 200;

/// Collects the names of failing checks from streamed output. Finds none for unknown runners.
#[derive(Debug, Clone)]
pub struct FailingChecks {
    lines: BoundedLines,
    found: FailingNames,
}

impl Default for FailingChecks {
    fn default() -> Self {
        Self { lines: BoundedLines::new(LONGEST_LINE), found: FailingNames::default() }
    }
}

impl FailingChecks {
    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed_text(&mut self, text: &str) {
        let Self { lines, found } = self;
        lines.feed_text(text, |line| found.take_line(line));
    }

    /// Returns the names: sorted, without duplicates, at most 100 of at most 200 characters.
    pub fn names(&self) -> Vec<String> {
        let Self { mut lines, mut found } = self.clone();
        lines.finish_line(|line| found.take_line(line));
        found.flush_package("");
        found.names.into_iter().take(MOST_NAMES).collect()
    }
}

/// The names found so far, and the state of the parser.
#[derive(Debug, Clone, Default)]
struct FailingNames {
    /// The smallest names in sorted order, so that the order of arrival does not matter.
    names: BTreeSet<String>,
    section: RunnerSection,
    /// The test file that jest printed last.
    file: String,
    /// Tests of a Go package whose name is printed after them.
    package: Vec<String>,
}

/// A section of the output in which lines have a special meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum RunnerSection {
    #[default]
    Outside,
    /// After `failures:` of cargo.
    Cargo,
    /// After `The following tests FAILED:` of ctest.
    Ctest,
    /// After `2 failing` of mocha.
    Mocha,
    /// Within the name of a mocha failure, which has one line for each of its parts.
    MochaName(String),
}

impl FailingNames {
    fn take_line(&mut self, line: &str) {
        if self.section != RunnerSection::Outside && self.take_in_section(line) {
            return;
        }
        let text = line.trim();
        let Some(first) = text.chars().next() else {
            return;
        };
        match first {
            // Nextest also prints the output of the test binaries, indented.
            't' => self.take_cargo(line),
            'f' if line == "failures:" => self.section = RunnerSection::Cargo,
            '-' => self.take_dashes(text),
            'F' => self.take_failed(line, text),
            'E' => self.take_error(text),
            'n' => self.take_tap(text),
            'T' | 'S' | 'L' if text.contains(" [") => self.take_nextest(text),
            'T' if text.starts_with("The following tests FAILED") => {
                self.section = RunnerSection::Ctest;
            }
            '●' => self.take_jest(&text['●'.len_utf8()..]),
            '✗' | '✖' => self.take_marked(&text[first.len_utf8()..]),
            '0'..='9' => self.take_numbered(text),
            'J' if line.starts_with("  JUnit ") => self.take_junit(text),
            'r' if text.starts_with("rspec ") => {
                if let Some((_, name)) = text.split_once(" # ") {
                    self.add_name(name);
                }
            }
            '[' => self.take_bracketed(text),
            _ => {}
        }
        self.take_ending(text);
    }

    fn add_name(&mut self, name: &str) {
        let name: String = name.trim().chars().take(LONGEST_NAME).collect();
        if name.is_empty() {
            return;
        }
        self.names.insert(name);
        if self.names.len() > MOST_NAMES {
            self.names.pop_last();
        }
    }

    /// Processes a line within a section, and returns whether it is done with.
    fn take_in_section(&mut self, line: &str) -> bool {
        match &mut self.section {
            RunnerSection::Outside => false,
            RunnerSection::Cargo => {
                // The list of names follows directly; test outputs have an empty line before them.
                if line.starts_with("    ") && !line.starts_with("     ") {
                    self.add_name(strip_line(line.trim()));
                    return true;
                }
                self.section = RunnerSection::Outside;
                false
            }
            RunnerSection::Ctest => {
                let listed = line.trim().split_once(" - ");
                let Some((_, rest)) = listed.filter(|(number, _)| is_number(number)) else {
                    self.section = RunnerSection::Outside;
                    return false;
                };
                self.add_name(rest.rsplit_once(" (").map_or(rest, |(name, _)| name));
                true
            }
            RunnerSection::Mocha => match strip_number(line.trim_start()) {
                Some(title) if line.starts_with("  ") => {
                    let title = title.to_owned();
                    self.take_title(&title, "");
                    true
                }
                Some(_) | None => false,
            },
            RunnerSection::MochaName(name) => {
                let name = std::mem::take(name);
                let part = line.trim();
                if part.is_empty() {
                    self.section = RunnerSection::Mocha;
                } else {
                    self.take_title(part, &name);
                }
                true
            }
        }
    }

    /// Processes a part of a mocha title; the last part ends with a colon.
    fn take_title(&mut self, part: &str, before: &str) {
        let name = if before.is_empty() { part.to_owned() } else { format!("{before} {part}") };
        match name.strip_suffix(':') {
            Some(whole) => {
                self.add_name(whole);
                self.section = RunnerSection::Mocha;
            }
            None if name.len() > 4 * LONGEST_NAME => self.section = RunnerSection::Mocha,
            None => self.section = RunnerSection::MochaName(name),
        }
    }

    fn take_cargo(&mut self, line: &str) {
        let rest = line.strip_prefix("test ");
        if let Some(name) = rest.and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.add_name(strip_line(name));
        }
    }

    /// Processes `---- name stdout ----` of cargo and `--- FAIL: Name (0.00s)` of Go.
    fn take_dashes(&mut self, text: &str) {
        if let Some(name) =
            text.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.add_name(strip_line(name));
        } else if let Some(name) = text.strip_prefix("--- FAIL: ")
            && self.package.len() < MOST_NAMES
        {
            self.package.push(strip_time(name).to_owned());
        }
    }

    fn take_failed(&mut self, line: &str, text: &str) {
        if text.starts_with("FAIL [") {
            self.take_nextest(text);
        } else if let Some(rest) = text.strip_prefix("FAILED ") {
            self.add_pytest(rest);
        } else if let Some(rest) = text.strip_prefix("FAIL: ") {
            self.add_unittest(rest);
        } else if let Some(rest) = line.strip_prefix("FAIL\t") {
            let package = rest.split(['\t', ' ']).next().unwrap_or_default();
            if rest.ends_with("[build failed]") || rest.ends_with("[setup failed]") {
                self.add_name(rest);
            }
            self.flush_package(package);
        } else if let Some(rest) = text.strip_prefix("FAIL ") {
            let rest = rest.trim();
            if rest.contains(" > ") || rest.contains(" [ ") {
                self.add_name(rest);
            } else {
                rest.clone_into(&mut self.file);
            }
        } else if let Some(rest) = text.strip_prefix("Failed ")
            && rest.ends_with(']')
            && let Some((name, _)) = rest.rsplit_once(" [")
        {
            self.add_name(name);
        }
    }

    fn take_error(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("ERROR: ") {
            self.add_unittest(rest);
        } else if let Some(rest) = text.strip_prefix("ERROR ") {
            self.add_pytest(rest);
        }
    }

    /// Adds `test_a.py::test_b - why`, or the file alone if it cannot be loaded.
    fn add_pytest(&mut self, rest: &str) {
        let name = rest.split_once(" - ").map_or(rest, |(name, _)| name);
        if name.contains("::") || name.strip_suffix(".py").is_some() {
            self.add_name(name);
        }
    }

    /// Adds `test_x (module.Class.test_x)`.
    fn add_unittest(&mut self, rest: &str) {
        if rest.ends_with(')') && rest.contains(" (") && !rest.contains(": ") {
            self.add_name(rest);
        }
    }

    /// Processes `not ok 3 - name`; tests that are expected to fail or skipped have not failed.
    fn take_tap(&mut self, text: &str) {
        let Some(rest) = text.strip_prefix("not ok ") else {
            return;
        };
        let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
        let directive = directive.to_ascii_uppercase();
        if directive.starts_with("TODO") || directive.starts_with("SKIP") {
            return;
        }
        let name = name.trim_start_matches(|next: char| next.is_ascii_digit()).trim_start();
        self.add_name(name.strip_prefix("- ").unwrap_or(name));
    }

    /// Processes `FAIL [   0.004s] (1/3) crate tests::name` and similar lines.
    fn take_nextest(&mut self, text: &str) {
        let status = text.split(" [").next().unwrap_or_default();
        let is_failure = ["FAIL", "TIMEOUT", "LEAK-FAIL"].contains(&status)
            || status.starts_with("SIG")
            || (status.starts_with("TRY ") && status.ends_with("FAIL"));
        let Some((time, name)) = text.split_once("] ").filter(|_| is_failure) else {
            return;
        };
        if !time.ends_with('s') {
            return;
        }
        let name = name.trim_start();
        let place = name.strip_prefix('(').and_then(|rest| rest.split_once(") "));
        self.add_name(
            place.filter(|(place, _)| place.contains('/')).map_or(name, |(_, name)| name),
        );
    }

    fn take_jest(&mut self, title: &str) {
        let title = title.trim();
        if title.contains(" › ") {
            self.add_name(title);
        } else if title == "Test suite failed to run" && !self.file.is_empty() {
            self.add_name(&format!("{}: {title}", self.file));
        }
    }

    /// Processes `✗ name [12]` of bats and `✖ name (1.2ms)` of node.
    fn take_marked(&mut self, title: &str) {
        let title = strip_time(title.trim());
        let is_summary =
            title.starts_with(|next: char| next.is_ascii_digit()) || title == "failing tests:";
        if !is_summary {
            self.add_name(title);
        }
    }

    /// Processes `1) Class::test` of phpunit, `1) test(Class)` of `JUnit` 4, and `2 failing` of
    /// mocha.
    fn take_numbered(&mut self, text: &str) {
        if let Some(rest) = strip_number(text) {
            let word = rest.split(' ').next().unwrap_or_default();
            let is_junit4 = word.ends_with(')') && word.contains('(') && word == rest;
            if word.contains("::") || is_junit4 {
                self.add_name(rest);
            }
        } else if text
            .split_once(' ')
            .is_some_and(|(count, word)| word == "failing" && is_number(count) && count != "0")
        {
            self.section = RunnerSection::Mocha;
        }
    }

    /// Processes `JUnit Jupiter:CalcTest:adds()` of the console.
    fn take_junit(&mut self, text: &str) {
        if let Some((_, name)) = text.split_once(':') {
            self.add_name(name);
        }
    }

    fn take_bracketed(&mut self, text: &str) {
        if let Some(name) = text.strip_prefix("[  FAILED  ] ") {
            let name = strip_time(name.split_once(',').map_or(name, |(name, _)| name));
            if !name.contains(' ') {
                self.add_name(name);
            }
        } else if let Some(rest) = text.strip_prefix("[ERROR] ") {
            if let Some(name) = parse_surefire(rest) {
                self.add_name(name);
            }
        } else if let Some((worker, rest)) = text.split_once(" FAILED ") {
            // verbose pytest-xdist: `[gw0] [ 50%] FAILED test_a.py::test_b`.
            if worker.starts_with("[gw") {
                self.add_name(rest);
            }
        }
    }

    /// Processes lines that are recognized by their ending: gradle, verbose pytest, old surefire.
    fn take_ending(&mut self, text: &str) {
        if !text.ends_with(['D', ']', '!']) {
            return;
        }
        let text = match text.rfind('[') {
            Some(at) if text.ends_with("%]") => text[..at].trim_end(),
            Some(_) | None => text,
        };
        if let Some(name) = text.strip_suffix(" FAILED") {
            let is_gradle = name.contains(" > ") && !name.starts_with('>');
            if is_gradle || (name.contains("::") && !name.contains(" ... ") && !name.contains(' '))
            {
                self.add_name(name);
            }
        } else if !text.starts_with("[ERROR]")
            && let Some(name) = parse_surefire(text)
        {
            self.add_name(name);
        }
    }

    /// Adds the pending Go tests with their package.
    fn flush_package(&mut self, package: &str) {
        for test in std::mem::take(&mut self.package) {
            if package.is_empty() {
                self.add_name(&test);
            } else {
                self.add_name(&format!("{package}.{test}"));
            }
        }
    }
}

/// Returns the test in a line of surefire that ends in `<<< FAILURE!` or `<<< ERROR!`.
fn parse_surefire(text: &str) -> Option<&str> {
    let rest = text.strip_suffix("<<< FAILURE!").or_else(|| text.strip_suffix("<<< ERROR!"))?;
    let (name, _) = rest.split_once("Time elapsed:")?;
    let name = name.trim_end_matches([' ', '-']);
    (!name.starts_with("Tests run:")).then_some(name)
}

/// Returns the text after `3) `.
fn strip_number(text: &str) -> Option<&str> {
    let (number, rest) = text.split_once(") ")?;
    is_number(number).then_some(rest)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the line number from the name of a doc test, as it changes with edits.
fn strip_line(name: &str) -> &str {
    match name.rsplit_once(" (line ") {
        Some((name, number)) if number.strip_suffix(')').is_some_and(is_number) => name,
        Some(_) | None => name,
    }
}

/// Removes the time after a title: `(0.00s)`, `(in 3 ms)`, `[12]`.
fn strip_time(title: &str) -> &str {
    let open = if title.ends_with(')') { " (" } else { " [" };
    match title.rsplit_once(open) {
        Some((name, time))
            if title.ends_with([')', ']']) && time.contains(|next: char| next.is_ascii_digit()) =>
        {
            name
        }
        Some(_) | None => title,
    }
}

#[cfg(test)]
mod tests;
