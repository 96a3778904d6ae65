//! What the `AGENT_*` names mean together: a type is a preset, and the other names override it.
//!
//! Not here: how a kind of agent is called and read. Its adapter knows that.

use ralph_agents::{asking_for_text, kind_of, without_call};
use ralph_core::recipe::{AgentKind, Origin};

use super::jq::filter_in;
use crate::settings::words::split_words;

/// `AGENT_TYPE`.
pub(super) const TYPE: &str = "AGENT_TYPE";
/// `AGENT_CLI`.
pub(super) const CLI: &str = "AGENT_CLI";
/// `AGENT_ARGS`.
pub(super) const ARGS: &str = "AGENT_ARGS";
/// `AGENT_OUTPUT_FORMAT`.
pub(super) const FORMAT: &str = "AGENT_OUTPUT_FORMAT";
/// `AGENT_RESPONSE_FILTER`.
pub(super) const RESPONSE: &str = "AGENT_RESPONSE_FILTER";
/// `AGENT_DISPLAY_FILTER`.
pub(super) const DISPLAY: &str = "AGENT_DISPLAY_FILTER";

/// All of them.
pub(super) const NAMES: [&str; 6] = [TYPE, CLI, ARGS, FORMAT, RESPONSE, DISPLAY];

/// The given values; a missing or empty name is `None`.
#[derive(Debug, Default)]
pub(super) struct Given<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) cli: Option<&'a str>,
    pub(super) args: Option<Args<'a>>,
    pub(super) format: Option<&'a str>,
    pub(super) response: Option<&'a str>,
    pub(super) display: Option<&'a str>,
    /// Whether another name selects parts of the agent's answer.
    pub(super) has_delta_filter: bool,
}

/// Arguments as written in the file.
#[derive(Debug)]
pub(super) enum Args<'a> {
    /// `"-p --model opus"`.
    Text(&'a str),
    /// `( -p --model opus )`.
    Words(Vec<String>),
}

/// The resulting settings. Each carries the name that it comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preset {
    pub(super) kind: Option<(&'static str, String)>,
    pub(super) command: Option<(&'static str, String)>,
    pub(super) flags: Option<(&'static str, Vec<String>)>,
    /// Whether the agent is asked for its events, or for its final answer only.
    pub(super) streams: Option<(&'static str, bool)>,
    pub(super) response: Option<(&'static str, String)>,
    pub(super) display: Option<(&'static str, String)>,
    pub(super) problems: Vec<(&'static str, String)>,
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// How the output of an agent is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Text,
}

/// Reads the names together.
pub(super) fn read(given: &Given<'_>) -> Preset {
    let mut preset = Preset::default();
    let words = preset.words(CLI, given.cli);
    let format = preset.format(given.format);
    let kind = preset.kind(given, words.first(), format);
    preset.command = match words.first() {
        Some(word) => Some((CLI, word.clone())),
        None => given.kind.and_then(program_of).map(|program| (TYPE, program.to_owned())),
    };
    let args = match &given.args {
        Some(Args::Text(text)) => preset.words(ARGS, Some(text)),
        Some(Args::Words(words)) => words.clone(),
        None => Vec::new(),
    };
    let own = kind.unwrap_or(AgentKind::Text);
    let lead = without_call(own, words.get(1..).unwrap_or_default().to_vec());
    preset.check_lead(kind, &words, &lead);
    let args = without_call(own, args);
    let name = if args.is_empty() && given.args.is_none() { CLI } else { ARGS };
    let flags = [lead, args].concat();
    if !flags.is_empty() || given.args.is_some() {
        preset.flags = Some((name, flags));
    }
    preset.print(kind, format);
    preset.response = preset.filter(RESPONSE, kind, given.response);
    preset.display = preset.filter(DISPLAY, kind, given.display);
    preset
}

impl Preset {
    fn words(&mut self, name: &'static str, text: Option<&str>) -> Vec<String> {
        split_words(text.unwrap_or_default()).unwrap_or_else(|message| {
            self.problems.push((name, message));
            Vec::new()
        })
    }

    fn format(&mut self, text: Option<&str>) -> Option<Format> {
        let text = text?.trim();
        match text.to_ascii_lowercase().as_str() {
            "json" => Some(Format::Json),
            "text" => Some(Format::Text),
            _ => {
                self.problems.push((FORMAT, format!("expected json or text, found {text:?}")));
                None
            }
        }
    }

    /// Chooses the kind. Unknown programs are of kind `text`; their output may still be JSON, if a
    /// filter selects the answer.
    fn kind(
        &mut self,
        given: &Given<'_>,
        program: Option<&String>,
        format: Option<Format>,
    ) -> Option<AgentKind> {
        let named = given.kind.map(str::trim);
        self.kind = named.map(|named| (TYPE, named.to_owned()));
        let kind = match named.map(str::to_ascii_lowercase).as_deref() {
            Some("custom") => AgentKind::Custom,
            Some("acp") => AgentKind::Acp,
            Some(named) => kind_of(named),
            None => kind_of(program?),
        };
        if kind != AgentKind::Text {
            return Some(kind);
        }
        let is_filtered = given.response.is_some() || given.has_delta_filter;
        match (format, named) {
            (Some(Format::Json), _) | (None, None) if is_filtered => {
                self.kind = Some((FORMAT, AgentKind::Custom.name().to_owned()));
                Some(AgentKind::Custom)
            }
            (Some(Format::Json), _) => {
                let message = "the JSON of a program that is not known needs AGENT_RESPONSE_FILTER, which selects its answer";
                self.problems.push((FORMAT, message.to_owned()));
                Some(kind)
            }
            (Some(Format::Text) | None, _) => Some(kind),
        }
    }

    /// Reports arguments that would have to precede the flags of an adapter.
    fn check_lead(&mut self, kind: Option<AgentKind>, words: &[String], lead: &[String]) {
        let (Some(kind), Some(program), Some(first)) = (kind, words.first(), lead.first()) else {
            return;
        };
        let is_flag = first.starts_with('-') && kind_of(program) == kind;
        if has_flags(kind) && !is_flag {
            let message = format!(
                "the flags of {} would come between `{program}` and `{first}`; put the command into a script, and name that",
                kind.name()
            );
            self.problems.push((CLI, message));
        }
    }

    /// Chooses the output format that the agent is asked for.
    fn print(&mut self, kind: Option<AgentKind>, format: Option<Format>) {
        let (Some(format), kind) = (format, kind) else { return };
        match (format, kind) {
            (Format::Json, _) => self.streams = Some((FORMAT, true)),
            // Asked for by a flag: `streamAgentOutput` for all agents would hide its text.
            (Format::Text, Some(AgentKind::Claude)) => {
                let (name, flags) = self.flags.take().unwrap_or((FORMAT, Vec::new()));
                self.flags = Some((name, asking_for_text(AgentKind::Claude, flags)));
            }
            (Format::Text, Some(AgentKind::Codex) | None) => self.streams = Some((FORMAT, false)),
            (
                Format::Text,
                Some(AgentKind::Text | AgentKind::Custom | AgentKind::Acp | AgentKind::Sim),
            ) => {}
            (
                Format::Text,
                Some(
                    kind @ (AgentKind::Amp
                    | AgentKind::Cline
                    | AgentKind::Gemini
                    | AgentKind::Opencode
                    | AgentKind::Copilot
                    | AgentKind::Qwen
                    | AgentKind::Pi),
                ),
            ) => {
                let message = format!(
                    "AGENT_OUTPUT_FORMAT=text has no effect on {}: its events are read, and shown as text",
                    kind.name()
                );
                self.warnings.push((FORMAT, message));
            }
        }
    }

    /// Parses a filter, for kinds that use one.
    fn filter(
        &mut self,
        name: &'static str,
        kind: Option<AgentKind>,
        text: Option<&str>,
    ) -> Option<(&'static str, String)> {
        let text = text?;
        match kind {
            Some(AgentKind::Custom) | None => match filter_in(text) {
                Ok(filter) => Some((name, filter)),
                Err(message) => {
                    self.problems.push((name, message));
                    None
                }
            },
            Some(kind) => {
                let message = format!(
                    "{name} has no effect on an agent of type {}, which is read without it",
                    kind.name()
                );
                self.warnings.push((name, message));
                None
            }
        }
    }
}

/// Returns whether an adapter adds its own flags before those given.
fn has_flags(kind: AgentKind) -> bool {
    match kind.origin() {
        Origin::Product => true,
        Origin::Command | Origin::BuiltIn => false,
    }
}

/// Returns the default program of a type.
fn program_of(kind: &str) -> Option<&'static str> {
    const PROGRAMS: [(&str, &str); 10] = [
        ("claude", "claude"),
        ("codex", "codex"),
        ("amp", "amp"),
        ("cline", "cline"),
        ("gemini", "gemini"),
        ("opencode", "opencode"),
        ("copilot", "copilot"),
        ("qwen", "qwen"),
        ("pi", "pi"),
        // Historical default: cline was the first agent read as plain text.
        ("text", "cline"),
    ];
    let found = PROGRAMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind.trim()));
    found.map(|(_, program)| *program)
}

#[cfg(test)]
mod tests;
