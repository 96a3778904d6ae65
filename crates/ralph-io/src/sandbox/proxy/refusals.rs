//! Counts what was refused, for the run's record.
//!
//! Not here: the decision to refuse.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ralph_core::sandbox::allowlist::{ConnectionRefusal, RefusalReason};

/// How many different refusals are kept. A child that causes more is scanning.
const MAX_ENTRIES: usize = 500;

/// The entry that counts all further ones.
const FURTHER_HOSTS: &str = "(further hosts)";

/// Real host names are shorter; a longer one must not fill the record.
const MAX_HOST_LENGTH: usize = 300;

/// What was refused since the last call of [`Self::drain`].
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<(String, u16, RefusalReason), u64>>);

impl Refusals {
    pub(super) fn record(&self, host: &str, port: u16, reason: &RefusalReason) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let host: String = host.chars().take(MAX_HOST_LENGTH).collect();
        let mut key = (host, port, reason.clone());
        if kept.len() >= MAX_ENTRIES && !kept.contains_key(&key) {
            key = (FURTHER_HOSTS.to_owned(), 0, RefusalReason::NotListed);
        }
        *kept.entry(key).or_default() += 1;
    }

    pub(super) fn drain(&self) -> Vec<ConnectionRefusal> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
            .into_iter()
            .map(|((host, port, reason), times)| ConnectionRefusal { host, port, reason, times })
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
            refusals.record(&format!("{number:04}.example"), 443, &RefusalReason::NotListed);
            refusals.record("0000.example", 443, &RefusalReason::NotListed);
        }
        let drained = refusals.drain();
        assert_eq!(drained.len(), MAX_ENTRIES + 1);
        assert_eq!(drained.iter().map(|it| it.times).sum::<u64>(), 4000);
        assert_eq!((drained[0].host.as_str(), drained[0].times), (FURTHER_HOSTS, 1500));
        assert_eq!((drained[1].host.as_str(), drained[1].times), ("0000.example", 2001));
        assert_eq!(refusals.drain(), Vec::new());
    }
}
