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

/// What a command's file name says about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedKind {
    /// There is an adapter for it.
    Known(AgentKind),
    /// It is known, but an adapter for it is still to come; as plain text it would wait for a
    /// person at a terminal.
    Later(&'static str),
}

/// Agents whose own interface needs an adapter that is still to come.
const LATER: [&str; 8] = ["codex", "amp", "cline", "gemini", "opencode", "copilot", "qwen", "pi"];

/// Infers the adapter from a command's file name; an unknown command is plain text.
pub fn named_kind(command: &str) -> NamedKind {
    let stem = Path::new(command).file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().to_ascii_lowercase();
    match LATER.into_iter().find(|later| *later == name) {
        Some(later) => NamedKind::Later(later),
        None => NamedKind::Known(match name.as_str() {
            "claude" => AgentKind::Claude,
            "sim" => AgentKind::Sim,
            _ => AgentKind::Text,
        }),
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
            assert_eq!(named_kind(command), NamedKind::Known(kind), "{command:?}");
        }
        assert_eq!(named_kind("/usr/bin/codex"), NamedKind::Later("codex"));
    }
}
