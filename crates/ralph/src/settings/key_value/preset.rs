//! What the `AGENT_*` names mean together: a type is a preset, and the other names override it.
//!
//! Not here: how a kind of agent is called and read. Its adapter knows that.

use ralph_agents::{
    TextRequest, find_adapter, infer_agent_kind, request_text_output, strip_call_args,
};
use ralph_model::agent::{AgentKind, AgentOrigin};

use super::jq::filter_in;
use crate::settings::shell_words::split_words;

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
pub(super) struct AgentVariables<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) cli: Option<&'a str>,
    pub(super) args: Option<AgentArgs<'a>>,
    pub(super) format: Option<&'a str>,
    pub(super) response: Option<&'a str>,
    pub(super) display: Option<&'a str>,
    /// Whether another name selects parts of the agent's answer.
    pub(super) has_delta_filter: bool,
}

/// Arguments as written in the file.
#[derive(Debug)]
pub(super) enum AgentArgs<'a> {
    /// `"-p --model opus"`.
    Text(&'a str),
    /// `( -p --model opus )`.
    Words(Vec<String>),
}

/// The resulting settings. Each carries the name that it comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentPreset {
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
enum AgentOutputFormat {
    Json,
    Text,
}

/// Reads the names together.
pub(super) fn read_preset(given: &AgentVariables<'_>) -> AgentPreset {
    let mut preset = AgentPreset::default();
    let words = preset.split_arguments(CLI, given.cli);
    let format = preset.read_format(given.format);
    let kind = preset.choose_kind(given, words.first(), format);
    preset.command = match words.first() {
        Some(word) => Some((CLI, word.clone())),
        None => given.kind.and_then(find_default_program).map(|program| (TYPE, program.to_owned())),
    };
    let args = match &given.args {
        Some(AgentArgs::Text(text)) => preset.split_arguments(ARGS, Some(text)),
        Some(AgentArgs::Words(words)) => words.clone(),
        None => Vec::new(),
    };
    let own = kind.unwrap_or(AgentKind::Text);
    let lead = strip_call_args(own, words.get(1..).unwrap_or_default().to_vec());
    preset.check_lead(kind, &words, &lead);
    let args = strip_call_args(own, args);
    let name = if args.is_empty() && given.args.is_none() { CLI } else { ARGS };
    let flags = [lead, args].concat();
    if !flags.is_empty() || given.args.is_some() {
        preset.flags = Some((name, flags));
    }
    preset.choose_output(kind, format);
    preset.response = preset.read_filter(RESPONSE, kind, given.response);
    preset.display = preset.read_filter(DISPLAY, kind, given.display);
    preset
}

impl AgentPreset {
    fn split_arguments(&mut self, name: &'static str, text: Option<&str>) -> Vec<String> {
        split_words(text.unwrap_or_default()).unwrap_or_else(|message| {
            self.problems.push((name, message));
            Vec::new()
        })
    }

    fn read_format(&mut self, text: Option<&str>) -> Option<AgentOutputFormat> {
        let text = text?.trim();
        match text.to_ascii_lowercase().as_str() {
            "json" => Some(AgentOutputFormat::Json),
            "text" => Some(AgentOutputFormat::Text),
            _ => {
                self.problems.push((FORMAT, format!("expected json or text, found {text:?}")));
                None
            }
        }
    }

    /// Chooses the kind. Unknown programs are of kind `text`; their output may still be JSON, if a
    /// filter selects the answer.
    fn choose_kind(
        &mut self,
        given: &AgentVariables<'_>,
        program: Option<&String>,
        format: Option<AgentOutputFormat>,
    ) -> Option<AgentKind> {
        let named = given.kind.map(str::trim);
        self.kind = named.map(|named| (TYPE, named.to_owned()));
        let kind = match named.map(str::to_ascii_lowercase).as_deref() {
            Some(named) => AgentKind::from_name(named).unwrap_or_else(|| infer_agent_kind(named)),
            None => infer_agent_kind(program?),
        };
        if kind != AgentKind::Text {
            return Some(kind);
        }
        let is_filtered = given.response.is_some() || given.has_delta_filter;
        match (format, named) {
            (Some(AgentOutputFormat::Json), _) | (None, None) if is_filtered => {
                self.kind = Some((FORMAT, AgentKind::Custom.name().to_owned()));
                Some(AgentKind::Custom)
            }
            (Some(AgentOutputFormat::Json), _) => {
                let message = "the JSON of a program that is not known needs AGENT_RESPONSE_FILTER, which selects its answer";
                self.problems.push((FORMAT, message.to_owned()));
                Some(kind)
            }
            (Some(AgentOutputFormat::Text) | None, _) => Some(kind),
        }
    }

    /// Reports arguments that would have to precede the flags of an adapter.
    fn check_lead(&mut self, kind: Option<AgentKind>, words: &[String], lead: &[String]) {
        let (Some(kind), Some(program), Some(first)) = (kind, words.first(), lead.first()) else {
            return;
        };
        let is_flag = first.starts_with('-') && infer_agent_kind(program) == kind;
        if has_flags(kind) && !is_flag {
            let message = format!(
                "the flags of {} would come between `{program}` and `{first}`; put the command into a script, and name that",
                kind.name()
            );
            self.problems.push((CLI, message));
        }
    }

    /// Chooses the output format that the agent is asked for.
    fn choose_output(&mut self, kind: Option<AgentKind>, format: Option<AgentOutputFormat>) {
        let (Some(format), kind) = (format, kind) else { return };
        match (format, kind.map(find_adapter)) {
            (AgentOutputFormat::Json, _) => self.streams = Some((FORMAT, true)),
            (AgentOutputFormat::Text, None) => self.streams = Some((FORMAT, false)),
            (AgentOutputFormat::Text, Some(adapter)) => match adapter.text_request {
                TextRequest::Flag(..) => {
                    let (name, flags) = self.flags.take().unwrap_or((FORMAT, Vec::new()));
                    self.flags = Some((name, request_text_output(adapter.kind, flags)));
                }
                TextRequest::Setting => self.streams = Some((FORMAT, false)),
                TextRequest::NotNeeded => {}
                TextRequest::Unsupported => {
                    let message = format!(
                        "AGENT_OUTPUT_FORMAT=text has no effect on {}: its events are read, and shown as text",
                        adapter.kind.name()
                    );
                    self.warnings.push((FORMAT, message));
                }
            },
        }
    }

    /// Parses a filter, for kinds that use one.
    fn read_filter(
        &mut self,
        name: &'static str,
        kind: Option<AgentKind>,
        text: Option<&str>,
    ) -> Option<(&'static str, String)> {
        let text = text?;
        match kind.filter(|kind| !find_adapter(*kind).has_filters) {
            None => match filter_in(text) {
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
        AgentOrigin::Product => true,
        AgentOrigin::Command | AgentOrigin::BuiltIn => false,
    }
}

/// Returns the default program of a type.
fn find_default_program(kind: &str) -> Option<&'static str> {
    let kind = AgentKind::from_name(&kind.trim().to_ascii_lowercase())?;
    find_adapter(kind).default_program
}

#[cfg(test)]
mod tests;
