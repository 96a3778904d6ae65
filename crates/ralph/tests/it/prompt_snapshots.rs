//! Every whole prompt as an agent gets it, in `tests/data/prompts`, so that a reviewer can read it.
//!
//! `UPDATE_EXPECT=1 cargo test -p ralph --test it -- prompt_snapshots` updates the files.

use expect_test::expect_file;
use serde_json::{Value, json};

use ralph_testkit::sealed::Sealed;

use crate::repository;

/// Returns a prompt without what differs in each run: ids of git objects and tokens.
fn normalize(prompt: &str) -> String {
    let is_id = |word: &str| {
        word.len() >= 7
            && word.chars().all(|it| it.is_ascii_hexdigit())
            && word.chars().any(|it| it.is_ascii_digit())
    };
    let mut text = String::new();
    for line in prompt.split_inclusive('\n') {
        for word in line.split_inclusive(|it: char| !it.is_ascii_alphanumeric()) {
            let bare = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
            text.push_str(&if is_id(bare) { word.replace(bare, "ID") } else { word.to_owned() });
        }
    }
    if text.ends_with('\n') { text } else { format!("{text}\n") }
}

#[track_caller]
fn find_prompt(sealed: &Sealed, text: &str) -> String {
    let found = sealed.prompts().into_iter().find(|prompt| prompt.contains(text));
    normalize(&found.unwrap_or_else(|| panic!("no prompt contains {text}")))
}

fn handoff(summary: &str) -> Value {
    json!({ "handoff": {
        "task_completed": { "summary": summary, "fully_complete": true },
        "architectural_notes": ["Passwords are hashed in one place"],
        "constraints_discovered": [{ "constraint": "No network", "impact": "Cache it" }],
        "recommendations": ["Add a rate limit"]
    } })
}

fn list() -> Value {
    let task = |id: &str, title: &str| {
        json!({
            "id": id, "title": title, "status": "pending", "notes": "Use bcrypt.",
            "description": "People can log in with a name and a password.",
            "acceptance_criteria": ["A wrong password is refused.", "A right one is accepted."]
        })
    };
    let mut other = task("T-2", "Logout");
    other["depends_on"] = json!(["T-1"]);
    json!({ "project": "site", "tasks": [task("T-1", "Login"), other] })
}

fn with_list(calls: &Value, settings: &Value) -> Sealed {
    let sealed = repository();
    sealed.write_script(calls, settings);
    sealed.write_file("plan.json", &format!("{:#}\n", list()));
    sealed.write_file("check.sh", "echo 'FAILED t.py::test_login - no'\ngrep -q right login.py\n");
    sealed.commit_all("Settings");
    sealed
}

#[test]
fn attempts() {
    let calls = json!([
        { "when": { "promptContains": "## The same failure" }, "do": [
            { "write": { "path": "login.py", "text": "right\n" } }, handoff("Thought.")
        ] },
        { "do": [{ "append": { "path": "login.py", "text": "wrong\n" } }, handoff("Guessed.")] }
    ]);
    let settings = json!({
        "review": { "enabled": false }, "protect": ["legal.md"],
        "gates": [{ "kind": "test", "command": "sh check.sh" }]
    });
    let sealed = with_list(&calls, &settings);
    sealed.run_ralph(&["build", "4"]);
    let prompts = sealed.prompts();
    expect_file!["../data/prompts/implement.md"].assert_eq(&normalize(&prompts[0]));
    expect_file!["../data/prompts/implement-failed.md"].assert_eq(&normalize(&prompts[1]));
    expect_file!["../data/prompts/stuck.md"]
        .assert_eq(&find_prompt(&sealed, "## The same failure"));
}

#[test]
fn reviews() {
    let judges = |when: Value, verdict: &str, feedback: &str| {
        let criteria: Vec<Value> = ["A wrong password is refused.", "A right one is accepted."]
            .map(|it| json!({ "criterion": it, "met": true, "evidence": "login.py:1" }))
            .to_vec();
        json!({ "when": when, "repeat": 1, "do": [
            { "verdict": { "verdict": verdict, "feedback": feedback, "criteria": criteria } }
        ] })
    };
    let review = || json!({ "role": "review" });
    let quality = || json!({ "role": "review", "promptContains": "needless complexity" });
    let calls = json!([
        judges(quality(), "approved", ""),
        { "when": review(), "repeat": 1, "do": [{ "text": "Looks good to me." }] },
        judges(review(), "changes_requested", "login.py:1 has no test."),
        judges(quality(), "approved", ""),
        judges(review(), "approved", ""),
        { "when": { "role": "compact" }, "do": [{ "structured": {
            "project_summary": "p", "completed_work": [], "active_constraints": [],
            "architectural_decisions": [], "file_knowledge": []
        } }] },
        { "do": [{ "append": { "path": "login.py", "text": "x\n" } }, handoff("Did it.")] }
    ]);
    let settings = json!({
        "gates": [
            { "kind": "test", "command": "true", "allowEmpty": true },
            { "name": "quality", "kind": "quality", "agent": {}, "hint": "Mind the names." }
        ],
        "memory": { "everyIterations": 2 }
    });
    let sealed = with_list(&calls, &settings);
    sealed.run_ralph(&["build", "5"]);
    for (name, text) in [
        ("quality", "needless complexity"),
        (
            "review",
            "## How to review\n1. Read the changed files whole, not just the change.\n2. Go",
        ),
        ("follow-up", "could not be used"),
        ("fix", "You fix what a review found"),
        ("compact", "## How to compact"),
    ] {
        let file = format!("{}/tests/data/prompts/{name}.md", env!("CARGO_MANIFEST_DIR"));
        expect_file![file].assert_eq(&find_prompt(&sealed, text));
    }
}

#[test]
fn plans_builds_and_runs() {
    let nothing = json!([{ "do": [{ "text": "Hm." }] }]);
    let sealed = repository();
    sealed.write_script(&nothing, &json!({ "workflow": "specs", "protect": ["legal.md"] }));
    sealed.write_file("specs/login.md", "# Login\n");
    sealed.write_file(".ralph/implementation_plan.md", "- [ ] Login\n");
    sealed.commit_all("Specify");
    sealed.run_ralph(&["plan", "1"]);
    expect_file!["../data/prompts/plan-specs.md"].assert_eq(&normalize(&sealed.prompts()[0]));
    sealed.run_ralph(&["build", "1"]);
    expect_file!["../data/prompts/build.md"].assert_eq(&normalize(&sealed.prompts()[0]));

    let sealed = repository();
    sealed.write_script(&nothing, &json!({}));
    sealed.commit_all("Settings");
    sealed.run_ralph(&["init", "--workflow", "tasks", "--name", "Site"]).expect_code(0);
    sealed.write_file("ralph/prd.md", "# Login\n\nPeople can log in.\n");
    sealed.run_ralph(&["plan", "1"]);
    expect_file!["../data/prompts/plan-tasks.md"].assert_eq(&normalize(&sealed.prompts()[0]));

    let sealed = repository();
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "<response>Add a</response>" }] },
        { "do": [{ "append": { "path": "a.txt", "text": "x\n" } }, { "text": "Hm." }] }
    ]);
    let settings = json!({
        "guardrails": [{ "command": "grep -c x a.txt | grep 2" }], "protect": ["legal.md"],
        "scm": { "command": "git", "tasks": ["commit"] }
    });
    sealed.write_script(&calls, &settings);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    sealed.run_ralph(&["run", "-p", "Make the login work.", "-m", "2"]);
    let prompts = sealed.prompts();
    expect_file!["../data/prompts/run.md"].assert_eq(&normalize(&prompts[0]));
    expect_file!["../data/prompts/run-failed.md"].assert_eq(&normalize(&prompts[1]));
    let message = find_prompt(&sealed, "commit message for the changes");
    expect_file!["../data/prompts/message.md"].assert_eq(&message);
}

#[test]
fn the_documented_lengths_are_those_of_the_prompts() {
    const ROUNDING: usize = 100;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let page = std::fs::read_to_string(format!("{root}../../docs/prompts.md")).expect("a page");
    let prompts = std::fs::read_dir(format!("{root}tests/data/prompts")).expect("prompts");
    for file in prompts.flatten().map(|entry| entry.path()) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let chars = std::fs::read_to_string(&file).expect("a prompt").chars().count();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let documented = row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit(' ').next());
        let documented: usize = documented.and_then(|it| it.parse().ok()).unwrap_or_default();
        assert!(chars.abs_diff(documented) <= ROUNDING, "{name}: {chars}, documented {row:?}");
    }
}
