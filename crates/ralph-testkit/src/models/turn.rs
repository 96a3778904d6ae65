//! What a scripted model does with a request: answers, refuses, breaks off, or stays silent.
//!
//! Not here: the formats of the providers.

use std::time::Duration;

use serde_json::Value;

/// What the model does with one request.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelTurn {
    Answer(ModelAnswer),
    /// Answers with an HTTP error.
    Refuse(ModelRefusal),
    /// The usage limit is reached, and resets some time after the request.
    Limited {
        resets_in: Duration,
    },
    /// The whole content arrives, and the connection breaks before the end of the stream.
    Drop(ModelAnswer),
    /// The whole content arrives, and the response ends properly, but without the events that end
    /// an answer: no stop reason, no usage. Gateways do this when the model behind them breaks
    /// off.
    EndEarly(ModelAnswer),
    /// The request is accepted, but nothing is ever sent.
    Hang,
    /// The whole content arrives, and then nothing more.
    HangAfter(ModelAnswer),
}

/// An answer: text, then tool calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelAnswer {
    /// May be empty.
    pub text: String,
    pub tools: Vec<ModelToolUse>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelToolUse {
    pub name: String,
    /// The input. A string is for a tool that takes free text.
    pub input: Value,
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRefusal {
    pub status: u16,
    /// The message in the body, whose format depends on the dialect.
    pub message: String,
    pub headers: Vec<(String, String)>,
}

/// Stands for the token that a request demands in the answer.
pub const TOKEN: &str = "$TOKEN";

/// Returns the token in the schema of a request, or in the object at the end of its prompt.
fn find_token(body: &Value) -> Option<String> {
    let in_schema = &body["text"]["format"]["schema"]["properties"]["token"]["enum"][0];
    let in_prompt = || {
        let text = body.to_string();
        let (_, rest) = text.rsplit_once(r#"\"token\": \""#)?;
        rest.split_once('\\').map(|(token, _)| token.to_owned())
    };
    in_schema.as_str().map(str::to_owned).or_else(in_prompt)
}

impl ModelTurn {
    /// Returns an answer with text only.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Answer(ModelAnswer { text: text.into(), tools: Vec::new() })
    }

    /// Returns an answer that calls one tool.
    pub fn from_tool_call(name: impl Into<String>, input: Value) -> Self {
        Self::Answer(ModelAnswer::from_tool_call(name, input))
    }

    /// Returns the same turn with another text, if it has one.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Self {
        match &mut self {
            Self::Answer(answer)
            | Self::Drop(answer)
            | Self::EndEarly(answer)
            | Self::HangAfter(answer) => {
                text.clone_into(&mut answer.text);
            }
            Self::Refuse(_) | Self::Limited { .. } | Self::Hang => {}
        }
        self
    }

    /// Returns the same turn with the token of the request in place of [`TOKEN`].
    #[must_use]
    pub(super) fn with_token(mut self, body: &Value) -> Self {
        if let (Self::Answer(answer), Some(token)) = (&mut self, find_token(body)) {
            answer.text = answer.text.replace(TOKEN, &token);
        }
        self
    }

    /// Returns an HTTP error.
    pub fn from_refusal(status: u16, message: impl Into<String>) -> Self {
        Self::Refuse(ModelRefusal { status, message: message.into(), headers: Vec::new() })
    }
}

impl ModelAnswer {
    /// Returns an answer that calls one tool after a short text.
    pub fn from_tool_call(name: impl Into<String>, input: Value) -> Self {
        let tools = vec![ModelToolUse { name: name.into(), input }];
        Self { text: "Working.".to_owned(), tools }
    }

    /// Returns the text in pieces, as it would arrive: no piece contains a complete tag.
    pub(super) fn split_text(&self) -> Vec<String> {
        let letters: Vec<char> = self.text.chars().collect();
        letters.chunks(7).map(|piece| piece.iter().collect()).collect()
    }
}
