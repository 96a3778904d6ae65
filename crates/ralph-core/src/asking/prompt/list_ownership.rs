//! What a prompt says about the task list, the progress log and commits: who owns them, what an
//! agent that owns them must write, and how it answers.
//!
//! The text follows the table of what each role may change. Not here: enforcing it.

use ralph_model::amendment::AmendmentPolicy;
use ralph_model::ids::Role;
use ralph_model::recipe::{CommitPolicy, Recipe};
use ralph_model::review::{AUTO_APPROVED_PREFIX, ReviewPolicy};
use ralph_model::task::{ListForm, ListOwner, Task};

/// Who owns the task list, and the rules for it.
#[derive(Debug, Clone, Copy)]
pub struct ListOwnership<'a> {
    pub owner: ListOwner,
    pub commits: Commits,
    /// The file, as a path that agents can open.
    pub file: &'a str,
    pub form: ListForm,
    pub review: ReviewPolicy,
    /// How many tasks an attempt may add.
    pub amendments: u32,
    /// Which changes to the list are applied without asking the user.
    pub amendment_policy: AmendmentPolicy,
    /// The text of the completion tag.
    pub completion: &'a str,
}

/// Who commits the work of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// ralph, after the gates passed.
    Ralph,
    Agent,
}

/// Rules for a reviewer that reports its verdict in its answer.
pub(super) const CHANGE_NOTHING: &str = "## What you may change\nNothing in the project. Do not edit, create or delete files in it, and do not commit: whatever you change there is undone. To try something out, use a temporary directory.";

/// Answer format for a reviewer that reports its verdict in its answer.
pub(super) const ANSWER_WITH_VERDICT: &str = "## Your answer\nAnswer with `verdict` (`approved` or `changes_requested`), `feedback` (what to fix; empty if approved) and `criteria` (one entry for each criterion, with `met` and the `evidence` you found; an approval without evidence for each does not count).";

/// The names of the fields that an agent writes in the task file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldNames {
    /// Field and value that mark a task as done.
    pub done: (&'static str, &'static str),
    /// The value that marks it as not done.
    pub undone: &'static str,
    pub review_status: &'static str,
    pub review_count: &'static str,
    pub review_feedback: &'static str,
    pub notes: &'static str,
}

impl<'a> ListOwnership<'a> {
    /// Returns the list rules of a recipe, or `None` if it has no list; `file` is the path that
    /// agents open.
    pub fn for_recipe(recipe: &'a Recipe, file: &'a str) -> Option<Self> {
        let work = recipe.task_work()?;
        Some(Self {
            owner: work.keeper,
            commits: match recipe.landing.commit {
                CommitPolicy::Agent => Commits::Agent,
                CommitPolicy::Ralph | CommitPolicy::NoCommit | CommitPolicy::Scm(_) => {
                    Commits::Ralph
                }
            },
            file,
            form: work.form,
            review: work.review,
            amendments: work.amendments,
            amendment_policy: work.amendment_policy,
            completion: &recipe.completion_response,
        })
    }

    /// Writes the rules for a first attempt at a task.
    pub(super) fn write_implement_rules(&self, task: &Task, progress: Option<&str>) -> String {
        match self.owner {
            ListOwner::Ralph => self.write_ralph_owner_rules(progress),
            ListOwner::Agent => {
                self.write_attempt_rules(task, &self.build_implement_rules(task), progress)
            }
        }
    }

    /// Writes the rules for an attempt that fixes review findings.
    pub(super) fn write_fix_rules(&self, task: &Task, progress: Option<&str>) -> String {
        match self.owner {
            ListOwner::Ralph => self.write_ralph_owner_rules(progress),
            ListOwner::Agent => {
                self.write_attempt_rules(task, &self.build_fix_rules(task), progress)
            }
        }
    }

    /// Writes the rules for a review of a task.
    pub(super) fn write_review_rules(&self, task: &Task, progress: Option<&str>) -> String {
        match self.owner {
            ListOwner::Ralph => CHANGE_NOTHING.to_owned(),
            ListOwner::Agent => self.write_owner_review_rules(task, progress),
        }
    }

    /// Returns the answer format of an attempt.
    pub(super) fn attempt_answer(&self) -> &'static str {
        match self.owner {
            ListOwner::Ralph => {
                "## Your answer\nIt is the handoff to the next agent: what you did, where you deviated from the task and why, bugs, decisions, constraints, and what is left. Be exact: of your session it gets only this object. `fully_complete` is false if a criterion is not met; `unfinished_business` names what is left then."
            }
            // No schema is requested here: with one, the agent ends its turn too early.
            ListOwner::Agent => {
                "## Your answer\nEnd with a short report: what you did, where you deviated from the task and why, decisions, constraints, and what is left. Be exact: the next agent reads it.\n\nOnly if you cannot continue without a person, end with this, filled in:\n\n```json\n{\"task_completed\": {\"summary\": \"…\", \"fully_complete\": false}, \"blocked\": {\"needs\": \"…\", \"why\": \"…\"}}\n```"
            }
        }
    }

    /// Returns the answer format of a review.
    pub(super) fn review_answer(&self) -> &'static str {
        match self.owner {
            ListOwner::Ralph => ANSWER_WITH_VERDICT,
            ListOwner::Agent => {
                "## Your answer\nThe list contains your verdict. Repeat it in your final answer: each criterion, whether it is met, and the evidence you found."
            }
        }
    }

    fn write_ralph_owner_rules(&self, progress: Option<&str>) -> String {
        let log = progress.map(|path| format!(" and `{path}`")).unwrap_or_default();
        let file = self.file;
        let commit = match self.commits {
            Commits::Ralph => format!(
                "Do not commit, and do not edit or restore the task list `{file}`{log}: that is done for you after the checks, from your handoff."
            ),
            Commits::Agent => format!(
                "Commit your work with a message that says what it does. Do not edit or restore the task list `{file}`{log}: that is done for you after the checks, from your handoff."
            ),
        };
        format_bullets(
            "Task list and commits",
            "",
            &[
                commit,
                self.amendment_rule(),
                "A blocker: state in `blocked` what you need from a person, and why.".to_owned(),
            ],
        )
    }

    fn amendment_rule(&self) -> String {
        let add = match self.amendments {
            0 => "describe it in `recommendations`".to_owned(),
            limit => format!(
                "add at most {limit} new tasks in `plan_amendments` (action `add`), each with `id`, `title`, `description` and `acceptance_criteria`"
            ),
        };
        let change = match self.amendment_policy {
            AmendmentPolicy::Add => {
                "You cannot change or remove tasks: `modify` and `remove` only propose it to the user."
            }
            AmendmentPolicy::Apply => {
                "`modify` and `remove` change tasks that are not done, and count as well."
            }
        };
        format!("Other work that you find: {add}. {change}")
    }

    fn build_implement_rules(&self, task: &Task) -> AttemptRules {
        let names = list_field_names(self.form);
        let ((done, yes), notes, id) = (names.done, names.notes, &task.id);
        let (status, count, feedback) =
            (names.review_status, names.review_count, names.review_feedback);
        AttemptRules {
            role: Role::Implement,
            own: match self.review {
                ReviewPolicy::Skip => format!(
                    "Once everything is done and the checks pass, set `{done}` of {id} to {yes}, and say in `{notes}` what was done. Leave `{status}`, `{count}` and `{feedback}` as they are."
                ),
                ReviewPolicy::Fresh { .. } => format!(
                    "Once everything is done and the checks pass, set `{status}` of {id}, null or missing so far, to \"needs_review\", and say in `{notes}` what was done. Never set `{done}` to {yes}, never approve, and leave every `{count}` as it is: only a review does that."
                ),
            },
            subject: format!("feat: [{id}] - {}", take_first_line(&task.title)),
        }
    }

    fn build_fix_rules(&self, task: &Task) -> AttemptRules {
        let names = list_field_names(self.form);
        let ((done, yes), notes, id) = (names.done, names.notes, &task.id);
        let (status, count, feedback) =
            (names.review_status, names.review_count, names.review_feedback);
        AttemptRules {
            role: Role::Fix,
            own: format!(
                "Once every point is fixed and the checks pass, set `{status}` of {id} from \"changes_requested\" back to \"needs_review\", clear `{feedback}` to \"\", and add to `{notes}` what was fixed. Never set `{done}` to {yes}, never approve, and leave every `{count}` as it is: only a review does that."
            ),
            subject: format!("fix: [{id}] - address review feedback"),
        }
    }

    fn write_attempt_rules(
        &self,
        task: &Task,
        attempted: &AttemptRules,
        progress: Option<&str>,
    ) -> String {
        let names = list_field_names(self.form);
        let ((done, _), no, notes) = (names.done, names.undone, names.notes);
        let (status, count, feedback) =
            (names.review_status, names.review_count, names.review_feedback);
        let new = match self.review {
            ReviewPolicy::Skip => format!("`{done}` {no}"),
            ReviewPolicy::Fresh { .. } => {
                format!("`{done}` {no}, `{status}` null, `{count}` 0, `{feedback}` \"\"")
            }
        };
        let place = progress.map_or_else(|| format!("`{notes}`"), |path| format!("`{path}`"));
        let mut rules = vec![
            attempted.own.clone(),
            format!(
                "Other work that you find, or a part of this task that does not fit: add it as a task of its own, at most {} of them ({new}). You may reorder tasks that are not begun. Remove and reword none, and leave everything else in the file as it is.",
                self.amendments
            ),
        ];
        rules.extend(write_log_rule(task, attempted.role, progress));
        rules.push(format!(
            "A blocker, or work that you could not finish: leave the status of the task alone, and write into {place} what is missing and why. The next iteration knows nothing else."
        ));
        let subject = format!("`{}`", attempted.subject);
        rules.push(self.write_commit_rule(&subject, "everything, the list included"));
        match self.review {
            ReviewPolicy::Skip => rules.push(self.write_completion_rule(&names)),
            // Only a review can complete the list. The tag is not named, so that no attempt uses it.
            ReviewPolicy::Fresh { .. } => {}
        }
        format_bullets("Task list and commits", &self.opening_line(), &rules)
    }

    fn write_owner_review_rules(&self, task: &Task, progress: Option<&str>) -> String {
        let names = list_field_names(self.form);
        let (done, yes) = names.done;
        let (status, count) = (names.review_status, names.review_count);
        let (feedback, notes, id) = (names.review_feedback, names.notes, &task.id);
        let before = task.review.count;
        let number = before.saturating_add(1);
        let cap = match self.review {
            ReviewPolicy::Skip => u32::MAX,
            ReviewPolicy::Fresh { cap } => cap,
        };
        let approve = format!(
            "set `{status}` to \"approved\" and `{done}` to {yes}, with `{feedback}` \"\"; `{notes}` must say what was done"
        );
        let mut rules = vec![
            format!(
                "Change nothing but {id}, and in it nothing but what is named here: no code, no tests, no other task. Do not fix what you find."
            ),
            format!("Raise `{count}` by one, from {before} to {number}."),
            format!("If every criterion is met: {approve}."),
        ];
        rules.push(if number >= cap {
            format!(
                "This is review {number} of at most {cap}, so the task is approved in any case. If something still needs fixing: approve it anyway, and begin `{feedback}` with `{AUTO_APPROVED_PREFIX}`, then what is left and where. A person will look at it."
            )
        } else {
            format!(
                "If not: set `{status}` to \"changes_requested\", leave `{done}` as it is, and write into `{feedback}` exactly what to fix and where. It must not be empty."
            )
        });
        rules.extend(write_log_rule(task, Role::Review, progress));
        let subject = if number >= cap {
            format!("`review: [{id}] - approved`")
        } else {
            format!("`review: [{id}] - approved` or `review: [{id}] - changes requested`")
        };
        let what = if progress.is_some() { "the list and the log" } else { "the list" };
        rules.push(self.write_commit_rule(&subject, &format!("{what}, and nothing else")));
        rules.push(self.write_completion_rule(&names));
        format_bullets("What you may change", &self.opening_line(), &rules)
    }

    fn opening_line(&self) -> String {
        format!(
            "You maintain the task list yourself, in `{}`. After your turn ralph compares it with the earlier version and reverts every change that your role may not make.",
            self.file
        )
    }

    fn write_commit_rule(&self, subject: &str, what: &str) -> String {
        match self.commits {
            Commits::Agent => {
                format!("Commit {what}, as {subject}. Leave nothing uncommitted. Do not push.")
            }
            Commits::Ralph => "Do not commit: that is done for you after the checks.".to_owned(),
        }
    }

    fn write_completion_rule(&self, names: &FieldNames) -> String {
        let (done, yes) = names.done;
        let reviewed = match self.review {
            ReviewPolicy::Skip => String::new(),
            ReviewPolicy::Fresh { .. } => {
                format!(" and `{}` \"approved\"", names.review_status)
            }
        };
        format!(
            "Only if then every task in the list has `{done}` {yes}{reviewed}: end your answer with `<promise>{}</promise>`. Otherwise never write it.",
            self.completion
        )
    }
}

/// What an agent that owns the list writes into the list and the history.
struct AttemptRules {
    role: Role,
    own: String,
    subject: String,
}

fn write_log_rule(task: &Task, role: Role, progress: Option<&str>) -> Option<String> {
    let path = progress?;
    let what = match role {
        Role::Review => "the verdict, the evidence, what needs fixing",
        Role::Implement
        | Role::Fix
        | Role::Prompt
        | Role::Plan
        | Role::Build
        | Role::Compact
        | Role::Message
        | Role::Merge => "what was done, files changed, results of the checks, what was learned",
    };
    Some(format!(
        "Append an entry to the end of `{path}`, under `## <date> <time> — {} {} ({role})`: {what}. Never change earlier entries. What later tasks can use goes as a line under `## Codebase Patterns` at its top; correct or remove lines there that are no longer true.",
        task.id,
        take_first_line(&task.title)
    ))
}

fn format_bullets(title: &str, opening: &str, rules: &[String]) -> String {
    let lines: Vec<String> = rules.iter().map(|rule| format!("- {rule}")).collect();
    let opening = if opening.is_empty() { String::new() } else { format!("{opening}\n") };
    format!("## {title}\n{opening}{}", lines.join("\n"))
}

fn take_first_line(title: &str) -> &str {
    title.trim().lines().next().unwrap_or_default().trim_end()
}

/// Returns the names of the fields that an agent writes in a file of this form.
pub fn list_field_names(form: ListForm) -> FieldNames {
    match form {
        ListForm::Plan => FieldNames {
            done: ("status", "\"done\""),
            undone: "\"pending\"",
            review_status: "review_status",
            review_count: "review_count",
            review_feedback: "review_feedback",
            notes: "notes",
        },
        ListForm::Stories => FieldNames {
            done: ("passes", "true"),
            undone: "false",
            review_status: "reviewStatus",
            review_count: "reviewCount",
            review_feedback: "reviewFeedback",
            notes: "notes",
        },
    }
}
