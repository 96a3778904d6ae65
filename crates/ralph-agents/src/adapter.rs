//! The closed set of adapters: the one place that maps an agent kind to its adapter module.
//!
//! Not here: anything about a single agent.

use std::path::Path;

use ralph_core::child::Ending;
use ralph_core::failure::Failure;
use ralph_core::ports::AgentRequest;
use ralph_core::recipe::{AgentChoice, AgentKind, AgentOutput};

use super::call::{AgentCall, CallContext, StdinMode};
use super::exit_failure;
use super::sim::{self, SimTranslator};
use super::text::{self, TextTranslator};
use super::translator::{AgentDialect, Evidence, Translator};
use super::usage_error;
use super::{acp, amp, claude, cline, codex, copilot, custom, gemini, opencode, pi, qwen};

/// Returns how to call the agent of a request.
///
/// Fails if the prompt does not fit into the argument that the flags put it in.
pub fn build_call(request: &AgentRequest, context: &CallContext) -> Result<AgentCall, Failure> {
    match request.agent.kind {
        AgentKind::Claude => claude::build_call(request, context),
        AgentKind::Codex => codex::build_call(request, context),
        AgentKind::Amp => amp::build_call(request, context),
        AgentKind::Cline => cline::build_call(request, context),
        AgentKind::Gemini => gemini::build_call(request, context),
        AgentKind::Opencode => opencode::build_call(request, context),
        AgentKind::Copilot => copilot::build_call(request, context),
        AgentKind::Qwen => qwen::build_call(request, context),
        AgentKind::Pi => pi::build_call(request, context),
        AgentKind::Acp => Ok(acp::build_call(request)),
        AgentKind::Text => text::build_call(request, context),
        AgentKind::Custom => custom::build_call(request, context),
        AgentKind::Sim => sim::build_call(request, context),
    }
}

/// Returns the file that the agent of a request writes its answer to, if it writes one.
///
/// The caller removes an old one before the call, and reads and removes the new one after it; see
/// [`Translator::push_answer_file`].
pub fn select_answer_file<'a>(
    request: &AgentRequest,
    context: &'a CallContext,
) -> Option<&'a Path> {
    match (request.agent.kind, codex::select_output(request)) {
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
pub fn render_schema(request: &AgentRequest) -> Option<String> {
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
pub fn select_stdin_mode(kind: AgentKind) -> StdinMode {
    match kind {
        AgentKind::Acp => StdinMode::Dialog,
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
        | AgentKind::Sim => StdinMode::OneWay,
    }
}

/// Returns whether the call of a request passes ralph's plugin to the agent, if there is one.
pub fn can_use_plugin(request: &AgentRequest) -> bool {
    can_call_hooks(&request.agent)
}

/// Returns whether an agent calls ralph's hooks.
pub fn can_call_hooks(agent: &AgentChoice) -> bool {
    agent.kind == AgentKind::Claude && claude::can_use_plugin(agent)
}

/// Returns a translator for the output of one call in a directory. A fresh translator that gets
/// the same lines again, such as those of a stored stream, gives the same events and the same
/// judgement.
pub fn create_translator(request: &AgentRequest, directory: &Path) -> Translator {
    Translator(match (request.agent.kind, claude::select_output(request)) {
        (AgentKind::Claude, AgentOutput::Events) => {
            AgentDialect::Claude(Box::new(claude::ClaudeTranslator::for_run(&request.run)))
        }
        (AgentKind::Claude, AgentOutput::Text) => {
            AgentDialect::ClaudeText(TextTranslator::new(request))
        }
        (AgentKind::Codex, _) => match codex::select_output(request) {
            AgentOutput::Events => {
                AgentDialect::Codex(Box::new(codex::CodexTranslator::new(request)))
            }
            AgentOutput::Text => AgentDialect::CodexText(codex::CodexTextTranslator::default()),
        },
        (AgentKind::Amp, _) => AgentDialect::Amp(Box::new(amp::AmpTranslator::new(request))),
        (AgentKind::Cline, _) => {
            AgentDialect::Cline(Box::new(cline::ClineTranslator::new(request)))
        }
        (AgentKind::Gemini, _) => {
            AgentDialect::Gemini(Box::new(gemini::GeminiTranslator::new(request)))
        }
        (AgentKind::Opencode, _) => {
            AgentDialect::Opencode(Box::new(opencode::OpencodeTranslator::new(request)))
        }
        (AgentKind::Copilot, _) => {
            AgentDialect::Copilot(Box::new(copilot::CopilotTranslator::new(request)))
        }
        (AgentKind::Qwen, _) => AgentDialect::Qwen(Box::new(qwen::QwenTranslator::new(request))),
        (AgentKind::Pi, _) => AgentDialect::Pi(Box::new(pi::PiTranslator::new(request))),
        (AgentKind::Acp, _) => {
            AgentDialect::Acp(Box::new(acp::AcpTranslator::new(request, directory)))
        }
        (AgentKind::Text, _) => AgentDialect::Text(TextTranslator::new(request)),
        (AgentKind::Custom, _) => {
            AgentDialect::Custom(Box::new(custom::CustomTranslator::new(request)))
        }
        (AgentKind::Sim, _) => AgentDialect::Sim(SimTranslator),
    })
}

/// Judges a call by everything its translator read. Returns `None` if it brought an answer.
pub fn judge_call(
    translator: &Translator,
    agent: &AgentChoice,
    evidence: &Evidence<'_>,
) -> Option<Failure> {
    translator
        .judge(evidence)
        .map(|failure| usage_error::explain_usage_error(failure, agent, evidence))
}

/// Judges an ending that the agent did not cause: a limit, an interrupt, a failed start.
pub fn judge_imposed_ending(ending: &Ending) -> Option<Failure> {
    exit_failure::judge_imposed_ending(ending, "")
}

/// Infers the adapter from a command's file name; an unknown command is plain text.
pub fn infer_agent_kind(command: &str) -> AgentKind {
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
            assert_eq!(infer_agent_kind(command), kind, "{command:?}");
        }
    }
}
