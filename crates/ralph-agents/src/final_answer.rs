//! The final answer of an agent that repeats it in its result.
//!
//! The result's text is what the agent considers its answer, so it wins if it differs from the
//! streamed text. Text that was followed by a tool call or by a user message is not an answer,
//! even if a result repeats it. Not here: whether the result was a success.

use ralph_model::agent_output::{AgentEvent, Speaker, TextForm};

/// The agent's own text since it last called a tool or got a user message.
#[derive(Debug, Default)]
pub(super) struct FinalAnswer {
    current: String,
    /// Text before that, which is no longer the answer.
    superseded: String,
}

impl FinalAnswer {
    /// Records text and returns it as an event.
    pub(super) fn record_text(&mut self, text: String, form: TextForm) -> AgentEvent {
        match form {
            TextForm::Message => self.current.clone_from(&text),
            TextForm::Delta => self.current.push_str(&text),
        }
        AgentEvent::Text { text, speaker: Speaker::Agent, form }
    }

    /// Returns whether this is the current text.
    pub(super) fn is_current_text(&self, text: &str) -> bool {
        self.current.trim() == text.trim()
    }

    /// Marks the current text as superseded: a tool is called, a user message follows, or the
    /// attempt failed.
    pub(super) fn supersede_text(&mut self) {
        if !self.current.trim().is_empty() {
            self.superseded = std::mem::take(&mut self.current);
        }
    }

    /// Returns the text of a successful result, if it is an answer. Adds an event if it differs
    /// from the streamed text.
    pub(super) fn take_result_text(
        &mut self,
        text: Option<String>,
        events: &mut Vec<AgentEvent>,
    ) -> Option<String> {
        let is_old =
            |text: &String| self.current.trim().is_empty() && text.trim() == self.superseded.trim();
        let Some(text) = text.filter(|text| !is_old(text)) else {
            if self.current.trim().is_empty() {
                events.push(self.record_text(String::new(), TextForm::Message));
            }
            return None;
        };
        if !self.is_current_text(&text) {
            events.push(self.record_text(text.clone(), TextForm::Message));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_text_wins_unless_superseded() {
        for (streamed, tool, later, result, answer, corrections) in [
            ("a", false, None, Some("a"), Some("a"), 0),
            ("a", false, None, Some(" a\n"), Some(" a\n"), 0),
            ("a", false, None, Some("b"), Some("b"), 1),
            ("a", false, None, Some(""), Some(""), 1),
            ("a", false, None, None, None, 0),
            ("a", true, None, Some("a"), None, 1),
            ("a", true, None, None, None, 1),
            ("a", true, None, Some("b"), Some("b"), 1),
            ("a", true, Some("a"), Some("a"), Some("a"), 0),
        ] {
            let mut final_answer = FinalAnswer::default();
            final_answer.record_text(streamed.to_owned(), TextForm::Message);
            if tool {
                final_answer.supersede_text();
                final_answer.supersede_text();
            }
            if let Some(later) = later {
                final_answer.record_text(later.to_owned(), TextForm::Message);
            }
            let mut events = Vec::new();
            let found = final_answer.take_result_text(result.map(str::to_owned), &mut events);
            assert_eq!(
                (found.as_deref(), events.len()),
                (answer, corrections),
                "{streamed} {result:?}"
            );
        }
    }
}
