//! Random numbers from a seed, so that a failure can be reproduced.

use std::time::Duration;

/// A generator: `SplitMix64`.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to less than `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end.max(1)).expect("64 bits");
        usize::try_from((mixed ^ (mixed >> 31)) % end).expect("less than it was")
    }

    /// Returns a part of a span.
    pub(super) fn within(&mut self, span: Duration) -> Duration {
        let micros = usize::try_from(span.as_micros()).expect("a short span");
        Duration::from_micros(self.below(micros) as u64)
    }
}
