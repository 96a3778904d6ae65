//! A sealed environment for the built binary: own home, own state, own project, a git without
//! user configuration, default signal handling, and none of the machine's settings.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
    SIGUSR1, SIGUSR2,
};
use tempfile::TempDir;

/// Nothing in a test takes this long unless it hangs. Three calls of the slowest CLI took more than
/// half of it on a machine that was busy with something else.
const TIMEOUT: Duration = Duration::from_secs(360);

/// A sealed environment.
#[derive(Debug)]
pub struct Sealed {
    root: TempDir,
    ralph: PathBuf,
    sandbox: SandboxMode,
}

/// Whether runs are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxMode {
    /// Not isolated, so that tests about other things run on any machine.
    Disabled,
    Default,
}

/// The result of a finished command.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Asserts the exit code and returns itself.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "an assertion may stand alone")]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr contains a text.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "an assertion may stand alone")]
    pub fn expect_stderr(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in stderr:\n{}", self.stderr);
        self
    }
}

impl Sealed {
    /// Returns a new environment for a built `ralph`, with an empty project directory.
    pub fn new(ralph: impl Into<PathBuf>) -> Self {
        start_children_with_default_signals();
        let root = tempfile::tempdir().expect("a temporary directory");
        for name in ["home", "state", "bin", "project", "tmp"] {
            fs::create_dir(root.path().join(name)).expect("a directory");
        }
        Self { root, ralph: ralph.into(), sandbox: SandboxMode::Disabled }
    }

    /// Returns the same environment, in which runs are isolated as they are for users.
    #[must_use]
    pub fn with_sandbox(self) -> Self {
        Self { sandbox: SandboxMode::Default, ..self }
    }

    /// Returns a new environment whose project is a repository with one commit.
    pub fn with_repository(ralph: impl Into<PathBuf>) -> Self {
        static MADE: OnceLock<Vec<(PathBuf, Option<Vec<u8>>)>> = OnceLock::new();
        let sealed = Self::new(ralph);
        for (path, bytes) in MADE.get_or_init(make_repository) {
            let path = sealed.project_dir().join(path);
            match bytes {
                Some(bytes) => fs::write(path, bytes).expect("a written file"),
                None => fs::create_dir(path).expect("a directory"),
            }
        }
        sealed.run_git(&["checkout", "--quiet", "HEAD", "--", "."]);
        sealed
    }

    /// Returns the directory that contains everything.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the project directory.
    pub fn project_dir(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// Returns the directory on the `PATH` for the test's own programs.
    pub fn bin_dir(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// Returns the state directory of all projects.
    pub fn state_dir(&self) -> PathBuf {
        self.root.path().join("state/ralph")
    }

    /// Writes a file in the project.
    pub fn write_file(&self, path: &str, text: &str) {
        let path = self.project_dir().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a written file");
    }

    /// Reads a file in the project.
    #[track_caller]
    pub fn read_file(&self, path: &str) -> String {
        fs::read_to_string(self.project_dir().join(path))
            .unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
    }

    /// Writes a program on the `PATH`.
    pub fn write_program(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.bin_dir().join(name);
        fs::write(&path, text).expect("a written file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// Writes settings for the scripted agent with these calls, and further settings over them.
    pub fn write_script(&self, calls: &Value, further: &Value) {
        let scenario = self.root.path().join("scenario.json");
        fs::write(&scenario, format!("{:#}", json!({ "calls": calls }))).expect("a written file");
        let mut settings = json!({
            "agent": { "command": "sim", "flags": [scenario] },
            "retries": { "backoff": "10ms" },
            "preventSleep": false,
        });
        merge_into(&mut settings, further);
        self.write_file(".ralph/settings.json", &format!("{settings:#}"));
    }

    /// Returns a command in the sealed environment.
    pub fn build_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let root = self.root.path();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin_dir().display());
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", root.join("home"))
            .env("XDG_STATE_HOME", root.join("state"))
            .env("TMPDIR", root.join("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.invalid")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.invalid")
            .current_dir(self.project_dir())
            .stdin(Stdio::null());
        match self.sandbox {
            SandboxMode::Disabled => command.env("RALPH_SANDBOX_BACKEND", "none"),
            SandboxMode::Default => &mut command,
        };
        command
    }

    /// Runs `ralph` to its end.
    pub fn run_ralph(&self, args: &[&str]) -> Finished {
        self.start_ralph(args).wait_for_end()
    }

    /// Trusts the project with everything that its settings ask for.
    #[track_caller]
    pub fn trust_project(&self, args: &[&str]) {
        self.run_ralph(&[&["trust", "--yes"], args].concat()).expect_code(0);
    }

    /// Starts `ralph` in a process group of its own.
    pub fn start_ralph(&self, args: &[&str]) -> Running {
        let mut command = self.build_command(&self.ralph);
        command.args(args);
        Running::start_command(command)
    }

    /// Runs git in the project and returns what it prints.
    #[track_caller]
    pub fn run_git(&self, args: &[&str]) -> String {
        let output = self.build_command("git").args(args).output().expect("git runs");
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Commits everything in the project.
    #[track_caller]
    pub fn commit_all(&self, message: &str) {
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "--quiet", "-m", message]);
    }

    /// Returns the subjects of all commits, newest first.
    pub fn subjects(&self) -> Vec<String> {
        self.run_git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
    }

    /// Returns the runs of the project, oldest first, without those of workers.
    pub fn runs(&self) -> Vec<PathBuf> {
        let mut runs = Vec::new();
        for project in fs::read_dir(self.state_dir()).into_iter().flatten().flatten() {
            for run in fs::read_dir(project.path().join("runs")).into_iter().flatten().flatten() {
                runs.push(run.path());
            }
        }
        // The id of a worker's run is longer than the one of the run that it belongs to.
        let is_worker = |run: &Path| {
            run.file_name().is_some_and(|name| name.to_string_lossy().split('-').count() > 3)
        };
        runs.retain(|run| !is_worker(run));
        // Several runs may begin within the same second, which is all that their ids contain.
        runs.sort_by_key(|run| {
            let text = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
            let first: Option<Value> =
                text.lines().next().and_then(|line| serde_json::from_str(line).ok());
            (first.and_then(|first| first["at"].as_i64()), run.clone())
        });
        runs
    }

    /// Returns the events of the last run, as JSON.
    pub fn events(&self) -> Vec<Value> {
        let Some(run) = self.runs().pop() else { return Vec::new() };
        let text = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|recorded| recorded["event"].clone())
            .collect()
    }

    /// Returns the events of one type in the last run.
    pub fn find_events(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Returns the prompts of the agent calls in the last run, in order.
    pub fn prompts(&self) -> Vec<String> {
        let Some(run) = self.runs().pop() else { return Vec::new() };
        let mut found: Vec<(u32, u32, String)> = fs::read_dir(run)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let call = name.strip_prefix("agent-")?.strip_suffix(".prompt.md")?;
                let (iteration, ask) = call.split_once('-').unwrap_or((call, "1"));
                let text = fs::read_to_string(entry.path()).ok()?;
                Some((iteration.parse().ok()?, ask.parse().ok()?, text))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, _, text)| text).collect()
    }

    /// Returns the processes that still belong to this environment: those that mention its
    /// directory or one of its runs in their command line or environment. Waits a moment for
    /// those that are ending.
    pub fn survivors(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.find_processes();
            if found.is_empty() || Instant::now() > deadline {
                return found;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn find_processes(&self) -> Vec<String> {
        // A warden has no environment; the id of its run identifies it.
        let runs = self.runs().into_iter().filter_map(|run| Some(run.file_name()?.to_owned()));
        let mut markers: Vec<String> = runs.filter_map(|run| run.into_string().ok()).collect();
        markers.push(self.root.path().to_string_lossy().into_owned());
        let is_ours = |text: &str| markers.iter().any(|marker| text.contains(marker));
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if pid == std::process::id() {
                continue;
            }
            let read = |file: &str| {
                String::from_utf8_lossy(&fs::read(entry.path().join(file)).unwrap_or_default())
                    .into_owned()
            };
            let is_zombie =
                read("stat").rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
            let command = read("cmdline").replace('\0', " ");
            if !is_zombie && (is_ours(&command) || is_ours(&read("environ"))) {
                found.push(format!("{pid} {command}"));
            }
        }
        found
    }

    /// Waits until a file exists, which a scripted agent writes to report its progress.
    #[track_caller]
    pub fn wait_for(&self, path: &str) {
        wait_until(path, || self.project_dir().join(path).exists());
    }
}

/// Adds the fields of an object to another, over those it has.
pub fn merge_into(object: &mut Value, further: &Value) {
    if let (Some(object), Some(further)) = (object.as_object_mut(), further.as_object()) {
        object.extend(further.clone());
    }
}

/// Returns the files and directories of `.git` with one commit and nothing checked out. It is made
/// once for all environments of a process.
fn make_repository() -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let sealed = Sealed::new("ralph");
    sealed.run_git(&["init", "--quiet", "--initial-branch=main"]);
    sealed.write_file("README.md", "# Project\n");
    sealed.run_git(&["add", "."]);
    sealed.run_git(&["commit", "--quiet", "-m", "Begin"]);
    let git = sealed.project_dir().join(".git");
    fs::remove_file(git.join("index")).expect("an index");
    let mut found = Vec::new();
    let mut open = vec![git];
    while let Some(directory) = open.pop() {
        let path = |of: &Path| of.strip_prefix(sealed.project_dir()).expect("below").to_owned();
        found.push((path(&directory), None));
        for entry in fs::read_dir(&directory).expect("a directory").flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else if entry.path().extension().is_none_or(|it| it != "sample") {
                found.push((path(&entry.path()), Some(fs::read(entry.path()).expect("a file"))));
            }
        }
    }
    found
}

/// Makes every child that this process starts from now on begin with default signal handling.
///
/// A process inherits which signals are ignored: under `nohup` and in some CI systems that is
/// HUP, in background jobs of a script INT and QUIT. `exec` resets a signal that has a handler to
/// its default and keeps an ignored one ignored. So each ignored signal gets a handler that does
/// nothing, which is the same for this process. (`Command` resets PIPE itself.)
pub fn start_children_with_default_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        for signal in [
            SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
            SIGUSR1, SIGUSR2,
        ] {
            if ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1) {
                let unread = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal, unread).expect("a handler");
            }
        }
    });
}

/// Waits until a condition holds; `what` is named in the failure.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a command. A program that was just written may still be open in a child of another test
/// that is between its fork and its exec.
fn spawn_command(command: &mut Command) -> Child {
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            started => return started.expect("it starts"),
        }
    }
    panic!("a program stayed busy: {command:?}");
}

/// A command that is running.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    stderr_text: String,
}

impl Running {
    /// Starts a command and reads both of its streams.
    pub fn start_command(mut command: Command) -> Self {
        use std::os::unix::process::CommandExt as _;
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = spawn_command(&mut command);
        let stdout = read_lines(child.stdout.take().expect("a pipe"));
        let stderr = read_lines(child.stderr.take().expect("a pipe"));
        Self { child, stdout, stderr, stderr_text: String::new() }
    }

    /// Sends a signal to the process itself.
    pub fn send_signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there to be signaled");
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of stdout.
    #[track_caller]
    pub fn read_line(&mut self) -> String {
        let line = self.stdout.recv_timeout(TIMEOUT);
        line.unwrap_or_else(|_| {
            self.stderr_text.extend(self.stderr.try_iter());
            panic!("it printed no further line:\n{}", self.stderr_text)
        })
    }

    /// Waits until stderr contains a text.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.stderr_text.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.stderr.recv_timeout(left) else {
                panic!("it never printed {text:?}:\n{}", self.stderr_text);
            };
            self.stderr_text.push_str(&line);
        }
    }

    /// Interrupts a run twice, so that it ends without its agent or gate.
    #[track_caller]
    pub fn stop_at_once(mut self) -> Finished {
        self.send_signal(Signal::INT);
        self.wait_for("shutting down");
        self.send_signal(Signal::INT);
        self.wait_for_end()
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait_for_end(mut self) -> Finished {
        let status = self.wait_for_exit();
        let stdout = self.stdout.iter().collect();
        self.stderr_text.extend(self.stderr.iter());
        Finished { code: status.code(), stdout, stderr: std::mem::take(&mut self.stderr_text) }
    }

    #[track_caller]
    fn wait_for_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                self.stderr_text.extend(self.stderr.try_iter());
                panic!("it did not end:\n{}", self.stderr_text);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    /// Ends the command, so that a failing test leaves nothing running.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn read_lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            match lines.by_ref().take(1 << 20).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    if tx.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    rx
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_command_starts_with_no_signal_ignored() {
        let sealed = Sealed::new("ralph");
        let output = sealed.build_command("grep").args(["SigIgn", "/proc/self/status"]).output();
        let ignored = String::from_utf8(output.expect("grep runs").stdout).expect("text");
        let mask = ignored.trim_start_matches("SigIgn:").trim();
        // The standard signals; those from 32 on belong to the C library.
        assert_eq!(u64::from_str_radix(mask, 16).expect("a mask") & 0x7fff_ffff, 0);
    }

    #[test]
    fn a_sealed_command_starts_with_no_signal_ignored_where_the_tests_are_run_with_some() {
        let script = "trap '' ALRM HUP INT QUIT TERM TSTP TTIN TTOU USR1 USR2; \
                      exec \"$0\" --exact sealed::tests::a_sealed_command_starts_with_no_signal_ignored";
        let mut tests = Command::new("sh");
        tests.args(["-c", script]).arg(std::env::current_exe().expect("this program"));
        let output = tests.output().expect("sh runs");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && report.contains("1 passed"), "{report}");
    }
}
