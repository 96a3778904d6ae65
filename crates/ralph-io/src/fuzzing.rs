//! Private parsers of this crate, for the fuzz targets of the binary: each reads bytes, and panics
//! where something does not hold.
//!
//! A door for tests: nothing of ralph's own calls it, and the linker leaves it out.

use crate::{git, process, sandbox, store};

/// Reads what git prints: raw changes, states of files, and patches, however these are cut.
pub fn git_output(bytes: &[u8]) {
    git::fuzz(bytes);
}

/// Reads a line of the kernel's table of processes.
pub fn kernel_tables(bytes: &[u8]) {
    process::fuzz(bytes);
}

/// Reads the head of a request to the proxy. What is passed on is one request, to whom was judged.
pub fn proxy_request(bytes: &[u8]) {
    sandbox::proxy::fuzz(bytes);
}

/// Reads the lines of a knowledge graph and writes them again. Returns how many were damaged.
pub fn graph_lines(bytes: &[u8]) -> usize {
    store::graph::fuzz(bytes)
}
