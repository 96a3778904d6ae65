//! Judges a compaction: the memory from its answer, or none.
//!
//! A failed compaction does not stop the run: the loop continues with the memory it has.
//! The tree is always restored, whatever the agent did to it.

use ralph_model::failure::{Failure, FailureClass};
use ralph_model::judgement::{Judgement, Landing, Verdict};
use ralph_model::run::{AgentCallEnd, Iteration, RunState};

use crate::memory::{self, read};
use crate::tasks::next_work::find_compaction_trigger;

/// Judges a compaction.
pub(super) fn judge_compaction(state: &RunState, end: &AgentCallEnd) -> Judgement {
    let answer = match end {
        AgentCallEnd::Answered(reply) => {
            let call = state.current.as_ref().and_then(Iteration::work);
            let token = call.and_then(|call| call.token.as_deref());
            let read = read::parse_memory(reply, token);
            read.map_err(|why| Failure::new(FailureClass::Malformed, why))
        }
        AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
            Err(failure.clone())
        }
    };
    match answer {
        Ok(answer) => {
            let compacted =
                memory::carry_over(state.memory.as_deref(), answer, &state.since_compaction);
            let verdict = Verdict::Compacted { trigger: find_compaction_trigger(state) };
            Judgement {
                compacted: Some(Box::new(compacted)),
                ..Judgement::new(verdict, Landing::Rollback, Vec::new())
            }
        }
        Err(failure) => {
            Judgement::new(Verdict::AttemptFailed { failure }, Landing::Rollback, Vec::new())
        }
    }
}
