//! Side effects of the scripted agent: files, commands, processes it leaves behind, signals.
//!
//! Not here: what it prints.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal as SystemSignal, getpid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::scenario::{DeathSignal, GrandchildKind};

/// Writes a file, and creates its parent directories.
pub(super) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    create_parents(path)?;
    fs::write(path, text)
}

/// Appends to a file.
pub(super) fn append_to_file(path: &Path, text: &str) -> io::Result<()> {
    create_parents(path)?;
    fs::File::options().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

/// Removes a file, a link, or a directory with its contents.
pub(super) fn delete_path(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Replaces every occurrence of a text. Fails without an occurrence.
pub(super) fn replace_in_file(path: &Path, find: &str, replace: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    if !text.contains(find) {
        return Err(io::Error::other(format!("does not contain {find:?}")));
    }
    fs::write(path, text.replace(find, replace))
}

/// Creates a symbolic link.
pub(super) fn create_symlink(path: &Path, to: &Path) -> io::Result<()> {
    create_parents(path)?;
    std::os::unix::fs::symlink(to, path)
}

fn create_parents(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::create_dir_all(parent),
        Some(_) | None => Ok(()),
    }
}

/// Waits; does not wait for an invalid number of seconds.
pub(super) fn sleep_seconds(seconds: f64) {
    thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
}

/// How often ralph checks for a file. Short, because tests wait for it.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for a file to appear.
pub(super) fn wait_for_file(path: &Path, seconds: f64) -> io::Result<()> {
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let begin = Instant::now();
    while !path.exists() {
        if begin.elapsed() >= limit {
            return Err(io::Error::other(format!("did not appear within {seconds} s")));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Does nothing, forever.
pub(super) fn hang_forever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3_600));
    }
}

/// Ignores TERM and INT in this process, but not in the processes it starts.
pub(super) fn ignore_term() -> io::Result<()> {
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Sends itself a signal. Returns only if the signal is ignored.
pub(super) fn kill_self(signal: DeathSignal) -> io::Result<()> {
    let signal = match signal {
        DeathSignal::Hup => SystemSignal::HUP,
        DeathSignal::Int => SystemSignal::INT,
        DeathSignal::Abrt => SystemSignal::ABORT,
        DeathSignal::Kill => SystemSignal::KILL,
        DeathSignal::Segv => SystemSignal::SEGV,
        DeathSignal::Term => SystemSignal::TERM,
    };
    // Rust handles the first SEGV itself, in case it is a stack overflow.
    kill_process(getpid(), signal)?;
    Ok(kill_process(getpid(), signal)?)
}

/// Shell script that writes its process id atomically, and then sleeps.
const SLEEPER_SCRIPT: &str = r#"echo $$ > "$1.new" && mv "$1.new" "$1" && exec sleep "$2""#;

/// Shell script that starts the script of its second argument in the background, as an orphan.
const ORPHAN_SCRIPT: &str = r#"sh -c "$1" sh "$2" "$3" &"#;

/// How long to wait for the process id.
const PID_FILE_SECONDS: f64 = 10.0;

/// Starts a process and leaves it behind.
pub(super) fn start_grandchild(
    kind: GrandchildKind,
    pid_file: &Path,
    seconds: f64,
) -> io::Result<()> {
    create_parents(pid_file)?;
    let seconds_text = seconds.to_string();
    let mut command = match kind {
        GrandchildKind::Plain | GrandchildKind::HoldStdout => Command::new("sh"),
        GrandchildKind::OwnSession | GrandchildKind::Detached => {
            let mut command = Command::new("setsid");
            command.arg("sh");
            command
        }
    };
    match kind {
        GrandchildKind::Plain | GrandchildKind::HoldStdout | GrandchildKind::OwnSession => {
            command.args(["-c", SLEEPER_SCRIPT, "sh"]);
        }
        GrandchildKind::Detached => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            command.env_clear().env("PATH", path).args(["-c", ORPHAN_SCRIPT, "sh", SLEEPER_SCRIPT]);
        }
    }
    command.arg(pid_file).arg(seconds_text).stdin(Stdio::null()).stderr(Stdio::null());
    if kind != GrandchildKind::HoldStdout {
        command.stdout(Stdio::null());
    }
    let mut child = command.spawn()?;
    if kind == GrandchildKind::Detached {
        child.wait()?;
    }
    wait_for_file(pid_file, PID_FILE_SECONDS)
}
