//! Judges an iteration on a prompt: complete, passed, or not handed in correctly.

use super::{Feedback, Judgement, Verdict, gates_failed, landing_of_success};
use crate::completion;
use crate::event::{Changes, UNCOMMITTED_FILES};
use crate::glob;
use crate::plan::{self, Loss, PlanCopy, PlanLook};
use crate::reading::Reply;
use crate::recipe::{CommitPolicy, Completion, PlanFile, PlanPart, Uncommitted};
use crate::run::{Iteration, RunState};

/// Judges an iteration on a prompt whose agent answered.
pub(super) fn judge(state: &RunState, current: &Iteration, reply: &Reply) -> Judgement {
    let recipe = &state.recipe;
    let extra_feedback = told(state, current);
    if let Some(mut failed) = gates_failed(state, &current.gates) {
        failed.feedback.extend(extra_feedback);
        return failed;
    }
    let claim = claim(state, reply);
    let Shortcomings { reasons, doubted: rejected_open_items } =
        shortcomings(state, current, claim);
    let landing = landing_of_success(recipe);
    if !reasons.is_empty() {
        let text = format!(
            "The previous iteration did not hand in its work correctly:\n{}",
            reasons.join("\n")
        );
        let feedback = vec![Feedback::after(text)];
        let verdict = Verdict::NotHandedIn { reasons };
        return Judgement {
            doubted: rejected_open_items,
            ..Judgement::new(verdict, landing, feedback)
        };
    }
    let verdict = match claim {
        Claim::Complete => Verdict::Complete,
        Claim::None => Verdict::Passed { signal: reply.signal.clone() },
    };
    let is_passed = matches!(verdict, Verdict::Passed { .. });
    let idle = if is_passed { idle(state, current) } else { None };
    Judgement::new(verdict, landing, extra_feedback.into_iter().chain(idle).collect())
}

/// Returns feedback after an iteration that passed and changed nothing.
fn idle(state: &RunState, current: &Iteration) -> Option<Feedback> {
    let is_limited = state.recipe.limits.unchanged.is_some();
    (is_limited && state.has_changed_nothing(current)).then(|| {
        Feedback::after(format!(
            "All checks passed after the last iteration, and it changed nothing. If nothing is left to do, answer {}. If something is left, do it now.",
            state.recipe.completion_tag()
        ))
    })
}

/// Whether the work is reported as complete: by the gates or by the agent, as the recipe
/// says.
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

/// What is wrong with the hand-in.
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

/// Returns feedback about commits that were reset, where committing is the agent's job.
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
    if let Some(restored) = look.put_back(&plan.file) {
        found.reasons.push(format!("{restored}. Keep the plan: mark items as done in it."));
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
        // The agent maintains the plan and may know better. So its completion signal is
        // rejected once for open items, and not again while the agent repeats it,
        // whatever else keeps the work open.
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

/// Returns feedback about uncommitted changes, where committing is the agent's job.
fn uncommitted(state: &RunState, current: &Iteration) -> Option<String> {
    let seen = current.observation()?;
    match (&state.recipe.landing.commit, seen.changes) {
        (CommitPolicy::Agent, Changes::Some) => {}
        (_, Changes::Some | Changes::None) => return None,
    }
    let policy = state.recipe.landing.uncommitted;
    // Files outside the scope are the user's, and so are files that were dirty before,
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
    let text = match policy {
        Uncommitted::Refused => {
            "There are uncommitted changes in the work tree. Commit everything that belongs to the work, and leave nothing behind"
        }
        Uncommitted::Told => {
            "The previous iteration left uncommitted changes in the work tree. Commit them if the prompt wants that"
        }
    };
    let more =
        if paths.len() == UNCOMMITTED_FILES { "\n  ...; `git status` shows all" } else { "" };
    Some(format!("{text}:\n{}{more}", paths.join("\n")))
}

/// Returns feedback that is given whatever the verdict is.
fn told(state: &RunState, current: &Iteration) -> Vec<Feedback> {
    let lost = match (&state.recipe.plan, &current.plan) {
        (Some(plan), Some(look)) => look.put_back(&plan.file),
        (_, _) => None,
    };
    let lost = lost.map(|restored| format!("In the previous iteration {restored}."));
    lost.into_iter().chain(uncommitted(state, current)).map(Feedback::after).collect()
}
