//! `ralph hook` through the built binary: with recorded inputs of a real session, and with
//! malformed ones.

mod explaining;
mod guarding;
mod monitor;
mod odd;
mod starting;
mod stopping;
mod tables;
mod wiring;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ralph_io::formats::TaskFile;
use ralph_model::glob::Pattern;
use ralph_model::hook_state::{Committer, HookState};
use ralph_model::ids::{IterationNumber, RunId, TaskId};
use ralph_model::list_snapshot::ListSnapshot;
use ralph_model::task::{ListOwner, TaskList};
use ralph_model::units::Timestamp;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

const RUN: &str = "20261114-231500-k3f9";
const SESSION: &str = "c28f6ce8-15f7-412d-bbe9-3da0bd9b52a6";

/// Returns a recorded input of a real session.
fn captured(name: &str) -> Value {
    let path = data(name);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hooks").join(name)
}

/// A session of an agent, started by ralph unless a test changes it.
struct Session {
    sealed: Sealed,
    active: HookState,
    env: Vec<(String, String)>,
    id: String,
}

impl Session {
    /// Returns a session of ralph that implements `US-1`, with a list that the agent owns.
    fn new() -> Self {
        Self::in_environment(crate::repository())
    }

    fn in_environment(sealed: Sealed) -> Self {
        let project = sealed.project_dir().canonicalize().expect("there");
        let active = HookState {
            max_iterations: Some(15),
            iteration: Some(IterationNumber(3)),
            iteration_mode: Some("implement".into()),
            task: Some(TaskId("US-1".into())),
            title: Some("The front page".into()),
            session: Some(SESSION.into()),
            tasks_file: Some(project.join("ralph/tasks.json")),
            project: Some(project),
            keeper: Some(ListOwner::Agent),
            commit: Some(Committer::Agent),
            review_cap: Some(5),
            protect: vec![Pattern::new("/ci/**").expect("a glob")],
            ..HookState::new(RunId(RUN.into()), std::process::id(), Timestamp(1))
        };
        let session = Self { sealed, active, env: Vec::new(), id: SESSION.into() };
        let env = vec![
            ("RALPH_ACTIVE".into(), session.file().display().to_string()),
            ("RALPH_RUN_ID".into(), RUN.into()),
        ];
        Self { env, ..session }
    }

    /// Returns the path of the run's hook state.
    fn file(&self) -> PathBuf {
        self.sealed.state_dir().join("project-1/active.json")
    }

    /// Writes the run's hook state.
    fn publish(&self) {
        let text = serde_json::to_string(&self.active).expect("serializable");
        self.publish_text(&text);
    }

    fn publish_text(&self, text: &str) {
        fs::create_dir_all(self.file().parent().expect("a parent")).expect("a directory");
        fs::write(self.file(), text).expect("written");
    }

    /// Sets or unsets a variable.
    fn with(mut self, name: &str, value: Option<&str>) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }

    /// Runs a hook on raw bytes and returns its stdout and stderr.
    #[track_caller]
    fn raw(&self, event: &str, input: &[u8]) -> (String, String) {
        let mut child = self
            .sealed
            .build_command(env!("CARGO_BIN_EXE_ralph"))
            .args(["hook", event])
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // A hook that needs no input may exit before it is written.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "a hook never fails");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// Runs a hook on an input of this session; null if it prints nothing.
    #[track_caller]
    fn hook(&self, event: &str, input: &Value) -> Value {
        let mut input = input.clone();
        input["session_id"] = self.id.as_str().into();
        input["cwd"] = self.sealed.project_dir().display().to_string().into();
        let (stdout, stderr) = self.raw(event, input.to_string().as_bytes());
        assert_eq!(stderr, "");
        if stdout.is_empty() {
            return Value::Null;
        }
        assert_eq!(stdout.lines().count(), 1, "one object on one line: {stdout}");
        serde_json::from_str(&stdout).expect("JSON")
    }

    /// Writes the task file as it is when the iteration begins, with its trusted snapshot.
    fn begin(&mut self, stories: &Value) {
        self.write_stories(stories);
        let path = self.sealed.project_dir().join("ralph/tasks.json");
        let (list, _) = TaskFile::read_despite_faults(&path);
        self.active.pre_iteration_snapshot = list.as_ref().map(ListSnapshot::from_list);
        self.active.list_settings = list.as_ref().map(TaskList::without_tasks);
        self.publish();
        self.commit();
    }

    fn write_stories(&self, stories: &Value) {
        let list = json!({
            "project": "site", "branchName": "ralph/site", "description": "A site",
            "userStories": stories,
        });
        self.sealed.write_file("ralph/tasks.json", &format!("{list:#}\n"));
    }

    fn commit(&self) {
        self.sealed.run_git(&["add", "-A"]);
        self.sealed.run_git(&["commit", "--quiet", "--allow-empty", "-m", "more"]);
    }
}

/// A story, not begun, with these fields changed.
fn story(id: &str, further: &Value) -> Value {
    let mut story = json!({
        "id": id, "title": "A page", "description": "As a visitor I see a page.",
        "acceptanceCriteria": ["It opens"], "priority": 1, "passes": false,
        "reviewStatus": null, "reviewCount": 0, "reviewFeedback": "", "notes": "noted",
    });
    for (key, value) in further.as_object().into_iter().flatten() {
        story[key] = value.clone();
    }
    story
}
