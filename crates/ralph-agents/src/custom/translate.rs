//! Lines of JSON of any shape, read with the user's filters.
//!
//! All that the response filter selects in one line is one message; each later message is a new
//! one, and the last one is the answer. What the delta filter selects is appended to earlier
//! deltas, until a complete message comes. Not here: the filters themselves.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Speaker, TextForm, Usage, UsageScope};
use ralph_core::recipe::{Selectors, UsageSelectors};
use ralph_core::units::{Tokens, UsdMicros};
use serde_json::Value;

use super::filter::Filter;
use super::parse::{FilterError, parse};
use crate::call::{Call, CallContext, IdleWatch};
use crate::json_events::Speech;
use crate::text;
use crate::translator::{Answer, Evidence, Heard, Shown, Told, Weight, bounded};

/// Returns how to call a command that prints JSON: like any other, but the idle limit applies.
pub(crate) fn call(request: &Request, context: &CallContext) -> Result<Call, Failure> {
    Filters::of(request).map_err(|error| {
        Failure::new(FailureClass::BadCall, format!("a filter of the agent is not valid: {error}"))
            .with_hint("fix it in the settings")
    })?;
    Ok(Call { idle: IdleWatch::Watch, ..text::call(request, context)? })
}

/// Reads one call.
#[derive(Debug)]
pub(crate) struct CustomTranslator {
    command: String,
    filters: Filters,
    speech: Speech,
    session: Option<String>,
}

#[derive(Debug, Default)]
struct Filters {
    response: Option<Filter>,
    delta: Option<Filter>,
    display: Option<Filter>,
    session: Option<Filter>,
    usage: Option<UsageFilters>,
}

#[derive(Debug)]
struct UsageFilters {
    input: Option<Filter>,
    output: Option<Filter>,
    cache_read: Option<Filter>,
    cache_write: Option<Filter>,
    cost: Option<Filter>,
    scope: UsageScope,
}

impl Filters {
    fn of(request: &Request) -> Result<Self, FilterError> {
        match &request.agent.selectors {
            Some(selectors) => Self::read(selectors),
            None => Ok(Self::default()),
        }
    }

    fn read(selectors: &Selectors) -> Result<Self, FilterError> {
        Ok(Self {
            response: filter(selectors.response.as_deref())?,
            delta: filter(selectors.delta.as_deref())?,
            display: filter(selectors.display.as_deref())?,
            session: filter(selectors.session.as_deref())?,
            usage: Some(UsageFilters::read(&selectors.usage)?),
        })
    }
}

fn filter(text: Option<&str>) -> Result<Option<Filter>, FilterError> {
    text.map(parse).transpose()
}

impl UsageFilters {
    fn read(selectors: &UsageSelectors) -> Result<Self, FilterError> {
        Ok(Self {
            input: filter(selectors.input.as_deref())?,
            output: filter(selectors.output.as_deref())?,
            cache_read: filter(selectors.cache_read.as_deref())?,
            cache_write: filter(selectors.cache_write.as_deref())?,
            cost: filter(selectors.cost.as_deref())?,
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
        let [input, output, cache_read, cache_write] = counts.map(tokens);
        let usage = Usage { input, output, cache_read, cache_write, cost };
        Some(AgentEvent::Usage { usage, scope: self.scope })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the float is clamped to zero, and a saturating cast is what is wanted above"
)]
fn tokens(count: Option<f64>) -> Tokens {
    Tokens(count.unwrap_or(0.0).max(0.0) as u64)
}

impl CustomTranslator {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            command: request.agent.command.clone(),
            // An invalid filter is never used: the call is refused.
            filters: Filters::of(request).unwrap_or_default(),
            speech: Speech::default(),
            session: None,
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Told {
        let line = line.trim();
        if line.is_empty() {
            return Heard::nothing(Weight::Noise).into();
        }
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() || value.is_array() => self.value(&value),
            // A bare number or word is text that happens to be valid JSON.
            Ok(_) | Err(_) => Heard::of(vec![AgentEvent::Unparsed { line: bounded(line) }]).into(),
        }
    }

    fn value(&mut self, line: &Value) -> Told {
        let mut events: Vec<AgentEvent> = self.session(line).into_iter().collect();
        events.extend(self.filters.usage.as_ref().and_then(|usage| usage.read_line(line)));
        let mut text_events = Vec::new();
        if let Some(filter) = &self.filters.delta {
            text_events.extend(self.speech.piece(&filter.texts(line).concat()));
        }
        if let Some(filter) = &self.filters.response {
            let texts = filter.texts(line);
            if !texts.is_empty() {
                text_events.extend(self.speech.whole(&texts.join("\n")));
            }
        }
        let shown = match &self.filters.display {
            None => Shown::Events,
            Some(filter) => {
                let shown = filter.texts(line).into_iter().map(shown_line);
                Shown::Instead(events.iter().cloned().chain(shown).collect())
            }
        };
        events.extend(text_events);
        // Lines that no filter selects are progress, too.
        let parsed = Heard { events, weight: Weight::Useful };
        Told { heard: parsed, answer: Answer::default(), shown }
    }

    /// Reports the session when it is new.
    fn session(&mut self, line: &Value) -> Option<AgentEvent> {
        let id = self.filters.session.as_ref()?.texts(line).pop()?;
        let is_new = self.session.as_ref() != Some(&id);
        self.session = Some(id.clone());
        is_new.then_some(AgentEvent::Session { id: Some(id), model: None, version: None })
    }

    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let silence = "its filters selected no answer in what it printed";
        text::judge(&self.command, silence, evidence)
    }
}

/// Returns a line for display, which never counts.
fn shown_line(text: String) -> AgentEvent {
    let text = if text.ends_with('\n') { text } else { text + "\n" };
    AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Delta }
}
