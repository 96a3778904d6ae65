//! Changes in the text of both dialects, by example and at random.

use std::path::Path;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use ralph_core::tasks::validation::validate_list;
use ralph_model::review::ReviewState;
use ralph_model::task::TaskFields;

use super::*;
use crate::formats::TaskFile;

const PLAN: &str = r#"{
  "project": "compass", "odd":   [1.50, 1e3, {"b":1,"a":2}],
  "tasks": [
    {
      "id": "T1",
      "owner": "someone",
      "title": "First \u00e4",
      "description": "D",
      "status": "pending",
      "acceptance_criteria": [
        "one"
      ],
      "depends_on": []
    },
    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"]}
  ]
}
"#;

const STORIES: &str = "{\n\t\"branchName\": \"ralph/x\",\n\t\"userStories\": [\n\t\t{\n\t\t\t\"id\": \"US-1\",\n\t\t\t\"title\": \"t\",\n\t\t\t\"description\": \"d\",\n\t\t\t\"acceptanceCriteria\": [\"x\"],\n\t\t\t\"priority\": 1.0,\n\t\t\t\"passes\": false,\n\t\t\t\"notes\": \"\"\n\t\t}\n\t]\n}";

fn file(text: &str) -> TaskFile {
    TaskFile::from_text(Path::new("plan.json"), text.to_owned()).expect("valid")
}

fn id(name: &str) -> TaskId {
    TaskId(name.into())
}

fn new_task(name: &str) -> Task {
    Task {
        description: "What is wanted.".into(),
        acceptance_criteria: vec!["one".into(), "two".into()],
        ..Task::new(name, "New")
    }
}

/// Shows the lines that differ.
fn diff(before: &str, after: &str) -> String {
    let [before, after] = [before, after].map(|text| text.split('\n').collect::<Vec<_>>());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = before.iter().zip(&after).take_while(same).count();
    let rest = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(same).count();
    let mut text = String::new();
    for (sign, lines) in [('-', &before), ('+', &after)] {
        for line in &lines[head..lines.len() - tail] {
            text.push_str(&format!("{sign}{}\n", line.replace('\t', "⇥").replace('\r', "␍")));
        }
    }
    text
}

#[track_caller]
fn check(text: &str, changes: &[TaskChange], expect: &Expect) {
    let mut file = file(text);
    file.apply_changes(changes).expect("possible");
    expect.assert_eq(&diff(text, file.text()));
    let again = TaskFile::from_text(Path::new("plan.json"), file.text().to_owned());
    assert_eq!(again.expect("valid").list(), file.list());
}

#[test]
fn one_value_changes_and_nothing_else() {
    let status = |status| [TaskChange::SetStatus { task: id("T1"), status }];
    check(PLAN, &status(TaskStatus::Pending), &expect![""]);
    check(
        PLAN,
        &status(TaskStatus::Done),
        &expect![[r#"
        -      "status": "pending",
        +      "status": "done",
    "#]],
    );
    let task = id("T1");
    check(
        PLAN,
        &[TaskChange::SetAttempts { task, attempts: 2 }],
        &expect![[r#"
        -      "depends_on": []
        +      "depends_on": [],
        +      "retry_count": 2
    "#]],
    );
    let task = id("T2");
    check(
        PLAN,
        &[TaskChange::SetNotes { task, notes: "a \"b\"".into() }],
        &expect![[r#"
        -    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"]}
        +    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"], "notes": "a \"b\""}
    "#]],
    );
}

#[test]
fn stories_pass_or_say_why_not() {
    for (status, expect) in [
        (
            TaskStatus::Done,
            expect![[r#"
            -⇥⇥⇥"passes": false,
            +⇥⇥⇥"passes": true,
        "#]],
        ),
        (
            TaskStatus::Failed,
            expect![[r#"
            -⇥⇥⇥"notes": ""
            +⇥⇥⇥"notes": "",
            +⇥⇥⇥"status": "failed"
        "#]],
        ),
        (TaskStatus::Pending, expect![""]),
    ] {
        check(STORIES, &[TaskChange::SetStatus { task: id("US-1"), status }], &expect);
    }
    let [failed, done] = [TaskStatus::Failed, TaskStatus::Done]
        .map(|status| TaskChange::SetStatus { task: id("US-1"), status });
    check(
        STORIES,
        &[failed, done],
        &expect![[r#"
        -⇥⇥⇥"passes": false,
        -⇥⇥⇥"notes": ""
        +⇥⇥⇥"passes": true,
        +⇥⇥⇥"notes": "",
        +⇥⇥⇥"status": "done"
    "#]],
    );
}

#[test]
fn a_review_is_written_field_by_field() {
    let review = |status, count, feedback: &str| TaskChange::SetReview {
        task: id("US-1"),
        review: ReviewState { status, count, feedback: feedback.into() },
    };
    check(
        STORIES,
        &[review(ReviewStatus::ChangesRequested, 1, "fix x.rs\nline 3")],
        &expect![[r#"
        -⇥⇥⇥"notes": ""
        +⇥⇥⇥"notes": "",
        +⇥⇥⇥"reviewStatus": "changes_requested",
        +⇥⇥⇥"reviewCount": 1,
        +⇥⇥⇥"reviewFeedback": "fix x.rs\nline 3"
    "#]],
    );
    check(
        STORIES,
        &[
            review(ReviewStatus::ChangesRequested, 1, "fix x.rs"),
            review(ReviewStatus::NeedsReview, 1, ""),
        ],
        &expect![[r#"
            -⇥⇥⇥"notes": ""
            +⇥⇥⇥"notes": "",
            +⇥⇥⇥"reviewStatus": "needs_review",
            +⇥⇥⇥"reviewCount": 1,
            +⇥⇥⇥"reviewFeedback": ""
        "#]],
    );
}

#[test]
fn lists_keep_their_form() {
    let modify =
        |name: &str, fields| [TaskChange::Modify { task: id(name), fields: Box::new(fields) }];
    let criteria = Some(vec!["one".into(), "two".into()]);
    let fields = || TaskFields { acceptance_criteria: criteria.clone(), ..TaskFields::default() };
    check(
        PLAN,
        &modify("T1", fields()),
        &expect![[r#"
        -        "one"
        +        "one",
        +        "two"
    "#]],
    );
    check(
        PLAN,
        &modify("T2", fields()),
        &expect![[r#"
            -    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"]}
            +    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["one", "two"]}
        "#]],
    );
    let depends_on = Some(vec![id("T2")]);
    check(
        PLAN,
        &modify("T1", TaskFields { depends_on, ..TaskFields::default() }),
        &expect![[r#"
        -      "depends_on": []
        +      "depends_on": [
        +        "T2"
        +      ]
    "#]],
    );
}

#[test]
fn a_new_task_looks_like_its_neighbor() {
    let add = |after: Option<&str>| {
        let after = after.map(id);
        [TaskChange::Add { task: Box::new(new_task("NEW")), after }]
    };
    check(
        PLAN,
        &add(Some("T1")),
        &expect![[r#"
        +    {
        +      "id": "NEW",
        +      "title": "New",
        +      "description": "What is wanted.",
        +      "status": "pending",
        +      "acceptance_criteria": [
        +        "one",
        +        "two"
        +      ],
        +      "depends_on": []
        +    },
    "#]],
    );
    check(
        PLAN,
        &add(None),
        &expect![[r#"
            -    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"]}
            +    {"id": "T2", "title": "t", "description": "d", "acceptance_criteria": ["x"]},
            +    {"id": "NEW", "title": "New", "description": "What is wanted.", "status": "pending", "acceptance_criteria": ["one", "two"]}
        "#]],
    );
    check(
        STORIES,
        &add(None),
        &expect![[r#"
        +⇥⇥},
        +⇥⇥{
        +⇥⇥⇥"id": "NEW",
        +⇥⇥⇥"title": "New",
        +⇥⇥⇥"description": "What is wanted.",
        +⇥⇥⇥"acceptanceCriteria": [
        +⇥⇥⇥⇥"one",
        +⇥⇥⇥⇥"two"
        +⇥⇥⇥],
        +⇥⇥⇥"priority": 2,
        +⇥⇥⇥"passes": false,
        +⇥⇥⇥"notes": ""
    "#]],
    );
    check(
        &STORIES.replace('\n', "\r\n"),
        &add(None),
        &expect![[r#"
        +⇥⇥},␍
        +⇥⇥{␍
        +⇥⇥⇥"id": "NEW",␍
        +⇥⇥⇥"title": "New",␍
        +⇥⇥⇥"description": "What is wanted.",␍
        +⇥⇥⇥"acceptanceCriteria": [␍
        +⇥⇥⇥⇥"one",␍
        +⇥⇥⇥⇥"two"␍
        +⇥⇥⇥],␍
        +⇥⇥⇥"priority": 2,␍
        +⇥⇥⇥"passes": false,␍
        +⇥⇥⇥"notes": ""␍
    "#]],
    );
}

#[test]
fn a_task_that_is_put_first_looks_like_the_one_behind_it() {
    let insert = [TaskChange::Insert { task: Box::new(new_task("NEW")), after: None }];
    check(
        PLAN,
        &insert,
        &expect![[r#"
        +      "id": "NEW",
        +      "title": "New",
        +      "description": "What is wanted.",
        +      "status": "pending",
        +      "acceptance_criteria": [
        +        "one",
        +        "two"
        +      ],
        +      "depends_on": []
        +    },
        +    {
    "#]],
    );
    check(
        r#"{"tasks":[{"id":"T1","title":"t","description":"d","acceptance_criteria":["x"]}]}"#,
        &insert,
        &expect![[r#"
            -{"tasks":[{"id":"T1","title":"t","description":"d","acceptance_criteria":["x"]}]}
            +{"tasks":[{"id":"NEW","title":"New","description":"What is wanted.","status":"pending","acceptance_criteria":["one","two"]},{"id":"T1","title":"t","description":"d","acceptance_criteria":["x"]}]}
        "#]],
    );
}

#[test]
fn a_first_task_looks_like_its_file() {
    let add = [TaskChange::Add { task: Box::new(new_task("NEW")), after: None }];
    check(
        "{\n    \"project\": \"p\",\n    \"tasks\": []\n}\n",
        &add,
        &expect![[r#"
        -    "tasks": []
        +    "tasks": [
        +        {
        +            "id": "NEW",
        +            "title": "New",
        +            "description": "What is wanted.",
        +            "status": "pending",
        +            "order": 1,
        +            "skills": [],
        +            "needs_docs": false,
        +            "libraries": [],
        +            "acceptance_criteria": [
        +                "one",
        +                "two"
        +            ],
        +            "depends_on": [],
        +            "retry_count": 0
        +        }
        +    ]
    "#]],
    );
    check(
        "{\"userStories\":[ ]}",
        &add,
        &expect![[r#"
        -{"userStories":[ ]}
        +{"userStories":[{"id":"NEW","title":"New","description":"What is wanted.","acceptanceCriteria":["one","two"],"priority":1,"passes":false,"reviewStatus":null,"reviewCount":0,"reviewFeedback":"","notes":"","dependsOn":[]}]}
    "#]],
    );
}

#[test]
fn removing_leaves_the_others_as_they_are() {
    for name in ["T1", "T2"] {
        let mut file = file(PLAN);
        file.apply_changes(&[TaskChange::Remove { task: id(name) }]).expect("possible");
        let other = if name == "T1" { "T2" } else { "T1" };
        let again = self::file(file.text());
        assert_eq!(again.list().tasks.len(), 1);
        assert_eq!(again.list().tasks[0].id, id(other));
    }
    let both = ["T1", "T2"].map(|name| TaskChange::Remove { task: id(name) });
    let mut file = file(PLAN);
    file.apply_changes(&both).expect("possible");
    assert!(file.text().contains("\"tasks\": []"), "{}", file.text());
}

#[test]
fn an_impossible_change_leaves_everything_as_it_was() {
    let mut file = file(PLAN);
    let changes = [
        TaskChange::SetStatus { task: id("T1"), status: TaskStatus::Done },
        TaskChange::Remove { task: id("T2") },
        TaskChange::SetNotes { task: id("T2"), notes: "x".into() },
    ];
    assert_eq!(file.apply_changes(&changes), Err(ChangeError::UnknownTask(id("T2"))));
    assert_eq!(file.text(), PLAN);
    assert_eq!(file.list(), self::file(PLAN).list());
}

/// Writes a value with whatever space comes next between its tokens.
fn odd(value: &Value, spaces: &mut dyn Iterator<Item = &'static str>, text: &mut String) {
    let mut space = |text: &mut String| text.push_str(spaces.next().unwrap_or_default());
    space(text);
    match value {
        Value::Object(entries) => {
            text.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(spaces.next().unwrap_or_default());
                text.push_str(&json!(key).to_string());
                text.push_str(spaces.next().unwrap_or_default());
                text.push(':');
                odd(value, spaces, text);
            }
            text.push_str(spaces.next().unwrap_or_default());
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                odd(value, spaces, text);
            }
            text.push_str(spaces.next().unwrap_or_default());
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
    text.push_str(spaces.next().unwrap_or_default());
}

fn texts() -> impl Strategy<Value = String> {
    "[a-z\u{e4}\u{1f600}\"\\\\{}\\[\\],: \n]{0,8}x"
}

/// Optional entries of a task, known and unknown.
fn extras(dialect: ListDialect) -> impl Strategy<Value = Vec<(String, Value)>> {
    let known = [
        (TaskFileField::Order, json!(7)),
        (TaskFileField::Skills, json!(["s"])),
        (TaskFileField::NeedsDocs, json!(true)),
        (TaskFileField::RetryCount, json!(2)),
        (TaskFileField::MaxRetries, json!(3)),
        (TaskFileField::ReviewStatus, Value::Null),
        (TaskFileField::ReviewCount, json!(1)),
        (TaskFileField::ReviewFeedback, json!("f")),
        (TaskFileField::Notes, json!("n")),
    ]
    .map(|(field, value)| (dialect.key_for(field).to_owned(), value));
    let unknown = [
        ("x-number", json!(1.5e300)),
        ("x-deep", json!({"id": "T0", "status": [{"tasks": [[]]}]})),
        ("x\"key", json!("}]")),
    ]
    .map(|(key, value)| (key.to_owned(), value));
    let all: Vec<_> = known.into_iter().chain(unknown).collect();
    let count = all.len();
    prop::sample::subsequence(all, 0..=count).prop_shuffle()
}

fn document() -> impl Strategy<Value = String> {
    let dialects = prop_oneof![Just(ListDialect::Plan), Just(ListDialect::Stories)];
    let tasks = dialects.prop_flat_map(|dialect| {
        let task = (texts(), extras(dialect), any::<bool>(), any::<bool>());
        (Just(dialect), prop::collection::vec(task, 0..5))
    });
    let spaces = prop::collection::vec(
        prop::sample::select(vec!["", "", " ", "\n", "\r\n\t", "\n    "]),
        1..9,
    );
    (tasks, spaces, any::<bool>()).prop_map(|((dialect, tasks), spaces, has_mark)| {
        let tasks: Vec<Value> = tasks
            .into_iter()
            .enumerate()
            .map(|(at, (title, extras, is_done, depends))| {
                let name = |field| dialect.key_for(field).to_owned();
                let depends_on: Vec<_> =
                    (0..at).filter(|_| depends).map(|it| format!("T{it}")).collect();
                let status = match dialect {
                    ListDialect::Plan => json!(if is_done { "done" } else { "in_progress" }),
                    ListDialect::Stories => json!(is_done),
                };
                let status_field = match dialect {
                    ListDialect::Plan => TaskFileField::Status,
                    ListDialect::Stories => TaskFileField::Passes,
                };
                let own = [
                    (name(TaskFileField::Title), json!(title)),
                    (name(TaskFileField::Id), json!(format!("T{at}"))),
                    (name(TaskFileField::Description), json!("d")),
                    (name(status_field), status),
                    (name(TaskFileField::AcceptanceCriteria), json!(["a", title])),
                    (name(TaskFileField::DependsOn), json!(depends_on)),
                ];
                Value::Object(extras.into_iter().chain(own).collect())
            })
            .collect();
        let value = json!({"x": [1, {"y": null}], dialect.tasks_key(): tasks, "z": "end"});
        let mut text = String::from(if has_mark { "\u{feff}" } else { "" });
        odd(&value, &mut spaces.into_iter().cycle(), &mut text);
        text
    })
}

fn change() -> impl Strategy<Value = TaskChange> {
    let task = || (0..5).prop_map(|at| TaskId(format!("T{at}")));
    let review = (prop::sample::select(ReviewStatus::ALL.to_vec()), 0u32..4, texts())
        .prop_map(|(status, count, feedback)| ReviewState { status, count, feedback });
    let fields = (
        prop::option::of(texts()),
        prop::option::of(prop::collection::vec(texts(), 1..4)),
        prop::option::of(any::<i64>()),
        prop::option::of(any::<bool>()),
        prop::option::of(any::<u32>()),
    )
        .prop_map(|(title, acceptance_criteria, order, needs_docs, max_turns)| TaskFields {
            title,
            order,
            needs_docs,
            max_turns,
            skills: acceptance_criteria.clone(),
            acceptance_criteria,
            ..TaskFields::default()
        });
    prop_oneof![
        (task(), prop::sample::select(TaskStatus::ALL.to_vec()))
            .prop_map(|(task, status)| TaskChange::SetStatus { task, status }),
        (task(), 0u32..9).prop_map(|(task, attempts)| TaskChange::SetAttempts { task, attempts }),
        (task(), review).prop_map(|(task, review)| TaskChange::SetReview { task, review }),
        (task(), texts()).prop_map(|(task, notes)| TaskChange::SetNotes { task, notes }),
        (task(), fields)
            .prop_map(|(task, fields)| TaskChange::Modify { task, fields: Box::new(fields) }),
        task().prop_map(|task| TaskChange::Remove { task }),
        (0..9, prop::option::of(task())).prop_map(|(at, after)| {
            let task = Box::new(new_task(&format!("N{at}")));
            TaskChange::Add { task, after }
        }),
        (0..9, prop::option::of(task()), prop::option::of(-3i64..9)).prop_map(
            |(at, after, order)| {
                let task = Task { order, ..new_task(&format!("N{at}")) };
                TaskChange::Insert { task: Box::new(task), after }
            }
        ),
    ]
}

/// Returns the raw members of a task that ralph does not know, and the raw other tasks.
fn untouched(document: &TaskDocument, touched: &TaskId) -> Vec<String> {
    let mut raw = Vec::new();
    for (place, task) in document.places.tasks.iter().zip(&document.list.tasks) {
        if task.id == *touched {
            let members = json_text::find_members(&document.text, place);
            raw.extend(
                members
                    .into_iter()
                    .filter(|member| member.key.starts_with('x'))
                    .map(|member| document.text[member.key_range.start..member.value.end].into()),
            );
        } else {
            raw.push(document.text[place.clone()].into());
        }
    }
    raw.push(document.text[..document.places.list.start].into());
    raw.push(document.text[document.places.list.end..].into());
    raw
}

proptest! {
    #[test]
    fn unchanged_parts_stay_to_the_byte(text in document(), changes in prop::collection::vec(change(), 0..5)) {
        let read = |text: &str| {
            let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
            let root = json_text::find_root(text, start).expect("JSON");
            crate::formats::task_reader::parse_list(text, &root)
        };
        let (list, places) = read(&text).map_err(|found| TestCaseError::fail(format!("{found:?}")))?;
        let mut document = TaskDocument { text: text.clone(), list, places, edits: 0 };
        document.apply_changes(&[]).expect("nothing to do");
        prop_assert_eq!(&document.text, &text);
        for change in &changes {
            let before = document.clone();
            let mut expect = before.list.clone();
            let can = expect.apply_change(change);
            prop_assert_eq!(document.apply_changes(std::slice::from_ref(change)), can.clone());
            if can.is_err() {
                prop_assert_eq!(&document, &before);
                continue;
            }
            prop_assert_eq!(&document.list, &expect);
            prop_assert!(document.edits > before.edits || document.text == before.text);
            let removed = matches!(change, TaskChange::Remove { .. });
            let mut kept = untouched(&before, change.task_id());
            if removed {
                let place = before.list.find_index(change.task_id()).expect("it was there");
                let raw = before.text[before.places.tasks[place].clone()].to_owned();
                let members = json_text::find_members(&raw, &(0..raw.len()));
                kept.retain(|it| !members.iter().any(|member| member.key.starts_with('x') && raw[member.key_range.start..member.value.end] == **it));
            }
            prop_assert_eq!(untouched(&document, change.task_id()), kept, "{:?}\n{}\n{}", change, before.text, document.text);
            match read(&document.text) {
                Ok((list, places)) => {
                    prop_assert_eq!(&list, &expect);
                    prop_assert_eq!(&places, &document.places);
                }
                Err(found) => prop_assert!(!validate_list(&expect).is_empty(), "{found:?}\n{}", document.text),
            }
        }
    }
}
