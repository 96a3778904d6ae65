//! What project settings may loosen, the user's own settings, and `ralph trust`.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use expect_test::{Expect, expect};
use ralph_testkit::sealed::{Finished, Running, Sealed};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::{done, run, sealed};

/// A project that completes at once, with these sections in its settings.
fn project(settings: &Value) -> Sealed {
    let sealed = sealed().with_sandbox();
    sealed.write_script(&done(), settings);
    sealed
}

/// Writes the user's own settings.
fn user(sealed: &Sealed, text: &str) {
    let directory = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("settings.json"), text).expect("written");
}

fn with_variables(sealed: &Sealed, words: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).envs(variables.iter().copied());
    Running::start_command(command).wait_for_end()
}

fn shown(sealed: &Sealed, text: &str) -> String {
    text.replace(&sealed.root().display().to_string(), "ROOT")
}

/// Runs `ralph trust` on a terminal, answers, and returns the code and the output.
fn on_a_terminal(sealed: &Sealed, words: &[&str], answer: &str) -> (Option<i32>, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let end = || File::options().read(true).write(true).open(&name).expect("the other end");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).stdin(Stdio::from(end())).stderr(Stdio::from(end())).stdout(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // The command also holds the other end open.
    drop(command);
    let mut terminal = File::from(master);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let mut is_answered = false;
    // Reading fails once the other end is closed everywhere.
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
        if !is_answered && seen.ends_with(b"[y/N] ") {
            terminal.write_all(answer.as_bytes()).expect("answered");
            is_answered = true;
        }
    }
    let code = child.wait().expect("it ends").code();
    (code, String::from_utf8_lossy(&seen).replace("\r\n", "\n"))
}

#[test]
fn loosened_settings_are_refused_with_key_position_and_hints() {
    let sealed = project(&json!({
        "sandbox": { "network": { "mode": "host", "allow": ["a.example"] }, "git": "ro" }
    }));
    let end = run(&sealed, &[]).expect_code(2);
    expect![[r#"
        error: The settings of this project need your trust:
          .ralph/settings.json:14:15: `sandbox.network.mode` asks for "host"; your bound is "proxy" (default)
          .ralph/settings.json:15:16: `sandbox.network.allow` adds "a.example"; your bound is [] (default)
        hint: `ralph trust` accepts it for this project
        hint: or put it into your own settings, `ROOT/home/.config/ralph/settings.json`, for all projects
    "#]]
    .assert_eq(&shown(&sealed, &end.stderr));
    assert!(sealed.runs().is_empty(), "nothing has begun");
    // Settings that start nothing can be displayed.
    for words in [&["status"][..], &["log"], &["report"], &["context"], &["resume", "--list"]] {
        let message = sealed.run_ralph(words).stderr;
        assert!(!message.contains("need your trust"), "{words:?}: {message}");
    }
    for words in [&["run", "-p", "x", "--dry-run"][..], &["resume"]] {
        sealed.run_ralph(words).expect_code(2).expect_stderr("need your trust");
    }
}

/// `settings::trust_limits` has every key.
#[test]
fn loosening_is_refused_and_tightening_taken() {
    for (section, is_refused) in [
        (json!({ "backend": "none" }), true),
        (json!({ "limits": { "memory": "9G" } }), true),
        (json!({ "gates": { "credentials": true } }), true),
        (json!({ "git": "ro", "ro": ["docs"], "network": { "mode": "none" } }), false),
        (json!({ "limits": { "memory": "1G", "pids": 100 } }), false),
    ] {
        let sealed = project(&json!({ "sandbox": section }));
        let end = run(&sealed, &["--dry-run"]);
        let expect = if is_refused { 2 } else { 0 };
        assert_eq!(end.code, Some(expect), "{section}: {}", end.stderr);
        assert_eq!(end.stderr.contains("need your trust"), is_refused, "{section}");
        // The local file and a given file of the project are not trusted either.
        let settings = json!({ "sandbox": section }).to_string();
        sealed.write_script(&done(), &json!({}));
        sealed.write_file(".ralph/settings.local.json", &settings);
        assert_eq!(run(&sealed, &["--dry-run"]).code, Some(expect), "local: {section}");
    }
}

#[test]
fn a_project_does_not_choose_where_trusted_state_lies() {
    let sealed = project(&json!({ "stateDir": ".ralph/state" }));
    run(&sealed, &[]).expect_code(2).expect_stderr("`stateDir` asks for \".ralph/state\"");
    user(&sealed, r#"{ "stateDir": ".ralph/state" }"#);
    run(&sealed, &[]).expect_code(0);
}

#[test]
fn flags_and_variables_are_trusted() {
    let sealed = project(&json!({ "sandbox": { "backend": "none", "rw": ["/data"] } }));
    run(&sealed, &[]).expect_code(2).expect_stderr("sandbox.backend");
    // Without a sandbox there is nothing to loosen in it.
    run(&sealed, &["--no-sandbox"]).expect_code(0);
    let words = ["run", "-p", "base"];
    with_variables(&sealed, &words, &[("RALPH_SANDBOX_BACKEND", "none")]).expect_code(0);
}

#[test]
fn given_file_is_trusted_unless_it_is_in_the_project() {
    let sealed = sealed().with_sandbox();
    sealed.write_script(&done(), &json!({ "sandbox": { "git": "agent" } }));
    let text = sealed.read_file(".ralph/settings.json");
    sealed.write_file("given.json", &text);
    let outside = sealed.root().join("given.json");
    fs::write(&outside, &text).expect("written");
    let outside = outside.to_string_lossy().into_owned();
    run(&sealed, &["--config", &outside]).expect_code(0);
    let end = run(&sealed, &["--config", "given.json"]).expect_code(2);
    assert!(end.stderr.contains("`ralph trust --config given.json`"), "{}", end.stderr);
    symlink(&outside, sealed.project_dir().join("link.json")).expect("a link");
    run(&sealed, &["--config", "link.json"]).expect_code(2);
    sealed.write_file("lines.conf", "RALPH_SANDBOX_GIT=agent\nAGENT_CLI=true\n");
    let end = run(&sealed, &["--config", "lines.conf"]).expect_code(2);
    assert!(end.stderr.contains("lines.conf:1:19: `sandbox.git` asks for"), "{}", end.stderr);
    // Trust in one file does not cover another.
    sealed.run_ralph(&["trust", "--yes", "--config", "given.json"]).expect_code(0);
    run(&sealed, &["--config", "given.json"]).expect_code(0);
    run(&sealed, &[]).expect_code(2);
}

#[test]
fn the_users_settings_are_a_layer_and_a_bound() {
    let sealed = project(&json!({
        "maximumIterations": 3,
        "sandbox": { "network": { "allow": ["a.example"], "deny": ["y.example"] } }
    }));
    run(&sealed, &[]).expect_code(2);
    user(
        &sealed,
        r#"{ "maximumIterations": 9, "commitPrefix": "mine",
             "sandbox": { "network": { "allow": ["*.example"], "deny": ["x.example"] } } }"#,
    );
    let end = run(&sealed, &["--verbose"]).expect_code(0);
    let message = shown(&sealed, &end.stderr);
    for line in [
        "Loading settings from ROOT/home/.config/ralph/settings.json",
        "\"maximumIterations\": 3",
        "\"commitPrefix\": \"mine\"",
    ] {
        assert!(message.contains(line), "{line}: {message}");
    }
    for closed in ["x.example", "y.example"] {
        assert!(message.contains(closed), "what is closed stays closed: {message}");
    }
    // Stricter user settings restrict what was allowed before.
    user(&sealed, r#"{ "sandbox": { "network": { "allow": ["b.example"], "mode": "none" } } }"#);
    run(&sealed, &[]).expect_code(2).expect_stderr(r#"your bound is ["b.example"] ("#);
}

#[test]
fn mistakes_in_the_users_settings_name_the_file() {
    for (text, expect) in [
        ("{ \"maxTurn\": 1 }", "ROOT/home/.config/ralph/settings.json:1:3: unknown key `maxTurn`"),
        ("{ ", "ROOT/home/.config/ralph/settings.json:1:2: not valid JSON"),
        ("", "ROOT/home/.config/ralph/settings.json: the file is empty"),
    ] {
        let sealed = project(&json!({}));
        user(&sealed, text);
        let end = run(&sealed, &[]).expect_code(2);
        assert!(shown(&sealed, &end.stderr).contains(expect), "{text}: {}", end.stderr);
    }
    let sealed = project(&json!({}));
    let place = sealed.root().join("home/.config/ralph/settings.json");
    fs::create_dir_all(&place).expect("a directory");
    run(&sealed, &[]).expect_code(2).expect_stderr("is a directory, not a settings file");
    fs::remove_dir(&place).expect("removed");
    symlink("nowhere", &place).expect("a link");
    run(&sealed, &[]).expect_code(2).expect_stderr("cannot be read");
    // The demo ignores the user's settings.
    sealed.run_ralph(&["demo", "--fast"]).expect_code(0);
}

#[test]
fn the_usual_variables_say_where_the_users_settings_are() {
    let sealed = project(&json!({}));
    let first = |variables: &[(&str, &str)]| {
        let end = with_variables(&sealed, &["run", "-p", "base", "-v"], variables).expect_code(0);
        let line = end.stderr.lines().find(|line| line.contains("Loading settings from"));
        shown(&sealed, line.expect("a line").rsplit(' ').next().unwrap_or_default())
    };
    assert_eq!(first(&[]), "ROOT/project/.ralph/settings.json");
    let other = sealed.root().join("other");
    fs::create_dir_all(other.join("ralph")).expect("a directory");
    fs::write(other.join("ralph/settings.json"), "{}").expect("written");
    let moved = first(&[("XDG_CONFIG_HOME", &other.to_string_lossy())]);
    assert_eq!(moved, "ROOT/other/ralph/settings.json");
    // A home that is a link resolves to the same directory.
    user(&sealed, "{}");
    let link = sealed.root().join("link");
    symlink(sealed.root().join("home"), &link).expect("a link");
    let linked = first(&[("HOME", &link.to_string_lossy())]);
    assert_eq!(linked, "ROOT/link/.config/ralph/settings.json");
}

#[test]
fn without_a_home_nothing_is_trusted_and_nothing_breaks() {
    let sealed = project(&json!({ "sandbox": { "git": "agent" } }));
    let homeless = |words: &[&str]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).env_remove("HOME").env_remove("XDG_STATE_HOME");
        command.env("RALPH_STATE_DIR", sealed.root().join("state"));
        Running::start_command(command).wait_for_end()
    };
    homeless(&["run", "-p", "x"])
        .expect_code(2)
        .expect_stderr("put it into your own settings, for");
    homeless(&["trust", "--yes"]).expect_code(2).expect_stderr("no place for ralph's state");
    sealed.write_script(&done(), &json!({ "sandbox": { "git": "ro" } }));
    homeless(&["run", "-p", "x"]).expect_code(0);
}

#[test]
fn trust_is_given_on_a_terminal_after_everything_was_shown() {
    let sealed = project(&json!({ "sandbox": { "network": { "mode": "host" } } }));
    let check = |seen: &str, expected: &Expect| expected.assert_eq(&shown(&sealed, seen));
    let (code, seen) = on_a_terminal(&sealed, &["trust"], "n\n");
    assert_eq!(code, Some(1), "{seen}");
    check(
        &seen,
        &expect![[r#"
            The settings of ROOT/project need your trust:
              .ralph/settings.json:14:15: `sandbox.network.mode` asks for "host"; your bound is "proxy" (default)
            Trust this project with it? [y/N] n
            Nothing is changed.
        "#]],
    );
    run(&sealed, &[]).expect_code(2);
    let (code, seen) = on_a_terminal(&sealed, &["trust", "."], "y\n");
    assert_eq!(code, Some(0), "{seen}");
    run(&sealed, &[]).expect_code(0);
    let file = sealed.state_dir().join("trust.json");
    let mode = fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Without a terminal nothing is accepted silently.
    fs::remove_file(&file).expect("removed");
    let end = sealed.run_ralph(&["trust"]).expect_code(2).expect_stderr("`sandbox.network.mode`");
    assert!(end.stderr.contains("ralph trust --yes"), "{}", end.stderr);
    sealed
        .run_ralph(&["trust", "--yes", "--quiet"])
        .expect_code(0)
        .expect_stderr("asks for \"host\"");
    run(&sealed, &[]).expect_code(0);
    sealed.run_ralph(&["trust"]).expect_code(0).expect_stderr("is trusted with all");
}

#[test]
fn declined_trust_is_requested_again() {
    let sealed = project(&json!({ "sandbox": { "rw": ["/data", "/more"] } }));
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0);
    run(&sealed, &[]).expect_code(0);
    for (section, code) in [
        (json!({ "rw": ["/data"] }), 0),
        (json!({ "rw": ["/data"], "git": "ro" }), 0),
        (json!({ "rw": ["/data", "/etc"] }), 2),
        (json!({ "rw": ["/data"], "git": "agent" }), 2),
        (json!({ "backend": "none" }), 2),
    ] {
        sealed.write_script(&done(), &json!({ "sandbox": section }));
        assert_eq!(run(&sealed, &[]).code, Some(code), "{section}");
    }
    // The same project at another path is another project.
    let other = sealed.root().join("other");
    fs::create_dir_all(other.join(".ralph")).expect("a directory");
    let settings = json!({ "sandbox": { "rw": ["/data"] } }).to_string();
    fs::write(other.join(".ralph/settings.json"), settings).expect("written");
    let other = other.to_string_lossy().into_owned();
    sealed
        .run_ralph(&["run", "-C", &other, "-p", "x"])
        .expect_code(2)
        .expect_stderr("need your trust");
}

#[test]
fn trust_is_listed_and_revoked() {
    let sealed = project(&json!({ "sandbox": { "git": "agent", "env": ["A", "B_*"] } }));
    let list = |words: &[&str]| {
        let end = sealed.run_ralph(&[&["trust", "--list"], words].concat()).expect_code(0);
        shown(&sealed, &end.stdout)
    };
    assert_eq!(list(&[]), "No project is trusted.\n");
    sealed.run_ralph(&["trust", "--remove"]).expect_code(2).expect_stderr("is not trusted");
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0);
    expect![[r#"
        ROOT/project
          sandbox.env: ["A","B_*"]
          sandbox.git: "agent"
    "#]]
    .assert_eq(&list(&[]));
    let facts: Value = serde_json::from_str(&list(&["--json"])).expect("JSON");
    let project = &facts["projects"][0];
    assert_eq!(
        (&project["path"], &project["accepted"]["sandbox.git"], &project["exists"]),
        (&json!("ROOT/project"), &json!("agent"), &json!(true))
    );
    let parent = sealed.root().to_string_lossy().into_owned();
    sealed.run_ralph(&["trust", "-C", &parent, "--remove", "project"]).expect_code(0);
    assert_eq!(list(&[]), "No project is trusted.\n");
    run(&sealed, &[]).expect_code(2);
    // A deleted directory is still known by its path.
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0);
    let moved = sealed.root().join("moved");
    fs::rename(sealed.project_dir(), &moved).expect("moved");
    let gone = sealed.project_dir().to_string_lossy().into_owned();
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.current_dir(&moved).args(["trust", "--remove", &gone]);
    Running::start_command(command).wait_for_end().expect_code(0);
}

#[test]
fn nothing_is_recorded_without_loosened_settings() {
    let sealed = project(&json!({ "sandbox": { "git": "ro" } }));
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0).expect_stderr("need no trust");
    assert!(!sealed.state_dir().join("trust.json").exists());
    // Settings written by `init` loosen nothing and need no trust.
    let fresh = crate::repository();
    fresh.run_ralph(&["init", "--workflow", "prompt"]).expect_code(0);
    fresh.run_ralph(&["trust"]).expect_code(0).expect_stderr("need no trust");
    assert!(!fresh.state_dir().join("trust.json").exists());
}

#[test]
fn agents_cannot_trust_their_own_project() {
    let sealed = project(&json!({ "sandbox": { "git": "agent" } }));
    for name in ["RALPH_RUN_ID", "RALPH_ACTIVE"] {
        let end = with_variables(&sealed, &["trust", "--yes"], &[(name, "x")]).expect_code(2);
        assert!(end.stderr.contains(name), "{}", end.stderr);
    }
    assert!(!sealed.state_dir().join("trust.json").exists());
}

#[test]
fn damaged_trust_file_trusts_nothing_with_a_hint() {
    let sealed = project(&json!({ "sandbox": { "git": "agent" } }));
    fs::create_dir_all(sealed.state_dir()).expect("a directory");
    let file = sealed.state_dir().join("trust.json");
    for text in ["{", r#"{ "version": 99, "projects": [] }"#] {
        fs::write(&file, text).expect("written");
        for words in [&["run", "-p", "x"][..], &["trust", "--yes"], &["trust", "--list"]] {
            let end = sealed.run_ralph(words).expect_code(2);
            assert!(shown(&sealed, &end.stderr).contains("ROOT/state/ralph/trust.json"));
        }
        assert_eq!(fs::read_to_string(&file).expect("there"), text, "it is left alone");
    }
    // Settings that loosen nothing need no trust.
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
}

#[test]
fn doctor_shows_the_origin_of_settings() {
    let sealed = project(&json!({ "sandbox": { "git": "agent", "limits": { "pids": 9 } } }));
    let isolation = |code: i32| {
        let end = sealed.run_ralph(&["doctor"]).expect_code(code);
        let text = shown(&sealed, &end.stdout);
        let section = text.split_once("Isolation\n").expect("a section").1;
        assert!(section.contains("    landlock: "), "{section}");
        // The first lines depend on this machine.
        let settings = |line: &&str| !line.contains("settings of your own");
        section.split_inclusive('\n').skip_while(settings).collect::<String>()
    };
    expect![[r#"
        ● you have no settings of your own
            ROOT/home/.config/ralph/settings.json
        ✘ the project's settings need your trust
            .ralph/settings.json:13:12: `sandbox.git` asks for "agent"; your bound is `not set` (default)
            hint: `ralph trust` accepts them; without that no run starts here
        ✔ sandbox and guard have their default settings, except for these
            sandbox.git: "agent" (.ralph/settings.json:13:12)
            sandbox.limits.pids: 9 (.ralph/settings.json:15:15)

    "#]]
    .assert_eq(&isolation(2));
    user(&sealed, r#"{ "sandbox": { "network": { "mode": "none" } } }"#);
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0);
    expect![[r#"
        ✔ you have settings of your own
            ROOT/home/.config/ralph/settings.json
        ⚠ you trust this project with what its settings ask for
            .ralph/settings.json:13:12: `sandbox.git` asks for "agent"; your bound is `not set` (default)
        ✔ sandbox and guard have their default settings, except for these
            sandbox.git: "agent" (.ralph/settings.json:13:12)
            sandbox.network.mode: "none" (ROOT/home/.config/ralph/settings.json:1:37)
            sandbox.limits.pids: 9 (.ralph/settings.json:15:15)

    "#]]
    .assert_eq(&isolation(0));
    let all = sealed.run_ralph(&["doctor", "--verbose"]).expect_code(0).stdout;
    assert!(all.contains("sandbox.limits.output: \"2G\" (default)"), "{all}");
    let facts = sealed.run_ralph(&["doctor", "--json"]).expect_code(0).stdout;
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    let force = facts["isolation"].as_array().expect("a list");
    let mode = force.iter().find(|it| it["key"] == "sandbox.network.mode").expect("the key");
    assert_eq!(mode["value"], "none");
    let names: Vec<&str> = facts["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(names.contains(&"user-settings") && names.contains(&"trust"), "{names:?}");
}

#[test]
fn init_mentions_the_user_settings() {
    let sealed = crate::repository();
    user(&sealed, r#"{ "agent": { "command": "claude" } }"#);
    let end = sealed.run_ralph(&["init", "--workflow", "prompt"]).expect_code(0);
    let message = shown(&sealed, &end.stdout);
    assert!(
        message.contains("Your own settings apply here too: ROOT/home/.config/ralph/settings.json")
    );
    assert!(!message.contains("Name your agent"), "{message}");
}

#[test]
fn the_flag_names_the_backend() {
    let sealed = project(&json!({ "sandbox": { "backend": "native" } }));
    for (words, expect) in [
        (&[][..], "native"),
        (&["--sandbox"], "auto"),
        (&["--sandbox=landlock"], "landlock"),
        (&["--sandbox=guard"], "guard"),
        (&["--no-sandbox"], "none"),
    ] {
        let end = run(&sealed, &[&["--verbose", "--no-stream-agent-output"], words].concat());
        let line = format!("\"backend\": \"{expect}\"");
        assert!(end.stderr.contains(&line), "{words:?}: {}", end.stderr);
    }
}
