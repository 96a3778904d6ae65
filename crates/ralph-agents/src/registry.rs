//! The registry: one line for each adapter, and the functions that look a row up.
//!
//! Not here: anything about a single agent. Its folder has that.

use std::path::Path;

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind, AgentOrigin};
use ralph_model::capability::Capabilities;
use ralph_model::child::Ending;
use ralph_model::failure::Failure;
use ralph_model::version::Version;

use super::adapter::AgentAdapter;
use super::call::{AgentCall, CallContext};
use super::deprecated_flags::find_deprecated_flags;
use super::translator::{Evidence, Translator};
use super::{exit_failure, usage_error};

/// Every adapter, in the order in which ralph proposes agents: the most capable first.
pub static ADAPTERS: [&AgentAdapter; AgentKind::ALL.len()] = [
    &super::claude::ADAPTER,
    &super::codex::ADAPTER,
    &super::gemini::ADAPTER,
    &super::opencode::ADAPTER,
    &super::copilot::ADAPTER,
    &super::qwen::ADAPTER,
    &super::cline::ADAPTER,
    &super::amp::ADAPTER,
    &super::pi::ADAPTER,
    &super::aider::ADAPTER,
    &super::kilo::ADAPTER,
    &super::acp::ADAPTER,
    &super::text::ADAPTER,
    &super::custom::ADAPTER,
    &super::sim::ADAPTER,
];

/// Returns the adapter of a kind.
pub fn find_adapter(kind: AgentKind) -> &'static AgentAdapter {
    let found = ADAPTERS.iter().find(|adapter| adapter.kind == kind);
    found.expect("the table has as many rows as there are kinds, and each kind once")
}

/// Returns the agents that ralph knows by name, the most capable first.
pub fn list_products() -> impl Iterator<Item = &'static AgentAdapter> {
    ADAPTERS.into_iter().filter(|adapter| adapter.kind.origin() == AgentOrigin::Product)
}

/// Returns how to call the agent of a request.
///
/// Fails if the prompt does not fit into the argument that the flags put it in.
pub fn build_call(request: &AgentRequest, context: &CallContext) -> Result<AgentCall, Failure> {
    (find_adapter(request.agent.kind).build_call)(request, context)
}

/// Returns the file that the agent of a request writes its answer to, if it writes one.
///
/// The caller removes an old one before the call, and reads and removes the new one after it; see
/// [`Translator::push_answer_file`].
pub fn select_answer_file<'a>(
    request: &AgentRequest,
    context: &'a CallContext,
) -> Option<&'a Path> {
    let has_file = (find_adapter(request.agent.kind).has_answer_file)(request);
    has_file.then_some(&*context.answer_file)
}

/// Returns the text of the schema file for a call, in the form that the API behind the agent
/// accepts.
pub fn render_schema(request: &AgentRequest) -> Option<String> {
    request.schema.as_ref().map(find_adapter(request.agent.kind).render_schema)
}

/// Returns whether an agent calls ralph's hooks: whether its calls pass ralph's plugin, if there
/// is one.
pub fn can_call_hooks(agent: &AgentChoice) -> bool {
    (find_adapter(agent.kind).can_use_plugin)(agent)
}

/// Returns what an agent can do. An unknown version counts as the newest.
pub fn detect_capabilities(kind: AgentKind, version: Option<Version>) -> Capabilities {
    (find_adapter(kind).capabilities)(version)
}

/// Returns a translator for the output of one call in a directory. A fresh translator that gets
/// the same lines again, such as those of a stored stream, gives the same events and the same
/// judgement.
pub fn create_translator(request: &AgentRequest, directory: &Path) -> Translator {
    let agent = (find_adapter(request.agent.kind).create_translator)(request, directory);
    Translator::new(agent, directory)
}

/// Judges a call by everything its translator read. Returns `None` if it brought an answer.
pub fn judge_call(
    translator: &Translator,
    agent: &AgentChoice,
    evidence: &Evidence<'_>,
) -> Option<Failure> {
    translator
        .agent
        .judge(evidence)
        .map(|failure| usage_error::explain_usage_error(failure, agent, evidence))
}

/// Judges an ending that the agent did not cause: a limit, an interrupt, a failed start.
pub fn judge_imposed_ending(ending: &Ending) -> Option<Failure> {
    exit_failure::judge_imposed_ending(ending, "")
}

/// Infers the adapter from a command's file name; an unknown command is plain text.
pub fn infer_agent_kind(command: &str) -> AgentKind {
    let stem = Path::new(command).file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().to_ascii_lowercase();
    let named = AgentKind::from_name(&name);
    named.filter(|kind| kind.origin() != AgentOrigin::Command).unwrap_or(AgentKind::Text)
}

/// Returns the kind of the program behind an agent. A program that ralph reads in another way,
/// such as over the Agent Client Protocol, keeps its login.
pub fn detect_program_kind(agent: &AgentChoice) -> AgentKind {
    match agent.kind.origin() {
        AgentOrigin::Command => infer_agent_kind(&agent.command),
        AgentOrigin::Product | AgentOrigin::BuiltIn => agent.kind,
    }
}

/// Returns warnings about the installed version: that it is too old, and which flags in the
/// settings it does not accept.
pub fn list_version_warnings(agent: &AgentChoice) -> Vec<String> {
    let who = agent.display_name();
    let adapter = find_adapter(agent.kind);
    let too_old = match (adapter.oldest_version, agent.version) {
        (Some(oldest), Some(version)) if version < oldest => {
            Some(format!("{who} is too old for ralph: install {oldest} or later"))
        }
        (Some(_) | None, _) => None,
    };
    let flags =
        find_deprecated_flags(adapter.deprecated_flags, agent).map(|it| match it.removed_in {
            Some(gone) => {
                format!("`{}` was removed in {} {gone}: {}", it.flag, agent.kind.name(), it.advice)
            }
            None => format!("{who} does not support `{}`: {}", it.flag, it.advice),
        });
    too_old.into_iter().chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use ralph_core::sandbox::hosts::HostPattern;

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
            ("goose", AgentKind::Text),
            ("", AgentKind::Text),
        ] {
            assert_eq!(infer_agent_kind(command), kind, "{command:?}");
        }
    }

    #[test]
    fn every_kind_has_a_row() {
        for kind in AgentKind::ALL {
            assert_eq!(find_adapter(*kind).kind, *kind);
        }
    }

    #[test]
    fn program_kind_does_not_depend_on_the_adapter() {
        for (kind, command, expect) in [
            (AgentKind::Acp, "/opt/gemini", AgentKind::Gemini),
            (AgentKind::Text, "codex", AgentKind::Codex),
            (AgentKind::Custom, "mine", AgentKind::Text),
            (AgentKind::Claude, "wrapper", AgentKind::Claude),
        ] {
            assert_eq!(detect_program_kind(&AgentChoice::new(kind, command)), expect, "{command}");
        }
    }

    #[test]
    fn the_page_on_agents_has_a_section_for_each() {
        let page = include_str!("../../../docs/agents.md");
        for adapter in list_products() {
            let title = format!("\n### `{}`\n", adapter.kind.name());
            let (_, section) = page.split_once(&title).unwrap_or_else(|| panic!("{title}"));
            let section = section.split("\n#").next().unwrap_or_default();
            let hosts = adapter.model_hosts.iter().map(|host| format!("`{host}`"));
            let hosts = hosts.collect::<Vec<String>>().join(", ");
            let hosts = if hosts.is_empty() { "none, name those of your provider" } else { &hosts };
            let directory = adapter.env.map_or("", |env| env.state_dir.variable);
            for line in [format!("\n- hosts: {hosts}\n"), format!("\n- directory: `{directory}`")] {
                assert!(section.contains(&line), "docs/agents.md: {title} should hold {line}");
            }
        }
    }

    #[test]
    fn every_host_of_a_model_is_a_pattern_for_encrypted_connections() {
        for adapter in ADAPTERS {
            for host in adapter.model_hosts {
                let pattern = HostPattern::parse_pattern(host).expect("a pattern");
                assert_eq!(&pattern.to_string(), host, "{:?}", adapter.kind);
                assert!(!host.contains(':'), "{:?}", adapter.kind);
            }
        }
    }
}
