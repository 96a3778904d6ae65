//! The closed set of adapters: the one place that maps an agent kind to its adapter module.
//!
//! Not here: anything about a single agent.

use std::path::Path;

use ralph_core::child::Ending;
use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::recipe::{AgentChoice, AgentKind, AgentOutput};

use super::call::{Call, CallContext, Talk};
use super::ending;
use super::sim::{self, SimTranslator};
use super::text::{self, TextTranslator};
use super::translator::{Dialect, Evidence, Translator};
use super::usage_error;
use super::{acp, amp, claude, cline, codex, copilot, custom, gemini, opencode, pi, qwen};

/// Returns how to call the agent of a request.
///
/// Fails if the prompt does not fit into the argument that the flags put it in.
pub fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    match request.agent.kind {
        AgentKind::Claude => claude::call(request, context),
        AgentKind::Codex => codex::call(request, context),
        AgentKind::Amp => amp::call(request, context),
        AgentKind::Cline => cline::call(request, context),
        AgentKind::Gemini => gemini::call(request, context),
        AgentKind::Opencode => opencode::call(request, context),
        AgentKind::Copilot => copilot::call(request, context),
        AgentKind::Qwen => qwen::call(request, context),
        AgentKind::Pi => pi::call(request, context),
        AgentKind::Acp => Ok(acp::call(request)),
        AgentKind::Text => text::call(request, context),
        AgentKind::Custom => custom::call(request, context),
        AgentKind::Sim => sim::call(request, context),
    }
}

/// Returns the file that the agent of a request writes its answer to, if it writes one.
///
/// The caller removes an old one before the call, and reads and removes the new one after it; see
/// [`Translator::push_answer_file`].
pub fn answer_file<'a>(request: &Request, context: &'a CallContext) -> Option<&'a Path> {
    match (request.agent.kind, codex::output(request)) {
        (AgentKind::Codex, AgentOutput::Text) => Some(&context.answer_file),
        (AgentKind::Codex, AgentOutput::Events)
        | (
            AgentKind::Claude
            | AgentKind::Amp
            | AgentKind::Cline
            | AgentKind::Gemini
            | AgentKind::Opencode
            | AgentKind::Copilot
            | AgentKind::Qwen
            | AgentKind::Pi
            | AgentKind::Acp
            | AgentKind::Text
            | AgentKind::Custom
            | AgentKind::Sim,
            _,
        ) => None,
    }
}

/// Returns the text of the schema file for a call, in the form that the API behind the agent
/// accepts: Codex passes it on as a strict schema.
pub fn schema_text(request: &Request) -> Option<String> {
    let schema = request.schema.as_ref()?;
    Some(match request.agent.kind {
        AgentKind::Codex => schema.strict().to_string(),
        AgentKind::Claude
        | AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Gemini
        | AgentKind::Opencode
        | AgentKind::Copilot
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Acp
        | AgentKind::Text
        | AgentKind::Custom
        | AgentKind::Sim => schema.to_string(),
    })
}

/// Returns whether an agent's stdin stays open for replies while it works.
pub fn talk(kind: AgentKind) -> Talk {
    match kind {
        AgentKind::Acp => Talk::Dialog,
        AgentKind::Claude
        | AgentKind::Codex
        | AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Gemini
        | AgentKind::Opencode
        | AgentKind::Copilot
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Text
        | AgentKind::Custom
        | AgentKind::Sim => Talk::OneWay,
    }
}

/// Returns whether the call of a request passes ralph's plugin to the agent, if there is one.
pub fn takes_plugin(request: &Request) -> bool {
    takes_hooks(&request.agent)
}

/// Returns whether an agent calls ralph's hooks.
pub fn takes_hooks(agent: &AgentChoice) -> bool {
    agent.kind == AgentKind::Claude && claude::takes_plugin(agent)
}

/// Returns a translator for the output of one call in a directory. A fresh translator that gets
/// the same lines again, such as those of a stored stream, gives the same events and the same
/// judgement.
pub fn translator(request: &Request, directory: &Path) -> Translator {
    Translator(match (request.agent.kind, claude::output(request)) {
        (AgentKind::Claude, AgentOutput::Events) => {
            Dialect::Claude(Box::new(claude::ClaudeTranslator::of(&request.run)))
        }
        (AgentKind::Claude, AgentOutput::Text) => Dialect::ClaudeText(TextTranslator::new(request)),
        (AgentKind::Codex, _) => match codex::output(request) {
            AgentOutput::Events => Dialect::Codex(Box::new(codex::CodexTranslator::new(request))),
            AgentOutput::Text => Dialect::CodexText(codex::CodexText::default()),
        },
        (AgentKind::Amp, _) => Dialect::Amp(Box::new(amp::AmpTranslator::new(request))),
        (AgentKind::Cline, _) => Dialect::Cline(Box::new(cline::ClineTranslator::new(request))),
        (AgentKind::Gemini, _) => Dialect::Gemini(Box::new(gemini::GeminiTranslator::new(request))),
        (AgentKind::Opencode, _) => {
            Dialect::Opencode(Box::new(opencode::OpencodeTranslator::new(request)))
        }
        (AgentKind::Copilot, _) => {
            Dialect::Copilot(Box::new(copilot::CopilotTranslator::new(request)))
        }
        (AgentKind::Qwen, _) => Dialect::Qwen(Box::new(qwen::QwenTranslator::new(request))),
        (AgentKind::Pi, _) => Dialect::Pi(Box::new(pi::PiTranslator::new(request))),
        (AgentKind::Acp, _) => Dialect::Acp(Box::new(acp::AcpTranslator::new(request, directory))),
        (AgentKind::Text, _) => Dialect::Text(TextTranslator::new(request)),
        (AgentKind::Custom, _) => Dialect::Custom(Box::new(custom::CustomTranslator::new(request))),
        (AgentKind::Sim, _) => Dialect::Sim(SimTranslator),
    })
}

/// Judges a call by everything its translator read. Returns `None` if it brought an answer.
pub fn judge(
    translator: &Translator,
    agent: &AgentChoice,
    evidence: &Evidence<'_>,
) -> Option<Failure> {
    translator.judge(evidence).map(|failure| usage_error::explained(failure, agent, evidence))
}

/// Judges an ending that the agent did not cause: a limit, an interrupt, a failed start.
pub fn imposed(ending: &Ending) -> Option<Failure> {
    ending::imposed(ending, "")
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
