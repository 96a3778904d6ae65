//! Runs git: the one place where its processes are started.
//!
//! Not here: what the output means.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ralph_core::child::{Ending, Limit, NotStarted};
use ralph_core::ports::VcsError;
use ralph_core::text::Excerpt;
use ralph_core::units::Millis;

use crate::environment::Variables;
use crate::process::{Captured, Chunk, Heard, Limits, Spawn, Stdin, Watch, capture, supervise};
use crate::sandbox::Launcher;
use ralph_core::plain::Plain;

/// Hooks run test suites, pushes wait for servers, huge repositories are slow; what takes
/// longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// The same when the user wants everything to stop.
const PARTING: Duration = Duration::from_secs(5);

/// A list of a million changed files fits; more is not a list of changes.
const LARGEST_OUTPUT: usize = 256 * 1024 * 1024;

/// How much of what a command said is shown.
const WORDS: usize = 4000;

/// Variables that would point git at another repository, index or meaning of paths. ralph may
/// itself have been started by a hook, which has them set.
const FOREIGN: [&str; 14] = [
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

/// Runs git with the user's environment.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    patience: Duration,
    cell: Option<Cell>,
    breath: Breath,
}

/// Whether commands that belong together are run by one shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breath {
    /// Each is started by itself, which is quicker than a shell.
    Many,
    /// They are: the walls around each would cost more than it does.
    One,
}

/// Where commands run that have to do with the work tree.
#[derive(Debug, Clone)]
struct Cell {
    launcher: Launcher,
    env: Variables,
}

/// One command.
#[derive(Debug)]
pub(super) struct Call<'a> {
    program: OsString,
    settings: Vec<&'static str>,
    args: Vec<OsString>,
    cwd: &'a Path,
    env: Vec<(OsString, OsString)>,
    stdin: Stdin,
    output: Output,
    place: Place,
    /// Settings that other commands of its script do not get.
    own_settings: Vec<&'static str>,
    /// Settings that are known only now, as `name=value`.
    config: Vec<String>,
    /// The script of a shell that it is run by.
    script: Option<String>,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where everything runs that has to do with the work tree.
    Usual,
    /// Directly on the machine, whatever is usual.
    Outside,
}

/// How much output a command may have.
#[derive(Debug, Clone, Copy)]
enum Output {
    /// All of it is needed.
    Whole,
    /// Only this many bytes are.
    Start(usize),
}

/// A command that ran to its end.
#[derive(Debug)]
pub(super) struct Ran {
    name: String,
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// A command that did not run to its end.
#[derive(Debug)]
pub(super) enum NotRun {
    /// There is no such program.
    NotFound,
    /// It was ended because it took too long.
    TimedOut {
        /// What it had said.
        words: String,
    },
    /// It was ended because the user wants everything to stop.
    Interrupted,
    /// Anything else.
    Other {
        /// What happened.
        message: String,
    },
}

impl<'a> Call<'a> {
    /// Returns a plumbing command: no hooks, no prompts, the same words in every language.
    pub(super) fn git(cwd: &'a Path, args: &[&str]) -> Self {
        Self::users("git", cwd)
            .setting("core.quotePath=false")
            .setting("core.hooksPath=/dev/null")
            .setting("core.fsmonitor=false")
            // What ralph notes is taken as it is; the user's own `git add` may still complain.
            .setting("core.safecrlf=false")
            .args(args)
            .env("LC_ALL", "C")
            // A commit is what it is, not what somebody put in its place.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            // A look at a submodule takes no lock that a death would leave in it.
            .env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// Returns a command of the user's: with hooks, in the user's language.
    pub(super) fn users(program: impl Into<OsString>, cwd: &'a Path) -> Self {
        let call = Self {
            program: program.into(),
            settings: Vec::new(),
            args: Vec::new(),
            cwd,
            env: Vec::new(),
            stdin: Stdin::Null,
            output: Output::Whole,
            place: Place::Usual,
            own_settings: Vec::new(),
            config: Vec::new(),
            script: None,
        };
        // Nobody is there to answer a question or to leave an editor.
        call.env("GIT_TERMINAL_PROMPT", "0").env("GIT_EDITOR", "true").env("GIT_PAGER", "cat")
    }

    /// Adds arguments.
    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Overrides a setting of git's.
    pub(super) fn setting(mut self, setting: &'static str) -> Self {
        self.settings.extend(["-c", setting]);
        self
    }

    /// Sets a variable.
    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Overrides a setting of git's for this command, and not for others of its script.
    pub(super) fn own_setting(mut self, setting: &'static str) -> Self {
        self.own_settings.extend(["-c", setting]);
        self
    }

    /// Overrides settings of git's, given as `name=value`. Not for commands of a script.
    pub(super) fn config(mut self, settings: &[String]) -> Self {
        self.config.extend(settings.iter().cloned());
        self
    }

    /// Works on another index than the user's, and leaves no shared part of it in the
    /// repository.
    pub(super) fn index(self, index: &Path) -> Self {
        self.setting("core.splitIndex=false").env("GIT_INDEX_FILE", index)
    }

    /// Gives it something to read.
    pub(super) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Stdin::Bytes(bytes);
        self
    }

    /// Wants only the beginning of the output.
    pub(super) fn first_bytes(mut self, bytes: usize) -> Self {
        self.output = Output::Start(bytes);
        self
    }

    /// Needs what no sandbox has: the network, or the keys of the user.
    pub(super) fn outside(mut self) -> Self {
        self.place = Place::Outside;
        self
    }

    /// Is run by a script of a shell, in which `{this}` is this command and `{git}` is git with the
    /// same settings. They share a cell, whose walls cost more than what happens between them.
    pub(super) fn within_script(mut self, script: impl Into<String>) -> Self {
        self.script = Some(script.into());
        self
    }

    /// Returns the program and its arguments.
    fn words(&mut self) -> (OsString, Vec<OsString>) {
        let settings = std::mem::take(&mut self.settings);
        let own = std::mem::take(&mut self.own_settings);
        let (program, args) = (std::mem::take(&mut self.program), std::mem::take(&mut self.args));
        let Some(script) = self.script.take() else {
            let settings = settings.into_iter().chain(own).map(OsString::from);
            let config = std::mem::take(&mut self.config).into_iter();
            let config = config.flat_map(|setting| ["-c".into(), OsString::from(setting)]);
            return (program, settings.chain(config).chain(args).collect());
        };
        // Settings are words of ours, in which a shell sees nothing special.
        let (settings, own) = (settings.join(" "), own.join(" "));
        let script = script
            .replace("{this}", &format!("\"$0\" {settings} {own} \"$@\""))
            .replace("{git}", &format!("git {settings}"));
        let words = ["-c".into(), script.into(), program];
        ("sh".into(), words.into_iter().chain(args).collect())
    }

    /// Makes objects as ralph: private refs need no identity of the user's.
    pub(super) fn signed_by_ralph(self) -> Self {
        self.env("GIT_AUTHOR_NAME", "ralph")
            .env("GIT_AUTHOR_EMAIL", "ralph@localhost")
            .env("GIT_COMMITTER_NAME", "ralph")
            .env("GIT_COMMITTER_EMAIL", "ralph@localhost")
    }

    /// Returns the command as a person would name it.
    fn name(&self) -> String {
        let program = self.program.to_string_lossy();
        match self.args.iter().map(|arg| arg.to_string_lossy()).find(|arg| !arg.starts_with('-')) {
            Some(word) => format!("{program} {word}"),
            None => program.into_owned(),
        }
    }
}

impl Commands {
    /// Returns what runs commands with this environment.
    pub(super) fn new(env: Vec<(OsString, OsString)>, watch: Watch) -> Self {
        let env = env
            .into_iter()
            .filter(|(name, _)| !FOREIGN.iter().any(|foreign| name == foreign))
            .collect();
        Self { env, watch, patience: PATIENCE, cell: None, breath: Breath::Many }
    }

    /// Returns the same with less patience.
    pub(super) fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the same for a last look: the user wants everything to stop, and does not wait long.
    pub(super) fn parting(self) -> Self {
        Self { watch: Watch::detached(), ..self }.within(PARTING)
    }

    /// Returns the same, started in another way.
    pub(super) fn launched_by(self, launcher: Launcher, env: Variables) -> Self {
        let env = Self::new(env, self.watch.clone()).env;
        let breath = match &launcher {
            Launcher::Caged(_) => Breath::One,
            Launcher::Direct => Breath::Many,
        };
        Self { cell: Some(Cell { launcher, env }), breath, ..self }
    }

    /// Runs a command that must succeed, and returns its output.
    pub(super) fn output(&self, call: Call<'_>) -> Result<Vec<u8>, VcsError> {
        let ran = self.run(call)?;
        if ran.code == 0 { Ok(ran.stdout) } else { Err(ran.failed()) }
    }

    /// Runs a command that must succeed, and returns its output as one line of text.
    pub(super) fn line(&self, call: Call<'_>) -> Result<String, VcsError> {
        let output = self.output(call)?;
        Ok(String::from_utf8_lossy(output.strip_suffix(b"\n").unwrap_or(&output)).into_owned())
    }

    /// Runs a command to its end, whatever its exit code.
    pub(super) fn run(&self, call: Call<'_>) -> Result<Ran, VcsError> {
        let name = call.name();
        self.attempt(call).map_err(|not_run| VcsError {
            message: match not_run {
                NotRun::NotFound => format!("`{name}` could not be run: the program was not found"),
                NotRun::TimedOut { words } => {
                    format!("`{name}` did not end within {}\n{words}", Millis::from(self.patience))
                }
                NotRun::Interrupted => format!("`{name}` was interrupted"),
                NotRun::Other { message } => format!("`{name}` could not be run: {message}"),
            },
        })
    }

    /// Runs a command to its end, whatever its exit code, and hears its output piece by piece.
    pub(super) fn listen(
        &self,
        call: Call<'_>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Ran, NotRun> {
        let name = call.name();
        let spawn = self.spawn(call)?;
        let mut errors = Vec::new();
        let end = supervise(&spawn, &self.watch, &mut |chunk| {
            match chunk {
                Chunk::Stdout(bytes) => sink(bytes),
                Chunk::Stderr(bytes) if errors.len() < LARGEST_OUTPUT => {
                    errors.extend_from_slice(bytes);
                }
                Chunk::Stderr(_) => {}
            }
            Heard::Useful
        });
        match end.ending {
            Ending::Exited { code } => Ok(Ran { name, code, stdout: Vec::new(), stderr: errors }),
            Ending::TimedOut { .. } => Err(NotRun::TimedOut { words: words(&[&errors]) }),
            Ending::Interrupted { .. } => Err(NotRun::Interrupted),
            ending @ (Ending::Signalled { .. }
            | Ending::Lingered { .. }
            | Ending::NotStarted { .. }) => {
                let message = format!("`{name}`: {ending}: {}", words(&[&errors]));
                Err(NotRun::Other { message })
            }
        }
    }

    /// Returns whether commands run in a sandbox unless they have to run outside.
    pub(super) fn is_confined(&self) -> bool {
        self.cell.is_some()
    }

    /// Returns the environment of commands that run outside the sandbox.
    pub(super) fn users_env(&self) -> &[(OsString, OsString)] {
        &self.env
    }

    /// Returns whether commands that belong together are run by one shell.
    pub(super) fn breath(&self) -> Breath {
        self.breath
    }

    /// Returns the same, with commands that are run by one shell although there are no walls.
    #[cfg(test)]
    pub(super) fn in_one_breath(self) -> Self {
        Self { breath: Breath::One, ..self }
    }

    fn spawn(&self, mut call: Call<'_>) -> Result<Spawn, NotRun> {
        let inside = match call.place {
            Place::Usual => self.cell.as_ref(),
            Place::Outside => None,
        };
        let mut env = inside.map_or(&self.env, |inside| &inside.env).clone();
        env.retain(|(known, _)| !call.env.iter().any(|(name, _)| name == known));
        let (program, args) = call.words();
        env.extend(call.env);
        let spawn = Spawn {
            program,
            args,
            cwd: call.cwd.to_owned(),
            env,
            stdin: call.stdin,
            limits: Limits { hard: Some(self.patience), ..Limits::default() },
        };
        let launched = match inside {
            Some(inside) => inside.launcher.launch(spawn),
            None => Ok(spawn),
        };
        launched.map_err(|reason| match reason {
            NotStarted::NotFound { .. } => NotRun::NotFound,
            reason @ (NotStarted::NotAllowed { .. } | NotStarted::Refused { .. }) => {
                NotRun::Other { message: reason.to_string() }
            }
        })
    }

    /// Runs a command and tells apart why it may not have ended by itself.
    pub(super) fn attempt(&self, call: Call<'_>) -> Result<Ran, NotRun> {
        let (name, output) = (call.name(), call.output);
        let most = match output {
            Output::Whole => LARGEST_OUTPUT,
            Output::Start(bytes) => bytes.min(LARGEST_OUTPUT),
        };
        let spawn = self.spawn(call)?;
        let Captured { end, stdout, stderr, cut } = capture(&spawn, &self.watch, most);
        let is_enough = cut.is_none() || matches!(output, Output::Start(_));
        match end.ending {
            Ending::Exited { code } if is_enough => Ok(Ran { name, code, stdout, stderr }),
            Ending::NotStarted { reason: NotStarted::NotFound { .. } } => Err(NotRun::NotFound),
            Ending::TimedOut {
                limit: Limit::Hard | Limit::Idle | Limit::Output | Limit::Growth | Limit::Disk,
                ..
            } => Err(NotRun::TimedOut { words: words(&[&stdout, &stderr]) }),
            Ending::Exited { .. } => Err(NotRun::Other { message: "it said too much".to_owned() }),
            Ending::Interrupted { .. } => Err(NotRun::Interrupted),
            ending @ (Ending::Signalled { .. }
            | Ending::Lingered { .. }
            | Ending::NotStarted { .. }) => Err(NotRun::Other { message: ending.to_string() }),
        }
    }
}

impl Ran {
    /// Returns what the command said, as plain text of bounded length.
    pub(super) fn words(&self) -> String {
        words(&[&self.stdout, &self.stderr])
    }

    /// Returns whether the errors contain a phrase.
    pub(super) fn complains_of(&self, phrase: &str) -> bool {
        String::from_utf8_lossy(&self.stderr).contains(phrase)
    }

    /// Returns the error that this end is, with git's words and a remedy where one is known.
    pub(super) fn failed(&self) -> VcsError {
        let hint = if self.complains_of(".lock': File exists") {
            "\nhint: another git program is at work here, or one crashed; if none is running, \
             remove the lock file that git names"
        } else if self.complains_of("Please tell me who you are") {
            "\nhint: run `git config user.name` and `git config user.email` with your name and address"
        } else {
            ""
        };
        let words = words(&[&self.stderr]);
        VcsError {
            message: format!("`{}` failed (exit code {}): {words}{hint}", self.name, self.code),
        }
    }
}

fn words(outputs: &[&[u8]]) -> String {
    let mut excerpt = Excerpt::both(WORDS);
    for output in outputs {
        let (mut plain, mut text) = (Plain::default(), String::new());
        plain.feed(output, &mut text);
        plain.finish(&mut text);
        excerpt.feed(&text);
    }
    excerpt.text().trim().to_owned()
}
