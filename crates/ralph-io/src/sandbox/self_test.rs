//! The sandbox self-test: in a temporary project with a temporary home, a sandboxed program tries
//! what must fail and what must work, before ralph relies on the sandbox.
//!
//! Not here: the full list of escapes, which the tests attempt. This is the short form for every
//! machine.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ralph_model::child::Ending;
use ralph_model::sandbox::{
    Backend, GitAccess, NetworkMode, NetworkPolicy, RequestedBackend, SandboxPolicy,
};

use super::{BackendConfig, HandedFiles, SELF_TEST_COMMAND, SandboxLauncher, SandboxPaths};
use crate::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};

/// What a sandbox did not enforce or did not allow in the self-test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelfTestFailure(pub String);

/// Takes some milliseconds, in a container a second; 60 s leaves room for a busy machine.
const SELF_TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The server is on this machine: if it answers at all, it answers at once.
const CONNECTING: Duration = Duration::from_secs(2);

/// The exit codes of the self-test's program, by what went wrong.
const CANARY: i32 = 10;
const NETWORK: i32 = 11;
const INSIDE: i32 = 12;

/// How much of the program's output is kept.
const KEPT: usize = 4096;

/// Tests a backend. Works in a temporary directory below `directory`.
pub fn run_self_test(
    config: &BackendConfig,
    ralph: &Path,
    directory: &Path,
    watch: &Watch,
) -> Result<(), SelfTestFailure> {
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| {
            SelfTestFailure(format!("the self-test cannot {what}: {error}"))
        }
    };
    let root = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir_in(directory)
        .map_err(cannot("create its directory"))?;
    let place = |name: &str| root.path().join(name);
    for name in ["project", "home", "state/project/run"] {
        fs::create_dir_all(place(name)).map_err(cannot("create its directories"))?;
    }
    let canary = place("home/canary");
    fs::write(&canary, "canary").map_err(cannot("write its canary"))?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot("listen on the loopback"))?;
    let port = listener.local_addr().map_err(cannot("listen on the loopback"))?.port();
    let (outside, inside) = (place("outside"), place("project/inside"));
    let args: Vec<OsString> = vec![
        SELF_TEST_COMMAND.into(),
        canary.into(),
        outside.clone().into(),
        inside.clone().into(),
        port.to_string().into(),
    ];
    let spawn = Spawn {
        program: ralph.into(),
        args,
        cwd: place("project"),
        env: Vec::new(),
        stdin: StdinSource::Null,
        limits: ProcessLimits { hard: Some(SELF_TEST_TIMEOUT), ..ProcessLimits::default() },
    };
    let launcher = SandboxLauncher::new(
        config.clone(),
        build_test_policy(),
        build_test_paths(root.path(), ralph),
        None,
    );
    let spawn = launcher
        .wrap_spawn(spawn, &HandedFiles::default())
        .map_err(|reason| SelfTestFailure(format!("the self-test does not start: {reason}")))?;
    let ran = capture_output(&spawn, watch, KEPT);
    let failure = |message: &str| Err(SelfTestFailure(message.to_owned()));
    match ran.end.ending {
        Ending::Exited { code: 0 } if outside.exists() => {
            failure("a file outside the project could be written")
        }
        Ending::Exited { code: 0 } if !inside.exists() => {
            failure("a file written in the project did not appear outside")
        }
        Ending::Exited { code: 0 } => Ok(()),
        Ending::Exited { code: CANARY } => failure("a file in the home directory could be read"),
        Ending::Exited { code: NETWORK } => {
            failure("a server outside the sandbox could be reached")
        }
        Ending::Exited { code: INSIDE } => failure("the project could not be written"),
        ending @ (Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::TimedOut { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. }) => {
            let stderr = String::from_utf8_lossy(&ran.stderr);
            let detail = stderr.lines().last().map(|line| format!(" ({line})")).unwrap_or_default();
            Err(SelfTestFailure(format!("the self-test ended with {ending}{detail}")))
        }
    }
}

fn build_test_policy() -> SandboxPolicy {
    let network = NetworkPolicy { mode: NetworkMode::None, ..SandboxPolicy::default().network };
    let backend = RequestedBackend::This(Backend::Native);
    SandboxPolicy { backend, git: GitAccess::Ro, network, ..SandboxPolicy::default() }
}

fn build_test_paths(root: &Path, ralph: &Path) -> SandboxPaths {
    SandboxPaths {
        project: root.join("project"),
        work_tree: root.join("project"),
        history: Vec::new(),
        borrowed: Vec::new(),
        state: root.join("state/project"),
        run: root.join("state/project/run"),
        agent_state: Vec::new(),
        programs: Vec::new(),
        home: Some(root.join("home")),
        path: OsString::new(),
        executable: ralph.to_owned(),
        git_files: Vec::new(),
        opened: Vec::new(),
        variables: Vec::new(),
        outputs: Vec::new(),
    }
}

/// The program of the self-test, which runs inside. Its exit code says what went wrong.
pub(super) fn run_inside(arguments: &[OsString]) -> ExitCode {
    let [canary, outside, inside, port] = arguments else { return ExitCode::FAILURE };
    let port = port.to_str().and_then(|port| port.parse().ok()).unwrap_or_default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // The test looks for this file from outside: the directory may be the sandbox's own.
    let _ = fs::write(outside, "x");
    let failure = if fs::read(canary).is_ok() {
        CANARY
    } else if TcpStream::connect_timeout(&address, CONNECTING).is_ok() {
        NETWORK
    } else if fs::write(inside, "x").is_err() {
        INSIDE
    } else {
        0
    };
    ExitCode::from(u8::try_from(failure).unwrap_or(u8::MAX))
}
