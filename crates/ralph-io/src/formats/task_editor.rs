//! Edits a task file in its text: changes only the affected bytes.
//!
//! A change is applied to the model first; then the fields of the task that differ are written.
//! New entries copy the formatting of their neighbors. Not here: which changes are allowed, and
//! writing the file.

use std::ops::Range;

use ralph_core::ids::TaskId;
use ralph_core::review::ReviewStatus;
use ralph_core::task::{ChangeError, Task, TaskChange, TaskList, TaskStatus};
use serde_json::{Value, json};

use super::dialect::{Dialect, Field};
use super::json_text::{self, Member};
use super::task_reader::Places;

/// The text of a task file with its model and the positions of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) text: String,
    pub(super) list: TaskList,
    pub(super) places: Places,
    /// How often the text was changed.
    pub(super) edits: u64,
}

impl Document {
    /// Applies all changes, or none.
    pub(super) fn apply(&mut self, changes: &[TaskChange]) -> Result<(), ChangeError> {
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
                let at = self.list.place(task)?;
                let before = self.list.tasks[at].clone();
                self.list.apply(change)?;
                self.rewrite(at, &before);
            }
            TaskChange::Remove { task } => {
                let at = self.list.place(task)?;
                self.list.apply(change)?;
                self.remove(at);
            }
            TaskChange::Add { task, .. } | TaskChange::Insert { task, .. } => {
                self.list.apply(change)?;
                let at = self.list.place(&task.id)?;
                self.add(at);
            }
        }
        Ok(())
    }

    /// Writes the fields of a task that have changed.
    fn rewrite(&mut self, at: usize, before: &Task) {
        let dialect = self.places.dialect;
        let after = self.list.tasks[at].clone();
        for &field in dialect.task_fields() {
            let value = value(dialect, field, &after);
            if value != self::value(dialect, field, before) {
                self.set(at, field, &value.unwrap_or(Value::Null), &after);
            }
        }
    }

    fn set(&mut self, at: usize, field: Field, value: &Value, task: &Task) {
        let dialect = self.places.dialect;
        let place = &self.places.tasks[at];
        let members = json_text::members(&self.text, place);
        let form = Form::of(&self.text, place, &members);
        if let Some(member) = members.iter().find(|member| dialect.calls(field, &member.key)) {
            let range = member.value.clone();
            let lines = Lines::of(&self.text, &range, &form);
            let text = form.value(value, lines.as_ref());
            self.splice(at, range, &text);
        } else if is_needed(dialect, field, task) {
            let entry = form.member(dialect.name(field), value);
            let (end, separator) = match members.last() {
                Some(last) => (last.value.end, form.separator.as_str()),
                None => (place.start + 1, ""),
            };
            self.splice(at, end..end, &format!("{separator}{entry}"));
        }
    }

    fn add(&mut self, at: usize) {
        let dialect = self.places.dialect;
        let task = &self.list.tasks[at];
        // It is formatted like the task before it, and the first one like the task after it.
        let neighbor = self.places.tasks.get(at.saturating_sub(1));
        let (range, before, object, after) = if let Some(place) = neighbor {
            let members = json_text::members(&self.text, place);
            let form = Form::of(&self.text, place, &members);
            let has = |field| members.iter().any(|it| dialect.calls(field, &it.key));
            let object = form.object(dialect, task, has);
            let between = format!(",{}", lead(&self.text, place.start));
            match at {
                0 => (place.start..place.start, String::new(), object, between),
                _ => (place.end..place.end, between, object, String::new()),
            }
        } else {
            // The only task: there is only white space between the brackets.
            let members = json_text::members(&self.text, &self.places.root);
            let list = Form::of(&self.text, &self.places.root, &members).inner();
            let usual = |field| is_usual(dialect, field);
            let object = list.inner().object(dialect, task, usual);
            let inside = self.places.list.start + 1..self.places.list.end - 1;
            (inside, list.lead, object, list.close)
        };
        let start = range.start + before.len();
        let text = format!("{before}{object}{after}");
        self.replace(range.clone(), &text);
        self.shift(at, text.len(), range.len());
        self.places.tasks.insert(at, start..start + object.len());
    }

    fn remove(&mut self, at: usize) {
        let tasks = &self.places.tasks;
        let place = tasks[at].clone();
        let range = match (tasks.get(at + 1), at.checked_sub(1).map(|before| &tasks[before])) {
            (Some(next), _) => place.start..next.start,
            (None, Some(before)) => before.end..place.end,
            (None, None) => self.places.list.start + 1..self.places.list.end - 1,
        };
        self.replace(range.clone(), "");
        self.places.tasks.remove(at);
        self.shift(at, 0, range.len());
    }

    /// Replaces bytes within a task.
    fn splice(&mut self, at: usize, range: Range<usize>, text: &str) {
        self.replace(range.clone(), text);
        self.shift(at + 1, text.len(), range.len());
        let end = &mut self.places.tasks[at].end;
        *end = *end + text.len() - range.len();
    }

    fn replace(&mut self, range: Range<usize>, text: &str) {
        if self.text[range.clone()] != *text {
            self.edits += 1;
            self.text.replace_range(range, text);
        }
    }

    /// Moves the positions after a change: the tasks from `from` on, and the ends around them.
    fn shift(&mut self, from: usize, added: usize, removed: usize) {
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
struct Form {
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

impl Form {
    fn of(text: &str, object: &Range<usize>, members: &[Member<'_>]) -> Self {
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
    fn inner(&self) -> Self {
        let (lead, close) = match self.unit.as_str() {
            "" => (String::new(), String::new()),
            unit => (format!("{}{unit}", self.lead), self.lead.clone()),
        };
        let separator = if lead.is_empty() { self.separator.clone() } else { format!(",{lead}") };
        Self { lead, separator, colon: self.colon.clone(), close, unit: self.unit.clone() }
    }

    fn member(&self, name: &str, value: &Value) -> String {
        let lines = Lines::within(self);
        format!("{}{}{}", json!(name), self.colon, self.value(value, lines.as_ref()))
    }

    /// Formats a value; a list with a line for each element, if it has lines.
    fn value(&self, value: &Value, lines: Option<&Lines>) -> String {
        let Value::Array(elements) = value else { return value.to_string() };
        let elements: Vec<String> = elements.iter().map(ToString::to_string).collect();
        match lines {
            Some(Lines { lead, close }) if !elements.is_empty() => {
                format!("[{lead}{}{close}]", elements.join(&format!(",{lead}")))
            }
            Some(_) | None => {
                let comma = if self.colon.ends_with(' ') { ", " } else { "," };
                format!("[{}]", elements.join(comma))
            }
        }
    }

    /// Formats a new task, with the fields that are not empty and those that are wanted.
    fn object(&self, dialect: Dialect, task: &Task, wants: impl Fn(Field) -> bool) -> String {
        let members: Vec<String> = dialect
            .task_fields()
            .iter()
            .filter(|field| is_needed(dialect, **field, task) || wants(**field))
            .filter_map(|field| {
                value(dialect, *field, task).map(|value| self.member(dialect.name(*field), &value))
            })
            .collect();
        format!("{{{}{}{}}}", self.lead, members.join(&self.separator), self.close)
    }
}

/// The white space of a list with one element per line.
struct Lines {
    lead: String,
    close: String,
}

impl Lines {
    /// Returns the lines of the list that replaces this value.
    fn of(text: &str, value: &Range<usize>, form: &Form) -> Option<Self> {
        let old = &text[value.clone()];
        let inside = old.strip_prefix('[')?.strip_suffix(']')?;
        let space = |text: &str| text.find(|it: char| !it.is_ascii_whitespace());
        let Some(start) = space(inside) else { return Self::within(form) };
        let lead = &inside[..start];
        let close = &inside[inside.trim_ascii_end().len()..];
        lead.contains('\n').then(|| Self { lead: lead.into(), close: close.into() })
    }

    /// Returns the lines of a list within an object.
    fn within(form: &Form) -> Option<Self> {
        let inner = form.inner();
        (!form.unit.is_empty()).then_some(Self { lead: inner.lead, close: inner.close })
    }
}

/// Returns the value of a task's field in a file; none if the field is better omitted.
fn value(dialect: Dialect, field: Field, task: &Task) -> Option<Value> {
    let ids = |ids: &[TaskId]| json!(ids);
    match field {
        Field::Id => Some(json!(task.id)),
        Field::Title => Some(json!(task.title)),
        Field::Description => Some(json!(task.description)),
        Field::AcceptanceCriteria => Some(json!(task.acceptance_criteria)),
        Field::Order => task.order.map(Value::from),
        Field::DependsOn => Some(ids(&task.depends_on)),
        Field::Skills => Some(json!(task.skills)),
        Field::Libraries => Some(json!(task.libraries)),
        Field::NeedsDocs => Some(json!(task.needs_docs)),
        Field::MaxTurns => task.max_turns.map(Value::from),
        Field::MaxRetries => task.max_retries.map(Value::from),
        Field::RetryCount => Some(json!(task.attempts)),
        Field::Status => Some(json!(task.status.name())),
        Field::Passes => match dialect {
            Dialect::Plan => None,
            Dialect::Stories => Some(json!(task.status.is_done())),
        },
        Field::ReviewStatus => Some(match task.review.status {
            ReviewStatus::None => Value::Null,
            ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
                json!(task.review.status.name())
            }
        }),
        Field::ReviewCount => Some(json!(task.review.count)),
        Field::ReviewFeedback => Some(json!(task.review.feedback)),
        Field::Notes => Some(json!(task.notes)),
        Field::Project
        | Field::Branch
        | Field::MaxIterations
        | Field::ValidationStrategy
        | Field::VerifyCommands
        | Field::Tasks => None,
    }
}

/// Returns whether the task would be read differently without the field.
fn is_needed(dialect: Dialect, field: Field, task: &Task) -> bool {
    match field {
        Field::Id | Field::Title | Field::Passes => true,
        Field::Description => !task.description.is_empty(),
        Field::AcceptanceCriteria => !task.acceptance_criteria.is_empty(),
        Field::Order => task.order.is_some(),
        Field::DependsOn => !task.depends_on.is_empty(),
        Field::Skills => !task.skills.is_empty(),
        Field::Libraries => !task.libraries.is_empty(),
        Field::NeedsDocs => task.needs_docs,
        Field::MaxTurns => task.max_turns.is_some(),
        Field::MaxRetries => task.max_retries.is_some(),
        Field::RetryCount => task.attempts > 0,
        Field::Status => match dialect {
            Dialect::Plan => true,
            Dialect::Stories => match task.status {
                TaskStatus::Pending | TaskStatus::Done => false,
                TaskStatus::InProgress | TaskStatus::Failed | TaskStatus::Skipped => true,
            },
        },
        Field::ReviewStatus => task.review.status != ReviewStatus::None,
        Field::ReviewCount => task.review.count > 0,
        Field::ReviewFeedback => !task.review.feedback.is_empty(),
        Field::Notes => !task.notes.is_empty(),
        Field::Project
        | Field::Branch
        | Field::MaxIterations
        | Field::ValidationStrategy
        | Field::VerifyCommands
        | Field::Tasks => false,
    }
}

/// Returns whether the first task of a file has the field even if it is empty.
fn is_usual(dialect: Dialect, field: Field) -> bool {
    let usual: &[Field] = match dialect {
        Dialect::Plan => &[
            Field::Description,
            Field::AcceptanceCriteria,
            Field::DependsOn,
            Field::Skills,
            Field::Libraries,
            Field::NeedsDocs,
            Field::RetryCount,
        ],
        Dialect::Stories => &[
            Field::Description,
            Field::AcceptanceCriteria,
            Field::DependsOn,
            Field::ReviewStatus,
            Field::ReviewCount,
            Field::ReviewFeedback,
            Field::Notes,
        ],
    };
    usual.contains(&field)
}

/// Returns the white space before an offset.
fn lead(text: &str, at: usize) -> &str {
    &text[text[..at].trim_ascii_end().len()..at]
}

#[cfg(test)]
mod tests;
