//! Which lines of a gate's output say nothing of a failure.
//!
//! Not here: what changes within a line.

/// Whether a line bears on a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bearing {
    /// It is a part of it.
    Some,
    /// It is progress, a check that passed, or empty.
    None,
}

/// Returns whether a line bears on a failure.
pub(super) fn bearing(line: &str) -> Bearing {
    if line.trim().is_empty() { Bearing::None } else { Bearing::Some }
}
