//! What may not be in a commit, and what may not be taken away.

use ralph_core::event::{CommitId, Event, Landed};
use ralph_core::gate::GateStatus;
use ralph_core::ids::{IterationNumber, Role, RunId};
use ralph_core::outcome::Outcome;
use ralph_core::ports::Mark;
use ralph_core::recipe::OnFailure;

use super::{Forged, plan};
use crate::simulation::deed::Meant;
use crate::simulation::observer::Invariant;
use crate::simulation::plan::{Plan, TaskPlan, Workflow};
use crate::simulation::recipe::{PLAN, PROTECTED, task_id};
use crate::simulation::repository::Content;

/// Returns an iteration in which all is well so far, with files that somebody wrote beside the work.
fn checked(plan: &Plan, files: &[(&str, &str)]) -> Forged {
    let mut forged = Forged::new(plan);
    forged.begin(1, Role::Implement);
    for (path, text) in files {
        forged.world.repository.work.insert((*path).to_owned(), Content::text(*text));
    }
    forged.answer(Role::Implement, false, Meant::Nothing);
    forged.gate(GateStatus::Passed, true);
    forged.finds(None);
    forged
}

#[test]
fn a_commit_on_top_of_one_that_passed_nothing_is_found() {
    let mut below = checked(&plan(Workflow::Tasks), &[]);
    let tree = below.world.repository.now();
    below.world.repository.commit(tree, "of an agent's", None);
    below.commit();
    below.finds_that(Invariant::Commits, "committed on top of `of an agent's`");

    // Not only the one right below it.
    let mut deep = checked(&plan(Workflow::Tasks), &[]);
    let first = deep.world.repository.commits[0].tree;
    deep.world.repository.commit(first, "of a gate's", None);
    let mark = Mark { run: RunId("forged".into()), iteration: IterationNumber(0), task: None };
    deep.world.repository.commit(first, "of ralph's", Some(mark));
    deep.observer.commits = deep.world.repository.commits.len();
    deep.commit();
    deep.finds_that(Invariant::Commits, "committed on top of `of a gate's`");
}

#[test]
fn a_commit_of_a_protected_file_or_a_secret_is_found() {
    for (path, text, said) in [
        (PROTECTED, "exit 0", "which is protected"),
        ("work/key", "a SECRET", "committed a secret in `work/key`"),
    ] {
        let mut forged = checked(&plan(Workflow::Tasks), &[(path, text)]);
        forged.commit();
        forged.finds_that(Invariant::Commits, said);
    }
    // A task that names the file may change it.
    let mut named = plan(Workflow::Tasks);
    named.tasks[0] = TaskPlan { names_protected: true, ..named.tasks[0].clone() };
    let mut forged = checked(&named, &[(PROTECTED, "exit 0")]);
    forged.commit();
    forged.finds(None);
}

#[test]
fn a_commit_at_a_wrong_time_is_found() {
    let mut late = checked(&plan(Workflow::Tasks), &[]);
    late.end(Vec::new());
    late.finds(None);
    late.commit_only();
    late.tell(Event::Warned { text: "between".into() });
    late.finds_that(Invariant::Commits, "between two iterations");

    let mut other = checked(&plan(Workflow::Tasks), &[]);
    let mark = Mark { run: RunId("forged".into()), iteration: IterationNumber(7), task: None };
    let tree = other.world.repository.now();
    other.world.repository.commit(tree, "forged", Some(mark));
    other.tell(Event::Warned { text: "within".into() });
    other.finds_that(Invariant::Commits, "the mark of another iteration");

    let mut review = Forged::new(&Plan { review: Some(3), ..plan(Workflow::Tasks) });
    review.begin(1, Role::Review);
    review.answer(Role::Review, false, Meant::Approval);
    review.commit();
    review.finds_that(Invariant::Commits, "is about the list alone");
}

#[test]
fn what_is_taken_away_and_kept_nowhere_is_found() {
    let mut back = Forged::new(&plan(Workflow::Prompt));
    back.begin(1, Role::Prompt);
    back.answer(Role::Prompt, false, Meant::Nothing);
    back.tell(Event::Landed { landed: Landed::RolledBack { kept: Some("a ref".into()) } });
    back.finds_that(Invariant::KeptFirst, "are not as they were");

    let mut shelf = Forged::new(&plan(Workflow::Tasks));
    shelf.begin(1, Role::Implement);
    let (branch, commit) = (format!("ralph/{}", task_id(0)), CommitId("commit-1".into()));
    shelf.tell(Event::Landed { landed: Landed::Shelved { branch, commit } });
    shelf.finds_that(Invariant::KeptFirst, "which is not there");
}

#[test]
fn work_that_failed_and_stays_where_it_is_to_be_rolled_back_is_found() {
    let back = Plan { on_failure: OnFailure::Rollback, ..plan(Workflow::Prompt) };
    for (plan, is_kept_by_mistake) in [(plan(Workflow::Prompt), false), (back, true)] {
        let mut forged = Forged::new(&plan);
        forged.begin(1, Role::Prompt);
        forged.answer(Role::Prompt, false, Meant::Nothing);
        forged.gate(GateStatus::Failed, false);
        forged.end(Vec::new());
        if is_kept_by_mistake {
            let said = "iteration 1 failed, and [\"work/task-0\"] stayed";
            forged.finds_that(Invariant::KeptFirst, said);
        } else {
            forged.finds(None);
        }
    }
}

#[test]
fn a_plan_or_a_protected_file_that_is_gone_in_the_end_is_found() {
    let over = || Event::RunEnded { outcome: Outcome::Interrupted, left: None };
    let mut lost = Forged::new(&plan(Workflow::SpecsBuild));
    lost.world.plan_copy = lost.world.repository.work.remove(PLAN);
    lost.tell(over());
    lost.finds_that(Invariant::NothingLost, "the plan is gone");

    let mut empty = Forged::new(&plan(Workflow::SpecsBuild));
    let blank = empty.world.repository.work.insert(PLAN.into(), Content::text(" \n"));
    empty.world.plan_copy = blank;
    empty.tell(over());
    empty.finds_that(Invariant::NothingLost, "the plan is gone");

    let mut unprotected = Forged::new(&plan(Workflow::Prompt));
    unprotected.world.repository.work.remove(PROTECTED);
    let tree = unprotected.world.repository.now();
    unprotected.world.repository.commit(tree, "of an agent's", None);
    unprotected.tell(over());
    unprotected.finds_that(Invariant::NothingLost, "gone from the history");
}
