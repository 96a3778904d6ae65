//! Agents in the home directory: where they are found, and what is said when they are hidden.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::json;

use super::backends;

/// Runs ralph with a directory of the home in front of the `PATH`.
fn ralph(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    let bin = sealed.root().join("home/weird/place/bin");
    command
        .args(words)
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn write_settings(sealed: &Sealed, command: &str) {
    let settings = json!({ "agent": { "command": command, "kind": "text" },
        "retries": { "backoff": "10ms" }, "preventSleep": false });
    let own = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&own).expect("a directory");
    fs::write(own.join("settings.json"), settings.to_string()).expect("written");
}

#[test]
fn an_agent_on_the_path_starts_wherever_in_the_home_it_is_installed() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let home = sealed.root().join("home");
        let interpreter = home.join("opt/runtime/bin/run");
        write_program(&interpreter, "#!/bin/sh\ncat \"${0%/bin/*}/lib/words\"\n");
        fs::create_dir_all(home.join("opt/runtime/lib")).expect("a directory");
        fs::write(home.join("opt/runtime/lib/words"), "<response>DONE</response>\n")
            .expect("written");
        let app = home.join("else/lib/app");
        write_program(&app, &format!("#!{}\n", interpreter.display()));
        fs::create_dir_all(home.join("weird/place/bin")).expect("a directory");
        symlink("../../../else/lib/app", home.join("weird/place/bin/myagent")).expect("a link");
        fs::write(home.join("else/secret.txt"), "canary").expect("written");
        write_settings(&sealed, "myagent");
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        let end = ralph(&sealed, backend, &["doctor"]);
        assert!(end.stdout.contains("starts in the sandbox"), "{backend}: {}", end.stdout);
        let secret = home.join("else/secret.txt").display().to_string();
        let end = ralph(&sealed, backend, &["sandbox", "exec", "--", "cat", &secret]);
        assert!(!end.stdout.contains("canary"), "{backend}: only the installation is shown");
    }
}

#[test]
fn a_hidden_agent_is_reported_before_the_first_call() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let agent = sealed.root().join("home/.ssh/agent.sh");
        write_program(&agent, "#!/bin/sh\necho '<response>DONE</response>'\n");
        write_settings(&sealed, &agent.display().to_string());
        let hidden = format!("the sandbox hides `{}`", agent.display());
        let setting = r#"{"sandbox":{"home":[".ssh/agent.sh"]}}"#;
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(4), "{backend}: {}{}", end.stdout, end.stderr);
        assert!(end.stderr.contains(&hidden), "{backend}: {}", end.stderr);
        assert!(end.stderr.contains(setting), "{backend}: {}", end.stderr);
        assert_eq!(sealed.runs().len(), 0, "{backend}: no run was begun");
        let end = ralph(&sealed, backend, &["doctor"]);
        assert_eq!(end.code, Some(4), "{backend}: {}", end.stdout);
        let output = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains(&hidden), "{backend}: {output}");
        assert!(output.contains(setting), "{backend}: {output}");
        let end = ralph(&sealed, backend, &["doctor", "--json"]);
        assert!(end.stdout.contains("\"startsInSandbox\": false"), "{backend}: {}", end.stdout);
        let text = json!({ "agent": { "command": agent, "kind": "text" },
            "sandbox": { "home": [".ssh/agent.sh"] }, "preventSleep": false });
        fs::write(sealed.root().join("home/.config/ralph/settings.json"), text.to_string())
            .expect("written");
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
    }
}

#[test]
fn doctor_reports_what_an_agent_prints_when_it_does_not_start_in_the_sandbox() {
    let backend = backends()[0];
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let home = sealed.root().join("home");
    let real = home.join(".private/claude");
    write_program(&real, "#!/bin/sh\necho '9.9.9 (Claude Code)'\n");
    let wrapper = format!("#!/bin/sh\nexec {} \"$@\"\n", real.display());
    write_program(&home.join("weird/place/bin/claude"), &wrapper);
    let own = home.join(".config/ralph");
    fs::create_dir_all(&own).expect("a directory");
    fs::write(own.join("settings.json"), r#"{"agent":{"command":"claude"}}"#).expect("written");
    let end = ralph(&sealed, backend, &["doctor"]);
    assert_eq!(end.code, Some(4), "{}", end.stdout);
    let output = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("does not start in the sandbox: exit code 127"), "{output}");
    assert!(output.contains("ralph sandbox exec -- claude --version"), "{output}");
}
