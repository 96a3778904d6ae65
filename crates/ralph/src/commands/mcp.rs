//! `ralph mcp memory`: the knowledge graph as an MCP server on stdin and stdout.
//!
//! Starts its own single-threaded async runtime, because the protocol's SDK needs one. Not here: the
//! rules of the graph, which are in the core, and its file, which is in the store.

mod schema;
mod server;
mod tools;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_io::mask::Masker;
use ralph_io::store::graph::{GraphFile, GraphNotice};
use ralph_io::store::layout::PROJECT_DIRECTORY;
use ralph_model::outcome::ExitStatus;
use rmcp::ServiceExt as _;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;

use self::server::MemoryServer;
use crate::screen;

/// Names another file; the same variable as of the npm package server-memory.
const FILE_VARIABLE: &str = "MEMORY_FILE_PATH";

/// The transport drops longer messages without an answer; real ones are shorter.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Serves the graph of a project until the client disconnects.
pub(crate) fn serve_memory(project: &Path, file: Option<&OsStr>) -> ExitCode {
    let path = match find_graph_path(project, file) {
        Ok(path) => path,
        Err(error) => {
            return print_failure(&format!("cannot find the place of the memory: {error}"));
        }
    };
    let runtime =
        match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return print_failure(&format!("the memory server cannot start: {error}"));
            }
        };
    let served = runtime
        .block_on(serve_client(MemoryServer::new(GraphFile::new(path), build_environment_masker)));
    // A thread may still wait for a client that sends nothing more.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => print_failure(&message),
    }
}

/// Returns the path of the graph file: from the flag, or else the environment, or else in `.ralph`.
pub(super) fn find_graph_path(project: &Path, flag: Option<&OsStr>) -> std::io::Result<PathBuf> {
    let project = std::path::absolute(project)?;
    let named = flag.map(OsStr::to_owned).or_else(|| std::env::var_os(FILE_VARIABLE));
    Ok(match named.filter(|name| !name.is_empty()) {
        Some(name) => project.join(name),
        None => project.join(PROJECT_DIRECTORY).join("memory.jsonl"),
    })
}

/// Returns a masker for the secrets of the environment. Others are recognized by their shape only.
fn build_environment_masker() -> Masker {
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    Masker::from_environment(env.iter().map(|(name, value)| (name, value)), [])
}

/// Makes the calls in some bytes, one per line, for fuzzing.
#[cfg(test)]
pub(crate) fn fuzz_calls(file: &Path, lines: &[u8]) {
    #[derive(serde::Deserialize)]
    struct FuzzedCall {
        name: String,
        #[serde(default)]
        arguments: serde_json::Map<String, serde_json::Value>,
    }
    let (mut file, masker) = (GraphFile::new(file), Masker::default());
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(FuzzedCall { name, arguments }) = serde_json::from_slice(line) else { continue };
        match tools::call_tool(&mut file, &masker, &name, arguments) {
            Ok(reply) => {
                let text: serde_json::Value =
                    serde_json::from_str(&reply.text).unwrap_or_else(|_| reply.text.clone().into());
                assert!(
                    text.is_string() || reply.structured.is_object(),
                    "one answer in two forms"
                );
            }
            Err(words) => assert!(!words.is_empty(), "an error says why"),
        }
    }
}

/// Prints warnings about the file.
pub(super) fn print_notices(notices: Vec<GraphNotice>) {
    for notice in notices {
        screen::print_warning(&match notice {
            GraphNotice::Damaged { path, count: 1, first } => {
                format!("line {first} of `{}` cannot be read and is skipped", path.display())
            }
            GraphNotice::Damaged { path, count, first } => format!(
                "{count} lines of `{}` cannot be read and are skipped, line {first} is the first",
                path.display()
            ),
            GraphNotice::PutAside { path } => {
                format!("what could not be read is kept in `{}`", path.display())
            }
        });
    }
}

async fn serve_client(server: MemoryServer) -> Result<(), String> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let transport =
        AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE_BYTES);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // The client disconnected before its first message.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(format!("the client does not speak MCP: {error}")),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => {
            Err(format!("the memory server failed: {error}"))
        }
        Ok(_) => Ok(()),
    }
}

fn print_failure(message: &str) -> ExitCode {
    screen::print_line(&format!(
        "ralph mcp memory: {}",
        ralph_ui::sanitize::sanitize_line(message, 500, "…")
    ));
    ExitStatus::BadInput.code().into()
}
