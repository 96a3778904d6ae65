//! Counts what was refused, for the run's record.
//!
//! Not here: the decision to refuse.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ralph_core::sandbox::reach::{Reason, Refusal};

/// How many different refusals are kept. A child that causes more is scanning.
const MOST: usize = 500;

/// The entry that counts all further ones.
const FURTHER: &str = "(further hosts)";

/// Real host names are shorter; a longer one must not fill the record.
const LONGEST: usize = 300;

/// What was refused since the last call of [`Self::drain`].
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<(String, u16, Reason), u64>>);

impl Refusals {
    pub(super) fn note(&self, host: &str, port: u16, reason: &Reason) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let host: String = host.chars().take(LONGEST).collect();
        let mut key = (host, port, reason.clone());
        if kept.len() >= MOST && !kept.contains_key(&key) {
            key = (FURTHER.to_owned(), 0, Reason::NotListed);
        }
        *kept.entry(key).or_default() += 1;
    }

    pub(super) fn drain(&self) -> Vec<Refusal> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
            .into_iter()
            .map(|((host, port, reason), times)| Refusal { host, port, reason, times })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_names_is_counted_and_not_kept() {
        let refusals = Refusals::default();
        for number in 0..2000 {
            refusals.note(&format!("{number:04}.example"), 443, &Reason::NotListed);
            refusals.note("0000.example", 443, &Reason::NotListed);
        }
        let drained = refusals.drain();
        assert_eq!(drained.len(), MOST + 1);
        assert_eq!(drained.iter().map(|it| it.times).sum::<u64>(), 4000);
        assert_eq!((drained[0].host.as_str(), drained[0].times), (FURTHER, 1500));
        assert_eq!((drained[1].host.as_str(), drained[1].times), ("0000.example", 2001));
        assert_eq!(refusals.drain(), Vec::new());
    }
}
