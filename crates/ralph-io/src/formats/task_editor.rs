//! Edits a task file in its text: changes only the affected bytes.
//!
//! A change is applied to the model first; then the fields of the task that differ are written.
//! New entries copy the formatting of their neighbors. Not here: which changes are allowed, and
//! writing the file.

use std::ops::Range;

use ralph_model::ids::TaskId;
use ralph_model::review::ReviewStatus;
use ralph_model::task::{ChangeError, Task, TaskChange, TaskList, TaskStatus};
use serde_json::{Value, json};

use super::dialect::{ListDialect, TaskFileField};
use super::json_text::{self, Member};
use super::task_reader::ListPlaces;

/// The text of a task file with its model and the positions of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskDocument {
    pub(super) text: String,
    pub(super) list: TaskList,
    pub(super) places: ListPlaces,
    /// How often the text was changed.
    pub(super) edits: u64,
}

impl TaskDocument {
    /// Applies all changes, or none.
    pub(super) fn apply_changes(&mut self, changes: &[TaskChange]) -> Result<(), ChangeError> {
        self.list.can_apply(changes)?;
        changes.iter().try_for_each(|change| self.apply_one(change))
    }

    fn apply_one(&mut self, change: &TaskChange) -> Result<(), ChangeError> {
        match change {
            TaskChange::SetStatus { task, .. }
            | TaskChange::SetAttempts { task, .. }
            | TaskChange::SetReview { task, .. }
            | TaskChange::SetNotes { task, .. }
            | TaskChange::Modify { task, .. } => {
                let at = self.list.find_index(task)?;
                let before = self.list.tasks[at].clone();
                self.list.apply_change(change)?;
                self.rewrite_fields(at, &before);
            }
            TaskChange::Remove { task } => {
                let at = self.list.find_index(task)?;
                self.list.apply_change(change)?;
                self.remove_task(at);
            }
            TaskChange::Add { task, .. } | TaskChange::Insert { task, .. } => {
                self.list.apply_change(change)?;
                let at = self.list.find_index(&task.id)?;
                self.add_task(at);
            }
        }
        Ok(())
    }

    /// Writes the fields of a task that have changed.
    fn rewrite_fields(&mut self, at: usize, before: &Task) {
        let dialect = self.places.dialect;
        let after = self.list.tasks[at].clone();
        for &field in dialect.task_fields() {
            let value = build_field_value(dialect, field, &after);
            if value != self::build_field_value(dialect, field, before) {
                self.set_field(at, field, &value.unwrap_or(Value::Null), &after);
            }
        }
    }

    fn set_field(&mut self, at: usize, field: TaskFileField, value: &Value, task: &Task) {
        let dialect = self.places.dialect;
        let place = &self.places.tasks[at];
        let members = json_text::find_members(&self.text, place);
        let form = ObjectForm::from_object(&self.text, place, &members);
        if let Some(member) = members.iter().find(|member| dialect.accepts_key(field, &member.key))
        {
            let range = member.value.clone();
            let lines = ListLines::for_value(&self.text, &range, &form);
            let text = form.format_value(value, lines.as_ref());
            self.splice_task(at, range, &text);
        } else if is_needed(dialect, field, task) {
            let entry = form.format_member(dialect.key_for(field), value);
            let (end, separator) = match members.last() {
                Some(last) => (last.value.end, form.separator.as_str()),
                None => (place.start + 1, ""),
            };
            self.splice_task(at, end..end, &format!("{separator}{entry}"));
        }
    }

    fn add_task(&mut self, at: usize) {
        let dialect = self.places.dialect;
        let task = &self.list.tasks[at];
        // It is formatted like the task before it, and the first one like the task after it.
        let neighbor = self.places.tasks.get(at.saturating_sub(1));
        let (range, before, object, after) = if let Some(place) = neighbor {
            let members = json_text::find_members(&self.text, place);
            let form = ObjectForm::from_object(&self.text, place, &members);
            let has = |field| members.iter().any(|it| dialect.accepts_key(field, &it.key));
            let object = form.format_task(dialect, task, has);
            let between = format!(",{}", find_leading_space(&self.text, place.start));
            match at {
                0 => (place.start..place.start, String::new(), object, between),
                _ => (place.end..place.end, between, object, String::new()),
            }
        } else {
            // The only task: there is only white space between the brackets.
            let members = json_text::find_members(&self.text, &self.places.root);
            let list = ObjectForm::from_object(&self.text, &self.places.root, &members).to_inner();
            let usual = |field| is_usual(dialect, field);
            let object = list.to_inner().format_task(dialect, task, usual);
            let inside = self.places.list.start + 1..self.places.list.end - 1;
            (inside, list.lead, object, list.close)
        };
        let start = range.start + before.len();
        let text = format!("{before}{object}{after}");
        self.replace_text(range.clone(), &text);
        self.shift_places(at, text.len(), range.len());
        self.places.tasks.insert(at, start..start + object.len());
    }

    fn remove_task(&mut self, at: usize) {
        let tasks = &self.places.tasks;
        let place = tasks[at].clone();
        let range = match (tasks.get(at + 1), at.checked_sub(1).map(|before| &tasks[before])) {
            (Some(next), _) => place.start..next.start,
            (None, Some(before)) => before.end..place.end,
            (None, None) => self.places.list.start + 1..self.places.list.end - 1,
        };
        self.replace_text(range.clone(), "");
        self.places.tasks.remove(at);
        self.shift_places(at, 0, range.len());
    }

    /// Replaces bytes within a task.
    fn splice_task(&mut self, at: usize, range: Range<usize>, text: &str) {
        self.replace_text(range.clone(), text);
        self.shift_places(at + 1, text.len(), range.len());
        let end = &mut self.places.tasks[at].end;
        *end = *end + text.len() - range.len();
    }

    fn replace_text(&mut self, range: Range<usize>, text: &str) {
        if self.text[range.clone()] != *text {
            self.edits += 1;
            self.text.replace_range(range, text);
        }
    }

    /// Moves the positions after a change: the tasks from `from` on, and the ends around them.
    fn shift_places(&mut self, from: usize, added: usize, removed: usize) {
        let moved = |offset: usize| offset + added - removed;
        for place in &mut self.places.tasks[from..] {
            *place = moved(place.start)..moved(place.end);
        }
        self.places.list.end = moved(self.places.list.end);
        self.places.root.end = moved(self.places.root.end);
    }
}

/// The formatting of an object.
#[derive(Debug)]
struct ObjectForm {
    /// The white space before the first member.
    lead: String,
    /// The text between two members.
    separator: String,
    /// The text between a key and its value.
    colon: String,
    /// The white space before the closing brace.
    close: String,
    /// One step of indentation; empty where everything is on one line.
    unit: String,
}

impl ObjectForm {
    fn from_object(text: &str, object: &Range<usize>, members: &[Member<'_>]) -> Self {
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            let [separator, colon] = [", ", ": "].map(String::from);
            let [lead, close, unit] = [const { String::new() }; 3];
            return Self { lead, separator, colon, close, unit };
        };
        let lead = text[object.start + 1..first.key_range.start].to_owned();
        let close = text[last.value.end..object.end - 1].to_owned();
        let separator = match members {
            [.., before, last] => text[before.value.end..last.key_range.start].to_owned(),
            [_] | [] => format!(",{lead}"),
        };
        let unit = match (lead.rsplit_once('\n'), close.rsplit_once('\n')) {
            (Some((_, inner)), Some((_, outer))) => {
                inner.strip_prefix(outer).unwrap_or_default().to_owned()
            }
            (Some(_) | None, _) => String::new(),
        };
        let colon = text[first.key_range.end..first.value.start].to_owned();
        Self { lead, separator, colon, close, unit }
    }

    /// Returns the formatting one level deeper.
    fn to_inner(&self) -> Self {
        let (lead, close) = match self.unit.as_str() {
            "" => (String::new(), String::new()),
            unit => (format!("{}{unit}", self.lead), self.lead.clone()),
        };
        let separator = if lead.is_empty() { self.separator.clone() } else { format!(",{lead}") };
        Self { lead, separator, colon: self.colon.clone(), close, unit: self.unit.clone() }
    }

    fn format_member(&self, name: &str, value: &Value) -> String {
        let lines = ListLines::for_object(self);
        format!("{}{}{}", json!(name), self.colon, self.format_value(value, lines.as_ref()))
    }

    /// Formats a value; a list with a line for each element, if it has lines.
    fn format_value(&self, value: &Value, lines: Option<&ListLines>) -> String {
        let Value::Array(elements) = value else { return value.to_string() };
        let elements: Vec<String> = elements.iter().map(ToString::to_string).collect();
        match lines {
            Some(ListLines { lead, close }) if !elements.is_empty() => {
                format!("[{lead}{}{close}]", elements.join(&format!(",{lead}")))
            }
            Some(_) | None => {
                let comma = if self.colon.ends_with(' ') { ", " } else { "," };
                format!("[{}]", elements.join(comma))
            }
        }
    }

    /// Formats a new task, with the fields that are not empty and those that are wanted.
    fn format_task(
        &self,
        dialect: ListDialect,
        task: &Task,
        wants: impl Fn(TaskFileField) -> bool,
    ) -> String {
        let members: Vec<String> = dialect
            .task_fields()
            .iter()
            .filter(|field| is_needed(dialect, **field, task) || wants(**field))
            .filter_map(|field| {
                build_field_value(dialect, *field, task)
                    .map(|value| self.format_member(dialect.key_for(*field), &value))
            })
            .collect();
        format!("{{{}{}{}}}", self.lead, members.join(&self.separator), self.close)
    }
}

/// The white space of a list with one element per line.
struct ListLines {
    lead: String,
    close: String,
}

impl ListLines {
    /// Returns the lines of the list that replaces this value.
    fn for_value(text: &str, value: &Range<usize>, form: &ObjectForm) -> Option<Self> {
        let old = &text[value.clone()];
        let inside = old.strip_prefix('[')?.strip_suffix(']')?;
        let space = |text: &str| text.find(|it: char| !it.is_ascii_whitespace());
        let Some(start) = space(inside) else { return Self::for_object(form) };
        let lead = &inside[..start];
        let close = &inside[inside.trim_ascii_end().len()..];
        lead.contains('\n').then(|| Self { lead: lead.into(), close: close.into() })
    }

    /// Returns the lines of a list within an object.
    fn for_object(form: &ObjectForm) -> Option<Self> {
        let inner = form.to_inner();
        (!form.unit.is_empty()).then_some(Self { lead: inner.lead, close: inner.close })
    }
}

/// Returns the value of a task's field in a file; none if the field is better omitted.
fn build_field_value(dialect: ListDialect, field: TaskFileField, task: &Task) -> Option<Value> {
    let ids = |ids: &[TaskId]| json!(ids);
    match field {
        TaskFileField::Id => Some(json!(task.id)),
        TaskFileField::Title => Some(json!(task.title)),
        TaskFileField::Description => Some(json!(task.description)),
        TaskFileField::AcceptanceCriteria => Some(json!(task.acceptance_criteria)),
        TaskFileField::Order => task.order.map(Value::from),
        TaskFileField::DependsOn => Some(ids(&task.depends_on)),
        TaskFileField::Touches => Some(json!(task.touches)),
        TaskFileField::Skills => Some(json!(task.skills)),
        TaskFileField::Libraries => Some(json!(task.libraries)),
        TaskFileField::NeedsDocs => Some(json!(task.needs_docs)),
        TaskFileField::MaxTurns => task.max_turns.map(Value::from),
        TaskFileField::MaxRetries => task.max_retries.map(Value::from),
        TaskFileField::RetryCount => Some(json!(task.attempts)),
        TaskFileField::Status => Some(json!(task.status.name())),
        TaskFileField::Passes => match dialect {
            ListDialect::Plan => None,
            ListDialect::Stories => Some(json!(task.status.is_done())),
        },
        TaskFileField::ReviewStatus => Some(match task.review.status {
            ReviewStatus::None => Value::Null,
            ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
                json!(task.review.status.name())
            }
        }),
        TaskFileField::ReviewCount => Some(json!(task.review.count)),
        TaskFileField::ReviewFeedback => Some(json!(task.review.feedback)),
        TaskFileField::Notes => Some(json!(task.notes)),
        TaskFileField::Project
        | TaskFileField::Branch
        | TaskFileField::MaxIterations
        | TaskFileField::ValidationStrategy
        | TaskFileField::VerifyCommands
        | TaskFileField::Tasks => None,
    }
}

/// Returns whether the task would be read differently without the field.
fn is_needed(dialect: ListDialect, field: TaskFileField, task: &Task) -> bool {
    match field {
        TaskFileField::Id | TaskFileField::Title | TaskFileField::Passes => true,
        TaskFileField::Description => !task.description.is_empty(),
        TaskFileField::AcceptanceCriteria => !task.acceptance_criteria.is_empty(),
        TaskFileField::Order => task.order.is_some(),
        TaskFileField::DependsOn => !task.depends_on.is_empty(),
        TaskFileField::Touches => !task.touches.is_empty(),
        TaskFileField::Skills => !task.skills.is_empty(),
        TaskFileField::Libraries => !task.libraries.is_empty(),
        TaskFileField::NeedsDocs => task.needs_docs,
        TaskFileField::MaxTurns => task.max_turns.is_some(),
        TaskFileField::MaxRetries => task.max_retries.is_some(),
        TaskFileField::RetryCount => task.attempts > 0,
        TaskFileField::Status => match dialect {
            ListDialect::Plan => true,
            ListDialect::Stories => match task.status {
                TaskStatus::Pending | TaskStatus::Done => false,
                TaskStatus::InProgress | TaskStatus::Failed | TaskStatus::Skipped => true,
            },
        },
        TaskFileField::ReviewStatus => task.review.status != ReviewStatus::None,
        TaskFileField::ReviewCount => task.review.count > 0,
        TaskFileField::ReviewFeedback => !task.review.feedback.is_empty(),
        TaskFileField::Notes => !task.notes.is_empty(),
        TaskFileField::Project
        | TaskFileField::Branch
        | TaskFileField::MaxIterations
        | TaskFileField::ValidationStrategy
        | TaskFileField::VerifyCommands
        | TaskFileField::Tasks => false,
    }
}

/// Returns whether the first task of a file has the field even if it is empty.
fn is_usual(dialect: ListDialect, field: TaskFileField) -> bool {
    let usual: &[TaskFileField] = match dialect {
        ListDialect::Plan => &[
            TaskFileField::Description,
            TaskFileField::AcceptanceCriteria,
            TaskFileField::DependsOn,
            TaskFileField::Skills,
            TaskFileField::Libraries,
            TaskFileField::NeedsDocs,
            TaskFileField::RetryCount,
        ],
        ListDialect::Stories => &[
            TaskFileField::Description,
            TaskFileField::AcceptanceCriteria,
            TaskFileField::DependsOn,
            TaskFileField::ReviewStatus,
            TaskFileField::ReviewCount,
            TaskFileField::ReviewFeedback,
            TaskFileField::Notes,
        ],
    };
    usual.contains(&field)
}

/// Returns the white space before an offset.
fn find_leading_space(text: &str, at: usize) -> &str {
    &text[text[..at].trim_ascii_end().len()..at]
}

#[cfg(test)]
mod tests;
