//! Tests of the engine in a scripted world, and of whole processes through binaries of this
//! crate.

mod engine;
mod process;
