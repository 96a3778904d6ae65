//! A stage for one scene: a sealed environment with one real CLI on the `PATH`, and a scripted
//! model behind it.
//!
//! Not here: what happens on it.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ralph_testkit::models::{ModelServer, ModelTurn, SchemaTreatment};
use ralph_testkit::sealed::{Finished, Running, Sealed, merge_into};
use serde_json::{Value, json};

use crate::cli::Cli;

/// Names the directory with the programs of the CLIs.
const AGENTS: &str = "RALPH_TEST_AGENTS";

/// What says that the work is done.
pub(crate) const DONE: &str = "All is well. <response>DONE</response>";

/// A stage.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The environment.
    pub(crate) sealed: Sealed,
    /// The model.
    pub(crate) model: ModelServer,
}

impl Stage {
    /// Returns the stage for a CLI whose model plays these turns, with further settings; none
    /// where the CLIs are not installed and that may be.
    pub(crate) fn new(
        cli: Cli,
        turns: impl FnOnce(&Path) -> Vec<ModelTurn>,
        further: &Value,
    ) -> Option<Self> {
        Self::with_schemas(cli, SchemaTreatment::AsReal, turns, further)
    }

    /// Returns the same stage with a model that treats schemas in its own way.
    pub(crate) fn with_schemas(
        cli: Cli,
        schemas: SchemaTreatment,
        turns: impl FnOnce(&Path) -> Vec<ModelTurn>,
        further: &Value,
    ) -> Option<Self> {
        let agents = agents(cli)?;
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        link(&sealed, &agents.join(cli.name()), cli.name());
        link(&sealed, &find("node"), "node");
        let model = ModelServer::start_with(cli.dialect(), schemas, turns(&sealed.project_dir()));
        let agent = cli.set_up(&sealed.root().join("home"), &model.url());
        let mut settings = json!({
            "agent": agent,
            "retries": { "backoff": "50ms" },
            "preventSleep": false,
            "maximumIterations": 2,
        });
        merge_into(&mut settings, further);
        sealed.write_file(".ralph/settings.json", &format!("{settings:#}"));
        sealed.trust_project(&[]);
        Some(Self { sealed, model })
    }

    /// Returns the variables that the settings give the CLI, for a test that starts it itself.
    pub(crate) fn agent_env(&self) -> Vec<(String, String)> {
        let settings = self.sealed.read_file(".ralph/settings.json");
        let settings: Value = serde_json::from_str(&settings).expect("JSON");
        let env = settings["agent"]["env"].as_object().cloned().unwrap_or_default();
        env.into_iter()
            .map(|(name, value)| (name, value.as_str().unwrap_or("").to_owned()))
            .collect()
    }

    /// Runs the loop to its end. The prompt says the tag, too.
    pub(crate) fn run(&self) -> Finished {
        self.start().wait_for_end()
    }

    /// Starts the loop.
    pub(crate) fn start(&self) -> Running {
        self.sealed.start_ralph(&["run", "-p", "Do the work. Then say <response>DONE</response>."])
    }

    /// Runs the loop to its end in the native sandbox, with these variables in ralph's environment.
    pub(crate) fn run_isolated_with(&self, variables: &[(&str, &str)]) -> Finished {
        let mut command = self.sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command
            .args(["run", "-p", "Do the work. Then say <response>DONE</response>."])
            .env("RALPH_SANDBOX_BACKEND", "native")
            // The CLI is installed where no sandbox looks for programs.
            .env("RALPH_SANDBOX_RW", self.installed_in())
            .envs(variables.iter().copied());
        Running::start_command(command).wait_for_end()
    }

    /// Returns the directories that the CLI and Node are installed in.
    pub(crate) fn installed_in(&self) -> String {
        let entries = fs::read_dir(self.sealed.bin_dir()).expect("readable").flatten();
        let mut programs = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
        let installation = programs
            .find_map(|it| {
                it.ancestors().find(|it| it.join("package-lock.json").exists()).map(Path::to_owned)
            })
            .expect("an installation");
        let node = find("node").canonicalize().expect("a program");
        let node = node.ancestors().nth(2).expect("a directory").to_owned();
        [installation, node].map(|path| path.display().to_string()).join(",")
    }

    /// Returns the port of the model.
    pub(crate) fn port(&self) -> String {
        self.model.url().rsplit(':').next().expect("a port").to_owned()
    }

    /// Asserts that the model was sent a text in one of its turns.
    #[track_caller]
    pub(crate) fn expect_sent(&self, text: &str) {
        let is_sent =
            self.model.turn_requests().iter().any(|asked| asked.body.to_string().contains(text));
        assert!(is_sent, "the model was not sent {text:?}: {}", self.account());
    }

    /// Asserts how often each of these happened in the last run.
    #[track_caller]
    pub(crate) fn expect_events(&self, counts: &[(&str, usize)]) {
        for &(kind, count) in counts {
            assert_eq!(self.sealed.find_events(kind).len(), count, "{kind}: {}", self.account());
        }
    }

    /// Asserts that nothing of this environment is left running: nothing that names its
    /// directory, and nothing that carries the id of one of its runs.
    #[track_caller]
    pub(crate) fn expect_silence(&self) {
        assert_eq!(self.sealed.survivors(), [""; 0]);
        for run in self.sealed.runs() {
            let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mark = format!("RALPH_RUN_ID={id}");
            let marked = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|process| {
                let environment = fs::read(process.path().join("environ")).unwrap_or_default();
                environment.split(|&byte| byte == 0).any(|pair| pair == mark.as_bytes())
            });
            let marked: Vec<PathBuf> = marked.map(|process| process.path()).collect();
            assert!(marked.is_empty(), "{marked:?}");
        }
    }

    /// Returns what happened, for the message of a test that failed.
    pub(crate) fn account(&self) -> String {
        let events: Vec<String> =
            self.sealed.events().iter().map(|event| format!("  {event}")).collect();
        let asked: Vec<String> = self
            .model
            .requests()
            .iter()
            .map(|asked| format!("  {:?} {} {}", asked.turn, asked.path, last_message(&asked.body)))
            .collect();
        let raw = self.sealed.run_ralph(&["log", "--raw"]).stdout;
        format!(
            "events:\n{}\nrequests:\n{}\nwhat the agent wrote:\n{raw}",
            events.join("\n"),
            asked.join("\n")
        )
    }
}

/// Returns the beginning of the last message of a request, whatever its dialect.
fn last_message(body: &Value) -> String {
    let message = ["messages", "input", "contents"]
        .iter()
        .find_map(|key| body[key].as_array()?.last())
        .unwrap_or(&Value::Null);
    message.to_string().chars().take(400).collect()
}

/// Returns the directory of the CLIs.
fn agents(cli: Cli) -> Option<PathBuf> {
    installed(AGENTS, &format!("`{}`", cli.name()), "scripts/install-agents")
}

/// Returns the place that a variable names, where a script has installed something. In CI nothing
/// may be left out.
pub(crate) fn installed(variable: &str, what: &str, script: &str) -> Option<PathBuf> {
    if let Some(place) = env::var_os(variable).filter(|place| !place.is_empty()) {
        return Some(place.into());
    }
    assert!(env::var_os("CI").is_none(), "{variable} is not set; run {script}");
    // Not by a macro: the test harness keeps to itself what a passing test prints.
    let _ = writeln!(
        std::io::stderr(),
        "LEFT OUT: a test with the real {what}; {variable} is not set (see {script})"
    );
    None
}

fn link(sealed: &Sealed, program: &Path, name: &str) {
    assert!(program.exists(), "there is no {}", program.display());
    symlink(program, sealed.bin_dir().join(name)).expect("a link");
}

/// Returns a program of this machine.
pub(crate) fn find(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|program| program.exists())
        .unwrap_or_else(|| panic!("{program} is not on the PATH"))
}
