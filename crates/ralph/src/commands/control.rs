//! `ralph pause`, `go`, `stop`, `skip` and `note`: sends control requests to the active run.
//!
//! Not here: handling the requests. The run reads its inbox and decides.

use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::control::{self, LONGEST_NOTE, Pause, Wish};
use ralph_core::ids::RunId;
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::report::Report;
use ralph_core::run::RunState;
use ralph_io::control as inbox;
use ralph_io::store::layout::{Layout, RunDir};
use ralph_io::store::tail::Tail;
use ralph_io::store::{Lock, active, runs};
use serde::de::IgnoredAny;
use serde_json::json;

use super::tasks;
use crate::cli::CommonArgs;
use crate::cli::control::{GoArgs, HaltArgs, NoteArgs, SkipArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;

/// Poll interval; users do not notice a shorter delay.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Between taking the lock and the first event a run checks its agents, which may take a while.
const STARTING: Duration = Duration::from_secs(5);

/// Most bytes read of a note on stdin: a longer one is refused anyway.
const MOST_READ: u64 = 64 * 1024;

/// Asks the active run to pause.
pub(crate) fn pause(common: &CommonArgs, args: &HaltArgs) -> Result<ExitStatus, Complaint> {
    let mut target = Target::find(common)?;
    let result = target.ask(&Wish::Pause)?;
    let result = if args.wait { target.wait_for(is_paused)? } else { result };
    target.tell(common, &Wish::Pause, result, args.json);
    Ok(match result {
        Told::Ended => ExitStatus::Incomplete,
        Told::Asked | Told::AskedBefore | Told::Done => ExitStatus::Complete,
    })
}

/// Lets a paused run continue.
pub(crate) fn go(common: &CommonArgs, args: &GoArgs) -> Result<ExitStatus, Complaint> {
    let mut target = Target::find(common)?;
    let result = target.ask(&Wish::GoOn)?;
    target.tell(common, &Wish::GoOn, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Asks the active run to stop.
pub(crate) fn stop(common: &CommonArgs, args: &HaltArgs) -> Result<ExitStatus, Complaint> {
    let mut target = Target::find(common)?;
    let result = target.ask(&Wish::Stop)?;
    let result = if args.wait {
        target.wait_for(|_| false)?;
        Told::Done
    } else {
        result
    };
    target.tell(common, &Wish::Stop, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Asks the active run to skip a task.
pub(crate) fn skip(common: &CommonArgs, args: &SkipArgs) -> Result<ExitStatus, Complaint> {
    let mut target = Target::find(common)?;
    let state = target.state()?;
    let Some(board) = &state.board else {
        return Err(Complaint::new(ExitStatus::Incomplete, "the active run has no task list"));
    };
    let task = tasks::find(&board.list, args.task.trim())?.id.clone();
    let request = Wish::Skip { task };
    let result = target.ask(&request)?;
    target.tell(common, &request, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Leaves a note for the next prompt of the active run.
pub(crate) fn note(common: &CommonArgs, args: &NoteArgs) -> Result<ExitStatus, Complaint> {
    let text = match args.text.as_slice() {
        [dash] if dash == "-" => from_stdin()?,
        words => words.join(" "),
    };
    let request = Wish::Note { text };
    let mut target = Target::find(common)?;
    let result = target.ask(&request)?;
    target.tell(common, &request, result, args.json);
    Ok(ExitStatus::Complete)
}

/// Lets a run continue that the user wants to resume although it is only paused. Returns whether it
/// was paused.
pub(super) fn goes_on(
    common: &CommonArgs,
    layout: &Layout,
    run: &RunId,
) -> Result<bool, Complaint> {
    let Some(mut target) = Target::active(layout) else { return Ok(false) };
    if target.run != *run || target.expected()?.control.pause == Pause::No {
        return Ok(false);
    }
    let result = target.ask(&Wish::GoOn)?;
    target.tell(common, &Wish::GoOn, result, false);
    Ok(true)
}

fn from_stdin() -> Result<String, Complaint> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MOST_READ)
        .read_to_end(&mut bytes)
        .map_err(|error| Complaint::input(format!("cannot read the note from stdin: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim().to_owned())
}

/// The state of a control request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is in the inbox.
    Asked,
    /// It had been asked before.
    AskedBefore,
    /// It is done.
    Done,
    /// The run ended first.
    Ended,
}

/// The active run.
struct Target {
    run: RunId,
    layout: Layout,
    files: RunDir,
    followed: Followed,
}

impl Target {
    fn find(common: &CommonArgs) -> Result<Self, Complaint> {
        let project = Project::open(common)?;
        let loaded = project.settings_as_written(None, Vec::new())?;
        let layout = project.layout(&loaded)?;
        let began = Instant::now();
        loop {
            if let Some(target) = Self::active(&layout) {
                return Ok(target);
            }
            if Lock::look(layout.state()).is_none() {
                return Err(no_run(&layout));
            }
            if began.elapsed() > STARTING {
                let message = "a run is just starting here; it does not take requests yet";
                return Err(
                    Complaint::new(ExitStatus::Incomplete, message).hint("try again in a moment")
                );
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Returns the run that holds the lock, once it has begun.
    fn active(layout: &Layout) -> Option<Self> {
        let holder = Lock::look(layout.state())?;
        let active = active::read::<IgnoredAny>(&layout.active()).ok()?;
        // Skip the file of a run that was killed.
        if holder.is_some_and(|holder| holder.pid != active.pid) {
            return None;
        }
        let files = layout.run(&active.run);
        let mut followed = Followed::open(&files).ok()?;
        followed.catch_up().ok()?;
        followed.report.state()?;
        Some(Self { run: active.run, layout: layout.clone(), files, followed })
    }

    fn state(&mut self) -> Result<&RunState, Complaint> {
        self.followed.catch_up()?;
        let state = self.followed.report.state();
        state.ok_or_else(|| Complaint::new(ExitStatus::Incomplete, "the run has not begun"))
    }

    /// Returns the state as if the requests in the inbox were handled.
    fn expected(&mut self) -> Result<RunState, Complaint> {
        let waiting = inbox::waiting(self.files.path());
        Ok(control::expected(self.state()?, &waiting))
    }

    /// Sends a request, unless it would have no effect.
    fn ask(&mut self, request: &Wish) -> Result<Told, Complaint> {
        let state = self.expected()?;
        let refused = control::refusal(&state, request);
        match (refused, request) {
            (None, _) => {}
            (Some(_), Wish::Pause | Wish::Stop) => {
                return Ok(if *request == Wish::Pause && is_paused(self.state()?) {
                    Told::Done
                } else {
                    Told::AskedBefore
                });
            }
            (Some(why), Wish::GoOn | Wish::Skip { .. } | Wish::Note { .. }) => {
                return Err(self.refused(request, &why));
            }
        }
        inbox::send(self.files.path(), request)
            .map(|()| Told::Asked)
            .map_err(|error| Complaint::of(ExitStatus::Incomplete, &error))
    }

    fn refused(&self, request: &Wish, why: &str) -> Complaint {
        let complaint = |message: String| Complaint::new(ExitStatus::Incomplete, message);
        match request {
            Wish::Skip { task } => complaint(format!("task {task} cannot be skipped: {why}")),
            Wish::Note { text } => complaint(format!("the note cannot be left: {why}")).hint(
                match text.chars().count() {
                    count if count > LONGEST_NOTE => format!(
                        "it has {count} characters, and {LONGEST_NOTE} fit; name a file in it instead"
                    ),
                    _ => "`ralph status` shows what waits".to_owned(),
                },
            ),
            Wish::Pause | Wish::GoOn | Wish::Stop => {
                complaint(format!("nothing to do: {why} (run {})", self.run))
                    .hint("`ralph pause` pauses it, `ralph status` shows its status")
            }
        }
    }

    /// Waits until the state matches, or the run has ended.
    fn wait_for(&mut self, matches: impl Fn(&RunState) -> bool) -> Result<Told, Complaint> {
        loop {
            // Checked before the journal: events written in between are seen in the next round.
            let is_active = self.is_active();
            if matches(self.state()?) {
                return Ok(Told::Done);
            }
            if !is_active {
                return Ok(Told::Ended);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn is_active(&self) -> bool {
        Lock::look(self.layout.state()).is_some_and(|holder| {
            let active = active::read::<IgnoredAny>(&self.layout.active());
            active.is_ok_and(|active| {
                active.run == self.run && holder.is_none_or(|holder| holder.pid == active.pid)
            })
        })
    }

    fn tell(&self, common: &CommonArgs, request: &Wish, result: Told, json: bool) {
        let run = &self.run;
        if json {
            let state = match result {
                Told::Asked => "asked",
                Told::AskedBefore => "askedBefore",
                Told::Done => "done",
                Told::Ended => "ended",
            };
            let facts = json!({ "run": run, "asked": request, "state": state });
            screen::print_data(&format!("{facts}\n"));
            return;
        }
        if common.quiet {
            return;
        }
        let line = match (result, request) {
            (Told::Asked, Wish::Pause) => {
                format!("Asked run {run} to pause after the current step; `ralph go` resumes it.")
            }
            (Told::Asked, Wish::GoOn) => format!("Run {run} resumes."),
            (Told::Asked, Wish::Stop) => {
                format!("Asked run {run} to stop after the current step.")
            }
            (Told::Asked, Wish::Skip { task }) => {
                format!("Asked run {run} to skip task {task}.")
            }
            (Told::Asked, Wish::Note { .. }) => {
                format!("Left a note for the next prompt of run {run}.")
            }
            (Told::AskedBefore, request) => {
                format!("Run {run} was asked to {} before.", request.words())
            }
            (Told::Done, Wish::Pause) => format!("Run {run} is paused; `ralph go` resumes it."),
            (Told::Done, _) => format!("Run {run} has ended; `ralph resume` resumes it."),
            (Told::Ended, _) => format!("Run {run} ended before that."),
        };
        screen::say(&line);
    }
}

/// The growing journal of a run, and the report of it so far.
pub(super) struct Followed {
    tail: Tail,
    /// The report of the run so far.
    pub(super) report: Report,
}

impl Followed {
    /// Opens the journal of a run.
    pub(super) fn open(files: &RunDir) -> Result<Self, Complaint> {
        let tail = Tail::open(&files.journal())
            .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
        Ok(Self { tail, report: Report::default() })
    }

    /// Reads the events written since.
    pub(super) fn catch_up(&mut self) -> Result<(), Complaint> {
        let unreadable = |error: &dyn std::error::Error| Complaint::of(ExitStatus::BadInput, error);
        while let Some((recorded, _)) =
            self.tail.next_event().map_err(|error| unreadable(&error))?
        {
            self.report.apply(&recorded).map_err(|error| unreadable(&error))?;
        }
        Ok(())
    }
}

fn is_paused(state: &RunState) -> bool {
    matches!(state.control.pause, Pause::Since { .. })
}

fn no_run(layout: &Layout) -> Complaint {
    let complaint = Complaint::new(ExitStatus::Incomplete, "no run is active in this directory");
    let last = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some());
    match last {
        Some(run) if run.outcome.as_ref().is_none_or(Outcome::is_resumable) => {
            complaint.hint(format!("`ralph resume` resumes run {}, which ended", run.id))
        }
        Some(_) | None => complaint.hint("`ralph run` or `ralph build` starts one"),
    }
}
