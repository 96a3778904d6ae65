//! Parses the text of a task file into the model, and reports every mistake with its position.
//!
//! The dialect is detected from the content. Unknown fields are not mistakes. Not here: files
//! (`task_file`) and changes (`task_editor`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use ralph_core::nearest::find_nearest;
use ralph_core::tasks::validation::{TaskField, TaskProblem, validate_list};
use ralph_model::gate::ValidationStrategy;
use ralph_model::ids::TaskId;
use ralph_model::review::{ReviewState, ReviewStatus};
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::dialect::{LIST_FIELDS, ListDialect, TaskFileField};
use super::json_text::{self, JsonKind, Member};

/// The positions of the tasks in the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListPlaces {
    pub(super) dialect: ListDialect,
    /// The whole document.
    pub(super) root: Range<usize>,
    pub(super) list: Range<usize>,
    pub(super) tasks: Vec<Range<usize>>,
}

/// A mistake at an offset of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundProblem {
    pub(super) offset: usize,
    pub(super) at: String,
    pub(super) message: String,
    pub(super) remedy: Option<String>,
}

/// Parses a JSON document.
pub(super) fn parse_list(
    text: &str,
    root: &Range<usize>,
) -> Result<(TaskList, ListPlaces), Vec<FoundProblem>> {
    let (read, found) = parse_despite_faults(text, root);
    match read {
        Some(read) if found.is_empty() => Ok(read),
        Some(_) | None => Err(found),
    }
}

/// Parses a JSON document despite faults in the list: returns the list if every field could be
/// read, and all mistakes.
pub(super) fn parse_despite_faults(
    text: &str,
    root: &Range<usize>,
) -> (Option<(TaskList, ListPlaces)>, Vec<FoundProblem>) {
    let whole = |message: String, remedy: &str| {
        let remedy = Some(remedy.to_owned());
        (None, vec![FoundProblem { offset: root.start, at: String::new(), message, remedy }])
    };
    let form = "a task file is an object with `tasks` or `userStories`";
    let kind = json_text::detect_kind(text, root.start);
    if kind != JsonKind::Object {
        return whole(format!("must be an object, not {}", kind.name_with_article()), form);
    }
    let members = json_text::find_members(text, root);
    let has = |dialect: ListDialect| members.iter().any(|member| member.key == dialect.tasks_key());
    let dialect = match (has(ListDialect::Plan), has(ListDialect::Stories)) {
        (true, false) => ListDialect::Plan,
        (false, true) => ListDialect::Stories,
        (true, true) => {
            return whole(
                "has both `tasks` and `userStories`".into(),
                "keep the one that holds the tasks",
            );
        }
        (false, false) => return whole("has no tasks".into(), form),
    };
    let mut reader = ListReader { text, dialect, found: Vec::new(), faulty: BTreeSet::new() };
    let (list, places) = reader.read_list(root, &members);
    let is_whole = reader.found.is_empty();
    for problem in validate_list(&list) {
        reader.add_problem(&places, &problem);
    }
    reader.found.sort_by_key(|found| found.offset);
    (is_whole.then_some((list, places)), reader.found)
}

/// Finds the offsets of problems in a document that was parsed.
pub(super) fn locate_task_problems(
    text: &str,
    places: &ListPlaces,
    problems: &[TaskProblem],
) -> Vec<FoundProblem> {
    let (found, troubled) = (Vec::new(), BTreeSet::new());
    let mut reader = ListReader { text, dialect: places.dialect, found, faulty: troubled };
    for problem in problems {
        reader.add_problem(places, problem);
    }
    reader.found.sort_by_key(|found| found.offset);
    reader.found
}

struct ListReader<'a> {
    text: &'a str,
    dialect: ListDialect,
    found: Vec<FoundProblem>,
    /// Fields of tasks that could not be read. Problems that only follow from this are not
    /// reported.
    faulty: BTreeSet<(usize, TaskFileField)>,
}

/// The known fields of an object.
struct KnownFields {
    /// The index of the task; none for the list itself.
    task: Option<usize>,
    values: Vec<(TaskFileField, Range<usize>)>,
}

impl KnownFields {
    fn find_range(&self, field: TaskFileField) -> Option<Range<usize>> {
        self.values.iter().find(|(known, _)| *known == field).map(|(_, value)| value.clone())
    }
}

impl ListReader<'_> {
    fn read_list(&mut self, root: &Range<usize>, members: &[Member<'_>]) -> (TaskList, ListPlaces) {
        let fields = self.collect_fields(None, members, &LIST_FIELDS);
        let strategies = [
            ("strict", ValidationStrategy::Strict),
            ("lenient", ValidationStrategy::Lenient),
            ("tests_only", ValidationStrategy::TestsOnly),
        ];
        let mut list = TaskList {
            project: self.read_string(&fields, TaskFileField::Project).unwrap_or_default(),
            description: self.read_string(&fields, TaskFileField::Description).unwrap_or_default(),
            branch: self.read_string(&fields, TaskFileField::Branch),
            max_iterations: self.read_count(&fields, TaskFileField::MaxIterations),
            validation_strategy: self.read_choice(
                &fields,
                TaskFileField::ValidationStrategy,
                "validation strategy",
                &strategies,
            ),
            verify_commands: self.read_strings(&fields, TaskFileField::VerifyCommands),
            tasks: Vec::new(),
        };
        let name = self.dialect.tasks_key();
        let value = members
            .iter()
            .rfind(|member| member.key == name)
            .map_or_else(|| root.clone(), |member| member.value.clone());
        let mut places = ListPlaces {
            dialect: self.dialect,
            root: root.clone(),
            list: value.clone(),
            tasks: Vec::new(),
        };
        let kind = json_text::detect_kind(self.text, value.start);
        if kind != JsonKind::List {
            self.report(value.start, name.into(), describe_mismatch("a list", kind), None);
            return (list, places);
        }
        places.tasks = json_text::find_elements(self.text, &value);
        for (at, place) in places.tasks.iter().enumerate() {
            let kind = json_text::detect_kind(self.text, place.start);
            let members = if kind == JsonKind::Object {
                json_text::find_members(self.text, place)
            } else {
                let remedy = Some("a task is an object with `id`, `title` and more".into());
                self.report(
                    place.start,
                    format!("{name}[{at}]"),
                    describe_mismatch("an object", kind),
                    remedy,
                );
                self.faulty.extend(
                    [
                        TaskFileField::Id,
                        TaskFileField::Title,
                        TaskFileField::Description,
                        TaskFileField::AcceptanceCriteria,
                    ]
                    .map(|field| (at, field)),
                );
                Vec::new()
            };
            let task = self.read_task(at, &members);
            list.tasks.push(task);
        }
        (list, places)
    }

    fn read_task(&mut self, at: usize, members: &[Member<'_>]) -> Task {
        let fields = self.collect_fields(Some(at), members, self.dialect.task_fields());
        let reviews = ReviewStatus::ALL.map(|status| (status.name(), status));
        Task {
            id: TaskId(self.read_id(&fields)),
            title: self.read_string(&fields, TaskFileField::Title).unwrap_or_default(),
            description: self.read_string(&fields, TaskFileField::Description).unwrap_or_default(),
            acceptance_criteria: self.read_strings(&fields, TaskFileField::AcceptanceCriteria),
            order: self.read_order(&fields),
            depends_on: self
                .read_strings(&fields, TaskFileField::DependsOn)
                .into_iter()
                .map(TaskId)
                .collect(),
            touches: self.read_strings(&fields, TaskFileField::Touches),
            skills: self.read_strings(&fields, TaskFileField::Skills),
            libraries: self.read_strings(&fields, TaskFileField::Libraries),
            needs_docs: self.read_boolean(&fields, TaskFileField::NeedsDocs).unwrap_or_default(),
            max_turns: self.read_count(&fields, TaskFileField::MaxTurns),
            max_retries: self.read_count(&fields, TaskFileField::MaxRetries),
            attempts: self.read_count(&fields, TaskFileField::RetryCount).unwrap_or_default(),
            status: self.read_status(&fields),
            review: ReviewState {
                status: self
                    .read_choice(&fields, TaskFileField::ReviewStatus, "review status", &reviews)
                    .unwrap_or(ReviewStatus::None),
                count: self.read_count(&fields, TaskFileField::ReviewCount).unwrap_or_default(),
                feedback: self
                    .read_string(&fields, TaskFileField::ReviewFeedback)
                    .unwrap_or_default(),
            },
            notes: self.read_string(&fields, TaskFileField::Notes).unwrap_or_default(),
        }
    }

    /// Collects the known fields of an object, and reports duplicates.
    fn collect_fields(
        &mut self,
        task: Option<usize>,
        members: &[Member<'_>],
        known: &[TaskFileField],
    ) -> KnownFields {
        let mut fields = KnownFields { task, values: Vec::with_capacity(members.len()) };
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for member in members {
            let field =
                known.iter().copied().find(|field| self.dialect.accepts_key(*field, &member.key));
            let is_same_key = !seen.insert(&member.key);
            if is_same_key || field.is_some_and(|field| fields.find_range(field).is_some()) {
                let message = match field.map(|field| self.dialect.key_for(field)) {
                    Some(name) if !is_same_key => {
                        format!("is there twice: it is a spelling of `{name}`")
                    }
                    Some(_) | None => "is there twice".into(),
                };
                let at = self.format_json_path(task, &member.key);
                self.report(member.key_range.start, at, message, Some("remove one of them".into()));
            } else if let Some(field) = field {
                fields.values.push((field, member.value.clone()));
            }
        }
        fields
    }

    /// Returns the value of a field that is present and not null.
    fn find_value(
        &self,
        fields: &KnownFields,
        field: TaskFileField,
    ) -> Option<(Range<usize>, JsonKind)> {
        let value = fields.find_range(field)?;
        let kind = json_text::detect_kind(self.text, value.start);
        (kind != JsonKind::Null).then_some((value, kind))
    }

    fn read_id(&mut self, fields: &KnownFields) -> String {
        match self.find_value(fields, TaskFileField::Id) {
            // The number is used as the id, so that dependencies on the task still resolve.
            Some((value, JsonKind::Number)) => {
                let id = self.text[value.clone()].to_owned();
                let remedy = format!("put it in quotes: \"{id}\"");
                self.report_field(
                    fields,
                    TaskFileField::Id,
                    &value,
                    describe_mismatch("a string", JsonKind::Number),
                    remedy,
                );
                id
            }
            Some(_) | None => self.read_string(fields, TaskFileField::Id).unwrap_or_default(),
        }
    }

    fn read_string(&mut self, fields: &KnownFields, field: TaskFileField) -> Option<String> {
        let (value, kind) = self.find_value(fields, field)?;
        if kind != JsonKind::String {
            self.report_field(
                fields,
                field,
                &value,
                describe_mismatch("a string", kind),
                "put it in quotes",
            );
            return None;
        }
        let string = json_text::decode_string(&self.text[value.clone()]).map(Cow::into_owned);
        if string.is_none() {
            self.report_field(fields, field, &value, HALF_CHARACTER.into(), ESCAPE_REMEDY);
        }
        string
    }

    fn read_strings(&mut self, fields: &KnownFields, field: TaskFileField) -> Vec<String> {
        let Some((value, kind)) = self.find_value(fields, field) else { return Vec::new() };
        if kind != JsonKind::List {
            self.report_field(
                fields,
                field,
                &value,
                describe_mismatch("a list of strings", kind),
                "write `[…]`",
            );
            return Vec::new();
        }
        let mut strings = Vec::new();
        for (index, element) in json_text::find_elements(self.text, &value).into_iter().enumerate()
        {
            let kind = json_text::detect_kind(self.text, element.start);
            let string = json_text::decode_string(&self.text[element.clone()]).map(Cow::into_owned);
            let (message, remedy) = match (kind, string) {
                (JsonKind::String, Some(string)) => {
                    strings.push(string);
                    continue;
                }
                (JsonKind::String, None) => (HALF_CHARACTER.into(), ESCAPE_REMEDY),
                (
                    JsonKind::Object
                    | JsonKind::List
                    | JsonKind::Number
                    | JsonKind::Bool
                    | JsonKind::Null,
                    _,
                ) => (describe_mismatch("a string", kind), "put it in quotes"),
            };
            let path = self.format_json_path(fields.task, self.dialect.key_for(field));
            self.report(element.start, format!("{path}[{index}]"), message, Some(remedy.into()));
            self.faulty.extend(fields.task.map(|task| (task, field)));
        }
        strings
    }

    fn read_boolean(&mut self, fields: &KnownFields, field: TaskFileField) -> Option<bool> {
        let (value, kind) = self.find_value(fields, field)?;
        if kind == JsonKind::Bool {
            return Some(&self.text[value] == "true");
        }
        self.report_field(
            fields,
            field,
            &value,
            describe_mismatch("true or false", kind),
            "without quotes",
        );
        None
    }

    fn read_count(&mut self, fields: &KnownFields, field: TaskFileField) -> Option<u32> {
        let (value, kind) = self.find_value(fields, field)?;
        let number = parse_whole_number(&self.text[value.clone()])
            .and_then(|number| u32::try_from(number).ok());
        if kind != JsonKind::Number || number.is_none() {
            let message = "must be a whole number from 0".into();
            self.report_field(fields, field, &value, message, "without quotes, sign or fraction");
        }
        number
    }

    fn read_order(&mut self, fields: &KnownFields) -> Option<i64> {
        let (value, kind) = self.find_value(fields, TaskFileField::Order)?;
        let number = parse_whole_number(&self.text[value.clone()]);
        if kind != JsonKind::Number || number.is_none() {
            let message = "must be a whole number".into();
            self.report_field(fields, TaskFileField::Order, &value, message, "lower comes first");
        }
        number
    }

    fn read_status(&mut self, fields: &KnownFields) -> TaskStatus {
        let names = TaskStatus::ALL.map(|status| (status.name(), status));
        let status = self.read_choice(fields, TaskFileField::Status, "status", &names);
        match self.dialect {
            ListDialect::Plan => status.unwrap_or(TaskStatus::Pending),
            ListDialect::Stories => {
                match (self.read_boolean(fields, TaskFileField::Passes), status) {
                    (None | Some(false), None) => TaskStatus::Pending,
                    (Some(true), None) => TaskStatus::Done,
                    (None, Some(status)) => status,
                    (Some(passes), Some(status)) => {
                        if passes != status.is_done() {
                            let value =
                                fields.find_range(TaskFileField::Passes).unwrap_or_default();
                            let message = format!("is {passes} although `status` says `{status}`");
                            self.report_field(
                                fields,
                                TaskFileField::Passes,
                                &value,
                                message,
                                "make them agree",
                            );
                        }
                        status
                    }
                }
            }
        }
    }

    fn read_choice<T: Copy>(
        &mut self,
        fields: &KnownFields,
        field: TaskFileField,
        noun: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let word = self.read_string(fields, field)?;
        let known = choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        if known.is_none() {
            let value = fields.find_range(field).unwrap_or_default();
            // A planned list has `null` for the review status "none".
            let to_json = |name| if name == "none" { "null" } else { name };
            let names = || choices.iter().map(|(name, _)| to_json(*name));
            let remedy = match find_nearest(&word, names()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("it is one of {}", names().collect::<Vec<_>>().join(", ")),
            };
            self.report_field(fields, field, &value, format!("unknown {noun} `{word}`"), remedy);
        }
        known
    }

    /// Reports a mistake in a field. Problems that follow from the missing value are not reported.
    fn report_field(
        &mut self,
        fields: &KnownFields,
        field: TaskFileField,
        value: &Range<usize>,
        message: String,
        remedy: impl Into<String>,
    ) {
        let at = self.format_json_path(fields.task, self.dialect.key_for(field));
        self.report(value.start, at, message, Some(remedy.into()));
        self.faulty.extend(fields.task.map(|task| (task, field)));
    }

    fn add_problem(&mut self, places: &ListPlaces, problem: &TaskProblem) {
        let (field, index) = convert_field(problem.fault.field());
        if self.faulty.contains(&(problem.task, field)) {
            return;
        }
        let members = json_text::find_members(self.text, &places.tasks[problem.task]);
        let has = |field| members.iter().any(|it| self.dialect.accepts_key(field, &it.key));
        // Stories may have `passes` instead of a status.
        let is_passing = field == TaskFileField::Status
            && !has(TaskFileField::Status)
            && has(TaskFileField::Passes);
        let field = if is_passing { TaskFileField::Passes } else { field };
        let name = self.dialect.key_for(field);
        let mut at = self.format_json_path(Some(problem.task), name);
        let mut offset = places.tasks[problem.task].start;
        if let Some(member) = members.iter().find(|it| self.dialect.accepts_key(field, &it.key)) {
            offset = member.value.start;
            if let Some(index) = index {
                at = format!("{at}[{index}]");
                let elements = json_text::find_elements(self.text, &member.value);
                offset = elements.get(index).map_or(offset, |element| element.start);
            }
        }
        self.report(offset, at, problem.to_string(), Some(problem.fault.remedy()));
    }

    fn report(&mut self, offset: usize, at: String, message: String, remedy: Option<String>) {
        self.found.push(FoundProblem { offset, at, message, remedy });
    }

    fn format_json_path(&self, task: Option<usize>, key: &str) -> String {
        match task {
            Some(task) => format!("{}[{task}].{key}", self.dialect.tasks_key()),
            None => key.into(),
        }
    }
}

const HALF_CHARACTER: &str = "holds half a character";
const ESCAPE_REMEDY: &str = "`\\ud800` to `\\udfff` only come in pairs";

fn describe_mismatch(what: &str, kind: JsonKind) -> String {
    format!("must be {what}, not {}", kind.name_with_article())
}

/// Parses a whole number, also if it is written like `1.0` or `1e3`.
fn parse_whole_number(literal: &str) -> Option<i64> {
    literal.parse().ok().or_else(|| {
        let number: f64 = literal.parse().ok()?;
        // Beyond this, not every whole number is exact.
        let is_exact = number.fract() == 0.0 && number.abs() < 9e15;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        is_exact.then_some(number as i64)
    })
}

fn convert_field(field: TaskField) -> (TaskFileField, Option<usize>) {
    match field {
        TaskField::Id => (TaskFileField::Id, None),
        TaskField::Title => (TaskFileField::Title, None),
        TaskField::Description => (TaskFileField::Description, None),
        TaskField::AcceptanceCriteria(at) => (TaskFileField::AcceptanceCriteria, at),
        TaskField::DependsOn(at) => (TaskFileField::DependsOn, at),
        TaskField::Touches(at) => (TaskFileField::Touches, Some(at)),
        TaskField::Skills(at) => (TaskFileField::Skills, Some(at)),
        TaskField::Status => (TaskFileField::Status, None),
        TaskField::ReviewStatus => (TaskFileField::ReviewStatus, None),
        TaskField::ReviewCount => (TaskFileField::ReviewCount, None),
        TaskField::ReviewFeedback => (TaskFileField::ReviewFeedback, None),
        TaskField::Attempts => (TaskFileField::RetryCount, None),
        TaskField::Notes => (TaskFileField::Notes, None),
    }
}
