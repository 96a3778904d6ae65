//! `ralph clean`: removes the files of old runs of this work tree.
//!
//! A run's refs are removed before its directory, so that after a crash the run can be removed
//! again. Not here: commits, branches and the project's files, which stay.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use ralph_core::ids::RunId;
use ralph_core::outcome::ExitStatus;
use ralph_core::ports::VcsError;
use ralph_io::git::{Repository, RunRef, RunRefKind};
use ralph_io::process::Watch;
use ralph_io::store::runs::{self, RunSummary};
use ralph_io::store::{Layout, clutter};
use ralph_ui::size::Bytes;
use serde_json::{Value, json};

use crate::cli::{CleanArgs, CommonArgs};
use crate::complaint::Complaint;
use crate::desk::Desk;
use crate::project::Project;
use crate::screen;
use crate::settings::types::quantity::Span;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &CleanArgs) -> Result<ExitStatus, Complaint> {
    let span = Span::parse(&args.older_than)
        .map_err(|error| Complaint::input(format!("--older-than: {error}")))?;
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    // The lock keeps a run from using what is removed.
    let _context = if args.dry_run { None } else { Some(Desk::open(common, &project, &loaded)?) };
    let repository = project.repository(&Watch::detached())?;
    let layout = project.layout_in(&loaded, repository.as_ref())?;
    let before = SystemTime::now().checked_sub(span.0.into()).unwrap_or(SystemTime::UNIX_EPOCH);
    let clutter = Clutter::find(&layout, repository.as_ref(), before, args)?;
    let mut failed = Vec::new();
    if !args.dry_run {
        layout.finish_removals();
        if let Some(repository) = &repository {
            clutter.remove_refs(repository)?;
        }
        failed = clutter.remove_files(&layout);
    }
    if args.json {
        screen::print_data(&format!("{:#}\n", clutter.facts(args)));
    } else if !common.quiet {
        screen::print_data(&clutter.account(args));
    }
    if failed.is_empty() {
        return Ok(ExitStatus::Complete);
    }
    let failed = failed.join("; ");
    Err(Complaint::new(
        ExitStatus::Incomplete,
        format!("not everything could be removed: {failed}"),
    ))
}

/// What to remove, and what to keep.
struct Clutter {
    runs: Vec<Old>,
    refs: Vec<RunRef>,
    logs: Vec<(PathBuf, u64)>,
    halves: Vec<(PathBuf, u64)>,
    /// The caches of agents and gates, which they rebuild.
    caches: Option<(PathBuf, u64)>,
    /// How many refs with saved work of these runs stay.
    kept: usize,
    /// How many runs stay because they are new.
    new: usize,
    /// Runs that stay because changes are set aside for them.
    waited_for: Vec<RunId>,
}

/// A run to remove.
struct Old {
    run: RunSummary,
    bytes: u64,
}

impl Clutter {
    fn find(
        layout: &Layout,
        repository: Option<&Repository>,
        before: SystemTime,
        args: &CleanArgs,
    ) -> Result<Self, Complaint> {
        let refs = repository.map(Repository::refs_of_runs).transpose().map_err(trouble)?;
        let refs = refs.unwrap_or_default();
        let mut found = Self {
            runs: Vec::new(),
            refs: Vec::new(),
            logs: layout.old_session_logs(before),
            halves: layout.old_halves(before),
            caches: layout.caches(),
            kept: 0,
            new: 0,
            waited_for: Vec::new(),
        };
        for (place, run) in runs::runs(layout.state()).into_iter().enumerate() {
            let is_aside = |it: &RunRef| it.kind == RunRefKind::SetAside && it.run == run.id;
            if place < args.keep || !is_older(layout, &run.id, before) {
                found.new += 1;
            } else if refs.iter().any(is_aside) {
                found.waited_for.push(run.id);
            } else {
                let bytes = clutter::size(layout.run(&run.id).path());
                found.runs.push(Old { run, bytes });
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

    fn remove_refs(&self, repository: &Repository) -> Result<(), Complaint> {
        let refs: Vec<&RunRef> = self.refs.iter().collect();
        if refs.is_empty() { Ok(()) } else { repository.remove_refs(&refs).map_err(trouble) }
    }

    /// Removes directories and files. Returns the failures.
    fn remove_files(&self, layout: &Layout) -> Vec<String> {
        let mut failed = Vec::new();
        for Old { run, .. } in &self.runs {
            if let Err(error) = layout.remove_run(&run.id) {
                failed.push(format!("run {}: {error}", run.id));
            }
        }
        if let Some((directory, _)) = &self.caches
            && let Err(error) = fs::remove_dir_all(directory)
        {
            failed.push(format!("{}: {error}", directory.display()));
        }
        for (file, _) in self.files() {
            if let Err(error) = fs::remove_file(file) {
                failed.push(format!("{}: {error}", file.display()));
            }
        }
        failed
    }

    fn files(&self) -> impl Iterator<Item = &(PathBuf, u64)> {
        self.logs.iter().chain(&self.halves)
    }

    fn bytes(&self) -> u64 {
        let runs = self.runs.iter().map(|old| old.bytes);
        runs.chain(self.files().chain(&self.caches).map(|(_, bytes)| *bytes)).sum()
    }

    fn facts(&self, args: &CleanArgs) -> Value {
        let run = |Old { run, bytes }: &Old| {
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
            "halfWritten": self.halves.len(),
            "cacheBytes": self.caches.as_ref().map_or(0, |(_, bytes)| *bytes),
            "bytes": self.bytes(),
            "left": { "new": self.new, "setAside": self.waited_for, "keptRefs": self.kept }
        })
    }

    fn account(&self, args: &CleanArgs) -> String {
        let mut text = String::new();
        for Old { run, bytes } in &self.runs {
            let how = run.outcome.as_ref().map_or("cut off".to_owned(), ToString::to_string);
            let iterations = counted(run.iterations as usize, "iteration");
            text.push_str(&format!("{}  {iterations}, {how}, {}\n", run.id, Bytes(*bytes)));
        }
        let what = [
            (self.runs.len(), "run"),
            (self.refs.len(), "ref"),
            (self.logs.len(), "log"),
            (self.halves.len(), "half-written file"),
            (self.caches.iter().len(), "cache"),
        ];
        let what: Vec<String> = what
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| counted(count, name))
            .collect();
        let done = if args.dry_run { "Would be removed" } else { "Removed" };
        text.push_str(&if what.is_empty() {
            "There is nothing to remove.\n".to_owned()
        } else {
            format!("{done}: {}; {}.\n", what.join(", "), Bytes(self.bytes()))
        });
        if self.kept > 0 {
            let stay = stays(self.kept, "ref");
            text.push_str(&format!(
                "{stay} under refs/ralph/kept/, with what these runs took away; --kept removes that.\n"
            ));
        }
        for run in &self.waited_for {
            text.push_str(&format!("Run {run} stays: changes are set aside for it.\n"));
        }
        if self.new > 0 {
            text.push_str(&format!("{}.\n", stays(self.new, "newer run")));
        }
        text
    }
}

/// Returns whether the last activity of a run is before a time.
fn is_older(layout: &Layout, run: &RunId, before: SystemTime) -> bool {
    let files = layout.run(run);
    let last = files.last_heard().or_else(|| fs::metadata(files.path()).ok()?.modified().ok());
    last.is_none_or(|last| last < before)
}

fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

fn stays(count: usize, name: &str) -> String {
    format!("{} {}", counted(count, name), if count == 1 { "stays" } else { "stay" })
}

fn trouble(error: VcsError) -> Complaint {
    Complaint::new(ExitStatus::GitFailed, error.message)
}
