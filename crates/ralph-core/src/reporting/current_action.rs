//! What a run is doing right now: the last action of the agent, or the gate that runs.
//!
//! Built from what the views see, and shown by the terminal, `status` and `serve`. It is not in the
//! journal. Not here: where it is kept for other processes.

use ralph_model::agent_output::{AgentEvent, Speaker, TextForm, Usage, UsageScope};
use ralph_model::event::{Event, Recorded};
use ralph_model::run::RunState;
use ralph_model::text::shorten_to_line;
use ralph_model::units::{Timestamp, Tokens, UsdMicros};
use serde::{Deserialize, Serialize};

use crate::ports::Activity;

/// About two lines of a terminal.
const LONGEST: usize = 160;

/// No agent has more open tool calls.
const MOST_TOOLS: usize = 64;

/// What a run is doing right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentAction {
    /// The action, in one line.
    pub action: String,
    /// When the agent call or the gate began.
    pub since: Timestamp,
    /// How many tools the agent has called in this call.
    pub tools: u32,
    /// The tokens of the run so far, as far as agents have reported them.
    pub tokens: Tokens,
    /// The cost of the run so far, if agents report it.
    pub cost: Option<UsdMicros>,
}

/// Derives the current action from what a view sees.
#[derive(Debug, Default)]
pub struct ActionTracker {
    current: Option<CurrentAction>,
    /// The usage of the run before this call, and of this call.
    before: Usage,
    call: Usage,
    /// Tool calls without a result, oldest first: their ids and what they do.
    tools: Vec<(String, String)>,
    /// The text that the agent writes, from its last line break on.
    line: String,
}

impl ActionTracker {
    /// Returns what the run is doing, unless it is between two steps.
    pub fn current(&self) -> Option<&CurrentAction> {
        self.current.as_ref()
    }

    /// Applies an event of the journal: one begins an agent call, and all others but warnings, which
    /// may come during a call, end what went on.
    pub fn apply_event(&mut self, recorded: &Recorded, state: &RunState) {
        if let Event::Warned { .. } = &recorded.event {
            return;
        }
        *self = Self::default();
        if let Event::Asked { agent, .. } = &recorded.event {
            self.before = state.total_usage();
            self.begin_action(format!("waiting for {}", agent.name()), recorded.at);
        }
    }

    /// Applies the start of a gate.
    pub fn apply_activity(&mut self, activity: &Activity<'_>, now: Timestamp) {
        if let Activity::Gate(gate) = activity {
            self.begin_action(format!("gate {}", gate.name), now);
        }
    }

    /// Applies an event of the agent.
    pub fn apply_agent_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Text { text, speaker: Speaker::Agent, form } => {
                if *form == TextForm::Message {
                    self.line.clear();
                }
                self.add_text(text);
            }
            AgentEvent::Reasoning { .. } => self.set_action("thinking"),
            AgentEvent::ToolStarted { id, name, summary, .. } => self.begin_tool(id, name, summary),
            AgentEvent::ToolEnded { id, .. } => self.end_tool(id),
            AgentEvent::FileChanged { path } => self.set_action(&format!("changed {path}")),
            AgentEvent::Usage { usage, scope } => {
                self.call = match scope {
                    UsageScope::Step => self.call.plus(*usage),
                    UsageScope::Total => *usage,
                };
                self.update_usage();
            }
            AgentEvent::Text { .. }
            | AgentEvent::Session { .. }
            | AgentEvent::Todo { .. }
            | AgentEvent::FileEdited { .. }
            | AgentEvent::RateLimit { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::SoftLimitPassed
            | AgentEvent::StillRunning { .. }
            | AgentEvent::Result { .. }
            | AgentEvent::Unparsed { .. } => {}
        }
    }

    fn begin_action(&mut self, action: String, since: Timestamp) {
        (self.tools, self.line) = (Vec::new(), String::new());
        let (tools, tokens, cost) = (0, Tokens::default(), None);
        self.current = Some(CurrentAction { action, since, tools, tokens, cost });
        self.update_usage();
    }

    fn set_action(&mut self, action: &str) {
        if let Some(current) = &mut self.current {
            current.action = shorten_to_line(action.trim(), LONGEST);
        }
    }

    fn begin_tool(&mut self, id: &str, name: &str, summary: &str) {
        let action =
            if summary.is_empty() { name.to_owned() } else { format!("{name}: {summary}") };
        let action = shorten_to_line(&action, LONGEST);
        self.set_action(&action);
        if let Some(current) = &mut self.current {
            current.tools = current.tools.saturating_add(1);
        }
        self.line.clear();
        self.tools.truncate(MOST_TOOLS);
        self.tools.push((id.to_owned(), action));
    }

    fn end_tool(&mut self, id: &str) {
        self.tools.retain(|(known, _)| known != id);
        let action = self.tools.last().map_or("thinking", |(_, action)| action).to_owned();
        self.set_action(&action);
    }

    /// Shows the last line of the text that is not blank.
    fn add_text(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            if self.line.ends_with('\n') {
                self.line.clear();
            }
            if self.line.len() < LONGEST {
                self.line.extend(piece.chars().take(LONGEST));
            } else if piece.ends_with('\n') {
                self.line.push('\n');
            }
            if !self.line.trim().is_empty() {
                let line = std::mem::take(&mut self.line);
                self.set_action(&line);
                self.line = line;
            }
        }
    }

    fn update_usage(&mut self) {
        let usage = self.before.plus(self.call);
        if let Some(current) = &mut self.current {
            (current.tokens, current.cost) = (usage.tokens(), usage.cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::agent_output::ToolOutcome;

    use super::*;

    fn tool(id: &str, summary: &str) -> AgentEvent {
        let (id, name, summary) = (id.to_owned(), "Bash".to_owned(), summary.to_owned());
        AgentEvent::ToolStarted { id, name, summary, speaker: Speaker::Agent }
    }

    fn ended(id: &str) -> AgentEvent {
        AgentEvent::ToolEnded { id: id.to_owned(), outcome: ToolOutcome::Ok, output: String::new() }
    }

    fn text(text: &str) -> AgentEvent {
        let (speaker, form) = (Speaker::Agent, TextForm::Delta);
        AgentEvent::Text { text: text.to_owned(), speaker, form }
    }

    #[test]
    fn the_action_follows_tools_and_text() {
        let mut tracker = ActionTracker::default();
        tracker.apply_agent_event(&tool("0", "ignored"));
        assert_eq!(tracker.current(), None, "no call is under way");
        tracker.begin_action("waiting for sim".to_owned(), Timestamp(5));
        let steps = [
            (text("I look"), "I look"),
            (text(" first.\n"), "I look first."),
            (text("\n"), "I look first."),
            (tool("1", "cargo test"), "Bash: cargo test"),
            (tool("2", "ls\nmore"), "Bash: ls more"),
            (ended("2"), "Bash: cargo test"),
            (ended("1"), "thinking"),
            (AgentEvent::FileChanged { path: "a.rs".to_owned() }, "changed a.rs"),
            (AgentEvent::Notice { text: "retry".to_owned() }, "changed a.rs"),
        ];
        for (event, expect) in steps {
            tracker.apply_agent_event(&event);
            let found = tracker.current().map(|it| it.action.as_str());
            assert_eq!(found, Some(expect), "{event:?}");
        }
        tracker.apply_agent_event(&text(&"x".repeat(1_000)));
        let current = tracker.current().expect("an action");
        assert!(current.action.chars().count() <= LONGEST + 3, "{}", current.action);
        assert_eq!((current.since, current.tools), (Timestamp(5), 2));
    }

    #[test]
    fn usage_adds_to_that_of_earlier_calls() {
        let usage = |output, cost| Usage {
            output: Tokens(output),
            cost: Some(UsdMicros(cost)),
            ..Usage::default()
        };
        let mut tracker = ActionTracker { before: usage(100, 10), ..ActionTracker::default() };
        tracker.begin_action("waiting".to_owned(), Timestamp(0));
        for (event, tokens, cost) in [
            ((usage(5, 1), UsageScope::Step), 105, 11),
            ((usage(5, 1), UsageScope::Step), 110, 12),
            ((usage(50, 7), UsageScope::Total), 150, 17),
        ] {
            tracker.apply_agent_event(&AgentEvent::Usage { usage: event.0, scope: event.1 });
            let current = tracker.current().expect("an action");
            assert_eq!((current.tokens, current.cost), (Tokens(tokens), Some(UsdMicros(cost))));
        }
    }
}
