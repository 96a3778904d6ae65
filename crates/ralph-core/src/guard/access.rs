//! Finds the paths that a command reads, writes, removes or runs. Judges nothing.

mod programs;

pub(super) use programs::is_remote;

use super::interpreter::{self, Deed};
use super::lower::{Command, RedirectMode, ShellWords, Word, is_shell, shell_code};

/// A path that a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The path as the command names it.
    pub path: Word,
    pub mode: Mode,
}

/// What a command does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Passed to a program that the guard knows nothing about.
    Use,
    Read,
    /// Read, including everything below it.
    ReadAll,
    Execute,
    Write,
    /// Removed, including everything below it.
    Remove,
}

impl Mode {
    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Read | Self::ReadAll => "read",
            Self::Execute => "execute",
            Self::Write => "write",
            Self::Remove => "remove",
        }
    }
}

/// Returns the accesses of a command.
pub fn accesses(command: &Command) -> Vec<Access> {
    let mut found = Found::default();
    for redirect in &command.redirects {
        match redirect.mode {
            RedirectMode::Read => found.add(&redirect.path, Mode::Read),
            RedirectMode::Write => found.add(&redirect.path, Mode::Write),
            RedirectMode::Both => {
                found.add(&redirect.path, Mode::Read);
                found.add(&redirect.path, Mode::Write);
            }
        }
    }
    let Some(program) = command.argv.first() else { return found.accesses };
    if program.raw().contains('/') {
        found.add(program, Mode::Execute);
    }
    let name = command.name();
    if is_shell(name) {
        if let ShellWords::Script(script, _) = shell_code(command.arguments()) {
            found.add(script, Mode::Execute);
        }
    } else if let Some(code) = interpreter::code(name, command) {
        found.code(&code);
        found.program(name, command);
    } else {
        found.program(name, command);
    }
    found.accesses
}

/// Collects accesses.
#[derive(Default)]
pub(super) struct Found {
    accesses: Vec<Access>,
}

impl Found {
    fn add(&mut self, path: &Word, mode: Mode) {
        if !path.raw().is_empty() {
            self.accesses.push(Access { path: path.clone(), mode });
        }
    }

    fn add_text(&mut self, path: &str, mode: Mode) {
        self.add(&Word::of_raw(path), mode);
    }

    /// Adds the paths in string literals of code in another language.
    fn code(&mut self, code: &str) {
        let mode = if interpreter::does(code, Deed::Removes) {
            Mode::Remove
        } else if interpreter::does(code, Deed::Writes) {
            Mode::Write
        } else {
            Mode::Read
        };
        for text in interpreter::texts(code) {
            let is_path = !text.contains(char::is_whitespace)
                && (text.starts_with(['/', '~', '.']) || text.contains('/'))
                && !text.contains("://");
            if is_path {
                self.add_text(&text, mode);
            }
        }
    }
}
