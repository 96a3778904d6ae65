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
mod git;
mod interpreter;
mod lower;
mod network;
mod place;
mod policy;
mod rules;
mod scripts;
mod tool;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::glob::Pattern;
use crate::task::Keeper;

pub use access::{Access, Mode, accesses};
pub use category::Category;
pub use lower::{
    Command, Copies, Lowered, Redirect, RedirectMode, Setting, Start, Trouble, Word, lower,
};
pub use place::{Extent, Placed, Spot, lexical};
pub use policy::{Decision, GuardMode, Policy};
pub use rules::{Rule, rule, rules};
pub use scripts::{ScriptPlace, find_scripts};
pub use tool::ToolCall;

use access::is_remote;
use rules::{Act, Check, Touch};

/// The protected places. Each is listed under every path that leads to it, links included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    pub project: Vec<PathBuf>,
    /// ralph's state directory.
    pub state: Vec<PathBuf>,
    pub tasks_file: Vec<PathBuf>,
    pub keeper: Option<Keeper>,
    /// Paths that an attempt may not change, relative to the project directory.
    pub patterns: Vec<Pattern>,
}

/// The environment of a tool call.
pub struct Surroundings<'a> {
    pub protected: Protected,
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
pub struct Findings {
    /// The commands that the call runs.
    pub lowered: Lowered,
    /// The accesses of each command; for a file tool, one entry with the tool's accesses.
    pub placed: Vec<Vec<Placed>>,
    /// The refusals, the best reason first.
    pub refusals: Vec<Refusal>,
}

/// A refused tool call and the rule that refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub rule: &'static str,
    pub category: Category,
    /// The refused command or path.
    pub said: String,
    /// The argument vector of the refused command; empty for a file tool.
    pub argv: Vec<String>,
}

impl Refusal {
    /// Returns a refusal by one of the hook's own rules.
    pub fn by_hook(id: &'static str, subject: &str) -> Option<Self> {
        rule(id).map(|rule| Self::new(rule, subject.to_owned(), Vec::new()))
    }

    fn new(rule: &'static Rule, subject: String, argv: Vec<String>) -> Self {
        Self { rule: rule.id, category: rule.category, said: subject, argv }
    }

    /// Returns the reason that is shown to the agent.
    pub fn reason(&self) -> String {
        let (refused, instead) =
            rule(self.rule).map(|rule| (rule.refused, rule.instead)).unwrap_or_default();
        let subject = crate::text::one_line(&self.said, LONGEST_SAID);
        format!("ralph's guard ({}): `{subject}` {refused}. {instead}", self.rule)
    }
}

/// The most characters of a command that a reason shows.
const LONGEST_SAID: usize = 160;

/// Inspects a tool call and checks all rules.
pub fn look(call: &ToolCall, context: &Surroundings<'_>) -> Findings {
    match call {
        ToolCall::Shell(text) => look_at_shell(text, context),
        ToolCall::Files(accesses) => {
            let placed = accesses.iter().map(|access| place(access, Some(&context.cwd), context));
            let placed: Vec<Placed> = placed.collect();
            let mut refusals = Vec::new();
            for rule in rules() {
                let Check::Path(check) = rule.check else { continue };
                let hit = placed
                    .iter()
                    .find(|placed| check(&Touch { placed, act: None, around: context }));
                refusals.extend(hit.map(|it| Refusal::new(rule, it.said.to_string(), Vec::new())));
            }
            Findings { lowered: Lowered::default(), placed: vec![placed], refusals }
        }
        ToolCall::Other => Findings::default(),
    }
}

fn look_at_shell(text: &str, context: &Surroundings<'_>) -> Findings {
    let start = Start {
        cwd: context.cwd.clone(),
        home: context.home.clone(),
        variables: context.variables.clone(),
    };
    let mut lowered = lower(text, &start);
    let placed = placed(&mut lowered, context);
    let mut refusals = Vec::new();
    for rule in rules() {
        if let Check::Trouble(error) = rule.check
            && lowered.trouble == Some(error)
        {
            refusals.push(Refusal::new(rule, text.trim().to_owned(), Vec::new()));
        }
        let hit = lowered.commands.iter().zip(&placed).find_map(|(command, placed)| {
            let checked = Act { command, all: &lowered.commands, around: context };
            let argv = || command.argv.iter().map(Word::to_string).collect::<Vec<_>>();
            match rule.check {
                Check::Command(check) => {
                    check(&checked).then(|| Refusal::new(rule, shown(command), argv()))
                }
                Check::Path(check) => placed
                    .iter()
                    .find(|placed| check(&Touch { placed, act: Some(checked), around: context }))
                    .map(|placed| Refusal::new(rule, placed.said.to_string(), argv())),
                Check::Trouble(_) | Check::Hook => None,
            }
        });
        refusals.extend(hit);
    }
    Findings { lowered, placed, refusals }
}

/// The most comparisons of paths with links; a debug build takes half a second for that many.
const MOST_LINKED: usize = 50_000;

/// Locates the accesses of all commands, and follows links that an earlier command makes.
fn placed(lowered: &mut Lowered, context: &Surroundings<'_>) -> Vec<Vec<Placed>> {
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut all = Vec::new();
    let mut held = 0;
    for command in &lowered.commands {
        let mut placed: Vec<Placed> = accesses(command)
            .iter()
            .map(|access| place(access, command.cwd.as_deref(), context))
            .collect();
        for placed in &mut placed {
            if let Spot::At(places) = &mut placed.spot {
                held += places.len() * links.len();
                if held > MOST_LINKED {
                    lowered.trouble = Some(Trouble::TooMuch);
                    break;
                }
                let led: Vec<PathBuf> = places
                    .iter()
                    .flat_map(|place| {
                        links.iter().filter_map(|(link, to)| {
                            Some(lexical(&to.join(place.strip_prefix(link).ok()?)))
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
            let target = placed.iter().find(|placed| placed.mode == Mode::ReadAll);
            let name = placed.iter().find(|placed| placed.mode == Mode::Write);
            if let (Some(target), Some(name)) = (target, name) {
                let pair = (name.places().first().cloned(), target.places().first().cloned());
                links.extend(pair.0.zip(pair.1));
            }
        }
        all.push(placed);
    }
    all
}

fn place(access: &Access, cwd: Option<&str>, context: &Surroundings<'_>) -> Placed {
    Placed::new(access, cwd, context.home.as_deref(), context.resolve)
}

/// Formats a command for people.
pub fn shown(command: &Command) -> String {
    let assigns = command.assigns.iter().map(|(name, value)| format!("{name}={value}"));
    let words = command.argv.iter().map(Word::to_string);
    let is_declared = matches!(command.name(), "export" | "declare" | "local" | "readonly");
    let assigns = assigns.filter(|_| !is_declared);
    assigns.chain(words).collect::<Vec<_>>().join(" ")
}
