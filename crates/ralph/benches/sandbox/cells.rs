//! One start, directly or in the sandbox of git.

use std::path::Path;

use ralph_io::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};
use ralph_io::sandbox::{
    DetectionContext, Launcher, ProbeResult, SandboxLauncher, SandboxPaths, SandboxedProcess,
    probe_backend,
};
use ralph_model::sandbox::{Backend, GitAccess, SandboxPolicy};
use ralph_testkit::sealed::Sealed;

use crate::RALPH;

/// Returns a launcher for a backend, or why it does not work here.
pub(crate) fn launcher(sealed: &Sealed, backend: Backend) -> Result<Launcher, String> {
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let around =
        DetectionContext::for_kernel_backends(Path::new(RALPH), &sealed.project_dir(), env);
    match probe_backend(backend, &around) {
        ProbeResult::Works((wall, _)) => {
            let launcher = SandboxLauncher::new(wall, policy(), places(sealed), None);
            Ok(Launcher::Sandboxed(launcher.for_process(SandboxedProcess::Git)))
        }
        ProbeResult::Fails { why, .. } => Err(why.clone()),
    }
}

/// Starts a program that does nothing, and waits for its end.
pub(crate) fn start(sealed: &Sealed, launcher: &Launcher) {
    let spawn = Spawn {
        program: "/bin/true".into(),
        args: Vec::new(),
        cwd: sealed.project_dir(),
        env: Vec::new(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    };
    let spawn = launcher.wrap_spawn(spawn).expect("launched");
    let ran = capture_output(&spawn, &Watch::new_detached(), 4096);
    let output = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.end.ending.is_success(), "{}: {output}", ran.end.ending);
}

fn policy() -> SandboxPolicy {
    SandboxPolicy { git: GitAccess::Ro, ..SandboxPolicy::default() }
}

fn places(sealed: &Sealed) -> SandboxPaths {
    let state = sealed.state_dir().join("project");
    std::fs::create_dir_all(state.join("run")).expect("a directory");
    SandboxPaths {
        project: sealed.project_dir(),
        work_tree: sealed.project_dir(),
        history: vec![sealed.project_dir().join(".git")],
        borrowed: Vec::new(),
        run: state.join("run"),
        state,
        agent_state: Vec::new(),
        programs: Vec::new(),
        home: Some(sealed.root().join("home")),
        path: "/usr/bin:/bin".into(),
        executable: RALPH.into(),
        git_files: Vec::new(),
        opened: Vec::new(),
        variables: Vec::new(),
        outputs: Vec::new(),
    }
}
