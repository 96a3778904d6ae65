//! How often tests repeat what is random or long.
//!
//! `./check` sets `RALPH_TEST_QUICK`, `./check --all` does not. Not here: tests that only `--all` runs.

use std::env;

/// Returns whether only a part of the repetitions is wanted.
pub fn is_quick() -> bool {
    env::var_os("RALPH_TEST_QUICK").is_some()
}

/// Returns one number for `./check --all`, and another for `./check`.
pub fn choose_count(all: usize, quick: usize) -> usize {
    if is_quick() { quick } else { all }
}
