//! The two dialects of a task list: the names of their fields.
//!
//! Not here: reading and changing, which know fields only by these names.

use ralph_model::task::ListForm;

/// The dialect of a task file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListDialect {
    /// `tasks`, each with a `status`; names in `snake_case`.
    Plan,
    /// `userStories`, each with a boolean `passes`; names in `camelCase`.
    Stories,
}

/// A field of a list or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TaskFileField {
    Project,
    Branch,
    Description,
    MaxIterations,
    ValidationStrategy,
    VerifyCommands,
    Tasks,
    Id,
    Title,
    AcceptanceCriteria,
    Order,
    DependsOn,
    Touches,
    Skills,
    Libraries,
    NeedsDocs,
    MaxTurns,
    MaxRetries,
    RetryCount,
    Status,
    Passes,
    ReviewStatus,
    ReviewCount,
    ReviewFeedback,
    Notes,
}

/// The fields of a list, apart from its tasks.
pub(super) const LIST_FIELDS: [TaskFileField; 6] = [
    TaskFileField::Project,
    TaskFileField::Branch,
    TaskFileField::Description,
    TaskFileField::MaxIterations,
    TaskFileField::ValidationStrategy,
    TaskFileField::VerifyCommands,
];

impl ListDialect {
    /// Returns the form that prompts ask agents to write.
    pub fn list_form(self) -> ListForm {
        match self {
            Self::Plan => ListForm::Plan,
            Self::Stories => ListForm::Stories,
        }
    }

    /// Returns the key of the task list.
    pub fn tasks_key(self) -> &'static str {
        self.key_for(TaskFileField::Tasks)
    }

    /// Returns the key of a field.
    pub(super) fn key_for(self, field: TaskFileField) -> &'static str {
        let (plan, stories) = field.keys();
        match self {
            Self::Plan => plan,
            Self::Stories => stories,
        }
    }

    /// Returns whether a key names a field. The other dialect's spelling is accepted too: a
    /// dependency that is overlooked because of an underscore costs a night. Not so where the other
    /// name is another word, which may mean something else here.
    pub(super) fn accepts_key(self, field: TaskFileField, key: &str) -> bool {
        let (plan, stories) = field.keys();
        match field {
            TaskFileField::Order | TaskFileField::Tasks => key == self.key_for(field),
            TaskFileField::Project
            | TaskFileField::Branch
            | TaskFileField::Description
            | TaskFileField::MaxIterations
            | TaskFileField::ValidationStrategy
            | TaskFileField::VerifyCommands
            | TaskFileField::Id
            | TaskFileField::Title
            | TaskFileField::AcceptanceCriteria
            | TaskFileField::DependsOn
            | TaskFileField::Touches
            | TaskFileField::Skills
            | TaskFileField::Libraries
            | TaskFileField::NeedsDocs
            | TaskFileField::MaxTurns
            | TaskFileField::MaxRetries
            | TaskFileField::RetryCount
            | TaskFileField::Status
            | TaskFileField::Passes
            | TaskFileField::ReviewStatus
            | TaskFileField::ReviewCount
            | TaskFileField::ReviewFeedback
            | TaskFileField::Notes => key == plan || key == stories,
        }
    }

    /// Returns the fields of a new task, in order.
    pub(super) fn task_fields(self) -> &'static [TaskFileField] {
        match self {
            Self::Plan => &[
                TaskFileField::Id,
                TaskFileField::Title,
                TaskFileField::Description,
                TaskFileField::Status,
                TaskFileField::Order,
                TaskFileField::Skills,
                TaskFileField::NeedsDocs,
                TaskFileField::Libraries,
                TaskFileField::AcceptanceCriteria,
                TaskFileField::DependsOn,
                TaskFileField::Touches,
                TaskFileField::MaxTurns,
                TaskFileField::RetryCount,
                TaskFileField::MaxRetries,
                TaskFileField::ReviewStatus,
                TaskFileField::ReviewCount,
                TaskFileField::ReviewFeedback,
                TaskFileField::Notes,
            ],
            Self::Stories => &[
                TaskFileField::Id,
                TaskFileField::Title,
                TaskFileField::Description,
                TaskFileField::AcceptanceCriteria,
                TaskFileField::Order,
                TaskFileField::Passes,
                TaskFileField::Status,
                TaskFileField::ReviewStatus,
                TaskFileField::ReviewCount,
                TaskFileField::ReviewFeedback,
                TaskFileField::Notes,
                TaskFileField::DependsOn,
                TaskFileField::Touches,
                TaskFileField::Skills,
                TaskFileField::NeedsDocs,
                TaskFileField::Libraries,
                TaskFileField::MaxTurns,
                TaskFileField::RetryCount,
                TaskFileField::MaxRetries,
            ],
        }
    }
}

impl TaskFileField {
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Project => ("project", "project"),
            Self::Branch => ("branch", "branchName"),
            Self::Description => ("description", "description"),
            Self::MaxIterations => ("max_iterations", "maxIterations"),
            Self::ValidationStrategy => ("validation_strategy", "validationStrategy"),
            Self::VerifyCommands => ("verify_commands", "verifyCommands"),
            Self::Tasks => ("tasks", "userStories"),
            Self::Id => ("id", "id"),
            Self::Title => ("title", "title"),
            Self::AcceptanceCriteria => ("acceptance_criteria", "acceptanceCriteria"),
            Self::Order => ("order", "priority"),
            Self::DependsOn => ("depends_on", "dependsOn"),
            Self::Touches => ("touches", "touches"),
            Self::Skills => ("skills", "skills"),
            Self::Libraries => ("libraries", "libraries"),
            Self::NeedsDocs => ("needs_docs", "needsDocs"),
            Self::MaxTurns => ("max_turns", "maxTurns"),
            Self::MaxRetries => ("max_retries", "maxRetries"),
            Self::RetryCount => ("retry_count", "retryCount"),
            Self::Status => ("status", "status"),
            Self::Passes => ("passes", "passes"),
            Self::ReviewStatus => ("review_status", "reviewStatus"),
            Self::ReviewCount => ("review_count", "reviewCount"),
            Self::ReviewFeedback => ("review_feedback", "reviewFeedback"),
            Self::Notes => ("notes", "notes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_core::asking::prompt::list_ownership::list_field_names;

    use super::*;

    #[test]
    fn prompts_use_the_field_names_of_the_file() {
        for dialect in [ListDialect::Plan, ListDialect::Stories] {
            let names = list_field_names(dialect.list_form());
            let done = match dialect {
                ListDialect::Plan => TaskFileField::Status,
                ListDialect::Stories => TaskFileField::Passes,
            };
            assert_eq!(
                [
                    names.done.0,
                    names.review_status,
                    names.review_count,
                    names.review_feedback,
                    names.notes,
                ],
                [
                    dialect.key_for(done),
                    dialect.key_for(TaskFileField::ReviewStatus),
                    dialect.key_for(TaskFileField::ReviewCount),
                    dialect.key_for(TaskFileField::ReviewFeedback),
                    dialect.key_for(TaskFileField::Notes),
                ]
            );
        }
    }
}
