//! The events of a run as JSON, one on a line, for programs.
//!
//! The same form as in the journal: fields are added, never renamed. Not here: what the agent
//! says as it happens; its stream is kept raw elsewhere.

use std::io::{self, Write};

use ralph_core::event::Recorded;
use ralph_core::ports::{Activity, Ui};
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;

use crate::writer::Swallow;

/// Writes each recorded event as one line of JSON.
#[derive(Debug)]
pub struct JsonView<W> {
    out: Swallow<W>,
}

impl<W: Write> JsonView<W> {
    /// Returns a view that writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out: Swallow::new(out) }
    }

    /// Returns the first error of the writer, if there was one.
    pub fn first_error(&self) -> Option<&io::Error> {
        self.out.first_error()
    }
}

impl<W: Write> Ui for JsonView<W> {
    fn tell(&mut self, recorded: &Recorded, _: &RunState) {
        match serde_json::to_vec(recorded) {
            Ok(mut line) => {
                line.push(b'\n');
                self.out.put(&line);
            }
            // A project directory whose name is no text cannot be written as JSON.
            Err(error) => self.out.remember(error.into()),
        }
    }

    fn hear(&mut self, _: &AgentEvent) {}

    fn doing(&mut self, _: &Activity<'_>) {}
}
