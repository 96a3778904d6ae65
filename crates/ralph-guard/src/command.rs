//! The result of lowering: commands as plain values.

use std::collections::BTreeMap;

use super::word::{UNKNOWN, Word};

/// The state of the shell before the first command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellState {
    pub cwd: String,
    pub home: Option<String>,
    pub variables: BTreeMap<String, String>,
}

/// A shell text as the list of commands that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoweredScript {
    /// The commands, in the order in which they occur.
    pub commands: Vec<ShellCommand>,
    /// Why there may be more commands than these.
    pub error: Option<LoweringError>,
}

/// Why a text cannot be lowered completely; the most severe reason last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoweringError {
    /// The parser does not accept the text.
    Syntax,
    /// Shells or brackets are nested too deep.
    TooDeep,
    /// The text is too long, or runs too many commands.
    TooMuch,
}

/// One program with its arguments, or assignments alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellCommand {
    /// The program and its arguments, without the wrappers.
    pub argv: Vec<Word>,
    /// The wrappers that were removed, outermost first.
    pub wrappers: Vec<String>,
    /// Variables that are set for it, or by it.
    pub assigns: Vec<(String, Word)>,
    pub redirects: Vec<Redirect>,
    /// Its standard input, where the text determines it.
    pub stdin: Option<Word>,
    /// The indexes of the commands whose output it reads.
    pub fed_by: Vec<usize>,
    /// The program that reads its output, as input or as arguments.
    pub feeds: Option<String>,
    /// The directory it runs in, if known.
    pub cwd: Option<String>,
    /// The variables in its words whose values are unknown.
    pub variables: Vec<String>,
    pub execution: CommandExecution,
    /// What it prints, as far as the text determines it.
    pub(super) output: Word,
    /// The file that its output is redirected to.
    pub(super) stdout: Option<Word>,
}

/// How a command is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandExecution {
    /// Whether the shell does not wait for it.
    pub background: bool,
    /// How many instances of it may run.
    pub copies: Copies,
    /// Whether it calls the function, or runs the script, that it is a part of.
    pub recursive: bool,
}

/// How many instances of a command may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// As many as the text lists.
    #[default]
    Few,
    /// As many at once as there are lines of input.
    AsInput,
    /// Unlimited: it is in an infinite loop that does not wait.
    Endless,
}

/// A redirection of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub path: Word,
    pub mode: RedirectMode,
}

/// How a redirection opens its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectMode {
    /// `<`.
    Read,
    /// `>`, `>>` and their like.
    Write,
    /// `<>`.
    Both,
}

impl ShellCommand {
    /// Returns the name of the program without its directory; empty if there is no program or its
    /// name is unknown.
    pub fn name(&self) -> &str {
        self.argv.first().map(parse_program_name).unwrap_or_default()
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[Word] {
        self.argv.get(1..).unwrap_or_default()
    }
}

impl ShellCommand {
    /// Returns the absolute path of the file that its output is redirected to, if known.
    pub(super) fn find_written_file(&self, cwd: Option<&str>) -> Option<String> {
        resolve_path(self.stdout.as_ref()?, cwd)
    }
}

/// Returns the absolute path that a word names, if known.
pub(super) fn resolve_path(word: &Word, cwd: Option<&str>) -> Option<String> {
    let path = word.as_known()?;
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", cwd?) };
    let plain = crate::normalize_lexically(std::path::Path::new(&whole));
    plain.to_str().map(str::to_owned)
}

/// Returns the file name of the program that a word names.
pub(super) fn parse_program_name(word: &Word) -> &str {
    // In `rm$X/home` the unknown part may end the word.
    let first = word.raw().split('/').next().unwrap_or_default();
    if let Some((front, _)) = first.split_once(UNKNOWN)
        && !front.is_empty()
        && front.chars().all(char::is_alphanumeric)
    {
        return "";
    }
    let name = word.raw().rsplit('/').next().unwrap_or_default();
    if super::word::has_marks(name) { "" } else { name }
}
