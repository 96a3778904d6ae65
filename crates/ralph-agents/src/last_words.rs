//! The last words of an agent that repeats its answer in its result.
//!
//! The result's text is what the agent takes for its answer, so it wins where it differs from
//! what was told; but words that a tool call or a reply has followed are no answer, even if a
//! result repeats them. Not here: whether the result was a success.

use ralph_core::reading::{AgentEvent, Speaker, TextForm};

/// What has been told of the agent's own words since it last called a tool or was answered.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    said: String,
    /// What was said before that, and is no longer the last word.
    earlier: String,
}

impl LastWords {
    /// Returns words as an event, and remembers them.
    pub(super) fn tell(&mut self, text: String, form: TextForm) -> AgentEvent {
        match form {
            TextForm::Message => self.said.clone_from(&text),
            TextForm::Delta => self.said.push_str(&text),
        }
        AgentEvent::Text { text, speaker: Speaker::Agent, form }
    }

    /// Returns whether these are the last words.
    pub(super) fn are(&self, text: &str) -> bool {
        self.said.trim() == text.trim()
    }

    /// Notes that what was said is not the last word: a tool is called, somebody
    /// answers, or the attempt failed.
    pub(super) fn pass(&mut self) {
        if !self.said.trim().is_empty() {
            self.earlier = std::mem::take(&mut self.said);
        }
    }

    /// Returns the text of a successful result, as far as it is an answer. What was told is put
    /// right by an event where it differs.
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
    fn a_result_wins_unless_it_is_older_than_a_tool_call() {
        for (said, tool, later, result, answer, corrections) in [
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
            let mut words = LastWords::default();
            words.tell(said.to_owned(), TextForm::Message);
            if tool {
                words.pass();
                words.pass();
            }
            if let Some(later) = later {
                words.tell(later.to_owned(), TextForm::Message);
            }
            let mut events = Vec::new();
            let found = words.answer(result.map(str::to_owned), &mut events);
            assert_eq!(
                (found.as_deref(), events.len()),
                (answer, corrections),
                "{said} {result:?}"
            );
        }
    }
}
