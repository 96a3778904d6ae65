//! The two dialects of a task list: the names of their fields.
//!
//! Not here: reading and changing, which know fields only by these names.

use ralph_core::task::ListForm;

/// The dialect of a task file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `tasks`, each with a `status`; names in `snake_case`.
    Plan,
    /// `userStories`, each with a boolean `passes`; names in `camelCase`.
    Stories,
}

/// A field of a list or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
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
pub(super) const LIST_FIELDS: [Field; 6] = [
    Field::Project,
    Field::Branch,
    Field::Description,
    Field::MaxIterations,
    Field::ValidationStrategy,
    Field::VerifyCommands,
];

impl Dialect {
    /// Returns the form that prompts ask agents to write.
    pub fn form(self) -> ListForm {
        match self {
            Self::Plan => ListForm::Plan,
            Self::Stories => ListForm::Stories,
        }
    }

    /// Returns the key of the task list.
    pub fn tasks(self) -> &'static str {
        self.name(Field::Tasks)
    }

    /// Returns the key of a field.
    pub(super) fn name(self, field: Field) -> &'static str {
        let (plan, stories) = field.names();
        match self {
            Self::Plan => plan,
            Self::Stories => stories,
        }
    }

    /// Returns whether a key names a field. The other dialect's spelling is accepted too: a
    /// dependency that is overlooked because of an underscore costs a night. Not so where the other
    /// name is another word, which may mean something else here.
    pub(super) fn calls(self, field: Field, key: &str) -> bool {
        let (plan, stories) = field.names();
        match field {
            Field::Order | Field::Tasks => key == self.name(field),
            Field::Project
            | Field::Branch
            | Field::Description
            | Field::MaxIterations
            | Field::ValidationStrategy
            | Field::VerifyCommands
            | Field::Id
            | Field::Title
            | Field::AcceptanceCriteria
            | Field::DependsOn
            | Field::Skills
            | Field::Libraries
            | Field::NeedsDocs
            | Field::MaxTurns
            | Field::MaxRetries
            | Field::RetryCount
            | Field::Status
            | Field::Passes
            | Field::ReviewStatus
            | Field::ReviewCount
            | Field::ReviewFeedback
            | Field::Notes => key == plan || key == stories,
        }
    }

    /// Returns the fields of a new task, in order.
    pub(super) fn task_fields(self) -> &'static [Field] {
        match self {
            Self::Plan => &[
                Field::Id,
                Field::Title,
                Field::Description,
                Field::Status,
                Field::Order,
                Field::Skills,
                Field::NeedsDocs,
                Field::Libraries,
                Field::AcceptanceCriteria,
                Field::DependsOn,
                Field::MaxTurns,
                Field::RetryCount,
                Field::MaxRetries,
                Field::ReviewStatus,
                Field::ReviewCount,
                Field::ReviewFeedback,
                Field::Notes,
            ],
            Self::Stories => &[
                Field::Id,
                Field::Title,
                Field::Description,
                Field::AcceptanceCriteria,
                Field::Order,
                Field::Passes,
                Field::Status,
                Field::ReviewStatus,
                Field::ReviewCount,
                Field::ReviewFeedback,
                Field::Notes,
                Field::DependsOn,
                Field::Skills,
                Field::NeedsDocs,
                Field::Libraries,
                Field::MaxTurns,
                Field::RetryCount,
                Field::MaxRetries,
            ],
        }
    }
}

impl Field {
    fn names(self) -> (&'static str, &'static str) {
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
    use super::*;

    #[test]
    fn prompts_use_the_field_names_of_the_file() {
        for dialect in [Dialect::Plan, Dialect::Stories] {
            let names = dialect.form().names();
            let done = match dialect {
                Dialect::Plan => Field::Status,
                Dialect::Stories => Field::Passes,
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
                    dialect.name(done),
                    dialect.name(Field::ReviewStatus),
                    dialect.name(Field::ReviewCount),
                    dialect.name(Field::ReviewFeedback),
                    dialect.name(Field::Notes),
                ]
            );
        }
    }
}
