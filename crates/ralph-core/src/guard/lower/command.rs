//! What lowering comes to: commands as plain values.

use std::collections::BTreeMap;

use super::word::Word;

/// What is known before the first command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The current directory.
    pub cwd: String,
    /// The user's home.
    pub home: Option<String>,
    /// Variables whose values are known.
    pub variables: BTreeMap<String, String>,
}

/// A text as the commands that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lowered {
    /// The commands, in the order in which they are met.
    pub commands: Vec<Command>,
    /// Why there may be more than these.
    pub trouble: Option<Trouble>,
}

/// Why a text cannot be lowered as a whole; the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// It is no shell, as far as the parser goes.
    Syntax,
    /// Shells within shells, or brackets within brackets, without an end.
    TooDeep,
    /// It is too long, or runs too many commands.
    TooMuch,
}

/// One program with its arguments, or assignments alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The program and its arguments, without the wrappers.
    pub argv: Vec<Word>,
    /// The wrappers that were peeled off, outermost first.
    pub wrappers: Vec<String>,
    /// Variables that are set for it, or by it.
    pub assigns: Vec<(String, Word)>,
    /// Files that its streams go to or come from.
    pub redirects: Vec<Redirect>,
    /// What it reads, where the text tells.
    pub stdin: Option<Word>,
    /// The commands whose output it reads.
    pub fed_by: Vec<usize>,
    /// The program that reads its output, as input or as arguments.
    pub feeds: Option<String>,
    /// The directory it runs in, if that is known.
    pub cwd: Option<String>,
    /// The variables in its words that have no known value.
    pub variables: Vec<String>,
    /// What it stands in.
    pub setting: Setting,
    /// What it prints.
    pub(super) output: Word,
    /// The file that its output goes to.
    pub(super) stdout: Option<Word>,
}

/// What a command stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setting {
    /// Whether nobody waits for it.
    pub background: bool,
    /// How many of it there may be.
    pub copies: Copies,
    /// Whether it calls the function, or runs the script, that it is a part of.
    pub recursive: bool,
}

/// How many of a command there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// As many as the text says.
    #[default]
    Few,
    /// As many at once as there is input.
    AsInput,
    /// Ever more: it is in a loop without an end that nothing holds up.
    Endless,
}

/// A file that a stream goes to or comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The file.
    pub path: Word,
    /// How it is opened.
    pub mode: RedirectMode,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectMode {
    /// `<`.
    Read,
    /// `>`, `>>` and their like.
    Write,
    /// `<>`.
    Both,
}

impl Command {
    /// Returns the name of the program, without the directories in front; empty if there is none
    /// or it is not known.
    pub fn name(&self) -> &str {
        self.argv.first().map(program_name).unwrap_or_default()
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[Word] {
        self.argv.get(1..).unwrap_or_default()
    }
}

impl Command {
    /// Returns the absolute path of the file that its output goes to, if that is known.
    pub(super) fn written_file(&self, cwd: Option<&str>) -> Option<String> {
        absolute(self.stdout.as_ref()?, cwd)
    }
}

/// Returns the absolute path that a word says, if that is known.
pub(super) fn absolute(word: &Word, cwd: Option<&str>) -> Option<String> {
    let path = word.known()?;
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", cwd?) };
    let plain = crate::guard::lexical(std::path::Path::new(&whole));
    plain.to_str().map(str::to_owned)
}

/// Returns the name in a word that names a program.
pub(super) fn program_name(word: &Word) -> &str {
    let name = word.raw().rsplit('/').next().unwrap_or_default();
    if super::word::is_open(name) { "" } else { name }
}
