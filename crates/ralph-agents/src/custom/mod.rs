//! Any command that prints JSON lines, read with filters from the settings.
//!
//! Prompt and exit are handled as for plain text; only stdout is read with the filters. Not here:
//! guessing at formats without filters.

mod filter;
mod parse;
mod translate;

pub use parse::FilterError;
pub(super) use translate::ADAPTER;

/// Checks a filter without using it.
pub fn check_filter(text: &str) -> Result<(), FilterError> {
    parse::parse(text).map(|_| ())
}

#[cfg(test)]
mod tests;
