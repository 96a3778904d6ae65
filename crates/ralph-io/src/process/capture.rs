//! Runs a short command, such as git, and keeps what it wrote, up to a bound.
//!
//! Not here: long output. Listen to that piece by piece with `supervise`.

use ralph_core::child::ChildEnd;

use super::course::Heard;
use super::spawn::Spawn;
use super::supervise::{Chunk, supervise};
use super::watch::Watch;

/// What a short command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How it ended.
    pub end: ChildEnd,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
    /// What was not kept.
    pub cut: Cut,
}

/// How many bytes were read but not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    /// Of the standard output.
    pub stdout: u64,
    /// Of the standard error.
    pub stderr: u64,
}

impl Cut {
    /// Returns whether everything was kept.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Runs a command and keeps up to `max_bytes` of each of its two streams.
///
/// All output counts as useful to the idle limit.
pub fn capture(spawn: &Spawn, watch: &Watch, max_bytes: usize) -> Captured {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut cut = Cut::default();
    let end = supervise(spawn, watch, &mut |chunk| {
        match chunk {
            Chunk::Stdout(bytes) => cut.stdout += keep(&mut stdout, bytes, max_bytes),
            Chunk::Stderr(bytes) => cut.stderr += keep(&mut stderr, bytes, max_bytes),
        }
        Heard::Useful
    });
    Captured { end, stdout, stderr, cut }
}

/// Appends what still fits; returns how many bytes did not.
fn keep(kept: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) -> u64 {
    let room = max_bytes.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..room]);
    (bytes.len() - room) as u64
}
