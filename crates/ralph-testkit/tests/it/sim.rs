//! The scripted agent as a process: what it does, how it ends, what it leaves behind.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ralph_agents as agents;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::ResultStatus;
use ralph_model::event::Purpose;
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::units::Millis;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tempfile::TempDir;

/// A loaded machine may take its time; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    directory: TempDir,
}

impl Stage {
    fn new(scenario: &serde_json::Value) -> Self {
        let stage = Self { directory: TempDir::new().expect("a temporary directory") };
        fs::write(stage.path("scenario.json"), scenario.to_string()).expect("it can be written");
        stage
    }

    #[expect(clippy::needless_pass_by_value, reason = "scripts are written in place")]
    fn of(actions: serde_json::Value) -> Self {
        Self::new(&json!({"calls": [{"do": actions}]}))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, role: &str, prompt: &str) -> Child {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-agent"))
            .arg("scenario.json")
            .current_dir(self.directory.path())
            .env("RALPH_ROLE", role)
            .env("RALPH_ITERATION", "1")
            .env("RALPH_RUN_ID", "test")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the fake agent starts");
        // Dropped at once, which closes it.
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        stdin.write_all(prompt.as_bytes()).expect("the agent reads its prompt");
        child
    }

    fn play(&self, role: &str, prompt: &str) -> Output {
        self.start(role, prompt).wait_with_output().expect("the fake agent ends")
    }
}

fn read(output: &Output) -> ReplyFold {
    read_as(AgentKind::Sim, output)
}

fn read_as(kind: AgentKind, output: &Output) -> ReplyFold {
    let request = AgentRequest {
        run: RunId("test".to_owned()),
        iteration: IterationNumber(1),
        ask: AskNumber(1),
        role: Role::Prompt,
        purpose: Purpose::Work,
        agent: AgentChoice::new(kind, "scenario.json"),
        prompt: String::new(),
        soft_limit: Millis::ZERO,
        hard_limit: Millis::ZERO,
        idle_limit: Millis::ZERO,
        cost_left: None,
        task: None,
        session: None,
        schema: None,
    };
    let mut translator = agents::create_translator(&request, Path::new("/project"));
    let mut reading = ReplyFold::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        for event in translator.parse_line(line).events {
            reading.apply_event(&event);
        }
    }
    reading
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid_in(path: &Path) -> Pid {
    let text = fs::read_to_string(path).expect("the process id is there");
    let raw = text.trim().parse().expect("it is a number");
    Pid::from_raw(raw).filter(|pid| pid.as_raw_pid() > 1).expect("it is a process")
}

/// Returns a block of the documentation by the line before it.
fn documented(lead: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sim.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let block = page.split(lead).nth(1).expect("it has such a block");
    block.split("```").next().expect("a split has a first part").to_owned()
}

#[test]
fn the_example_in_the_documentation_plays() {
    let example = documented("<!-- example -->\n```json\n");
    let stage = Stage::new(&serde_json::from_str(&example).expect("the example is JSON"));

    let first = stage.play("build", "Write a greeting.");
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert_eq!(read(&first).text(), "<response>DONE</response>");
    assert_eq!(fs::read_to_string(stage.path("greeting.txt")).expect("it is written"), "Hello\n");

    let second = read(&stage.play("build", "Guardrail \"grep hello\" failed."));
    assert_eq!(second.usage().input.0, 1_200);
    assert_eq!(fs::read_to_string(stage.path("greeting.txt")).expect("it is kept"), "hello\n");

    let review = read(&stage.play("review", ""));
    assert_eq!(review.structured(), Some(&json!({"verdict": "approved", "criteria": []})));

    let unknown = stage.play("build", "Something else.");
    assert_eq!(unknown.status.code(), Some(64), "{unknown:?}");
    assert!(!stage.path("scenario.json.state").exists(), "nothing is counted here");
}

#[test]
fn the_script_in_the_documentation_joins_argument_and_stdin() {
    let fake_agent = env!("CARGO_BIN_EXE_fake-agent");
    let script = documented("<!-- script -->\n```sh\n").replace("ralph __sim", fake_agent);
    for (args, stdin) in [
        (vec!["--json", "Say it. Now."], ""),
        (vec!["--json", "-m", "a", "Do what the following text asks."], "Say it."),
    ] {
        let claim = json!([{"claim": "DONE"}]);
        let stage = Stage::new(&json!({"dialect": "cline", "calls": [
            {"when": {"promptContains": "Say it."}, "do": claim},
        ]}));
        fs::write(stage.path("cline"), &script).expect("it can be written");
        fs::write(stage.path("stdin"), stdin).expect("it can be written");
        let output = Command::new("sh")
            .arg("cline")
            .args(&args)
            .current_dir(stage.directory.path())
            .stdin(fs::File::open(stage.path("stdin")).expect("it is there"))
            .output()
            .expect("a shell starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let reading = read_as(AgentKind::Cline, &output);
        assert_eq!(reading.text(), "<response>DONE</response>", "{args:?}");
    }
}

#[test]
fn what_a_dialect_has_no_line_for_is_on_stderr() {
    let error = |class: &str| json!({"result": {"error": {"class": class, "words": "no luck"}}});
    let patch = json!({"tool": {"name": "Edit", "output": "no luck", "outcome": "error"}});
    for (kind, dialect, action, code, is_said) in [
        (AgentKind::Amp, "amp", error("malformed"), 0, true),
        (AgentKind::Amp, "amp", error("overloaded"), 1, false),
        (AgentKind::Amp, "amp", json!({"notice": "no luck"}), 0, true),
        (AgentKind::Cline, "cline", error("malformed"), 0, true),
        // It is printed twice.
        (AgentKind::Cline, "cline", error("overloaded"), 1, true),
        (AgentKind::Cline, "cline", json!({"notice": "no luck"}), 0, false),
        (AgentKind::Codex, "codex", error("malformed"), 0, true),
        (AgentKind::Codex, "codex", error("overloaded"), 1, false),
        (AgentKind::Codex, "codex", patch, 0, true),
    ] {
        let actions = json!([{"claim": "DONE"}, action]);
        let stage = Stage::new(&json!({"dialect": dialect, "calls": [{"do": actions}]}));
        let output = stage.play("build", "Say <response>DONE</response>.");
        assert_eq!(output.status.code(), Some(code), "{dialect} {action}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr.contains("no luck"), is_said, "{dialect} {action}: {stderr}");
        let result = read_as(kind, &output).result().cloned();
        let is_success = result == Some(ResultStatus::Success);
        assert_eq!(is_success, action.get("result").is_none(), "{dialect} {action}: {result:?}");
    }
}

#[test]
fn mistakes_are_reported_with_their_position() {
    #[track_caller]
    fn check(scenario: &str, status: i32, words: &str) {
        let stage = Stage::new(&json!({}));
        fs::write(stage.path("scenario.json"), scenario).expect("it can be written");
        let output = stage.play("build", "");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
    check("{\n \"calls\": [{\n  \"dp\": []}]}", 65, "unknown field `dp`");
    check("{\n \"calls\": [{\n  \"dp\": []}]}", 65, "line 3");
    check(r#"{"calls": [{"do": [{"wrote": {}}]}]}"#, 65, "unknown variant `wrote`");
    check(r#"{"calls": [{"do": [{"write": {"path": "a", "txt": ""}}]}]}"#, 65, "`txt`");
    check(r#"{"version": 2, "calls": []}"#, 65, "version 2");
    check(r#"{"calls": []}"#, 64, "role build, iteration 1");
    let edit =
        r#"{"calls": [{"do": ["noResult", {"edit": {"path": "a", "find": "", "replace": ""}}]}]}"#;
    check(edit, 65, "step 2: `a`");
    check(r#"{"calls": [{"do": [{"waitFor": {"path": "never", "seconds": 0}}]}]}"#, 65, "`never`");
}

#[test]
fn calls_are_counted() {
    let stage = Stage::new(&json!({"stateFile": "count.json", "calls": [
        {"when": {"call": 2}, "do": [{"text": "second"}]},
        {"repeat": 2, "do": [{"text": "one of two"}]},
        {"do": [{"text": "the rest"}]},
    ]}));
    let texts: Vec<String> = (0..4).map(|_| read(&stage.play("build", "")).text()).collect();
    assert_eq!(texts, ["one of two", "second", "one of two", "the rest"]);
    assert!(stage.path("count.json").exists());
}

#[test]
fn files_are_changed_as_scripted() {
    let stage = Stage::of(json!([
        {"write": {"path": "a/b.txt", "text": "one\n"}},
        {"append": {"path": "a/b.txt", "text": "two\n"}},
        {"edit": {"path": "a/b.txt", "find": "one", "replace": "1"}},
        {"symlink": {"path": "link", "to": "a/b.txt"}},
        {"mkdir": {"path": "c/d"}},
        {"delete": {"path": "c"}},
        {"touch": "mark"},
        {"run": {"command": "printf $WORD > ran; sleep 2 &", "env": {"WORD": "x"}}},
        {"run": {"command": "echo out; exit 3", "show": "tool"}},
        {"text": "done"},
    ]));
    let reading = read(&stage.play("build", ""));
    assert_eq!(reading.result(), Some(&ResultStatus::Success));
    assert_eq!(fs::read_to_string(stage.path("link")).expect("a link"), "1\ntwo\n");
    assert_eq!(fs::read_to_string(stage.path("ran")).expect("it ran"), "x");
    assert!(!stage.path("c").exists() && stage.path("mark").exists());
}

#[test]
fn it_ends_as_scripted() {
    let end = |actions| Stage::of(actions).play("build", "").status;
    assert_eq!(end(json!([{"exit": 7}])).code(), Some(7));
    assert_eq!(end(json!([{"die": "KILL"}])).signal(), Some(9));
    assert_eq!(end(json!([{"die": "SEGV"}])).signal(), Some(11));
    assert_eq!(end(json!([{"die": "TERM"}])).signal(), Some(15));
    assert_eq!(end(json!(["ignoreTerm", {"die": "TERM"}])).code(), Some(65));
    let error = json!([{"result": {"error": {"class": "overloaded", "words": "x"}}}]);
    assert_eq!(end(error).code(), Some(1));
}

#[test]
fn it_survives_term_if_scripted() {
    let stage = Stage::of(json!(["ignoreTerm", {"touch": "ready"}, {"waitFor": {"path": "go"}}]));
    let child = stage.start("build", "");
    wait_until("the mark", || stage.path("ready").exists());
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).expect("it is alive");
    kill_process(pid, Signal::INT).expect("it is alive");
    fs::write(stage.path("go"), "").expect("it can be written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn it_hangs_until_it_is_ended() {
    let stage = Stage::of(json!([{"text": "x"}, {"touch": "ready"}, "hang"]));
    let mut child = stage.start("build", "");
    wait_until("the mark", || stage.path("ready").exists());
    assert!(child.try_wait().expect("its state is known").is_none());
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is alive");
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
}

#[test]
fn chatter_ends_with_its_reader() {
    let stage = Stage::of(json!([{"chatter": {"seconds": 0.001}}]));
    let mut child = stage.start("build", "");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
    for _ in 0..5 {
        let line = lines.next().expect("there is always more").expect("it is text");
        assert!(line.contains("\"type\""), "{line}");
    }
    drop(lines);
    assert_eq!(child.wait().expect("it ends").code(), Some(74));
}

#[test]
fn a_flood_comes_through_whole() {
    let stage = Stage::of(json!([
        {"flood": {"bytes": 3_000_000, "shape": "line"}},
        {"flood": {"bytes": 1_000_000}},
        {"claim": "DONE"},
    ]));
    let output = stage.play("build", "");
    assert!(output.stdout.len() > 4_000_000, "{}", output.stdout.len());
    assert_eq!(read(&output).text(), "<response>DONE</response>");
}

/// Reads the session a process is in: 0 if its leader is outside this pid namespace, which is
/// common in containers and which `getsid` has no value for.
fn session_in(stat: &str) -> i32 {
    let stat = fs::read_to_string(stat).expect("it is alive");
    let (_, fields) = stat.rsplit_once(')').expect("the name ends");
    fields.split_whitespace().nth(3).and_then(|field| field.parse().ok()).expect("a number")
}

#[test]
fn grandchildren_outlive_it() {
    for kind in ["plain", "ownSession", "detached"] {
        let stage = Stage::of(json!([
            {"grandchild": {"kind": kind, "pidFile": "pid", "seconds": 20}},
            {"text": "done"},
        ]));
        let output = stage.play("build", "");
        assert_eq!(output.status.code(), Some(0), "{kind}: {output:?}");
        let pid = pid_in(&stage.path("pid"));
        test_kill_process(pid).unwrap_or_else(|error| panic!("{kind}: {error}"));
        // While a shell becomes what it runs, its environment is read as empty.
        let name = format!("/proc/{}/comm", pid.as_raw_pid());
        wait_until("it sleeps", || fs::read_to_string(&name).is_ok_and(|it| it == "sleep\n"));
        let session = session_in(&format!("/proc/{}/stat", pid.as_raw_pid()));
        let own = session_in("/proc/self/stat");
        assert_eq!(session == own, kind == "plain", "{kind}");
        if let Ok(environ) = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())) {
            let environ = String::from_utf8_lossy(&environ);
            assert_eq!(environ.contains("RALPH_RUN_ID=test"), kind != "detached", "{kind}");
        }
        kill_process(pid, Signal::KILL).expect("it is alive");
    }
}

#[test]
fn a_grandchild_can_hold_the_pipe() {
    let stage = Stage::of(json!([
        {"grandchild": {"kind": "holdStdout", "pidFile": "pid", "seconds": 20}},
        {"text": "done"},
    ]));
    let mut child = stage.start("build", "");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let pid = pid_in(&stage.path("pid"));
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
    // The agent is gone, and yet the pipe is at its end only once the grandchild is gone too.
    while let Some(Ok(line)) = lines.next() {
        if line.contains("\"type\":\"result\"") {
            kill_process(pid, Signal::KILL).expect("it is alive");
        }
    }
}
