//! Settings: every layer, how layers merge, and every mistake in them at once.

mod locate;
mod nearest;
mod path;
mod problem;
mod schema;
mod shape;
pub(crate) mod types;
