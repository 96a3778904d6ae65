//! How many characters a token has, as far as this run knows.
//!
//! Four to begin with. No tokenizer is shipped: each model has its own, of many megabytes, and
//! the sections of a prompt need no more than an estimate. Agents say how many tokens they read,
//! but most read far more than the prompt: their own instructions, files, the output of tools.
//! Only a call that plainly read little else says something about the prompt. The first request of
//! one with tools does not: what it holds beside the prompt is larger than the prompt, and another
//! amount in each iteration, so that not even the difference of two tells the ratio.

use serde::{Deserialize, Serialize};

use crate::reading::Reply;
use crate::units::Tokens;

/// Thousandths of a character per token: prose and code of most models.
const USUAL: u32 = 4_000;

/// What a tokenizer can plausibly do, in thousandths: Chinese prose at one end, long plain words
/// at the other. Whatever lies outside was not the prompt alone.
const LEAST: u32 = 2_000;
const MOST: u32 = 8_000;

/// A shorter prompt is lost in what every agent adds to it.
const SHORTEST_PROMPT: u64 = 2_000;

/// A new sample counts for one part in this many, so that one odd call does not turn the rest.
const INERTIA: u32 = 4;

/// The running ratio of characters to tokens. Small, so that the state can hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Thousandths of a character per token.
    milli_chars: u32,
    /// The length of the prompt whose reply is awaited.
    asked: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { milli_chars: USUAL, asked: 0 }
    }
}

impl Calibration {
    /// Notes that a prompt goes out.
    pub fn ask(&mut self, prompt_chars: usize) {
        self.asked = prompt_chars as u64;
    }

    /// Learns from the reply to the prompt that went out, if it says something plausible.
    pub fn hear(&mut self, reply: &Reply) {
        let asked = std::mem::take(&mut self.asked);
        // A tool's output is read like the prompt; a call that failed may not have read all of it.
        if asked < SHORTEST_PROMPT || reply.tools > 0 || reply.failure.is_some() {
            return;
        }
        let usage = reply.usage;
        let read = usage.input.plus(usage.cache_read).plus(usage.cache_write).0;
        let Some(sample) = asked.saturating_mul(1_000).checked_div(read) else { return };
        if let Ok(sample) = u32::try_from(sample)
            && (LEAST..=MOST).contains(&sample)
        {
            self.milli_chars = (self.ratio() * (INERTIA - 1) + sample) / INERTIA;
        }
    }

    /// Returns about how many tokens a text of this many characters has, rounded up.
    pub fn tokens(self, chars: usize) -> Tokens {
        let thousandths = (chars as u64).saturating_mul(1_000);
        Tokens(thousandths.div_ceil(u64::from(self.ratio())))
    }

    /// Returns how many characters these tokens have room for.
    pub fn chars(self, tokens: Tokens) -> usize {
        let chars = tokens.0.saturating_mul(u64::from(self.ratio())) / 1_000;
        usize::try_from(chars).unwrap_or(usize::MAX)
    }

    /// Whatever a journal holds, the ratio stays within its bounds.
    fn ratio(self) -> u32 {
        self.milli_chars.clamp(LEAST, MOST)
    }
}
