//! The names of failing checks, as the usual test runners print them.
//!
//! Not here: why they fail.

use std::collections::BTreeSet;

use crate::text::Lines;

/// Finds the names of failing checks in output as it comes. Unknown runners give none.
#[derive(Debug, Clone)]
pub struct FailingChecks {
    lines: Lines,
    names: BTreeSet<String>,
}

impl Default for FailingChecks {
    fn default() -> Self {
        Self { lines: Lines::new(4096), names: BTreeSet::new() }
    }
}

impl FailingChecks {
    /// Takes in the next piece of plain text, cut anywhere.
    pub fn feed(&mut self, text: &str) {
        let Self { lines, names } = self;
        lines.feed(text, |line| {
            if let Some(name) =
                line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
            {
                names.insert(name.to_owned());
            }
        });
    }

    /// Returns the names: sorted, each once, at most 100 of at most 200 characters.
    pub fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }
}
