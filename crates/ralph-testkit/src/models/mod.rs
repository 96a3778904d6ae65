//! Stand-ins for the servers behind real agent CLIs: scripted, on loopback only, without network
//! and without a login.
//!
//! Not here: how a CLI is pointed at one; the test of the CLI does that.

mod anthropic;
mod gemini;
mod http;
mod openai;
mod server;
mod strict;
mod turn;

pub use server::{Asked, Dialect, ModelServer, Schemas};
pub use strict::refuse_strict_schema;
pub use turn::{Answer, Refusal, ToolUse, Turn};
