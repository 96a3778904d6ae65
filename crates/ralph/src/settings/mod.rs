//! Settings: every mistake in them at once.

mod check;
mod locate;
mod masked;
mod nearest;
mod path;
mod problem;
mod schema;
mod sense;
mod shape;
pub(crate) mod types;
mod words;
