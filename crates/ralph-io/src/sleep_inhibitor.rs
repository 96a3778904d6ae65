//! Keeps the machine awake while a run is active.
//!
//! Not here: what happens when it sleeps all the same. Running time does not count then.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ralph_model::child::NotStarted;

use crate::process::{Companion, ProcessLimits, Spawn, StdinSource, find_program};

/// How long a run is active before the inhibitor is started: no machine goes to sleep that soon,
/// and the first agent does not start beside it.
const DELAY: Duration = Duration::from_millis(250);

/// While this lives, the machine does not go to sleep by itself.
#[derive(Debug)]
pub struct SleepInhibitor {
    /// Disconnected when the run ends.
    run: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl SleepInhibitor {
    /// Starts the system's sleep inhibitor soon. Without a program for it nothing happens.
    pub fn start_soon(cwd: &Path, env: &[(OsString, OsString)]) -> io::Result<Self> {
        let spawn = build_spawn(cwd, env);
        let (run, ended) = mpsc::channel();
        let thread = thread::Builder::new().spawn(move || {
            if ended.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                let companion = Companion::start(&spawn);
                let _ = ended.recv();
                drop(companion);
            }
        })?;
        Ok(Self { run: Some(run), thread: Some(thread) })
    }

    /// Returns the path of the inhibitor program, if it is installed.
    pub fn find_inhibitor(cwd: &Path, env: &[(OsString, OsString)]) -> Result<PathBuf, NotStarted> {
        find_program(&build_spawn(cwd, env))
    }
}

impl Drop for SleepInhibitor {
    fn drop(&mut self) {
        drop(self.run.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
