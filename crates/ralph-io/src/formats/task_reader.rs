//! Parses the text of a task file into the model, and reports every mistake with its position.
//!
//! The dialect is detected from the content. Unknown fields are not mistakes. Not here: files
//! (`task_file`) and changes (`task_editor`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use ralph_core::gate::ValidationStrategy;
use ralph_core::ids::TaskId;
use ralph_core::nearest::nearest;
use ralph_core::review::{ReviewState, ReviewStatus};
use ralph_core::task::{Task, TaskField, TaskList, TaskProblem, TaskStatus};

use super::dialect::{Dialect, Field, LIST_FIELDS};
use super::json_text::{self, Kind, Member};

/// The positions of the tasks in the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) dialect: Dialect,
    /// The whole document.
    pub(super) root: Range<usize>,
    pub(super) list: Range<usize>,
    pub(super) tasks: Vec<Range<usize>>,
}

/// A mistake at an offset of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) offset: usize,
    pub(super) at: String,
    pub(super) message: String,
    pub(super) remedy: Option<String>,
}

/// Parses a JSON document.
pub(super) fn read(text: &str, root: &Range<usize>) -> Result<(TaskList, Places), Vec<Found>> {
    let (read, found) = read_in_spite(text, root);
    match read {
        Some(read) if found.is_empty() => Ok(read),
        Some(_) | None => Err(found),
    }
}

/// Parses a JSON document despite faults in the list: returns the list if every field could be
/// read, and all mistakes.
pub(super) fn read_in_spite(
    text: &str,
    root: &Range<usize>,
) -> (Option<(TaskList, Places)>, Vec<Found>) {
    let whole = |message: String, remedy: &str| {
        let remedy = Some(remedy.to_owned());
        (None, vec![Found { offset: root.start, at: String::new(), message, remedy }])
    };
    let form = "a task file is an object with `tasks` or `userStories`";
    let kind = json_text::kind(text, root.start);
    if kind != Kind::Object {
        return whole(format!("must be an object, not {}", kind.name()), form);
    }
    let members = json_text::members(text, root);
    let has = |dialect: Dialect| members.iter().any(|member| member.key == dialect.tasks());
    let dialect = match (has(Dialect::Plan), has(Dialect::Stories)) {
        (true, false) => Dialect::Plan,
        (false, true) => Dialect::Stories,
        (true, true) => {
            return whole(
                "has both `tasks` and `userStories`".into(),
                "keep the one that holds the tasks",
            );
        }
        (false, false) => return whole("has no tasks".into(), form),
    };
    let mut reader = Reader { text, dialect, found: Vec::new(), troubled: BTreeSet::new() };
    let (list, places) = reader.list(root, &members);
    let is_whole = reader.found.is_empty();
    for problem in list.validate() {
        reader.add_problem(&places, &problem);
    }
    reader.found.sort_by_key(|found| found.offset);
    (is_whole.then_some((list, places)), reader.found)
}

/// Finds the offsets of problems in a document that was parsed.
pub(super) fn find(text: &str, places: &Places, problems: &[TaskProblem]) -> Vec<Found> {
    let (found, troubled) = (Vec::new(), BTreeSet::new());
    let mut reader = Reader { text, dialect: places.dialect, found, troubled };
    for problem in problems {
        reader.add_problem(places, problem);
    }
    reader.found.sort_by_key(|found| found.offset);
    reader.found
}

struct Reader<'a> {
    text: &'a str,
    dialect: Dialect,
    found: Vec<Found>,
    /// Fields of tasks that could not be read. Problems that only follow from this are not
    /// reported.
    troubled: BTreeSet<(usize, Field)>,
}

/// The known fields of an object.
struct Fields {
    /// The index of the task; none for the list itself.
    task: Option<usize>,
    values: Vec<(Field, Range<usize>)>,
}

impl Fields {
    fn value(&self, field: Field) -> Option<Range<usize>> {
        self.values.iter().find(|(known, _)| *known == field).map(|(_, value)| value.clone())
    }
}

impl Reader<'_> {
    fn list(&mut self, root: &Range<usize>, members: &[Member<'_>]) -> (TaskList, Places) {
        let fields = self.fields(None, members, &LIST_FIELDS);
        let strategies = [
            ("strict", ValidationStrategy::Strict),
            ("lenient", ValidationStrategy::Lenient),
            ("tests_only", ValidationStrategy::TestsOnly),
        ];
        let mut list = TaskList {
            project: self.string(&fields, Field::Project).unwrap_or_default(),
            description: self.string(&fields, Field::Description).unwrap_or_default(),
            branch: self.string(&fields, Field::Branch),
            max_iterations: self.count(&fields, Field::MaxIterations),
            validation_strategy: self.word(
                &fields,
                Field::ValidationStrategy,
                "validation strategy",
                &strategies,
            ),
            verify_commands: self.strings(&fields, Field::VerifyCommands),
            tasks: Vec::new(),
        };
        let name = self.dialect.tasks();
        let value = members
            .iter()
            .rfind(|member| member.key == name)
            .map_or_else(|| root.clone(), |member| member.value.clone());
        let mut places = Places {
            dialect: self.dialect,
            root: root.clone(),
            list: value.clone(),
            tasks: Vec::new(),
        };
        let kind = json_text::kind(self.text, value.start);
        if kind != Kind::List {
            self.add(value.start, name.into(), must_be("a list", kind), None);
            return (list, places);
        }
        places.tasks = json_text::elements(self.text, &value);
        for (at, place) in places.tasks.iter().enumerate() {
            let kind = json_text::kind(self.text, place.start);
            let members = if kind == Kind::Object {
                json_text::members(self.text, place)
            } else {
                let remedy = Some("a task is an object with `id`, `title` and more".into());
                self.add(place.start, format!("{name}[{at}]"), must_be("an object", kind), remedy);
                self.troubled.extend(
                    [Field::Id, Field::Title, Field::Description, Field::AcceptanceCriteria]
                        .map(|field| (at, field)),
                );
                Vec::new()
            };
            let task = self.task(at, &members);
            list.tasks.push(task);
        }
        (list, places)
    }

    fn task(&mut self, at: usize, members: &[Member<'_>]) -> Task {
        let fields = self.fields(Some(at), members, self.dialect.task_fields());
        let reviews = ReviewStatus::ALL.map(|status| (status.name(), status));
        Task {
            id: TaskId(self.id(&fields)),
            title: self.string(&fields, Field::Title).unwrap_or_default(),
            description: self.string(&fields, Field::Description).unwrap_or_default(),
            acceptance_criteria: self.strings(&fields, Field::AcceptanceCriteria),
            order: self.order(&fields),
            depends_on: self.strings(&fields, Field::DependsOn).into_iter().map(TaskId).collect(),
            skills: self.strings(&fields, Field::Skills),
            libraries: self.strings(&fields, Field::Libraries),
            needs_docs: self.boolean(&fields, Field::NeedsDocs).unwrap_or_default(),
            max_turns: self.count(&fields, Field::MaxTurns),
            max_retries: self.count(&fields, Field::MaxRetries),
            attempts: self.count(&fields, Field::RetryCount).unwrap_or_default(),
            status: self.status(&fields),
            review: ReviewState {
                status: self
                    .word(&fields, Field::ReviewStatus, "review status", &reviews)
                    .unwrap_or(ReviewStatus::None),
                count: self.count(&fields, Field::ReviewCount).unwrap_or_default(),
                feedback: self.string(&fields, Field::ReviewFeedback).unwrap_or_default(),
            },
            notes: self.string(&fields, Field::Notes).unwrap_or_default(),
        }
    }

    /// Collects the known fields of an object, and reports duplicates.
    fn fields(&mut self, task: Option<usize>, members: &[Member<'_>], known: &[Field]) -> Fields {
        let mut fields = Fields { task, values: Vec::with_capacity(members.len()) };
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for member in members {
            let field = known.iter().copied().find(|field| self.dialect.calls(*field, &member.key));
            let is_same_key = !seen.insert(&member.key);
            if is_same_key || field.is_some_and(|field| fields.value(field).is_some()) {
                let message = match field.map(|field| self.dialect.name(field)) {
                    Some(name) if !is_same_key => {
                        format!("is there twice: it is a spelling of `{name}`")
                    }
                    Some(_) | None => "is there twice".into(),
                };
                let at = self.path(task, &member.key);
                self.add(member.key_range.start, at, message, Some("remove one of them".into()));
            } else if let Some(field) = field {
                fields.values.push((field, member.value.clone()));
            }
        }
        fields
    }

    /// Returns the value of a field that is present and not null.
    fn value(&self, fields: &Fields, field: Field) -> Option<(Range<usize>, Kind)> {
        let value = fields.value(field)?;
        let kind = json_text::kind(self.text, value.start);
        (kind != Kind::Null).then_some((value, kind))
    }

    fn id(&mut self, fields: &Fields) -> String {
        match self.value(fields, Field::Id) {
            // The number is used as the id, so that dependencies on the task still resolve.
            Some((value, Kind::Number)) => {
                let id = self.text[value.clone()].to_owned();
                let remedy = format!("put it in quotes: \"{id}\"");
                self.refuse(fields, Field::Id, &value, must_be("a string", Kind::Number), remedy);
                id
            }
            Some(_) | None => self.string(fields, Field::Id).unwrap_or_default(),
        }
    }

    fn string(&mut self, fields: &Fields, field: Field) -> Option<String> {
        let (value, kind) = self.value(fields, field)?;
        if kind != Kind::String {
            self.refuse(fields, field, &value, must_be("a string", kind), "put it in quotes");
            return None;
        }
        let string = json_text::string(&self.text[value.clone()]).map(Cow::into_owned);
        if string.is_none() {
            self.refuse(fields, field, &value, NO_TEXT.into(), MEND_ESCAPE);
        }
        string
    }

    fn strings(&mut self, fields: &Fields, field: Field) -> Vec<String> {
        let Some((value, kind)) = self.value(fields, field) else { return Vec::new() };
        if kind != Kind::List {
            self.refuse(fields, field, &value, must_be("a list of strings", kind), "write `[…]`");
            return Vec::new();
        }
        let mut strings = Vec::new();
        for (index, element) in json_text::elements(self.text, &value).into_iter().enumerate() {
            let kind = json_text::kind(self.text, element.start);
            let string = json_text::string(&self.text[element.clone()]).map(Cow::into_owned);
            let (message, remedy) = match (kind, string) {
                (Kind::String, Some(string)) => {
                    strings.push(string);
                    continue;
                }
                (Kind::String, None) => (NO_TEXT.into(), MEND_ESCAPE),
                (Kind::Object | Kind::List | Kind::Number | Kind::Bool | Kind::Null, _) => {
                    (must_be("a string", kind), "put it in quotes")
                }
            };
            let path = self.path(fields.task, self.dialect.name(field));
            self.add(element.start, format!("{path}[{index}]"), message, Some(remedy.into()));
            self.troubled.extend(fields.task.map(|task| (task, field)));
        }
        strings
    }

    fn boolean(&mut self, fields: &Fields, field: Field) -> Option<bool> {
        let (value, kind) = self.value(fields, field)?;
        if kind == Kind::Bool {
            return Some(&self.text[value] == "true");
        }
        self.refuse(fields, field, &value, must_be("true or false", kind), "without quotes");
        None
    }

    fn count(&mut self, fields: &Fields, field: Field) -> Option<u32> {
        let (value, kind) = self.value(fields, field)?;
        let number = whole(&self.text[value.clone()]).and_then(|number| u32::try_from(number).ok());
        if kind != Kind::Number || number.is_none() {
            let message = "must be a whole number from 0".into();
            self.refuse(fields, field, &value, message, "without quotes, sign or fraction");
        }
        number
    }

    fn order(&mut self, fields: &Fields) -> Option<i64> {
        let (value, kind) = self.value(fields, Field::Order)?;
        let number = whole(&self.text[value.clone()]);
        if kind != Kind::Number || number.is_none() {
            let message = "must be a whole number".into();
            self.refuse(fields, Field::Order, &value, message, "lower comes first");
        }
        number
    }

    fn status(&mut self, fields: &Fields) -> TaskStatus {
        let names = TaskStatus::ALL.map(|status| (status.name(), status));
        let status = self.word(fields, Field::Status, "status", &names);
        match self.dialect {
            Dialect::Plan => status.unwrap_or(TaskStatus::Pending),
            Dialect::Stories => match (self.boolean(fields, Field::Passes), status) {
                (None | Some(false), None) => TaskStatus::Pending,
                (Some(true), None) => TaskStatus::Done,
                (None, Some(status)) => status,
                (Some(passes), Some(status)) => {
                    if passes != status.is_done() {
                        let value = fields.value(Field::Passes).unwrap_or_default();
                        let message = format!("is {passes} although `status` says `{status}`");
                        self.refuse(fields, Field::Passes, &value, message, "make them agree");
                    }
                    status
                }
            },
        }
    }

    fn word<T: Copy>(
        &mut self,
        fields: &Fields,
        field: Field,
        noun: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let word = self.string(fields, field)?;
        let known = choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        if known.is_none() {
            let value = fields.value(field).unwrap_or_default();
            let names = || choices.iter().map(|(name, _)| *name);
            let remedy = match nearest(&word, names()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("it is one of {}", names().collect::<Vec<_>>().join(", ")),
            };
            self.refuse(fields, field, &value, format!("unknown {noun} `{word}`"), remedy);
        }
        known
    }

    /// Reports a mistake in a field. Problems that follow from the missing value are not reported.
    fn refuse(
        &mut self,
        fields: &Fields,
        field: Field,
        value: &Range<usize>,
        message: String,
        remedy: impl Into<String>,
    ) {
        let at = self.path(fields.task, self.dialect.name(field));
        self.add(value.start, at, message, Some(remedy.into()));
        self.troubled.extend(fields.task.map(|task| (task, field)));
    }

    fn add_problem(&mut self, places: &Places, problem: &TaskProblem) {
        let (field, index) = field_of(problem.fault.field());
        if self.troubled.contains(&(problem.task, field)) {
            return;
        }
        let members = json_text::members(self.text, &places.tasks[problem.task]);
        let has = |field| members.iter().any(|it| self.dialect.calls(field, &it.key));
        // Stories may have `passes` instead of a status.
        let is_passing = field == Field::Status && !has(Field::Status) && has(Field::Passes);
        let field = if is_passing { Field::Passes } else { field };
        let name = self.dialect.name(field);
        let mut at = self.path(Some(problem.task), name);
        let mut offset = places.tasks[problem.task].start;
        if let Some(member) = members.iter().find(|it| self.dialect.calls(field, &it.key)) {
            offset = member.value.start;
            if let Some(index) = index {
                at = format!("{at}[{index}]");
                let elements = json_text::elements(self.text, &member.value);
                offset = elements.get(index).map_or(offset, |element| element.start);
            }
        }
        self.add(offset, at, problem.to_string(), Some(problem.fault.remedy()));
    }

    fn add(&mut self, offset: usize, at: String, message: String, remedy: Option<String>) {
        self.found.push(Found { offset, at, message, remedy });
    }

    fn path(&self, task: Option<usize>, key: &str) -> String {
        match task {
            Some(task) => format!("{}[{task}].{key}", self.dialect.tasks()),
            None => key.into(),
        }
    }
}

const NO_TEXT: &str = "holds half a character";
const MEND_ESCAPE: &str = "`\\ud800` to `\\udfff` only come in pairs";

fn must_be(what: &str, kind: Kind) -> String {
    format!("must be {what}, not {}", kind.name())
}

/// Parses a whole number, also if it is written like `1.0` or `1e3`.
fn whole(literal: &str) -> Option<i64> {
    literal.parse().ok().or_else(|| {
        let number: f64 = literal.parse().ok()?;
        // Beyond this, not every whole number is exact.
        let is_exact = number.fract() == 0.0 && number.abs() < 9e15;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        is_exact.then_some(number as i64)
    })
}

fn field_of(field: TaskField) -> (Field, Option<usize>) {
    match field {
        TaskField::Id => (Field::Id, None),
        TaskField::Title => (Field::Title, None),
        TaskField::Description => (Field::Description, None),
        TaskField::AcceptanceCriteria(at) => (Field::AcceptanceCriteria, at),
        TaskField::DependsOn(at) => (Field::DependsOn, at),
        TaskField::Skills(at) => (Field::Skills, Some(at)),
        TaskField::Status => (Field::Status, None),
        TaskField::ReviewStatus => (Field::ReviewStatus, None),
        TaskField::ReviewCount => (Field::ReviewCount, None),
        TaskField::ReviewFeedback => (Field::ReviewFeedback, None),
        TaskField::Attempts => (Field::RetryCount, None),
        TaskField::Notes => (Field::Notes, None),
    }
}
