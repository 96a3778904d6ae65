//! The hash of a failure: the same for the same failure, whenever and wherever it happens.
//!
//! `volatile` decides which parts of a line are ignored, `noise` which lines.

use ralph_model::stuck::ErrorHash;
use ralph_model::text::BoundedLines;

use super::noise;
use super::volatile::VolatileScrubber;

/// Lines of test runners are rarely longer than a screen; longer ones are split.
const LONGEST_LINE: usize = 4096;

/// The most lines that are deduplicated. They take 256 KB at most.
const MOST_LINES: usize = 16 * 1024;

/// Hashes the output of a failing gate as a stream.
///
/// The lines count as a set: parallel runners print them in any order, and polling programs repeat
/// a line more or less often. After some thousand different lines repetitions count as well, which
/// bounds the memory.
#[derive(Debug, Clone)]
pub struct ErrorHasher {
    gate: u64,
    lines: BoundedLines,
    seen: SeenLines,
}

#[derive(Debug, Clone)]
struct SeenLines {
    scrubber: VolatileScrubber,
    /// The hashes of the lines, until there are too many. Deduplicated from time to time.
    set: Option<Vec<u64>>,
    /// The sum over all lines, repetitions included.
    sum: u64,
    /// A cache from raw lines to scrubbed hashes, indexed by the last bits of the raw hash: long
    /// outputs repeat lines, and scrubbing is expensive.
    recent: Vec<(u64, Option<u64>)>,
}

/// Enough for the lines that a polling program repeats.
const RECENT_LINES: usize = 512;

impl ErrorHasher {
    /// Returns a hasher for a gate's output.
    pub fn new(gate: &str) -> Self {
        Self::for_directory(gate, "")
    }

    /// Returns a hasher that also ignores the path of the project directory.
    pub fn for_directory(gate: &str, directory: &str) -> Self {
        Self {
            gate: hash_text(gate),
            lines: BoundedLines::new(LONGEST_LINE),
            seen: SeenLines {
                scrubber: VolatileScrubber::new(directory),
                set: Some(Vec::new()),
                sum: 0,
                recent: vec![(0, None); RECENT_LINES],
            },
        }
    }

    /// Processes the next chunk of plain text, cut anywhere.
    pub fn feed_text(&mut self, text: &str) {
        let Self { lines, seen, .. } = self;
        lines.feed_text(text, |line| seen.take_line(line));
    }

    /// Returns the hash of everything that was fed.
    pub fn finish_hash(mut self) -> ErrorHash {
        let Self { lines, seen, .. } = &mut self;
        lines.finish_line(|line| seen.take_line(line));
        seen.compact_set();
        let lines = match &self.seen.set {
            Some(set) => set.iter().fold(0_u64, |sum, line| sum.wrapping_add(*line)),
            None => self.seen.sum,
        };
        let whole = mix_bits(self.gate.wrapping_add(mix_bits(lines)));
        ErrorHash(format!("{:08x}", whole >> 32))
    }
}

impl SeenLines {
    fn take_line(&mut self, line: &str) {
        let raw = hash_text(line);
        let slot = usize::try_from(raw % RECENT_LINES as u64).unwrap_or_default();
        let hash = match self.recent[slot] {
            (known, hash) if known == raw => hash,
            (_, _) => {
                let hash = self.hash_scrubbed(line);
                self.recent[slot] = (raw, hash);
                if let (Some(set), Some(hash)) = (&mut self.set, hash) {
                    set.push(hash);
                    if set.len() > 2 * MOST_LINES {
                        self.compact_set();
                    }
                }
                hash
            }
        };
        self.sum = self.sum.wrapping_add(hash.unwrap_or_default());
    }

    /// Deduplicates the set, and drops it if it is still too large.
    fn compact_set(&mut self) {
        if let Some(set) = &mut self.set {
            set.sort_unstable();
            set.dedup();
            if set.len() > MOST_LINES {
                self.set = None;
            }
        }
    }

    /// Returns the hash of the relevant part of a line, if there is one.
    fn hash_scrubbed(&mut self, line: &str) -> Option<u64> {
        let washed = self.scrubber.scrub_line(noise::strip_noise(line)?);
        (!washed.is_empty()).then(|| hash_text(washed))
    }
}

/// Hashes a text, eight bytes at a time. Must not change between versions: hashes are stored in
/// journals and compared after a restart.
fn hash_text(text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ text.len() as u64;
    for word in words {
        hash = mix_bits(hash ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix_bits(hash ^ u64::from_le_bytes(last))
}

/// Spreads each bit over all others: the finalizer of splitmix64.
fn mix_bits(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
