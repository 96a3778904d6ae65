//! Rules on loop integrity: the run's state, instructions, hooks and process.
//!
//! A project's settings cannot switch these off.

use std::path::Path;

use super::{Act, Check, Rule, Touch, command, path};
use crate::guard::access::Mode;
use crate::guard::category::Category;
use crate::guard::git::Git;
use crate::guard::lower::{Command, Word};
use crate::prompt::role::PRD;
use crate::task::Keeper;

const SAY: &str = "If this blocks your work, say so in your answer.";

pub(super) const RULES: &[Rule] = &[
    path("loop.state", Category::LoopIntegrity, "holds the trusted state of the run", SAY, |it| {
        owner(it) == Some(Owner::State)
    }),
    path(
        "loop.settings",
        Category::LoopIntegrity,
        "belongs to ralph's settings; an agent must not change its own instructions",
        SAY,
        |it| owner(it) == Some(Owner::Settings),
    ),
    path(
        "loop.own-files",
        Category::LoopIntegrity,
        "holds files of ralph's own; an agent must not change its own instructions and records",
        SAY,
        |it| owner(it) == Some(Owner::OwnFiles),
    ),
    path(
        "loop.task-file",
        Category::LoopIntegrity,
        "has the task list, which ralph writes",
        "Report progress in your answer instead.",
        |it| owner(it) == Some(Owner::TaskFile),
    ),
    path(
        "loop.requirements",
        Category::LoopIntegrity,
        "has the requirements, which are read-only",
        SAY,
        |it| owner(it) == Some(Owner::Requirements),
    ),
    path(
        "loop.protected-path",
        Category::LoopIntegrity,
        "is protected in this project",
        SAY,
        |it| owner(it) == Some(Owner::Protected),
    ),
    path(
        "loop.hook-settings",
        Category::LoopIntegrity,
        "holds settings that switch hooks on and off",
        SAY,
        hook_settings,
    ),
    command(
        "loop.meddling",
        Category::LoopIntegrity,
        "would interfere with the run that this session belongs to",
        "Say in your answer what you want to be done.",
        |it| it.command.argv.first().is_some_and(|it| it.raw() == "ralph") && meddles(it.words()),
    ),
    command(
        "loop.kill",
        Category::LoopIntegrity,
        "would end the run that this session belongs to, or its agent",
        "End only processes that you started, by their id.",
        kills_the_loop,
    ),
    command(
        "loop.environment",
        Category::LoopIntegrity,
        "changes the variables by which the run is found",
        "Leave the variables of ralph as they are.",
        |it| {
            const OURS: [&str; 3] = ["RALPH_ACTIVE", "RALPH_RUN_ID", "RALPH_EXE"];
            !it.set(&OURS).is_empty()
                || it.is(&["unset"]) && it.operands().iter().any(|name| OURS.contains(name))
                || it.command.wrappers.iter().any(|it| it == "env") && it.has(&["RALPH_ACTIVE"])
        },
    ),
    command(
        "loop.git-hooks",
        Category::LoopIntegrity,
        "changes which hooks git runs",
        "Leave `core.hooksPath` alone; hooks that fail have a reason.",
        |it| {
            it.is(&["git"])
                && Git::new(it.words()).sets_running_key()
                && it
                    .words()
                    .iter()
                    .any(|word| word.raw().to_ascii_lowercase().contains("core.hookspath"))
        },
    ),
    Rule {
        id: "loop.denied",
        category: Category::LoopIntegrity,
        refused: "is denied by the settings of this project",
        instead: SAY,
        check: Check::Hook,
    },
];

/// What a protected path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Settings,
    OwnFiles,
    State,
    Protected,
    TaskFile,
    Requirements,
}

/// ralph's directory in a project.
const OWN: &str = ".ralph";

/// The plan file, the only file in there that an agent may write.
const PLAN: &str = "implementation_plan.md";

/// Returns what a path belongs to that is written or removed.
fn owner(checked_path: &Touch<'_>) -> Option<Owner> {
    let placed = checked_path.placed;
    if !matches!(placed.mode, Mode::Write | Mode::Remove) {
        return None;
    }
    let protected = &checked_path.around.protected;
    if protected.state.iter().any(|state| placed.hits(state)) {
        return Some(Owner::State);
    }
    for project in &protected.project {
        let own = project.join(OWN);
        let is_plan = !placed.places().is_empty()
            && placed.places().iter().all(|place| place.starts_with(&own))
            && placed.places().iter().all(|place| *place == own.join(PLAN));
        if placed.hits(&own) && !is_plan {
            let place = placed.places().iter().find_map(|place| place.strip_prefix(&own).ok());
            let name = place.and_then(Path::to_str).unwrap_or_default();
            let is_settings = name.starts_with("settings") && !name.contains('/');
            return Some(if is_settings { Owner::Settings } else { Owner::OwnFiles });
        }
    }
    for file in &protected.tasks_file {
        if protected.keeper == Some(Keeper::Ralph) && placed.hits(file) {
            return Some(Owner::TaskFile);
        }
        if placed.hits(&file.with_file_name(PRD)) {
            return Some(Owner::Requirements);
        }
    }
    // After the owners with a more specific reason: a run also protects the requirements by a
    // pattern.
    let is_protected = placed.places().iter().any(|place| {
        protected.project.iter().any(|project| {
            let below = place.strip_prefix(project).ok().and_then(Path::to_str);
            below.is_some_and(|below| protected.patterns.iter().any(|it| it.matches(below)))
        })
    });
    is_protected.then_some(Owner::Protected)
}

fn hook_settings(checked_path: &Touch<'_>) -> bool {
    const FILES: [&str; 4] = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks",
        ".claude/plugins",
    ];
    let placed = checked_path.placed;
    let home = checked_path.around.home.as_deref().map(Path::new);
    matches!(placed.mode, Mode::Write | Mode::Remove)
        && checked_path
            .around
            .protected
            .project
            .iter()
            .map(std::path::PathBuf::as_path)
            .chain(home)
            .any(|root| FILES.iter().any(|file| placed.hits(&root.join(file))))
        && !is_far_above(checked_path)
}

/// Returns whether the project or a parent of it is removed; other rules have a better reason for
/// that.
fn is_far_above(checked_path: &Touch<'_>) -> bool {
    let project = &checked_path.around.protected.project;
    checked_path.placed.places().iter().any(|place| project.iter().any(|it| it.starts_with(place)))
}

/// Returns whether a call of `ralph` does more than print something.
fn meddles(words: &[Word]) -> bool {
    let words: Vec<&str> = words.iter().map(Word::raw).collect();
    let elsewhere = words.iter().position(|word| matches!(*word, "-C" | "--project-dir"));
    let is_value = |at: usize| elsewhere.is_some_and(|flag| at == flag + 1);
    let mut operands = words
        .iter()
        .enumerate()
        .filter(|(at, word)| !word.starts_with('-') && !is_value(*at))
        .map(|(_, word)| *word);
    let asks_for_help =
        words.iter().any(|word| matches!(*word, "--help" | "-h" | "--version" | "-v"));
    let harmless = match (operands.next(), operands.next()) {
        (None | Some("status" | "log" | "report" | "context" | "doctor" | "demo"), _)
        | (Some("tasks"), None | Some("list" | "show" | "validate"))
        | (Some("hook"), Some("explain")) => true,
        (Some(_), _) => false,
    };
    !harmless && !asks_for_help
}

fn kills_the_loop(checked: &Act<'_>) -> bool {
    let names_it = |word: &str| word.contains("ralph") || matches!(word, "claude" | "[c]laude");
    match checked.name() {
        "pkill" | "killall" => checked.operands().iter().any(|word| names_it(word)),
        "kill" | "tkill" => {
            let asks = |command: &&Command| {
                matches!(command.name(), "pgrep" | "pidof" | "ps" | "grep" | "awk" | "lsof")
                    && command.arguments().iter().any(|word| names_it(word.raw()))
            };
            checked.sources().iter().any(asks)
                || checked.command.variables.iter().any(|name| name == "PPID")
        }
        _ => false,
    }
}
