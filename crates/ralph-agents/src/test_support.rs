//! Support for tests and fuzzing: builds a request, and reads a whole stream the way the port
//! does, without an agent.
//!
//! Not here: recorded streams.

use std::path::Path;

use jiff::tz::TimeZone;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::Reply;
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::Purpose;
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::units::{Millis, Timestamp};

use super::{Evidence, ParsedLine, create_translator, detect_capabilities, judge_call};

/// Returns a request as the loop builds it.
pub fn build_request(kind: AgentKind, flags: &[&str], prompt: &str) -> AgentRequest {
    AgentRequest {
        run: RunId("20261114-231500-k3f9".to_owned()),
        iteration: IterationNumber(3),
        ask: AskNumber(1),
        role: Role::Prompt,
        purpose: Purpose::Work,
        agent: AgentChoice {
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            capabilities: detect_capabilities(kind, None),
            ..AgentChoice::new(kind, kind.name())
        },
        prompt: prompt.to_owned(),
        soft_limit: Millis::from_mins(1),
        hard_limit: Millis::from_mins(2),
        idle_limit: Millis::from_mins(1),
        cost_left: None,
        task: None,
        session: None,
        schema: None,
    }
}

/// Reads a whole stream as the port does.
pub fn read_stream(
    request: &AgentRequest,
    stream: &str,
    stderr: &str,
    ending: Ending,
    now: Timestamp,
) -> (Vec<ParsedLine>, Reply) {
    let mut translator = create_translator(request, Path::new("/project"));
    let mut reading = ReplyFold::with_schema(request.schema.as_deref());
    let mut all: Vec<ParsedLine> = stream.lines().map(|line| translator.parse_line(line)).collect();
    all.push(translator.finish());
    for event in all.iter().flat_map(|parsed| &parsed.events) {
        reading.apply_event(event);
    }
    let end = ChildEnd::from_ending(ending);
    let evidence = Evidence {
        reading: &reading,
        end: &end,
        stderr_tail: stderr,
        stdout_tail: stream,
        now,
        zone: &TimeZone::UTC,
    };
    let failure = judge_call(&translator, &request.agent, &evidence);
    (all, reading.into_reply(end, failure))
}
