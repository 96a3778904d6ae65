//! Stand-ins for the servers behind real agent CLIs: scripted, on loopback only, without network
//! and without a login.
//!
//! Not here: how a CLI is pointed at one; the test of the CLI does that.

mod anthropic;
mod gemini;
pub(crate) mod http;
mod openai;
mod server;
mod strict;
mod turn;

pub use server::{ModelDialect, ModelRequest, ModelServer, SchemaTreatment};
pub use strict::check_strict_schema;
pub use turn::{ModelAnswer, ModelRefusal, ModelToolUse, ModelTurn, TOKEN};
