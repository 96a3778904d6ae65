//! Estimates how many characters a token has, from what this run has observed.
//!
//! Starts at four. No tokenizer is shipped: each model has its own, of many megabytes, and the
//! sections of a prompt need no more than an estimate. Agents report how many tokens they read,
//! but most read far more than the prompt: their own instructions, files, the output of tools.
//! Only a call that read little else is a usable sample. The first request of a call with tools
//! is not one: the rest of it is larger than the prompt and differs in each iteration, so not
//! even the difference of two requests gives the ratio.

use serde::{Deserialize, Serialize};

use crate::agent_output::Reply;
use crate::units::Tokens;

/// Thousandths of a character per token: prose and code of most models.
const USUAL: u32 = 4_000;

/// Plausible bounds for a tokenizer, in thousandths: Chinese prose at one end, long plain words
/// at the other. A sample outside them did not consist of the prompt alone.
const LEAST: u32 = 2_000;
const MOST: u32 = 8_000;

/// A shorter prompt is too small compared to what every agent adds to it.
const SHORTEST_PROMPT: u64 = 2_000;

/// Weight of a new sample is one part in this many, so that one outlier changes little.
const INERTIA: u32 = 4;

/// The running ratio of characters to tokens. Small, because it is part of the run state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Thousandths of a character per token.
    milli_chars: u32,
    /// The length of the prompt whose reply is awaited.
    prompt_chars: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { milli_chars: USUAL, prompt_chars: 0 }
    }
}

impl Calibration {
    /// Records the length of the prompt that is sent.
    pub fn record_prompt(&mut self, prompt_chars: usize) {
        self.prompt_chars = prompt_chars as u64;
    }

    /// Updates the ratio from the reply to the last prompt, if its figures are plausible.
    pub fn learn_from_reply(&mut self, reply: &Reply) {
        let asked = std::mem::take(&mut self.prompt_chars);
        // A tool's output is counted like the prompt; a failed call may not have read all of it.
        if asked < SHORTEST_PROMPT || reply.tools > 0 || reply.failure.is_some() {
            return;
        }
        let usage = reply.usage;
        let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write).0;
        let Some(sample) = asked.saturating_mul(1_000).checked_div(read) else { return };
        if let Ok(sample) = u32::try_from(sample)
            && (LEAST..=MOST).contains(&sample)
        {
            self.milli_chars = (self.ratio() * (INERTIA - 1) + sample) / INERTIA;
        }
    }

    /// Returns the estimated tokens of a text of this many characters, rounded up.
    pub fn estimate_tokens(self, chars: usize) -> Tokens {
        let thousandths = (chars as u64).saturating_mul(1_000);
        Tokens(thousandths.div_ceil(u64::from(self.ratio())))
    }

    /// Returns how many characters fit into these tokens.
    pub fn estimate_chars(self, tokens: Tokens) -> usize {
        let chars = tokens.0.saturating_mul(u64::from(self.ratio())) / 1_000;
        usize::try_from(chars).unwrap_or(usize::MAX)
    }

    /// Returns the ratio, clamped to its bounds in case the journal holds another value.
    fn ratio(self) -> u32 {
        self.milli_chars.clamp(LEAST, MOST)
    }
}
