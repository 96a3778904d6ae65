//! Rules on loop integrity: the run's state, instructions, hooks and process.
//!
//! A project's settings cannot switch these off.

use std::path::Path;

use ralph_model::task::{ListOwner, REQUIREMENTS_FILE};

use super::{CheckedCommand, CheckedPath, GuardRule, RuleCheck, new_command_rule, new_path_rule};
use crate::access::AccessMode;
use crate::category::GuardCategory;
use crate::git::GitCall;
use crate::lower::{ShellCommand, Word};
use crate::place::PathLocation;

const SAY: &str = "If this blocks your work, say so in your answer.";

pub(super) const RULES: &[GuardRule] = &[
    new_path_rule(
        "loop.state",
        GuardCategory::LoopIntegrity,
        "holds the trusted state of the run",
        SAY,
        |it| find_owner(it) == Some(PathOwner::State),
    ),
    new_path_rule(
        "loop.settings",
        GuardCategory::LoopIntegrity,
        "belongs to ralph's settings; an agent must not change its own instructions",
        SAY,
        |it| find_owner(it) == Some(PathOwner::Settings),
    ),
    new_path_rule(
        "loop.own-files",
        GuardCategory::LoopIntegrity,
        "holds files of ralph's own; an agent must not change its own instructions and records",
        SAY,
        |it| find_owner(it) == Some(PathOwner::OwnFiles),
    ),
    new_path_rule(
        "loop.task-file",
        GuardCategory::LoopIntegrity,
        "has the task list, which ralph writes",
        "Report progress in your answer instead.",
        |it| find_owner(it) == Some(PathOwner::TaskFile),
    ),
    new_path_rule(
        "loop.requirements",
        GuardCategory::LoopIntegrity,
        "has the requirements, which are read-only",
        SAY,
        |it| find_owner(it) == Some(PathOwner::Requirements),
    ),
    new_path_rule(
        "loop.protected-path",
        GuardCategory::LoopIntegrity,
        "is protected in this project",
        SAY,
        |it| find_owner(it) == Some(PathOwner::Protected),
    ),
    new_path_rule(
        "loop.hook-settings",
        GuardCategory::LoopIntegrity,
        "holds settings that switch hooks on and off",
        SAY,
        changes_hook_settings,
    ),
    new_command_rule(
        "loop.control",
        GuardCategory::LoopIntegrity,
        "would interfere with the run that this session belongs to",
        "Say in your answer what you want to be done.",
        |it| {
            it.command.argv.first().is_some_and(|it| it.raw() == "ralph")
                && controls_ralph(it.words())
        },
    ),
    new_command_rule(
        "loop.kill",
        GuardCategory::LoopIntegrity,
        "would end the run that this session belongs to, or its agent",
        "End only processes that you started, by their id.",
        kills_the_loop,
    ),
    new_command_rule(
        "loop.environment",
        GuardCategory::LoopIntegrity,
        "changes the variables by which the run is found",
        "Leave the variables of ralph as they are.",
        |it| {
            const OURS: [&str; 3] = ["RALPH_ACTIVE", "RALPH_RUN_ID", "RALPH_EXE"];
            !it.find_assigned(&OURS).is_empty()
                || it.is_program(&["unset"])
                    && it.list_operands().iter().any(|name| OURS.contains(name))
                || it.command.wrappers.iter().any(|it| it == "env")
                    && it.has_word(&["RALPH_ACTIVE"])
        },
    ),
    new_command_rule(
        "loop.git-hooks",
        GuardCategory::LoopIntegrity,
        "changes which hooks git runs",
        "Leave `core.hooksPath` alone; hooks that fail have a reason.",
        |it| {
            it.is_program(&["git"])
                && GitCall::new(it.words()).sets_running_key()
                && it
                    .words()
                    .iter()
                    .any(|word| word.raw().to_ascii_lowercase().contains("core.hookspath"))
        },
    ),
    GuardRule {
        id: "loop.denied",
        category: GuardCategory::LoopIntegrity,
        refused: "is denied by the settings of this project",
        instead: SAY,
        check: RuleCheck::Hook,
    },
];

/// What a protected path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathOwner {
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
fn find_owner(checked_path: &CheckedPath<'_>) -> Option<PathOwner> {
    let placed = checked_path.placed;
    if !matches!(placed.mode, AccessMode::Write | AccessMode::Remove) {
        return None;
    }
    let protected = &checked_path.context.protected;
    if protected.state.iter().any(|state| placed.affects_root(state)) {
        return Some(PathOwner::State);
    }
    for project in &protected.project {
        let own = project.join(OWN);
        let is_plan = !placed.places().is_empty()
            && placed.places().iter().all(|place| place.starts_with(&own))
            && placed.places().iter().all(|place| *place == own.join(PLAN));
        let is_itself = matches!(placed.location, PathLocation::At(_))
            && placed.places().iter().all(|place| *place == own);
        let is_created = is_itself
            && checked_path.checked_command.is_some_and(|it| is_only_making_directories(&it));
        if placed.affects_root(&own) && !is_plan && !is_created {
            let place = placed.places().iter().find_map(|place| place.strip_prefix(&own).ok());
            let name = place.and_then(Path::to_str).unwrap_or_default();
            let is_settings = name.starts_with("settings") && !name.contains('/');
            return Some(if is_settings { PathOwner::Settings } else { PathOwner::OwnFiles });
        }
    }
    for file in &protected.tasks_file {
        if protected.keeper == Some(ListOwner::Ralph) && placed.affects_root(file) {
            return Some(PathOwner::TaskFile);
        }
        if placed.affects_root(&file.with_file_name(REQUIREMENTS_FILE)) {
            return Some(PathOwner::Requirements);
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
    is_protected.then_some(PathOwner::Protected)
}

/// Returns whether a command only makes directories that are missing, as agents do for the plan.
fn is_only_making_directories(checked: &CheckedCommand<'_>) -> bool {
    let ShellCommand { redirects, wrappers, .. } = checked.command;
    let flags = ["-p", "--parents", "-v", "--verbose", "-pv", "-vp", "--"];
    let is_harmless = |word: &&str| !word.starts_with('-') || flags.contains(word);
    checked.name() == "mkdir"
        && redirects.is_empty()
        && wrappers.is_empty()
        && checked.words().iter().map(Word::raw).all(|word| is_harmless(&word))
}

fn changes_hook_settings(checked_path: &CheckedPath<'_>) -> bool {
    const FILES: [&str; 4] = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks",
        ".claude/plugins",
    ];
    let placed = checked_path.placed;
    let home = checked_path.context.home.as_deref().map(Path::new);
    matches!(placed.mode, AccessMode::Write | AccessMode::Remove)
        && checked_path
            .context
            .protected
            .project
            .iter()
            .map(std::path::PathBuf::as_path)
            .chain(home)
            .any(|root| FILES.iter().any(|file| placed.affects_root(&root.join(file))))
        && !removes_project(checked_path)
}

/// Returns whether the project or a parent of it is removed; other rules have a better reason for
/// that.
fn removes_project(checked_path: &CheckedPath<'_>) -> bool {
    let project = &checked_path.context.protected.project;
    checked_path.placed.places().iter().any(|place| project.iter().any(|it| it.starts_with(place)))
}

/// Returns whether a call of `ralph` does more than print something.
fn controls_ralph(words: &[Word]) -> bool {
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
        | (Some("memory"), None | Some("show" | "search"))
        | (Some("hook"), Some("explain")) => true,
        (Some(_), _) => false,
    };
    !harmless && !asks_for_help
}

fn kills_the_loop(checked: &CheckedCommand<'_>) -> bool {
    let names_it = |word: &str| word.contains("ralph") || matches!(word, "claude" | "[c]laude");
    match checked.name() {
        "pkill" | "killall" => checked.list_operands().iter().any(|word| names_it(word)),
        "kill" | "tkill" => {
            let asks = |command: &&ShellCommand| {
                matches!(
                    command.name(),
                    "pgrep" | "pidof" | "ps" | "grep" | "awk" | "lsof" | "cat" | "head"
                ) && command.arguments().iter().any(|word| names_it(word.raw()))
            };
            checked.find_sources().iter().any(asks)
                || checked.command.variables.iter().any(|name| name == "PPID")
        }
        _ => false,
    }
}
