//! A terminal that closes under a run. The full-screen view has its own scenes.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use super::RALPH;
use crate::sealed;

/// Its own session, on its own terminal, as an emulator starts it.
struct Session {
    terminal: Option<OwnedFd>,
    child: Child,
}

impl Session {
    fn start(sealed: &Sealed, script: &str) -> Self {
        // A process with a copy of this end would keep the terminal open.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("text");
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).expect("a flag");
        let end = || -> File {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(no_control).open(&name).expect("its end")
        };
        let mut command = sealed.build_command("setsid");
        command
            .args(["--ctty", "sh", "-c", script])
            .env("TERM", "xterm")
            .env("RALPH", RALPH)
            .stdin(Stdio::from(end()))
            .stdout(Stdio::from(end()))
            .stderr(Stdio::from(end()));
        let child = command.spawn().expect("it starts");
        Self { terminal: Some(terminal), child }
    }

    /// Closes the terminal: the kernel signals all processes on it.
    fn hang_up(&mut self) {
        drop(self.terminal.take());
    }

    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn patient() -> Value {
    let words = "words of the agent ".repeat(20);
    json!([
        { "touch": "begun" }, { "waitFor": { "path": "continue" } }, { "text": words },
        { "text": words }, { "claim": "DONE" }
    ])
}

fn outcome(sealed: &Sealed) -> Value {
    sealed.find_events("run_ended").pop().unwrap_or_default()["outcome"]["end"].clone()
}

#[test]
fn closed_terminal_is_one_interruption_and_the_run_can_resume() {
    let sealed = sealed();
    sealed.write_script(
        &json!([{ "do": patient() }]),
        &json!({ "gates": [{ "command": "touch gate" }] }),
    );
    let mut session = Session::start(&sealed, "exec \"$RALPH\" run -p base");
    sealed.wait_for("begun");
    session.hang_up();
    // The test cannot see when ralph gets the hangup, which must be before the agent answers.
    std::thread::sleep(Duration::from_millis(300));
    sealed.write_file("continue", "");
    assert_eq!(session.code(), Some(130));
    assert_eq!(sealed.find_events("replied").len(), 1, "the answer is kept");
    assert_eq!(outcome(&sealed), "interrupted");
    assert!(!sealed.project_dir().join("gate").exists());
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1, "nothing was asked twice");
    assert!(sealed.project_dir().join("gate").exists());
}

#[test]
fn closed_terminal_under_nohup_is_ignored() {
    let sealed = sealed();
    sealed.write_script(
        &json!([{ "do": patient() }]),
        &json!({ "gates": [{ "command": "touch gate" }] }),
    );
    // Output is still written to the closed terminal.
    let mut session = Session::start(&sealed, "trap '' HUP; exec \"$RALPH\" run -p base");
    sealed.wait_for("begun");
    session.hang_up();
    sealed.write_file("continue", "");
    assert_eq!(session.code(), Some(0));
    assert_eq!(outcome(&sealed), "complete");
    assert!(sealed.project_dir().join("gate").exists());
    wait_until("all is gone", || sealed.survivors().is_empty());
}
