//! The guard in front of an agent's tools: decides which tool calls to refuse.
//!
//! A shell command is lowered to the simple commands that it runs (`lower`). `access` and `place`
//! find the paths that each of them touches, and every rule in `rules` is checked. The guard is a
//! seat belt, not a sandbox: it cannot see a script that is written in one call and run in the
//! next, nor what other programs do. Hard guarantees are enforced elsewhere. Resolving symbolic
//! links needs a file system and is done by the caller.

mod access;
mod arguments;
mod category;
mod codec;
mod command;
mod git;
mod interpreter;
mod lower;
mod network;
mod place;
mod policy;
mod rules;
mod scripts;
mod started_programs;
mod tool;
mod word;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ralph_model::glob::Pattern;
use ralph_model::task::ListOwner;

pub use access::{AccessMode, PathAccess, find_accesses};
pub use category::GuardCategory;
pub use lower::{
    CommandExecution, Copies, LoweredScript, LoweringError, Redirect, RedirectMode, ShellCommand,
    ShellState, Word, lower_text,
};
pub use place::{GlobExtent, LocatedPath, PathLocation, normalize_lexically};
pub use policy::{GuardDecision, decide_call};
pub use rules::{GuardRule, find_rule, list_rules};
pub use scripts::{ScriptLocation, find_scripts, find_scripts_in_file, is_interpreter};
pub use started_programs::{StartedProgram, list_programs};
pub use tool::GuardedToolCall;

use access::is_remote;
use rules::{CheckedCommand, CheckedPath, RuleCheck};

/// The protected places. Each is listed under every path that leads to it, links included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProtectedPlaces {
    pub project: Vec<PathBuf>,
    /// ralph's state directory.
    pub state: Vec<PathBuf>,
    pub tasks_file: Vec<PathBuf>,
    pub keeper: Option<ListOwner>,
    /// Paths that an attempt may not change, relative to the project directory.
    pub patterns: Vec<Pattern>,
}

/// The environment of a tool call.
pub struct GuardContext<'a> {
    pub protected: ProtectedPlaces,
    pub home: Option<String>,
    pub cwd: String,
    /// Directories for temporary files.
    pub temporary: Vec<PathBuf>,
    pub variables: std::collections::BTreeMap<String, String>,
    /// Resolves the symbolic links of an absolute path.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
}

/// What the guard found out about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuardFindings {
    /// The commands that the call runs.
    pub lowered: LoweredScript,
    /// The accesses of each command; for a file tool, one entry with the tool's accesses.
    pub placed: Vec<Vec<LocatedPath>>,
    /// The refusals, the best reason first.
    pub refusals: Vec<GuardRefusal>,
}

/// A refused tool call and the rule that refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardRefusal {
    pub rule: &'static str,
    pub category: GuardCategory,
    /// The refused command or path.
    pub subject: String,
    /// The argument vector of the refused command; empty for a file tool.
    pub argv: Vec<String>,
}

impl GuardRefusal {
    /// Returns a refusal by one of the hook's own rules.
    pub fn from_hook_rule(id: &'static str, subject: &str) -> Option<Self> {
        find_rule(id).map(|rule| Self::new(rule, subject.to_owned(), Vec::new()))
    }

    fn new(rule: &'static GuardRule, subject: String, argv: Vec<String>) -> Self {
        Self { rule: rule.id, category: rule.category, subject, argv }
    }

    /// Returns the reason that is shown to the agent.
    pub fn reason(&self) -> String {
        let (refused, instead) =
            find_rule(self.rule).map(|rule| (rule.refused, rule.instead)).unwrap_or_default();
        let subject = ralph_model::text::join_to_line(&self.subject, LONGEST_SUBJECT);
        format!("ralph's guard ({}): `{subject}` {refused}. {instead}", self.rule)
    }
}

/// The most characters of a command that a reason shows.
const LONGEST_SUBJECT: usize = 160;

/// Inspects a tool call and checks all rules.
pub fn inspect_call(call: &GuardedToolCall, context: &GuardContext<'_>) -> GuardFindings {
    match call {
        GuardedToolCall::Shell(text) => inspect_shell(text, context),
        GuardedToolCall::Files(accesses) => {
            let placed =
                accesses.iter().map(|access| locate_access(access, Some(&context.cwd), context));
            let placed: Vec<LocatedPath> = placed.collect();
            let mut refusals = Vec::new();
            for rule in list_rules() {
                let RuleCheck::Path(check) = rule.check else { continue };
                let hit = placed
                    .iter()
                    .find(|placed| check(&CheckedPath { placed, checked_command: None, context }));
                refusals
                    .extend(hit.map(|it| GuardRefusal::new(rule, it.path.to_string(), Vec::new())));
            }
            GuardFindings { lowered: LoweredScript::default(), placed: vec![placed], refusals }
        }
        GuardedToolCall::Other => GuardFindings::default(),
    }
}

fn inspect_shell(text: &str, context: &GuardContext<'_>) -> GuardFindings {
    let start = ShellState {
        cwd: context.cwd.clone(),
        home: context.home.clone(),
        variables: context.variables.clone(),
    };
    let mut lowered = lower_text(text, &start);
    let placed = locate_accesses(&mut lowered, context);
    let mut refusals = Vec::new();
    for rule in list_rules() {
        if let RuleCheck::Lowering(error) = rule.check
            && lowered.error == Some(error)
        {
            refusals.push(GuardRefusal::new(rule, text.trim().to_owned(), Vec::new()));
        }
        let hit = lowered.commands.iter().zip(&placed).find_map(|(command, placed)| {
            let checked = CheckedCommand { command, all: &lowered.commands, context };
            let argv = || command.argv.iter().map(Word::to_string).collect::<Vec<_>>();
            match rule.check {
                RuleCheck::Command(check) => check(&checked)
                    .then(|| GuardRefusal::new(rule, format_command(command), argv())),
                RuleCheck::Path(check) => placed
                    .iter()
                    .find(|placed| {
                        check(&CheckedPath { placed, checked_command: Some(checked), context })
                    })
                    .map(|placed| GuardRefusal::new(rule, placed.path.to_string(), argv())),
                RuleCheck::Lowering(_) | RuleCheck::Hook => None,
            }
        });
        refusals.extend(hit);
    }
    GuardFindings { lowered, placed, refusals }
}

/// The most comparisons of paths with links; a debug build takes half a second for that many.
const MOST_LINK_COMPARISONS: usize = 50_000;

/// Locates the accesses of all commands, and follows links that an earlier command makes.
fn locate_accesses(
    lowered: &mut LoweredScript,
    context: &GuardContext<'_>,
) -> Vec<Vec<LocatedPath>> {
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut all = Vec::new();
    let mut held = 0;
    for command in &lowered.commands {
        let mut placed: Vec<LocatedPath> = find_accesses(command)
            .iter()
            .map(|access| locate_access(access, command.cwd.as_deref(), context))
            .collect();
        for placed in &mut placed {
            if let PathLocation::At(places) = &mut placed.location {
                held += places.len() * links.len();
                if held > MOST_LINK_COMPARISONS {
                    lowered.error = Some(LoweringError::TooMuch);
                    break;
                }
                let led: Vec<PathBuf> = places
                    .iter()
                    .flat_map(|place| {
                        links.iter().filter_map(|(link, to)| {
                            Some(normalize_lexically(&to.join(place.strip_prefix(link).ok()?)))
                        })
                    })
                    .collect();
                places.extend(led);
            }
        }
        let makes_link = command.name() == "ln"
            && command.arguments().iter().any(|word| {
                word.raw().starts_with("-s")
                    || word.raw().starts_with("-f") && word.raw().contains('s')
            });
        if makes_link {
            let target = placed.iter().find(|placed| placed.mode == AccessMode::ReadAll);
            let name = placed.iter().find(|placed| placed.mode == AccessMode::Write);
            if let (Some(target), Some(name)) = (target, name) {
                let pair = (name.places().first().cloned(), target.places().first().cloned());
                links.extend(pair.0.zip(pair.1));
            }
        }
        all.push(placed);
    }
    all
}

fn locate_access(
    access: &PathAccess,
    cwd: Option<&str>,
    context: &GuardContext<'_>,
) -> LocatedPath {
    LocatedPath::new(access, cwd, context.home.as_deref(), context.resolve)
}

/// Formats a command for people.
pub fn format_command(command: &ShellCommand) -> String {
    let assigns = command.assigns.iter().map(|(name, value)| format!("{name}={value}"));
    let words = command.argv.iter().map(Word::to_string);
    let is_declared = matches!(command.name(), "export" | "declare" | "local" | "readonly");
    let assigns = assigns.filter(|_| !is_declared);
    assigns.chain(words).collect::<Vec<_>>().join(" ")
}
