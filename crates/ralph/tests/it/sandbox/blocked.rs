//! Gates and agents that fail only because of the sandbox: the reason comes first, with the line
//! to add, and no attempt is counted.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use super::backends;

fn ralph(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

/// Returns the backends that hide paths; Landlock refuses instead.
fn hiding_backends() -> impl Iterator<Item = &'static str> {
    backends().into_iter().filter(|backend| *backend != "landlock")
}

fn write_own_settings(sealed: &Sealed, settings: &Value) {
    let own = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&own).expect("a directory");
    fs::write(own.join("settings.json"), settings.to_string()).expect("written");
}

fn write_project(sealed: &Sealed, gate: &str, further: &Value) {
    let handoff = json!({ "task_completed": { "summary": "Done.", "fully_complete": true } });
    let calls = json!([{ "do": [
        { "run": { "command": "echo done > work.txt" } },
        { "handoff": handoff },
        { "text": "<response>DONE</response>" },
    ] }]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": gate }] }));
    write_own_settings(sealed, further);
}

#[track_caller]
fn check_texts(end: &Finished, texts: &[&str]) {
    let output = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in texts {
        assert!(output.contains(text), "no {text:?} in {output}");
    }
}

#[test]
fn a_run_stops_at_a_gate_that_the_sandbox_blocks_and_resume_runs_it_again() {
    for backend in hiding_backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let store = sealed.root().join("home/.mystore");
        fs::create_dir_all(&store).expect("a directory");
        fs::write(store.join("lib.txt"), "a library").expect("written");
        write_project(&sealed, "cat ~/.mystore/lib.txt", &json!({}));
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "3"]);
        assert_eq!(end.code, Some(1), "{backend}: {}{}", end.stdout, end.stderr);
        let setting = r#"{"sandbox":{"home":[".mystore"]}}"#;
        check_texts(
            &end,
            &[
                "sandbox: `~/.mystore/lib.txt` is hidden in the sandbox",
                &format!("sandbox: put this into your own settings: {setting}"),
                "fails because `~/.mystore/lib.txt` is hidden in the sandbox",
                "the attempt does not count",
                "ralph resume",
            ],
        );
        assert_eq!(sealed.prompts().len(), 1, "{backend}: the agent is not asked again");
        let report = ralph(&sealed, backend, &["report"]).stdout;
        assert!(report.contains("is hidden in the sandbox"), "{backend}: {report}");
        write_own_settings(&sealed, &json!({ "sandbox": { "home": [".mystore"] } }));
        let end = ralph(&sealed, backend, &["resume"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        assert_eq!(sealed.prompts().len(), 1, "{backend}: its work is kept");
        assert_eq!(sealed.read_file("work.txt"), "done\n");
    }
}

#[test]
fn an_attempt_that_only_the_sandbox_blocks_is_not_counted() {
    let backend = backends()[0];
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let gate =
        "test ! -f work.txt || { echo 'fatal: Could not resolve host: example.com'; exit 1; }";
    write_project(&sealed, gate, &json!({ "review": { "enabled": false } }));
    let task = json!({ "id": "a", "title": "A", "description": "Make a.", "status": "pending",
        "acceptance_criteria": ["a"], "depends_on": [] });
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task] }).to_string());
    sealed.commit_all("Settings");
    let end = ralph(&sealed, backend, &["build"]);
    assert_eq!(end.code, Some(1), "{}{}", end.stdout, end.stderr);
    check_texts(
        &end,
        &["because gates have no network in the sandbox", r#""gates":{"allow":["example.com"]}"#],
    );
    assert_eq!(sealed.prompts().len(), 1);
    assert!(!sealed.run_git(&["branch", "--list"]).contains("wip/"), "no failure branch");
    assert!(!sealed.read_file("plan.json").contains("retry_count"), "no attempt is counted");
    assert_eq!(sealed.read_file("work.txt"), "done\n", "the work is kept");
}

#[test]
fn a_gate_that_also_fails_otherwise_is_a_failed_attempt_with_the_reason_in_its_feedback() {
    let backend = backends()[0];
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let calls = json!([{ "do": [{ "text": "<response>DONE</response>" }] }]);
    let blocked = "echo 'fatal: Could not resolve host: example.com'; exit 1";
    let gates = json!({ "gates": [
        { "name": "net", "command": blocked },
        { "name": "own", "command": "echo wrong; exit 1", "always": true },
    ] });
    sealed.write_script(&calls, &gates);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "2"]);
    assert_eq!(end.code, Some(1), "{}{}", end.stdout, end.stderr);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 2, "{}", end.stderr);
    assert!(prompts[1].contains("It failed because gates have no network"), "{}", prompts[1]);
}

#[test]
fn refused_ports_and_hosts_are_named_with_the_line_to_add() {
    let backend = backends()[0];
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = server.local_addr().expect("an address").port();
    let ralph_itself = env!("CARGO_BIN_EXE_ralph");
    let proxy = json!({ "sandbox": { "gates": { "network": "proxy" } } });
    for (gate, settings, reason, remedy) in [
        (
            format!("echo 'Error: connect ECONNREFUSED 127.0.0.1:{port}'; exit 1"),
            json!({}),
            format!("port {port} of this machine cannot be reached in the sandbox"),
            format!(r#""gates":{{"allow":["localhost:{port}"]}}"#),
        ),
        (
            format!("echo | {ralph_itself} __connect evil.example 443"),
            proxy,
            "the sandbox refused evil.example:443".to_owned(),
            "add \"evil.example\" to `sandbox.gates.allow`".to_owned(),
        ),
    ] {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        write_project(&sealed, &gate, &settings);
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "2"]);
        assert_eq!(end.code, Some(1), "{}{}", end.stdout, end.stderr);
        check_texts(&end, &[&reason, &remedy, "the attempt does not count"]);
        assert_eq!(sealed.prompts().len(), 1, "{}", end.stderr);
    }
}

#[test]
fn an_agent_that_misses_a_hidden_file_is_asked_again_once_it_is_shown() {
    for backend in hiding_backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let real = sealed.root().join("home/.private/agent");
        fs::create_dir_all(real.parent().expect("a parent")).expect("a directory");
        fs::write(&real, "#!/bin/sh\necho '<response>DONE</response>'\n").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).expect("a mode");
        sealed.write_program("wrapper", &format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()));
        write_own_settings(&sealed, &json!({ "agent": { "command": "wrapper", "kind": "text" } }));
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "2"]);
        assert_eq!(end.code, Some(4), "{backend}: {}{}", end.stdout, end.stderr);
        check_texts(
            &end,
            &[
                "blocked by the sandbox, asked 1 time",
                "`~/.private/agent` is hidden in the sandbox",
                r#"put this into your own settings: {"sandbox":{"home":[".private"]}}"#,
            ],
        );
        let settings = json!({ "agent": { "command": "wrapper", "kind": "text" },
            "sandbox": { "home": [".private"] } });
        write_own_settings(&sealed, &settings);
        let end = ralph(&sealed, backend, &["resume"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
    }
}

#[test]
fn hosts_that_have_no_effect_for_gates_are_warned_about() {
    let backend = backends()[0];
    let allow = json!({ "sandbox": { "network": { "allow": ["example.com"] } } });
    let both = json!({ "sandbox": { "network": { "allow": ["example.com"] },
        "gates": { "network": "none" } } });
    for (settings, expect) in [(allow, true), (both, false)] {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        write_project(&sealed, "true", &settings);
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        let warning = "`sandbox.network.allow` is for agents only";
        assert_eq!(end.stderr.contains(warning), expect, "{}", end.stderr);
    }
}

/// Greets once the port of a server of this machine answers.
const GREETED: &str = "import socket, sys; \
    print(socket.create_connection((\"localhost\", int(sys.argv[1])), 20).recv(9).decode())";

#[test]
fn a_low_port_of_this_machine_is_passed_on_or_the_backend_says_why_not() {
    for backend in hiding_backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let allow = json!({ "sandbox": { "network": { "allow": ["127.0.0.1:1023"] } } });
        write_own_settings(&sealed, &allow);
        let end = sealed.run_ralph(&["sandbox", "exec", "--backend", backend, "--", "true"]);
        let is_named = end.stderr.contains("cannot pass on port 1023 of this machine")
            && end.stderr.contains("`--sandbox=native` can");
        assert!(
            end.code == Some(0) || is_named && backend != "native",
            "{backend}: {}",
            end.stderr
        );
    }
}

#[test]
fn a_server_of_this_machine_is_reached_by_gates_and_not_by_agents() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = server.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hi"));
        }
    });
    for backend in hiding_backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        sealed.write_file("greet.py", GREETED);
        let greet = format!("python3 greet.py {port}");
        let calls = json!([{ "do": [
            { "run": { "command": format!("{greet} 2>&1 | tail -n 1 > work.txt") } },
            { "text": "<response>DONE</response>" },
        ] }]);
        sealed.write_script(
            &calls,
            &json!({ "guardrails": [{ "command": format!("{greet} | grep -q hi") }] }),
        );
        let allow = json!({ "sandbox": { "gates": { "allow": [format!("localhost:{port}")] } } });
        write_own_settings(&sealed, &allow);
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        let agent = sealed.read_file("work.txt");
        assert!(agent.contains("refused"), "{backend}: {agent}");
        // Gates have this port, and nothing of what agents reach.
        let connect = ["sandbox", "exec", "--as", "gate", "--", env!("CARGO_BIN_EXE_ralph")];
        let end = ralph(
            &sealed,
            backend,
            &[&connect[..], &["__connect", "api.anthropic.com", "443"]].concat(),
        );
        assert_ne!(end.code, Some(0), "{backend}: {}", end.stderr);
        assert!(
            end.stderr.contains("not on the list of allowed hosts"),
            "{backend}: {}",
            end.stderr
        );
    }
}

#[test]
fn a_gate_that_fetches_packages_gets_their_setting_and_does_not_retry() {
    let gate = "echo retries $npm_config_fetch_retries; echo 'npm error code EAI_AGAIN'; \
        echo 'npm error request to https://packages.example.com/x failed'; false";
    for backend in hiding_backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        sealed.write_file("package.json", "{}");
        write_project(&sealed, gate, &json!({}));
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(1), "{backend}: {}{}", end.stdout, end.stderr);
        let setting = r#"{"sandbox":{"network":{"packages":true}}}"#;
        let line = format!("put this into your own settings: {setting}");
        check_texts(&end, &["retries 0", "gates have no network in the sandbox", &line]);
    }
}
