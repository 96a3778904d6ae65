//! Files that people and agents write: read tolerantly, reported exactly, changed minimally.
//!
//! A document is its text. Reading makes a model and remembers where values are; a change replaces
//! only the bytes that it affects, so that field order, numbers, indentation and unknown fields
//! survive. Not here: what the model means, which is decided in the core.

mod dialect;
pub mod json_text;
mod problem;
mod task_editor;
mod task_file;
mod task_reader;

pub use dialect::ListDialect;
pub use problem::FileProblem;
pub use task_file::{TaskFile, WriteError};
