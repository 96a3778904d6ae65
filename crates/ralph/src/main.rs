//! The `ralph` binary.
#![expect(dead_code, reason = "the command line that calls the settings comes later")]

mod settings;

fn main() {}
