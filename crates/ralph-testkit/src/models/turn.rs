//! What a scripted model does when it is asked: answers, refuses, breaks off, or says nothing.
//!
//! Not here: how any of it is written in a provider's dialect.

use std::time::Duration;

use serde_json::Value;

/// What the model does with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// It answers.
    Says(Answer),
    /// It answers with an HTTP error.
    Refuses(Refusal),
    /// The account's usage limit is reached, and resets some time after the request came.
    Limited {
        /// How long after the request.
        resets_in: Duration,
    },
    /// The whole content arrives, and the connection breaks before the end of the stream.
    Drops(Answer),
    /// The whole content arrives, and the response ends in order, but without the events that end
    /// an answer: no stop reason, no usage. Gateways do this when the model behind them breaks off.
    EndsEarly(Answer),
    /// The request is accepted, and nothing is ever said.
    Hangs,
    /// The whole content arrives, and then nothing more.
    HangsAfter(Answer),
}

/// An answer: text, then calls of tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// What it says; nothing where it is empty.
    pub text: String,
    /// The tools it calls.
    pub tools: Vec<ToolUse>,
}

/// The call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The tool's name.
    pub name: String,
    /// What it is given. A string stands for a tool that takes free text.
    pub input: Value,
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The message in the body, which has the shape of the dialect.
    pub message: String,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
}

impl Turn {
    /// Returns an answer of text alone.
    pub fn says(text: impl Into<String>) -> Self {
        Self::Says(Answer { text: text.into(), tools: Vec::new() })
    }

    /// Returns an answer that calls one tool.
    pub fn calls(name: impl Into<String>, input: Value) -> Self {
        Self::Says(Answer::calling(name, input))
    }

    /// Returns the same turn with other words, where it has any.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        match &mut self {
            Self::Says(answer)
            | Self::Drops(answer)
            | Self::EndsEarly(answer)
            | Self::HangsAfter(answer) => {
                text.clone_into(&mut answer.text);
            }
            Self::Refuses(_) | Self::Limited { .. } | Self::Hangs => {}
        }
        self
    }

    /// Returns an HTTP error.
    pub fn refuses(status: u16, message: impl Into<String>) -> Self {
        Self::Refuses(Refusal { status, message: message.into(), headers: Vec::new() })
    }
}

impl Answer {
    /// Returns an answer that calls one tool and says a word before.
    pub fn calling(name: impl Into<String>, input: Value) -> Self {
        let tools = vec![ToolUse { name: name.into(), input }];
        Self { text: "Working.".to_owned(), tools }
    }

    /// Returns the text in pieces, as it would arrive: a tag is never in one of them.
    pub(super) fn pieces(&self) -> Vec<String> {
        let letters: Vec<char> = self.text.chars().collect();
        letters.chunks(7).map(|piece| piece.iter().collect()).collect()
    }
}
