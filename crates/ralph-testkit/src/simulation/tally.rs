//! Counting what happened in simulated runs, so that one sees that nothing is dead.

use std::collections::BTreeMap;
use std::fmt;

/// How often each thing happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Counts one.
    pub fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        for (what, many) in &other.0 {
            *self.0.entry(what.clone()).or_default() += many;
        }
    }

    /// Returns how often something happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// One line for each group: `ends: complete 12, interrupted 3`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (what, many) in &self.0 {
            let (group, name) = what.split_once(' ').unwrap_or(("other", what));
            groups.entry(group).or_default().push(format!("{name} {many}"));
        }
        for (group, counts) in groups {
            writeln!(f, "{group}: {}", counts.join(", "))?;
        }
        Ok(())
    }
}
