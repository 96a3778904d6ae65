//! A user at a terminal: reads the screen, types, presses Ctrl-C.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ralph_testkit::sealed::Sealed;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// No step of a test takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Leads the session, as a shell does, and reports how the command ended. It stays until that was
/// read: when its leader ends, a session loses unread output.
const LEADER: [&str; 3] =
    ["sh", "-c", "trap : INT; \"$@\"; printf '\\n[ended %s]\\n' $?; exec sleep 60"];

/// Printed before the exit code.
const ENDED: &str = "\n[ended ";

/// A user at a terminal in which `ralph` runs.
pub(crate) struct Typist {
    terminal: File,
    child: Child,
    shown: Receiver<Vec<u8>>,
    /// Everything that was shown.
    pub(crate) seen: String,
    /// How much of it was read.
    looked: usize,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) seen: String,
}

/// Returns both ends of a terminal, so many columns wide.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    // A program that inherited this end would keep its own terminal open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).expect("a size");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let other = File::options().read(true).write(true).open(name).expect("the other end");
    (File::from(master), other)
}

/// Starts a command in a session with a controlling terminal, which sends it Ctrl-C and the
/// hangup.
pub(crate) fn session(sealed: &Sealed, terminal: File, kind: &str, words: &[&str]) -> Child {
    let mut command = sealed.build_command("setsid");
    command
        .arg("--ctty")
        .args(words)
        .env("TERM", kind)
        .stdin(terminal.try_clone().expect("a copy"))
        .stdout(terminal.try_clone().expect("a copy"))
        .stderr(Stdio::from(terminal));
    command.spawn().expect("it starts")
}

impl Typist {
    /// Starts `ralph` in a terminal of its own, this many columns wide.
    pub(crate) fn start(sealed: &Sealed, words: &[&str], columns: u16) -> Self {
        let (terminal, other) = terminal(columns);
        let ralph = [LEADER[0], LEADER[1], LEADER[2], "sh", env!("CARGO_BIN_EXE_ralph")];
        let child = session(sealed, other, "dumb", &[&ralph, words].concat());
        let mut screen = terminal.try_clone().expect("a copy");
        let (tx, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once the other end is closed everywhere.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if tx.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { terminal, child, shown, seen: String::new(), looked: 0 }
    }

    /// Waits until a text appears in output that was not read yet.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen[self.looked..].find(text) {
                self.looked += at + text.len();
                return;
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{text:?} is never shown:\n{}", self.seen)
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.seen.push_str(&String::from_utf8_lossy(bytes).replace('\r', ""));
    }

    /// Types bytes as they are.
    pub(crate) fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits for a question, and types a line.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, line: &str) {
        self.wait_for(question);
        self.press(&format!("{line}\n"));
    }

    /// Waits for the end. A death by a signal has the code that a shell gives it.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        self.looked = 0;
        self.wait_for(ENDED);
        let before = self.looked - ENDED.len();
        self.wait_for("]\n");
        let code = self.seen[before + ENDED.len()..].split(']').next();
        let code = code.and_then(|code| code.parse().ok());
        self.seen.truncate(before);
        Ended { code, seen: std::mem::take(&mut self.seen) }
    }
}

impl Drop for Typist {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
