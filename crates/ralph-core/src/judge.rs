//! The judgement: what follows from an iteration once the gates have spoken.
//!
//! Pure, and recorded before anything is done to the tree. Not here: doing it.

use serde::{Deserialize, Serialize};

use crate::completion;
use crate::failure::Failure;
use crate::gate::{self, FailAction, GateResult};
use crate::reading::Reply;
use crate::recipe::{CommitPolicy, OnFailure, Recipe};

/// What follows from an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What the gates and the agent's word come to.
    pub verdict: Verdict,
    /// What becomes of the work tree.
    pub landing: Landing,
    /// What the next iteration is told.
    pub feedback: Vec<Feedback>,
}

/// What the gates and the agent's word come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// All hard gates passed and the agent gave the completion response.
    Complete,
    /// All hard gates passed; the agent did not say that it is done.
    Passed {
        /// What it said instead in a completion tag, if it used one.
        signal: Option<String>,
    },
    /// A hard gate failed. What the agent says of completion is not looked at.
    GatesFailed {
        /// The gates that failed.
        gates: Vec<String>,
    },
    /// The agent brought no answer.
    AttemptFailed {
        /// Why.
        failure: Failure,
    },
}

/// What becomes of the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landing {
    /// It stays as it is.
    Keep,
    /// It is committed by the recipe's policy.
    Commit,
    /// It goes back to the checkpoint.
    Rollback,
}

/// Something the next iteration is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The text.
    pub text: String,
    /// How it joins the prompt.
    pub action: FailAction,
}

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub enum Evidence<'a> {
    /// The agent answered, and the gates were run.
    Answered {
        /// The answer.
        reply: &'a Reply,
        /// The results of the gates.
        gates: &'a [GateResult],
    },
    /// The agent brought no answer, and the attempt counts as failed.
    Failed(&'a Failure),
}

/// Judges an iteration.
pub fn judge(recipe: &Recipe, evidence: Evidence<'_>) -> Judgement {
    match evidence {
        Evidence::Failed(failure) => Judgement {
            verdict: Verdict::AttemptFailed { failure: failure.clone() },
            // A failure that is not the work's fault never rolls anything back.
            landing: Landing::Keep,
            feedback: vec![Feedback {
                text: format!(
                    "The previous iteration was ended before it finished ({}). Its changes are still in the work tree.",
                    failure.words
                ),
                action: FailAction::Append,
            }],
        },
        Evidence::Answered { gates, .. } if gates.iter().any(GateResult::is_hard_failure) => {
            let failed = gates.iter().filter(|result| result.is_hard_failure());
            Judgement {
                verdict: Verdict::GatesFailed {
                    gates: failed.clone().map(|result| result.gate.clone()).collect(),
                },
                landing: match recipe.landing.on_failure {
                    OnFailure::Keep => Landing::Keep,
                    OnFailure::Rollback => Landing::Rollback,
                },
                feedback: failed.filter_map(|result| gate_feedback(recipe, result)).collect(),
            }
        }
        Evidence::Answered { reply, .. } => Judgement {
            verdict: match &reply.signal {
                Some(signal) if completion::is_match(signal, &recipe.completion_response) => {
                    Verdict::Complete
                }
                signal => Verdict::Passed { signal: signal.clone() },
            },
            landing: match recipe.landing.commit {
                CommitPolicy::Ralph | CommitPolicy::Scm(_) => Landing::Commit,
                CommitPolicy::Agent | CommitPolicy::Nobody => Landing::Keep,
            },
            feedback: Vec::new(),
        },
    }
}

fn gate_feedback(recipe: &Recipe, result: &GateResult) -> Option<Feedback> {
    let gate = recipe.gates.iter().find(|gate| gate.name == result.gate)?;
    Some(Feedback { text: gate::failure_message(gate, result), action: gate.fail_action })
}
