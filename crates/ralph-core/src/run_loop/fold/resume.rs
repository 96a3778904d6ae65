//! Folds a resume after a crash or an end into the state.

use ralph_model::agent_call_state::AgentCallEnd;
use ralph_model::outcome::Outcome;
use ralph_model::phase::Phase;
use ralph_model::recipe::Recipe;
use ralph_model::run::RunState;

use crate::landing::scm;

/// Applies a resume, possibly with other policies.
pub(super) fn apply_resume(state: &mut RunState, recipe: Option<&Recipe>) {
    // A run that ended regularly gets new retries; one that crashed continues with
    // what it had left.
    (state.unchanged, state.repeated_failure) = (0, None);
    (state.may_repeat_history_reset, state.are_hooks_tested) = (true, false);
    if let (Some(Outcome::SandboxBlocked { .. }), Some(current)) =
        (&state.outcome, &mut state.current)
        && let Phase::Checking(checking) = &mut current.phase
    {
        checking.gates.retain(|result| !result.is_hard_failure());
    }
    let ended = state.outcome.take();
    if let (Some(_), Some(current)) = (&ended, &mut state.current) {
        current.reset_failures(|end| {
            matches!(end, AgentCallEnd::Answered(reply)
                if scm::parse_commit_message(&reply.text).is_some())
        });
    }
    if let Some(current) = &mut state.current {
        current.record_stop();
    }
    if let Some(recipe) = recipe {
        replace_recipe(state, recipe);
    }
    state.control.drop_pause_and_stop();
    // The user may know that the limit is lifted.
    let asks_again = matches!(ended, Some(Outcome::LimitTooLong { .. }));
    if asks_again {
        state.control.holds.clear();
    }
    if let Some(parallel) = &mut state.parallel {
        parallel.stop_all_workers();
        parallel.ending = None;
        if asks_again {
            parallel.ask_again();
        }
    }
}

/// Replaces the policies. Drops the results of gates that changed.
fn replace_recipe(state: &mut RunState, recipe: &Recipe) {
    let old = std::mem::replace(&mut state.recipe, recipe.clone());
    let is_same = |name: &str| old.find_gate(name) == recipe.find_gate(name);
    state.passed_trees.retain(|name, _| is_same(name));
    if let Some(Phase::Checking(checking)) = state.current.as_mut().map(|it| &mut it.phase) {
        checking.gates.retain(|result| is_same(&result.gate));
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::event::{Event, Recorded};
    use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
    use ralph_model::ids::{IterationNumber, Role, RunId};
    use ralph_model::units::{Millis, Timestamp};

    use super::*;
    use crate::run_loop::choose;
    use crate::run_loop::choose::tests::recipe;
    use crate::run_loop::fold::fold_events;

    /// Returns the gates that still have results when a run is resumed with this recipe
    /// after both had passed.
    fn gates_with_results(changed: Recipe) -> Vec<String> {
        let passed = |gate: &Gate| {
            let result = choose::build_cached_result(gate, Severity::Hard);
            let result = GateResult { status: GateStatus::Passed, ..result };
            Event::GateChecked { result, survey: None }
        };
        let before = with_gates(["one", "two"]);
        let mut events = vec![
            Event::RunStarted {
                journal: 1,
                version: "0".into(),
                run: RunId("r".into()),
                project: "/p".into(),
                recipe: Box::new(before.clone()),
            },
            Event::IterationStarted {
                iteration: IterationNumber(1),
                role: Role::Prompt,
                task: None,
            },
        ];
        events.extend(before.gates.iter().map(passed));
        let recipe = Some(Box::new(changed));
        events.push(Event::RunResumed { version: "0".into(), recipe });
        let recorded = events.into_iter().zip(1..).map(|(event, seq)| Recorded {
            seq,
            at: Timestamp(1_000),
            ran: Millis(0),
            event,
        });
        let state = fold_events(&recorded.collect::<Vec<_>>()).expect("the events fit");
        let current = state.current.expect("it is under way");
        current.gates().iter().map(|result| result.gate.clone()).collect()
    }

    fn with_gates(commands: [&str; 2]) -> Recipe {
        let gates = commands.into_iter().zip(["first", "second"]);
        let gates = gates.map(|(command, name)| Gate {
            name: name.to_owned(),
            ..Gate::for_command(GateKind::Test, command)
        });
        Recipe { gates: gates.collect(), ..recipe() }
    }

    #[test]
    fn a_changed_gate_loses_its_result() {
        assert_eq!(gates_with_results(with_gates(["one", "two"])), ["first", "second"]);
        assert_eq!(gates_with_results(with_gates(["other", "two"])), ["second"]);
        assert_eq!(gates_with_results(with_gates(["one", "other"])), ["first"]);
        assert_eq!(gates_with_results(Recipe { gates: Vec::new(), ..recipe() }), [""; 0]);
    }
}
