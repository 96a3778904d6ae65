//! The programs that a command starts, also through programs that are not known: `retry 3 make test`
//! starts `make`.
//!
//! Not here: the files that they run (`scripts`), and wrappers and launchers, which lowering follows.

use std::path::PathBuf;

use super::lower::{ShellCommand, ShellState, Word, is_launcher, is_shell, lower_text};

/// The deepest nesting of such programs that is followed.
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
        if let Some(code) = find_task_runner(command) {
            add_programs(&code, &ShellState { cwd, ..start.clone() }, depth + 1, found);
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

/// Returns the code that a program which is not known most likely starts: the words from a task runner
/// or a shell on.
pub(super) fn find_task_runner(command: &ShellCommand) -> Option<String> {
    let (name, arguments) = (command.name(), command.arguments());
    let is_known = name.is_empty() || is_shell(name) || TASK_RUNNERS.contains(&name);
    let installs = arguments.iter().any(|word| INSTALLING.contains(&word.raw()));
    if is_known || installs || PLAIN.contains(&name) || is_launcher(name) {
        return None;
    }
    let is_started = |word: &Word| {
        let base = word.raw().rsplit('/').next().unwrap_or_default();
        TASK_RUNNERS.contains(&base) || is_shell(base)
    };
    arguments.get(arguments.iter().position(is_started)?..).map(write_code)
}

/// Returns words as shell code.
fn write_code(words: &[Word]) -> String {
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
                .map(|it| {
                    [std::slice::from_ref(&it.name), it.arguments.as_slice()].concat().join(" ")
                })
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
