//! How processes in a sandbox end: exit codes, signals, stops, and nothing left running.

use std::fs;
use std::path::Path;
use std::process::Command;

use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{backends, inside, script};
use crate::sealed;

#[test]
fn codes_and_signals_come_through_unchanged() {
    for backend in backends() {
        let sealed = sealed();
        for (body, expect) in [
            ("exit 0", 0),
            ("exit 7", 7),
            ("exit 125", 125),
            ("exit 255", 255),
            ("kill -TERM $$", 128 + 15),
            ("kill -KILL $$", 128 + 9),
            ("kill -INT $$", 128 + 2),
            ("kill -SEGV $$", 128 + 11),
        ] {
            let ran = script(&sealed, backend, body);
            assert_eq!(ran.code, Some(expect), "{backend}: {body}: {}", ran.stderr);
        }
    }
}

#[test]
fn both_streams_and_the_input_come_through() {
    for backend in backends() {
        let ran = script(&sealed(), backend, "echo out; echo err >&2; cat | wc -c");
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n0\n", "err\n"), "{backend}");
    }
}

#[test]
fn failed_start_in_the_sandbox_is_reported_with_its_path() {
    for backend in backends() {
        let sealed = sealed();
        fs::write(sealed.root().join("home/tool"), "#!/bin/sh\n").expect("written");
        let tool = sealed.root().join("home/tool");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&tool, mode).expect("a mode");
        let tool = tool.to_string_lossy().into_owned();
        let hidden = inside(&sealed, backend, &[&tool]);
        assert_eq!(hidden.code, Some(125), "{backend}: {}", hidden.stderr);
        let line = hidden.stderr.lines().last().unwrap_or_default();
        assert!(line.starts_with("ralph sandbox: "), "{backend}: {line}");
        assert!(line.contains(&tool) && line.contains("sandbox.home"), "{backend}: {line}");
        let missing = inside(&sealed, backend, &["no-such-program"]);
        assert_eq!(missing.code, Some(4), "{backend}");
        assert!(missing.stderr.contains("`no-such-program` was not found"), "{}", missing.stderr);
    }
}

/// The processes of a sandbox, as a supervisor sees them: the leader of its own group.
struct Held {
    sealed: Sealed,
    child: std::process::Child,
}

impl Held {
    /// Starts a script in a sandbox that only this test supervises. The script writes `ready`.
    fn start(backend: &str, body: &str) -> Self {
        use std::os::unix::process::CommandExt as _;
        let sealed = sealed();
        let mut command: Command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command
            .args(["sandbox", "exec", "--backend", backend, "--network", "none", "--"])
            .args(["sh", "-c", body])
            .process_group(0);
        let child = command.spawn().expect("it starts");
        sealed.wait_for("ready");
        Self { sealed, child }
    }

    /// Returns the process that sets up the sandbox: the child of ralph that leads a group.
    fn outer(&self) -> Pid {
        let file = format!("/proc/{0}/task/{0}/children", self.child.id());
        let text = fs::read_to_string(file).expect("children");
        let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
        Pid::from_raw(pid.expect("one child")).expect("not zero")
    }

    fn code(mut self) -> Option<i32> {
        let status = self.child.wait().expect("it ends");
        assert_eq!(self.sealed.survivors(), Vec::<String>::new());
        status.code()
    }
}

#[test]
fn signals_to_the_group_reach_the_program_which_may_take_its_time() {
    for backend in backends() {
        let held = Held::start(
            backend,
            "trap 'echo x > got-term; exit 3' TERM; echo x > ready; while :; do sleep 0.01; done",
        );
        kill_process_group(held.outer(), Signal::TERM).expect("it is there");
        held.sealed.wait_for("got-term");
        assert_eq!(held.code(), Some(3), "{backend}");
    }
}

#[test]
fn a_signal_that_the_program_does_not_catch_ends_it_as_such() {
    for backend in backends() {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
            let held = Held::start(backend, "echo x > ready; exec sleep 60");
            kill_process_group(held.outer(), signal).expect("it is there");
            assert_eq!(held.code(), Some(code), "{backend} {signal:?}");
        }
    }
}

#[test]
fn stopped_program_continues() {
    for backend in backends() {
        let held = Held::start(
            backend,
            "trap 'exit 4' TERM; echo x > ready; while :; do echo x >> beat; sleep 0.01; done",
        );
        let tree = descendants(held.outer());
        for pid in &tree {
            let _ = kill_process(*pid, Signal::STOP);
        }
        let beat = held.sealed.project_dir().join("beat");
        let size = || fs::metadata(&beat).map_or(0, |about| about.len());
        wait_until("it is stopped", || {
            let before = size();
            std::thread::sleep(std::time::Duration::from_millis(60));
            size() == before
        });
        let stopped_at = size();
        for pid in tree.iter().rev() {
            let _ = kill_process(*pid, Signal::CONT);
        }
        wait_until("it continues", || size() > stopped_at);
        kill_process_group(held.outer(), Signal::TERM).expect("it is there");
        assert_eq!(held.code(), Some(4), "{backend}");
    }
}

#[test]
fn killing_the_outermost_process_leaves_nothing() {
    for backend in backends().into_iter().filter(|it| *it != "landlock") {
        let held = Held::start(
            backend,
            "(setsid sleep 60 &) ; trap '' TERM; echo x > ready; while :; do sleep 0.01; done",
        );
        let outer = held.outer();
        let tree = descendants(outer);
        assert!(tree.len() >= 3, "{backend}: {tree:?}");
        kill_process(outer, Signal::KILL).expect("it is there");
        wait_until("all are gone", || tree.iter().all(|pid| !is_alive(*pid)));
        assert_eq!(held.code(), Some(137), "{backend}");
    }
}

#[test]
fn daemons_end_with_the_program() {
    for backend in backends() {
        let sealed = sealed();
        let body = "setsid sh -c 'echo x > ready; while :; do echo x >> beat; sleep 0.01; done' \
                    > /dev/null 2>&1 & while ! test -e ready; do sleep 0.01; done";
        assert_eq!(script(&sealed, backend, body).code, Some(0), "{backend}");
        assert_eq!(sealed.survivors(), Vec::<String>::new(), "{backend}");
    }
}

#[test]
fn no_placeholder_files_remain() {
    for backend in backends() {
        let sealed = sealed();
        let names = || -> Vec<String> {
            let entries = fs::read_dir(sealed.project_dir()).expect("readable").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(script(&sealed, backend, "true").code, Some(0));
        assert_eq!(names(), Vec::<String>::new(), "{backend}");
    }
}

fn descendants(pid: Pid) -> Vec<Pid> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        let file = format!("/proc/{0}/task/{0}/children", pid.as_raw_pid());
        let text = fs::read_to_string(file).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    found
}

fn is_alive(pid: Pid) -> bool {
    let stat =
        fs::read_to_string(Path::new("/proc").join(pid.as_raw_pid().to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}
