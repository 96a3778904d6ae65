//! Finds the paths that a command reads, writes, removes or runs. Judges nothing.

mod programs;

pub(super) use programs::is_remote;

use super::interpreter::{self, CodeAction};
use super::lower::{RedirectMode, ShellCommand, ShellSource, Word, is_shell, parse_shell_source};

/// The longest path that is put together from parts in code.
const LONGEST_HOME_PATH: usize = 256;

/// A path that a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathAccess {
    /// The path as the command names it.
    pub path: Word,
    pub mode: AccessMode,
}

/// What a command does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessMode {
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

impl AccessMode {
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
pub fn find_accesses(command: &ShellCommand) -> Vec<PathAccess> {
    let mut found = AccessCollector::default();
    for redirect in &command.redirects {
        match redirect.mode {
            RedirectMode::Read => found.add_access(&redirect.path, AccessMode::Read),
            RedirectMode::Write => found.add_access(&redirect.path, AccessMode::Write),
            RedirectMode::Both => {
                found.add_access(&redirect.path, AccessMode::Read);
                found.add_access(&redirect.path, AccessMode::Write);
            }
        }
    }
    let Some(program) = command.argv.first() else { return found.accesses };
    if program.raw().contains('/') {
        found.add_access(program, AccessMode::Execute);
    }
    let name = command.name();
    if is_shell(name) {
        if let ShellSource::Script(script, _) = parse_shell_source(command.arguments()) {
            found.add_access(script, AccessMode::Execute);
        }
    } else if let Some(code) = interpreter::find_inline_code(name, command) {
        found.add_code(&code);
        found.add_program(name, command);
    } else {
        found.add_program(name, command);
    }
    found.accesses
}

/// Collects accesses.
#[derive(Default)]
pub(super) struct AccessCollector {
    accesses: Vec<PathAccess>,
}

impl AccessCollector {
    fn add_access(&mut self, path: &Word, mode: AccessMode) {
        if !path.raw().is_empty() {
            self.accesses.push(PathAccess { path: path.clone(), mode });
        }
    }

    fn add_text(&mut self, path: &str, mode: AccessMode) {
        self.add_access(&Word::from_raw(path), mode);
    }

    /// Adds the paths in string literals of code in another language.
    fn add_code(&mut self, code: &str) {
        let mode = if interpreter::does_action(code, CodeAction::Removes) {
            AccessMode::Remove
        } else if interpreter::does_action(code, CodeAction::Writes) {
            AccessMode::Write
        } else {
            AccessMode::Read
        };
        let mut home: Option<String> = None;
        for text in interpreter::find_literals(code) {
            let is_word = !text.contains(char::is_whitespace) && !text.contains("://");
            // What follows the home directory is below it.
            home = match home {
                _ if text == "~" => Some(text.clone()),
                Some(home) if is_word && home.len() < LONGEST_HOME_PATH => {
                    let path = format!("{home}/{}", text.trim_start_matches('/'));
                    self.add_text(&path, mode);
                    Some(path)
                }
                Some(_) | None => None,
            };
            let is_path = is_word && (text.starts_with(['/', '~', '.']) || text.contains('/'));
            if is_path && (text != "~" || mode != AccessMode::Write) {
                self.add_text(&text, mode);
            }
        }
    }
}
