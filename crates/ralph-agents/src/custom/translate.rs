//! Lines of JSON of any shape, read with the user's filters.
//!
//! All that the response filter selects in one line is one message; each later message is a new
//! one, and the last one is the answer. What the delta filter selects is appended to earlier
//! deltas, until a complete message comes. Not here: the filters themselves.

use jaq_json::Val;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{AgentEvent, Speaker, TextForm, Usage, UsageScope};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::{Tokens, UsdMicros};

use super::filter::{Filter, FilterError, Selection};
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
    OutputFilters::from_request(request).map_err(|(key, error)| {
        Failure::new(FailureClass::BadCall, format!("`agent.{key}` is not a valid filter: {error}"))
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
    /// Input, output, cache reads and cache writes.
    counts: [Option<Filter>; 4],
    cost: Option<Filter>,
    scope: UsageScope,
}

/// An invalid filter, with its key in the settings of the agent.
type KeyedError = (&'static str, FilterError);

impl OutputFilters {
    fn from_request(request: &AgentRequest) -> Result<Self, KeyedError> {
        let Some(selectors) = &request.agent.selectors else { return Ok(Self::default()) };
        let usage = &selectors.usage;
        Ok(Self {
            response: compile("responseFilter", selectors.response.as_deref())?,
            delta: compile("deltaFilter", selectors.delta.as_deref())?,
            display: compile("displayFilter", selectors.display.as_deref())?,
            session: compile("sessionFilter", selectors.session.as_deref())?,
            usage: Some(CustomUsageFilters {
                counts: [
                    compile("usageFilters.input", usage.input.as_deref())?,
                    compile("usageFilters.output", usage.output.as_deref())?,
                    compile("usageFilters.cacheRead", usage.cache_read.as_deref())?,
                    compile("usageFilters.cacheWrite", usage.cache_write.as_deref())?,
                ],
                cost: compile("usageFilters.cost", usage.cost.as_deref())?,
                scope: usage.scope,
            }),
        })
    }
}

fn compile(key: &'static str, text: Option<&str>) -> Result<Option<Filter>, KeyedError> {
    text.map(Filter::compile).transpose().map_err(|error| (key, error))
}

/// One line, and whether a filter failed on it.
struct FilteredLine<'l> {
    line: &'l Val,
    has_failed: bool,
}

impl FilteredLine<'_> {
    /// Returns what a filter selects in the line; nothing without a filter.
    fn select(&mut self, filter: Option<&Filter>) -> Selection {
        let selection = filter.map(|filter| filter.select(self.line)).unwrap_or_default();
        self.has_failed |= selection.has_failed;
        selection
    }
}

impl CustomUsageFilters {
    /// Returns the usage in a line, or `None`.
    fn read_line(&self, line: &mut FilteredLine<'_>) -> Option<AgentEvent> {
        let counts = self.counts.each_ref().map(|filter| line.select(filter.as_ref()).number());
        let cost = line.select(self.cost.as_ref()).number().map(UsdMicros::from_dollars);
        if counts.iter().all(Option::is_none) && cost.is_none() {
            return None;
        }
        let [input, output, cache_read, cache_write] = counts.map(round_tokens);
        let usage = Usage { input, output, cache_read, cache_write, cost, turns: None };
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
        match serde_json::from_str::<Val>(line) {
            Ok(value @ (Val::Obj(_) | Val::Arr(_))) => self.push_value(&value, line),
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

    fn push_value(&mut self, value: &Val, text: &str) -> LineResult {
        let mut line = FilteredLine { line: value, has_failed: false };
        let mut events: Vec<AgentEvent> = self.push_session(&mut line).into_iter().collect();
        events.extend(self.filters.usage.as_ref().and_then(|usage| usage.read_line(&mut line)));
        let mut text_events = Vec::new();
        let deltas = line.select(self.filters.delta.as_ref()).texts();
        text_events.extend(self.assembler.push_delta(&deltas.concat()));
        let messages = line.select(self.filters.response.as_ref()).texts();
        if !messages.is_empty() {
            text_events.extend(self.assembler.push_message(&messages.join("\n")));
        }
        let shown = line.select(self.filters.display.as_ref()).texts();
        if line.has_failed {
            events.push(AgentEvent::Unparsed { line: shorten_text(text) });
        }
        let display = if self.filters.display.is_some() {
            let shown = shown.into_iter().map(build_shown_line);
            LineDisplay::Instead(events.iter().cloned().chain(shown).collect())
        } else {
            LineDisplay::Events
        };
        events.extend(text_events);
        // Lines that no filter selects are progress, too.
        let parsed = ParsedLine { events, activity: LineActivity::Progress };
        LineResult { parsed, reply: StdinReply::default(), display }
    }

    /// Reports the session when it is new.
    fn push_session(&mut self, line: &mut FilteredLine<'_>) -> Option<AgentEvent> {
        let id = line.select(self.filters.session.as_ref()).texts().pop()?;
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
