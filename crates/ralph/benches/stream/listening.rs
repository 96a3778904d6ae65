//! Reads a sample over and over, as a call to an agent does.

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;

use ralph_agents as agents;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::ports::AgentRequest;
use ralph_io::process::{OutputLine, OutputLines};
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::Purpose;
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::text::{Excerpt, Truncate};
use ralph_model::units::Millis;

use crate::samples::Sample;

/// Bytes that a full pipe returns at once.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Returns how often a sample makes this many megabytes.
pub(crate) fn rounds(sample: &Sample, megabytes: usize) -> usize {
    (megabytes * 1_000_000).div_ceil(sample.unit.len())
}

/// Reads the sample over and over, as a call to an agent does, without masking.
pub(crate) fn listen(sample: &Sample, rounds: usize, visit: impl FnMut(&AgentEvent)) -> ReplyFold {
    listen_through(sample, rounds, unchanged, visit)
}

fn unchanged(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytes)
}

/// Reads the sample over and over, through a function that changes the bytes.
pub(crate) fn listen_through(
    sample: &Sample,
    rounds: usize,
    mut change: impl for<'a> FnMut(&'a [u8]) -> Cow<'a, [u8]>,
    mut visit: impl FnMut(&AgentEvent),
) -> ReplyFold {
    let mut translator = agents::create_translator(&request(sample.kind), Path::new("/project"));
    let mut reading = ReplyFold::default();
    let mut tail = Excerpt::new(8_000, Truncate::Tail);
    let mut lines = OutputLines::default();
    for _ in 0..rounds {
        for chunk in sample.unit.chunks(CHUNK) {
            lines.push_bytes(&change(chunk), |line| match line {
                OutputLine::Whole(line) => {
                    tail.feed_text(&line);
                    tail.feed_text("\n");
                    for event in &translator.parse_line(&line).events {
                        reading.apply_event(event);
                        visit(event);
                    }
                }
                OutputLine::TooLong { .. } => {}
            });
        }
    }
    black_box(tail.to_text());
    reading
}

fn request(kind: AgentKind) -> AgentRequest {
    AgentRequest {
        run: RunId("20261114-231500-k3f9".to_owned()),
        iteration: IterationNumber(1),
        ask: AskNumber(1),
        role: Role::Prompt,
        task: None,
        purpose: Purpose::Work,
        agent: AgentChoice::new(kind, kind.name()),
        prompt: "Do the work. When all is done, print <promise>COMPLETE</promise>.".to_owned(),
        session: None,
        schema: None,
        soft_limit: Millis::from_mins(1),
        hard_limit: Millis::from_mins(2),
        idle_limit: Millis::from_mins(1),
        cost_left: None,
    }
}
