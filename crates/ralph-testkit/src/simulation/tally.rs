//! Counts what happened in simulated runs, to show that everything was exercised.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// How often each thing happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<Cow<'static, str>, u64>);

impl Tally {
    /// Counts one.
    pub fn count_one(&mut self, what: impl Into<Cow<'static, str>>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// Adds another tally.
    pub fn add_all(&mut self, other: &Self) {
        for (what, many) in &other.0 {
            match self.0.get_mut(what) {
                Some(sum) => *sum += many,
                None => drop(self.0.insert(what.clone(), *many)),
            }
        }
    }

    /// Returns how often something happened.
    pub fn find_count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Returns how often anything of a group happened.
    pub fn sum_group(&self, group: &str) -> u64 {
        let is_in = |what: &str| what.split_once(' ').is_some_and(|(of, _)| of == group);
        self.0.iter().filter(|(what, _)| is_in(what)).map(|(_, many)| many).sum()
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
