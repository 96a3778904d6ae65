//! The final answer of an agent that repeats it in its result.
//!
//! The result's text is what the agent considers its answer, so it wins if it differs from the
//! streamed text. Text that was followed by a tool call or by a user message is not an answer,
//! even if a result repeats it. Not here: whether the result was a success.

use ralph_core::reading::{AgentEvent, Speaker, TextForm};

/// The agent's own text since it last called a tool or got a user message.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    said: String,
    /// Text before that, which is no longer the answer.
    earlier: String,
}

impl LastWords {
    /// Records text and returns it as an event.
    pub(super) fn tell(&mut self, text: String, form: TextForm) -> AgentEvent {
        match form {
            TextForm::Message => self.said.clone_from(&text),
            TextForm::Delta => self.said.push_str(&text),
        }
        AgentEvent::Text { text, speaker: Speaker::Agent, form }
    }

    /// Returns whether this is the current text.
    pub(super) fn are(&self, text: &str) -> bool {
        self.said.trim() == text.trim()
    }

    /// Marks the current text as superseded: a tool is called, a user message follows, or the
    /// attempt failed.
    pub(super) fn pass(&mut self) {
        if !self.said.trim().is_empty() {
            self.earlier = std::mem::take(&mut self.said);
        }
    }

    /// Returns the text of a successful result, if it is an answer. Adds an event if it differs
    /// from the streamed text.
    pub(super) fn answer(
        &mut self,
        text: Option<String>,
        events: &mut Vec<AgentEvent>,
    ) -> Option<String> {
        let is_old =
            |text: &String| self.said.trim().is_empty() && text.trim() == self.earlier.trim();
        let Some(text) = text.filter(|text| !is_old(text)) else {
            if self.said.trim().is_empty() {
                events.push(self.tell(String::new(), TextForm::Message));
            }
            return None;
        };
        if !self.are(&text) {
            events.push(self.tell(text.clone(), TextForm::Message));
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
            let mut final_answer = LastWords::default();
            final_answer.tell(streamed.to_owned(), TextForm::Message);
            if tool {
                final_answer.pass();
                final_answer.pass();
            }
            if let Some(later) = later {
                final_answer.tell(later.to_owned(), TextForm::Message);
            }
            let mut events = Vec::new();
            let found = final_answer.answer(result.map(str::to_owned), &mut events);
            assert_eq!(
                (found.as_deref(), events.len()),
                (answer, corrections),
                "{streamed} {result:?}"
            );
        }
    }
}
