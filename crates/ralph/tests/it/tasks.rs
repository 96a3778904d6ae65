//! `ralph tasks` on files that users and other tools write.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes its snapshots so")]

use expect_test::expect;
use serde_json::{Value, json};

use crate::sealed;

const PLAN: &str = r#"{
  "project": "compass",
  "branch": "feature/compass",
  "max_iterations": 50,
  "validation_strategy": "strict",
  "tasks": [
    {
      "id": "TASK-001",
      "title": "Create the directories",
      "description": "Set up the scaffold.",
      "status": "done",
      "order": 1,
      "skills": ["bash-conventions"],
      "needs_docs": false,
      "libraries": [],
      "acceptance_criteria": ["All directories exist"],
      "depends_on": [],
      "max_turns": 15,
      "retry_count": 0,
      "max_retries": 2,
      "x-team": 1.50
    },
    {
      "id": "TASK-002",
      "title": "Write the parser",
      "description": "It reads files.",
      "status": "pending",
      "order": 2,
      "acceptance_criteria": ["It parses", "It does not panic"],
      "depends_on": ["TASK-001"]
    },
    {
      "id": "TASK-003",
      "title": "Write the docs",
      "description": "A page.",
      "status": "pending",
      "order": 3,
      "acceptance_criteria": ["There is a page"],
      "depends_on": ["TASK-002"]
    }
  ]
}
"#;

const STORIES: &str = r#"{
  "project": "site",
  "branchName": "ralph/site",
  "description": "A site",
  "verifyCommands": ["make test"],
  "userStories": [
    {
      "id": "US-001",
      "title": "Front page",
      "description": "As a visitor I see a page.",
      "acceptanceCriteria": ["It opens"],
      "priority": 1,
      "passes": false,
      "reviewStatus": "needs_review",
      "reviewCount": 1,
      "reviewFeedback": "",
      "notes": "",
      "dependsOn": []
    }
  ]
}
"#;

const PRD: &str = "{\n    \"project\": \"app\",\n    \"userStories\": [\n        {\n            \"id\": \"US-001\",\n            \"title\": \"A\",\n            \"description\": \"D\",\n            \"acceptanceCriteria\": [\"Typecheck passes\"],\n            \"priority\": 1,\n            \"passes\": false,\n            \"notes\": \"\"\n        }\n    ]\n}\n";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn plan_is_listed_with_the_next_task() {
    let sealed = sealed();
    sealed.write_file("plan.json", PLAN);
    let end = sealed.run_ralph(&["tasks"]).expect_code(0);
    expect![[r#"
        compass: 1 of 3 tasks done

        ✔ TASK-001  done     Create the directories
        ○ TASK-002  pending  Write the parser (after TASK-001)
        ○ TASK-003  pending  Write the docs (after TASK-002)

        Next: implement TASK-002, Write the parser
    "#]]
    .assert_eq(&end.stdout);
    assert_eq!(sealed.run_ralph(&["tasks", "list"]).stdout, end.stdout);
    let end = sealed.run_ralph(&["tasks", "show", "TASK-002"]).expect_code(0);
    expect![[r#"
        TASK-002  Write the parser

        Status      pending
        Order       2
        Depends on  TASK-001 (done)

        Description
          It reads files.

        Acceptance criteria
          - It parses
          - It does not panic
    "#]]
    .assert_eq(&end.stdout);
}

#[test]
fn facts_come_as_json() {
    let sealed = sealed();
    sealed.write_file("ralph/tasks.json", STORIES);
    let end = sealed.run_ralph(&["tasks", "list", "--json"]).expect_code(0);
    expect![[r#"
        {
          "file": "ralph/tasks.json",
          "form": "userStories",
          "project": "site",
          "description": "A site",
          "branch": "ralph/site",
          "maxIterations": null,
          "validationStrategy": null,
          "verifyCommands": [
            "make test"
          ],
          "progress": {
            "total": 1,
            "pending": 0,
            "inProgress": 1,
            "done": 0,
            "failed": 0,
            "skipped": 0
          },
          "proposals": 0,
          "next": {
            "role": "review",
            "task": "US-001"
          },
          "sideBySide": [
            "US-001"
          ],
          "blocked": [],
          "tasks": [
            {
              "id": "US-001",
              "title": "Front page",
              "description": "As a visitor I see a page.",
              "acceptanceCriteria": [
                "It opens"
              ],
              "status": "pending",
              "order": 1,
              "dependsOn": [],
              "waitsFor": [],
              "skills": [],
              "touches": [],
              "libraries": [],
              "needsDocs": false,
              "maxTurns": null,
              "maxRetries": null,
              "attempts": 0,
              "review": {
                "status": "needs_review",
                "count": 1,
                "feedback": ""
              },
              "notes": ""
            }
          ]
        }
    "#]]
    .assert_eq(&end.stdout);
    let end = sealed.run_ralph(&["tasks", "--json", "show", "US-001"]).expect_code(0);
    assert_eq!(parsed(&end.stdout)["task"]["review"]["count"], json!(1));
    let end = sealed.run_ralph(&["tasks", "validate", "--json"]).expect_code(0);
    let valid = json!({"file": "ralph/tasks.json", "valid": true, "problems": []});
    assert_eq!(parsed(&end.stdout), valid);
}

#[test]
fn task_is_added_in_the_format_of_its_file() {
    let sealed = sealed();
    sealed.write_file("plan.json", PLAN);
    let words = [
        "tasks",
        "add",
        "Release it",
        "--criterion",
        "It is out",
        "--criterion",
        "People know",
        "--depends-on",
        "TASK-002,TASK-003",
        "-d",
        "To the world.",
    ];
    sealed.run_ralph(&words).expect_code(0);
    let text = sealed.read_file("plan.json");
    let added =
        text.strip_prefix(PLAN.trim_end_matches("\n  ]\n}\n")).expect("the rest is as it was");
    expect![[r#"
        ,
            {
              "id": "TASK-004",
              "title": "Release it",
              "description": "To the world.",
              "status": "pending",
              "order": 4,
              "acceptance_criteria": [
                "It is out",
                "People know"
              ],
              "depends_on": [
                "TASK-002",
                "TASK-003"
              ]
            }
          ]
        }
    "#]]
    .assert_eq(added);
    assert_eq!(sealed.read_file(".ralph/plan.json.bak"), PLAN);
    sealed.run_ralph(&["tasks", "validate"]).expect_code(0);

    sealed.write_file("prd.json", PRD);
    let words = ["tasks", "add", "B", "--criteria", "x", "--plan", "prd.json", "--json"];
    let end = sealed.run_ralph(&words).expect_code(0);
    assert_eq!(parsed(&end.stdout)["task"]["id"], json!("US-002"));
    let text = sealed.read_file("prd.json");
    let added =
        text.strip_prefix(PRD.trim_end_matches("\n    ]\n}\n")).expect("the rest is as it was");
    expect![[r#"
        ,
                {
                    "id": "US-002",
                    "title": "B",
                    "description": "B",
                    "acceptanceCriteria": [
                        "x"
                    ],
                    "priority": 2,
                    "passes": false,
                    "notes": ""
                }
            ]
        }
    "#]]
    .assert_eq(added);
}

#[test]
fn set_status_changes_only_that_value() {
    let sealed = sealed();
    sealed.write_file("plan.json", PLAN);
    sealed.run_ralph(&["tasks", "set-status", "TASK-003", "skipped"]).expect_code(0);
    let at = PLAN.rfind("pending").expect("there");
    let expect = format!("{}skipped{}", &PLAN[..at], &PLAN[at + "pending".len()..]);
    assert_eq!(sealed.read_file("plan.json"), expect);

    sealed.write_file("ralph/tasks.json", STORIES);
    sealed
        .run_ralph(&["tasks", "set-status", "US-001", "done", "--note", "Looked at."])
        .expect_code(0);
    let expect = STORIES
        .replace("\"passes\": false", "\"passes\": true")
        .replace("needs_review", "approved")
        .replace("\"notes\": \"\"", "\"notes\": \"Looked at.\"");
    assert_eq!(sealed.read_file("ralph/tasks.json"), expect);
    sealed.run_ralph(&["tasks", "set-status", "US-001", "pending"]).expect_code(0);
    let list = parsed(&sealed.run_ralph(&["tasks", "--json"]).expect_code(0).stdout);
    assert_eq!(list["next"], json!({"role": "implement", "task": "US-001"}));
}

#[test]
fn the_settings_name_the_file() {
    let sealed = sealed();
    sealed.write_file("plan.json", PLAN);
    sealed.write_file("work/mine.json", PRD);
    sealed.write_file(".ralph/settings.json", "{\"tasks\": {\"file\": \"work/mine.json\"}}");
    let list = parsed(&sealed.run_ralph(&["tasks", "--json"]).expect_code(0).stdout);
    assert_eq!((&list["file"], &list["form"]), (&json!("work/mine.json"), &json!("userStories")));
    let list = parsed(&sealed.run_ralph(&["tasks", "--json", "--plan", "plan.json"]).stdout);
    assert_eq!(list["form"], json!("tasks"));
}

#[test]
fn bad_input_changes_nothing_and_prints_a_hint() {
    let sealed = sealed();
    sealed
        .run_ralph(&["tasks"])
        .expect_code(2)
        .expect_stderr("ralph/tasks.json, plan.json, prd.json");
    sealed.write_file("plan.json", PLAN);
    let add = ["tasks", "add", "T", "--criterion", "x"];
    for (words, expect) in [
        (vec!["tasks", "show", "TASK-02"], "did you mean `TASK-0"),
        (vec!["tasks", "set-status", "TASK-002", "finished"], "no status `finished`"),
        (vec!["tasks", "set-status", "TASK-002", "skiped"], "did you mean `skipped`?"),
        (vec!["tasks", "set-status", "TASK-002", "in_progress"], "cannot be set by hand"),
        (vec!["tasks", "set-status", "TASK-003", "done"], "it waits for `TASK-002`"),
        (vec!["tasks", "set-status", "NONE", "done"], "no task `NONE`"),
        (vec!["tasks", "add", "T"], "--criterion"),
        (vec!["tasks", "add", " ", "--criterion", "x"], "has no title"),
        ([&add[..], &["--id", "TASK-001"]].concat(), "already a task `TASK-001`"),
        ([&add[..], &["--depends-on", "NONE"]].concat(), "no task `NONE`"),
        ([&add[..], &["--id", "X", "--depends-on", "X"]].concat(), "no task `X`"),
        ([&add[..], &["--after", "NONE"]].concat(), "no task `NONE`"),
        (vec!["tasks", "--plan", "gone.json"], "gone.json: there is no such file"),
        (vec!["tasks", "--plan", "."], "is not a file"),
        (vec!["tasks", "fly"], "fly"),
    ] {
        let end = sealed.run_ralph(&words).expect_code(2);
        assert!(end.stderr.contains(expect), "{words:?}: {}", end.stderr);
        assert_eq!(end.stdout, "", "{words:?}");
    }
    assert_eq!(sealed.read_file("plan.json"), PLAN);
    assert!(!sealed.project_dir().join(".ralph/plan.json.bak").exists());
}

#[test]
fn all_errors_of_a_list_are_reported_at_once() {
    let sealed = sealed();
    let text = PLAN
        .replace("[\"TASK-001\"]", "[\"TASK-003\"]")
        .replace("\"status\": \"done\"", "\"status\": \"dnoe\"")
        .replace("[\"There is a page\"]", "[]");
    sealed.write_file("plan.json", &text);
    let end = sealed.run_ralph(&["tasks", "validate"]).expect_code(2);
    expect![[r#"
        error: There are 3 mistakes in the task file:
          plan.json:11:17: tasks[0].status: unknown status `dnoe` (did you mean `done`?)
          plan.json:30:21: tasks[1].depends_on: task `TASK-002` waits for itself: TASK-002 → TASK-003 → TASK-002 (remove one of these dependencies)
          plan.json:38:30: tasks[2].acceptance_criteria: task `TASK-003` has no acceptance criteria (add conditions for being done)
    "#]].assert_eq(&end.stderr);
    assert_eq!(sealed.run_ralph(&["tasks", "list"]).expect_code(2).stderr, end.stderr);
    let end = sealed.run_ralph(&["tasks", "validate", "--json"]).expect_code(2);
    let facts = parsed(&end.stdout);
    assert_eq!(facts["valid"], json!(false));
    assert_eq!(facts["problems"][0]["path"], json!("tasks[0].status"));
    assert_eq!(facts["problems"][0]["line"], json!(11));
}

#[test]
fn a_hostile_file_cannot_reach_the_terminal() {
    let sealed = sealed();
    let text = PLAN.replace("Write the parser", "\\u001b]0;owned\\u0007\\u001b[2Jx\\r\\ny");
    sealed.write_file("plan.json", &text);
    let end = sealed.run_ralph(&["tasks", "--color", "never"]).expect_code(0);
    assert!(!end.stdout.contains(['\u{1b}', '\r', '\u{7}']), "{:?}", end.stdout);
    sealed.write_file(
        "plan.json",
        &text.replace("\"status\": \"done\"", "\"status\": \"\\u001b[2J\""),
    );
    let end = sealed.run_ralph(&["tasks"]).expect_code(2);
    assert!(!end.stderr.contains('\u{1b}'), "{:?}", end.stderr);
}

#[test]
fn a_task_is_added_after_tasks_without_an_order() {
    let sealed = sealed();
    let task = |id: &str| {
        let criteria = ["It works"];
        json!({ "id": id, "title": id, "description": "d", "status": "pending",
                "acceptance_criteria": criteria })
    };
    let plan = json!({ "project": "p", "tasks": [task("A"), task("B")] });
    sealed.write_file("plan.json", &plan.to_string());
    sealed.run_ralph(&["tasks", "add", "Last", "--criteria", "x"]).expect_code(0);
    let shown = sealed.run_ralph(&["tasks"]).expect_code(0).stdout;
    assert!(shown.contains("Next: implement A,"), "{shown}");
}

#[test]
fn tasks_that_can_be_done_side_by_side_are_listed() {
    let sealed = sealed();
    let story = |id: &str, path: &str| {
        json!({"id": id, "title": "T", "description": "D", "acceptanceCriteria": ["C"],
            "passes": false, "touches": [path]})
    };
    let stories = [story("A", "src/**"), story("B", "src/b.rs"), story("C", "docs/")];
    sealed.write_file("prd.json", &json!({ "userStories": stories }).to_string());
    let shown = sealed.run_ralph(&["tasks"]).expect_code(0).stdout;
    let end = "Next: implement A, T\nSide by side: A, C\nShare paths, so they wait: B (with A)\n";
    assert!(shown.ends_with(end), "{shown}");
    let facts = parsed(&sealed.run_ralph(&["tasks", "--json"]).expect_code(0).stdout);
    assert_eq!(facts["sideBySide"], json!(["A", "C"]));
    let task = sealed.run_ralph(&["tasks", "show", "B"]).expect_code(0).stdout;
    assert!(task.contains("Touches     src/b.rs\n"), "{task}");
}
