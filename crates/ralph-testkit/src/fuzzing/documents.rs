//! Documents that people and agents write: task lists, plans, answers, templates, the graph.

use std::path::Path;

use ralph_agents::parse_mcp_servers;
use ralph_core::answers::completion::{EchoFilter, TagScanner, find_signal, find_signals};
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::answers::structured_output;
use ralph_core::checking::review;
use ralph_core::memory::{self, handoff_reading};
use ralph_core::project::detection as project_detection;
use ralph_core::project::detection::ProjectFiles;
use ralph_core::project::import_loops::{fix_plan, is_loop_prompt, loop_script};
use ralph_core::tasks::checklist::Checklist;
use ralph_core::tasks::plan::assess_plan_text;
use ralph_core::template;
use ralph_io::formats::TaskFile;
use ralph_io::store::graph::GraphFile;
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::handoff;
use ralph_model::ids::TaskId;
use ralph_model::task::{Task, TaskChange, TaskStatus};
use ralph_model::text::strip_comments;
use serde_json::Value;

use super::pieces::{pieces, text_pieces};
use super::runs::in_file;
use super::{FuzzForm, FuzzTarget};

/// The targets of this file.
pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "tasks",
        run: tasks,
        form: FuzzForm::Json,
        seeds: &["examples/gated-tasks/plan.json", "examples/orchestrator/plan.json"],
        words: &[
            "\"tasks\"",
            "\"userStories\"",
            "\"id\"",
            "\"title\"",
            "\"status\"",
            "\"passes\"",
            "\"priority\"",
            "\"order\"",
            "\"dependsOn\"",
            "\"depends_on\"",
            "\"acceptanceCriteria\"",
            "\"acceptance_criteria\"",
            "\"notes\"",
            "\"attempts\"",
            "\"reviewStatus\"",
            "\"review_status\"",
            "\"reviewCount\"",
            "\"reviewFeedback\"",
            "\"pending\"",
            "\"done\"",
            "\"in_progress\"",
            "\"branchName\"",
            "\"project\"",
            "\"verification\"",
            "\t",
            "\r\n",
            "\u{feff}",
        ],
    },
    FuzzTarget {
        name: "graph",
        run: graph,
        form: FuzzForm::JsonLines,
        seeds: &[],
        words: &[
            "\n",
            "\"type\":",
            "\"entity\"",
            "\"relation\"",
            "\"name\":",
            "\"entityType\":",
            "\"observations\":",
            "\"from\":",
            "\"to\":",
            "\"relationType\":",
            "\u{feff}",
        ],
    },
    FuzzTarget {
        name: "answers",
        run: answers,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "```json\n",
            "~~~json\n",
            "```",
            "{",
            "}",
            "\"verdict\"",
            "\"approved\"",
            "\"changes_requested\"",
            "\"feedback\"",
            "\"criteria\"",
            "\"task_completed\"",
            "\"summary\"",
            "\"plan_amendments\"",
            "\"constraints_discovered\"",
            "\"blocked\"",
            "\"project_summary\"",
            "\"active_constraints\"",
            "<promise>",
            "</promise>",
            "<PROMISE>",
            "COMPLETE",
            "Do it.",
            "\"resolved\"",
        ],
    },
    FuzzTarget {
        name: "plans",
        run: plans,
        form: FuzzForm::Bytes,
        seeds: &["examples/specs", "docs/plan.md", "scripts", "README.md"],
        words: &[
            "- [ ] ",
            "- [x] ",
            "* [X]",
            "1. [ ]",
            "\n",
            "```",
            "~~~",
            "<!--",
            "-->",
            "## ",
            "\t",
            "    ",
            "while ",
            "until ",
            "for ",
            "do",
            "done",
            "claude -p",
            "\\\n",
            "| ",
            "$(cat PROMPT.md)",
            "sleep 5",
            "seq 1 10",
            "{1..10}",
            "prd.json",
            "'",
            "\"",
            "<details>",
            "</details>",
            "<pre>",
        ],
    },
    FuzzTarget {
        name: "templates",
        run: templates,
        form: FuzzForm::Bytes,
        seeds: &["crates/ralph-core/prompts", "crates/ralph/templates", "examples/specs/prompts"],
        words: &["$", "$$", "${", "}", "$name", "${name}", "${name:-x}", "$1", "\n", "${empty}"],
    },
    FuzzTarget {
        name: "project-files",
        run: project_files,
        form: FuzzForm::Bytes,
        seeds: &["Cargo.toml", "crates/ralph/tests/data/browser/package.json"],
        words: &[
            "\0",
            "test:",
            ".PHONY:",
            "\t",
            "[tool.pytest",
            "[workspace]",
            "members = [",
            "\"scripts\":",
            "\"test\":",
            "\"workspaces\":",
            "\"packageManager\":",
            "[dev-dependencies]",
            "recipe arg='':",
            "@",
            "ifeq",
            "\"mcpServers\":",
            "\"command\":",
            "\"url\":",
        ],
    },
];

/// Reads a list, and looks at what changes leave of it.
fn tasks(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let path = Path::new("/project/plan.json");
    let Ok(file) = TaskFile::from_text(path, text.clone()) else { return };
    let reread = || TaskFile::from_text(path, text.clone()).expect("it was read before");
    let list = file.list().clone();
    let _ = (list.list_terms(), list.progress(), list.last_order());
    let _ = (file.check_list(), file.check_untouched(), file.check_skills(|_| false));
    for (number, task) in list.tasks.iter().enumerate().take(3) {
        let id = task.id.clone();
        for change in [
            TaskChange::SetStatus { task: id.clone(), status: TaskStatus::Done },
            TaskChange::SetAttempts { task: id.clone(), attempts: u32::MAX },
            TaskChange::SetNotes { task: id.clone(), notes: "a \"note\"\n\u{1f600}\\".to_owned() },
            TaskChange::SetReview { task: id.clone(), review: task.review.clone() },
        ] {
            let mut changed = reread();
            if changed.apply_changes(std::slice::from_ref(&change)).is_err() {
                continue;
            }
            read_as_changed(&changed, &change);
            only_task_differs(file.text(), changed.text(), file.dialect().tasks_key(), number);
        }
    }
    let new = Task {
        description: "What is wanted.".to_owned(),
        acceptance_criteria: vec!["It is there.".to_owned()],
        ..Task::new("T-new \u{e9}", "New")
    };
    let after = list.tasks.first().map(|task| task.id.clone());
    let first = TaskChange::Insert { task: Box::new(new.clone()), after: None };
    let add = TaskChange::Add { task: Box::new(new), after };
    for add in [add, first] {
        let mut changed = reread();
        if changed.apply_changes(std::slice::from_ref(&add)).is_ok() {
            read_as_changed(&changed, &add);
            let remove = TaskChange::Remove { task: TaskId("T-new \u{e9}".to_owned()) };
            changed.apply_changes(std::slice::from_ref(&remove)).expect("it was just added");
            read_as_changed(&changed, &remove);
            assert_eq!(changed.list().tasks, list.tasks, "what was added and removed is gone");
        }
    }
}

/// The text of a changed file says what its list says.
fn read_as_changed(file: &TaskFile, change: &TaskChange) {
    // Whether a change makes sense is for others to say; a list that does not is refused.
    if file.check_list().is_err() {
        return;
    }
    let again = TaskFile::from_text(file.path(), file.text().to_owned());
    let again = again.unwrap_or_else(|wrong| panic!("{change:?} left no list: {wrong:?}"));
    assert_eq!(again.list(), file.list(), "{change:?} reads back");
}

/// Nothing but one task is another one, whatever else the file holds.
fn only_task_differs(before: &str, after: &str, tasks: &str, number: usize) {
    let read = |text: &str| serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}'));
    let (Ok(mut before), Ok(mut after)) = (read(before), read(after)) else { return };
    for document in [&mut before, &mut after] {
        if let Some(task) = document.get_mut(tasks).and_then(|it| it.get_mut(number)) {
            *task = Value::Null;
        }
    }
    assert_eq!(before, after, "only one task changes");
}

fn graph(bytes: &[u8]) {
    // A damaged file is read a second time after a while: too slow to be tried often.
    let is_whole = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    if !bytes.split(|byte| *byte == b'\n').all(|line| line.is_empty() || is_whole(line)) {
        return;
    }
    in_file("memory.jsonl", bytes, |path| {
        let mut file = GraphFile::new(path);
        let Ok(graph) = file.read_graph() else { return };
        let graph = graph.clone();
        for query in ["a", "", "\u{130}", "entity"] {
            graph.search_entities(&[query]);
        }
        let name = "a name that is not used".to_owned();
        let entity = ralph_core::memory::graph::Entity {
            name: name.clone(),
            entity_type: "x".to_owned(),
            observations: vec!["y\n\u{2028}".to_owned()],
            extra: serde_json::Map::new(),
        };
        let edit = ralph_core::memory::graph::GraphEdit::CreateEntities(vec![entity]);
        file.apply_edit(edit).expect("a new thing can be added");
        let mut again = GraphFile::new(path);
        let read = again.read_graph().expect("what was written is readable");
        assert_eq!(read.relations, graph.relations, "relations stay");
        assert_eq!(read.entities.len(), graph.entities.len() + 1);
        assert_eq!(read.entities[..graph.entities.len()], graph.entities, "things stay");
        again
            .apply_edit(ralph_core::memory::graph::GraphEdit::DeleteEntities(vec![name]))
            .expect("it is there");
        assert_eq!(again.read_graph().expect("readable").entities, graph.entities);
    });
}

fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let files = [];
    let task = TaskId("T-1".to_owned());
    let schema = handoff_reading::build_handoff_schema();
    let found = structured_output::find_answer(&text, &schema).ok();
    assert!(found.as_ref().is_none_or(|found| found.is_object() && *found != *schema));
    let handed = handoff_reading::read_handoff(found, &text, &task, &files);
    let written = serde_json::to_string(&handed).expect("handoffs are JSON");
    let again: handoff::Handoff = serde_json::from_str(&written).expect("handoffs read back");
    assert_eq!(again, handed);
    let mut reply =
        ReplyFold::default().into_reply(ChildEnd::from_ending(Ending::Exited { code: 0 }), None);
    reply.text = text.to_string();
    reply.structured = serde_json::from_slice(bytes).ok();
    let _ = (
        review::parse_review_answer(&reply, Some("k7")),
        memory::read::parse_memory(&reply, Some("k7")),
    );
    // A tag is found however the text is cut.
    let mut scanner = TagScanner::new();
    for piece in text_pieces(&text) {
        scanner.feed(piece);
    }
    assert_eq!(scanner.found().map(str::to_owned), find_signal(&text));
    assert_eq!(find_signal(&text).as_deref(), find_signals(&text).next());
    // What is no echo comes through, however it is cut.
    let filter = || EchoFilter::new("Do it. Print <promise>COMPLETE</promise>.");
    let through = |pieces: &[&[u8]]| {
        let mut filter = filter();
        let mut passed: Vec<u8> = pieces.iter().flat_map(|it| filter.feed(it)).collect();
        passed.extend(filter.finish());
        passed
    };
    assert_eq!(through(&[bytes]), through(&pieces(bytes)));
}

fn plans(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let list = Checklist::read(&text);
    assert_eq!(list.open().count(), list.counts().open as usize);
    let _ = (assess_plan_text(&text), is_loop_prompt(&text));
    let items = fix_plan::parse_fix_plan(&text);
    assert!(items.iter().all(|item| !item.title.trim().is_empty()), "an item has a title");
    let is_agent = |word: &str| word.ends_with("claude");
    let script = loop_script::parse_loop_script(&text, is_agent);
    assert!(script.unknown.len() <= text.lines().count());
    loop_script::is_loop(&text, is_agent);
    assert!(strip_comments(&text).len() <= text.len());
}

fn templates(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| match name {
        "name" => Some("value $name ${other}"),
        "empty" => Some(""),
        _ => None,
    };
    let expanded = template::expand_template(&text, value);
    assert!(expanded.text.len() <= text.len() * 5 + 1, "what is filled in is not looked at again");
    let nothing = |_: &str| None;
    let escaped = template::escape_template(&text);
    assert_eq!(
        template::expand_template(&escaped, nothing).text,
        text,
        "escaped text stays as it is"
    );
    assert_eq!(template::find_names(&escaped).count(), 0);
}

/// Files of a project that say how it is checked, each with its name in the first line, with a zero
/// byte between.
fn project_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut tree = ProjectFiles::default();
    for (file, name) in text.split('\0').zip(project_detection::READ_FILES) {
        tree.files.insert(name.to_owned(), file.to_owned());
        tree.files.insert(format!("part/{name}"), file.to_owned());
    }
    // One text as every file.
    for name in project_detection::READ_FILES {
        tree.files.entry(name.to_owned()).or_insert_with(|| text.to_string());
    }
    for found in project_detection::detect_checks(&tree) {
        assert!(!found.command.trim().is_empty(), "a check has a command");
    }
    let _ = parse_mcp_servers(&text);
}
