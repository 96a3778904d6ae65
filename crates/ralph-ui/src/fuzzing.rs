//! Entry points for the fuzz targets of the binary: each feeds bytes to a private parser of this
//! crate and panics if an invariant does not hold.
//!
//! For tests only: no product code calls it, and the linker drops it.

use crate::{serve, tui};

/// Parses an HTTP request and checks its admission.
pub fn request(bytes: &[u8]) {
    serve::fuzz(bytes);
}

/// Parses terminal input, split at arbitrary places.
pub fn keys(bytes: &[u8]) {
    tui::fuzz(bytes);
}
