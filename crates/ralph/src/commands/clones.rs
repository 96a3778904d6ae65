//! `ralph clones` and `ralph clean --clones`: lists and removes the clones of workers.
//!
//! A clone with work that is on no ref of the project is never removed. Not here: making clones.

use std::fs;

use ralph_io::git::{GitRepository, UnsavedWork, find_unsaved_work};
use ralph_io::process::Watch;
use ralph_io::store::cleanup;
use ralph_io::worker_slots::{SlotPlace, list_slots};
use ralph_model::outcome::ExitStatus;
use ralph_model::text::{choose_plural, quote_for_shell};
use ralph_ui::size::ByteSize;
use serde_json::{Value, json};

use crate::cli::{CleanArgs, ClonesArgs, CommonArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::RunContext;
use crate::screen;
use crate::settings::LoadedSettings;

/// A slot and what is in its clone.
struct CloneEntry {
    place: SlotPlace,
    bytes: u64,
    content: CloneContent,
}

/// What is known of a clone.
enum CloneContent {
    /// A process works in it.
    Held {
        pid: u32,
    },
    Saved,
    Unsaved(UnsavedWork),
    /// It cannot be compared with the project.
    Unreadable(String),
}

/// Lists the clones.
pub(crate) fn main(common: &CommonArgs, args: &ClonesArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let Some(repository) = project.find_repository(&Watch::new_detached())? else {
        return Err(build_no_repository_error());
    };
    let slots = find_slots(&project, &loaded, &repository)?.into_iter();
    let entries: Vec<CloneEntry> =
        slots.map(|place| CloneEntry::inspect(&repository, place)).collect();
    if args.json {
        let clones: Vec<Value> = entries.iter().map(CloneEntry::to_json).collect();
        screen::print_data(&format!("{:#}\n", json!({ "clones": clones })));
    } else if entries.is_empty() {
        screen::print_data("There are no clones of workers.\n");
    } else {
        let lines: String = entries.iter().map(CloneEntry::format_line).collect();
        screen::print_data(&lines);
    }
    Ok(ExitStatus::Complete)
}

/// Removes the clones that have no unsaved work and are not in use.
pub(crate) fn remove_clones(common: &CommonArgs, args: &CleanArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    // The lock keeps a run from using what is removed.
    let _context =
        if args.dry_run { None } else { Some(RunContext::open(common, &project, &loaded)?) };
    let Some(repository) = project.find_repository(&Watch::new_detached())? else {
        return Err(build_no_repository_error());
    };
    let (mut removed, mut refused) = (Vec::new(), Vec::new());
    for place in find_slots(&project, &loaded, &repository)? {
        let entry = CloneEntry::inspect(&repository, place);
        match entry.remove(args.dry_run) {
            Ok(()) => removed.push(entry),
            Err(reason) => refused.push((entry, reason)),
        }
    }
    if args.json {
        let name = |entry: &CloneEntry| json!(entry.place.name());
        let refuse = |(entry, reason): &(CloneEntry, String)| json!({ "slot": entry.place.name(), "reason": reason });
        let facts = json!({
            "dryRun": args.dry_run,
            "removed": removed.iter().map(name).collect::<Vec<_>>(),
            "refused": refused.iter().map(refuse).collect::<Vec<_>>(),
            "bytes": sum_bytes(&removed),
        });
        screen::print_data(&format!("{facts:#}\n"));
    } else if !common.quiet {
        screen::print_data(&format_removed(&removed, args.dry_run));
    }
    if refused.is_empty() {
        return Ok(ExitStatus::Complete);
    }
    let list = refused.iter().map(|(entry, reason)| {
        format!("{} ({}): {reason}", entry.place.name(), entry.place.directory().display())
    });
    let list: Vec<String> = list.collect();
    let message = format!("these clones were not removed: {}", list.join("; "));
    let error = CliError::new(ExitStatus::Incomplete, message);
    let is_free = |entry: &&CloneEntry| !matches!(entry.content, CloneContent::Held { .. });
    let free = refused.iter().map(|(entry, _)| entry).filter(is_free);
    let free = free.map(|entry| entry.place.directory().to_string_lossy().into_owned());
    let command: Vec<String> = ["rm".to_owned(), "-r".to_owned()].into_iter().chain(free).collect();
    let error = error.with_hint(
        "ralph saves the work in a clone under refs/ralph/kept/ before it uses it again",
    );
    Err(match command.len() {
        2 => error,
        // Such as after the repository, whose objects they borrow, was made again.
        _ => error.with_hint(format!(
            "if you do not need that work, or it cannot be saved: `{}`",
            quote_for_shell(&command)
        )),
    })
}

impl CloneEntry {
    /// Looks at a slot.
    fn inspect(repository: &GitRepository, place: SlotPlace) -> Self {
        let content = match place.find_holder() {
            Some(holder) => CloneContent::Held { pid: holder.pid },
            None => match find_unsaved_work(repository, &place) {
                Ok(None) => CloneContent::Saved,
                Ok(Some(work)) => CloneContent::Unsaved(work),
                Err(error) => CloneContent::Unreadable(error.message),
            },
        };
        let bytes = cleanup::measure_directory(place.directory());
        Self { place, bytes, content }
    }

    /// Removes the directory of a slot, unless this only shows what would be removed. Returns why
    /// it stays.
    fn remove(&self, is_dry_run: bool) -> Result<(), String> {
        match &self.content {
            CloneContent::Saved if is_dry_run => Ok(()),
            CloneContent::Saved => {
                fs::remove_dir_all(self.place.directory()).map_err(|error| error.to_string())
            }
            CloneContent::Held { .. } | CloneContent::Unsaved(_) | CloneContent::Unreadable(_) => {
                Err(self.content.describe())
            }
        }
    }

    fn format_line(&self) -> String {
        let owner = self.place.owner().map_or("no worker".to_owned(), |it| it.to_string());
        let (name, size) = (self.place.name(), ByteSize(self.bytes));
        format!("{name}  {owner}, {size}, {}\n", self.content.describe())
    }

    fn to_json(&self) -> Value {
        let (held_by, unsaved) = match &self.content {
            CloneContent::Held { pid } => (Some(*pid), None),
            CloneContent::Saved => (None, Some(false)),
            CloneContent::Unsaved(_) => (None, Some(true)),
            CloneContent::Unreadable(_) => (None, None),
        };
        json!({
            "slot": self.place.name(),
            "directory": self.place.directory(),
            "worker": self.place.owner(),
            "bytes": self.bytes,
            "unsaved": unsaved,
            "heldBy": held_by,
        })
    }
}

impl CloneContent {
    fn describe(&self) -> String {
        match self {
            Self::Held { pid } => format!("in use by process {pid}"),
            Self::Saved => "no unsaved work".to_owned(),
            Self::Unsaved(UnsavedWork { has_commits: true, files: 0 }) => {
                "unsaved commits".to_owned()
            }
            Self::Unsaved(UnsavedWork { has_commits, files }) => {
                let commits =
                    if *has_commits { "unsaved commits and " } else { "unsaved work in " };
                format!("{commits}{files} changed file{}", choose_plural(*files))
            }
            Self::Unreadable(reason) => format!("unsaved work is unknown: {reason}"),
        }
    }
}

fn find_slots(
    project: &Project,
    loaded: &LoadedSettings,
    repository: &GitRepository,
) -> Result<Vec<SlotPlace>, CliError> {
    let root = match &loaded.settings.parallel.directory {
        Some(directory) => project.directory.join(directory),
        None => project.find_state_root(loaded)?,
    };
    Ok(list_slots(&root, repository.top()))
}

fn format_removed(removed: &[CloneEntry], is_dry_run: bool) -> String {
    if removed.is_empty() {
        return "There is no clone to remove.\n".to_owned();
    }
    let names: Vec<&str> = removed.iter().map(|entry| entry.place.name()).collect();
    let done = if is_dry_run { "Would be removed" } else { "Removed" };
    format!("{done}: {}; {}.\n", names.join(", "), ByteSize(sum_bytes(removed)))
}

fn sum_bytes(entries: &[CloneEntry]) -> u64 {
    entries.iter().map(|entry| entry.bytes).sum()
}

fn build_no_repository_error() -> CliError {
    CliError::for_input("there is no git repository, so there are no clones of workers")
}
