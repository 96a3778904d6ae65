//! Launchers: programs that start the one which their arguments name, in an environment or with
//! packages, such as `uv run` and `bundle exec`.
//!
//! Unlike a wrapper, a launcher stays a command of its own: what it installs counts as well. Not here:
//! launchers of containers and other machines, whose programs do not run on this one.

use super::walk::Walker;
use crate::command::ShellCommand;
use crate::network::is_loopback;
use crate::word::Word;

/// Programs whose operands are commands.
const COMMAND_LISTS: [&str; 3] = ["concurrently", "start-server-and-test", "server-test"];

/// Flags of `ssh` that take the next word.
const SSH_VALUES: [&str; 18] = [
    "-B", "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-o", "-p", "-R",
    "-S", "-W",
];

/// A program that starts the one which its arguments name.
struct ProgramLauncher {
    programs: &'static [&'static str],
    /// The words before the program; without any, it follows the launcher's own flags.
    before: &'static [&'static str],
    /// Flags of the launcher that take the next word.
    values: &'static [&'static str],
    start: ProgramStart,
}

/// Where the words of the started program begin.
enum ProgramStart {
    /// After this many operands of the launcher.
    AfterOperands(usize),
    /// After one of these words.
    AfterMark(&'static [&'static str]),
}

#[rustfmt::skip]
const LAUNCHERS: &[ProgramLauncher] = &[
    ProgramLauncher {
        programs: &["uv", "poetry", "pdm", "pipenv", "rye", "hatch", "pixi", "pipx", "coverage"],
        before: &["run"],
        values: &["--python", "-p", "--with", "--with-requirements", "--with-editable", "--extra", "--group",
            "--only-group", "--package", "--env-file", "--directory", "--project", "-C", "-e", "--environment",
            "--manifest-path", "--rcfile", "--source", "--spec"],
        start: ProgramStart::AfterOperands(0),
    },
    ProgramLauncher {
        programs: &["npx", "bunx", "pnpx", "uvx", "corepack", "cross-env", "cross-env-shell", "dotenv", "nyc", "c8",
            "env-cmd"],
        before: &[],
        values: &["-p", "--package", "--from", "--with", "--python", "-e", "-f"],
        start: ProgramStart::AfterOperands(0),
    },
    ProgramLauncher {
        programs: &["npm", "pnpm", "yarn", "bun"],
        before: &["exec", "x", "dlx"],
        values: &["-p", "--package", "-C", "--prefix", "--filter"],
        start: ProgramStart::AfterOperands(0),
    },
    ProgramLauncher {
        programs: &["bundle", "rbenv", "pyenv", "asdf", "nodenv", "goenv"],
        before: &["exec"],
        values: &[],
        start: ProgramStart::AfterOperands(0),
    },
    ProgramLauncher { programs: &["direnv"], before: &["exec"], values: &[], start: ProgramStart::AfterOperands(1) },
    ProgramLauncher {
        programs: &["conda", "mamba", "micromamba"],
        before: &["run"],
        values: &["-n", "-p", "--name", "--prefix", "--cwd"],
        start: ProgramStart::AfterOperands(0),
    },
    ProgramLauncher {
        programs: &["nix", "mise", "devbox"],
        before: &[],
        values: &[],
        start: ProgramStart::AfterMark(&["--command", "-c", "--"]),
    },
    ProgramLauncher {
        programs: &["doppler", "op", "infisical", "chamber", "aws-vault", "dotenvx", "watchexec"],
        before: &[],
        values: &[],
        start: ProgramStart::AfterMark(&["--"]),
    },
    ProgramLauncher {
        programs: &["nix-shell"],
        before: &[],
        values: &[],
        start: ProgramStart::AfterMark(&["--run", "--command"]),
    },
];

/// Returns whether the host of `ssh` is this machine.
fn is_this_machine(host: &str) -> bool {
    let host = host.rsplit('@').next().unwrap_or_default();
    // A name such as `127.0.0.1.example.net` may lead here as well.
    is_loopback(host) || host.starts_with("127.")
}

/// Returns whether a program is a launcher.
pub(crate) fn is_launcher(name: &str) -> bool {
    LAUNCHERS.iter().any(|it| it.programs.contains(&name))
}

impl Walker {
    /// Walks what a launcher starts.
    pub(super) fn walk_launched(&mut self, name: &str, command: &ShellCommand, feeders: &[usize]) {
        if COMMAND_LISTS.contains(&name) {
            let operands = command.arguments().iter().filter(|word| !word.raw().starts_with('-'));
            for code in operands.map(|word| write_listed_command(&word.to_code())) {
                self.walk_subshell(|walker| walker.walk_nested_text(&code));
            }
            return;
        }
        if name == "ssh" {
            let words = skip_own_words(command.arguments(), &SSH_VALUES, 0);
            if let [host, code @ ..] = words
                && is_this_machine(host.raw())
            {
                let code: Vec<String> = code.iter().map(Word::to_code).collect();
                self.walk_subshell(|walker| walker.walk_nested_text(&code.join(" ")));
            }
            return;
        }
        let Some(words) = find_launched(name, command.arguments()) else { return };
        if let [code] = words
            && code.raw().contains(' ')
        {
            let code = code.to_code();
            self.walk_subshell(|walker| walker.walk_nested_text(&code));
            return;
        }
        let mut inner = ShellCommand { argv: words.to_vec(), ..command.clone() };
        inner.wrappers.push(name.to_owned());
        self.walk_subshell(|walker| {
            walker.walk_deeper(|walker| walker.emit_command(inner, feeders));
        });
    }
}

/// Returns a command of a list as code; `npm:lint` stands for a script.
fn write_listed_command(text: &str) -> String {
    match text.split_once(':') {
        Some((tool @ ("npm" | "pnpm" | "yarn" | "bun"), script)) => format!("{tool} run {script}"),
        Some(_) | None => text.to_owned(),
    }
}

/// Returns the words of the program that a launcher starts.
fn find_launched<'a>(name: &str, arguments: &'a [Word]) -> Option<&'a [Word]> {
    let launcher = LAUNCHERS.iter().find(|it| it.programs.contains(&name))?;
    let rest = if launcher.before.is_empty() {
        arguments
    } else {
        let at = arguments.iter().position(|word| launcher.before.contains(&word.raw()))?;
        arguments.get(at + 1..)?
    };
    let words = match launcher.start {
        ProgramStart::AfterMark(marks) => {
            let at = rest.iter().position(|word| marks.contains(&word.raw()))?;
            rest.get(at + 1..)?
        }
        ProgramStart::AfterOperands(count) => skip_own_words(rest, launcher.values, count),
    };
    (!words.is_empty()).then_some(words)
}

/// Skips the flags, the assignments and the operands of a launcher.
fn skip_own_words<'a>(words: &'a [Word], values: &[&str], operands: usize) -> &'a [Word] {
    let (mut at, mut operands) = (0, operands);
    while let Some(word) = words.get(at) {
        let text = word.raw();
        if text == "--" {
            at += 1;
            break;
        }
        if text.starts_with('-') {
            at += if values.contains(&text) { 2 } else { 1 };
        } else if is_assignment(text) {
            at += 1;
        } else if operands > 0 {
            operands -= 1;
            at += 1;
        } else {
            break;
        }
    }
    words.get(at..).unwrap_or_default()
}

fn is_assignment(text: &str) -> bool {
    let is_name = |it: &str| it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    text.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}
