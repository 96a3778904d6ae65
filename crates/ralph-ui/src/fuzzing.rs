//! Private parsers of this crate, for the fuzz targets of the binary: each reads bytes, and panics
//! where something does not hold.
//!
//! A door for tests: nothing of ralph's own calls it, and the linker leaves it out.

use crate::{serve, tui};

/// Reads a request of a browser's, and decides who may ask.
pub fn request(bytes: &[u8]) {
    serve::fuzz(bytes);
}

/// Reads what a terminal sends, however it is cut.
pub fn keys(bytes: &[u8]) {
    tui::fuzz(bytes);
}
