//! Runs git: the only place that starts git processes.
//!
//! Not here: what the output means.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ralph_core::plain::Plain;
use ralph_core::ports::VcsError;
use ralph_model::child::{Ending, Limit, NotStarted};
use ralph_model::text::Excerpt;
use ralph_model::units::Millis;

use crate::environment::Variables;
use crate::process::{
    Captured, Chunk, OutputActivity, ProcessLimits, RUN_ID_VARIABLE, Spawn, StdinSource, Watch,
    capture_output, supervise,
};
use crate::sandbox::Launcher;

/// Hooks run test suites, pushes wait for servers, huge repositories are slow; a command that
/// takes longer than this hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// The limit during shutdown.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);

/// Enough for a list of a million changed files.
const LARGEST_OUTPUT: usize = 256 * 1024 * 1024;

/// How many characters of a command's output are shown.
const MOST_CHARS: usize = 4000;

/// Variables that would point git at another repository or index, or change the meaning of paths.
/// They are set if ralph itself was started by a hook.
const FOREIGN_VARIABLES: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// Settings by which git starts programs, and what ralph's own calls do about them. Whatever git's
/// configuration names is in files that agents cannot change (`git_dir_guard`, and the sandbox).
pub(super) const STARTED_BY_GIT: [(&str, GitStartRule); 37] = [
    ("core.hooksPath", GitStartRule::Off("core.hooksPath=/dev/null")),
    ("core.fsmonitor", GitStartRule::Off("core.fsmonitor=false")),
    ("log.showSignature", GitStartRule::Off("log.showSignature=false")),
    ("hook.x.command", GitStartRule::OffByName),
    ("gc.recentObjectsHook", GitStartRule::InSandbox),
    ("filter.x.clean", GitStartRule::InSandbox),
    ("filter.x.smudge", GitStartRule::InSandbox),
    ("filter.x.process", GitStartRule::InSandbox),
    ("merge.x.driver", GitStartRule::InSandbox),
    ("trailer.x.command", GitStartRule::InSandbox),
    ("trailer.x.cmd", GitStartRule::InSandbox),
    ("diff.external", GitStartRule::NotUsed),
    ("diff.x.command", GitStartRule::NotUsed),
    ("diff.x.textconv", GitStartRule::NotUsed),
    ("core.editor", GitStartRule::NotUsed),
    ("sequence.editor", GitStartRule::NotUsed),
    ("core.pager", GitStartRule::NotUsed),
    ("alias.push", GitStartRule::NotUsed),
    ("submodule.x.update", GitStartRule::NotUsed),
    ("core.alternateRefsCommand", GitStartRule::NotUsed),
    ("pager.log", GitStartRule::NotUsed),
    ("interactive.diffFilter", GitStartRule::NotUsed),
    ("difftool.x.cmd", GitStartRule::NotUsed),
    ("mergetool.x.cmd", GitStartRule::NotUsed),
    ("tar.x.command", GitStartRule::NotUsed),
    ("uploadpack.packObjectsHook", GitStartRule::NotUsed),
    ("gpg.program", GitStartRule::OfUser),
    ("gpg.ssh.program", GitStartRule::OfUser),
    ("gpg.x509.program", GitStartRule::OfUser),
    ("gpg.ssh.defaultKeyCommand", GitStartRule::OfUser),
    ("remote.origin.receivepack", GitStartRule::OfUser),
    ("remote.origin.uploadpack", GitStartRule::OfUser),
    ("core.sshCommand", GitStartRule::OfUser),
    ("core.gitProxy", GitStartRule::OfUser),
    ("core.askPass", GitStartRule::OfUser),
    ("credential.helper", GitStartRule::OfUser),
    ("credential.x.helper", GitStartRule::OfUser),
];

/// When git starts the program of a setting for ralph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitStartRule {
    /// Never in a plumbing call, by this setting.
    Off(&'static str),
    /// Never: ralph switches off each one by its name. `core.hooksPath` does not (git 2.54).
    OffByName,
    /// On the work tree, so in the sandbox if there is one.
    InSandbox,
    /// Never: the commands that do so are not used, or have an option or a variable against it.
    NotUsed,
    /// For a push or a signature, as the user has set it up, outside the sandbox.
    OfUser,
}

/// Runs git commands with the user's environment.
#[derive(Debug, Clone)]
pub(super) struct GitCommands {
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    patience: Duration,
    sandbox: Option<CommandSandbox>,
    /// How many commands were started, here and by copies of this.
    count: Arc<AtomicUsize>,
}

/// The sandbox for commands that touch the work tree.
#[derive(Debug, Clone)]
struct CommandSandbox {
    launcher: Launcher,
    env: Variables,
}

/// One command.
#[derive(Debug)]
pub(super) struct GitCommand<'a> {
    program: OsString,
    settings: Vec<&'static str>,
    args: Vec<OsString>,
    cwd: &'a Path,
    env: Vec<(OsString, OsString)>,
    stdin: StdinSource,
    output: OutputNeed,
    /// Whether it runs directly on the machine although there is a sandbox.
    is_outside: bool,
    /// Settings computed at run time, as `name=value`.
    config: Vec<String>,
    has_shell: bool,
}

/// How much of a command's output is needed.
#[derive(Debug, Clone, Copy)]
enum OutputNeed {
    Whole,
    /// Only the first bytes.
    Start(usize),
}

/// A command that ran to its end.
#[derive(Debug)]
pub(super) struct FinishedCommand {
    name: String,
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Why a command did not run to its end.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The program was not found.
    NotFound,
    /// It took too long and was ended.
    TimedOut {
        /// Its output until then.
        output: String,
    },
    /// It was ended because the user stopped the run.
    Interrupted,
    Other {
        message: String,
    },
}

impl<'a> GitCommand<'a> {
    /// Returns a plumbing command: no hooks, no prompts, English messages.
    pub(super) fn new_plumbing(cwd: &'a Path, args: &[&str]) -> Self {
        let switches = STARTED_BY_GIT.iter().filter_map(|(_, started)| match started {
            GitStartRule::Off(setting) => Some(*setting),
            GitStartRule::OffByName
            | GitStartRule::InSandbox
            | GitStartRule::NotUsed
            | GitStartRule::OfUser => None,
        });
        switches
            .fold(Self::new_user_call("git", cwd), Self::with_setting)
            .with_setting("core.quotePath=false")
            // ralph stores files as they are; the user's own `git add` may still complain.
            .with_setting("core.safecrlf=false")
            .with_args(args)
            .with_env("LC_ALL", "C")
            // Replacement refs must not change what a commit contains.
            .with_env("GIT_NO_REPLACE_OBJECTS", "1")
            // Reading a submodule must not take a lock, which a crash would leave behind.
            .with_env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// Returns a command like the user's own: with hooks, in the user's language.
    pub(super) fn new_user_call(program: impl Into<OsString>, cwd: &'a Path) -> Self {
        let call = Self {
            program: program.into(),
            settings: Vec::new(),
            args: Vec::new(),
            cwd,
            env: Vec::new(),
            stdin: StdinSource::Null,
            output: OutputNeed::Whole,
            is_outside: false,
            config: Vec::new(),
            has_shell: false,
        };
        // There is no user to answer a prompt or to close an editor.
        call.with_env("GIT_TERMINAL_PROMPT", "0")
            .with_env("GIT_EDITOR", "true")
            .with_env("GIT_PAGER", "cat")
    }

    /// Adds arguments.
    pub(super) fn with_args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Overrides a git setting.
    pub(super) fn with_setting(mut self, setting: &'static str) -> Self {
        self.settings.extend(["-c", setting]);
        self
    }

    /// Sets an environment variable.
    pub(super) fn with_env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Overrides git settings given as `name=value`.
    pub(super) fn with_config(mut self, settings: &[String]) -> Self {
        self.config.extend(settings.iter().cloned());
        self
    }

    /// Uses another index than the user's, and leaves no shared part of it in the repository.
    pub(super) fn with_index(self, index: &Path) -> Self {
        self.with_setting("core.splitIndex=false").with_env("GIT_INDEX_FILE", index)
    }

    /// Sets the standard input.
    pub(super) fn with_stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = StdinSource::Bytes(bytes);
        self
    }

    /// Keeps only the beginning of the output.
    pub(super) fn with_output_limit(mut self, bytes: usize) -> Self {
        self.output = OutputNeed::Start(bytes);
        self
    }

    /// Runs outside the sandbox, to reach the network or the user's keys.
    pub(super) fn without_sandbox(mut self) -> Self {
        self.is_outside = true;
        self
    }

    /// Runs as a child of a shell, which also runs scripts without a first line that names one.
    pub(super) fn with_shell(mut self) -> Self {
        self.has_shell = true;
        self
    }

    /// Returns the program and its arguments.
    fn take_command_line(&mut self) -> (OsString, Vec<OsString>) {
        let program = std::mem::take(&mut self.program);
        let settings = std::mem::take(&mut self.settings).into_iter().map(OsString::from);
        let config = std::mem::take(&mut self.config).into_iter();
        let config = config.flat_map(|setting| ["-c".into(), OsString::from(setting)]);
        let args = settings.chain(config).chain(std::mem::take(&mut self.args));
        if self.has_shell {
            let shell = ["-c".into(), "\"$0\" \"$@\"; exit $?".into(), program];
            ("sh".into(), shell.into_iter().chain(args).collect())
        } else {
            (program, args.collect())
        }
    }

    /// Creates objects as ralph: refs of ralph need no identity of the user.
    pub(super) fn with_ralph_identity(self) -> Self {
        self.with_env("GIT_AUTHOR_NAME", "ralph")
            .with_env("GIT_AUTHOR_EMAIL", "ralph@localhost")
            .with_env("GIT_COMMITTER_NAME", "ralph")
            .with_env("GIT_COMMITTER_EMAIL", "ralph@localhost")
    }

    /// Returns the command for messages, such as `git commit`.
    fn name(&self) -> String {
        let program = self.program.to_string_lossy();
        match self.args.iter().map(|arg| arg.to_string_lossy()).find(|arg| !arg.starts_with('-')) {
            Some(arg) => format!("{program} {arg}"),
            None => program.into_owned(),
        }
    }
}

impl GitCommands {
    /// Returns a runner with this environment, minus the variables in `FOREIGN`.
    pub(super) fn new(env: Vec<(OsString, OsString)>, watch: Watch) -> Self {
        let env = env
            .into_iter()
            .filter(|(name, _)| !FOREIGN_VARIABLES.iter().any(|foreign| name == foreign))
            .collect();
        Self { env, watch, patience: PATIENCE, sandbox: None, count: Arc::default() }
    }

    /// Sets what can stop commands.
    pub(super) fn with_watch(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    /// Returns the time limit.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Sets the time limit.
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns a copy for shutdown: ignores stop signals and has a short time limit.
    pub(super) fn for_shutdown(self) -> Self {
        Self { watch: Watch::new_detached(), ..self }.with_patience(SHUTDOWN_PATIENCE)
    }

    /// Returns a copy that runs everything outside the sandbox, and reads only the configuration of the
    /// repository: that of the user may name programs, such as filters, which would run files of the
    /// work tree.
    pub(super) fn for_clones(&self) -> Self {
        let mut env = self.env.clone();
        env.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_CONFIG"));
        env.push(("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()));
        env.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
        Self { env, sandbox: None, ..self.clone() }
    }

    /// Switches off hooks that git's configuration names, in every command outside of the sandbox.
    pub(super) fn without_named_hooks<'a>(mut self, names: impl Iterator<Item = &'a str>) -> Self {
        let find = |env: &[(OsString, OsString)], wanted: &str| {
            let value = env.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
            value.and_then(|it| it.to_str()?.parse::<usize>().ok())
        };
        let before = find(&self.env, "GIT_CONFIG_COUNT").unwrap_or(0);
        let mut count = before;
        for name in names {
            let key = format!("hook.{name}.enabled");
            self.env.push((format!("GIT_CONFIG_KEY_{count}").into(), key.into()));
            self.env.push((format!("GIT_CONFIG_VALUE_{count}").into(), "false".into()));
            count += 1;
        }
        if count > before {
            self.env.retain(|(name, _)| name != "GIT_CONFIG_COUNT");
            self.env.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
        }
        self
    }

    /// Adds the id of the run to the environment: the warden finds what a killed ralph had just
    /// started by it.
    pub(super) fn with_run_id(mut self, run: &str) -> Self {
        self.env.retain(|(name, _)| name != RUN_ID_VARIABLE);
        self.env.push((RUN_ID_VARIABLE.into(), run.into()));
        self
    }

    /// Sets the launcher and environment for commands in the sandbox.
    pub(super) fn with_launcher(self, launcher: Launcher, env: Variables) -> Self {
        let env = Self::new(env, self.watch.clone()).env;
        Self { sandbox: Some(CommandSandbox { launcher, env }), ..self }
    }

    /// Runs a command that must succeed, and returns its output.
    pub(super) fn run_for_output(&self, call: GitCommand<'_>) -> Result<Vec<u8>, VcsError> {
        let ran = self.run(call)?;
        if ran.code == 0 { Ok(ran.stdout) } else { Err(ran.to_error()) }
    }

    /// Runs a command that must succeed, and returns its output as one line of text.
    pub(super) fn run_for_line(&self, call: GitCommand<'_>) -> Result<String, VcsError> {
        let output = self.run_for_output(call)?;
        Ok(String::from_utf8_lossy(output.strip_suffix(b"\n").unwrap_or(&output)).into_owned())
    }

    /// Runs a command to its end, whatever its exit code.
    pub(super) fn run(&self, call: GitCommand<'_>) -> Result<FinishedCommand, VcsError> {
        let name = call.name();
        self.try_run(call).map_err(|not_run| VcsError {
            message: match not_run {
                NotRun::NotFound => format!("`{name}` could not be run: the program was not found"),
                NotRun::TimedOut { output } => {
                    format!("`{name}` did not end within {}\n{output}", Millis::from(self.patience))
                }
                NotRun::Interrupted => format!("`{name}` was interrupted"),
                NotRun::Other { message } => format!("`{name}` could not be run: {message}"),
            },
        })
    }

    /// Runs a command to its end, whatever its exit code, and passes its output to `sink` in
    /// pieces.
    pub(super) fn run_streaming(
        &self,
        call: GitCommand<'_>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<FinishedCommand, NotRun> {
        let name = call.name();
        let spawn = self.build_spawn(call)?;
        let mut errors = Vec::new();
        let end = supervise(&spawn, &self.watch, &mut |chunk| {
            match chunk {
                Chunk::Stdout(bytes) => sink(bytes),
                Chunk::Stderr(bytes) if errors.len() < LARGEST_OUTPUT => {
                    errors.extend_from_slice(bytes);
                }
                Chunk::Stderr(_) => {}
            }
            OutputActivity::Useful
        });
        match end.ending {
            Ending::Exited { code } => {
                Ok(FinishedCommand { name, code, stdout: Vec::new(), stderr: errors })
            }
            Ending::TimedOut { .. } => Err(NotRun::TimedOut { output: format_outputs(&[&errors]) }),
            Ending::Interrupted { .. } => Err(NotRun::Interrupted),
            ending @ (Ending::Signalled { .. }
            | Ending::Lingered { .. }
            | Ending::NotStarted { .. }) => {
                let message = format!("`{name}`: {ending}: {}", format_outputs(&[&errors]));
                Err(NotRun::Other { message })
            }
        }
    }

    /// Returns whether commands run in a sandbox by default.
    pub(super) fn is_confined(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Returns the environment of commands that run outside the sandbox.
    pub(super) fn users_env(&self) -> &[(OsString, OsString)] {
        &self.env
    }

    /// Returns how many commands were started.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn build_spawn(&self, mut call: GitCommand<'_>) -> Result<Spawn, NotRun> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let inside = self.sandbox.as_ref().filter(|_| !call.is_outside);
        let mut env = inside.map_or(&self.env, |inside| &inside.env).clone();
        env.retain(|(known, _)| !call.env.iter().any(|(name, _)| name == known));
        let (program, args) = call.take_command_line();
        env.extend(call.env);
        let spawn = Spawn {
            program,
            args,
            cwd: call.cwd.to_owned(),
            env,
            stdin: call.stdin,
            limits: ProcessLimits { hard: Some(self.patience), ..ProcessLimits::default() },
        };
        let launched = match inside {
            Some(inside) => inside.launcher.wrap_spawn(spawn),
            None => Ok(spawn),
        };
        launched.map_err(|reason| match reason {
            NotStarted::NotFound { .. } => NotRun::NotFound,
            reason @ (NotStarted::NotAllowed { .. }
            | NotStarted::NotInSandbox { .. }
            | NotStarted::Refused { .. }) => NotRun::Other { message: reason.to_string() },
        })
    }

    /// Runs a command to its end, whatever its exit code, or returns why it did not end by itself.
    pub(super) fn try_run(&self, call: GitCommand<'_>) -> Result<FinishedCommand, NotRun> {
        let (name, output) = (call.name(), call.output);
        let most = match output {
            OutputNeed::Whole => LARGEST_OUTPUT,
            OutputNeed::Start(bytes) => bytes.min(LARGEST_OUTPUT),
        };
        let spawn = self.build_spawn(call)?;
        let Captured { end, stdout, stderr, cut } = capture_output(&spawn, &self.watch, most);
        let is_enough = cut.is_empty() || matches!(output, OutputNeed::Start(_));
        match end.ending {
            Ending::Exited { code } if is_enough => {
                Ok(FinishedCommand { name, code, stdout, stderr })
            }
            Ending::NotStarted { reason: NotStarted::NotFound { .. } } => Err(NotRun::NotFound),
            Ending::TimedOut {
                limit: Limit::Hard | Limit::Idle | Limit::Output | Limit::Growth | Limit::Disk,
                ..
            } => Err(NotRun::TimedOut { output: format_outputs(&[&stdout, &stderr]) }),
            Ending::Exited { .. } => {
                Err(NotRun::Other { message: "it printed too much".to_owned() })
            }
            Ending::Interrupted { .. } => Err(NotRun::Interrupted),
            ending @ (Ending::Signalled { .. }
            | Ending::Lingered { .. }
            | Ending::NotStarted { .. }) => Err(NotRun::Other { message: ending.to_string() }),
        }
    }
}

impl FinishedCommand {
    /// Returns the output as plain text of bounded length.
    pub(super) fn output_text(&self) -> String {
        format_outputs(&[&self.stdout, &self.stderr])
    }

    /// Returns whether the errors contain a phrase.
    pub(super) fn has_error_text(&self, phrase: &str) -> bool {
        String::from_utf8_lossy(&self.stderr).contains(phrase)
    }

    /// Returns the error for a failed command, with git's message and a hint if one is known.
    pub(super) fn to_error(&self) -> VcsError {
        let hint = if self.has_error_text(".lock': File exists") {
            "\nhint: another git program is at work here, or one crashed; if none is running, \
             remove the lock file that git names"
        } else if self.has_error_text("Please tell me who you are") {
            "\nhint: run `git config user.name` and `git config user.email` with your name and address"
        } else {
            ""
        };
        let text = format_outputs(&[&self.stderr]);
        VcsError {
            message: format!("`{}` failed (exit code {}): {text}{hint}", self.name, self.code),
        }
    }
}

fn format_outputs(outputs: &[&[u8]]) -> String {
    let mut excerpt = Excerpt::with_equal_ends(MOST_CHARS);
    for output in outputs {
        let (mut plain, mut text) = (Plain::default(), String::new());
        plain.feed(output, &mut text);
        plain.finish(&mut text);
        excerpt.feed_text(&text);
    }
    excerpt.to_text().trim().to_owned()
}
