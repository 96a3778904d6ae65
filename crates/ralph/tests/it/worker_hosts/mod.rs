//! One suite for every worker host: each speaks the same lines and does the same jobs.
//!
//! A host is a row of [`list_hosts`] with its command line. One outside of this repository's binary
//! is named in `RALPH_TEST_WORKER_HOST` as `NAME=COMMAND`; it finds the project in its working
//! directory, the path of ralph in `RALPH`, and a directory for clones in `MACHINES`.

mod every_host;
mod git;
mod git_rounds;
mod start_scripts;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ralph_model::ids::WorkerId;
use ralph_model::outcome::Outcome;
use ralph_model::worker::{Job, JobResult, WorkerEvent};
use ralph_model::worker_protocol::{HostReport, HostRequest, PROTOCOL};
use ralph_testkit::sealed::{Running, Sealed, merge_into, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::repository;

/// Nothing in the suite takes this long unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A kind of worker host.
struct HostRow {
    name: String,
    command: String,
    /// Whether it starts a lost worker again itself.
    has_retries: bool,
}

/// The hosts that the suite is for. The commands run in a shell.
fn list_hosts() -> Vec<HostRow> {
    let row = |name: &str, command: &str| HostRow {
        name: name.into(),
        command: command.into(),
        has_retries: false,
    };
    let mut hosts = vec![
        row("local", "exec \"$RALPH\" __workers \"$MACHINES/shared\""),
        row("git", &format!("exec {}", over_git("--attached", "one"))),
    ];
    let further = std::env::var("RALPH_TEST_WORKER_HOST").unwrap_or_default();
    let further = further.split_once('=').map(|(name, command)| row(name, command));
    // A service outside.
    hosts.extend(further.map(|it| HostRow { has_retries: true, ..it }));
    hosts
}

/// The git worker host, with a machine of this name.
fn over_git(options: &str, machine: &str) -> String {
    format!(
        "\"$RALPH\" __workers --git {options} --poll 300ms --patience 2s --start '{}'",
        on_machine(machine, "")
    )
}

/// A worker on another machine: its own state directory, and its own clone.
fn on_machine(machine: &str, options: &str) -> String {
    format!(
        "XDG_STATE_HOME=\"$MACHINES/{machine}/state\" \"$RALPH\" -C \"$MACHINES/{machine}/clone\" \
         worker --job {{}} --remote \"$RALPH_REMOTE\" --name {machine} --patience 2s {options}"
    )
}

/// A project with a git remote, whose agents report to a directory outside of it.
struct HostWorld {
    sealed: Sealed,
    meet: PathBuf,
}

/// An agent that reports its call and its process, and hangs until there is a file `go`.
fn hangs(meet: &str) -> Value {
    acts(&format!(
        "echo $RALPH_TASK >> {meet}/calls; \
         echo $$ > {meet}/starting; mv {meet}/starting {meet}/agent; \
         while [ ! -e {meet}/go ]; do sleep 0.05; done; echo $RALPH_TASK > $RALPH_TASK.txt"
    ))
}

/// An agent that runs a command in each call and hands its task in.
fn acts(command: &str) -> Value {
    let handoff = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    json!([{ "do": [{ "run": { "command": command } }, { "handoff": handoff }] }])
}

fn task(id: &str) -> Value {
    json!({
        "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
        "status": "pending", "acceptance_criteria": [format!("{id} is there")], "depends_on": []
    })
}

impl HostWorld {
    fn new(tasks: &[&str], further: Value) -> Self {
        Self::with_agent(tasks, &hangs, further)
    }

    /// A world with a script for its agents, which gets the directory where they report.
    fn with_agent(tasks: &[&str], script: &dyn Fn(&str) -> Value, further: Value) -> Self {
        let sealed = repository();
        let meet = sealed.root().join("meet");
        for path in [&meet, &sealed.root().join("machines")] {
            fs::create_dir(path).expect("a directory");
        }
        let mut settings = json!({ "review": { "enabled": false } });
        merge_into(&mut settings, &further);
        sealed.write_script(&script(&meet.to_string_lossy()), &settings);
        let tasks: Vec<Value> = tasks.iter().map(|id| task(id)).collect();
        sealed
            .write_file("plan.json", &format!("{:#}\n", json!({ "project": "p", "tasks": tasks })));
        sealed.commit_all("Settings");
        let remote = sealed.root().join("remote.git").to_string_lossy().into_owned();
        sealed.run_git(&["init", "--quiet", "--bare", &remote]);
        sealed.run_git(&["remote", "add", "origin", &remote]);
        sealed.run_git(&["push", "--quiet", "origin", "HEAD"]);
        Self { sealed, meet }
    }

    fn machines(&self) -> PathBuf {
        self.sealed.root().join("machines")
    }

    /// Runs git in the remote.
    fn run_remote_git(&self, args: &[&str]) -> String {
        let remote = self.sealed.root().join("remote.git").to_string_lossy().into_owned();
        self.sealed.run_git(&[&["-C", &remote], args].concat())
    }

    fn remote_refs(&self) -> Vec<String> {
        let listed = self.run_remote_git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
        listed.lines().map(str::to_owned).collect()
    }

    fn allow(&self) {
        fs::write(self.meet.join("go"), "").expect("written");
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.meet.join("calls")).unwrap_or_default().lines().count()
    }

    fn wait_for_calls(&self, count: usize) {
        wait_until("the agent is called", || self.calls() == count);
    }

    /// The agent's process, once it runs.
    fn agent(&self) -> i32 {
        wait_until("the agent runs", || fs::exists(self.meet.join("agent")).unwrap_or(false));
        let text = fs::read_to_string(self.meet.join("agent")).expect("read");
        text.trim().parse().expect("a pid")
    }

    /// Starts `ralph build` with a worker host, as a person does.
    fn start_build(&self, host: &str) -> Running {
        let host = self.with_variables(host);
        self.sealed.start_ralph(&["build", "--jobs", "2", "--worker-host", &host])
    }

    /// A command with the variables that the commands of hosts use.
    fn with_variables(&self, command: &str) -> String {
        let (ralph, machines) = (env!("CARGO_BIN_EXE_ralph"), self.machines());
        format!("export RALPH='{ralph}' MACHINES='{}'; {command}", machines.display())
    }

    /// Returns the job that a run gives to its worker host.
    fn record_job(&self) -> Job {
        let file = self.sealed.root().join("job.json");
        let hello = HostReport::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            send: true,
        };
        let host = format!(
            "read -r hello; echo '{}'; IFS= read -r job && printf '%s\\n' \"$job\" > '{}'",
            hello.to_line().expect("JSON").trim(),
            file.display()
        );
        let ended = self.sealed.run_ralph(&["build", "--jobs", "2", "--worker-host", &host]);
        let text = fs::read_to_string(&file).unwrap_or_default();
        match serde_json::from_str(&text) {
            Ok(HostRequest::Start { job }) => *job,
            other => panic!("{other:?}\n{}", ended.stderr),
        }
    }

    fn talk_to(&self, host: &HostRow) -> HostTalk {
        HostTalk::start(&self.sealed, &self.with_variables(&host.command))
    }
}

/// A worker host that the test talks to.
struct HostTalk {
    child: Child,
    input: Option<ChildStdin>,
    reports: Receiver<HostReport>,
}

impl HostTalk {
    fn start(sealed: &Sealed, command: &str) -> Self {
        let mut shell = sealed.build_command("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("started");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let report = serde_json::from_str(&line).expect("a line of the protocol");
                if sender.send(report).is_err() {
                    return;
                }
            }
        });
        let mut talk = Self { child, input, reports };
        talk.send(&HostRequest::Hello { protocol: PROTOCOL, version: "any".to_owned() });
        match talk.reports.recv_timeout(TIMEOUT) {
            Ok(HostReport::Hello { protocol: PROTOCOL, version, .. }) => {
                assert_eq!(version, env!("CARGO_PKG_VERSION"));
            }
            other => panic!("no hello first: {other:?}"),
        }
        talk
    }

    fn send(&mut self, request: &HostRequest) {
        let line = request.to_line().expect("JSON");
        let input = self.input.as_mut().expect("open");
        input.write_all(line.as_bytes()).expect("it reads");
    }

    fn start_job(&mut self, job: &Job) {
        self.send(&HostRequest::Start { job: Box::new(job.clone()) });
    }

    /// Waits for the end of a worker. Returns its result or why it is lost, and what it reported
    /// before.
    fn wait_for_end(&self) -> (Result<JobResult, String>, Vec<WorkerEvent>) {
        let (begun, mut before) = (Instant::now(), Vec::new());
        loop {
            let left = TIMEOUT.saturating_sub(begun.elapsed());
            match self.reports.recv_timeout(left) {
                Ok(HostReport::Event(WorkerEvent::Ended { result, .. })) => {
                    return (Ok(*result), before);
                }
                Ok(HostReport::Event(WorkerEvent::Lost { reason, .. })) => {
                    return (Err(reason), before);
                }
                Ok(HostReport::Event(event)) => before.push(event),
                other => panic!("no end: {other:?}, after {before:#?}"),
            }
        }
    }

    fn kill(mut self) {
        kill(i32::try_from(self.child.id()).expect("a pid"));
        self.child.wait().expect("it was started here");
    }

    fn say_bye(mut self) {
        self.send(&HostRequest::Bye);
        self.input = None;
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn kill(pid: i32) {
    assert!(pid > 1);
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("it is there");
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The worker processes that belong to a world.
fn find_workers(world: &HostWorld) -> Vec<i32> {
    let root = world.sealed.root().to_string_lossy().into_owned();
    let pids = fs::read_dir("/proc").expect("there").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_worker = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(&root) && line.split('\0').any(|word| word == "__worker")
    };
    let found: Vec<i32> = pids.filter(is_worker).collect();
    // What a worker starts looks like it until it is another program.
    found.iter().copied().filter(|pid| !found.contains(&find_parent(*pid))).collect()
}

fn find_parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// A job like another one, for a worker of its own.
fn with_name(job: &Job, name: &str) -> Job {
    let mut job = job.clone();
    job.assignment.worker = WorkerId(format!("{}-{name}", job.assignment.worker));
    job
}

#[track_caller]
fn assert_complete(world: &HostWorld, result: &Result<JobResult, String>) {
    let result = result.as_ref().expect("a result");
    assert_eq!(result.outcome, Outcome::Complete);
    let commit = &result.commit.as_ref().expect("a commit").0;
    let repository = result.repository.to_string_lossy().into_owned();
    world.sealed.run_git(&["-C", &repository, "cat-file", "-e", commit]);
}

/// Tries every host in a world of its own.
#[expect(clippy::print_stderr, reason = "which host fails must be seen")]
fn for_each_host(scene: impl Fn(&HostRow, &HostWorld, Job)) {
    for host in list_hosts() {
        eprintln!("worker host: {}", host.name);
        let world = HostWorld::new(&["a"], json!({}));
        let job = world.record_job();
        scene(&host, &world, job);
        assert_eq!(world.sealed.survivors(), Vec::<String>::new(), "{}", host.name);
    }
}

#[test]
fn a_run_refuses_a_misspelled_host() {
    let world = HostWorld::new(&["a"], json!({}));
    for (host, reported) in [
        ("hpcc", "`hpcc` is not in `parallel.workerHosts` and no program has this name"),
        ("fleet", "`ralph-fleet` must be on the `PATH` of this machine"),
    ] {
        let ended = world.sealed.run_ralph(&["build", "--jobs", "2", "--worker-host", host]);
        let ended = ended.expect_code(2).stderr;
        let joined = ended.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(reported), "{host}: {ended}");
    }
    assert_eq!(world.calls(), 0);
    assert_eq!(world.sealed.runs().len(), 0);
}

#[test]
fn a_run_refuses_a_host_of_another_version() {
    let world = HostWorld::new(&["a"], json!({}));
    let hello = HostReport::Hello { protocol: PROTOCOL, version: "0.0.1".to_owned(), send: true };
    let host = format!("read -r x; echo '{}'; read -r x", hello.to_line().expect("JSON").trim());
    let ended = world.sealed.run_ralph(&["build", "--jobs", "2", "--worker-host", &host]);
    ended.expect_code(2).expect_stderr("0.0.1");
    assert_eq!(world.calls(), 0);
}
