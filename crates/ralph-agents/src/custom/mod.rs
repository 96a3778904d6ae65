//! Any command that prints JSON lines, read with filters from the settings.
//!
//! Prompt and exit are handled as for plain text; only stdout is read with the filters. Not here:
//! guessing at formats without filters.

mod filter;
mod translate;

pub use filter::FilterError;
pub(super) use translate::ADAPTER;

/// Checks a filter without using it.
pub fn check_filter(text: &str) -> Result<(), FilterError> {
    filter::Filter::compile(text).map(|_| ())
}

#[cfg(test)]
mod tests;
