//! Agents through the built binary: version detection, calls, failures, and `ralph doctor`.
//! Stand-ins on the `PATH` print what the real programs print.

use std::fs;

use ralph_testkit::models::check_strict_schema;
use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::{repository, sealed};

/// What Claude Code prints on success.
const CLAUDE_DONE: &str = r#"echo '{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"<response>DONE</response>"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"<response>DONE</response>"}'"#;

/// Writes a program that prints its version, or else records its arguments and runs a script.
fn stand_in(sealed: &Sealed, name: &str, version: &str, body: &str) {
    let root = sealed.root().display();
    sealed.write_program(
        name,
        &format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; echo {name} >> '{root}/versions'; exit; fi\n\
             echo \"$@\" >> '{root}/argv'\ncat > '{root}/stdin'\n{body}\n"
        ),
    );
}

fn noted(sealed: &Sealed, file: &str) -> String {
    fs::read_to_string(sealed.root().join(file)).unwrap_or_default()
}

fn settings(sealed: &Sealed, settings: &Value) {
    sealed.write_file(".ralph/settings.json", &settings.to_string());
}

fn run(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["run", "-p", "base"], words].concat())
}

fn doctor(sealed: &Sealed, env: &[(&str, &str)]) -> (Finished, Value) {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["doctor", "--json"]).envs(env.iter().copied());
    let end = Running::start_command(command).wait_for_end();
    let facts = serde_json::from_str(&end.stdout).unwrap_or(Value::Null);
    (end, facts)
}

#[test]
fn doctor_asks_an_agent_whether_it_is_logged_in() {
    let sealed = sealed();
    let claude = json!({ "agent": { "command": "claude" } });
    let denied = "if [ \"$1\" = auth ]; then echo '{ \"loggedIn\": false }'; exit 1; fi";
    stand_in(&sealed, "claude", "2.1.325 (Claude Code)", denied);
    settings(&sealed, &claude);
    let (end, facts) = doctor(&sealed, &[]);
    assert_eq!(end.code, Some(4), "{facts:#}");
    assert_eq!(facts["agents"][0]["login"]["state"], "missing", "{facts:#}");
    let (_, facts) = doctor(&sealed, &[("ANTHROPIC_API_KEY", "a-key")]);
    assert_eq!(facts["agents"][0]["login"]["state"], "found", "{facts:#}");
    assert_eq!(noted(&sealed, "argv"), "auth status\n");
    stand_in(&sealed, "claude", "2.0.20 (Claude Code)", denied);
    let (_, facts) = doctor(&sealed, &[]);
    assert_eq!(facts["agents"][0]["login"]["state"], "unknown", "{facts:#}");
    stand_in(&sealed, "codex", "codex-cli 0.166.0", "echo Not logged in >&2; exit 1");
    settings(&sealed, &json!({ "agent": { "command": "codex" } }));
    let (_, facts) = doctor(&sealed, &[]);
    assert!(facts["agents"][0]["warnings"].to_string().contains("not logged in"), "{facts:#}");
}

#[test]
fn version_is_read_once_and_selects_flags() {
    let sealed = sealed();
    stand_in(&sealed, "claude", "2.0.20 (Claude Code)", CLAUDE_DONE);
    run(&sealed, &["--agent", "claude", "--max-cost", "5"]).expect_code(0);
    run(&sealed, &["--agent", "claude", "--max-cost", "5"]).expect_code(0);
    assert_eq!(noted(&sealed, "versions"), "claude\n");
    assert!(!noted(&sealed, "argv").contains("--max-budget-usd"), "{}", noted(&sealed, "argv"));
    stand_in(&sealed, "claude", "2.1.325 (Claude Code)", CLAUDE_DONE);
    run(&sealed, &["--agent", "claude", "--max-cost", "5"]).expect_code(0);
    assert_eq!(noted(&sealed, "versions"), "claude\nclaude\n");
    assert!(noted(&sealed, "argv").contains("--max-budget-usd 5"), "{}", noted(&sealed, "argv"));
    let cache = noted(&sealed, "home/.cache/ralph/agents.json");
    assert!(cache.contains("2.1.325"), "{cache}");
    fs::write(sealed.root().join("home/.cache/ralph/agents.json"), "garbage").expect("written");
    run(&sealed, &["--agent", "claude"]).expect_code(0);
}

#[test]
fn unknown_command_is_not_asked_for_its_version() {
    let sealed = sealed();
    stand_in(&sealed, "helper", "1.2.3", "echo '<response>DONE</response>'");
    let end = run(&sealed, &["--agent", "helper", "--max-cost", "5"]).expect_code(0);
    assert_eq!(noted(&sealed, "versions"), "");
    let warned = end.stderr.replace("\n  ", " ");
    assert!(warned.contains("`helper` does not report what it costs"), "{}", end.stderr);
}

#[test]
fn removed_flag_is_replaced_with_a_warning() {
    let sealed = sealed();
    let done = r#"echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"<response>DONE</response>"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#;
    stand_in(&sealed, "codex", "codex-cli 0.166.0", done);
    settings(&sealed, &json!({ "agent": { "command": "codex", "flags": ["--full-auto"] } }));
    sealed.trust_project(&[]);
    run(&sealed, &[]).expect_code(0).expect_stderr("`--full-auto` was removed");
    let argv = noted(&sealed, "argv");
    assert!(argv.contains("-s workspace-write") && !argv.contains("--full-auto"), "{argv}");
    stand_in(&sealed, "codex", "codex-cli 0.120.0", done);
    let end = run(&sealed, &[]).expect_code(0);
    assert!(!end.stderr.contains("is gone"), "{}", end.stderr);
    assert!(noted(&sealed, "argv").contains("--full-auto"));
}

#[test]
fn refused_schema_is_requested_in_the_prompt() {
    let sealed = repository();
    let refusal = "unexpected status 400 Bad Request: {\"error\": {\"message\": \"Invalid schema for \
                   response_format 'codex_output_schema': In context=(), x\", \
                   \"code\": \"invalid_json_schema\"}}";
    let failed = json!({ "type": "turn.failed", "error": { "message": refusal } });
    let handoff = json!({ "token": "TOKEN", "task_completed": { "task_id": "T1", "summary": "Did it.", "fully_complete": true } });
    let item = json!({ "type": "item.completed", "item": {
        "id": "i", "type": "agent_message", "text": format!("```json\n{handoff}\n```") } });
    fs::write(sealed.root().join("failed"), failed.to_string()).expect("written");
    fs::write(sealed.root().join("said"), item.to_string()).expect("written");
    let body = r#"echo '{"type":"thread.started","thread_id":"t"}'
file=; before=; for word; do [ "$before" = --output-schema ] && file=$word; before=$word; done
if [ -n "$file" ]; then cp "$file" ../schema.json; cat ../failed; echo; exit 1; fi
echo work > work.txt
token=$(sed -n 's/.*"token": "\([0-9a-f]*\)".*/\1/p' ../stdin)
sed "s/TOKEN/$token/" ../said; echo
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#;
    stand_in(&sealed, "codex", "codex-cli 0.166.0", body);
    let reviewed = json!({ "agent": { "command": "codex" }, "review": { "enabled": false } });
    settings(&sealed, &reviewed);
    let task = |id: &str| {
        json!({ "id": id, "title": "One", "description": "Do it.", "status": "pending",
                "acceptance_criteria": ["a"] })
    };
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task("T1")] }).to_string());
    sealed.commit_all("Settings");
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    let reported = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(reported.contains("refuses the JSON Schema of the answer"), "{reported}");
    assert_eq!(sealed.find_events("asked").len(), 2, "{reported}");
    assert!(noted(&sealed, "stdin").contains("End your answer with this JSON object"));
    let schema: Value = serde_json::from_str(&noted(&sealed, "schema.json")).expect("JSON");
    assert_eq!(check_strict_schema(&schema), None);
}

#[test]
fn usage_error_is_not_retried() {
    let claude = "echo \"error: unknown option '--mine'\" >&2; exit 1";
    let codex = "printf \"error: unexpected argument '--mine' found\\n\\nUsage: codex exec\\n\" >&2; exit 2";
    let ours = "echo \"error: unknown option '--strict-mcp-config'\" >&2; exit 1";
    let help = "printf 'Usage: helper [options]\\n\\nOptions:\\n  -h\\n'; exit 1";
    for (name, body, words, hint) in [
        ("claude", claude, "unknown option '--mine'", "remove it from `agent.flags`"),
        ("codex", codex, "unexpected argument '--mine'", "remove it from `agent.flags`"),
        ("claude", ours, "--strict-mcp-config", "does not take `--strict-mcp-config`: update it"),
        ("helper", claude, "unknown option '--mine'", "remove it from `agent.flags`"),
        ("helper", help, "Usage: helper", "`ralph doctor` shows how"),
    ] {
        let sealed = sealed();
        stand_in(&sealed, name, "9.9.9", body);
        let agent = json!({ "command": name, "flags": ["--mine"] });
        settings(&sealed, &json!({ "agent": agent, "retries": { "backoff": "1ms" } }));
        sealed.trust_project(&[]);
        let end = run(&sealed, &[]).expect_code(4).expect_stderr(words);
        assert_eq!(sealed.find_events("asked").len(), 1, "{name}: {body}");
        let reported = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(reported.contains(hint), "{name}: {}", end.stderr);
    }
}

#[test]
fn empty_and_garbage_streams_are_failures() {
    for (name, body) in [
        ("claude", "true"),
        ("claude", "echo '<html>502</html>'"),
        ("claude", "head -c 3000 /dev/zero | tr '\\0' '\\377'"),
        ("codex", "true"),
        ("codex", "echo not json; echo '{\"type\":'"),
        ("gemini", "true"),
        ("helper", "true"),
    ] {
        let sealed = sealed();
        stand_in(&sealed, name, "9.9.9", body);
        settings(
            &sealed,
            &json!({ "agent": { "command": name }, "retries": { "max": 1, "backoff": "1ms" } }),
        );
        let end = run(&sealed, &[]);
        assert_eq!(end.code, Some(4), "{name} {body}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("asked").len(), 2, "{name} {body}");
    }
}

#[test]
fn codex_text_mode_reads_its_answer_file() {
    let sealed = sealed();
    let file = "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && file=$2; shift; done\n";
    let claim = "echo '<response>DONE</response>'";
    stand_in(&sealed, "codex", "codex-cli 0.166.0", &format!("{file}{claim} | tee \"$file\""));
    let words = ["--agent", "codex", "--no-stream-agent-output"];
    run(&sealed, &words).expect_code(0);
    let argv = noted(&sealed, "argv");
    assert!(argv.contains(" -o ") && !argv.contains("--json"), "{argv}");
    let run_directory = sealed.runs().pop().expect("a run");
    let left: Vec<String> = fs::read_dir(run_directory)
        .expect("readable")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("answer"))
        .collect();
    assert_eq!(left, [""; 0]);
    // The same text without the file is not an answer.
    stand_in(&sealed, "codex", "codex-cli 0.166.0", claim);
    settings(&sealed, &json!({ "retries": { "max": 0 } }));
    run(&sealed, &words).expect_code(4).expect_stderr("it left no answer");
}

#[test]
fn another_kind_of_agent_writes_the_commit_message() {
    let sealed = repository();
    stand_in(
        &sealed,
        "claude",
        "2.1.325 (Claude Code)",
        &format!("echo x > new.txt\n{CLAUDE_DONE}"),
    );
    stand_in(&sealed, "scribe", "1.0.0", "echo \"Add a file, says $1\"");
    settings(
        &sealed,
        &json!({
            "agent": { "command": "claude", "flags": ["--verbose"], "model": "opus" },
            "agents": {
                "message": { "command": "scribe", "flags": ["the scribe"] },
                "review": { "command": "never-installed" },
                "escalate": { "command": "codex" },
            },
            "scm": { "command": "git", "tasks": ["commit"] },
        }),
    );
    run(&sealed, &["--include-dirty"]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "Add a file, says the scribe");
    let argv = noted(&sealed, "argv");
    assert!(argv.ends_with("\nthe scribe\n"), "{argv}");
    let recipe = sealed.find_events("run_started")[0]["recipe"].clone();
    assert_eq!(recipe["agent"]["kind"], "claude");
    assert_eq!(recipe["agents"]["message"]["kind"], "text");
    assert_eq!(recipe["agents"]["message"]["model"], Value::Null);
    assert_eq!(recipe["agents"]["review"]["command"], "never-installed");
    assert_eq!(recipe["escalate"]["kind"], "codex");
    assert_eq!(recipe["escalate"]["capabilities"]["usage"], "tokens");
}

#[test]
fn servers_and_instructions_reach_the_agent() {
    let sealed = sealed();
    stand_in(&sealed, "claude", "2.1.325 (Claude Code)", CLAUDE_DONE);
    stand_in(&sealed, "helper", "", "echo '<response>DONE</response>'");
    sealed.write_file("mcp.json", r#"{"mcpServers": {"memory": {"command": "ralph"}}}"#);
    sealed.write_file("RULES.md", "Be brief.\n");
    let of = |command: &str, servers: &str, rules: &str| {
        json!({
            "agent": { "command": command, "systemPromptFile": rules },
            "mcp": { "coding": servers },
        })
    };
    settings(&sealed, &of("claude", "mcp.json", "RULES.md"));
    sealed.trust_project(&[]);
    run(&sealed, &[]).expect_code(0);
    let argv = noted(&sealed, "argv");
    for words in ["--mcp-config /", "/mcp.json", "--append-system-prompt-file /", "/RULES.md"] {
        assert!(argv.contains(words), "{words}: {argv}");
    }
    let prompt = noted(&sealed, "stdin");
    assert!(prompt.starts_with("base\n"), "{prompt}");
    settings(&sealed, &of("helper", "mcp.json", "RULES.md"));
    let end = run(&sealed, &[]).expect_code(0);
    let prompt = noted(&sealed, "stdin");
    assert!(prompt.starts_with("Be brief.\n\nbase\n"), "{prompt}");
    assert!(end.stderr.contains("takes no MCP servers"), "{}", end.stderr);
    for (servers, rules, expect) in [
        ("missing.json", "RULES.md", "missing.json"),
        ("RULES.md", "RULES.md", "`mcpServers`"),
        ("mcp.json", "missing.md", "missing.md"),
    ] {
        settings(&sealed, &of("claude", servers, rules));
        sealed.trust_project(&[]);
        run(&sealed, &[]).expect_code(2).expect_stderr(expect);
    }
}

#[test]
fn a_dry_run_starts_nothing_and_warns() {
    let sealed = sealed();
    stand_in(&sealed, "codex", "codex-cli 0.166.0", "exit 1");
    let words = ["--agent", "codex", "--max-cost", "5", "--dry-run"];
    let end = run(&sealed, &words).expect_code(0);
    assert!(end.stdout.contains("codex exec --json -s workspace-write"), "{}", end.stdout);
    assert!(end.stdout.contains("warning: `codex` does not report"), "{}", end.stdout);
    assert_eq!(noted(&sealed, "versions") + &noted(&sealed, "argv"), "");
}

#[test]
fn doctor_lists_agents_and_their_calls() {
    let sealed = repository();
    stand_in(&sealed, "claude", "2.1.325 (Claude Code)", "exit 1");
    settings(
        &sealed,
        &json!({
            "agent": { "command": "claude", "model": "opus", "flags": ["--token", "s3cret"] },
            "agents": { "message": { "model": "haiku" }, "fix": { "model": "opus" } },
        }),
    );
    sealed.trust_project(&[]);
    let (end, facts) = doctor(&sealed, &[("ANTHROPIC_API_KEY", "s3cret-key")]);
    assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    assert!(!end.stdout.contains("s3cret"), "{}", end.stdout);
    let claude = &facts["agents"][0];
    assert_eq!(claude["uses"], json!(["agent", "agents.fix"]));
    assert_eq!(claude["version"], "2.1.325");
    assert_eq!(claude["login"], json!({ "state": "found", "by": "ANTHROPIC_API_KEY" }));
    assert_eq!(claude["capabilities"]["schema"], "enforced");
    assert!(claude["path"].as_str().is_some_and(|path| path.ends_with("/bin/claude")));
    let call = claude["call"].to_string();
    assert!(call.contains("\"--model\",\"opus\""), "{call}");
    assert_eq!(facts["agents"][1]["uses"], json!(["agents.message"]));
    let agents = facts["agents"].as_array().expect("a list");
    let codex = agents.iter().find(|agent| agent["kind"] == "codex").expect("it is known");
    assert_eq!((&codex["path"], &codex["usable"]), (&Value::Null, &json!(false)));
    assert!(codex["hints"][0].to_string().contains("@openai/codex"));
    let checks = facts["checks"].as_array().expect("a list");
    let names: Vec<&Value> = checks.iter().map(|check| &check["name"]).collect();
    let expected =
        ["git", "repository", "state", "sleep", "hooks", "sandbox", "user-settings", "trust"];
    assert_eq!(names, expected);
    let sandbox = checks.iter().find(|check| check["name"] == "sandbox").expect("a check");
    assert_eq!(sandbox["title"], "runs are not isolated");
    for backend in ["sbx", "native", "bwrap", "container", "landlock"] {
        assert!(sandbox["details"].to_string().contains(&format!("{backend}: ")), "{sandbox}");
    }
    assert_eq!(noted(&sealed, "argv"), "", "it was not asked");
    let end = sealed.run_ralph(&["doctor"]).expect_code(0);
    for text in ["claude 2.1.325 (agent, agents.fix)", "login: unknown", "schema output: enforced"]
    {
        assert!(end.stdout.contains(text), "{text}:\n{}", end.stdout);
    }
    assert_eq!(noted(&sealed, "versions"), "claude\n", "it was remembered");
    // The dry run shows the real command line.
    let shown = end.stdout.lines().find(|line| line.contains("claude -p")).expect("the call");
    let dry = run(&sealed, &["--dry-run"]).stdout;
    assert!(dry.contains(shown.trim()), "{shown}\n{dry}");
}

#[test]
fn doctor_fails_where_an_agent_cannot_run() {
    let sealed = sealed();
    let (end, facts) = doctor(&sealed, &[]);
    assert_eq!((end.code, &facts["usable"]), (Some(4), &json!(false)));
    let end = sealed.run_ralph(&["doctor"]).expect_code(4);
    assert!(end.stdout.contains("no agent is set"), "{}", end.stdout);
    assert!(end.stdout.contains("not installed, and not needed: claude, codex,"), "{}", end.stdout);
    settings(&sealed, &json!({ "agent": { "command": "claude" } }));
    let end = sealed.run_ralph(&["doctor"]).expect_code(4);
    assert!(end.stdout.contains("claude is not installed (agent)"), "{}", end.stdout);
    assert!(end.stdout.contains("npm install -g @anthropic-ai/claude-code"), "{}", end.stdout);
    // Without a key it would wait forever.
    stand_in(&sealed, "amp", "0.0.1790142911-g1a2b", "exit 1");
    settings(&sealed, &json!({ "agent": { "command": "amp" } }));
    let (end, facts) = doctor(&sealed, &[]);
    assert_eq!((end.code, &facts["agents"][0]["login"]["state"]), (Some(4), &json!("missing")));
    assert_eq!(doctor(&sealed, &[("AMP_API_KEY", "x")]).0.code, Some(0));
    stand_in(&sealed, "gemini", "0.9.0", "exit 1");
    settings(&sealed, &json!({ "agent": { "command": "gemini" } }));
    let (end, facts) = doctor(&sealed, &[]);
    assert_eq!(end.code, Some(4));
    assert!(facts["agents"][0]["warnings"][0].to_string().contains("too old"), "{facts}");
    settings(&sealed, &json!({ "agent": { "comand": "claude" } }));
    sealed.run_ralph(&["doctor"]).expect_code(2).expect_stderr("agent.comand");
}

#[test]
fn doctor_checks_the_agent_that_a_run_would_be_given() {
    let sealed = sealed();
    sealed.write_program("codex", "#!/bin/sh\necho 'codex-cli 0.125.0'\n");
    let end = sealed.run_ralph(&["doctor", "--agent", "codex", "--json"]);
    let facts: Value = serde_json::from_str(&end.stdout).expect("JSON");
    let agents = facts["agents"].as_array().expect("a list");
    let used: Vec<&Value> =
        agents.iter().filter(|it| it["uses"].as_array().is_some_and(|it| !it.is_empty())).collect();
    assert!(used.len() == 1 && used[0]["command"] == "codex", "{used:?}");
}

#[test]
fn doctor_reports_an_unwritable_state_directory() {
    let sealed = sealed();
    settings(&sealed, &json!({ "stateDir": "/proc/ralph", "preventSleep": false }));
    let (_, facts) = doctor(&sealed, &[]);
    let of = |name: &str| {
        let checks = facts["checks"].as_array().expect("a list");
        checks.iter().find(|check| check["name"] == name).expect("it was looked at")["health"]
            .clone()
    };
    assert_eq!(
        (of("state"), of("sleep"), of("repository")),
        ("bad".into(), "absent".into(), "doubtful".into())
    );
}
