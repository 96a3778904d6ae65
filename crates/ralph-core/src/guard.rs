//! The guard in front of an agent's tools: what a call may not touch.
//!
//! A seat belt, not a sandbox: it sees the paths that a call names. A shell has a hundred ways
//! to write a file, and a program that the agent runs has all of them; what must hold is
//! enforced elsewhere, by keeping trusted state out of reach and by judging the work afterwards.
//! Not here: resolving links, which takes a file system.

mod shell;

use std::path::{Component, Path, PathBuf};

use crate::glob::Pattern;
use crate::prompt::role::PRD;
use crate::task::Keeper;

pub use shell::{Deed, Target};

/// A call of a tool, with the places it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// What it writes or removes, as it says so.
    pub targets: Vec<Placed>,
    /// Commands of ralph's own that it runs, without the program.
    pub ralph: Vec<Vec<String>>,
}

/// Something that a call writes or removes, and where that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// As it is said.
    pub target: Target,
    /// Absolute paths: the one that is said, and where it leads through links.
    pub places: Vec<PathBuf>,
}

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

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nobody minds.
    Pass,
    /// It is not made.
    Deny {
        /// What it offends against.
        category: Category,
        /// What the agent is told.
        reason: String,
    },
}

/// What a call may offend against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The settings.
    Settings,
    /// Other files of ralph's in the project.
    OwnFiles,
    /// The trusted state outside of it.
    State,
    /// Protected paths: those of the settings, and what gates and agents get their orders from.
    ProtectedPath,
    /// The task file, where ralph keeps it.
    TaskFile,
    /// What the people want.
    Requirements,
    /// Commands of ralph's that would meddle with the run.
    Meddling,
}

impl Category {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::OwnFiles => "own-files",
            Self::State => "state",
            Self::ProtectedPath => "protected-path",
            Self::TaskFile => "task-file",
            Self::Requirements => "requirements",
            Self::Meddling => "meddling",
        }
    }
}

/// The directory of ralph's in a project.
const OWN: &str = ".ralph";

/// What an agent may write in there: the plan it works by.
const PLAN: &str = "implementation_plan.md";

/// Decides on a call.
pub fn decide(call: &ToolCall, protected: &Protected) -> Decision {
    let refused = call.targets.iter().find_map(|target| offense(target, protected));
    if let Some((category, reason)) = refused {
        return Decision::Deny { category, reason };
    }
    match call.ralph.iter().find(|words| meddles(words)) {
        Some(words) => Decision::Deny {
            category: Category::Meddling,
            reason: format!(
                "`ralph {}` would meddle with the run that this session belongs to. Say in your \
                 answer what you want to be done.",
                words.iter().take(2).cloned().collect::<Vec<_>>().join(" ")
            ),
        },
        None => Decision::Pass,
    }
}

/// Returns what a tool writes or removes, and which commands of ralph's it runs; nothing for a
/// tool that only looks.
pub fn looked_at(tool: &str, input: &Input<'_>) -> (Vec<Target>, Vec<Vec<String>>) {
    match (tool, input.path, input.command) {
        ("Write" | "Edit" | "MultiEdit" | "NotebookEdit", Some(path), _) => {
            (vec![Target::written(path)], Vec::new())
        }
        ("Bash", _, Some(command)) => shell::look_at(command),
        (_, _, _) => (Vec::new(), Vec::new()),
    }
}

/// What of a tool's input counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Input<'a> {
    /// The file it works on.
    pub path: Option<&'a str>,
    /// The command it runs.
    pub command: Option<&'a str>,
}

/// Returns the absolute path that is said, with `.` and `..` taken out by the letter.
pub fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}

fn offense(placed: &Placed, protected: &Protected) -> Option<(Category, String)> {
    let said = &placed.target.said;
    if said.contains("$RALPH_ACTIVE") || said.contains("${RALPH_ACTIVE") {
        return Some(refusal(Category::State, said));
    }
    let category = placed.places.iter().find_map(|place| {
        let is_hit = |root: &Path| match placed.target.deed {
            Deed::Write => place.starts_with(root),
            // What lies in a directory goes with it.
            Deed::Remove => place.starts_with(root) || root.starts_with(place),
        };
        category(place, protected, &is_hit)
    });
    Some(refusal(category?, said))
}

fn category(
    place: &Path,
    protected: &Protected,
    is_hit: &dyn Fn(&Path) -> bool,
) -> Option<Category> {
    if protected.state.iter().any(|state| is_hit(state)) {
        return Some(Category::State);
    }
    for project in &protected.project {
        let own = project.join(OWN);
        if is_hit(&own) && place != own.join(PLAN) {
            let name = place.strip_prefix(&own).ok().and_then(Path::to_str).unwrap_or_default();
            let is_settings = name.starts_with("settings") && !name.contains('/');
            return Some(if is_settings { Category::Settings } else { Category::OwnFiles });
        }
    }
    for file in &protected.tasks_file {
        if protected.keeper == Some(Keeper::Ralph) && is_hit(file) {
            return Some(Category::TaskFile);
        }
        if is_hit(&file.with_file_name(PRD)) {
            return Some(Category::Requirements);
        }
    }
    // After those that have a better reason: a run protects the requirements by a pattern, too.
    let is_protected = protected.project.iter().any(|project| {
        let below = place.strip_prefix(project).ok().and_then(Path::to_str);
        below.is_some_and(|below| protected.patterns.iter().any(|it| it.matches(below)))
    });
    is_protected.then_some(Category::ProtectedPath)
}

fn refusal(category: Category, said: &str) -> (Category, String) {
    let why = match category {
        Category::Settings => {
            "belongs to ralph's settings; an agent does not change its own orders"
        }
        Category::OwnFiles => {
            "holds files of ralph's own; an agent does not change its own orders and records"
        }
        Category::State => "holds the trusted state of the run",
        Category::ProtectedPath => "is protected in this project",
        Category::TaskFile => {
            "has the task list, which ralph writes; report progress in your answer instead"
        }
        Category::Requirements => "has the requirements, which are read-only",
        Category::Meddling => "would meddle with the run",
    };
    let reason = format!(
        "ralph's guard ({}): `{said}` {why}. If this stands in the way of the work, say so in \
         your answer.",
        category.name()
    );
    (category, reason)
}

/// Returns whether a command of ralph's does more than show something.
fn meddles(words: &[String]) -> bool {
    let elsewhere = words.iter().position(|word| matches!(word.as_str(), "-C" | "--project-dir"));
    let is_value = |at: usize| elsewhere.is_some_and(|flag| at == flag + 1);
    let mut operands = words
        .iter()
        .enumerate()
        .filter(|(at, word)| !word.starts_with('-') && !is_value(*at))
        .map(|(_, word)| word);
    let asks_for_help =
        words.iter().any(|word| matches!(word.as_str(), "--help" | "-h" | "--version" | "-v"));
    let harmless = match (operands.next().map(String::as_str), operands.next().map(String::as_str))
    {
        (None | Some("status" | "log" | "report" | "context" | "doctor" | "demo"), _)
        | (Some("tasks"), None | Some("list" | "show" | "validate")) => true,
        (Some(_), _) => false,
    };
    !harmless && !asks_for_help
}

#[cfg(test)]
mod tests;
