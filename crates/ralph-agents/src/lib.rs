//! Agent CLIs: how ralph calls each one, how its lines become common events, how its end is
//! judged.
//!
//! Everything here is pure. Not here: starting processes, reading pipes, writing files. The caller
//! of [`build_call`] and [`create_translator`] does that.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "recorded streams are files"))]

mod acp;
mod adapter;
mod advice;
mod amp;
mod belongings;
mod call;
mod capabilities;
mod claude;
mod cline;
mod codex;
pub mod configuration;
mod copilot;
mod custom;
mod ending;
mod error_words;
mod fields;
mod gemini;
mod json_events;
mod last_words;
pub mod limit_words;
mod login;
mod mcp;
mod opencode;
mod own_calls;
mod pi;
mod pieces;
mod qwen;
#[doc(hidden)]
pub mod rehearsal;
mod retired;
mod sim;
#[cfg(test)]
mod tests;
mod text;
mod translator;
mod turn;
mod usage_error;

pub use adapter::{
    answer_file, call, imposed, judge, kind_of, schema_text, takes_hooks, takes_plugin, talk,
    translator,
};
pub use advice::{billing_warning, install_hint};
pub use belongings::{Belongings, Credential, Place, Returned, belongings, program_kind};
pub use call::{
    Call, CallContext, IdleWatch, Privilege, SystemPrompt, Talk, Walls, only_choose_model,
};
pub use capabilities::{capabilities, oldest, oldest_with_plugin};
pub use claude::manage as claude_plugins;
pub use custom::{FilterError, check_filter};
pub use login::{Login, login};
pub use mcp::{McpError, McpServer, McpTransport, mcp_servers};
pub use own_calls::{asking_for_text, told_apart, without_call};
pub use retired::version_warnings;
pub use translator::{Answer, Evidence, Heard, Input, Shown, Told, Translator, Weight};
