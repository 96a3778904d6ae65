//! Private parsers of this crate, for the fuzz targets of the binary: each reads bytes, and panics
//! if an invariant is broken.
//!
//! For tests only: ralph itself never calls these functions, and the linker drops them.

use crate::{git, process, sandbox, store};

/// Parses output of git: raw changes, file states, and patches, truncated anywhere.
pub fn git_output(bytes: &[u8]) {
    git::fuzz(bytes);
}

/// Parses a line of the kernel's process table.
pub fn kernel_tables(bytes: &[u8]) {
    process::fuzz(bytes);
}

/// Parses the head of a request to the proxy. Panics unless exactly one request is forwarded, to
/// the checked host.
pub fn proxy_request(bytes: &[u8]) {
    sandbox::proxy::fuzz(bytes);
}

/// Parses the lines of a knowledge graph and writes them again. Returns how many were damaged.
pub fn graph_lines(bytes: &[u8]) -> usize {
    store::graph::fuzz(bytes)
}
