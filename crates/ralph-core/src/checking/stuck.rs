//! How a repeated failure is recognized: its hash, and the names of failing tests.
//!
//! Not here: counting failures, and the escalation that follows.

mod error_line;
mod failing;
mod hash;
mod noise;
mod script_runner;
mod volatile;

pub use error_line::is_error_line;
pub use failing::FailingChecks;
pub use hash::ErrorHasher;
pub(crate) use noise::strip_noise;
pub(crate) use script_runner::mark_runner_lines;
pub use script_runner::skip_script_header;
