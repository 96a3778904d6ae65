//! The inputs of the pages of `report --html` and `serve`: the report of a run, whether it is
//! active, and the diffs of its attempts.
//!
//! Not here: how a page looks (`ralph_ui::html`), and serving it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_core::control::Pause;
use ralph_core::event::TreeId;
use ralph_core::ids::RunId;
use ralph_core::report::{Report, Summary};
use ralph_io::clock;
use ralph_io::git::Repository;
use ralph_io::mask::Masker;
use ralph_io::process::Watch;
use ralph_io::store::{Lock, active};
use ralph_ui::html::{self, Facts, Part, Standing};
use ralph_ui::time::WallClock;
use serde::de::IgnoredAny;

use crate::project::Project;
use crate::secrets;

/// Most characters of a diff requested from git; a page shows less.
const DIFF_CHARS: usize = 20_000;

/// Diffs cached while a page is followed: more than one page shows.
const MOST_DIFFS: usize = 64;

/// Whether a run is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Active,
    Over,
}

impl Look {
    /// Checks the lock of a state directory, and which run holds it.
    pub(super) fn at(state: &Path, run: &RunId, report: &Report) -> Self {
        let has_ended = report.state().is_none_or(|state| state.outcome.is_some());
        if has_ended || Lock::look(state).is_none() {
            return Self::Over;
        }
        let holder = active::read::<IgnoredAny>(&state.join("active.json")).ok();
        let is_this = match holder {
            Some(active) => active.run == *run,
            // Before the first call the file does not exist; the active run is the newest one then.
            None => newest(state).is_none_or(|newest| newest <= run.0),
        };
        if is_this { Self::Active } else { Self::Over }
    }

    fn standing(self, report: &Report) -> Standing {
        match (self, pause(report)) {
            (Self::Active, Pause::No | Pause::Asked { .. }) => Standing::Active,
            (Self::Active, Pause::Since { .. }) => Standing::Paused,
            (Self::Over, _) => Standing::Over,
        }
    }
}

/// Returns the pause state of a run.
pub(super) fn pause(report: &Report) -> Pause {
    report.state().map_or(Pause::No, |state| state.control.pause)
}

/// Returns the id of the newest run.
fn newest(state: &Path) -> Option<String> {
    let runs = fs::read_dir(state.join("runs")).ok()?;
    runs.flatten().filter_map(|entry| entry.file_name().into_string().ok()).max()
}

/// The diffs of a run's attempts, as far as git still has them, with secrets masked.
pub(super) struct Diffs {
    repository: Option<Repository>,
    masker: Masker,
    known: BTreeMap<(String, String), Result<String, String>>,
}

impl Diffs {
    /// Returns the diffs of a run. The project directory may no longer exist.
    pub(super) fn of(project: &Project, report: &Report) -> Self {
        let repository = if project.directory.is_dir() {
            project.repository(&Watch::detached()).ok().flatten()
        } else {
            None
        };
        let masker = report
            .state()
            .map_or_else(|| Masker::new([]), |state| secrets::masker(&project.env, &state.recipe));
        Self { repository, masker, known: BTreeMap::new() }
    }

    fn between(&mut self, from: &TreeId, to: &TreeId) -> Result<String, String> {
        let pair = (from.0.clone(), to.0.clone());
        if let Some(known) = self.known.get(&pair) {
            return known.clone();
        }
        let diff = match &self.repository {
            None => Err("the repository is not there any more".to_owned()),
            // Git eventually prunes the trees of discarded work.
            Some(repository) => repository
                .patch(from, to, DIFF_CHARS)
                .map(|patch| self.masker.text(&patch).into_owned())
                .map_err(|_| "git has cleared it away".to_owned()),
        };
        if self.known.len() >= MOST_DIFFS {
            self.known.clear();
        }
        self.known.insert(pair, diff.clone());
        diff
    }
}

/// Returns the parts of a page.
pub(super) fn parts(
    report: &Report,
    summary: &Summary,
    project: &Path,
    look: Look,
    diffs: &mut Diffs,
) -> Vec<Part> {
    let clock = WallClock::system(clock::now);
    html::parts(&mut Facts {
        summary,
        timeline: report.timeline(),
        project: &name(project),
        standing: look.standing(report),
        clock: &clock,
        diff: &mut |from, to| diffs.between(from, to),
    })
}

/// Returns a complete page.
pub(super) fn document(
    report: &Report,
    summary: &Summary,
    project: &Path,
    look: Look,
    diffs: &mut Diffs,
) -> String {
    let parts = parts(report, summary, project, look, diffs);
    html::document(&title(summary, project), &parts)
}

/// Returns the title of a page.
pub(super) fn title(summary: &Summary, project: &Path) -> String {
    let far = summary.progress.map(|progress| format!("{}/{} ", progress.done, progress.total));
    format!("{}{} - ralph {}", far.unwrap_or_default(), name(project), summary.run)
}

/// Returns the directory name of a project.
pub(super) fn name(project: &Path) -> String {
    let name = project.file_name().unwrap_or(project.as_os_str());
    name.to_string_lossy().into_owned()
}
