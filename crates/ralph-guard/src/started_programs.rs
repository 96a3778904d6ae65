//! The programs that a command starts, also through launchers: `uv run make test` starts `make`.
//!
//! Not here: the files that they run (`scripts`), and wrappers such as `timeout`, which lowering
//! removes.

use std::path::PathBuf;

use super::lower::{ShellCommand, ShellState, Word, is_shell, lower_text};

/// The deepest nesting of launchers that is followed.
const DEEPEST: usize = 4;

/// The most programs of one text; a longer text is no gate that someone wrote.
const MOST_PROGRAMS: usize = 1024;

/// A program that a command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedProgram {
    /// Its name, without directories.
    pub name: String,
    /// Its arguments; those that are not known are empty.
    pub arguments: Vec<String>,
    /// The directory that it runs in, if known.
    pub directory: Option<PathBuf>,
    /// The variables that its command sets, with `‹?›` for what is not known.
    pub variables: Vec<(String, String)>,
}

/// Programs that run none of their arguments, even if an interpreter is among them.
pub(super) const PLAIN: [&str; 22] = [
    "echo", "printf", "grep", "egrep", "rg", "git", "test", "which", "cat", "ls", "diff", "cmp",
    "cp", "mv", "rm", "mkdir", "touch", "export", "cd", "command", "type", "hash",
];

/// Programs that run what a file of the project defines. As an argument of a program that is not
/// known, one of them is most likely what that program starts.
const TASK_RUNNERS: [&str; 11] =
    ["make", "gmake", "just", "npm", "npx", "pnpm", "yarn", "bun", "composer", "rake", "tox"];

/// Words that show that programs are installed and not started.
const INSTALLING: [&str; 3] = ["install", "add", "remove"];

/// Programs whose operands are commands.
const COMMAND_LISTS: [&str; 3] = ["concurrently", "start-server-and-test", "server-test"];

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
            "env-cmd", "faketime"],
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

/// Returns the programs that a command or the text of a script starts, also through launchers.
pub fn list_programs(text: &str, start: &ShellState) -> Vec<StartedProgram> {
    let mut found = Vec::new();
    add_programs(text, start, 0, &mut found);
    found
}

fn add_programs(text: &str, start: &ShellState, depth: usize, found: &mut Vec<StartedProgram>) {
    let lowered = lower_text(text, start);
    for command in lowered.commands.iter().filter(|command| !command.argv.is_empty()) {
        if found.len() >= MOST_PROGRAMS {
            return;
        }
        found.push(describe_program(command));
        if depth >= DEEPEST {
            continue;
        }
        let cwd = command.cwd.clone().unwrap_or_else(|| start.cwd.clone());
        for code in list_launched_code(command) {
            add_programs(
                &code,
                &ShellState { cwd: cwd.clone(), ..start.clone() },
                depth + 1,
                found,
            );
        }
    }
}

fn describe_program(command: &ShellCommand) -> StartedProgram {
    let read = |word: &Word| word.as_known().unwrap_or_default().to_string();
    let assigns = command.assigns.iter();
    StartedProgram {
        name: command.name().to_owned(),
        arguments: command.arguments().iter().map(read).collect(),
        directory: command.cwd.as_ref().map(PathBuf::from),
        variables: assigns.map(|(name, it)| (name.clone(), it.to_string())).collect(),
    }
}

/// Returns the commands that a program starts because its arguments name them, as code.
pub(super) fn list_launched_code(command: &ShellCommand) -> Vec<String> {
    let (name, arguments) = (command.name(), command.arguments());
    if COMMAND_LISTS.contains(&name) {
        let operands = arguments.iter().filter(|word| !word.raw().starts_with('-'));
        return operands.map(|word| write_listed_command(&word.to_code())).collect();
    }
    find_launched(name, arguments).map(write_code).into_iter().collect()
}

/// Returns a command of a list; `npm:lint` stands for a script.
fn write_listed_command(text: &str) -> String {
    match text.split_once(':') {
        Some((tool @ ("npm" | "pnpm" | "yarn" | "bun"), script)) => format!("{tool} run {script}"),
        Some(_) | None => text.to_owned(),
    }
}

/// Returns the words of the program that another one starts.
fn find_launched<'a>(name: &str, arguments: &'a [Word]) -> Option<&'a [Word]> {
    let Some(launcher) = LAUNCHERS.iter().find(|it| it.programs.contains(&name)) else {
        return find_task_runner(name, arguments);
    };
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

/// Returns the words from a task runner on that a program which is not known starts.
fn find_task_runner<'a>(name: &str, arguments: &'a [Word]) -> Option<&'a [Word]> {
    let is_known = name.is_empty() || is_shell(name) || TASK_RUNNERS.contains(&name);
    if is_known || PLAIN.contains(&name) {
        return None;
    }
    if arguments.iter().any(|word| INSTALLING.contains(&word.raw())) {
        return None;
    }
    let is_started = |word: &Word| {
        let base = word.raw().rsplit('/').next().unwrap_or_default();
        TASK_RUNNERS.contains(&base) || is_shell(base)
    };
    arguments.get(arguments.iter().position(is_started)?..)
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

/// Returns words as shell code; one word with spaces is code itself.
fn write_code(words: &[Word]) -> String {
    if let [code] = words
        && code.raw().contains(' ')
    {
        return code.to_code();
    }
    let quote = |word: &Word| match word.as_known() {
        Some(text) => format!("'{}'", text.replace('\'', "'\\''")),
        None => word.to_code(),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_behind_launchers_are_found() {
        for (text, expect) in [
            ("uv run --with x make -C web test", "make -C web test"),
            ("uv run -m pytest tests/a.py", "pytest tests/a.py"),
            ("poetry run timeout 5 make test", "make test"),
            ("npx --yes -p jest jest --ci", "jest --ci"),
            ("pnpm exec sh -c 'cd web; npm test'", "npm test"),
            ("bundle exec rake test", "rake test"),
            ("mise exec node@20 -- npm run lint", "npm run lint"),
            ("direnv exec . just check", "just check"),
            ("conda run -n x make", "make"),
            ("nix develop --command make test", "make test"),
            ("nix-shell --run 'make test'", "make test"),
            ("docker run --rm -v .:/w -w /w image make test", "make test"),
            ("docker compose run app sh -c 'npm test'", "npm test"),
            ("retry 3 npm test", "npm test"),
            ("cross-env CI=1 make it", "make it"),
            ("concurrently 'npm:lint' 'jest --ci'", "npm run lint"),
            ("corepack pnpm test", "pnpm test"),
            ("uv run sh -c 'poetry run just check'", "just check"),
        ] {
            let found = list_programs(text, &ShellState::default());
            let shown: Vec<String> = found
                .iter()
                .map(|it| [&[it.name.clone()], it.arguments.as_slice()].concat().join(" "))
                .collect();
            assert!(shown.iter().any(|it| it == expect), "{text}: {shown:?}");
        }
    }

    #[test]
    fn words_that_no_one_starts_are_no_programs() {
        for text in ["echo make test", "apt-get install make", "npm run make", "grep -r make ."] {
            let found = list_programs(text, &ShellState::default());
            assert_eq!(found.len(), 1, "{text}: {found:?}");
        }
    }
}
