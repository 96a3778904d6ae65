//! The command line of the knowledge graph: for users, and for the server that agents start.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// The file with the graph [default: `MEMORY_FILE_PATH`, or else .ralph/memory.jsonl].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) file: Option<OsString>,
    /// What to do; `show` by default.
    #[command(subcommand)]
    pub(crate) command: Option<MemoryCommand>,
}

/// What `memory` can do.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MemoryCommand {
    /// List everything that is remembered.
    Show,
    /// List what has all of these words in its name, type or observations.
    Search {
        /// The words; case does not matter.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Print the graph as JSON, or write it as a page or a chart.
    Export(ExportArgs),
}

/// Options of `memory export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Print the graph as JSON; this is the default.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with a list; it needs nothing but a browser; - is stdout.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,
    /// Write a Mermaid flowchart; - is stdout.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) mermaid: Option<PathBuf>,
}

/// Options of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// What is served.
    #[command(subcommand)]
    pub(crate) server: McpServerChoice,
}

/// A server that agents can start.
#[derive(Debug, Subcommand)]
pub(crate) enum McpServerChoice {
    /// The memory: the nine tools that agents know of the npm package server-memory.
    Memory {
        /// The file with the graph [default: `MEMORY_FILE_PATH`, or else .ralph/memory.jsonl].
        #[arg(long, value_name = "FILE")]
        file: Option<OsString>,
    },
}
