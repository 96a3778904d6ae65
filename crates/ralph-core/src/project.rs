//! Projects: detecting their tools, and importing loops made for other programs.

pub mod detection;
pub mod import_loops;
