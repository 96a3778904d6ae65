//! Whole builds on nodes: the built `ralph` on both ends, its scripted agent, real git.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::setting::{
    FleetPlace, FleetProcess, Form, HEARTBEAT, Network, ServerProcess, find_children, find_ralph,
    send_signal, test_in_both_forms, wait_until,
};

test_in_both_forms! {
    a_list_lands_although_a_node_is_killed
    another_node_continues_after_the_last_iteration
    a_killed_coordinator_is_resumed_and_no_call_is_paid_twice
    a_result_that_the_remote_refuses_is_pushed_by_a_later_attempt_without_an_agent
    a_result_of_a_node_without_network_does_not_land
    the_late_push_of_a_node_that_hung_is_ignored
    a_job_of_another_version_is_refused_and_not_tried_again
}

/// A place whose project has these tasks. Agents note their call, wait for the file `go`, and
/// write a file named after the task.
fn project(form: Form, tasks: &[&str]) -> FleetPlace {
    let work = "while [ ! -e ROOT/go ]; do sleep 0.05; done; echo $RALPH_TASK > $RALPH_TASK.txt";
    project_with(form, tasks, work, &json!([]))
}

/// A place whose agents note their call and run a command, in which `ROOT` is the place.
fn project_with(form: Form, tasks: &[&str], work: &str, gates: &Value) -> FleetPlace {
    let place = FleetPlace::new(ServerProcess::shared(form));
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

fn wait_for_calls(place: &FleetPlace, count: usize) {
    wait_until(&format!("{count} calls\n{}", log(place, "build")), || calls(place) >= count);
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
    let place = project(Form::Standalone, &["a", "b"]);
    let (code, _, _) = start_build(&place, "2").wait_for_end();
    assert_ne!(code, Some(0));
    let log = log(&place, "build");
    assert!(log.contains("no node takes jobs") && log.contains("ralph-fleet join"), "{log}");
    assert_eq!(calls(&place), 0);
}

fn a_list_lands_although_a_node_is_killed(form: Form) {
    let place = project(form, &["a", "b", "c", "d"]);
    let mut first = place.start_node("n1");
    let run = start_build(&place, "3");
    wait_for_calls(&place, 2);
    let _second = place.start_node("n2");
    wait_for_calls(&place, 3);
    first.kill();
    // The second node has one slot left.
    wait_for_calls(&place, 4);
    fs::write(place.path().join("go"), "").expect("written");
    assert_landed(&place, run, "build", &["a", "b", "c", "d"]);
}

fn another_node_continues_after_the_last_iteration(form: Form) {
    let work = "if [ ! -e half1 ]; then echo 1 > half1; \
                else while [ ! -e ROOT/go ]; do sleep 0.05; done; echo 2 > half2; fi";
    let gates = json!([{ "command": "test -e half2" }]);
    let place = project_with(form, &["a"], work, &gates);
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

fn a_killed_coordinator_is_resumed_and_no_call_is_paid_twice(form: Form) {
    let place = project(form, &["a", "b"]);
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
    let place = project(Form::Standalone, &["a"]);
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

fn a_result_that_the_remote_refuses_is_pushed_by_a_later_attempt_without_an_agent(form: Form) {
    let place = project(form, &["a"]);
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
    let place = project_with(Form::Standalone, &["a"], work, &json!([]));
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

fn list_refs(place: &FleetPlace) -> String {
    git(place, &["-C", "list.git", "for-each-ref", "--format=%(refname)"])
}

fn a_result_of_a_node_without_network_does_not_land(form: Form) {
    // The clones of a node are in its directory: each agent waits for its own node.
    let work = r#"case "$PWD" in */node-n1/*) node=n1 ;; *) node=n2 ;; esac
        while [ ! -e ROOT/go-$node ]; do sleep 0.05; done; echo $node > x.txt"#;
    let place = project_with(form, &["a"], work, &json!([]));
    let network = Network::to(place.server.port);
    let _first = place.start_node_on(None, "n1", &format!("127.0.0.1:{}", network.port));
    let run = start_build(&place, "2");
    wait_for_calls(&place, 1);
    let _second = place.start_node("n2");
    // The server is out of reach, and the git remote is not: the worker ends and pushes.
    network.set_cut(true);
    fs::write(place.path().join("go-n1"), "").expect("written");
    wait_until("the first node pushed a result", || list_refs(&place).contains("/results/"));
    wait_until("the second node works", || place.read_node_log("n2").contains("started"));
    network.set_cut(false);
    // Before the second has anything.
    assert!(!git_in_project(&place, &["log", "--format=%b"]).contains("Ralph-Task"));
    fs::write(place.path().join("go-n2"), "").expect("written");
    assert_landed(&place, run, "build", &["a"]);
    let landed = fs::read_to_string(place.path().join("project/x.txt")).expect("a file");
    assert_eq!(landed, "n2\n");
}

/// `ralph` on a node, which meets jobs as a run of a later version would have written them.
const LATER_VERSION: &str = r#"#!/bin/sh
if [ "$1" = worker ]; then
    echo worker >> "ROOT/workers"
    for it in "$@"; do case "$it" in refs/*/jobs/*) job=$it ;; esac; done
    (
        cd "ROOT/list.git" || exit
        git show "$job:job.json" | sed 's/"ralph":"[^"]*"/"ralph":"99.0.0"/' > ../job.json
        tree=$(printf '100644 blob %s\tjob.json\n' "$(git hash-object -w ../job.json)" | git mktree)
        git update-ref "$job" "$(git commit-tree -m later -p "$job^" "$tree")"
    ) 2>> "ROOT/later.log"
fi
exec "ROOT/ralph" "$@"
"#;

fn a_job_of_another_version_is_refused_and_not_tried_again(form: Form) {
    let place = project(form, &["a"]);
    symlink(find_ralph(), place.path().join("ralph")).expect("a link");
    fs::remove_file(place.path().join("bin/ralph")).expect("removed");
    let root = place.path().to_string_lossy().into_owned();
    place.write_program("ralph", &LATER_VERSION.replace("ROOT", &root));
    let _node = place.start_node("n1");
    let (code, _, _) = start_build(&place, "2").wait_for_end();
    let log = log(&place, "build");
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("99.0.0"), "{log}");
    let workers = fs::read_to_string(place.path().join("workers")).expect("a file");
    assert_eq!((workers.as_str(), calls(&place)), ("worker\n", 0));
}

fn the_late_push_of_a_node_that_hung_is_ignored(form: Form) {
    let place = project(form, &["a"]);
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
