//! What must not be in a commit, and what must not be removed.

use ralph_model::event::Event;
use ralph_model::gate::GateStatus;
use ralph_model::ids::{IterationNumber, Role, RunId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::OnFailure;
use ralph_model::run::IterationMark;
use ralph_model::worktree::{CommitId, Landed};

use super::{Forged, plan};
use crate::simulation::agent_action::IntendedVerdict;
use crate::simulation::observer::Invariant;
use crate::simulation::plan::{SimulatedWorkflow, SimulationPlan, TaskPlan};
use crate::simulation::recipe::{PLAN, PROTECTED, format_task_id};
use crate::simulation::repository::FileContent;

/// Returns an iteration without violations so far, with additional files.
fn checked(plan: &SimulationPlan, files: &[(&str, &str)]) -> Forged {
    let mut forged = Forged::new(plan);
    forged.begin(1, Role::Implement);
    for (path, text) in files {
        forged.world.repository.work.insert((*path).to_owned(), FileContent::from_text(*text));
    }
    forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
    forged.gate(GateStatus::Passed, true);
    forged.expect_violation(None);
    forged
}

#[test]
fn a_commit_on_top_of_an_unchecked_one_is_found() {
    let mut below = checked(&plan(SimulatedWorkflow::Tasks), &[]);
    let tree = below.world.repository.number_work_tree();
    below.world.repository.make_commit(tree, "of an agent's", None);
    below.commit();
    below.expect_message(Invariant::Commits, "committed on top of `of an agent's`");

    // Also further below, not only directly below it.
    let mut deep = checked(&plan(SimulatedWorkflow::Tasks), &[]);
    let first = deep.world.repository.commits[0].tree;
    deep.world.repository.make_commit(first, "of a gate's", None);
    let mark =
        IterationMark { run: RunId("forged".into()), iteration: IterationNumber(0), task: None };
    deep.world.repository.make_commit(first, "of ralph's", Some(mark));
    deep.observer.commits = deep.world.repository.commits.len();
    deep.commit();
    deep.expect_message(Invariant::Commits, "committed on top of `of a gate's`");
}

#[test]
fn a_commit_of_a_protected_file_or_a_secret_is_found() {
    for (path, text, message) in [
        (PROTECTED, "exit 0", "which is protected"),
        ("work/key", "a SECRET", "committed a secret in `work/key`"),
    ] {
        let mut forged = checked(&plan(SimulatedWorkflow::Tasks), &[(path, text)]);
        forged.commit();
        forged.expect_message(Invariant::Commits, message);
    }
    // A task that names the file may change it.
    let mut named = plan(SimulatedWorkflow::Tasks);
    named.tasks[0] = TaskPlan { names_protected: true, ..named.tasks[0].clone() };
    let mut forged = checked(&named, &[(PROTECTED, "exit 0")]);
    forged.commit();
    forged.expect_violation(None);
}

#[test]
fn a_commit_at_a_wrong_time_is_found() {
    let mut late = checked(&plan(SimulatedWorkflow::Tasks), &[]);
    late.end(Vec::new());
    late.expect_violation(None);
    late.commit_only();
    late.record(Event::Warned { text: "between".into() });
    late.expect_message(Invariant::Commits, "between two iterations");

    let mut other = checked(&plan(SimulatedWorkflow::Tasks), &[]);
    let mark =
        IterationMark { run: RunId("forged".into()), iteration: IterationNumber(7), task: None };
    let tree = other.world.repository.number_work_tree();
    other.world.repository.make_commit(tree, "forged", Some(mark));
    other.record(Event::Warned { text: "within".into() });
    other.expect_message(Invariant::Commits, "the mark of another iteration");

    let mut review =
        Forged::new(&SimulationPlan { review: Some(3), ..plan(SimulatedWorkflow::Tasks) });
    review.begin(1, Role::Review);
    review.answer(Role::Review, false, IntendedVerdict::Approval);
    review.commit();
    review.expect_message(Invariant::Commits, "may only change the list");
}

#[test]
fn removed_work_that_is_not_kept_is_found() {
    let mut back = Forged::new(&plan(SimulatedWorkflow::Prompt));
    back.begin(1, Role::Prompt);
    back.answer(Role::Prompt, false, IntendedVerdict::Nothing);
    back.record(Event::Landed { landed: Landed::RolledBack { kept: Some("a ref".into()) } });
    back.expect_message(Invariant::KeptFirst, "differ");

    let mut branch_lost = Forged::new(&plan(SimulatedWorkflow::Tasks));
    branch_lost.begin(1, Role::Implement);
    let (branch, commit) = (format!("ralph/{}", format_task_id(0)), CommitId("commit-1".into()));
    branch_lost.record(Event::Landed { landed: Landed::SavedToFailureBranch { branch, commit } });
    branch_lost.expect_message(Invariant::KeptFirst, "does not exist");
}

#[test]
fn failed_work_that_is_not_rolled_back_is_found() {
    let back =
        SimulationPlan { on_failure: OnFailure::Rollback, ..plan(SimulatedWorkflow::Prompt) };
    for (plan, is_kept_by_mistake) in [(plan(SimulatedWorkflow::Prompt), false), (back, true)] {
        let mut forged = Forged::new(&plan);
        forged.begin(1, Role::Prompt);
        forged.answer(Role::Prompt, false, IntendedVerdict::Nothing);
        forged.gate(GateStatus::Failed, false);
        forged.end(Vec::new());
        if is_kept_by_mistake {
            let message = "iteration 1 failed, but [\"work/task-0\"] stayed";
            forged.expect_message(Invariant::KeptFirst, message);
        } else {
            forged.expect_violation(None);
        }
    }
}

#[test]
fn a_missing_plan_or_protected_file_at_the_end_is_found() {
    let over = || Event::RunEnded { outcome: Outcome::Interrupted, left: None };
    let mut lost = Forged::new(&plan(SimulatedWorkflow::SpecsBuild));
    lost.world.plan_copy = lost.world.repository.work.remove(PLAN);
    lost.record(over());
    lost.expect_message(Invariant::NothingLost, "the plan is gone");

    let mut empty = Forged::new(&plan(SimulatedWorkflow::SpecsBuild));
    let blank = empty.world.repository.work.insert(PLAN.into(), FileContent::from_text(" \n"));
    empty.world.plan_copy = blank;
    empty.record(over());
    empty.expect_message(Invariant::NothingLost, "the plan is gone");

    let mut unprotected = Forged::new(&plan(SimulatedWorkflow::Prompt));
    unprotected.world.repository.work.remove(PROTECTED);
    let tree = unprotected.world.repository.number_work_tree();
    unprotected.world.repository.make_commit(tree, "of an agent's", None);
    unprotected.record(over());
    unprotected.expect_message(Invariant::NothingLost, "gone from the history");
}
