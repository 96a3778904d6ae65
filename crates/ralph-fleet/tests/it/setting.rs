//! What the tests run in: a server, nodes, a bare repository, and a stand-in for `ralph worker`.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Nothing takes this long unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The lease of nodes in tests.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);

/// What a server runs jobs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Standalone,
    Workflow,
}

impl Form {
    /// Returns the options of a server that can do no more. Server 1.31 is like the second without
    /// them; earlier ones do not know the call, which has the same answer.
    fn server_options(self) -> &'static [&'static str] {
        match self {
            Self::Standalone => &[],
            Self::Workflow => &["--dynamic-config-value", "activity.enableStandalone=false"],
        }
    }
}

/// Makes two tests of each scene, one for each form of jobs.
macro_rules! test_in_both_forms {
    ($($scene:ident)*) => {
        mod standalone {
            $(#[test] fn $scene() { super::$scene(crate::setting::Form::Standalone); })*
        }
        mod workflow {
            $(#[test] fn $scene() { super::$scene(crate::setting::Form::Workflow); })*
        }
    };
}
pub(crate) use test_in_both_forms;

/// The stand-in for `ralph worker`. What it does is the beginning of the job's name.
const WORKER: &str = r#"#!/usr/bin/python3
import os, select, sys, time
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
place, node = os.environ["TEST_PLACE"], os.environ["TEST_NODE"]
job, label = value("--job").rsplit("/", 1)[1], value("--attempt")
def note(what):
    with open(place + "/log", "a") as log:
        log.write(f"{what} {job} {label} {node} {time.time()}\n")
assert arguments[0] == "worker" and "--lifeline" in arguments, arguments
note("began")
print('{"event":{"started":{"worker":"w","place":"%s/s1"}}}' % node, flush=True)
if job.startswith("waits"):
    while not os.path.exists(place + "/go-" + job):
        if select.select([0], [], [], 0.02)[0] and os.read(0, 1) == b"":
            note("stopped")
            sys.exit(130)
elif job.startswith("refused"):
    sys.exit(2)
elif job.startswith("withdrawn"):
    sys.exit(3)
elif job.startswith("fails"):
    sys.exit(1)
note("ended")
"#;

/// A development server.
pub(crate) struct ServerProcess {
    child: Mutex<Child>,
    pub(crate) port: u16,
    /// Where it runs, if not on loopback.
    machine: Option<Machine>,
    pub(crate) form: Form,
    data: TempDir,
}

impl ServerProcess {
    /// Returns the server of all tests that do not end it. It ends with the last of them.
    pub(crate) fn shared(form: Form) -> Arc<Self> {
        static SHARED: [Mutex<Weak<ServerProcess>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
        let mut shared = SHARED[form as usize].lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(form));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub(crate) fn start(form: Form) -> Self {
        Self::start_on(None, form)
    }

    /// Starts a server on a machine, if it is not on loopback.
    pub(crate) fn start_on(machine: Option<Machine>, form: Form) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let port = find_free_port();
        let child = Mutex::new(start_server(data.path(), port, machine.as_ref(), form));
        Self { child, port, machine, form, data }
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> String {
        let ip = self.machine.as_ref().map_or(Ipv4Addr::LOCALHOST, |it| it.ip);
        format!("{ip}:{}", self.port)
    }

    /// Kills the server and starts it again on its file.
    pub(crate) fn kill_and_restart_after(&self, pause: Duration) {
        let mut child = self.child.lock().expect("a lock");
        child.kill().expect("it runs");
        child.wait().expect("it ended");
        thread::sleep(pause);
        *child = start_server(self.data.path(), self.port, self.machine.as_ref(), self.form);
    }

    /// Returns the memory of the server in bytes.
    pub(crate) fn memory(&self) -> u64 {
        memory_of(self.child.lock().expect("a lock").id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let child = self.child.get_mut().expect("a lock");
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn start_server(data: &Path, port: u16, machine: Option<&Machine>, form: Form) -> Child {
    let program = std::env::var_os("RALPH_TEST_TEMPORAL")
        .expect("RALPH_TEST_TEMPORAL: the program that scripts/install-temporal prints");
    let ip = machine.map_or(Ipv4Addr::LOCALHOST, |it| it.ip);
    let mut command = build_command_on(machine, &program);
    command
        .args(["server", "start-dev", "--headless", "--log-level", "never"])
        // On one address that is not loopback, its parts do not find each other.
        .args(["--ip", if machine.is_some() { "0.0.0.0" } else { "127.0.0.1" }])
        .args(["--port", &port.to_string(), "--db-filename"])
        .arg(data.join("temporal.db"))
        .args(form.server_options())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the server starts");
    wait_until("the server serves", || {
        // It picks further ports, and another server that starts may be faster.
        if child.try_wait().expect("a child").is_some() {
            child = command.spawn().expect("the server starts");
        }
        let mut command = build_command_on(machine, &program);
        command.args(["operator", "cluster", "health", "--address", &format!("{ip}:{port}")]);
        command.output().is_ok_and(|it| it.status.success())
    });
    child
}

/// A machine: a network namespace.
#[derive(Clone)]
pub(crate) struct Machine {
    namespace: String,
    ip: Ipv4Addr,
}

/// Two machines with a cable between them.
pub(crate) struct TwoMachines {
    pub(crate) first: Machine,
    pub(crate) second: Machine,
}

impl TwoMachines {
    /// Returns two machines, if this user may make them.
    pub(crate) fn make() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |it: &str| format!("fleet-{it}-{}-{number}", std::process::id());
        let machine =
            |it: &str, last| Machine { namespace: name(it), ip: Ipv4Addr::new(10, 231, 77, last) };
        let machines = Self { first: machine("a", 1), second: machine("b", 2) };
        let is_made = [&machines.first, &machines.second]
            .iter()
            .all(|it| run_ip(&["netns", "add", &it.namespace]));
        let (a, b) = (&machines.first.namespace, &machines.second.namespace);
        let is_joined = is_made
            && run_ip(&[
                "link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable",
                "netns", b,
            ])
            && [&machines.first, &machines.second].iter().all(|it| {
                let address = format!("{}/30", it.ip);
                run_ip(&["-n", &it.namespace, "address", "add", &address, "dev", "cable"])
                    && run_ip(&["-n", &it.namespace, "link", "set", "lo", "up"])
                    && run_ip(&["-n", &it.namespace, "link", "set", "cable", "up"])
            });
        is_joined.then_some(machines)
    }

    /// Pulls the cable, or plugs it in.
    pub(crate) fn set_cable(&self, state: &str) {
        assert!(run_ip(&["-n", &self.second.namespace, "link", "set", "cable", state]));
    }
}

impl Drop for TwoMachines {
    fn drop(&mut self) {
        for machine in [&self.first, &self.second] {
            run_ip(&["netns", "delete", &machine.namespace]);
        }
    }
}

const IP: &str = "/usr/sbin/ip";

fn run_ip(args: &[&str]) -> bool {
    Command::new(IP).args(args).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

fn build_command_on(machine: Option<&Machine>, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let Some(machine) = machine else { return Command::new(program) };
    let mut command = Command::new(IP);
    command.args(["netns", "exec", &machine.namespace]).arg(program);
    command
}

pub(crate) fn find_free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A place with a repository, and what is on the `PATH`.
pub(crate) struct FleetPlace {
    root: TempDir,
    pub(crate) server: Arc<ServerProcess>,
}

/// A process of a test, which ends with it.
pub(crate) struct FleetProcess {
    child: Child,
}

impl FleetPlace {
    pub(crate) fn new(server: Arc<ServerProcess>) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["bin", "home", "state", "list.git"] {
            fs::create_dir(root.path().join(name)).expect("a directory");
        }
        let place = Self { root, server };
        place.write_program("ralph", WORKER);
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn repository(&self) -> String {
        self.path().join("list.git").to_string_lossy().into_owned()
    }

    pub(crate) fn write_program(&self, name: &str, text: &str) {
        let path = self.path().join("bin").join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// Returns a command with an environment of its own.
    pub(crate) fn build_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.build_command_on(self.server.machine.as_ref(), program)
    }

    fn build_command_on(
        &self,
        machine: Option<&Machine>,
        program: impl AsRef<std::ffi::OsStr>,
    ) -> Command {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.path().join("bin").display());
        let mut command = build_command_on(machine, program);
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path().join("home"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("TEST_PLACE", self.path())
            .env("RALPH_SANDBOX_BACKEND", "none")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("TEMPORAL_ADDRESS", self.server.address())
            .current_dir(self.path())
            .stdin(Stdio::null());
        for (name, value) in [("NAME", "Test"), ("EMAIL", "test@example.invalid")] {
            command.env(format!("GIT_AUTHOR_{name}"), value);
            command.env(format!("GIT_COMMITTER_{name}"), value);
        }
        command
    }

    pub(crate) fn fleet_command(&self, args: &[&str]) -> Command {
        let mut command = self.build_command(env!("CARGO_BIN_EXE_ralph-fleet"));
        command.args(args);
        command
    }

    /// Starts a node on a machine, which reaches the server at an address.
    pub(crate) fn start_node_on(
        &self,
        machine: Option<&Machine>,
        name: &str,
        address: &str,
    ) -> FleetProcess {
        let mut command = self.build_command_on(machine, env!("CARGO_BIN_EXE_ralph-fleet"));
        command.args(["join", address, "--name", name, "--slots", "2"]);
        command.args(["--repository", &self.repository()]).env("TEST_NODE", name);
        // A machine of its own.
        command.env("XDG_STATE_HOME", self.path().join(format!("state-{name}")));
        command.arg("--directory").arg(self.path().join(format!("node-{name}")));
        let log = fs::File::create(self.path().join(format!("node-{name}.log"))).expect("a file");
        let child = command.stdout(log).stderr(Stdio::null()).spawn().expect("it starts");
        wait_until("the node takes jobs", || self.read_node_log(name).contains("takes jobs"));
        FleetProcess { child }
    }

    pub(crate) fn start_node(&self, name: &str) -> FleetProcess {
        self.start_node_on(self.server.machine.as_ref(), name, &self.server.address())
    }

    pub(crate) fn read_node_log(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(format!("node-{name}.log"))).unwrap_or_default()
    }

    /// Submits a job, as the git worker host does it.
    pub(crate) fn submit(&self, job: &str) -> FleetProcess {
        self.submit_with_lease(job, HEARTBEAT)
    }

    pub(crate) fn submit_with_lease(&self, job: &str, lease: Duration) -> FleetProcess {
        let mut command = self.job_command("run", job);
        command.args(["--heartbeat-timeout", &lease.as_secs().to_string()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        FleetProcess { child: child.expect("it starts") }
    }

    pub(crate) fn job_command(&self, command: &str, job: &str) -> Command {
        let reference = format!("refs/ralph/jobs/{job}");
        let mut command = self.fleet_command(&[command, &reference]);
        command.env("RALPH_JOB", &reference).env("RALPH_ATTEMPT", "a1");
        command.env("RALPH_WORKER", self.name_worker(job));
        command.env("RALPH_REMOTE", self.repository());
        command
    }

    /// Returns the name of a worker, which no other test has: they share a server.
    pub(crate) fn name_worker(&self, job: &str) -> String {
        let place = self.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{job}-{}", place.trim_start_matches('.'))
    }

    /// Lets a waiting job end.
    pub(crate) fn allow(&self, job: &str) {
        fs::write(self.path().join(format!("go-{job}")), "").expect("written");
    }

    /// Returns what workers noted of a job: what, label, node, time.
    pub(crate) fn read_notes(&self, job: &str) -> Vec<[String; 4]> {
        let text = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        let lines = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let ours = lines.filter(|it| it.len() == 5 && it[1] == job);
        ours.map(|it| [it[0].clone(), it[2].clone(), it[3].clone(), it[4].clone()]).collect()
    }

    /// Returns the attempts of a job that began: the number in the service, and the node.
    pub(crate) fn list_begun(&self, job: &str) -> Vec<(String, String)> {
        let begun = self.read_notes(job).into_iter().filter(|it| it[0] == "began");
        begun
            .map(|it| (it[1].split('-').next().unwrap_or_default().to_owned(), it[2].clone()))
            .collect()
    }

    /// Waits until a job began so often; returns when.
    pub(crate) fn wait_for_begin(&self, job: &str, times: usize) {
        wait_until(&format!("{job} began {times} times"), || self.list_begun(job).len() >= times);
    }

    /// Waits until a worker was stopped; returns when, by its own clock.
    pub(crate) fn wait_for_stop(&self, job: &str) -> Duration {
        let find = || self.read_notes(job).into_iter().find(|it| it[0] == "stopped");
        wait_until(&format!("{job} stopped"), || find().is_some());
        let [.., time] = find().expect("it stopped");
        Duration::from_secs_f64(time.parse().expect("a time"))
    }
}

impl FleetProcess {
    pub(crate) fn from_child(child: Child) -> Self {
        Self { child }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    pub(crate) fn memory(&self) -> u64 {
        memory_of(self.child.id())
    }

    pub(crate) fn send_signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }

    /// Kills the process; returns the time just before.
    pub(crate) fn kill(&mut self) -> Duration {
        let killed = read_clock();
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
        killed
    }

    /// Waits for the end; returns exit code, stdout and stderr.
    pub(crate) fn wait_for_end(mut self) -> (Option<i32>, String, String) {
        let begun = Instant::now();
        while self.is_running() {
            assert!(begun.elapsed() < TIMEOUT, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let code = self.child.wait().expect("a child").code();
        let (mut output, mut errors) = (String::new(), String::new());
        if let Some(pipe) = &mut self.child.stdout {
            let _ = pipe.read_to_string(&mut output);
        }
        if let Some(pipe) = &mut self.child.stderr {
            let _ = pipe.read_to_string(&mut errors);
        }
        (code, output, errors)
    }

    /// Waits for a result; returns the attempt whose result counts.
    pub(crate) fn wait_for_result(self) -> String {
        let (code, output, errors) = self.wait_for_end();
        assert_eq!(code, Some(0), "{output}{errors}");
        let label = output.strip_prefix("result ").expect("a result").trim().to_owned();
        label.split('-').next().unwrap_or_default().to_owned()
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the time since 1970: the clock of the server, which is on this machine.
pub(crate) fn read_clock() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970")
}

pub(crate) fn send_signal(pid: u32, signal: Signal) {
    assert!(pid > 1);
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

/// Returns the memory of a process in bytes, without its program file, which is larger in a debug
/// build.
fn memory_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|it| it.starts_with("RssAnon:")).expect("a line");
    let kilobytes = line.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok());
    kilobytes.expect("a number") * 1024
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Passes connections to a port, until it is cut: then nothing passes and nothing is closed, as
/// with a network cable that is pulled.
pub(crate) struct Network {
    pub(crate) port: u16,
    is_cut: Arc<Mutex<bool>>,
}

impl Network {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let network = Self {
            port: listener.local_addr().expect("an address").port(),
            is_cut: Arc::default(),
        };
        let is_cut = Arc::clone(&network.is_cut);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                let ends = [(&near, &far), (&far, &near)].map(|(a, b)| {
                    (a.try_clone().expect("a handle"), b.try_clone().expect("a handle"))
                });
                for (from, to) in ends {
                    let is_cut = Arc::clone(&is_cut);
                    thread::spawn(move || pass_bytes(from, to, &is_cut));
                }
            }
        });
        network
    }

    pub(crate) fn set_cut(&self, is_cut: bool) {
        *self.is_cut.lock().expect("a lock") = is_cut;
    }
}

fn pass_bytes(mut from: TcpStream, mut to: TcpStream, is_cut: &Mutex<bool>) {
    use std::io::Write as _;
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while *is_cut.lock().expect("a lock") {
            thread::sleep(Duration::from_millis(10));
        }
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Returns the processes that a process started.
pub(crate) fn find_children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let above =
            stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(1)?.parse().ok());
        above == Some(parent)
    };
    pids.filter(is_ours).collect()
}

/// Returns the built `ralph`.
pub(crate) fn find_ralph() -> PathBuf {
    let program = std::env::var_os("RALPH_TEST_RALPH").expect("RALPH_TEST_RALPH: a built `ralph`");
    PathBuf::from(program)
}
