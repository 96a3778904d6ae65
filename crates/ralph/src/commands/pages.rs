//! The inputs of the pages of `report --html` and `serve`: the report of a run, whether it is
//! active, and the diffs of its attempts.
//!
//! Not here: how a page looks (`ralph_ui::html`), and serving it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ralph_core::reporting::report::{Report, Summary};
use ralph_io::git::GitRepository;
use ralph_io::mask::Masker;
use ralph_io::process::Watch;
use ralph_io::store::{RunLock, active};
use ralph_io::{atomic_file, clock};
use ralph_model::control::Pause;
use ralph_model::ids::RunId;
use ralph_model::worktree::TreeId;
use ralph_ui::html::{self, LiveFacts, PageInput, PagePart, RunActivity, WorkerKeys};
use ralph_ui::time::WallClock;
use serde::de::IgnoredAny;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::secrets;

/// Most characters of a diff requested from git; a page shows less.
const DIFF_CHARS: usize = 20_000;

/// Diffs cached while a page is followed: more than one page shows.
const MAX_CACHED_DIFFS: usize = 64;

/// Permissions of a page: everyone with access to the project may read it.
const PAGE_MODE: u32 = 0o644;

/// Returns whether the user names stdout as the place of a result.
pub(super) fn is_stdout(file: &Path) -> bool {
    file == Path::new("-") || file == Path::new("/dev/stdout")
}

/// Writes a result to the place that the user names.
pub(super) fn write_result(place: &Path, shown: &str, text: &str) -> Result<(), CliError> {
    let mode = Permissions::from_mode(PAGE_MODE);
    atomic_file::write_named_output(place, text.as_bytes(), mode)
        .map_err(|error| CliError::for_input(format!("cannot write `{shown}`: {error}")))
}

/// Writes a result to the place that ralph chose. An agent may have left a link there, so it is
/// not followed.
pub(super) fn write_own_result(place: &Path, text: &str) -> Result<(), CliError> {
    let mode = Permissions::from_mode(PAGE_MODE);
    atomic_file::replace_with(place, text.as_bytes(), mode).map_err(|error| {
        CliError::for_input(format!("cannot write `{}`: {error}", place.display()))
    })
}

/// Returns whether a run is active, by the lock of its state directory and which run holds it.
pub(super) fn find_activity(state: &Path, run: &RunId, report: &Report) -> RunActivity {
    let has_ended = report.state().is_none_or(|state| state.outcome.is_some());
    if has_ended || RunLock::find_holder(state).is_none() {
        return RunActivity::Ended;
    }
    let holder = active::read_active::<IgnoredAny>(&state.join("active.json")).ok();
    let is_this = match holder {
        Some(active) => active.run == *run,
        // Before the first call the file does not exist; the active run is the newest one then.
        None => find_newest_run(state).is_none_or(|newest| newest <= run.0),
    };
    match find_pause_state(report) {
        _ if !is_this => RunActivity::Ended,
        Pause::No | Pause::Asked { .. } => RunActivity::Active,
        Pause::Since { .. } => RunActivity::Paused,
    }
}

/// Returns the pause state of a run.
pub(super) fn find_pause_state(report: &Report) -> Pause {
    report.state().map_or(Pause::No, |state| state.control.pause)
}

/// Returns the id of the newest run.
fn find_newest_run(state: &Path) -> Option<String> {
    let runs = fs::read_dir(state.join("runs")).ok()?;
    runs.flatten().filter_map(|entry| entry.file_name().into_string().ok()).max()
}

/// The diffs of a run's attempts, as far as git still has them, with secrets masked.
pub(super) struct AttemptDiffs {
    repository: Option<GitRepository>,
    /// The name of a secret instead, if its value is not known.
    masker: Result<Masker, String>,
    known: BTreeMap<(String, String), Result<String, String>>,
}

impl AttemptDiffs {
    /// Returns the diffs of a run. The project directory may no longer exist.
    pub(super) fn for_run(project: &Project, report: &Report) -> Self {
        let repository = if project.directory.is_dir() {
            project.find_repository(&Watch::new_detached()).ok().flatten()
        } else {
            None
        };
        let masker = report.state().map_or_else(
            || Ok(Masker::new([])),
            |state| secrets::build_masker_for_record(project, &state.recipe),
        );
        Self { repository, masker, known: BTreeMap::new() }
    }

    fn find_diff(&mut self, from: &TreeId, to: &TreeId) -> Result<String, String> {
        let pair = (from.0.clone(), to.0.clone());
        if let Some(known) = self.known.get(&pair) {
            return known.clone();
        }
        let diff = match (&self.repository, &self.masker) {
            (None, _) => Err("the repository no longer exists".to_owned()),
            (_, Err(name)) => Err(format!(
                "it may contain the secret `{name}`, and neither the settings nor the environment \
                 have its value to mask it"
            )),
            // Git eventually prunes the trees of discarded work.
            (Some(repository), Ok(masker)) => repository
                .build_patch(from, to, DIFF_CHARS)
                .map(|patch| masker.mask_text(&patch).into_owned())
                .map_err(|_| "git has removed it".to_owned()),
        };
        if self.known.len() >= MAX_CACHED_DIFFS {
            self.known.clear();
        }
        self.known.insert(pair, diff.clone());
        diff
    }
}

/// Returns the parts of a page.
pub(super) fn build_parts(
    report: &Report,
    summary: &Summary,
    project: &Path,
    activity: RunActivity,
    live: LiveFacts<'_>,
    workers: &WorkerKeys,
    diffs: &mut AttemptDiffs,
) -> Vec<PagePart> {
    let clock = WallClock { zone: clock::find_local_zone(), now: clock::now };
    html::render_parts(&mut PageInput {
        summary,
        timeline: report.timeline(),
        project: &format_project_name(project),
        status: activity,
        live,
        workers,
        clock: &clock,
        diff: &mut |from, to| diffs.find_diff(from, to),
    })
}

/// Returns a complete page.
pub(super) fn build_document(
    report: &Report,
    summary: &Summary,
    project: &Path,
    activity: RunActivity,
    diffs: &mut AttemptDiffs,
) -> String {
    let (live, workers) = (LiveFacts::default(), WorkerKeys::new());
    let parts = build_parts(report, summary, project, activity, live, &workers, diffs);
    html::render_document(&format_title(summary, project), &parts)
}

/// Returns the title of a page.
pub(super) fn format_title(summary: &Summary, project: &Path) -> String {
    let far = summary.progress.map(|progress| format!("{}/{} ", progress.done, progress.total));
    format!("{}{} - ralph {}", far.unwrap_or_default(), format_project_name(project), summary.run)
}

/// Returns the directory name of a project.
pub(super) fn format_project_name(project: &Path) -> String {
    let name = project.file_name().unwrap_or(project.as_os_str());
    name.to_string_lossy().into_owned()
}
