//! Paths that agents may not create: no placeholders appear in the project, and what an agent
//! creates there is removed after its call.

use std::fs;
use std::path::Path;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Running, Sealed, merge_into};
use serde_json::{Value, json};

use super::backends;

/// Returns how to start ralph with each backend that works here.
fn environments() -> Vec<Vec<(&'static str, String)>> {
    let mut all: Vec<Vec<_>> = backends()
        .into_iter()
        .map(|backend| vec![("RALPH_SANDBOX_BACKEND", backend.to_owned())])
        .collect();
    // A container takes seconds to start.
    let image = if effort::is_quick() { None } else { super::image::image() };
    all.extend(image.map(|image| {
        vec![
            ("RALPH_SANDBOX_BACKEND", "container".to_owned()),
            ("RALPH_SANDBOX_IMAGE", image.to_owned()),
        ]
    }));
    all
}

fn start(sealed: &Sealed, environment: &[(&str, String)], words: &[&str]) -> Running {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).envs(environment.iter().map(|(name, value)| (name, value)));
    Running::start_command(command)
}

fn ralph(sealed: &Sealed, environment: &[(&str, String)], words: &[&str]) -> Finished {
    start(sealed, environment, words).wait_for_end()
}

/// A repository with a list of one task and an agent.
fn project(calls: &Value, further: &Value) -> Sealed {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let mut settings = json!({ "review": { "enabled": false } });
    merge_into(&mut settings, further);
    sealed.write_script(calls, &settings);
    sealed.write_file(
        "plan.json",
        &json!({ "project": "p", "tasks": [{
            "id": "T-1", "title": "One", "description": "Do it.", "status": "pending",
            "acceptance_criteria": ["done"], "depends_on": []
        }] })
        .to_string(),
    );
    sealed.commit_all("Settings");
    sealed
}

fn handoff() -> Value {
    json!({ "handoff": { "task_completed": { "summary": "Did it.", "fully_complete": true } } })
}

/// Lists the paths that programs look for, and that a sandbox could block with placeholders: the
/// top of the project, `.ralph`, and `.git` except for the objects and refs of the run.
fn listed(sealed: &Sealed) -> Vec<String> {
    fn collect(top: &Path, directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
            let is_of_run =
                [".git/objects/", ".git/refs/", ".git/logs/", ".ralph/logs", ".ralph/context"]
                    .iter()
                    .any(|it| name.starts_with(it) && !name.starts_with(".git/objects/info"));
            if is_of_run {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                collect(top, &path, found);
                found.push(format!("{name}/"));
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    collect(&sealed.project_dir(), &sealed.project_dir(), &mut found);
    // Documented files of a run: its views, and git's index.
    let of_run = [
        ".ralph/.gitignore",
        ".ralph/state.json",
        ".ralph/plan.json.bak",
        ".ralph/active.json",
        ".ralph/handoffs/",
        ".ralph/memory.jsonl",
        ".git/index",
        ".git/objects/",
        ".git/refs/",
        ".git/logs/",
        ".git/COMMIT_EDITMSG",
    ];
    found.retain(|name| !of_run.contains(&name.as_str()));
    found.sort();
    found
}

/// Commands in another terminal while an agent works, and their exit codes: those that would start
/// work of their own are refused. Last come the ones that the run acts on.
const COMMANDS: [(&[&str], &[i32]); 33] = [
    (&["status"], &[0]),
    (&["status", "--json"], &[0]),
    (&["log"], &[0]),
    (&["report"], &[0]),
    (&["report", "--html", "-"], &[0]),
    (&["stats"], &[0]),
    (&["context"], &[0]),
    // It finds faults of this machine.
    (&["doctor"], &[0, 1]),
    (&["sandbox", "show"], &[0]),
    (&["sandbox", "exec", "true"], &[0]),
    (&["clean", "--dry-run"], &[0]),
    (&["clean"], &[3]),
    (&["tasks"], &[0]),
    (&["tasks", "validate"], &[0]),
    (&["tasks", "show", "T-1"], &[0]),
    (&["memory"], &[0]),
    (&["trust", "--yes"], &[0]),
    (&["hook", "explain", "rm -rf /"], &[0]),
    // There is no channel.
    (&["notify"], &[2]),
    (&["plugin", "validate"], &[0]),
    (&["completions", "bash"], &[0]),
    (&["man"], &[0]),
    (&["help"], &[0]),
    (&["run", "-p", "x"], &[3]),
    (&["build"], &[3]),
    // The work of the other run is not committed.
    (&["build", "--dry-run"], &[2]),
    (&["resume"], &[3]),
    (&["archive"], &[3]),
    (&["pause"], &[0]),
    (&["resume"], &[0]),
    (&["note", "A word."], &[0]),
    (&["tasks", "set-status", "T-1", "pending"], &[0]),
    (&["skip", "T-1"], &[0]),
];

#[test]
fn commands_work_and_nothing_is_made_while_an_agent_works() {
    for environment in environments() {
        let calls = json!([{ "do": [
            { "touch": "begun" },
            { "waitFor": { "path": "continue", "seconds": 100.0 } },
            { "run": { "command": "rm begun continue; echo x > work.txt" } },
            handoff()
        ] }]);
        let sealed = project(&calls, &json!({ "memory": { "enabled": true } }));
        let before = listed(&sealed);
        let running = start(&sealed, &environment, &["build"]);
        sealed.wait_for("begun");
        let mut during = listed(&sealed);
        during.retain(|name| name != "begun");
        assert_eq!(during, before, "{environment:?}");
        for (words, codes) in COMMANDS {
            let ended = ralph(&sealed, &environment, words);
            assert!(
                ended.code.is_some_and(|code| codes.contains(&code)),
                "{environment:?} {words:?}: {:?} {}{}",
                ended.code,
                ended.stdout,
                ended.stderr
            );
        }
        let mut server = start(&sealed, &environment, &["serve", "--json"]);
        assert!(server.read_line().contains("http://127.0.0.1:"), "{environment:?}");
        drop(server);
        ralph(&sealed, &environment, &["stop"]).expect_code(0);
        let mut during = listed(&sealed);
        during.retain(|name| name != "begun");
        assert_eq!(during, before, "{environment:?}");
        sealed.write_file("continue", "");
        let end = running.wait_for_end();
        assert!(matches!(end.code, Some(0 | 130)), "{environment:?}: {}", end.stderr);
        let mut after = listed(&sealed);
        after.retain(|name| name != "work.txt");
        assert_eq!(after, before, "{environment:?}");
    }
}

/// Files that an agent creates where the user's programs would find them.
const CREATED: &str = "mkdir -p .vscode .claude; echo '{}' > .vscode/tasks.json; \
    echo 'touch pwned' > .envrc; echo '{}' > .mcp.json; echo '{}' > .claude/settings.json; \
    echo '{\"tasks\": 7}' > .ralph/settings.local.json; echo x > work.txt";

#[test]
fn forbidden_new_files_are_removed_kept_and_reported() {
    for environment in environments() {
        let calls = json!([
            { "when": { "call": 1 }, "do": [{ "run": { "command": CREATED } }, { "text": "Not yet." }] },
            { "do": [{ "claim": "DONE" }] }
        ]);
        let sealed = project(
            &calls,
            &json!({
                "commit": "ralph",
                "guardrails": [{ "command": "! ls -d .envrc .mcp.json .vscode .claude .ralph/settings.local.json" }],
            }),
        );
        let end = ralph(&sealed, &environment, &["run", "-p", "base"]);
        assert_eq!(end.code, Some(0), "{environment:?}: {}", end.stderr);
        for name in [".envrc", ".mcp.json", ".vscode", ".claude", ".ralph/settings.local.json"] {
            assert!(!sealed.project_dir().join(name).exists(), "{environment:?}: {name}");
        }
        assert_eq!(sealed.read_file("work.txt"), "x\n", "{environment:?}");
        let warned: Vec<String> =
            sealed.find_events("warned").iter().map(ToString::to_string).collect();
        let prompts = sealed.prompts();
        let mut names = vec![".envrc", ".mcp.json", ".vscode", ".claude/settings.json"];
        // In other backends the directory is read-only.
        if environment[0].1 == "landlock" {
            names.push(".ralph/settings.local.json");
        }
        for name in names {
            let words = format!("not allowed in the sandbox, removed: `{name}` (kept in `");
            assert!(warned.iter().any(|it| it.contains(&words)), "{environment:?}: {warned:?}");
            assert!(prompts[1].contains(&format!("- `{name}`")), "{environment:?}: {}", prompts[1]);
        }
        assert!(!prompts[1].contains("kept in"), "{}", prompts[1]);
        let kept = fs::read_dir(sealed.state_dir()).expect("readable").flatten();
        let kept: Vec<_> = kept.filter(|it| it.path().join("removed/1-.envrc").is_file()).collect();
        assert_eq!(kept.len(), 1, "{environment:?}");
    }
}

#[test]
fn a_protected_file_that_an_agent_deleted_can_be_restored() {
    // Other backends do not let an agent delete it.
    for backend in backends().into_iter().filter(|it| *it == "landlock") {
        let calls = json!([
            { "when": { "call": 1 }, "do": [{ "run": { "command": "rm -r tests; echo x > work.txt" } }, handoff()] },
            { "do": [{ "run": { "command": "mkdir tests; echo much > tests/one.txt" } }, handoff()] }
        ]);
        let sealed = project(&calls, &json!({ "protect": ["/tests/"], "baseline": "off" }));
        sealed.write_file("tests/one.txt", "much\n");
        sealed.commit_all("Tests");
        let environment = [("RALPH_SANDBOX_BACKEND", backend.to_owned())];
        // A new process does not forget that the file existed.
        ralph(&sealed, &environment, &["build", "-m", "1"]).expect_code(1);
        ralph(&sealed, &environment, &["resume", "-m", "2"]).expect_code(0);
        assert_eq!(sealed.read_file("tests/one.txt"), "much\n");
        assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "x\n");
    }
}

#[test]
fn local_settings_that_appear_while_an_agent_works_are_not_read() {
    // Nothing prevents this agent from writing them.
    for text in ["{", r#"{"stateDir": "elsewhere", "tasks": {"file": "other.json"}}"#] {
        let write = format!("echo '{text}' > .ralph/settings.local.json; touch begun");
        let calls = json!([{ "do": [
            { "run": { "command": write } },
            { "waitFor": { "path": "continue", "seconds": 100.0 } },
            { "run": { "command": "rm .ralph/settings.local.json begun continue; echo x > work.txt" } },
            handoff()
        ] }]);
        let sealed = project(&calls, &json!({}));
        let running = sealed.start_ralph(&["build"]);
        sealed.wait_for("begun");
        let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
        assert!(status.contains("T-1"), "{status}");
        sealed.run_ralph(&["note", "A word."]).expect_code(0);
        let tasks = sealed.run_ralph(&["tasks"]).expect_code(0).stdout;
        assert!(tasks.contains("T-1"), "{tasks}");
        sealed.write_file("continue", "");
        running.wait_for_end().expect_code(0);
    }
}

#[test]
fn leftovers_of_a_killed_run_are_removed_by_the_next_one() {
    for environment in environments() {
        let calls = json!([
            { "when": { "call": 1 }, "do": [
                { "run": { "command": "echo x > .envrc; touch begun" } },
                { "waitFor": { "path": "never", "seconds": 100.0 } },
            ] },
            { "do": [{ "run": { "command": "echo x > work.txt" } }, { "claim": "DONE" }] }
        ]);
        let sealed = project(&calls, &json!({}));
        let running = start(&sealed, &environment, &["run", "-p", "base"]);
        sealed.wait_for("begun");
        // Also what was removed before the kill is reported by the next run.
        std::thread::sleep(std::time::Duration::from_millis(500));
        running.send_signal(rustix::process::Signal::KILL);
        running.wait_for_end();
        let end = ralph(&sealed, &environment, &["run", "-p", "base", "--include-dirty"]);
        assert_eq!(end.code, Some(0), "{environment:?}: {}", end.stderr);
        assert!(!sealed.project_dir().join(".envrc").exists(), "{environment:?}");
        let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("removed: `.envrc`"), "{environment:?}: {}", end.stderr);
    }
}

#[test]
fn a_forbidden_new_file_is_removed_while_the_agent_runs() {
    let wait = "echo x > .envrc; n=0; while test -e .envrc && test $n -lt 300; do sleep 0.1; \
                n=$((n + 1)); done; test -e .envrc || echo gone > work.txt";
    for environment in environments() {
        let calls = json!([{ "do": [{ "run": { "command": wait } }, { "claim": "DONE" }] }]);
        let sealed = project(&calls, &json!({}));
        let end = ralph(&sealed, &environment, &["run", "-p", "base"]);
        assert_eq!(end.code, Some(0), "{environment:?}: {}", end.stderr);
        assert_eq!(sealed.read_file("work.txt"), "gone\n", "{environment:?}");
        let warned: Vec<String> =
            sealed.find_events("warned").iter().map(ToString::to_string).collect();
        let count = warned.iter().filter(|it| it.contains("removed: `.envrc`")).count();
        assert_eq!(count, 1, "{environment:?}: {warned:?}");
    }
}
