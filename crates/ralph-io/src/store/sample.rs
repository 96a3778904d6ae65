//! A small run for the tests of this module.
//!
//! Not here: random runs. The test kit has those.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::{Event, JOURNAL_VERSION, Recorded};
use ralph_model::ids::{IterationNumber, Role, RunId, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{PromptSource, Recipe, Work};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::Checkpoint;

/// Returns the events of a run with two iterations.
pub(super) fn build_events() -> Vec<Recorded> {
    let iteration = |number| {
        let iteration = IterationNumber(number);
        let task = Some(TaskId(format!("T-{number} ä")));
        [
            Event::IterationStarted { iteration, role: Role::Prompt, task },
            Event::Checkpointed { checkpoint: Checkpoint::None },
            Event::Warned { text: "line one\nline two".into() },
            Event::IterationEnded { iteration },
        ]
    };
    let started = Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: "0.1.0".into(),
        run: RunId("20261114-231500-k3f9".into()),
        project: "/project".into(),
        recipe: Box::new(build_recipe()),
    };
    [started]
        .into_iter()
        .chain(iteration(1))
        .chain(iteration(2))
        .chain([Event::RunEnded { outcome: Outcome::Complete, left: None }])
        .zip(1_u64..)
        .map(|(event, seq)| Recorded {
            seq,
            at: Timestamp(1_794_700_000_000 + seq.cast_signed()),
            ran: Millis(seq),
            event,
        })
        .collect()
}

fn build_recipe() -> Recipe {
    let agent = AgentChoice::new(AgentKind::Sim, "sim");
    Recipe::new(Work::Prompt(PromptSource::Text("Do it.".into())), agent)
}
