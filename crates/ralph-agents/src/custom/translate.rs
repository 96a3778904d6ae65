//! Lines of JSON of any shape, read with the user's filters.
//!
//! All that the response filter selects in one line is one message; each later message is a new
//! one, and the last one is the answer. What the delta filter selects is appended to earlier
//! deltas, until a complete message comes. Not here: the filters themselves.

use ralph_core::agent_output::{AgentEvent, Speaker, TextForm, Usage, UsageScope};
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::AgentRequest;
use ralph_core::recipe::{AgentKind, Selectors, UsageSelectors};
use ralph_core::units::{Tokens, UsdMicros};
use serde_json::Value;

use super::filter::Filter;
use super::parse::{FilterError, parse};
use crate::adapter::AgentAdapter;
use crate::call::{AgentCall, CallContext, IdleWatch};
use crate::json_events::MessageAssembler;
use crate::text;
use crate::translator::{
    Evidence, LineActivity, LineDisplay, LineResult, ParsedLine, StdinReply, Translate,
    shorten_text,
};

/// Everything about agents without an adapter of their own that ralph looks up. Usage is reported
/// where the user's filters select it.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    has_filters: true,
    ..AgentAdapter::new(AgentKind::Custom, build_call, |request, _| {
        Box::new(CustomTranslator::new(request))
    })
};

/// Returns how to call a command that prints JSON: like any other, but the idle limit applies.
pub(crate) fn build_call(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<AgentCall, Failure> {
    OutputFilters::from_request(request).map_err(|error| {
        Failure::new(FailureClass::BadCall, format!("a filter of the agent is not valid: {error}"))
            .with_hint("fix it in the settings")
    })?;
    Ok(AgentCall { idle: IdleWatch::Watch, ..text::build_call(request, context)? })
}

/// Reads one call.
#[derive(Debug)]
pub(crate) struct CustomTranslator {
    command: String,
    filters: OutputFilters,
    assembler: MessageAssembler,
    session: Option<String>,
}

#[derive(Debug, Default)]
struct OutputFilters {
    response: Option<Filter>,
    delta: Option<Filter>,
    display: Option<Filter>,
    session: Option<Filter>,
    usage: Option<CustomUsageFilters>,
}

#[derive(Debug)]
struct CustomUsageFilters {
    input: Option<Filter>,
    output: Option<Filter>,
    cache_read: Option<Filter>,
    cache_write: Option<Filter>,
    cost: Option<Filter>,
    scope: UsageScope,
}

impl OutputFilters {
    fn from_request(request: &AgentRequest) -> Result<Self, FilterError> {
        match &request.agent.selectors {
            Some(selectors) => Self::from_selectors(selectors),
            None => Ok(Self::default()),
        }
    }

    fn from_selectors(selectors: &Selectors) -> Result<Self, FilterError> {
        Ok(Self {
            response: parse_filter(selectors.response.as_deref())?,
            delta: parse_filter(selectors.delta.as_deref())?,
            display: parse_filter(selectors.display.as_deref())?,
            session: parse_filter(selectors.session.as_deref())?,
            usage: Some(CustomUsageFilters::from_selectors(&selectors.usage)?),
        })
    }
}

fn parse_filter(text: Option<&str>) -> Result<Option<Filter>, FilterError> {
    text.map(parse).transpose()
}

impl CustomUsageFilters {
    fn from_selectors(selectors: &UsageSelectors) -> Result<Self, FilterError> {
        Ok(Self {
            input: parse_filter(selectors.input.as_deref())?,
            output: parse_filter(selectors.output.as_deref())?,
            cache_read: parse_filter(selectors.cache_read.as_deref())?,
            cache_write: parse_filter(selectors.cache_write.as_deref())?,
            cost: parse_filter(selectors.cost.as_deref())?,
            scope: selectors.scope,
        })
    }

    /// Returns the usage in a line, or `None`.
    fn read_line(&self, line: &Value) -> Option<AgentEvent> {
        let number = |filter: &Option<Filter>| {
            filter.as_ref()?.select(line).iter().find_map(|value| value.as_f64())
        };
        let counts = [&self.input, &self.output, &self.cache_read, &self.cache_write].map(number);
        let cost = number(&self.cost).map(UsdMicros::from_dollars);
        if counts.iter().all(Option::is_none) && cost.is_none() {
            return None;
        }
        let [input, output, cache_read, cache_write] = counts.map(round_tokens);
        let usage = Usage { input, output, cache_read, cache_write, cost };
        Some(AgentEvent::Usage { usage, scope: self.scope })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the float is clamped to zero, and a saturating cast is what is wanted above"
)]
fn round_tokens(count: Option<f64>) -> Tokens {
    Tokens(count.unwrap_or(0.0).max(0.0) as u64)
}

impl Translate for CustomTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        self.push_line_with_reply(line).parsed
    }

    fn push_line_with_reply(&mut self, line: &str) -> LineResult {
        let line = line.trim();
        if line.is_empty() {
            return ParsedLine::from_activity(LineActivity::Idle).into();
        }
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() || value.is_array() => self.push_value(&value),
            // A bare number or word is text that happens to be valid JSON.
            Ok(_) | Err(_) => {
                ParsedLine::from_events(vec![AgentEvent::Unparsed { line: shorten_text(line) }])
                    .into()
            }
        }
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let silence = "its filters selected no answer in what it printed";
        text::judge_exit(&self.command, silence, evidence)
    }
}

impl CustomTranslator {
    pub(crate) fn new(request: &AgentRequest) -> Self {
        Self {
            command: request.agent.command.clone(),
            // An invalid filter is never used: the call is refused.
            filters: OutputFilters::from_request(request).unwrap_or_default(),
            assembler: MessageAssembler::default(),
            session: None,
        }
    }

    fn push_value(&mut self, line: &Value) -> LineResult {
        let mut events: Vec<AgentEvent> = self.push_session(line).into_iter().collect();
        events.extend(self.filters.usage.as_ref().and_then(|usage| usage.read_line(line)));
        let mut text_events = Vec::new();
        if let Some(filter) = &self.filters.delta {
            text_events.extend(self.assembler.push_delta(&filter.texts(line).concat()));
        }
        if let Some(filter) = &self.filters.response {
            let texts = filter.texts(line);
            if !texts.is_empty() {
                text_events.extend(self.assembler.push_message(&texts.join("\n")));
            }
        }
        let shown = match &self.filters.display {
            None => LineDisplay::Events,
            Some(filter) => {
                let shown = filter.texts(line).into_iter().map(build_shown_line);
                LineDisplay::Instead(events.iter().cloned().chain(shown).collect())
            }
        };
        events.extend(text_events);
        // Lines that no filter selects are progress, too.
        let parsed = ParsedLine { events, activity: LineActivity::Progress };
        LineResult { parsed, reply: StdinReply::default(), display: shown }
    }

    /// Reports the session when it is new.
    fn push_session(&mut self, line: &Value) -> Option<AgentEvent> {
        let id = self.filters.session.as_ref()?.texts(line).pop()?;
        let is_new = self.session.as_ref() != Some(&id);
        self.session = Some(id.clone());
        is_new.then_some(AgentEvent::Session { id: Some(id), model: None, version: None })
    }
}

/// Returns a line for display, which never counts.
fn build_shown_line(text: String) -> AgentEvent {
    let text = if text.ends_with('\n') { text } else { text + "\n" };
    AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Delta }
}
