//! What the system says of a terminal.
//!
//! Not here: anything that is printed.

use std::os::fd::AsFd;

/// Returns the columns of the terminal behind a stream, if it is one.
pub fn columns(stream: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col))
}

/// Returns the lines of the terminal behind a stream, if it is one.
pub fn rows(stream: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_row))
}
