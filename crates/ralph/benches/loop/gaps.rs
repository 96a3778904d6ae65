//! From the start to the first agent, and from one agent's end to the next one's start: under
//! ralph, and in a bare loop that starts the agent and commits as a user would, with `git add -A`
//! and `git commit`.
//!
//! The agent is the benchmark itself, started again; it notes when it began and when it ended, so
//! that one clock measures both loops. Not here: the limits of the figures.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use ralph_testkit::measure::wait_with_peak_memory;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::RALPH;

/// What happens to an iteration's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landing {
    Nothing,
    Commit,
}

/// Whether agent and git run in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walls {
    None,
    Native,
}

/// Where both loops run.
pub(crate) struct Place {
    pub(crate) sealed: Sealed,
    landing: Landing,
    walls: Walls,
}

/// Measurements of a run.
pub(crate) struct Ran {
    /// The time between each two agents.
    pub(crate) gaps: Vec<Duration>,
    /// The most memory that ralph held, in KiB.
    pub(crate) peak: u64,
}

/// An agent that notes when it began and ended, and changes a file in between.
pub(crate) fn agent() {
    let begun = now();
    fs::write("work.txt", begun.to_string()).expect("written");
    println!("{}", answer(&io::read_to_string(io::stdin()).unwrap_or_default()));
    let mut file = fs::OpenOptions::new().create(true).append(true).open("times").expect("opened");
    writeln!(file, "{begun} {}", now()).expect("written");
}

/// Returns an answer of the form that a prompt demands, if it demands one.
fn answer(prompt: &str) -> String {
    let Some((_, rest)) = prompt.split_once("\"token\": \"") else { return "working".to_owned() };
    let token = rest.split('"').next().unwrap_or_default();
    let mut words = prompt.split(|it: char| !it.is_ascii_alphanumeric() && it != '-');
    let task = words.find(|word| word.starts_with("TASK-")).unwrap_or_default();
    let done = json!({ "task_id": task, "summary": "Did it.", "fully_complete": true });
    json!({ "token": token, "task_completed": done }).to_string()
}

fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch").as_nanos()
}

impl Place {
    /// Returns a repository with this many files.
    pub(crate) fn with_files(landing: Landing, walls: Walls, files: usize) -> Self {
        let sealed = Sealed::with_repository(RALPH);
        for directory in 0..files.div_ceil(100) {
            let path = sealed.project_dir().join(format!("directory-{directory:04}"));
            fs::create_dir(&path).expect("made");
            for file in 0..100 {
                let text = format!("file {file} of directory {directory}\n");
                fs::write(path.join(format!("file-{file:02}.txt")), text).expect("written");
            }
        }
        sealed.write_file(".gitignore", "/times\n/plan.json*\n");
        let place = Self { sealed, landing, walls };
        place.write_settings(&json!({}));
        place.sealed.run_git(&["-c", "core.looseCompression=0", "add", "-A"]);
        place.sealed.run_git(&["commit", "-qm", "settings"]);
        // As in a repository that is used: git packs by itself.
        place.sealed.run_git(&["repack", "-q", "-a", "-d", "--window=0"]);
        place
    }

    /// Writes the settings, with others over them.
    pub(crate) fn write_settings(&self, further: &Value) {
        let mut settings = json!({
            "agent": { "command": own(), "kind": "text", "flags": ["agent"] },
            "preventSleep": false,
            // Without commits the work tree never changes, which would end the run.
            "stuck": { "after": 1_000_000 },
            "commit": match self.landing { Landing::Nothing => "none", Landing::Commit => "ralph" },
        });
        if let (Some(settings), Some(further)) = (settings.as_object_mut(), further.as_object()) {
            settings.extend(further.clone());
        }
        self.sealed.write_file(".ralph/settings.json", &settings.to_string());
        self.sealed.trust_project(&[]);
    }

    /// Lets ralph do iterations of a prompt.
    pub(crate) fn ralph(&self, iterations: usize) -> Ran {
        self.ralph_with(iterations, &["run", "-p", "work"])
    }

    /// Lets ralph do iterations with one of its commands.
    pub(crate) fn ralph_with(&self, iterations: usize, words: &[&str]) -> Ran {
        let times = self.times();
        let _ = fs::remove_file(&times);
        let mut command = self.sealed.build_command(RALPH);
        command.args(words).args(["--quiet", "-m", &iterations.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        match self.walls {
            Walls::None => {}
            Walls::Native => {
                command.env("RALPH_SANDBOX_BACKEND", "native");
            }
        }
        // Looking too often would take from what is measured.
        let child = command.spawn().expect("it starts");
        let (_, peak) = wait_with_peak_memory(child, Duration::from_millis(50));
        Ran { gaps: gaps(&times, iterations), peak }
    }

    /// Returns how long ralph takes from its start to that of the first agent.
    pub(crate) fn time_to_first_agent(&self) -> Duration {
        self.time_to_begin(|| {
            self.ralph(1);
        })
    }

    /// Returns how long a direct start of the agent takes.
    pub(crate) fn time_to_direct_agent(&self) -> Duration {
        let times = self.times();
        let _ = fs::remove_file(&times);
        self.time_to_begin(|| {
            let mut agent = self.sealed.build_command(own());
            assert!(agent.arg("agent").output().expect("it starts").status.success());
        })
    }

    fn time_to_begin(&self, start: impl FnOnce()) -> Duration {
        let begun = now();
        start();
        let text = fs::read_to_string(self.times()).expect("an agent noted its times");
        let first = text.split(' ').next().and_then(|it| it.parse::<u128>().ok());
        let took = first.expect("a time").saturating_sub(begun);
        // The agent's change must not be in the way of the next run.
        self.sealed.run_git(&["checkout", "--quiet", "--", "."]);
        self.sealed.run_git(&["clean", "--quiet", "-f", "work.txt"]);
        Duration::from_nanos(u64::try_from(took).expect("less than centuries"))
    }

    /// Does the same with nothing but the agent and what a user would type.
    pub(crate) fn bare(&self, iterations: usize) -> Vec<Duration> {
        self.timed_elsewhere(iterations, || {
            for _ in 0..iterations {
                let mut agent = self.sealed.build_command(own());
                assert!(agent.arg("agent").output().expect("it starts").status.success());
                match self.landing {
                    Landing::Nothing => {}
                    Landing::Commit => {
                        self.sealed.run_git(&["add", "-A"]);
                        self.sealed.run_git(&["commit", "-qm", "by hand"]);
                    }
                }
            }
        })
    }

    /// Returns the time between each two agents that something else starts.
    pub(crate) fn timed_elsewhere(&self, iterations: usize, work: impl FnOnce()) -> Vec<Duration> {
        let times = self.times();
        let _ = fs::remove_file(&times);
        work();
        gaps(&times, iterations)
    }

    fn times(&self) -> PathBuf {
        self.sealed.project_dir().join("times")
    }
}

fn gaps(times: &Path, iterations: usize) -> Vec<Duration> {
    let text = fs::read_to_string(times).unwrap_or_default();
    let moments: Vec<(u64, u64)> = text
        .lines()
        .filter_map(|line| {
            let (begun, ended) = line.split_once(' ')?;
            Some((begun.parse().ok()?, ended.parse().ok()?))
        })
        .collect();
    assert_eq!(moments.len(), iterations, "every agent noted its times");
    let between = |pair: &[(u64, u64)]| Duration::from_nanos(pair[1].0.saturating_sub(pair[0].1));
    moments.windows(2).map(between).collect()
}

fn own() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Returns whether the native sandbox works here.
pub(crate) fn has_native_sandbox() -> bool {
    let sealed = Sealed::with_repository(RALPH);
    let mut command = sealed.build_command(RALPH);
    command.args(["sandbox", "exec", "--", "true"]).env("RALPH_SANDBOX_BACKEND", "native");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Command::status(&mut command).is_ok_and(|status| status.success())
}
