//! The table of guard rules.
//!
//! A rule checks one lowered command, or one path that a command or tool touches; never raw text.
//! It does not decide what happens to a call that it refuses: the policy does.

mod cloud;
mod database;
mod files;
mod git;
mod integrity;
mod kills;
mod machine;
mod network;
mod process;
mod secrets;
mod shell;
mod supply;

#[cfg(test)]
mod tests;

use super::Surroundings;
use super::arguments::Arguments;
use super::category::Category;
use super::lower::{Command, Trouble, Word};
use super::place::Placed;

/// A guard rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its stable name.
    pub id: &'static str,
    pub category: Category,
    /// What is refused, as the end of a sentence.
    pub refused: &'static str,
    /// What the agent should do instead.
    pub instead: &'static str,
    pub(super) check: Check,
}

/// What a rule checks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    Command(fn(&Act<'_>) -> bool),
    /// A path that a command or a tool touches.
    Path(fn(&Touch<'_>) -> bool),
    /// An error of lowering.
    Trouble(Trouble),
    /// Nothing: the hook itself applies the rule.
    Hook,
}

/// Builds a rule that checks commands.
const fn command(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Act<'_>) -> bool,
) -> Rule {
    Rule { id, category, refused, instead, check: Check::Command(check) }
}

/// Builds a rule that checks paths.
const fn path(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Touch<'_>) -> bool,
) -> Rule {
    Rule { id, category, refused, instead, check: Check::Path(check) }
}

/// Returns all rules, in the order in which they are checked.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        integrity::RULES,
        files::DEVICES,
        network::RULES,
        supply::RULES,
        secrets::RULES,
        machine::RULES,
        process::RULES,
        kills::RULES,
        git::RULES,
        database::RULES,
        cloud::RULES,
        files::RULES,
        shell::RULES,
    ]
    .into_iter()
    .flatten()
}

/// Finds a rule by its id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}

/// A path that a rule checks.
#[derive(Clone, Copy)]
pub(super) struct Touch<'a> {
    pub(super) placed: &'a Placed,
    /// The command that touches the path; `None` for a file tool.
    pub(super) act: Option<Act<'a>>,
    pub(super) around: &'a Surroundings<'a>,
}

/// A command that a rule checks.
#[derive(Clone, Copy)]
pub(super) struct Act<'a> {
    pub(super) command: &'a Command,
    /// All commands of the text.
    pub(super) all: &'a [Command],
    pub(super) around: &'a Surroundings<'a>,
}

/// The most pipes that are followed upstream.
const FARTHEST: usize = 6;

impl<'a> Act<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.command.name()
    }

    pub(super) fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name())
    }

    pub(super) fn words(&self) -> &'a [Word] {
        self.command.arguments()
    }

    pub(super) fn arguments(&self) -> Arguments<'a> {
        Arguments::new(self.words(), &[])
    }

    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.arguments().has(words)
    }

    pub(super) fn short(&self, letter: char) -> bool {
        self.arguments().short(letter)
    }

    /// Returns the operands as text.
    pub(super) fn operands(&self) -> Vec<&'a str> {
        self.arguments().operands().into_iter().map(Word::raw).collect()
    }

    /// Returns the operand at an index; empty if there are fewer.
    pub(super) fn operand(&self, at: usize) -> &'a str {
        self.operands().get(at).copied().unwrap_or_default()
    }

    /// Returns whether it only prints help or its version.
    pub(super) fn only_asks(&self) -> bool {
        self.has(&["--help", "--version", "help"])
    }

    /// Returns the commands whose output it reads, through pipes and substitutions.
    pub(super) fn sources(&self) -> Vec<&'a Command> {
        let mut found: Vec<&Command> = Vec::new();
        let mut known = vec![false; self.all.len()];
        let mut open: Vec<usize> = self.command.fed_by.clone();
        let name = self.name();
        if !name.is_empty() {
            let fed = self.all.iter().enumerate();
            let fed = fed.filter(|(_, it)| it.feeds.as_deref() == Some(name));
            open.extend(fed.map(|(at, _)| at));
        }
        for _ in 0..FARTHEST {
            let mut next = Vec::new();
            for at in open {
                if let Some(command) = self.all.get(at)
                    && !std::mem::replace(&mut known[at], true)
                {
                    found.push(command);
                    next.extend(command.fed_by.iter().copied());
                }
            }
            open = next;
        }
        found
    }

    /// Returns whether it reads the output of one of the given programs.
    pub(super) fn is_fed_by(&self, names: &[&str]) -> bool {
        self.sources().iter().any(|command| names.contains(&command.name()))
    }

    /// Returns the values that it assigns to the given variables.
    pub(super) fn set(&self, names: &[&str]) -> Vec<&'a Word> {
        let assigns = self.command.assigns.iter();
        assigns.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).collect()
    }
}
