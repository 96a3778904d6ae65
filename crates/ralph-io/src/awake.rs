//! Keeps the machine awake while a run is active.
//!
//! Not here: what happens when it sleeps all the same. Running time stands still then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::child::NotStarted;

use crate::process::{Companion, Limits, Spawn, Stdin, find_program};

/// While this lives, the machine does not go to sleep by itself.
#[derive(Debug)]
pub struct Awake {
    _companion: Companion,
}

impl Awake {
    /// Asks the system to stay awake, where there is a program for that.
    pub fn keep(cwd: &Path, env: &[(OsString, OsString)]) -> Result<Self, NotStarted> {
        Companion::start(&spawn(cwd, env)).map(|companion| Self { _companion: companion })
    }

    /// Returns the program that would be asked, if it is there.
    pub fn program(cwd: &Path, env: &[(OsString, OsString)]) -> Result<PathBuf, NotStarted> {
        find_program(&spawn(cwd, env))
    }
}

fn spawn(cwd: &Path, env: &[(OsString, OsString)]) -> Spawn {
    let (program, args) = inhibitor(std::process::id());
    Spawn {
        program: program.into(),
        args: args.into_iter().map(OsString::from).collect(),
        cwd: cwd.to_owned(),
        env: env.to_vec(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    }
}

/// Returns the program that keeps this system awake. Each ends by itself when ralph is gone.
fn inhibitor(pid: u32) -> (&'static str, Vec<String>) {
    if cfg!(target_os = "macos") {
        ("caffeinate", vec!["-i".to_owned(), "-w".to_owned(), pid.to_string()])
    } else {
        let words = ["--what=idle:sleep", "--who=ralph", "--why=a run is active", "--mode=block"];
        let wait =
            ["tail".to_owned(), format!("--pid={pid}"), "-f".to_owned(), "/dev/null".to_owned()];
        ("systemd-inhibit", words.into_iter().map(str::to_owned).chain(wait).collect())
    }
}
