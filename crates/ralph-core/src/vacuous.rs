//! Vacuous green: a test run that passes because it ran no test.
//!
//! Not here: what follows from it, which is the gate's affair.

use crate::text::Lines;

/// What output says of how many tests ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestsSeen {
    /// Some line says that tests ran.
    Ran,
    /// Lines say that no test ran, and none that one did.
    NoneRan {
        /// The first of them.
        line: String,
    },
    /// Nothing is said of it.
    Unknown,
}

/// Looks for the summaries of the usual test runners in output as it comes.
#[derive(Debug, Clone)]
pub struct TestCount {
    lines: Lines,
    seen: TestsSeen,
}

impl Default for TestCount {
    fn default() -> Self {
        Self { lines: Lines::new(4096), seen: TestsSeen::Unknown }
    }
}

impl TestCount {
    /// Takes in the next piece of plain text, cut anywhere.
    pub fn feed(&mut self, text: &str) {
        let Self { lines, seen } = self;
        lines.feed(text, |line| {
            if line == "running 0 tests" && *seen == TestsSeen::Unknown {
                *seen = TestsSeen::NoneRan { line: line.to_owned() };
            } else if line.starts_with("running ") && line != "running 0 tests" {
                *seen = TestsSeen::Ran;
            }
        });
    }

    /// Returns what was seen, a last line without its end included.
    pub fn seen(&self) -> TestsSeen {
        self.seen.clone()
    }
}
