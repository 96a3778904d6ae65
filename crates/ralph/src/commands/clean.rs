//! `ralph clean`: removes the files of old runs of this work tree.
//!
//! A run's refs are removed before its directory, so that after a crash the run can be removed
//! again. Not here: commits, branches and the project's files, which stay.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use ralph_io::git::{GitRepository, RunRef, RunRefKind};
use ralph_io::process::Watch;
use ralph_io::store::runs::{self, RunSummary};
use ralph_io::store::{ProjectLayout, cleanup};
use ralph_model::ids::RunId;
use ralph_model::outcome::ExitStatus;
use ralph_model::text::choose_plural;
use ralph_ui::size::ByteSize;
use serde_json::{Value, json};

use super::clones;
use crate::cli::{CleanArgs, CommonArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::RunContext;
use crate::screen;
use crate::settings::types::quantity::DurationSetting;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &CleanArgs) -> Result<ExitStatus, CliError> {
    if args.clones {
        return clones::remove_clones(common, args);
    }
    // Seconds are not what a user means who keeps runs for `30`.
    if args.older_than.trim().parse::<u64>().is_ok_and(|it| it > 0) {
        let days = args.older_than.trim();
        return Err(CliError::for_input(format!("--older-than {days}: the unit is missing"))
            .with_hint(format!("`--older-than {days}d` means days; h, m and s are possible too")));
    }
    let span = DurationSetting::parse(&args.older_than)
        .map_err(|error| CliError::for_input(format!("--older-than: {error}")))?;
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    // The lock keeps a run from using what is removed.
    let _context =
        if args.dry_run { None } else { Some(RunContext::open(common, &project, &loaded)?) };
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(&loaded, repository.as_ref())?;
    let before = SystemTime::now().checked_sub(span.0.into()).unwrap_or(SystemTime::UNIX_EPOCH);
    let clutter = CleanupPlan::plan(&layout, repository.as_ref(), before, args)?;
    let mut failed = Vec::new();
    if !args.dry_run {
        layout.finish_removals();
        if let Some(repository) = &repository {
            clutter.remove_refs(repository)?;
        }
        failed = clutter.remove_files(&layout);
    }
    if args.json {
        screen::print_data(&format!("{:#}\n", clutter.to_json(args)));
    } else if !common.quiet {
        screen::print_data(&clutter.format_report(args));
    }
    if failed.is_empty() {
        return Ok(ExitStatus::Complete);
    }
    let failed = failed.join("; ");
    Err(CliError::new(ExitStatus::Incomplete, format!("not everything could be removed: {failed}")))
}

/// What to remove, and what to keep.
struct CleanupPlan {
    runs: Vec<OldRun>,
    refs: Vec<RunRef>,
    logs: Vec<(PathBuf, u64)>,
    temp_files: Vec<(PathBuf, u64)>,
    /// The caches of agents and gates, which they rebuild.
    caches: Option<(PathBuf, u64)>,
    /// How many refs with saved work of these runs stay.
    kept: usize,
    /// How many runs stay because they are new.
    new: usize,
    /// Runs that stay because changes are set aside for them.
    with_set_aside: Vec<RunId>,
}

/// A run to remove.
struct OldRun {
    run: RunSummary,
    bytes: u64,
}

impl CleanupPlan {
    fn plan(
        layout: &ProjectLayout,
        repository: Option<&GitRepository>,
        before: SystemTime,
        args: &CleanArgs,
    ) -> Result<Self, CliError> {
        let refs = repository
            .map(GitRepository::list_run_refs)
            .transpose()
            .map_err(CliError::from_git_error)?;
        let refs = refs.unwrap_or_default();
        let mut found = Self {
            runs: Vec::new(),
            refs: Vec::new(),
            logs: layout.find_old_session_logs(before),
            temp_files: layout.find_stale_temp_files(before),
            caches: layout.measure_caches(),
            kept: 0,
            new: 0,
            with_set_aside: Vec::new(),
        };
        for (place, run) in runs::list_runs(layout.state()).into_iter().enumerate() {
            let is_aside = |it: &RunRef| it.kind == RunRefKind::SetAside && it.run == run.id;
            if place < args.keep || !is_older(layout, &run.id, before) {
                found.new += 1;
            } else if refs.iter().any(is_aside) {
                found.with_set_aside.push(run.id);
            } else {
                let bytes = cleanup::measure_directory(layout.run_dir(&run.id).path());
                found.runs.push(OldRun { run, bytes });
            }
        }
        let is_of_old = |it: &RunRef| found.runs.iter().any(|old| old.run.id == it.run);
        let (stay, go) = refs
            .into_iter()
            .filter(is_of_old)
            .partition(|it| it.kind == RunRefKind::Kept && !args.kept);
        let stay: Vec<RunRef> = stay;
        (found.kept, found.refs) = (stay.len(), go);
        Ok(found)
    }

    fn remove_refs(&self, repository: &GitRepository) -> Result<(), CliError> {
        let refs: Vec<&RunRef> = self.refs.iter().collect();
        if refs.is_empty() {
            Ok(())
        } else {
            repository.remove_refs(&refs).map_err(CliError::from_git_error)
        }
    }

    /// Removes directories and files. Returns the failures.
    fn remove_files(&self, layout: &ProjectLayout) -> Vec<String> {
        let mut failed = Vec::new();
        for OldRun { run, .. } in &self.runs {
            if let Err(error) = layout.remove_run(&run.id) {
                failed.push(format!("run {}: {error}", run.id));
            }
        }
        if let Some((directory, _)) = &self.caches
            && let Err(error) = fs::remove_dir_all(directory)
        {
            failed.push(format!("{}: {error}", directory.display()));
        }
        for (file, _) in self.old_files() {
            if let Err(error) = fs::remove_file(file) {
                failed.push(format!("{}: {error}", file.display()));
            }
        }
        failed
    }

    fn old_files(&self) -> impl Iterator<Item = &(PathBuf, u64)> {
        self.logs.iter().chain(&self.temp_files)
    }

    fn total_bytes(&self) -> u64 {
        let runs = self.runs.iter().map(|old| old.bytes);
        runs.chain(self.old_files().chain(&self.caches).map(|(_, bytes)| *bytes)).sum()
    }

    fn to_json(&self, args: &CleanArgs) -> Value {
        let run = |OldRun { run, bytes }: &OldRun| {
            json!({
                "run": run.id, "started": run.started, "iterations": run.iterations,
                "outcome": run.outcome, "bytes": bytes
            })
        };
        json!({
            "dryRun": args.dry_run,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "refs": self.refs.len(),
            "logs": self.logs.len(),
            "halfWritten": self.temp_files.len(),
            "cacheBytes": self.caches.as_ref().map_or(0, |(_, bytes)| *bytes),
            "bytes": self.total_bytes(),
            "left": { "new": self.new, "setAside": self.with_set_aside, "keptRefs": self.kept }
        })
    }

    fn format_report(&self, args: &CleanArgs) -> String {
        let mut text = String::new();
        for OldRun { run, bytes } in &self.runs {
            let how = run.outcome.as_ref().map_or("cut off".to_owned(), ToString::to_string);
            let iterations = format_count(run.iterations as usize, "iteration");
            text.push_str(&format!("{}  {iterations}, {how}, {}\n", run.id, ByteSize(*bytes)));
        }
        let what = [
            (self.runs.len(), "run"),
            (self.refs.len(), "ref"),
            (self.logs.len(), "log"),
            (self.temp_files.len(), "half-written file"),
            (self.caches.iter().len(), "cache"),
        ];
        let what: Vec<String> = what
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format_count(count, name))
            .collect();
        let done = if args.dry_run { "Would be removed" } else { "Removed" };
        text.push_str(&if what.is_empty() {
            "There is nothing to remove.\n".to_owned()
        } else {
            format!("{done}: {}; {}.\n", what.join(", "), ByteSize(self.total_bytes()))
        });
        if self.kept > 0 {
            let stay = format_stays(self.kept, "ref");
            text.push_str(&format!(
                "{stay} under refs/ralph/kept/, with work that these runs saved; --kept removes that too.\n"
            ));
        }
        for run in &self.with_set_aside {
            text.push_str(&format!("Run {run} stays: changes are set aside for it.\n"));
        }
        if self.new > 0 {
            text.push_str(&format!("{}.\n", format_stays(self.new, "newer run")));
        }
        text
    }
}

/// Returns whether the last activity of a run is before a time.
fn is_older(layout: &ProjectLayout, run: &RunId, before: SystemTime) -> bool {
    let files = layout.run_dir(run);
    let last =
        files.find_last_activity().or_else(|| fs::metadata(files.path()).ok()?.modified().ok());
    last.is_none_or(|last| last < before)
}

fn format_count(count: usize, name: &str) -> String {
    format!("{count} {name}{}", choose_plural(count))
}

fn format_stays(count: usize, name: &str) -> String {
    format!("{} {}", format_count(count, name), if count == 1 { "stays" } else { "stay" })
}
