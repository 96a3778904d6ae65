//! The report of a run over a task list: one task done, one failed, one blocked.

use ralph_testkit::sealed::{Finished, Sealed};
use serde_json::{Value, json};

use crate::{done, repository, run, sealed};

const PLAN: &str = r#"{
  "project": "compass",
  "tasks": [
    {"id": "T1", "title": "Write the parser", "description": "d", "status": "pending",
     "order": 1, "acceptance_criteria": ["it parses"], "depends_on": []},
    {"id": "T2", "title": "Limit the rate", "description": "d", "status": "pending",
     "order": 2, "acceptance_criteria": ["it limits"], "depends_on": []},
    {"id": "T3", "title": "Send the mail", "description": "d", "status": "pending",
     "order": 3, "acceptance_criteria": ["it sends"], "depends_on": []},
    {"id": "T4", "title": "Use the limit", "description": "d", "status": "pending",
     "order": 4, "acceptance_criteria": ["it is used"], "depends_on": ["T2"]}
  ]
}
"#;

fn build() -> (Sealed, Finished) {
    let sealed = repository();
    let handoff = |task: &str| json!({"task_completed": {"task_id": task, "summary": "Did it.", "fully_complete": true}});
    let mut blocked = handoff("T3");
    blocked["blocked"] = json!({"needs": "an API key", "why": "it is missing"});
    let usage = json!({"usage": {"input": 1000, "output": 100, "cost": 0.02}});
    let calls = json!([
        {"when": {"task": "T1"},
         "do": [{"write": {"path": "parser", "text": "x"}}, usage, {"handoff": handoff("T1")}]},
        {"when": {"task": "T2"},
         "do": [{"append": {"path": "bad", "text": "x"}}, usage, {"handoff": handoff("T2")}]},
        {"when": {"task": "T3"}, "do": [usage, {"handoff": blocked}]},
    ]);
    let gates =
        json!([{"command": "test ! -f bad || { echo 'error: race in the bucket'; exit 1; }"}]);
    sealed.write_script(&calls, &json!({"guardrails": gates, "tasks": {"maxAttempts": 2}}));
    sealed.write_file("plan.json", PLAN);
    sealed.commit_all("plan");
    let end = sealed.run_ralph(&["build", "--skip-review"]).expect_code(1);
    (sealed, end)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[track_caller]
fn check_in_order(text: &str, parts: &[&str]) {
    let mut from = 0;
    for part in parts {
        let at = text[from..].find(part);
        from += at.unwrap_or_else(|| panic!("`{part}` is missing, or comes too early:\n{text}"));
    }
}

#[test]
fn run_over_a_list_is_reported() {
    let (sealed, end) = build();
    let branch =
        sealed.run_git(&["branch", "--list", "--format=%(refname:short)", "wip/ralph-fail-T2-*"]);
    let branch = branch.trim();
    check_in_order(
        &end.stderr,
        &[
            "Run ended: not complete",
            "blocked: T3 needs an API key (it is missing)",
            "tasks: 1 of 4 done, 2 failed, 1 left",
            "T2 failed: none of 2 attempts passed",
            "error: race in the bucket",
            &format!("git diff main...{branch}"),
            "ralph build --task T2 --from-shelf",
            "ralph report",
        ],
    );
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    check_in_order(
        &report,
        &[
            "# Execution summary\n",
            "## Questions (they wait for you)\n\n- **T3** (Send the mail): needs an API key (it is missing)\n",
            "## Completed: 1/4 tasks\n",
            "- T4 waits for T2\n",
            "## Failed tasks (they need you)\n\n### T2: Limit the rate\n\n- Attempts: 2/2\n- Last gate: ",
            &format!("- Branch: `{branch}`\n- Error: error: race in the bucket\n"),
            "- Stuck: No\n- Quality warnings: 0\n",
            "### T3: Send the mail\n",
            "## Tasks\n",
            "| T1 | Write the parser | done | 0 | 0 | 1 | 1 |",
            "$0.02 | 1.0K in / 100 out |",
            "## Iterations by role\n",
            "| implement | 5 | 5 |",
            "## Gates\n",
            "## Commits\n\n- `",
            "T1 — Write the parser",
            "## Failure branches\n",
            "## Next\n\n```sh\ngit diff main...",
        ],
    );
    let named = parsed(&sealed.run_ralph(&["report", "--json"]).expect_code(0).stdout);
    let run = named["run"].as_str().expect("an id");
    assert_eq!(sealed.run_ralph(&["report", run]).expect_code(0).stdout, report);
    assert_eq!(named["progress"]["done"], json!(1));
    assert_eq!(named["failed"][0]["branch"], json!(branch));
    assert_eq!(named["failed"][0]["error"], json!("error: race in the bucket"));
    assert_eq!(named["questions"][0]["needs"], json!("needs an API key (it is missing)"));
    assert_eq!(named["waiting"], json!([{"task": "T4", "on": "T2"}]));
    assert_eq!(named["total"]["costUsdMicros"], json!(100_000));
    assert_eq!(named["tasks"][1]["spent"]["iterations"], json!(2));
}

#[test]
fn status_starts_with_questions_for_the_user() {
    let (sealed, _) = build();
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.starts_with("Blocked    T3 needs an API key (it is missing)\n"), "{status}");
    check_in_order(
        &status,
        &[
            "State      not complete",
            "Cost       $0.10",
            "Tasks      1 of 4 done, 2 failed\n",
            "T1  done     Write the parser ($0.02)\n",
            "T2  failed   Limit the rate (2 of 2 attempts failed, $0.04)\n",
            "T4  pending  Use the limit\n",
        ],
    );
    let facts = parsed(&sealed.run_ralph(&["status", "--json"]).expect_code(0).stdout);
    assert_eq!(facts["questions"][0]["task"], json!("T3"));
    assert_eq!(facts["progress"]["failed"], json!(2));
    assert_eq!(facts["tasks"][1]["failedAttempts"], json!(2));
}

#[test]
fn prompt_run_has_a_report_too() {
    let sealed = sealed();
    sealed.run_ralph(&["report"]).expect_code(2).expect_stderr("no run in this directory yet");
    sealed.write_script(&done(), &json!({ "guardrails": [{ "command": "true" }] }));
    run(&sealed, &[]).expect_code(0);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    check_in_order(
        &report,
        &[
            "- Ending: complete\n",
            "## Completed: yes\n",
            "| prompt | 1 | 1 |",
            "| true | hard | 1 | 100% |",
        ],
    );
    let end = sealed.run_ralph(&["report", "20000101-000000-none"]).expect_code(2);
    end.expect_stderr("no run `20000101-000000-none`").expect_stderr("hint: ");
}

#[test]
fn a_report_on_a_terminal_is_rendered_and_lists_changed_files() {
    let sealed = crate::repository();
    let actions = json!([{ "write": { "path": "made.txt", "text": "x" } }, { "claim": "DONE" }]);
    sealed.write_script(&crate::always(actions), &json!({}));
    sealed.commit_all("Settings");
    crate::run(&sealed, &[]).expect_code(0);
    let piped = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(piped.starts_with("# Execution summary\n"), "{piped}");
    assert!(piped.contains("\n## Changed files: 1\n\n- made.txt\n"), "{piped}");
    let (mut master, other) = crate::typing::terminal(100);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.arg("report").env("TERM", "xterm").env("NO_COLOR", "1").stdout(other);
    let mut child = command.spawn().expect("it starts");
    drop(command);
    let mut seen = Vec::new();
    // Reading fails once the other end is closed everywhere.
    let _ = std::io::Read::read_to_end(&mut master, &mut seen);
    assert!(child.wait().expect("it ends").success());
    let seen = String::from_utf8_lossy(&seen).replace('\r', "");
    assert!(seen.starts_with("Execution summary\n"), "{seen}");
    assert!(seen.contains("\nChanged files: 1\n\n- made.txt\n"), "{seen}");
    assert!(!seen.contains("| ---") && !seen.contains("##"), "{seen}");
}

#[test]
fn the_report_of_a_prompt_names_it_and_open_needs_no_other_flag() {
    let sealed = sealed();
    sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &json!({}));
    sealed.run_ralph(&["run", "-p", "Fix the parser.\nThen test it."]).expect_code(0);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("- Prompt: Fix the parser."), "{report}");
    sealed.run_ralph(&["report", "--open"]).expect_code(0).expect_stderr("is written");
    sealed.run_ralph(&["report", "--open", "--json"]).expect_code(2);
}
