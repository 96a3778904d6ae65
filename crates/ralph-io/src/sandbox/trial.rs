//! Tries the walls before anybody relies on them: in a throw-away project with a throw-away home, a
//! program in a cell does what must fail, and what must work.
//!
//! Not here: the list of escapes that the tests attempt. This is the short form for every machine.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ralph_core::child::Ending;
use ralph_core::sandbox::{Backend, GitAccess, NetworkMode, NetworkPolicy, Policy, Wanted};

use super::{Cage, Handed, Places, TRIAL_COMMAND, Wall};
use crate::process::{Limits, Spawn, Stdin, Watch, capture};

/// Walls that are not what they should be, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Surprise(pub String);

/// It takes some milliseconds, in a container a second, and many on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host that answers at all answers at once: it is this one.
const CONNECTING: Duration = Duration::from_secs(2);

/// The exit codes of a trial's program, by what surprised it.
const CANARY: i32 = 10;
const NETWORK: i32 = 11;
const INSIDE: i32 = 12;

/// What a trial's program may say.
const KEPT: usize = 4096;

/// Tries walls, with a directory for what it needs, which is removed.
pub fn trial(wall: &Wall, ralph: &Path, directory: &Path, watch: &Watch) -> Result<(), Surprise> {
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Surprise(format!("the trial cannot {what}: {error}"))
    };
    let root = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir_in(directory)
        .map_err(cannot("make its directory"))?;
    let place = |name: &str| root.path().join(name);
    for name in ["project", "home", "state/project/run"] {
        fs::create_dir_all(place(name)).map_err(cannot("make its places"))?;
    }
    let canary = place("home/canary");
    fs::write(&canary, "canary").map_err(cannot("write its canary"))?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot("listen on the loopback"))?;
    let port = listener.local_addr().map_err(cannot("listen on the loopback"))?.port();
    let (outside, inside) = (place("outside"), place("project/inside"));
    let words: Vec<OsString> = vec![
        TRIAL_COMMAND.into(),
        canary.into(),
        outside.clone().into(),
        inside.clone().into(),
        port.to_string().into(),
    ];
    let spawn = Spawn {
        program: ralph.into(),
        args: words,
        cwd: place("project"),
        env: Vec::new(),
        stdin: Stdin::Null,
        limits: Limits { hard: Some(PATIENCE), ..Limits::default() },
    };
    let cage = Cage::new(wall.clone(), policy(), places(root.path(), ralph), None);
    let spawn = cage
        .launch(spawn, &Handed::default())
        .map_err(|reason| Surprise(format!("the trial does not start: {reason}")))?;
    let ran = capture(&spawn, watch, KEPT);
    let surprise = |words: &str| Err(Surprise(words.to_owned()));
    match ran.end.ending {
        Ending::Exited { code: 0 } if outside.exists() => {
            surprise("a file could be written outside of the project")
        }
        Ending::Exited { code: 0 } if !inside.exists() => {
            surprise("what was written in the project did not arrive")
        }
        Ending::Exited { code: 0 } => Ok(()),
        Ending::Exited { code: CANARY } => surprise("a file in the home directory could be read"),
        Ending::Exited { code: NETWORK } => surprise("a server outside could be reached"),
        Ending::Exited { code: INSIDE } => surprise("the project could not be written"),
        ending @ (Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::TimedOut { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. }) => {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said = said.lines().last().map(|line| format!(" ({line})")).unwrap_or_default();
            Err(Surprise(format!("the trial ended with {ending}{said}")))
        }
    }
}

fn policy() -> Policy {
    let network = NetworkPolicy { mode: NetworkMode::None, ..Policy::default().network };
    let backend = Wanted::This(Backend::Native);
    Policy { backend, git: GitAccess::Ro, network, ..Policy::default() }
}

fn places(root: &Path, ralph: &Path) -> Places {
    Places {
        project: root.join("project"),
        work_tree: root.join("project"),
        history: Vec::new(),
        state: root.join("state/project"),
        run: root.join("state/project/run"),
        agent_state: Vec::new(),
        home: Some(root.join("home")),
        path: OsString::new(),
        executable: ralph.to_owned(),
        git_files: Vec::new(),
        opened: Vec::new(),
        variables: Vec::new(),
        outputs: Vec::new(),
    }
}

/// The program of a trial. Its exit code is what surprised it.
pub(super) fn main(words: &[OsString]) -> ExitCode {
    let [canary, outside, inside, port] = words else { return ExitCode::FAILURE };
    let port = port.to_str().and_then(|port| port.parse().ok()).unwrap_or_default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // Whether this arrives is seen from outside: the directory may be one of the cell's own.
    let _ = fs::write(outside, "x");
    let surprise = if fs::read(canary).is_ok() {
        CANARY
    } else if TcpStream::connect_timeout(&address, CONNECTING).is_ok() {
        NETWORK
    } else if fs::write(inside, "x").is_err() {
        INSIDE
    } else {
        0
    };
    ExitCode::from(u8::try_from(surprise).unwrap_or(u8::MAX))
}
