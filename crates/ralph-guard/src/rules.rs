//! The table of guard rules.
//!
//! A rule checks one lowered command, or one path that a command or tool touches; never raw text.
//! It does not decide what happens to a call that it refuses: the policy does.

mod cloud;
mod database;
mod files;
mod git;
mod integrity;
mod machine;
mod network;
mod packages;
mod process;
mod process_kills;
mod secrets;
mod shell;
mod supply;

#[cfg(test)]
mod tests;

use super::GuardContext;
use super::arguments::Arguments;
use super::category::GuardCategory;
use super::lower::{LoweringError, ShellCommand, Word};
use super::place::LocatedPath;

/// A guard rule.
#[derive(Debug, Clone, Copy)]
pub struct GuardRule {
    /// Its stable name.
    pub id: &'static str,
    pub category: GuardCategory,
    /// What is refused, as the end of a sentence.
    pub refused: &'static str,
    /// What the agent should do instead.
    pub instead: &'static str,
    pub(super) check: RuleCheck,
}

/// What a rule checks.
#[derive(Debug, Clone, Copy)]
pub(super) enum RuleCheck {
    Command(fn(&CheckedCommand<'_>) -> bool),
    /// A path that a command or a tool touches.
    Path(fn(&CheckedPath<'_>) -> bool),
    /// An error of lowering.
    Lowering(LoweringError),
    /// Nothing: the hook itself applies the rule.
    Hook,
}

/// Builds a rule that checks commands.
const fn new_command_rule(
    id: &'static str,
    category: GuardCategory,
    refused: &'static str,
    instead: &'static str,
    check: fn(&CheckedCommand<'_>) -> bool,
) -> GuardRule {
    GuardRule { id, category, refused, instead, check: RuleCheck::Command(check) }
}

/// Builds a rule that checks paths.
const fn new_path_rule(
    id: &'static str,
    category: GuardCategory,
    refused: &'static str,
    instead: &'static str,
    check: fn(&CheckedPath<'_>) -> bool,
) -> GuardRule {
    GuardRule { id, category, refused, instead, check: RuleCheck::Path(check) }
}

/// Returns all rules, in the order in which they are checked.
pub fn list_rules() -> impl Iterator<Item = &'static GuardRule> {
    [
        integrity::RULES,
        files::DEVICES,
        network::RULES,
        supply::RULES,
        packages::RULES,
        secrets::RULES,
        machine::RULES,
        process::RULES,
        process_kills::RULES,
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
pub fn find_rule(id: &str) -> Option<&'static GuardRule> {
    list_rules().find(|rule| rule.id == id)
}

/// A path that a rule checks.
#[derive(Clone, Copy)]
pub(super) struct CheckedPath<'a> {
    pub(super) placed: &'a LocatedPath,
    /// The command that touches the path; `None` for a file tool.
    pub(super) checked_command: Option<CheckedCommand<'a>>,
    pub(super) context: &'a GuardContext<'a>,
}

/// A command that a rule checks.
#[derive(Clone, Copy)]
pub(super) struct CheckedCommand<'a> {
    pub(super) command: &'a ShellCommand,
    /// All commands of the text.
    pub(super) all: &'a [ShellCommand],
    pub(super) context: &'a GuardContext<'a>,
}

/// The most pipes that are followed upstream.
const MOST_PIPES: usize = 6;

impl<'a> CheckedCommand<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.command.name()
    }

    pub(super) fn is_program(&self, names: &[&str]) -> bool {
        names.contains(&self.name())
    }

    pub(super) fn words(&self) -> &'a [Word] {
        self.command.arguments()
    }

    pub(super) fn arguments(&self) -> Arguments<'a> {
        Arguments::new(self.words(), &[])
    }

    pub(super) fn has_word(&self, words: &[&str]) -> bool {
        self.arguments().has_any(words)
    }

    pub(super) fn has_short_flag(&self, letter: char) -> bool {
        self.arguments().has_short_flag(letter)
    }

    /// Returns the operands as text.
    pub(super) fn list_operands(&self) -> Vec<&'a str> {
        self.arguments().find_operands().into_iter().map(Word::raw).collect()
    }

    /// Returns the operand at an index; empty if there are fewer.
    pub(super) fn find_operand(&self, at: usize) -> &'a str {
        self.list_operands().get(at).copied().unwrap_or_default()
    }

    /// Returns whether it only prints help or its version.
    pub(super) fn is_help_request(&self) -> bool {
        self.has_word(&["--help", "--version", "help"])
    }

    /// Returns the commands whose output it reads, through pipes and substitutions.
    pub(super) fn find_sources(&self) -> Vec<&'a ShellCommand> {
        let mut found: Vec<&ShellCommand> = Vec::new();
        let mut known = vec![false; self.all.len()];
        let mut open: Vec<usize> = self.command.fed_by.clone();
        let name = self.name();
        if !name.is_empty() {
            let fed = self.all.iter().enumerate();
            let fed = fed.filter(|(_, it)| it.feeds.as_deref() == Some(name));
            open.extend(fed.map(|(at, _)| at));
        }
        for _ in 0..MOST_PIPES {
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
        self.find_sources().iter().any(|command| names.contains(&command.name()))
    }

    /// Returns the values that it assigns to the given variables.
    pub(super) fn find_assigned(&self, names: &[&str]) -> Vec<&'a Word> {
        let assigns = self.command.assigns.iter();
        assigns.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).collect()
    }
}
