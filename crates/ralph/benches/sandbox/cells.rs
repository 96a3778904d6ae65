//! One start, directly or in the sandbox of git.

use std::path::Path;

use ralph_core::sandbox::{Backend, GitAccess, Policy};
use ralph_io::process::{Limits, Spawn, Stdin, Watch, capture};
use ralph_io::sandbox::{Cage, Finding, Launcher, Places, Surroundings, Tenant, probe};
use ralph_testkit::sealed::Sealed;

use crate::RALPH;

/// Returns a launcher for a backend, or why it does not work here.
pub(crate) fn launcher(sealed: &Sealed, backend: Backend) -> Result<Launcher, String> {
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let around = Surroundings::of_the_kernel(Path::new(RALPH), &sealed.project(), env);
    match probe(backend, &around) {
        Finding::Works((wall, _)) => {
            let cage = Cage::new(wall, policy(), places(sealed), None);
            Ok(Launcher::Caged(cage.with_tenant(Tenant::Git)))
        }
        Finding::Fails { why, .. } => Err(why.clone()),
    }
}

/// Starts a program that does nothing, and waits for its end.
pub(crate) fn start(sealed: &Sealed, launcher: &Launcher) {
    let spawn = Spawn {
        program: "/bin/true".into(),
        args: Vec::new(),
        cwd: sealed.project(),
        env: Vec::new(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    };
    let spawn = launcher.launch(spawn).expect("launched");
    let ran = capture(&spawn, &Watch::detached(), 4096);
    let output = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.end.ending.is_success(), "{}: {output}", ran.end.ending);
}

fn policy() -> Policy {
    Policy { git: GitAccess::Ro, ..Policy::default() }
}

fn places(sealed: &Sealed) -> Places {
    let state = sealed.state().join("project");
    std::fs::create_dir_all(state.join("run")).expect("a directory");
    Places {
        project: sealed.project(),
        work_tree: sealed.project(),
        history: vec![sealed.project().join(".git")],
        run: state.join("run"),
        state,
        agent_state: Vec::new(),
        home: Some(sealed.root().join("home")),
        path: "/usr/bin:/bin".into(),
        executable: RALPH.into(),
        git_files: Vec::new(),
        opened: Vec::new(),
        variables: Vec::new(),
        outputs: Vec::new(),
    }
}
