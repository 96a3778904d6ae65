//! `ralph pause`, `go`, `stop`, `skip` and `note`: sends control requests to the active run.
//!
//! Not here: handling the requests. The run reads its inbox and decides.

use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::reporting::report::Report;
use ralph_core::run_loop::control::{self, MAX_NOTE_CHARS};
use ralph_io::control as inbox;
use ralph_io::store::layout::{ProjectLayout, RunDir};
use ralph_io::store::tail::JournalTail;
use ralph_io::store::{RunLock, active, runs};
use ralph_model::control::{ControlRequest, Pause};
use ralph_model::ids::RunId;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::run::RunState;
use serde::de::IgnoredAny;
use serde_json::json;

use super::tasks;
use crate::cli::CommonArgs;
use crate::cli::control::{GoArgs, HaltArgs, NoteArgs, SkipArgs, StopArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;

/// Poll interval; users do not notice a shorter delay.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Between taking the lock and the first event a run checks its agents, which may take a while.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes read of a note on stdin: a longer one is refused anyway.
const MAX_NOTE_BYTES: u64 = 64 * 1024;

/// The message where a request needs a task list.
const NO_LIST: &str = "the active run has no task list";

/// Asks the active run to pause.
pub(crate) fn pause_run(common: &CommonArgs, args: &HaltArgs) -> Result<ExitStatus, CliError> {
    let mut target = ActiveRun::find_or_wait(common)?;
    let result = target.send_request(&ControlRequest::Pause)?;
    let result = if args.wait { target.wait_for(is_paused)? } else { result };
    target.print_result(common, &ControlRequest::Pause, result, args.json);
    Ok(match result {
        RequestState::Ended => ExitStatus::Incomplete,
        RequestState::Asked | RequestState::AskedBefore | RequestState::Done => {
            ExitStatus::Complete
        }
    })
}

/// Lets a paused run continue.
pub(crate) fn continue_run(common: &CommonArgs, args: &GoArgs) -> Result<ExitStatus, CliError> {
    let mut target = ActiveRun::find_or_wait(common)?;
    let result = target.send_request(&ControlRequest::Resume)?;
    target.print_result(common, &ControlRequest::Resume, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Asks the active run to stop.
pub(crate) fn stop_run(common: &CommonArgs, args: &StopArgs) -> Result<ExitStatus, CliError> {
    let request = if args.now { ControlRequest::StopNow } else { ControlRequest::Stop };
    let mut target = ActiveRun::find_or_wait(common)?;
    let result = target.send_request(&request)?;
    let result = if args.wait {
        target.wait_for(|_| false)?;
        RequestState::Done
    } else {
        result
    };
    target.print_result(common, &request, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Asks the active run to skip a task.
pub(crate) fn skip_task(common: &CommonArgs, args: &SkipArgs) -> Result<ExitStatus, CliError> {
    let mut target = ActiveRun::find_or_wait(common)?;
    let state = target.read_state()?;
    let Some(task_state) = &state.tasks else {
        return Err(CliError::new(ExitStatus::Incomplete, NO_LIST));
    };
    let task = tasks::find_task(&task_state.list, args.task.trim())?.id.clone();
    let request = ControlRequest::Skip { task };
    let result = target.send_request(&request)?;
    target.print_result(common, &request, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Leaves a note for the next prompt of the active run.
pub(crate) fn leave_note(common: &CommonArgs, args: &NoteArgs) -> Result<ExitStatus, CliError> {
    let text = match args.text.as_slice() {
        [dash] if dash == "-" => read_note()?,
        words => words.join(" "),
    };
    let mut target = ActiveRun::find_or_wait(common)?;
    check_note(&text)?;
    let request = match &args.task {
        Some(task) => {
            let state = target.read_state()?;
            let Some(task_state) = &state.tasks else {
                return Err(CliError::for_input(NO_LIST)
                    .with_hint("`ralph note TEXT` without --task reaches its next prompt"));
            };
            let task = tasks::find_task(&task_state.list, task.trim())?.id.clone();
            if state.parallel.is_none() {
                return Err(CliError::for_input(
                    "--task needs a run with --jobs: this one works on one task at a time",
                )
                .with_hint("`ralph note TEXT` without --task reaches its next prompt"));
            }
            ControlRequest::TaskNote { task, text }
        }
        None => ControlRequest::Note { text },
    };
    let result = target.send_request(&request)?;
    target.print_result(common, &request, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Lets a run continue that the user wants to resume although it is only paused. Returns whether it
/// was paused.
pub(super) fn continue_if_paused(
    common: &CommonArgs,
    layout: &ProjectLayout,
    run: &RunId,
) -> Result<bool, CliError> {
    let Some(mut target) = ActiveRun::find_active(layout) else { return Ok(false) };
    if target.run != *run || target.read_expected_state()?.control.pause == Pause::No {
        return Ok(false);
    }
    let result = target.send_request(&ControlRequest::Resume)?;
    target.print_result(common, &ControlRequest::Resume, result, false);
    Ok(true)
}

/// Fails if no run accepts a note.
fn check_note(text: &str) -> Result<(), CliError> {
    if text.trim().is_empty() {
        return Err(CliError::for_input("the note is empty").with_hint(
            "`ralph note TEXT` leaves a note for the next prompt; `ralph note -` reads it from stdin",
        ));
    }
    match text.chars().count() {
        count if count > MAX_NOTE_CHARS => Err(CliError::for_input(format!(
            "the note is too long: it has {count} characters, and {MAX_NOTE_CHARS} fit"
        ))
        .with_hint("write it into a file, and name the file in the note")),
        _ => Ok(()),
    }
}

fn read_note() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_NOTE_BYTES).read_to_end(&mut bytes).map_err(|error| {
        CliError::for_input(format!("cannot read the note from stdin: {error}"))
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim().to_owned())
}

/// The state of a control request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    /// It is in the inbox.
    Asked,
    /// It had been asked before.
    AskedBefore,
    Done,
    /// The run ended first.
    Ended,
}

/// The active run.
struct ActiveRun {
    run: RunId,
    layout: ProjectLayout,
    files: RunDir,
    followed: FollowedRun,
}

impl ActiveRun {
    fn find_or_wait(common: &CommonArgs) -> Result<Self, CliError> {
        let project = Project::open_nearest(common)?;
        let loaded = project.load_settings(None, Vec::new())?;
        let layout = project.find_layout(&loaded)?;
        let began = Instant::now();
        loop {
            if let Some(target) = Self::find_active(&layout) {
                return Ok(target);
            }
            if RunLock::find_holder(layout.state()).is_none() {
                return Err(build_no_run_error(&layout));
            }
            if began.elapsed() > START_TIMEOUT {
                let message = "a run is just starting here; it does not take requests yet";
                return Err(CliError::new(ExitStatus::Incomplete, message)
                    .with_hint("try again in a moment"));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the run that holds the lock, once it has begun.
    fn find_active(layout: &ProjectLayout) -> Option<Self> {
        let holder = RunLock::find_holder(layout.state())?;
        let active = active::read_active::<IgnoredAny>(&layout.active_path()).ok()?;
        // Skip the file of a run that was killed.
        if holder.is_some_and(|holder| holder.pid != active.pid) {
            return None;
        }
        let files = layout.run_dir(&active.run);
        let mut followed = FollowedRun::open(&files).ok()?;
        followed.read_new_events().ok()?;
        followed.report.state()?;
        Some(Self { run: active.run, layout: layout.clone(), files, followed })
    }

    fn read_state(&mut self) -> Result<&RunState, CliError> {
        self.followed.read_new_events()?;
        let state = self.followed.report.state();
        state.ok_or_else(|| CliError::new(ExitStatus::Incomplete, "the run has not begun"))
    }

    /// Returns the state as if the requests in the inbox were handled.
    fn read_expected_state(&mut self) -> Result<RunState, CliError> {
        let waiting = inbox::list_pending(self.files.path());
        Ok(control::apply_waiting_requests(self.read_state()?, &waiting))
    }

    /// Sends a request, unless it would have no effect.
    fn send_request(&mut self, request: &ControlRequest) -> Result<RequestState, CliError> {
        let state = self.read_expected_state()?;
        let refused = control::find_refusal(&state, request);
        match (refused, request) {
            (None, _) => {}
            (Some(_), ControlRequest::Pause | ControlRequest::Stop | ControlRequest::StopNow) => {
                return Ok(if *request == ControlRequest::Pause && is_paused(self.read_state()?) {
                    RequestState::Done
                } else {
                    RequestState::AskedBefore
                });
            }
            (
                Some(why),
                ControlRequest::Resume
                | ControlRequest::Skip { .. }
                | ControlRequest::Note { .. }
                | ControlRequest::TaskNote { .. }
                | ControlRequest::Hold { .. },
            ) => {
                return Err(self.build_refusal_error(request, &why));
            }
        }
        inbox::send_request(self.files.path(), request)
            .map(|()| RequestState::Asked)
            .map_err(|error| CliError::from_error(ExitStatus::Incomplete, &error))
    }

    fn build_refusal_error(&self, request: &ControlRequest, why: &str) -> CliError {
        let complaint = |message: String| CliError::new(ExitStatus::Incomplete, message);
        match request {
            ControlRequest::Skip { task } => {
                complaint(format!("task {task} cannot be skipped: {why}"))
            }
            ControlRequest::Note { .. } | ControlRequest::TaskNote { .. } => {
                complaint(format!("the note cannot be left: {why}"))
                    .with_hint("`ralph status` shows what waits")
            }
            ControlRequest::Pause
            | ControlRequest::Hold { .. }
            | ControlRequest::Resume
            | ControlRequest::Stop
            | ControlRequest::StopNow => {
                complaint(format!("nothing to do: {why} (run {})", self.run))
                    .with_hint("`ralph pause` pauses it, `ralph status` shows its status")
            }
        }
    }

    /// Waits until the state matches, or the run has ended.
    fn wait_for(&mut self, matches: impl Fn(&RunState) -> bool) -> Result<RequestState, CliError> {
        loop {
            // Checked before the journal: events written in between are seen in the next round.
            let is_active = self.is_active();
            if matches(self.read_state()?) {
                return Ok(RequestState::Done);
            }
            if !is_active {
                return Ok(RequestState::Ended);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn is_active(&self) -> bool {
        RunLock::find_holder(self.layout.state()).is_some_and(|holder| {
            let active = active::read_active::<IgnoredAny>(&self.layout.active_path());
            active.is_ok_and(|active| {
                active.run == self.run && holder.is_none_or(|holder| holder.pid == active.pid)
            })
        })
    }

    fn print_result(
        &self,
        common: &CommonArgs,
        request: &ControlRequest,
        result: RequestState,
        json: bool,
    ) {
        let run = &self.run;
        if json {
            let state = match result {
                RequestState::Asked => "asked",
                RequestState::AskedBefore => "askedBefore",
                RequestState::Done => "done",
                RequestState::Ended => "ended",
            };
            let facts = json!({ "run": run, "asked": request, "state": state });
            screen::print_data(&format!("{facts}\n"));
            return;
        }
        if common.quiet {
            return;
        }
        let line = match (result, request) {
            (RequestState::Asked, ControlRequest::Pause) => {
                format!(
                    "Asked run {run} to pause after the current step; `ralph resume` resumes it."
                )
            }
            (RequestState::Asked, ControlRequest::Resume) => format!("Run {run} resumes."),
            (RequestState::Asked, ControlRequest::Stop) => {
                format!(
                    "Asked run {run} to stop after the current step; `ralph stop --now` ends the step."
                )
            }
            (RequestState::Asked, ControlRequest::StopNow) => format!(
                "Asked run {run} to end what is running and stop; `ralph resume` resumes it."
            ),
            (RequestState::Asked, ControlRequest::Skip { task }) => {
                format!("Asked run {run} to skip task {task}.")
            }
            (RequestState::Asked, ControlRequest::Note { .. }) => {
                format!("Left a note for the next prompt of run {run}.")
            }
            (RequestState::Asked, ControlRequest::TaskNote { task, .. }) => {
                format!("Left a note for the next prompt of task {task} in run {run}.")
            }
            (RequestState::Asked, request @ ControlRequest::Hold { .. }) => {
                format!("Asked run {run} to {}.", request.describe())
            }
            (RequestState::AskedBefore, request) => {
                format!("Run {run} was asked to {} before.", request.describe())
            }
            (RequestState::Done, ControlRequest::Pause) => {
                format!("Run {run} is paused; `ralph resume` resumes it.")
            }
            (RequestState::Done, _) => format!("Run {run} has ended; `ralph resume` resumes it."),
            (RequestState::Ended, _) => format!("Run {run} ended before that."),
        };
        screen::print_line(&line);
    }
}

/// The growing journal of a run, and the report of it so far.
pub(super) struct FollowedRun {
    tail: JournalTail,
    /// The report of the run so far.
    pub(super) report: Report,
}

impl FollowedRun {
    /// Opens the journal of a run.
    pub(super) fn open(files: &RunDir) -> Result<Self, CliError> {
        let tail = JournalTail::open(&files.journal_path()).map_err(CliError::from_input_error)?;
        Ok(Self { tail, report: Report::default() })
    }

    /// Reads the events written since.
    pub(super) fn read_new_events(&mut self) -> Result<(), CliError> {
        while let Some((recorded, _)) =
            self.tail.next_event().map_err(CliError::from_input_error)?
        {
            self.report.apply_event(&recorded).map_err(CliError::from_input_error)?;
        }
        Ok(())
    }
}

fn is_paused(state: &RunState) -> bool {
    matches!(state.control.pause, Pause::Since { .. })
}

fn build_no_run_error(layout: &ProjectLayout) -> CliError {
    let complaint = CliError::new(ExitStatus::Incomplete, "no run is active in this directory");
    let last = runs::find_last_run(layout.state());
    match last {
        Some(run) if run.outcome.as_ref().is_none_or(Outcome::is_resumable) => {
            complaint.with_hint(format!("`ralph resume` resumes run {}, which ended", run.id))
        }
        Some(_) | None => complaint.with_hint("`ralph run` or `ralph build` starts one"),
    }
}
