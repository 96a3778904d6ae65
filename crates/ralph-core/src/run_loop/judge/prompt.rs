//! Judges an iteration on a prompt: complete, passed, or not handed in correctly.

use ralph_model::agent_output::Reply;
use ralph_model::glob;
use ralph_model::judgement::{Feedback, Judgement, Verdict};
use ralph_model::plan::{PlanCopy, PlanLoss, PlanState};
use ralph_model::recipe::{CommitOwner, Completion, PlanFile, PlanPart};
use ralph_model::run::{Iteration, RunState};
use ralph_model::worktree::{TreeDiff, UNCOMMITTED_FILES};

use super::judge_failed_checks;
use crate::answers::completion;
use crate::tasks::plan;

/// Judges an iteration on a prompt whose agent answered.
pub(super) fn judge_prompt(state: &RunState, current: &Iteration, reply: &Reply) -> Judgement {
    let recipe = &state.recipe;
    let extra_feedback = build_extra_feedback(state, current);
    if let Some(mut failed) = judge_failed_checks(state, current) {
        failed.feedback.extend(extra_feedback);
        return failed;
    }
    let claim = read_completion_claim(state, reply);
    let HandInFaults { reasons, rejected_open_items } = find_prompt_faults(state, current, claim);
    let landing = recipe.ownership().success_landing();
    if !reasons.is_empty() {
        let text = format!(
            "The previous iteration did not hand in its work correctly:\n{}",
            reasons.join("\n")
        );
        let feedback = vec![Feedback::from_text(text)];
        let verdict = Verdict::NotHandedIn { reasons };
        return Judgement { rejected_open_items, ..Judgement::new(verdict, landing, feedback) };
    }
    let verdict = match claim {
        CompletionClaim::Complete => Verdict::Complete,
        CompletionClaim::None => Verdict::Passed { signal: reply.signal.clone() },
    };
    let is_passed = matches!(verdict, Verdict::Passed { .. });
    let idle = if is_passed { build_idle_feedback(state, current) } else { None };
    Judgement::new(verdict, landing, extra_feedback.into_iter().chain(idle).collect())
}

/// Returns feedback after an iteration that passed and changed nothing.
fn build_idle_feedback(state: &RunState, current: &Iteration) -> Option<Feedback> {
    let is_limited = state.recipe.limits.unchanged.is_some();
    (is_limited && state.has_changed_nothing(current)).then(|| {
        Feedback::from_note(format!(
            "All checks passed after the last iteration, and it changed nothing. If nothing is left to do, answer {}. If something is left, do it now.",
            state.recipe.completion_tag()
        ))
    })
}

/// Whether the work is reported as complete: by the gates or by the agent, as the recipe
/// says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionClaim {
    Complete,
    None,
}

fn read_completion_claim(state: &RunState, reply: &Reply) -> CompletionClaim {
    let recipe = &state.recipe;
    let is_match = |signal: &String| completion::is_match(signal, &recipe.completion_response);
    match recipe.completion {
        Completion::Gates => CompletionClaim::Complete,
        Completion::Signal if reply.signal.as_ref().is_some_and(is_match) => {
            CompletionClaim::Complete
        }
        Completion::Signal => CompletionClaim::None,
    }
}

/// What is wrong with the hand-in.
#[derive(Default)]
struct HandInFaults {
    reasons: Vec<String>,
    rejected_open_items: Option<u32>,
}

fn find_prompt_faults(
    state: &RunState,
    current: &Iteration,
    claim: CompletionClaim,
) -> HandInFaults {
    let mut found = HandInFaults::default();
    if let (Some(plan), Some(look)) = (&state.recipe.plan, current.plan()) {
        add_plan_faults(&mut found, state, plan, look, claim);
    }
    if state.recipe.ownership().commits == CommitOwner::Agent {
        found.reasons.extend(describe_reset_commits(current));
        found.reasons.extend(describe_uncommitted(state, current));
    }
    found
}

/// Returns feedback about commits that were reset, where committing is the agent's job.
fn describe_reset_commits(current: &Iteration) -> Option<String> {
    let kept = current.checking()?.observed.as_ref()?.kept.as_ref()?;
    Some(format!(
        "The branch was switched or the history was rewritten. That was undone: the work is in the work tree, the commits are kept on `{kept}`. Commit on the branch that is checked out, and rewrite nothing."
    ))
}

fn add_plan_faults(
    found: &mut HandInFaults,
    state: &RunState,
    plan: &PlanFile,
    look: &PlanState,
    claim: CompletionClaim,
) {
    let file = plan.file.display();
    if let Some(restored) = look.describe_restore(&plan.file) {
        found.reasons.push(format!("{restored}. Keep the plan: mark items as done in it."));
        return;
    }
    match (plan.part, look, claim) {
        (
            PlanPart::Makes,
            PlanState::Lost { loss, copy: PlanCopy::None },
            CompletionClaim::Complete,
        ) => {
            found.reasons.push(match loss {
                PlanLoss::Missing => format!("There is no plan: `{file}` was not written."),
                PlanLoss::Empty => format!("There is no plan: `{file}` is empty."),
                PlanLoss::Unusable { why } => format!("There is no plan: `{file}`: {why}."),
            });
        }
        (PlanPart::Makes, PlanState::Usable { counts, .. }, CompletionClaim::Complete)
            if counts.total() == 0 =>
        {
            found.reasons.push(format!(
                "`{file}` has no items. Write each as a line with a check box: `- [ ] what is to be done`."
            ));
        }
        // The agent maintains the plan and may know better. So its completion signal is
        // rejected once for open and deleted items, and not again while the agent repeats it,
        // whatever else keeps the work open.
        (
            PlanPart::Follows,
            PlanState::Usable { counts, next, removed, .. },
            CompletionClaim::Complete,
        ) if counts.open > 0 || removed.deleted > 0 => {
            found.rejected_open_items = Some(counts.open.saturating_add(removed.deleted));
            if state.rejected_open_items.is_some() {
                return;
            }
            if counts.open > 0 {
                found.reasons.push(plan::build_open_items_feedback(&plan.file, counts.open, next));
            }
            if removed.deleted > 0 {
                found.reasons.push(plan::build_deleted_items_feedback(&plan.file, removed));
            }
        }
        (
            PlanPart::Makes | PlanPart::Follows,
            PlanState::Usable { .. } | PlanState::Lost { .. },
            CompletionClaim::Complete | CompletionClaim::None,
        ) => {}
    }
}

/// Returns feedback about uncommitted changes, where committing is the agent's job.
fn describe_uncommitted(state: &RunState, current: &Iteration) -> Option<String> {
    let seen = current.observation()?;
    if seen.changes == TreeDiff::Clean {
        return None;
    }
    let is_its_duty = match state.recipe.ownership().commits {
        CommitOwner::Agent => true,
        CommitOwner::AgentAtWill => false,
        CommitOwner::Ralph | CommitOwner::NoOne => return None,
    };
    // Files outside the scope are the user's, and so are files that were uncommitted before
    // the run, or before the iteration where the tree need not have been clean.
    let before = &state.recipe.uncommitted_before;
    let is_its = |path: &&String| {
        glob::is_in_scope(&state.recipe.scope, path)
            && !before.contains(path)
            && (is_its_duty || seen.files.iter().any(|file| file.path == **path))
    };
    let paths: Vec<String> =
        seen.uncommitted.iter().filter(is_its).map(|path| format!("  {path}")).collect();
    if paths.is_empty() {
        return None;
    }
    let text = if is_its_duty {
        "There are uncommitted changes in the work tree. Commit everything that belongs to the work, and leave nothing behind"
    } else {
        "The previous iteration left uncommitted changes in the work tree. Commit them if the prompt wants that"
    };
    let more =
        if paths.len() == UNCOMMITTED_FILES { "\n  ...; `git status` shows all" } else { "" };
    Some(format!("{text}:\n{}{more}", paths.join("\n")))
}

/// Returns feedback that is given whatever the verdict is.
fn build_extra_feedback(state: &RunState, current: &Iteration) -> Vec<Feedback> {
    let lost = match (&state.recipe.plan, current.plan()) {
        (Some(plan), Some(look)) => look.describe_restore(&plan.file),
        (_, _) => None,
    };
    let lost = lost.map(|restored| format!("In the previous iteration {restored}."));
    lost.into_iter().chain(describe_uncommitted(state, current)).map(Feedback::from_note).collect()
}
