//! Takes the terminal for a full-screen view, and restores it on every way out.
//!
//! Not here: what is shown (`ralph_ui::tui`).

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use ralph_io::control;
use ralph_io::process::{Halt, StopStage, Watch};
use ralph_io::terminal::{Console, KeyWait};
use ralph_model::control::ControlRequest;
use ralph_ui::tui::{Device, ENTER, KeyRead, LEAVE, ScreenLink, SendRequest};
use ralph_ui::view::SHUTTING_DOWN;
use ralph_ui::writer::NonBlocking;

/// How long Ctrl-Z waits for a terminal that hangs.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The terminal that is or was taken, for exits (panic, signal) that have no handle to it.
static TAKEN: OnceLock<Console> = OnceLock::new();

/// Returns the terminal behind stdin and a stream. Fails with the reason if it cannot show a screen.
pub(crate) fn open_device(stream: impl AsFd) -> Result<Box<dyn Device>, String> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let console = Console::from_stream(stream).map_err(|error| error.to_string())?;
    let Some(console) = console else {
        return Err("stdin and the output are not terminals".to_owned());
    };
    if is_dumb {
        return Err("this terminal cannot move its cursor (TERM)".to_owned());
    }
    if !console.is_ours() {
        return Err("this is a job in the background".to_owned());
    }
    let console = TAKEN.get_or_init(|| {
        restore_terminal_on_panic();
        console
    });
    Ok(Box::new(Tty(console.clone())))
}

/// Restores the terminal if it is taken.
pub(crate) fn restore_terminal() {
    if let Some(console) = TAKEN.get() {
        console.restore(LEAVE.as_bytes());
    }
}

/// Leaves the screen while ralph is stopped by Ctrl-Z. Calls `resumed` with the length of the stop.
pub(crate) fn leave_screen_while_stopped(
    watch: &Watch,
    screen: &ScreenLink,
    resumed: impl Fn(Duration) + std::marker::Send + Sync + 'static,
) {
    let screen = screen.clone();
    watch.set_halt_callback(move |halt| match halt {
        Halt::Begins => screen.step_aside(SUSPEND_TIMEOUT),
        // A SIGSTOP gives no notice, but the shell used the terminal all the same.
        Halt::Ends { paused_for } => {
            screen.step_aside(SUSPEND_TIMEOUT);
            screen.show_again();
            paused_for.into_iter().for_each(&resumed);
        }
    });
}

/// Returns a function that sends control requests to the run with this directory.
pub(crate) fn request_sender(run: &std::path::Path) -> SendRequest {
    let run = run.to_owned();
    Box::new(move |request: &ControlRequest| {
        control::send_request(&run, request).map_err(|error| error.to_string())
    })
}

/// Without this a panic message would be lost on the screen, and the shell left without echo.
fn restore_terminal_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore_terminal();
        usual(panic);
    }));
}

struct Tty(Console);

impl Device for Tty {
    fn enter(&mut self) -> io::Result<()> {
        self.0.enter_full_screen(ENTER.as_bytes())
    }

    fn leave(&mut self) {
        self.0.restore(LEAVE.as_bytes());
    }

    fn is_foreground(&self) -> bool {
        self.0.is_ours()
    }

    fn size(&self) -> Option<(u16, u16)> {
        self.0.size()
    }

    fn was_resized(&mut self) -> bool {
        self.0.was_resized()
    }

    fn read_keys(&mut self, patience: Duration, keys: &mut Vec<u8>) -> KeyRead {
        match self.0.read(patience, keys) {
            KeyWait::Available => KeyRead::Keys,
            KeyWait::Absent => KeyRead::Nothing,
            KeyWait::Gone => KeyRead::Gone,
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }
}

/// How long ralph waits at the end for a terminal that has stopped reading.
pub(crate) const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports a received signal.
pub(crate) fn announce_signal(out: &NonBlocking, screen: &ScreenLink, stage: StopStage) {
    match stage {
        StopStage::Running => {}
        StopStage::Finish => {
            screen.show_stopping();
            out.write_line(SHUTTING_DOWN);
            out.write_line("  ralph waits for the agent or gate; Ctrl-C again ends it now.");
        }
        StopStage::End => {
            screen.show_ending();
            out.write_line("Received a second signal, ending what is running...");
        }
        StopStage::Leave => {
            restore_terminal();
            screen.mark_left();
            out.write_line("Received a third signal, leaving at once.");
            out.wait_until_written(FINAL_FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    /// Set for the child process that panics on a terminal.
    const BREAKS: &str = "RALPH_TEST_BREAKS_DOWN";

    #[test]
    fn a_panic_restores_the_terminal_before_it_is_printed() {
        if std::env::var_os(BREAKS).is_some() {
            let mut device = open_device(io::stderr()).expect("a terminal");
            device.enter().expect("taken");
            // On a thread that holds nothing of the terminal, so that only the hook can help.
            let broken = std::thread::spawn(|| panic!("broken down")).join();
            assert!(broken.is_err());
            std::process::exit(7);
        }
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
        let other = File::options().read(true).write(true).open(name).expect("the other end");
        let before = tcgetattr(&other).expect("modes");
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg("full_screen::tests::a_panic_restores_the_terminal_before_it_is_printed")
            .env(BREAKS, "1")
            .env("TERM", "xterm")
            .stdin(other.try_clone().expect("a copy"))
            .stdout(Stdio::null())
            .stderr(other.try_clone().expect("a copy"));
        let mut child = command.spawn().expect("it starts");
        drop(command);
        assert_eq!(child.wait().expect("it ends").code(), Some(7));
        let after = tcgetattr(&other).expect("modes");
        assert!(after.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
        drop(other);
        let mut seen = Vec::new();
        // Reading fails once all handles of the other end are closed.
        let _ = File::from(master).read_to_end(&mut seen);
        let seen = String::from_utf8_lossy(&seen);
        let place = |words: &str| seen.find(words).unwrap_or_else(|| panic!("no {words}: {seen}"));
        let places = [ENTER, LEAVE, "broken down"].map(place);
        assert!(places.is_sorted(), "{seen:?}");
    }
}
