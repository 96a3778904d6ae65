//! The rules of the guard, as a table.
//!
//! A rule looks at one lowered command, or at one path that a command or tool touches; never at
//! text. Not here: lowering, and what becomes of a call that a rule refuses.

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

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, which does not change.
    pub id: &'static str,
    /// What it belongs to.
    pub category: Category,
    /// What is refused, as the end of a sentence.
    pub refused: &'static str,
    /// What to do instead.
    pub instead: &'static str,
    /// What it looks at.
    pub(super) check: Check,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    /// A command.
    Command(fn(&Act<'_>) -> bool),
    /// A path that a command or a tool touches.
    Path(fn(&Touch<'_>) -> bool),
    /// What keeps a text from being lowered.
    Trouble(Trouble),
    /// Nothing: the hook itself refuses by it.
    Hook,
}

/// Makes a rule that looks at commands.
const fn command(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Act<'_>) -> bool,
) -> Rule {
    Rule { id, category, refused, instead, check: Check::Command(check) }
}

/// Makes a rule that looks at paths.
const fn path(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Touch<'_>) -> bool,
) -> Rule {
    Rule { id, category, refused, instead, check: Check::Path(check) }
}

/// Returns all rules, in the order in which they are asked.
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

/// Returns the rule of an id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}

/// A path as a rule sees it.
#[derive(Clone, Copy)]
pub(super) struct Touch<'a> {
    /// The path.
    pub(super) placed: &'a Placed,
    /// The command, if it is one.
    pub(super) act: Option<Act<'a>>,
    /// Where all this happens.
    pub(super) around: &'a Surroundings<'a>,
}

/// A command as a rule sees it.
#[derive(Clone, Copy)]
pub(super) struct Act<'a> {
    /// The command.
    pub(super) command: &'a Command,
    /// All commands of the text.
    pub(super) all: &'a [Command],
    /// Where all this happens.
    pub(super) around: &'a Surroundings<'a>,
}

/// So many pipes are followed upwards.
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

    /// Returns an operand, or nothing as text.
    pub(super) fn operand(&self, at: usize) -> &'a str {
        self.operands().get(at).copied().unwrap_or_default()
    }

    /// Returns whether it only asks what it could do.
    pub(super) fn only_asks(&self) -> bool {
        self.has(&["--help", "--version", "help"])
    }

    /// Returns the commands whose output it reads, through pipes and through substitutions.
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

    /// Returns whether one of some programs feeds it.
    pub(super) fn is_fed_by(&self, names: &[&str]) -> bool {
        self.sources().iter().any(|command| names.contains(&command.name()))
    }

    /// Returns the values of variables that it sets, by some names.
    pub(super) fn set(&self, names: &[&str]) -> Vec<&'a Word> {
        let assigns = self.command.assigns.iter();
        assigns.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).collect()
    }
}
