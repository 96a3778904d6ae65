//! What a scripted model does with a request: answers, refuses, breaks off, or stays silent.
//!
//! Not here: the formats of the providers.

use std::time::Duration;

use serde_json::Value;

/// What the model does with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    Says(Answer),
    /// Answers with an HTTP error.
    Refuses(Refusal),
    /// The usage limit is reached, and resets some time after the request.
    Limited {
        resets_in: Duration,
    },
    /// The whole content arrives, and the connection breaks before the end of the stream.
    Drops(Answer),
    /// The whole content arrives, and the response ends properly, but without the events that end
    /// an answer: no stop reason, no usage. Gateways do this when the model behind them breaks
    /// off.
    EndsEarly(Answer),
    /// The request is accepted, but nothing is ever sent.
    Hangs,
    /// The whole content arrives, and then nothing more.
    HangsAfter(Answer),
}

/// An answer: text, then tool calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// May be empty.
    pub text: String,
    pub tools: Vec<ToolUse>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    pub name: String,
    /// The input. A string is for a tool that takes free text.
    pub input: Value,
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// The message in the body, whose format depends on the dialect.
    pub message: String,
    pub headers: Vec<(String, String)>,
}

impl Turn {
    /// Returns an answer with text only.
    pub fn says(text: impl Into<String>) -> Self {
        Self::Says(Answer { text: text.into(), tools: Vec::new() })
    }

    /// Returns an answer that calls one tool.
    pub fn calls(name: impl Into<String>, input: Value) -> Self {
        Self::Says(Answer::calling(name, input))
    }

    /// Returns the same turn with another text, if it has one.
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
    /// Returns an answer that calls one tool after a short text.
    pub fn calling(name: impl Into<String>, input: Value) -> Self {
        let tools = vec![ToolUse { name: name.into(), input }];
        Self { text: "Working.".to_owned(), tools }
    }

    /// Returns the text in pieces, as it would arrive: no piece contains a complete tag.
    pub(super) fn pieces(&self) -> Vec<String> {
        let letters: Vec<char> = self.text.chars().collect();
        letters.chunks(7).map(|piece| piece.iter().collect()).collect()
    }
}
