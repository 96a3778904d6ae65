//! The session start hook: what an agent learns when its session begins: where it is, and the
//! main rules of its role.
//!
//! The prompt contains all of it in detail; this text survives a compaction of the agent's
//! context. Not here: the prompt.

use ralph_model::hook_state::{Committer, HookState};
use ralph_model::ids::Role;
use ralph_model::review::ReviewPolicy;
use ralph_model::task::ListOwner;

/// Returns the text for an agent whose session begins, or continues after a compaction.
pub fn write_briefing<S>(active: &HookState<S>) -> String {
    let mut text = format!("This session is part of a ralph run ({})", active.run);
    if let (Some(iteration), Some(limit)) = (active.iteration, active.max_iterations) {
        text.push_str(&format!(", iteration {iteration} of {limit}"));
    }
    if let Some(mode) = &active.iteration_mode {
        text.push_str(&format!(", in the role `{mode}`"));
    }
    text.push('.');
    match (&active.task, &active.title) {
        (Some(task), Some(title)) => text.push_str(&format!("\nTask: {task} — {title}")),
        (Some(task), None) => text.push_str(&format!("\nTask: {task}")),
        (None, _) => {}
    }
    for rule in list_rules(active) {
        text.push_str(&format!("\n- {rule}"));
    }
    text
}

fn list_rules<S>(active: &HookState<S>) -> Vec<String> {
    let Some(role) = active.role() else {
        return vec!["Answer what you were asked and change nothing.".to_owned()];
    };
    let mut rules: Vec<String> = Vec::new();
    rules.push(match role {
        Role::Review => {
            "Judge this one task, criterion by criterion, with evidence; do not edit code.".into()
        }
        Role::Fix => "Address every point of the review's feedback, and nothing else.".into(),
        Role::Implement => "Work on this one task only; never weaken a test or a gate.".into(),
        Role::Prompt | Role::Plan | Role::Build | Role::Compact | Role::Message | Role::Merge => {
            "Never weaken a test or a gate to make it pass.".into()
        }
    });
    match active.keeper {
        Some(ListOwner::Ralph) => rules.push(
            "ralph writes the task file; do not edit it. Leave the files under `.ralph/` alone."
                .to_owned(),
        ),
        Some(ListOwner::Agent) => {
            rules.push(choose_list_rule(role, active.review_policy()).to_owned());
        }
        None => rules.push("Leave the files under `.ralph/` alone.".to_owned()),
    }
    match active.commit {
        Some(Committer::Agent) => rules.push("Commit everything before you stop.".to_owned()),
        Some(Committer::Ralph | Committer::Scm) => {
            rules.push("Do not commit; that is done for you once the gates pass.".to_owned());
        }
        Some(Committer::NoCommit) | None => {}
    }
    rules
}

fn choose_list_rule(role: Role, review: ReviewPolicy) -> &'static str {
    match (role, review) {
        (Role::Implement, ReviewPolicy::Fresh { .. }) => {
            "In the task file set this task's reviewStatus from null to \"needs_review\"; never \
             set passes, approve, or touch a reviewCount."
        }
        (Role::Review, ReviewPolicy::Fresh { .. }) => {
            "In the task file add 1 to this task's reviewCount, and set either reviewStatus \
             \"approved\" with passes true, or \"changes_requested\" with feedback."
        }
        (Role::Fix, ReviewPolicy::Fresh { .. }) => {
            "In the task file set this task's reviewStatus back to \"needs_review\" and clear its \
             reviewFeedback; never set passes, approve, or touch a reviewCount."
        }
        (Role::Implement | Role::Fix, ReviewPolicy::Skip) => {
            "In the task file set this task's passes to true and write its notes once it is done; \
             leave all review fields alone."
        }
        (Role::Review, ReviewPolicy::Skip)
        | (
            Role::Prompt | Role::Plan | Role::Build | Role::Compact | Role::Message | Role::Merge,
            _,
        ) => "Leave the task file alone.",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use ralph_model::ids::{IterationNumber, RunId, TaskId};
    use ralph_model::list_snapshot::ListSnapshot;
    use ralph_model::units::Timestamp;

    use super::*;

    fn active(mode: &str, keeper: Option<ListOwner>, commit: Committer) -> HookState {
        HookState {
            iteration: Some(IterationNumber(3)),
            max_iterations: Some(15),
            iteration_mode: Some(mode.to_owned()),
            task: keeper.map(|_| TaskId("US-001".into())),
            title: keeper.map(|_| "The front page".into()),
            keeper,
            commit: Some(commit),
            review_cap: Some(5),
            pre_iteration_snapshot: Some(ListSnapshot::default()),
            ..HookState::new(RunId("20261114-231500-k3f9".into()), 7, Timestamp(0))
        }
    }

    #[track_caller]
    fn check(active: &HookState, expect: &Expect) {
        expect.assert_eq(&write_briefing(active));
    }

    #[test]
    fn every_role_gets_its_place_and_its_rules() {
        use ListOwner::{Agent, Ralph};
        check(
            &active("implement", Some(Agent), Committer::Agent),
            &expect![[r#"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `implement`.
            Task: US-001 — The front page
            - Work on this one task only; never weaken a test or a gate.
            - In the task file set this task's reviewStatus from null to "needs_review"; never set passes, approve, or touch a reviewCount.
            - Commit everything before you stop."#]],
        );
        check(
            &active("review", Some(Agent), Committer::Agent),
            &expect![[r#"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `review`.
            Task: US-001 — The front page
            - Judge this one task, criterion by criterion, with evidence; do not edit code.
            - In the task file add 1 to this task's reviewCount, and set either reviewStatus "approved" with passes true, or "changes_requested" with feedback.
            - Commit everything before you stop."#]],
        );
        check(
            &active("review-fix", Some(Ralph), Committer::Ralph),
            &expect![[r"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `review-fix`.
            Task: US-001 — The front page
            - Address every point of the review's feedback, and nothing else.
            - ralph writes the task file; do not edit it. Leave the files under `.ralph/` alone.
            - Do not commit; that is done for you once the gates pass."]],
        );
        check(
            &active("prompt", None, Committer::NoCommit),
            &expect![[r"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `prompt`.
            - Never weaken a test or a gate to make it pass.
            - Leave the files under `.ralph/` alone."]],
        );
        check(
            &active("gate", Some(Ralph), Committer::Ralph),
            &expect![[r"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `gate`.
            Task: US-001 — The front page
            - Answer what you were asked and change nothing."]],
        );
        let skip =
            HookState { skip_review: true, ..active("implement", Some(Agent), Committer::Agent) };
        check(
            &skip,
            &expect![[r"
            This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `implement`.
            Task: US-001 — The front page
            - Work on this one task only; never weaken a test or a gate.
            - In the task file set this task's passes to true and write its notes once it is done; leave all review fields alone.
            - Commit everything before you stop."]],
        );
    }
}
