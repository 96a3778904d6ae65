//! Keeps the machine awake while a run is active.
//!
//! Not here: what happens when it sleeps all the same. Running time does not count then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_model::child::NotStarted;

use crate::process::{Companion, ProcessLimits, Spawn, StdinSource, find_program};

/// While this lives, the machine does not go to sleep by itself.
#[derive(Debug)]
pub struct SleepInhibitor {
    _companion: Companion,
}

impl SleepInhibitor {
    /// Starts the system's sleep inhibitor. Fails if the program for it is missing.
    pub fn start(cwd: &Path, env: &[(OsString, OsString)]) -> Result<Self, NotStarted> {
        Companion::start(&build_spawn(cwd, env)).map(|companion| Self { _companion: companion })
    }

    /// Returns the path of the inhibitor program, if it is installed.
    pub fn find_inhibitor(cwd: &Path, env: &[(OsString, OsString)]) -> Result<PathBuf, NotStarted> {
        find_program(&build_spawn(cwd, env))
    }
}

fn build_spawn(cwd: &Path, env: &[(OsString, OsString)]) -> Spawn {
    let (program, args) = build_inhibitor_command(std::process::id());
    Spawn {
        program: program.into(),
        args: args.into_iter().map(OsString::from).collect(),
        cwd: cwd.to_owned(),
        env: env.to_vec(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    }
}

/// Returns the inhibitor command of this system. It exits by itself when ralph is gone.
fn build_inhibitor_command(pid: u32) -> (&'static str, Vec<String>) {
    if cfg!(target_os = "macos") {
        ("caffeinate", vec!["-i".to_owned(), "-w".to_owned(), pid.to_string()])
    } else {
        let options = ["--what=idle:sleep", "--who=ralph", "--why=a run is active", "--mode=block"];
        let wait =
            ["tail".to_owned(), format!("--pid={pid}"), "-f".to_owned(), "/dev/null".to_owned()];
        ("systemd-inhibit", options.into_iter().map(str::to_owned).chain(wait).collect())
    }
}
