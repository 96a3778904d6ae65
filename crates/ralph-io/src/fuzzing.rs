//! Private parsers of this crate, for the fuzz targets of the binary: each reads bytes, and panics
//! if an invariant is broken.
//!
//! For tests only: ralph itself never calls these functions, and the linker drops them.

use crate::{git, process, sandbox, store};

/// Parses output of git: raw changes, file states, and patches, truncated anywhere.
pub fn fuzz_git_output(bytes: &[u8]) {
    git::fuzz(bytes);
}

/// Parses a line of the kernel's process table.
pub fn fuzz_kernel_tables(bytes: &[u8]) {
    process::fuzz(bytes);
}

/// Parses the head of a request to the proxy. Panics unless exactly one request is forwarded, to
/// the checked host.
pub fn fuzz_proxy_request(bytes: &[u8]) {
    sandbox::proxy::fuzz_request(bytes);
}

/// Parses the lines of a knowledge graph and writes them again. Returns how many were damaged.
pub fn fuzz_graph_lines(bytes: &[u8]) -> usize {
    store::graph::fuzz(bytes)
}
