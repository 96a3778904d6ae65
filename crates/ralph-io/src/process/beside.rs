//! Runs a program beside a helper of ours that is the first process of a container.
//!
//! The first process has to collect what others leave behind, and gets the signals that end the
//! container. Not here: children of a run (`supervise`); this is inside of one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs a program with our own streams and environment until it ends, passes signals on to it,
/// and returns its exit code; a death by signal is 128 and the number, as shells have it.
pub fn run_beside(program: &OsString, args: &[OsString]) -> io::Result<ExitCode> {
    // Caught before the program starts: one that comes in between must not be lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
    let child = Command::new(program).args(args).spawn()?;
    let pid = Pid::from_child(&child);
    thread::spawn(move || {
        for number in signals.forever() {
            if let Some(signal) = Signal::from_named_raw(number) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => {
                return Ok(code(ExitStatus::from_raw(status.as_raw())));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(number.and_then(|it| u8::try_from(it).ok()).unwrap_or(u8::MAX))
}
