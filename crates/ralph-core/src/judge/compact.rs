//! Judges a compaction: the memory from its answer, or none.
//!
//! A failed compaction does not stop the run: the loop continues with the memory it has.
//! The tree is always restored, whatever the agent did to it.

use super::{Judgement, Landing, Verdict};
use crate::failure::{Failure, FailureClass};
use crate::memory::{self, read};
use crate::run::{AgentCallEnd, RunState};

/// Judges a compaction.
pub(super) fn judge_compaction(state: &RunState, end: &AgentCallEnd) -> Judgement {
    let answer = match end {
        AgentCallEnd::Answered(reply) => {
            read::parse_memory(reply).map_err(|why| Failure::new(FailureClass::Malformed, why))
        }
        AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
            Err(failure.clone())
        }
    };
    match answer {
        Ok(answer) => {
            let compacted =
                memory::carry_over(state.memory.as_deref(), answer, &state.since_compaction);
            let verdict = Verdict::Compacted { trigger: state.compaction_trigger() };
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
