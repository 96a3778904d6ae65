//! Folds a resume after a crash or an end into the state.

use super::{AgentCallEnd, AgentCallState, Iteration, RunState};
use crate::event::{ChangesWhileStopped, Checkpoint, Landed};
use crate::gate::Gate;
use crate::ids::IterationNumber;
use crate::judge::Landing;
use crate::ports::IterationMark;
use crate::recipe::Recipe;
use crate::scm;

impl RunState {
    /// Applies a resume, possibly with other policies and a changed work tree.
    pub(super) fn apply_resume(
        &mut self,
        recipe: Option<&Recipe>,
        meanwhile: Option<&ChangesWhileStopped>,
    ) {
        // A run that ended regularly gets new retries; one that crashed continues with
        // what it had left.
        self.unchanged = 0;
        if let (Some(_), Some(current)) = (self.outcome.take(), &mut self.current) {
            current.work.reset_failures();
            current.gate.reset_failures();
            match &current.message.end {
                Some(AgentCallEnd::Answered(reply))
                    if scm::parse_commit_message(&reply.text).is_some() => {}
                Some(_) | None => current.message = AgentCallState::default(),
            }
        }
        if let (Some(meanwhile), Some(current)) = (meanwhile, &mut self.current) {
            current.invalidate_gates(meanwhile, &self.recipe.gates);
        }
        if let Some(recipe) = recipe {
            self.replace_recipe(recipe);
        }
        self.control.drop_pause_and_stop();
    }

    /// Replaces the policies. Drops the results of gates that changed.
    fn replace_recipe(&mut self, recipe: &Recipe) {
        let old = std::mem::replace(&mut self.recipe, recipe.clone());
        let is_same = |name: &str| find_gate(&old, name) == find_gate(recipe, name);
        self.passed_trees.retain(|name, _| is_same(name));
        if let Some(current) = &mut self.current
            && current.judgement.is_none()
        {
            current.gates.retain(|result| is_same(&result.gate));
        }
    }

    /// Returns the mark of the commit that is under way, if its result is unknown.
    pub fn pending_commit(&self) -> Option<IterationMark> {
        let current = self.current.as_ref()?;
        let is_to_land = current.judgement.as_ref()?.landing == Landing::Commit;
        (is_to_land && !current.is_committed()).then(|| self.git_mark())
    }

    /// Returns the state before the work that has not landed: that of the task, or else
    /// of the iteration.
    pub fn unlanded_base(&self) -> Option<&Checkpoint> {
        self.base.as_ref().or(self.current.as_ref()?.checkpoint.as_ref())
    }

    /// Returns the mark for everything done to git in this iteration.
    pub(crate) fn git_mark(&self) -> IterationMark {
        let task = self.current.as_ref().and_then(|current| current.task.clone());
        IterationMark { run: self.run.clone(), iteration: IterationNumber(self.iterations), task }
    }

    /// Returns the state after the agent, if observed.
    pub(crate) fn observed_state(&self) -> Option<Checkpoint> {
        self.observed_state_of(self.current.as_ref()?)
    }

    /// Returns the state after the agent of an iteration.
    pub(super) fn observed_state_of(&self, current: &Iteration) -> Option<Checkpoint> {
        let seen = current.observation()?;
        let (head, branch) = match (&seen.checked_out, self.base.as_ref()?) {
            (_, Checkpoint::None) => return None,
            (Some(at), Checkpoint::Git { .. }) => (&at.head, &at.branch),
            (None, Checkpoint::Git { head, branch, .. }) => (head, branch),
        };
        let (head, branch) = (head.clone(), branch.clone());
        Some(Checkpoint::Git { head, branch, tree: Some(seen.tree.clone()) })
    }

    /// Returns the state that is being checked or is about to land. Nothing during a
    /// read-only agent call, after which everything is restored anyway.
    pub(crate) fn state_under_check(&self) -> Option<Checkpoint> {
        let current = self.current.as_ref().filter(|current| current.pre_question.is_none())?;
        let is_back = |it: &Landed| matches!(it, Landed::RolledBack { .. });
        let is_message_check = |it: &Landed| matches!(it, Landed::MessageChecked { .. });
        let has_begun = !current.landed.iter().all(|it| is_message_check(it) || is_back(it));
        let is_to_land = match &current.judgement {
            None => true,
            Some(judgement) => judgement.landing == Landing::Commit && !has_begun,
        };
        let is_undone = current.landed.iter().any(is_back);
        let state = if is_undone { current.checkpoint.clone() } else { self.observed_state() };
        state.filter(|_| is_to_land)
    }
}

fn find_gate<'a>(recipe: &'a Recipe, name: &str) -> Option<&'a Gate> {
    recipe.gates.iter().find(|gate| gate.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::{self, tests::recipe};
    use crate::event::{Event, Recorded};
    use crate::gate::{GateKind, GateResult, GateStatus, Severity};
    use crate::ids::{Role, RunId};
    use crate::units::{Millis, Timestamp};

    /// Returns the gates that still have results when a run is resumed with this recipe
    /// after both had passed.
    fn gates_with_results(changed: Recipe) -> Vec<String> {
        let passed = |gate: &Gate| {
            let result = choose::build_cached_result(gate, Severity::Hard);
            Event::GateChecked { result: GateResult { status: GateStatus::Passed, ..result } }
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
        events.push(Event::RunResumed { version: "0".into(), recipe, meanwhile: None });
        let recorded = events.into_iter().zip(1..).map(|(event, seq)| Recorded {
            seq,
            at: Timestamp(1_000),
            ran: Millis(0),
            event,
        });
        let state = RunState::fold(&recorded.collect::<Vec<_>>()).expect("the events fit");
        let current = state.current.expect("it is under way");
        current.gates.into_iter().map(|result| result.gate).collect()
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
