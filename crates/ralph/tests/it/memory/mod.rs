//! The memory server and its commands for users, through the built binary.

mod client;
mod people;
mod reference;
mod server;

use std::process::Stdio;

use ralph_testkit::sealed::Sealed;

use self::client::Client;

/// Where the graph of a project is.
const FILE: &str = ".ralph/memory.jsonl";

/// Starts our server in a project.
fn serve(sealed: &Sealed) -> Client {
    serve_with(sealed, &[], Stdio::inherit())
}

/// Starts our server with further arguments.
fn serve_with(sealed: &Sealed, words: &[&str], stderr: Stdio) -> Client {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["mcp", "memory"]).args(words);
    Client::start(command, stderr)
}
