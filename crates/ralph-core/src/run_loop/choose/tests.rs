//! Single choices that complete runs rarely reach.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::RunId;
use ralph_model::recipe::{PromptSource, RunLimits};
use ralph_model::units::Millis;
use ralph_model::worktree::Checkpoint;

use super::*;
use crate::run_loop::fold::fold_events;

pub(crate) fn recipe() -> Recipe {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let recipe = Recipe::new(Work::Prompt(PromptSource::Text("base".into())), agent);
    let delay = Millis::from_secs(30);
    Recipe { limits: RunLimits { iterations: 2, delay, ..recipe.limits.clone() }, ..recipe }
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
    fold_events(&recorded).expect("the events fit")
}

#[track_caller]
fn check(events: Vec<Event>, now: i64, stop: StopRequest, expect: &Step) {
    let moment = Moment { now: Timestamp(now), ran: Millis(0), stop };
    assert_eq!(&choose_next_step(&after(events), moment), expect);
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
fn iterations_wait_for_the_delay_and_stop_at_the_limit() {
    let begin =
        |number| Step::Begin { iteration: IterationNumber(number), role: Role::Prompt, task: None };
    check(vec![], 1_000, StopRequest::Continue, &begin(1));
    check(vec![begun(1)], 1_000, StopRequest::Continue, &Step::Checkpoint(CheckpointDepth::Head));
    let wait = Step::Wait { until: Timestamp(31_000), reason: WaitReason::Delay };
    check(vec![begun(1), ended(1)], 1_000, StopRequest::Continue, &wait);
    check(vec![begun(1), ended(1)], 31_000, StopRequest::Continue, &begin(2));
    let used_up = Step::Finish(Outcome::IterationsUsedUp { limit: 2 });
    check(vec![begun(1), ended(1), begun(2), ended(2)], 1_000, StopRequest::Continue, &used_up);
}

#[test]
fn a_stop_request_comes_before_everything() {
    let interrupted = || Step::Finish(Outcome::Interrupted);
    check(vec![], 1_000, StopRequest::Stop, &interrupted());
    check(vec![begun(1)], 1_000, StopRequest::Stop, &interrupted());
}

#[test]
fn a_started_call_is_recovered_before_it_is_repeated() {
    let asked = Event::Asked {
        ask: AskNumber(1),
        role: Role::Prompt,
        purpose: Purpose::Work,
        agent: AgentKind::Text,
        command: Vec::new(),
        prompt_chars: 4,
        prompt_start: "base".into(),
        budget: Vec::new(),
        token: None,
        session: None,
        instructions: Vec::new(),
    };
    let checkpointed = Event::Checkpointed { checkpoint: Checkpoint::None };
    let recover = Step::Recover { ask: AskNumber(1), purpose: Purpose::Work };
    check(vec![begun(1), checkpointed, asked], 1_000, StopRequest::Continue, &recover);
}
