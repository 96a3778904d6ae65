//! The closed set of adapters: one place that knows which file knows an agent.
//!
//! Not here: anything about a single agent.

use std::path::Path;

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::{AgentKind, AgentOutput};

use super::call::{Call, CallContext};
use super::claude;
use super::sim::{self, SimTranslator};
use super::text::{self, TextTranslator};
use super::translator::{Dialect, Translator};

/// Knows one agent CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adapter {
    /// Claude Code.
    Claude,
    /// Any command: prompt in, text out.
    Text,
    /// The built-in scripted agent.
    Sim,
}

impl From<AgentKind> for Adapter {
    fn from(kind: AgentKind) -> Self {
        match kind {
            AgentKind::Claude => Self::Claude,
            AgentKind::Text => Self::Text,
            AgentKind::Sim => Self::Sim,
        }
    }
}

impl Adapter {
    /// Returns how to call the agent for a request.
    ///
    /// The failure is a prompt that does not fit into an argument where the flags want it.
    pub fn call(self, request: &Request, context: &CallContext) -> Result<Call, Failure> {
        match self {
            Self::Claude => claude::call(request, context),
            Self::Text => text::call(request, context),
            Self::Sim => sim::call(request, context),
        }
    }

    /// Returns a translator for the output of one call. Fed with the same lines again, such as
    /// those of a stored stream, a fresh one gives the same events and the same judgement.
    pub fn translator(self, request: &Request) -> Translator {
        Translator(match (self, claude::output(request)) {
            (Self::Claude, AgentOutput::Events) => Dialect::Claude(Box::default()),
            (Self::Claude, AgentOutput::Text) => Dialect::ClaudeText(TextTranslator::new(request)),
            (Self::Text, _) => Dialect::Text(TextTranslator::new(request)),
            (Self::Sim, _) => Dialect::Sim(SimTranslator),
        })
    }
}

/// Infers the adapter from a command's file name; an unknown command is plain text.
pub fn kind_of(command: &str) -> AgentKind {
    let stem = Path::new(command).file_stem().unwrap_or_default();
    match stem.to_string_lossy().to_ascii_lowercase().as_str() {
        "claude" => AgentKind::Claude,
        "sim" => AgentKind::Sim,
        _ => AgentKind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_follows_from_the_file_name() {
        for (command, kind) in [
            ("claude", AgentKind::Claude),
            ("/opt/bin/claude", AgentKind::Claude),
            ("./Claude.exe", AgentKind::Claude),
            ("sim", AgentKind::Sim),
            ("claude-wrapper", AgentKind::Text),
            ("aider", AgentKind::Text),
            ("", AgentKind::Text),
        ] {
            assert_eq!(kind_of(command), kind, "{command:?}");
        }
    }
}
