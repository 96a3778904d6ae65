//! Stuck attempts: the tiers of escalation, and how a repeated failure is recognized. Counting
//! failures happens elsewhere.

mod error_line;
mod failing;
mod hash;
mod noise;
mod volatile;

pub use error_line::is_error_line;
pub use failing::FailingChecks;
pub use hash::ErrorHasher;
pub(crate) use noise::strip_noise;
