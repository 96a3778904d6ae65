//! The closed set of adapters: one place that knows which file knows an agent.
//!
//! Not here: anything about a single agent.

use std::path::Path;

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::{AgentKind, AgentOutput};

use super::call::{Call, CallContext};
use super::sim::{self, SimTranslator};
use super::text::{self, TextTranslator};
use super::translator::{Dialect, Translator};
use super::{amp, claude, cline, codex, copilot, gemini, opencode, pi, qwen};

/// Knows one agent CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adapter {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Amp.
    Amp,
    /// Cline.
    Cline,
    /// Gemini CLI.
    Gemini,
    /// `OpenCode`.
    Opencode,
    /// GitHub Copilot CLI.
    Copilot,
    /// Qwen Code.
    Qwen,
    /// pi.
    Pi,
    /// Any command: prompt in, text out.
    Text,
    /// The built-in scripted agent.
    Sim,
}

impl From<AgentKind> for Adapter {
    fn from(kind: AgentKind) -> Self {
        match kind {
            AgentKind::Claude => Self::Claude,
            AgentKind::Codex => Self::Codex,
            AgentKind::Amp => Self::Amp,
            AgentKind::Cline => Self::Cline,
            AgentKind::Gemini => Self::Gemini,
            AgentKind::Opencode => Self::Opencode,
            AgentKind::Copilot => Self::Copilot,
            AgentKind::Qwen => Self::Qwen,
            AgentKind::Pi => Self::Pi,
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
            Self::Codex => codex::call(request, context),
            Self::Amp => amp::call(request, context),
            Self::Cline => cline::call(request, context),
            Self::Gemini => gemini::call(request, context),
            Self::Opencode => opencode::call(request, context),
            Self::Copilot => copilot::call(request, context),
            Self::Qwen => qwen::call(request, context),
            Self::Pi => pi::call(request, context),
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
            (Self::Codex, _) => Dialect::Codex(Box::new(codex::CodexTranslator::new(request))),
            (Self::Amp, _) => Dialect::Amp(Box::new(amp::AmpTranslator::new(request))),
            (Self::Cline, _) => Dialect::Cline(Box::new(cline::ClineTranslator::new(request))),
            (Self::Gemini, _) => Dialect::Gemini(Box::new(gemini::GeminiTranslator::new(request))),
            (Self::Opencode, _) => {
                Dialect::Opencode(Box::new(opencode::OpencodeTranslator::new(request)))
            }
            (Self::Copilot, _) => {
                Dialect::Copilot(Box::new(copilot::CopilotTranslator::new(request)))
            }
            (Self::Qwen, _) => Dialect::Qwen(Box::new(qwen::QwenTranslator::new(request))),
            (Self::Pi, _) => Dialect::Pi(Box::new(pi::PiTranslator::new(request))),
            (Self::Text, _) => Dialect::Text(TextTranslator::new(request)),
            (Self::Sim, _) => Dialect::Sim(SimTranslator),
        })
    }
}

/// Infers the adapter from a command's file name; an unknown command is plain text.
pub fn kind_of(command: &str) -> AgentKind {
    const NAMED: [AgentKind; 10] = [
        AgentKind::Claude,
        AgentKind::Codex,
        AgentKind::Amp,
        AgentKind::Cline,
        AgentKind::Gemini,
        AgentKind::Opencode,
        AgentKind::Copilot,
        AgentKind::Qwen,
        AgentKind::Pi,
        AgentKind::Sim,
    ];
    let stem = Path::new(command).file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().to_ascii_lowercase();
    NAMED.into_iter().find(|kind| kind.name() == name).unwrap_or(AgentKind::Text)
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
            ("/usr/bin/codex", AgentKind::Codex),
            ("claude-wrapper", AgentKind::Text),
            ("aider", AgentKind::Text),
            ("", AgentKind::Text),
        ] {
            assert_eq!(kind_of(command), kind, "{command:?}");
        }
    }
}
