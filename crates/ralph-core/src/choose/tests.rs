//! Single choices that whole runs seldom reach.

use std::collections::BTreeMap;

use super::*;
use crate::budget::Budget;
use crate::event::{Checkpoint, Event, Recorded};
use crate::failure::{RateLimitPolicy, Retries};
use crate::gate::ValidationStrategy;
use crate::ids::RunId;
use crate::recipe::{
    AgentChoice, AgentKind, IterationCount, LandingPolicy, PromptPlan, PromptSource, RunLimits,
};
use crate::units::Millis;

pub(crate) fn recipe() -> Recipe {
    Recipe {
        workflow: "prompt".into(),
        work: Work::Prompt(PromptSource::Text("base".into())),
        agent: AgentChoice::new(AgentKind::Text, "agent"),
        agents: BTreeMap::new(),
        escalate: None,
        prompt: PromptPlan { iteration_count: IterationCount::Hidden, output_chars: 5000 },
        gates: Vec::new(),
        strategy: ValidationStrategy::Strict,
        completion_response: "DONE".into(),
        landing: LandingPolicy {
            commit: CommitPolicy::Nobody,
            commit_prefix: "ralph".into(),
            on_failure: OnFailure::Keep,
        },
        retries: Retries { max: 3, backoff: Millis::from_secs(5) },
        rate_limit: RateLimitPolicy { wait: Patience::Wait, max_wait: Millis::from_mins(360) },
        limits: RunLimits {
            iterations: 2,
            budget: Budget::default(),
            ask_soft: Millis::from_mins(12),
            ask_hard: Millis::from_mins(20),
            ask_idle: Millis::from_mins(10),
            delay: Millis::from_secs(30),
        },
    }
}

fn after(events: Vec<Event>) -> RunState {
    let first = Event::RunStarted {
        journal: 1,
        version: "0".into(),
        run: RunId("r".into()),
        project: "/p".into(),
        recipe: Box::new(recipe()),
    };
    let recorded: Vec<Recorded> = std::iter::once(first)
        .chain(events)
        .zip(1..)
        .map(|(event, seq)| Recorded { seq, at: Timestamp(1_000), ran: Millis(0), event })
        .collect();
    RunState::fold(&recorded).expect("the events fit")
}

#[track_caller]
fn check(events: Vec<Event>, now: i64, stop: StopWish, expect: &Step) {
    let moment = Moment { now: Timestamp(now), ran: Millis(0), stop };
    assert_eq!(&next(&after(events), moment), expect);
}

fn begun(iteration: u32) -> Event {
    Event::IterationStarted {
        iteration: IterationNumber(iteration),
        role: Role::Prompt,
        task: None,
    }
}

fn ended(iteration: u32) -> Event {
    Event::IterationEnded { iteration: IterationNumber(iteration) }
}

#[test]
fn iterations_begin_end_and_keep_their_distance() {
    let begin = |number| Step::Begin { iteration: IterationNumber(number), role: Role::Prompt };
    check(vec![], 1_000, StopWish::GoOn, &begin(1));
    check(vec![begun(1)], 1_000, StopWish::GoOn, &Step::Checkpoint(Depth::Head));
    let wait = Step::Wait { until: Timestamp(31_000), reason: WaitReason::Delay };
    check(vec![begun(1), ended(1)], 1_000, StopWish::GoOn, &wait);
    check(vec![begun(1), ended(1)], 31_000, StopWish::GoOn, &begin(2));
    let used_up = Step::Finish(Outcome::IterationsUsedUp { limit: 2 });
    check(vec![begun(1), ended(1), begun(2), ended(2)], 1_000, StopWish::GoOn, &used_up);
}

#[test]
fn a_wish_to_stop_comes_before_everything() {
    let interrupted = || Step::Finish(Outcome::Interrupted);
    check(vec![], 1_000, StopWish::Stop, &interrupted());
    check(vec![begun(1)], 1_000, StopWish::Stop, &interrupted());
}

#[test]
fn a_call_that_was_begun_is_looked_for_before_it_is_repeated() {
    let asked = Event::Asked {
        ask: AskNumber(1),
        role: Role::Prompt,
        agent: AgentKind::Text,
        command: Vec::new(),
        prompt_chars: 4,
        prompt_start: "base".into(),
    };
    let checkpointed = Event::Checkpointed { checkpoint: Checkpoint::None };
    let recover = Step::Recover { ask: AskNumber(1), role: Role::Prompt };
    check(vec![begun(1), checkpointed, asked], 1_000, StopWish::GoOn, &recover);
}
