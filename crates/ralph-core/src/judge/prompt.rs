//! Judging an iteration on a prompt: complete, to go on with, or not handed in as it must be.

use super::{Feedback, Judgement, Verdict, gates_failed, landing_of_success};
use crate::completion;
use crate::event::{Changes, UNCOMMITTED_FILES};
use crate::glob;
use crate::plan::{self, Loss, PlanCopy, PlanLook};
use crate::reading::Reply;
use crate::recipe::{CommitPolicy, Completion, PlanFile, PlanPart, Uncommitted};
use crate::run::{Iteration, RunState};

/// Judges an iteration on a prompt that was answered.
pub(super) fn judge(state: &RunState, current: &Iteration, reply: &Reply) -> Judgement {
    let recipe = &state.recipe;
    let told = told(state, current);
    if let Some(mut failed) = gates_failed(state, &current.gates) {
        failed.feedback.extend(told);
        return failed;
    }
    let claim = claim(state, reply);
    let Shortcomings { reasons, doubted } = shortcomings(state, current, claim);
    let landing = landing_of_success(recipe);
    if !reasons.is_empty() {
        let text = format!(
            "The previous iteration did not hand its work in as it must:\n{}",
            reasons.join("\n")
        );
        let feedback = vec![Feedback::after(text)];
        let verdict = Verdict::NotHandedIn { reasons };
        return Judgement { doubted, ..Judgement::new(verdict, landing, feedback) };
    }
    let verdict = match claim {
        Claim::Complete => Verdict::Complete,
        Claim::None => Verdict::Passed { signal: reply.signal.clone() },
    };
    let is_passed = matches!(verdict, Verdict::Passed { .. });
    let idle = if is_passed { idle(state, current) } else { None };
    Judgement::new(verdict, landing, told.into_iter().chain(idle).collect())
}

/// Returns what the next iteration reads after one that passed and changed nothing.
fn idle(state: &RunState, current: &Iteration) -> Option<Feedback> {
    let is_limited = state.recipe.limits.unchanged.is_some();
    (is_limited && state.has_changed_nothing(current)).then(|| {
        Feedback::after(format!(
            "All checks passed after the last iteration, and it changed nothing. If nothing is left to do, answer {}. If something is left, do it now.",
            state.recipe.completion_tag()
        ))
    })
}

/// Whether the work is said to be complete, by whoever has to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Complete,
    None,
}

fn claim(state: &RunState, reply: &Reply) -> Claim {
    let recipe = &state.recipe;
    let is_match = |signal: &String| completion::is_match(signal, &recipe.completion_response);
    match recipe.completion {
        Completion::Gates => Claim::Complete,
        Completion::Signal if reply.signal.as_ref().is_some_and(is_match) => Claim::Complete,
        Completion::Signal => Claim::None,
    }
}

/// What is wrong with the way work was handed in.
#[derive(Default)]
struct Shortcomings {
    reasons: Vec<String>,
    doubted: Option<u32>,
}

fn shortcomings(state: &RunState, current: &Iteration, claim: Claim) -> Shortcomings {
    let mut found = Shortcomings::default();
    if let (Some(plan), Some(look)) = (&state.recipe.plan, &current.plan) {
        of_plan(&mut found, state, plan, look, claim);
    }
    if state.recipe.landing.uncommitted == Uncommitted::Refused {
        found.reasons.extend(called_back(state, current));
        found.reasons.extend(uncommitted(state, current));
    }
    found
}

/// Returns what an agent is told whose commits were taken back, where it is its work to commit.
fn called_back(state: &RunState, current: &Iteration) -> Option<String> {
    let kept = current.observed.as_ref()?.kept.as_ref()?;
    let is_agents = state.recipe.landing.commit == CommitPolicy::Agent;
    is_agents.then(|| {
        format!(
            "The branch was switched or the history was rewritten. That was undone: the work is in the work tree, the commits are kept on `{kept}`. Commit on the branch that is checked out, and rewrite nothing."
        )
    })
}

fn of_plan(
    found: &mut Shortcomings,
    state: &RunState,
    plan: &PlanFile,
    look: &PlanLook,
    claim: Claim,
) {
    let file = plan.file.display();
    if let Some(said) = look.put_back(&plan.file) {
        found.reasons.push(format!("{said}. Keep the plan: mark items as done in it."));
        return;
    }
    match (plan.part, look, claim) {
        (PlanPart::Makes, PlanLook::Lost { loss, copy: PlanCopy::None }, Claim::Complete) => {
            found.reasons.push(match loss {
                Loss::Missing => format!("There is no plan: `{file}` was not written."),
                Loss::Empty => format!("There is no plan: `{file}` is empty."),
                Loss::Unusable { why } => format!("There is no plan: `{file}`: {why}."),
            });
        }
        (PlanPart::Makes, PlanLook::There { counts, .. }, Claim::Complete)
            if counts.total() == 0 =>
        {
            found.reasons.push(format!(
                "`{file}` has no items. Write each as a line with a check box: `- [ ] what is to be done`."
            ));
        }
        // The plan is the agent's own, and it may know better. So its word is doubted once, and
        // not again as long as it is given, whatever else keeps the work open.
        (PlanPart::Follows, PlanLook::There { counts, next }, Claim::Complete)
            if counts.open > 0 =>
        {
            found.doubted = Some(counts.open);
            if state.doubted.is_none() {
                found.reasons.push(plan::contradiction(&plan.file, counts.open, next));
            }
        }
        (
            PlanPart::Makes | PlanPart::Follows,
            PlanLook::There { .. } | PlanLook::Lost { .. },
            Claim::Complete | Claim::None,
        ) => {}
    }
}

/// Returns what an agent is told that left something uncommitted, where it is its work to commit.
fn uncommitted(state: &RunState, current: &Iteration) -> Option<String> {
    let seen = current.observation()?;
    match (&state.recipe.landing.commit, seen.changes) {
        (CommitPolicy::Agent, Changes::Some) => {}
        (_, Changes::Some | Changes::None) => return None,
    }
    let policy = state.recipe.landing.uncommitted;
    // What lies outside the scope is the user's own business, and so is what was there before
    // where the tree need not have been clean.
    let is_its = |path: &&String| {
        glob::is_in_scope(&state.recipe.scope, path)
            && match policy {
                Uncommitted::Refused => true,
                Uncommitted::Told => seen.files.iter().any(|file| file.path == **path),
            }
    };
    let paths: Vec<String> =
        seen.uncommitted.iter().filter(is_its).map(|path| format!("  {path}")).collect();
    if paths.is_empty() {
        return None;
    }
    let said = match policy {
        Uncommitted::Refused => {
            "There are uncommitted changes in the work tree. Commit everything that belongs to the work, and leave nothing behind"
        }
        Uncommitted::Told => {
            "The previous iteration left uncommitted changes in the work tree. Commit them if the prompt wants that"
        }
    };
    let more =
        if paths.len() == UNCOMMITTED_FILES { "\n  ...; `git status` shows all" } else { "" };
    Some(format!("{said}:\n{}{more}", paths.join("\n")))
}

/// Returns what the next iteration is told beside everything else.
fn told(state: &RunState, current: &Iteration) -> Vec<Feedback> {
    let lost = match (&state.recipe.plan, &current.plan) {
        (Some(plan), Some(look)) => look.put_back(&plan.file),
        (_, _) => None,
    };
    let lost = lost.map(|said| format!("In the previous iteration {said}."));
    lost.into_iter().chain(uncommitted(state, current)).map(Feedback::after).collect()
}
