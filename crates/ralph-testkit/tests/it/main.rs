//! Tests of whole processes, each through a binary of this crate.

mod process;
