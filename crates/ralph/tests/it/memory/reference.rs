//! The same calls to our server and to the npm package that it replaces; and the documentation
//! server, which is an npm package. `answers.jsonl` holds the package's answers to `calls.jsonl`,
//! and is compared with ours in every run. If `scripts/install-memory-reference` has installed the
//! package, its answers are compared with the recorded ones, too (`UPDATE_EXPECT=1` records them
//! again), and both servers use each other's file.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use expect_test::expect_file;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::{Client, FILE, serve};
use crate::sealed;

/// Names the program of the package.
const REFERENCE: &str = "RALPH_TEST_MEMORY_REFERENCE";

/// Returns Node and the program of the package; `None` if it is not installed, which CI does not
/// allow.
fn installed() -> Option<(PathBuf, PathBuf)> {
    let Some(program) = env::var_os(REFERENCE).map(PathBuf::from) else {
        assert!(env::var_os("CI").is_none(), "in CI, {REFERENCE} must be set");
        // Not with a macro: the test harness captures the output of passing tests.
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: a test with the npm memory server; {REFERENCE} is not set (see \
             scripts/install-memory-reference)"
        );
        return None;
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let node = env::split_paths(&path).map(|it| it.join("node")).find(|it| it.is_file());
    Some((node.expect("node is on the PATH"), program))
}

/// Starts the package on a project's file.
fn serve_reference(sealed: &Sealed) -> Option<Client> {
    let (node, program) = installed()?;
    let file = sealed.project_dir().join(FILE);
    fs::create_dir_all(file.parent().expect("it has one")).expect("made");
    let mut command = sealed.build_command(node);
    command.arg(program).env("MEMORY_FILE_PATH", file);
    Some(Client::start(command, Stdio::null()))
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/memory").join(name)
}

fn recorded(name: &str) -> String {
    fs::read_to_string(place(name)).expect("readable")
}

/// Returns the answers to all recorded calls, one a line, and the file after them.
fn play(client: &mut Client, sealed: &Sealed) -> String {
    let mut answers = String::new();
    for call in recorded("calls.jsonl").lines() {
        let call: Value = serde_json::from_str(call).expect("JSON");
        let answer = client.ask("tools/call", call);
        answers.push_str(&format!("{}\n", answer["result"]));
    }
    answers + "file:\n" + sealed.read_file(FILE).trim_end() + "\n"
}

/// Returns the tools as a comparable list: descriptions for models may differ.
fn tools(client: &mut Client) -> String {
    let mut tools = client.ask("tools/list", json!({}))["result"]["tools"].take();
    for tool in tools.as_array_mut().into_iter().flatten() {
        remove(tool, "description");
        // The package declares that it does not run calls as tasks, which is also the default.
        remove(tool, "execution");
    }
    format!("{tools:#}\n")
}

fn remove(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.shift_remove(key);
        object.values_mut().for_each(|value| remove(value, key));
    }
    value.as_array_mut().into_iter().flatten().for_each(|value| remove(value, key));
}

#[test]
fn every_call_is_answered_as_the_package_does() {
    let sealed = sealed();
    let mut client = serve(&sealed);
    let (calls, answers) = (recorded("calls.jsonl"), recorded("answers.jsonl"));
    let played = play(&mut client, &sealed);
    for (at, (ours, theirs)) in played.lines().zip(answers.lines()).enumerate() {
        let parse = |line| serde_json::from_str::<Value>(line).ok();
        let call = calls.lines().nth(at).unwrap_or("the file");
        assert_eq!(
            (parse(ours), ours.len()),
            (parse(theirs), theirs.len()),
            "{call}\n{ours}\n{theirs}"
        );
    }
    assert_eq!(played.lines().count(), answers.lines().count());
    let ours: Value = serde_json::from_str(&tools(&mut client)).expect("JSON");
    let theirs: Value = serde_json::from_str(&recorded("tools.json")).expect("JSON");
    assert_eq!(ours, theirs);
}

#[test]
fn the_package_answers_as_recorded() {
    let sealed = sealed();
    let Some(mut client) = serve_reference(&sealed) else { return };
    expect_file!["../../data/memory/answers.jsonl"].assert_eq(&play(&mut client, &sealed));
    expect_file!["../../data/memory/tools.json"].assert_eq(&tools(&mut client));
}

#[test]
fn each_server_reads_the_others_file() {
    let sealed = sealed();
    let Some(mut theirs) = serve_reference(&sealed) else { return };
    let mut ours = serve(&sealed);
    for round in 0..3 {
        ours.create(&format!("ours {round}"));
        theirs.create(&format!("theirs {round}"));
        assert_eq!(ours.names(), theirs.names());
    }
    assert_eq!(ours.names().len(), 6);
    // A line that crashes the package is repaired by the next change of ours.
    let text = sealed.read_file(FILE);
    sealed.write_file(FILE, &format!("{text}\n{{\"type\":\"enti"));
    assert_eq!(theirs.call("read_graph", json!({}))["isError"], true);
    ours.create("repaired");
    assert_eq!(theirs.names(), ours.names());
}

#[test]
fn official_mcp_client_accepts_the_server() {
    let sealed = sealed();
    let Some((node, program)) = installed() else { return };
    let mut command = sealed.build_command(node);
    command.arg(place("client.mjs")).arg(program).arg(env!("CARGO_BIN_EXE_ralph"));
    command.args(["mcp", "memory"]);
    let output = command.output().expect("it starts");
    let message = String::from_utf8_lossy(&output.stderr);
    let seen: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{message}"));
    let ada = json!({
        "entities": [{ "name": "Ada", "entityType": "person", "observations": ["paints"] }],
        "relations": [{ "from": "Ada", "to": "Bob", "relationType": "knows" }],
    });
    assert_eq!(
        seen,
        json!({
            "tools": 9,
            "found": ada,
            "opened": ada,
            "refused": true,
            "left": { "entities": [], "relations": [] },
            "resources": 1,
        })
    );
}

#[test]
fn documentation_server_starts_without_a_network() {
    let sealed = sealed();
    let Some((_, program)) = installed() else { return };
    let place = program.ancestors().find(|place| place.join("package-lock.json").exists());
    // From its installation, npx uses the local package and contacts no registry.
    let mut command = sealed.build_command("npx");
    command.args(["-y", "@upstash/context7-mcp"]).current_dir(place.expect("a place"));
    command.env("npm_config_offline", "true").env("HTTPS_PROXY", "http://127.0.0.1:9");
    let mut client = Client::start(command, Stdio::null());
    let tools = client.ask("tools/list", json!({}))["result"]["tools"].take();
    let names = tools.as_array().into_iter().flatten().map(|tool| tool["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), [Some("resolve-library-id"), Some("query-docs")]);
    client.kill();
}
