//! The guard in front of an agent's tools: what a call may not do.
//!
//! A shell command is lowered to the plain commands that it runs (`lower`), these to what they do
//! to files (`access`, `place`), and a table of rules (`rules`) is asked about each. A seat belt,
//! not a sandbox: a script that is written in one call and run in the next is out of its reach,
//! as is everything that other programs do. What must hold is enforced elsewhere. Not here:
//! following links, which takes a file system.

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

/// What is protected. Each place in every way it can be spelled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    /// The project directory.
    pub project: Vec<PathBuf>,
    /// The directory of trusted state.
    pub state: Vec<PathBuf>,
    /// The task file.
    pub tasks_file: Vec<PathBuf>,
    /// Who writes the task file.
    pub keeper: Option<Keeper>,
    /// What an attempt may not change, by paths from the project directory.
    pub patterns: Vec<Pattern>,
}

/// Where a call is made.
pub struct Surroundings<'a> {
    /// What is protected.
    pub protected: Protected,
    /// The user's home.
    pub home: Option<String>,
    /// The current directory.
    pub cwd: String,
    /// Directories for what is only needed for a while.
    pub temporary: Vec<PathBuf>,
    /// Variables whose values are known.
    pub variables: std::collections::BTreeMap<String, String>,
    /// Follows the links of an absolute path.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
}

/// What is found out about a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The commands that it runs.
    pub lowered: Lowered,
    /// What each of them does to files; or what the tool does, where it is no shell.
    pub placed: Vec<Vec<Placed>>,
    /// What the rules refuse, the best reason first.
    pub refusals: Vec<Refusal>,
}

/// A rule that refuses a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The id of the rule.
    pub rule: &'static str,
    /// What it belongs to.
    pub category: Category,
    /// What it refuses: a command or a path.
    pub said: String,
    /// The command that it is about, if it is one.
    pub argv: Vec<String>,
}

impl Refusal {
    /// Returns the refusal by a rule of the hook's own.
    pub fn by_hook(id: &'static str, said: &str) -> Option<Self> {
        rule(id).map(|rule| Self::new(rule, said.to_owned(), Vec::new()))
    }

    fn new(rule: &'static Rule, said: String, argv: Vec<String>) -> Self {
        Self { rule: rule.id, category: rule.category, said, argv }
    }

    /// Returns what the agent is told.
    pub fn reason(&self) -> String {
        let (refused, instead) =
            rule(self.rule).map(|rule| (rule.refused, rule.instead)).unwrap_or_default();
        let said = crate::text::one_line(&self.said, LONGEST_SAID);
        format!("ralph's guard ({}): `{said}` {refused}. {instead}", self.rule)
    }
}

/// A reason shows so much of a command.
const LONGEST_SAID: usize = 160;

/// Looks at a call.
pub fn look(call: &ToolCall, around: &Surroundings<'_>) -> Findings {
    match call {
        ToolCall::Shell(text) => look_at_shell(text, around),
        ToolCall::Files(accesses) => {
            let placed = accesses.iter().map(|access| place(access, Some(&around.cwd), around));
            let placed: Vec<Placed> = placed.collect();
            let mut refusals = Vec::new();
            for rule in rules() {
                let Check::Path(check) = rule.check else { continue };
                let hit = placed.iter().find(|placed| check(&Touch { placed, act: None, around }));
                refusals.extend(hit.map(|it| Refusal::new(rule, it.said.to_string(), Vec::new())));
            }
            Findings { lowered: Lowered::default(), placed: vec![placed], refusals }
        }
        ToolCall::Other => Findings::default(),
    }
}

fn look_at_shell(text: &str, around: &Surroundings<'_>) -> Findings {
    let start = Start {
        cwd: around.cwd.clone(),
        home: around.home.clone(),
        variables: around.variables.clone(),
    };
    let mut lowered = lower(text, &start);
    let placed = placed(&mut lowered, around);
    let mut refusals = Vec::new();
    for rule in rules() {
        if let Check::Trouble(trouble) = rule.check
            && lowered.trouble == Some(trouble)
        {
            refusals.push(Refusal::new(rule, text.trim().to_owned(), Vec::new()));
        }
        let hit = lowered.commands.iter().zip(&placed).find_map(|(command, placed)| {
            let act = Act { command, all: &lowered.commands, around };
            let argv = || command.argv.iter().map(Word::to_string).collect::<Vec<_>>();
            match rule.check {
                Check::Command(check) => {
                    check(&act).then(|| Refusal::new(rule, shown(command), argv()))
                }
                Check::Path(check) => placed
                    .iter()
                    .find(|placed| check(&Touch { placed, act: Some(act), around }))
                    .map(|placed| Refusal::new(rule, placed.said.to_string(), argv())),
                Check::Trouble(_) | Check::Hook => None,
            }
        });
        refusals.extend(hit);
    }
    Findings { lowered, placed, refusals }
}

/// So often a path is held against a link; a debug build takes half a second for that.
const MOST_LINKED: usize = 50_000;

/// Places what commands do to files. A link that an earlier command makes is followed.
fn placed(lowered: &mut Lowered, around: &Surroundings<'_>) -> Vec<Vec<Placed>> {
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut all = Vec::new();
    let mut held = 0;
    for command in &lowered.commands {
        let mut placed: Vec<Placed> = accesses(command)
            .iter()
            .map(|access| place(access, command.cwd.as_deref(), around))
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

fn place(access: &Access, cwd: Option<&str>, around: &Surroundings<'_>) -> Placed {
    Placed::new(access, cwd, around.home.as_deref(), around.resolve)
}

/// Returns a command as it is shown to people.
pub fn shown(command: &Command) -> String {
    let assigns = command.assigns.iter().map(|(name, value)| format!("{name}={value}"));
    let words = command.argv.iter().map(Word::to_string);
    let is_declared = matches!(command.name(), "export" | "declare" | "local" | "readonly");
    let assigns = assigns.filter(|_| !is_declared);
    assigns.chain(words).collect::<Vec<_>>().join(" ")
}
