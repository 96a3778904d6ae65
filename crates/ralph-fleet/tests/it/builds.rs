//! Whole builds on nodes: the built `ralph` on both ends, its scripted agent, real git.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::setting::{
    FleetPlace, FleetProcess, HEARTBEAT, ServerProcess, find_children, find_ralph, send_signal,
    wait_until,
};

/// A place whose project has these tasks. Agents note their call, wait for the file `go`, and
/// write a file named after the task.
fn project(tasks: &[&str]) -> FleetPlace {
    let work = "while [ ! -e ROOT/go ]; do sleep 0.05; done; echo $RALPH_TASK > $RALPH_TASK.txt";
    project_with(tasks, work, &json!([]))
}

/// A place whose agents note their call and run a command, in which `ROOT` is the place.
fn project_with(tasks: &[&str], work: &str, gates: &Value) -> FleetPlace {
    let place = FleetPlace::new(ServerProcess::shared());
    let bin = place.path().join("bin");
    fs::remove_file(bin.join("ralph")).expect("removed");
    symlink(find_ralph(), bin.join("ralph")).expect("a link");
    symlink(env!("CARGO_BIN_EXE_ralph-fleet"), bin.join("ralph-fleet")).expect("a link");
    let root = place.path().to_string_lossy().into_owned();
    let command = format!("echo $RALPH_TASK >> ROOT/calls; {work}").replace("ROOT", &root);
    let done = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    let calls = json!([{ "do": [{ "run": { "command": command } }, { "handoff": done }] }]);
    let scenario = place.path().join("scenario.json");
    fs::write(&scenario, json!({ "calls": calls }).to_string()).expect("written");
    let settings = json!({
        "agent": { "command": "sim", "flags": [scenario] },
        "review": { "enabled": false },
        "preventSleep": false,
        "gates": gates,
    });
    let home = place.path().join("home/.config/ralph");
    fs::create_dir_all(&home).expect("a directory");
    fs::write(home.join("settings.json"), settings.to_string()).expect("written");
    let task = |id: &&str| {
        json!({
            "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
            "status": "pending", "acceptance_criteria": [format!("{id} is there")], "depends_on": []
        })
    };
    let tasks: Vec<Value> = tasks.iter().map(task).collect();
    git(&place, &["init", "--quiet", "--bare", "--initial-branch=main", "list.git"]);
    git(&place, &["clone", "--quiet", "list.git", "project"]);
    let plan = json!({ "project": "p", "tasks": tasks });
    fs::write(place.path().join("project/plan.json"), format!("{plan:#}\n")).expect("written");
    for args in [&["add", "-A"] as &[&str], &["commit", "-qm", "Begin"], &["push", "-q"]] {
        git_in_project(&place, args);
    }
    place
}

fn git(place: &FleetPlace, args: &[&str]) -> String {
    let output = place.build_command("git").args(args).output().expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn git_in_project(place: &FleetPlace, args: &[&str]) -> String {
    git(place, &[&["-C", "project"], args].concat())
}

/// Runs `ralph` in the project.
fn start_ralph(place: &FleetPlace, args: &[&str]) -> FleetProcess {
    let log = fs::File::create(place.path().join(format!("{}.log", args[0]))).expect("a file");
    let mut command = place.build_command("ralph");
    command.args(args).current_dir(place.path().join("project"));
    command.env("FLEET_HEARTBEAT_TIMEOUT", HEARTBEAT.as_secs().to_string());
    let child = command.stdout(Stdio::null()).stderr(log).spawn();
    FleetProcess::from_child(child.expect("it starts"))
}

fn start_build(place: &FleetPlace, jobs: &str) -> FleetProcess {
    start_ralph(place, &["build", "--jobs", jobs, "--worker-host", "fleet"])
}

fn calls(place: &FleetPlace) -> usize {
    fs::read_to_string(place.path().join("calls")).unwrap_or_default().lines().count()
}

fn wait_for_calls(place: &FleetPlace, count: usize) -> Instant {
    wait_until(&format!("{count} calls\n{}", log(place, "build")), || calls(place) >= count);
    Instant::now()
}

fn log(place: &FleetPlace, name: &str) -> String {
    fs::read_to_string(place.path().join(format!("{name}.log"))).unwrap_or_default()
}

/// Asserts that a run ended well and each task landed once.
#[track_caller]
fn assert_landed(place: &FleetPlace, run: FleetProcess, name: &str, tasks: &[&str]) {
    let (code, _, _) = run.wait_for_end();
    assert_eq!(code, Some(0), "{}\n{}", log(place, name), place.read_node_log("n2"));
    let format = "--format=%(trailers:key=Ralph-Task,valueonly)";
    let text = git_in_project(place, &["log", format]);
    let mut landed: Vec<&str> = text.lines().filter(|it| !it.is_empty()).collect();
    landed.sort_unstable();
    assert_eq!(landed, tasks);
    assert_eq!(git_in_project(place, &["status", "--porcelain"]), "");
}

#[test]
fn a_build_without_nodes_says_how_to_get_one() {
    let place = project(&["a", "b"]);
    let (code, _, _) = start_build(&place, "2").wait_for_end();
    assert_ne!(code, Some(0));
    let log = log(&place, "build");
    assert!(log.contains("no node takes jobs") && log.contains("ralph-fleet join"), "{log}");
    assert_eq!(calls(&place), 0);
}

#[test]
fn a_list_lands_although_a_node_is_killed() {
    let place = project(&["a", "b", "c", "d"]);
    let mut first = place.start_node("n1");
    let run = start_build(&place, "3");
    wait_for_calls(&place, 2);
    let _second = place.start_node("n2");
    wait_for_calls(&place, 3);
    let killed = first.kill();
    // The second node has one slot left.
    let took = wait_for_calls(&place, 4) - killed;
    println!("an agent works again after {took:?}");
    fs::write(place.path().join("go"), "").expect("written");
    assert_landed(&place, run, "build", &["a", "b", "c", "d"]);
}

#[test]
fn another_node_continues_after_the_last_iteration() {
    let work = "if [ ! -e half1 ]; then echo 1 > half1; \
                else while [ ! -e ROOT/go ]; do sleep 0.05; done; echo 2 > half2; fi";
    let gates = json!([{ "command": "test -e half2" }]);
    let place = project_with(&["a"], work, &gates);
    let mut first = place.start_node("n1");
    let run = start_build(&place, "2");
    wait_for_calls(&place, 2);
    wait_until("the work is on the remote", || {
        let refs = git(&place, &["-C", "list.git", "for-each-ref", "--format=%(refname)"]);
        let journal = refs.lines().find(|it| it.contains("/journals/"));
        let list = |it| git(&place, &["-C", "list.git", "ls-tree", "--name-only", it]);
        journal.is_some_and(|it| list(it).contains("work.json"))
    });
    let _second = place.start_node("n2");
    first.kill();
    // One call on the second node, not two.
    wait_for_calls(&place, 3);
    fs::write(place.path().join("go"), "").expect("written");
    assert_landed(&place, run, "build", &["a"]);
    assert_eq!(calls(&place), 3);
    assert!(log(&place, "build").contains("taken over from n1"), "{}", log(&place, "build"));
    for half in ["half1", "half2"] {
        assert!(place.path().join("project").join(half).is_file(), "{half}");
    }
}

#[test]
fn a_killed_coordinator_is_resumed_and_no_call_is_paid_twice() {
    let place = project(&["a", "b"]);
    let _node = place.start_node("n1");
    let mut run = start_build(&place, "2");
    wait_for_calls(&place, 2);
    run.kill();
    // One job ends while there is no coordinator; the other waits, too.
    fs::write(place.path().join("go"), "").expect("written");
    let run = start_ralph(&place, &["resume"]);
    assert_landed(&place, run, "resume", &["a", "b"]);
    assert_eq!(calls(&place), 2);
}

/// A hook of the remote that refuses some refs as long as there is a file `no` in it.
fn refuse_refs(place: &FleetPlace, kind: &str) {
    let remote = place.path().join("list.git");
    let hook = remote.join("hooks/pre-receive");
    let text = format!(
        "#!/bin/sh\nif [ -e no ] && grep -q '/{kind}/'; then echo 'the disk is full' >&2; exit 1; fi\n"
    );
    fs::write(&hook, text).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(remote.join("no"), "").expect("written");
}

fn accept_refs(place: &FleetPlace) {
    fs::remove_file(place.path().join("list.git/no")).expect("removed");
}

/// Waits until two attempts of the node could not push.
fn wait_for_refusals(place: &FleetPlace) {
    let count = || place.read_node_log("n1").matches("refused the push").count();
    wait_until("two attempts could not push", || count() >= 2);
}

#[test]
fn a_remote_that_refuses_jobs_ends_the_run_with_its_words() {
    let place = project(&["a"]);
    refuse_refs(&place, "jobs");
    let _node = place.start_node("n1");
    let (code, _, _) = start_build(&place, "2").wait_for_end();
    let log = log(&place, "build");
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("the disk is full"), "{log}");
    // The node had joined just before.
    assert!(!log.contains("no node takes jobs"), "{log}");
    assert_eq!(calls(&place), 0);
    accept_refs(&place);
    fs::write(place.path().join("go"), "").expect("written");
    assert_landed(&place, start_ralph(&place, &["resume"]), "resume", &["a"]);
    assert_eq!(calls(&place), 1);
}

#[test]
fn a_result_that_the_remote_refuses_is_pushed_by_a_later_attempt_without_an_agent() {
    let place = project(&["a"]);
    refuse_refs(&place, "results");
    fs::write(place.path().join("go"), "").expect("written");
    let _node = place.start_node("n1");
    let run = start_build(&place, "2");
    wait_for_refusals(&place);
    assert!(!git_in_project(&place, &["log", "--format=%b"]).contains("Ralph-Task"));
    accept_refs(&place);
    assert_landed(&place, run, "build", &["a"]);
    assert_eq!(calls(&place), 1);
}

/// A small disk for the remote, which is unmounted in the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Moves the remote to a disk of 2 MB, if this user may mount one.
    fn mount(place: &FleetPlace) -> Option<Self> {
        let remote = place.path().join("list.git");
        let before = place.path().join("before");
        fs::rename(&remote, &before).expect("moved");
        fs::create_dir(&remote).expect("a directory");
        let disk = Self(remote);
        if !disk.run("mount", &["-t", "tmpfs", "-o", "size=2m", "none"]) {
            return None;
        }
        let mut copy = place.build_command("cp");
        copy.arg("-a").arg(before.join(".")).arg(&disk.0);
        assert!(copy.status().expect("it runs").success());
        Some(disk)
    }

    fn grow(&self) {
        assert!(self.run("mount", &["-o", "remount,size=50m"]));
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let mut command = Command::new(program);
        command.args(args).arg(&self.0).stderr(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run("umount", &["--lazy"]);
    }
}

#[test]
fn a_full_remote_costs_no_agent_call_and_the_work_lands_once_there_is_room() {
    let work = "head -c 3000000 /dev/urandom > $RALPH_TASK.txt";
    let place = project_with(&["a"], work, &json!([]));
    let Some(disk) = SmallDisk::mount(&place) else {
        eprintln!("left out: this user cannot mount a small disk");
        return;
    };
    let _node = place.start_node("n1");
    let run = start_build(&place, "2");
    wait_for_refusals(&place);
    disk.grow();
    assert_landed(&place, run, "build", &["a"]);
    assert_eq!(calls(&place), 1);
}

#[test]
fn the_late_push_of_a_node_that_hung_is_ignored() {
    let place = project(&["a"]);
    let first = place.start_node("n1");
    let run = start_build(&place, "2");
    wait_for_calls(&place, 1);
    let workers = find_children(first.id());
    assert!(!workers.is_empty());
    let _second = place.start_node("n2");
    for pid in workers.iter().copied().chain([first.id()]) {
        send_signal(pid, Signal::STOP);
    }
    wait_for_calls(&place, 2);
    // Both agents end now, but the worker of the first goes no further before it is continued.
    fs::write(place.path().join("go"), "").expect("written");
    wait_until("it landed", || git_in_project(&place, &["log", "--format=%b"]).contains("Task: a"));
    for pid in workers.iter().copied().chain([first.id()]) {
        send_signal(pid, Signal::CONT);
    }
    assert_landed(&place, run, "build", &["a"]);
    // The first node is free again: its worker has ended.
    wait_until("the worker of the first node ended", || find_children(first.id()).is_empty());
    assert_eq!(git_in_project(&place, &["status", "--porcelain"]), "");
}
