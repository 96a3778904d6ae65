//! The commands that a program runs because a file of the project names them.
//!
//! Not here: how `make` and `just` (`makefile_commands`), package managers (`package_scripts`) and other
//! runners (`script_tables`) look them up.

use std::path::PathBuf;

/// Larger files that define commands are written by programs.
pub(crate) const MOST_BYTES: u64 = 256 * 1024;

/// The commands behind a target or a script.
pub(crate) struct NamedCommands {
    /// The files that define them.
    pub(crate) files: Vec<PathBuf>,
    /// The directory that they run in.
    pub(crate) directory: PathBuf,
    /// Each is run by a shell of its own.
    pub(crate) texts: Vec<String>,
}

/// Returns the value of an option, which is in the same word or in the next one.
pub(crate) fn read_option<'a>(
    names: &[&str],
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    names.iter().find_map(|name| match word.strip_prefix(name)? {
        "" => rest.next(),
        value if name.starts_with("--") => value.strip_prefix('='),
        value => Some(value),
    })
}

/// Returns a program with its arguments, which blanks separate.
#[cfg(test)]
pub(crate) fn parse_program(command: &str) -> ralph_guard::StartedProgram {
    let mut words = command.split(' ').map(str::to_owned);
    ralph_guard::StartedProgram {
        name: words.next().expect("a program"),
        arguments: words.collect(),
        directory: None,
        variables: Vec::new(),
    }
}
