//! Files that people and agents write: read tolerantly, told about exactly, changed sparingly.
//!
//! A document is its text. Reading makes a model and remembers where things stand; a change
//! replaces the bytes it is about and no others, so that field order, numbers, indentation and
//! whatever else a file holds survive. Not here: what the model means, which is the core's.

mod dialect;
pub mod json_text;
mod problem;
mod task_editor;
mod task_file;
mod task_reader;

pub use dialect::Dialect;
pub use problem::FileProblem;
pub use task_file::{TaskFile, WriteError};
