//! What a cell costs: every agent, gate and git command starts in one.
//!
//! `/bin/true` alone, and in a cell of each backend that works here, in turns. The figures are those
//! of one git command's cell, from launch to end; the backend is chosen and tried before.
//! `cargo bench -p ralph --bench sandbox` prints them; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::Path;
use std::time::{Duration, Instant};

use ralph_core::sandbox::{Backend, GitAccess, Policy};
use ralph_io::process::{Limits, Spawn, Stdin, Watch, capture};
use ralph_io::sandbox::{Cage, Finding, Launcher, Places, Surroundings, Tenant, probe};
use ralph_testkit::sealed::Sealed;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A short run has as many children.
const ROUNDS: usize = 300;

fn main() {
    let sealed = Sealed::with_repository(RALPH);
    let mut launchers = vec![("directly", Launcher::Direct)];
    for backend in [Backend::Native, Backend::Bwrap, Backend::Landlock] {
        let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let around = Surroundings::of_the_kernel(Path::new(RALPH), &sealed.project(), env);
        match probe(backend, &around) {
            Finding::Works((wall, _)) => {
                let cage = Cage::new(wall, policy(), places(&sealed), None);
                launchers.push((backend.name(), Launcher::Caged(cage.with_tenant(Tenant::Git))));
            }
            Finding::Fails { why, .. } => println!("{backend}: left out, {why}"),
        }
    }
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); launchers.len()];
    for _ in 0..ROUNDS {
        for ((_, launcher), times) in launchers.iter().zip(&mut times) {
            times.push(timed(&sealed, launcher));
        }
    }
    println!("{:<10} {:>12} {:>12}", "", "median", "best");
    for ((name, _), mut times) in launchers.iter().zip(times) {
        times.sort_unstable();
        let (median, best) = (milliseconds(times[ROUNDS / 2]), milliseconds(times[0]));
        println!("{name:<10} {median:>9.2} ms {best:>9.2} ms");
    }
}

fn timed(sealed: &Sealed, launcher: &Launcher) -> Duration {
    let spawn = Spawn {
        program: "/bin/true".into(),
        args: Vec::new(),
        cwd: sealed.project(),
        env: Vec::new(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    };
    let start = Instant::now();
    let spawn = launcher.launch(spawn).expect("launched");
    let ran = capture(&spawn, &Watch::detached(), 4096);
    let time = start.elapsed();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.end.ending.is_success(), "{}: {said}", ran.end.ending);
    time
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
        opened: Vec::new(),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
