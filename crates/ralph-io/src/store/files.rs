//! The store of a run: its journal, its prompt file, and the views for people.
//!
//! Not here: the agent's raw stream, which the agent runner writes.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::checking::secret::strip_recipe_secrets;
use ralph_core::ports::{ListOrder, ProjectText, PromptError, Store, StoreError, TasksError, View};
use ralph_model::control::Pause;
use ralph_model::event::{Event, Recorded};
use ralph_model::gate::GateResult;
use ralph_model::hook_state::HookState;
use ralph_model::ids::{IterationNumber, RunId, TaskId};
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::plan::PlanState;
use ralph_model::refusal::Refusal;
use ralph_model::run::RunState;
use ralph_model::task::{TaskList, TasksFound};
use ralph_model::units::{Timestamp, Tokens, UsdMicros};
use rustix::fs::OFlags;
use serde::Serialize;

use super::journal::Journal;
use super::layout::{LayoutError, ProjectLayout, RunDir, write_json, write_json_unsynced};
use super::plan::KeptPlan;
use super::prompts::{self, TemplateCache, TextPlaces};
use super::tasks::TaskFileOrigin;
use crate::formats::TaskFile;
use crate::mask::Masker;
use crate::{bounded_read, clock};

/// No model reads more; the user named a larger file by mistake.
const LARGEST_PROMPT: u64 = 16 * 1024 * 1024;

/// The files of a run in progress.
#[derive(Debug)]
pub struct RunStore {
    pub(super) layout: ProjectLayout,
    journal: Journal,
    /// Where the trusted copy of the task file is.
    pub(super) files: RunDir,
    texts: TextPlaces,
    templates: TemplateCache,
    /// The task file as ralph last read or wrote it.
    pub(super) tasks: Option<TaskFile>,
    pub(super) origin: TaskFileOrigin,
    masker: Masker,
    last_task: Option<TaskId>,
    /// When this process started or resumed the run.
    began: Timestamp,
}

impl RunStore {
    /// Returns the store of a run whose journal is open.
    pub fn new(
        layout: ProjectLayout,
        journal: Journal,
        files: RunDir,
        skills: PathBuf,
        prompts: PathBuf,
    ) -> Self {
        let (tasks, origin, last_task, began) = (None, TaskFileOrigin::Others, None, clock::now());
        let texts = TextPlaces { project: layout.project().to_owned(), skills, prompts };
        let (templates, masker) = (TemplateCache::default(), Masker::default());
        Self { layout, journal, files, texts, templates, tasks, origin, masker, last_task, began }
    }

    /// Sets the secrets that are masked before anything is written.
    #[must_use]
    pub fn with_masker(self, masker: Masker) -> Self {
        Self { masker, ..self }
    }

    fn publish_state(&mut self, state: &RunState) -> Result<(), StoreError> {
        if let Some(task) = state.current.as_ref().and_then(|current| current.task.clone()) {
            self.last_task = Some(task);
        }
        let since = &state.since_compaction;
        let (coded, bytes) = match &state.recipe.memory {
            Some(_) => (since.coding_iterations, since.handoff_bytes),
            None => (state.iterations, 0),
        };
        let usage = state.total_usage();
        let view = StateView {
            version: 1,
            run: &state.run.0,
            status: match (&state.outcome, state.control.pause) {
                (None, Pause::Since { .. }) => "paused",
                (outcome, _) => describe_status(outcome.as_ref()),
            },
            started_at: format_rfc3339(state.started),
            current_iteration: state.iterations,
            last_compaction_iteration: since.last.map_or(0, |last| last.0),
            coding_iterations_since_compaction: coded,
            total_handoff_bytes_since_compaction: bytes,
            last_task_id: self.last_task.as_ref().map(|task| task.0.as_str()),
            cost_usd_micros: usage.cost,
            tokens: usage.tokens(),
        };
        match &state.outcome {
            None => write_unsynced(&self.prepare_view_path(&[], "state.json")?, &view),
            Some(_) => self.write_view(&[], "state.json", &view),
        }
    }

    /// Returns the id of the run, which is the name of its directory.
    fn run_name(&self) -> String {
        self.files.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn publish_active(&self, active: &HookState) -> Result<(), StoreError> {
        let active = HookState { pid: std::process::id(), started: self.began, ..active.clone() };
        let path = self.layout.active_path();
        super::active::write_active(&path, &active)
            .map_err(|error| build_write_error(&path, &error))
    }

    fn publish_gates(
        &self,
        iteration: IterationNumber,
        results: &[GateResult],
        refusals: &[Refusal],
    ) -> Result<(), StoreError> {
        let view = GatesView { version: 1, run: self.run_name(), iteration, results, refusals };
        let name = format!("iter-{iteration}.json");
        write_unsynced(&self.prepare_view_path(&["logs", "validation"], &name)?, &view)
    }

    /// Returns the path of a view in the project's runtime directory.
    pub(super) fn prepare_view_path(
        &self,
        parts: &[&str],
        name: &str,
    ) -> Result<PathBuf, StoreError> {
        Ok(self.prepare_view_directory(parts)?.join(name))
    }

    pub(super) fn prepare_view_directory(&self, parts: &[&str]) -> Result<PathBuf, StoreError> {
        self.layout.create_project_directory(parts).map_err(|error| StoreError {
            message: match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        })
    }

    pub(super) fn write_view(
        &self,
        parts: &[&str],
        name: &str,
        view: &impl Serialize,
    ) -> Result<(), StoreError> {
        let path = self.prepare_view_path(parts, name)?;
        write_json(&path, view).map_err(|error| build_write_error(&path, &error))
    }
}

impl Store for RunStore {
    fn mask_secrets(&self, event: Event) -> Event {
        self.masker.mask_event(event)
    }

    fn append_event(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        if let Event::IterationStarted { task: Some(task), .. } = &recorded.event {
            self.last_task = Some(task.clone());
        }
        // Environment variables set for agents are needed by the run, but are not written to disk.
        let mut recorded = Cow::Borrowed(recorded);
        if matches!(recorded.event, Event::RunStarted { .. } | Event::RunResumed { .. })
            && let Event::RunStarted { recipe, .. } | Event::RunResumed { recipe: Some(recipe), .. } =
                &mut recorded.to_mut().event
        {
            **recipe = strip_recipe_secrets(recipe);
        }
        self.journal.append(&recorded).map_err(|error| StoreError { message: error.to_string() })
    }

    fn sync_events(&mut self) -> Result<(), StoreError> {
        self.journal.sync().map_err(|error| StoreError { message: error.to_string() })
    }

    fn read_text(&mut self, text: &ProjectText) -> Result<Option<String>, PromptError> {
        let read = self.texts.read_text(text);
        if let ProjectText::Template(name) = text {
            let found = read.as_ref().ok().and_then(Option::as_deref);
            self.templates.note_read(&self.texts, name, found);
        }
        read
    }

    fn take_changed_templates(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.templates.changed)
    }

    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        self.read_task_file(path)
    }

    fn check_task_file(&mut self, path: &Path, known: &TaskList) -> TasksFound {
        self.compare_task_file(path, known)
    }

    fn write_tasks(&mut self, path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError> {
        self.write_task_file(path, order)
    }

    fn write_companion_file(
        &mut self,
        tasks: &Path,
        name: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let scratch = self.prepare_view_directory(&[])?;
        prompts::replace_companion(&scratch, self.layout.project(), tasks, name, text)
    }

    fn inspect_plan(&mut self, file: &Path, removed: &[String]) -> PlanState {
        KeptPlan::new(self.layout.project(), file, &self.files).inspect(removed)
    }

    fn keep_plan(&mut self, file: &Path) {
        KeptPlan::new(self.layout.project(), file, &self.files).keep();
    }

    fn restore_plan(&mut self, file: &Path) -> Result<(), StoreError> {
        KeptPlan::new(self.layout.project(), file, &self.files).restore()
    }

    fn publish_view(&mut self, view: &View<'_>) -> Result<(), StoreError> {
        match view {
            View::HookState(active) => self.publish_active(active),
            View::State(state) => self.publish_state(state),
            View::Gates { iteration, results, refusals } => {
                self.publish_gates(*iteration, results, refusals)
            }
            View::Attempts(record) => self.publish_attempts(*record),
            View::Handoff { iteration, handoff } => {
                let name = format!("handoff-{:03}.json", iteration.0);
                let mut view = serde_json::to_value(handoff).unwrap_or_default();
                view["run"] = self.run_name().into();
                self.write_view(&["handoffs"], &name, &view)
            }
            View::Memory { run, iteration, compacted } => {
                self.publish_memory(run, *iteration, compacted)
            }
            View::Amendments { iteration, at, log } => self.log_amendments(*iteration, *at, log),
        }
    }
}

/// Writes a view without syncing: all of it is in the journal.
fn write_unsynced(path: &Path, view: &impl Serialize) -> Result<(), StoreError> {
    write_json_unsynced(path, view).map_err(|error| build_write_error(path, &error))
}

fn build_write_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError { message: format!("cannot write `{}`: {error}", path.display()) }
}

/// A larger log is renamed when a run begins.
const LARGEST_LOG: u64 = 8 * 1024 * 1024;

/// Opens the project's log for appending.
pub fn open_log(layout: &ProjectLayout) -> Result<File, LayoutError> {
    let path = layout.create_project_directory(&["logs"])?.join("ralph.log");
    if std::fs::symlink_metadata(&path).is_ok_and(|log| log.len() > LARGEST_LOG) {
        std::fs::rename(&path, path.with_extension("log.1"))
            .map_err(|source| LayoutError::Refused { doing: "move", path: path.clone(), source })?;
    }
    open_for_appending(&path)
}

/// Opens the log of a session that begins now, such as `session-20261114-231500-k3f9.log`, with the
/// end of the run's id.
pub fn open_session_log(
    layout: &ProjectLayout,
    now: Timestamp,
    run: &RunId,
) -> Result<File, LayoutError> {
    let moment = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    let local = moment.to_zoned(crate::clock::find_local_zone());
    let end = run.0.rsplit('-').next().unwrap_or(&run.0);
    let name = format!("session-{}-{end}.log", local.strftime("%Y%m%d-%H%M%S"));
    open_for_appending(&layout.create_project_directory(&["logs"])?.join(name))
}

pub(super) fn open_for_appending(path: &Path) -> Result<File, LayoutError> {
    let refused = |source| LayoutError::Refused { doing: "open", path: path.to_owned(), source };
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
        .map_err(refused)
}

/// Reads a prompt file. Also called as a check before the run begins.
pub fn read_prompt(project: &Path, path: &Path) -> Result<String, PromptError> {
    let wrong = |what: &str| PromptError {
        message: format!("cannot read the prompt file `{}`: {what}", project.join(path).display()),
    };
    let bytes = bounded_read::read_within(project, path, LARGEST_PROMPT + 1)
        .map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() as u64 > LARGEST_PROMPT {
        return Err(wrong("it is larger than 16 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(&format!("it is not valid UTF-8 (byte {})", at + 1))
    })?;
    if text.trim().is_empty() {
        return Err(wrong("it is empty"));
    }
    Ok(text)
}

#[derive(Serialize)]
struct StateView<'a> {
    version: u32,
    run: &'a str,
    status: &'static str,
    started_at: String,
    current_iteration: u32,
    last_compaction_iteration: u32,
    coding_iterations_since_compaction: u32,
    total_handoff_bytes_since_compaction: u64,
    last_task_id: Option<&'a str>,
    cost_usd_micros: Option<UsdMicros>,
    tokens: Tokens,
}

#[derive(Serialize)]
struct GatesView<'a> {
    version: u32,
    run: String,
    iteration: IterationNumber,
    results: &'a [GateResult],
    #[serde(skip_serializing_if = "<[Refusal]>::is_empty")]
    refusals: &'a [Refusal],
}

fn describe_status(outcome: Option<&Outcome>) -> &'static str {
    match outcome.map(Outcome::exit_code) {
        None => "running",
        Some(ExitStatus::Complete) => "complete",
        Some(ExitStatus::Interrupted) => "interrupted",
        Some(ExitStatus::Incomplete) => "incomplete",
        Some(
            ExitStatus::BadInput
            | ExitStatus::Busy
            | ExitStatus::AgentFailed
            | ExitStatus::GitFailed,
        ) => "failed",
    }
}

fn format_rfc3339(moment: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests;
