//! Judges an iteration, and warns about what the judgement found.
//!
//! Not here: the judgement itself (`judge`).

use ralph_model::event::Event;
use ralph_model::gate::Severity;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::judgement::Verdict;
use ralph_model::phase::Iteration;
use ralph_model::plan::PlanState;
use ralph_model::recipe::{CommitOwner, PlanPart};
use ralph_model::worktree::TreeDiff;

use super::{Engine, EngineError};
use crate::ports::View;
use crate::run_loop::choose::select_due_gates;
use crate::run_loop::judge;
use crate::run_loop::repeated_failure::find_repeated_failure;

impl Engine<'_> {
    /// Returns a warning if this attempt took the task past its soft time limit.
    pub(super) fn find_overdue_warning(
        &self,
        judgement: &ralph_model::judgement::Judgement,
    ) -> Option<String> {
        let failed = judgement.failed.as_ref().filter(|failed| failed.gives_up.is_none())?;
        let work = self.state.recipe.task_work()?;
        let task = self.map_current(|current| current.task.clone()).flatten()?;
        let before = self.state.tasks.as_ref()?.attempt_log(&task).spent;
        let spent = before.saturating_add(self.state.ran_in_iteration());
        (before < work.soft_limit && spent >= work.soft_limit).then(|| {
            format!(
                "task {task} has taken longer than {} by attempt {}; it is given up at {}",
                work.soft_limit, failed.attempt.iteration, work.hard_limit
            )
        })
    }

    /// Returns warnings about work that is accepted as complete.
    pub(super) fn find_completion_warnings(
        &self,
        judgement: &ralph_model::judgement::Judgement,
    ) -> Vec<String> {
        let (Verdict::Complete, Some(current)) = (&judgement.verdict, &self.state.current) else {
            return Vec::new();
        };
        let plan = match (current.plan(), &self.state.recipe.plan) {
            (Some(look), Some(plan)) => self.describe_plan_problems(look, plan.part, current.role),
            (_, _) => Vec::new(),
        };
        let is_left = current.observation().is_some_and(|seen| seen.changes == TreeDiff::Dirty);
        let is_at_will = self.state.recipe.ownership().commits == CommitOwner::AgentAtWill;
        let left = (is_left && is_at_will)
            .then(|| "uncommitted changes are left in the work tree".to_owned());
        plan.into_iter().chain(left).collect()
    }

    /// Returns what speaks against a plan that is reported as done.
    fn describe_plan_problems(&self, look: &PlanState, part: PlanPart, role: Role) -> Vec<String> {
        let PlanState::Usable { counts, person, removed, .. } = look else { return Vec::new() };
        let names = |count: String| format!("{count}: {}", person.join("; "));
        let person = counts.describe_person_items().map(names);
        if part == PlanPart::Makes {
            return person.into_iter().collect();
        }
        let count = |number: u32, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        let open = (counts.open > 0).then(|| {
            let items = count(counts.open, "item");
            format!("the agent reported twice that all is done; {items} of its plan left open")
        });
        let recipe = &self.state.recipe;
        let is_checked =
            select_due_gates(recipe, role, None).any(|(_, _, severity)| severity == Severity::Hard);
        let unchecked = (counts.done > 0 && !is_checked).then(|| {
            let items = count(counts.done, "marked item");
            format!(
                "nothing but the agent's word supports {items} of the plan (no gate, no review)"
            )
        });
        open.into_iter().chain(person).chain(removed.describe()).chain(unchecked).collect()
    }

    /// Returns a warning about the second iteration in a row on a prompt that passed and changed
    /// nothing, where a limit of such iterations ends the run.
    fn find_idle_warning(&self, judgement: &ralph_model::judgement::Judgement) -> Option<String> {
        let limit = self.state.recipe.limits.unchanged?;
        let is_idle = judgement.verdict.is_open_pass()
            && self.map_current(|current| self.state.has_changed_nothing(current)) == Some(true);
        (is_idle && self.state.tasks.is_none() && self.state.unchanged == 1).then(|| {
            format!("two iterations in a row changed nothing; the run ends after {limit} of them")
        })
    }

    /// Returns a warning about the second iteration in a row on a prompt that failed for the same
    /// reason, where a limit of such iterations ends the run.
    fn find_repetition_warning(&self) -> Option<String> {
        let limit = self.state.recipe.limits.unchanged.filter(|_| self.state.tasks.is_none())?;
        let find = |current: &Iteration| find_repeated_failure(&self.state, current);
        let repeated = self.map_current(find).flatten().filter(|it| it.iterations == 2)?;
        Some(format!(
            "two iterations in a row failed for the same reason ({}); the run ends after {limit} of them",
            repeated.names().join(", ")
        ))
    }

    /// Returns warnings about a compaction.
    pub(super) fn find_compaction_warnings(
        &self,
        judgement: &ralph_model::judgement::Judgement,
    ) -> Vec<String> {
        let is_compaction = self.map_current(|current| current.role == Role::Compact) == Some(true);
        match (&judgement.compacted, &judgement.verdict) {
            (Some(compacted), _) => compacted.remarks(),
            (None, Verdict::AttemptFailed { failure }) if is_compaction => vec![format!(
                "compaction failed ({}): {}; the run continues with the memory it has, and tries again later",
                failure.class.name(),
                failure.message
            )],
            (None, _) => Vec::new(),
        }
    }

    pub(super) fn record_judgement(&mut self) -> Result<(), EngineError> {
        let judgement =
            self.map_current(|current| judge::judge_iteration(&self.state, current)).flatten();
        let Some(judgement) = judgement else { return Ok(()) };
        let (handoff, amended) = (judgement.handoff.clone(), judgement.amended.clone());
        let overdue = self.find_overdue_warning(&judgement);
        let mut remarks = self.find_completion_warnings(&judgement);
        remarks.extend(self.find_compaction_warnings(&judgement));
        remarks.extend(self.find_idle_warning(&judgement));
        remarks.extend(self.find_repetition_warning());
        self.record_event(Event::Judged { judgement: Box::new(judgement) })?;
        for text in overdue.into_iter().chain(remarks) {
            self.record_event(Event::Warned { text })?;
        }
        let iteration = IterationNumber(self.state.iterations);
        if let Some(handoff) = handoff {
            let view = View::Handoff { iteration, handoff: &handoff };
            let published = self.ports.store.publish_view(&view);
            self.warn_on_error(published)?;
        }
        if !amended.is_empty() {
            let at = self.ports.clock.read_moment().now;
            let view = View::Amendments { iteration, at, log: &amended };
            let published = self.ports.store.publish_view(&view);
            self.warn_on_error(published)?;
        }
        Ok(())
    }
}
