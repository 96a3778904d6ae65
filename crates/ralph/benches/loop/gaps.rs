//! From one agent's end to the next one's start: under ralph, and in a bare loop that does nothing
//! but start the agent and run the git commands that the same takes.
//!
//! The agent is the benchmark itself, started again; it notes when it began and when it ended, so
//! that one clock measures both loops. Not here: the limits of the figures.

use std::fs;
use std::io::Write as _;
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
    println!("working");
    let mut file = fs::OpenOptions::new().create(true).append(true).open("times").expect("opened");
    writeln!(file, "{begun} {}", now()).expect("written");
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
        sealed.write_file(".gitignore", "/.ralph/\n/times\n/plan.json*\n");
        let place = Self { sealed, landing, walls };
        place.write_settings(&json!({}));
        place.sealed.run_git(&["-c", "core.looseCompression=0", "add", "-A"]);
        place.sealed.run_git(&["commit", "-qm", "settings"]);
        if files > 0 {
            place.sealed.run_git(&["repack", "-q", "-a", "-d", "--window=0"]);
        }
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

    /// Does the same with nothing but the agent and git.
    pub(crate) fn bare(&self, iterations: usize) -> Vec<Duration> {
        self.timed_elsewhere(iterations, || {
            for _ in 0..iterations {
                let mut agent = self.sealed.build_command(own());
                assert!(agent.arg("agent").output().expect("it starts").status.success());
                self.sealed.run_git(&["rev-parse", "HEAD"]);
                match self.landing {
                    Landing::Nothing => {}
                    Landing::Commit => {
                        self.sealed.run_git(&["add", "-A"]);
                        self.sealed.run_git(&["write-tree"]);
                        self.sealed.run_git(&["diff-index", "--cached", "HEAD"]);
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
pub(crate) fn has_native_cells() -> bool {
    let sealed = Sealed::with_repository(RALPH);
    let mut command = sealed.build_command(RALPH);
    command.args(["sandbox", "exec", "--", "true"]).env("RALPH_SANDBOX_BACKEND", "native");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Command::status(&mut command).is_ok_and(|status| status.success())
}
