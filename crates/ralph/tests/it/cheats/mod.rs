//! Cheats that an agent may try, each tried for real: one table, with the result of each. Every
//! row is run without a sandbox and in each kind of it, and its result is read from what everybody can
//! see: exit codes, the journal, the history, the files. `docs/cheats.md` is the same table for users, and
//! is compared with this one. Not here: ways out of the sandbox (`sandbox::escapes`), and what
//! hooks refuse while an agent works (`hook::guarding`).

mod autorun;
mod checks;
mod claims;
mod data;
mod defining;
mod history;
mod page;
mod parallel;
mod processes;
mod streams;

use std::sync::OnceLock;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::repository;
use crate::sandbox::{backends, image};

/// A cheat, with its name in the documentation.
struct Cheat {
    name: &'static str,
    scene: Scene,
}

/// How a cheat is tried.
enum Scene {
    /// By an action of an agent whose task is to create `a.txt`.
    Row(Row),
    /// By its own function.
    Own(fn(&Stage)),
    /// By a test elsewhere: its file, and its name.
    Elsewhere(&'static str, &'static str),
}

/// An action, and how its run ends.
struct Row {
    work: Work,
    /// What the agent runs in its first iteration.
    action: &'static str,
    /// What it runs afterwards.
    then: &'static str,
    bare: End,
    walled: End,
}

/// What the agent is asked to do.
enum Work {
    /// A task of a list, with a gate and further settings.
    Task { gate: &'static str, settings: &'static str },
    /// A prompt, with a gate and further settings.
    Prompt { gate: &'static str, settings: &'static str },
}

/// How a run ends.
#[derive(Clone, Copy)]
struct End {
    code: i32,
    /// Text in the output.
    output: &'static [&'static str],
    /// The gates that failed, in order.
    failed: &'static [&'static str],
    /// How many commits the run made.
    commits: usize,
}

/// A run in which the action had no effect, and the work was done at once.
const HELD: End = End { code: 0, output: &[], failed: &[], commits: 1 };

/// The same for a prompt, which commits nothing.
const HELD_PROMPT: End = End { commits: 0, ..HELD };

/// The rows that are tried in real containers as well: one of each kind of wall that a container has
/// to build. Each call of git is a container of its own, so all rows would take an hour.
const IN_CONTAINERS: [&str; 7] = [
    "weakens the script of a gate",
    "removes or weakens protected tests",
    "commits by itself",
    "replaces or removes ralph's own refs",
    "hides the history with `.git/shallow`",
    "adds a git hook",
    "makes git run a program by its configuration",
];

/// What agents do after feedback: the work, and reverting their own changes. In a sandbox most of
/// that cannot be written, and need not be.
const HONEST: &str = "{ rm -f check.sh; printf '#!/bin/sh\\ntest -f a.txt\\n' > check.sh; \
    chmod +x check.sh; mkdir -p tests; echo 'expects much' > tests/one.txt; \
    git show HEAD:.ralph/settings.json > .ralph/settings.json; } 2>/dev/null; echo x > a.txt";

const fn row(
    name: &'static str,
    work: Work,
    action: &'static str,
    bare: End,
    walled: End,
) -> Cheat {
    Cheat { name, scene: Scene::Row(Row { work, action, then: HONEST, bare, walled }) }
}

const fn task(gate: &'static str) -> Work {
    Work::Task { gate, settings: "{}" }
}

/// A project in which a cheat is tried.
struct Stage {
    name: &'static str,
    backend: &'static str,
    sealed: Sealed,
}

impl Stage {
    fn new(name: &'static str, backend: &'static str) -> Self {
        let sealed = repository();
        std::fs::create_dir(sealed.root().join("outside")).expect("a directory");
        sealed.write_file("check.sh", "#!/bin/sh\ntest -f a.txt\n");
        sealed.write_file("tests/one.txt", "expects much\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(sealed.project_dir().join("check.sh"), mode).expect("a mode");
        if backend == "container" {
            // The real podman must be found although docker may be installed.
            sealed.write_program("docker", "#!/bin/sh\nexit 1\n");
        }
        Self { name, backend, sealed }
    }

    /// Returns whether there is a sandbox that makes files of the project read-only.
    fn is_walled(&self) -> bool {
        !matches!(self.backend, "none" | "landlock")
    }

    /// Returns whether there is a sandbox.
    fn is_sandboxed(&self) -> bool {
        self.backend != "none"
    }

    /// Starts ralph with the backend.
    fn start(&self, words: &[&str]) -> Running {
        let mut command = self.sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).env("RALPH_SANDBOX_BACKEND", self.backend);
        if self.backend == "container" {
            command.env("RALPH_SANDBOX_IMAGE", image().expect("an image"));
        }
        Running::start_command(command)
    }

    fn ralph(&self, words: &[&str]) -> Finished {
        self.start(words).wait_for_end()
    }

    /// Makes a list with one task.
    fn list(&self) {
        let task = json!({
            "id": "a", "title": "The a", "description": "Make a.txt.", "status": "pending",
            "acceptance_criteria": ["it is there"]
        });
        let list = json!({ "project": "p", "tasks": [task] });
        self.sealed.write_file("plan.json", &format!("{list:#}\n"));
    }

    /// Writes the agent and the settings, and commits everything.
    fn script(&self, calls: &Value, settings: Value) {
        self.sealed.write_script(calls, &settings);
        self.sealed.commit_all("Settings");
    }

    /// Returns a command with the paths of this environment filled in.
    fn here(&self, command: &str) -> String {
        let outside = self.sealed.root().join("outside");
        command
            .replace("@RALPH", env!("CARGO_BIN_EXE_ralph"))
            .replace("@OUTSIDE", &outside.display().to_string())
    }

    /// Returns the output as one line.
    fn joined_stderr(end: &Finished) -> String {
        end.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// What was refused and the gates that failed, in the order of the judgements.
    fn failed(&self) -> Vec<String> {
        let judged = self.sealed.find_events("judged");
        let names = judged.iter().filter_map(|it| it["judgement"]["verdict"]["gates"].as_array());
        names.flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    #[track_caller]
    fn check(&self, end: &Finished, expect: &End) {
        let about = format!("{} ({})", self.name, self.backend);
        assert_eq!(end.code, Some(expect.code), "{about}:\n{}\n{}", end.stdout, end.stderr);
        assert_eq!(self.failed(), expect.failed, "{about}: {}", end.stderr);
        let output = Self::joined_stderr(end);
        for words in expect.output {
            assert!(output.contains(words), "{about}: no {words:?} in {}", end.stderr);
        }
        assert_eq!(self.made().len(), expect.commits, "{about}: {}", end.stderr);
        self.is_intact();
    }

    /// The subjects of what runs committed, newest first.
    fn made(&self) -> Vec<String> {
        let mut subjects = self.sealed.subjects();
        subjects.truncate(subjects.len().saturating_sub(2));
        subjects
    }

    /// Asserts what holds for every agent: the existing history is unchanged, no other file was
    /// touched, no process is left, and the run can be reported.
    #[track_caller]
    fn is_intact(&self) {
        let about = format!("{} ({})", self.name, self.backend);
        let subjects = self.sealed.subjects();
        assert_eq!(subjects[subjects.len() - 2..], ["Settings", "Begin"], "{about}");
        assert_eq!(self.sealed.run_git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n", "{about}");
        let outside = std::fs::read_dir(self.sealed.root().join("outside")).expect("there");
        assert_eq!(outside.count(), 0, "{about}: something was done elsewhere");
        assert_eq!(self.sealed.survivors(), [""; 0], "{about}");
        assert_eq!(self.sealed.find_events("run_ended").len(), 1, "{about}");
        self.ralph(&["report"]).expect_code(0);
    }
}

/// The backends in which a row is tried: none, each of the kernel's that works here, and containers. In a quick
/// check half of the rows without a sandbox, and a sixth of them, others, in ralph's own.
fn choose_backends(name: &str, position: usize) -> Vec<&'static str> {
    static WORKING: OnceLock<Vec<&'static str>> = OnceLock::new();
    let working = WORKING.get_or_init(backends).iter().copied();
    let mut chosen: Vec<&'static str> = std::iter::once("none").chain(working).collect();
    if effort::is_quick() {
        chosen.retain(|backend| match *backend {
            "none" => position.is_multiple_of(2),
            _ => position % 6 == 1,
        });
    } else if IN_CONTAINERS.contains(&name) && image().is_some() {
        chosen.push("container");
    }
    chosen
}

/// Tries every cheat of a table.
fn try_all(cheats: &'static [Cheat]) {
    let is_here = |cheat: &&Cheat| !matches!(cheat.scene, Scene::Elsewhere(..));
    for (position, Cheat { name, scene }) in cheats.iter().filter(is_here).enumerate() {
        for backend in choose_backends(name, position) {
            let stage = Stage::new(name, backend);
            match scene {
                Scene::Row(row) => try_row(&stage, row),
                Scene::Own(scene) => scene(&stage),
                Scene::Elsewhere(..) => {}
            }
        }
    }
}

fn try_row(stage: &Stage, row: &Row) {
    let (gate, settings) = match row.work {
        Work::Task { gate, settings } | Work::Prompt { gate, settings } => (gate, settings),
    };
    let mut all = json!({ "review": { "enabled": false }, "baseline": "off" });
    if !gate.is_empty() {
        all["guardrails"] = json!([{ "command": gate }]);
    }
    let further: Value = serde_json::from_str(settings).expect("settings");
    if let (Some(all), Value::Object(further)) = (all.as_object_mut(), further) {
        all.extend(further);
    }
    let action = |command: &str, end: Value| json!([{ "run": { "command": format!("{}\ntrue", stage.here(command)) } }, end]);
    let (words, last): (&[&str], Value) = match row.work {
        Work::Task { .. } => {
            stage.list();
            (&["build"], handoff())
        }
        Work::Prompt { .. } => {
            (&["run", "-p", "Make a.txt.", "-m", "2"], json!({ "claim": "DONE" }))
        }
    };
    let calls = json!([
        { "when": { "iteration": 1 }, "do": action(row.action, last.clone()) },
        { "do": action(row.then, last) }
    ]);
    stage.script(&calls, all);
    let end = stage.ralph(words);
    stage.check(&end, if stage.is_walled() { &row.walled } else { &row.bare });
}

/// A step that ends the turn with a handoff.
fn handoff() -> Value {
    json!({ "handoff": { "task_completed": { "summary": "Did it.", "fully_complete": true } } })
}

/// Every table.
fn tables() -> [&'static [Cheat]; 9] {
    [
        claims::CHEATS,
        checks::CHEATS,
        defining::CHEATS,
        history::CHEATS,
        autorun::CHEATS,
        processes::CHEATS,
        streams::CHEATS,
        data::CHEATS,
        parallel::CHEATS,
    ]
}
