//! `ralph log`: shows the journal of a run as lines or JSON, or the agent's own stream.

mod journals;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use ralph_core::plain::Plain;
use ralph_core::tasks::job::find_task_of;
use ralph_io::clock;
use ralph_io::store::raw::RawReader;
use ralph_io::store::runs::RunSummary;
use ralph_io::store::{RunLock, runs};
use ralph_model::control::ControlRequest;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{RunId, TaskId};
use ralph_model::outcome::ExitStatus;
use ralph_model::run::RunState;
use ralph_model::units::Timestamp;
use ralph_ui::sanitize::sanitize_text;
use ralph_ui::time::WallClock;
use ralph_ui::tui::ReplaySource;
use ralph_ui::view::ViewOptions;

use super::build::find_task_id;
use super::report::read_report;
use journals::LogJournals;

use crate::cli::{CommonArgs, LogArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::recording;
use crate::screen::{self, OutputStyle};
use crate::since::parse_since;

/// Poll interval; users do not notice a shorter delay.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints what happened in a run.
pub(crate) fn main(common: &CommonArgs, args: &LogArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let run = choose_run(layout.state(), args.run.as_deref())?;
    let files = layout.run_dir(&run);
    let filter = LogFilter::from_args(args)?;
    if args.raw {
        if let Some(wanted) = args.iteration {
            let (report, _) = read_report(&files.journal_path())?;
            check_iteration(wanted, report.state().map_or(0, |it| it.iterations))?;
        }
        return print_raw_streams(files.path(), args.iteration);
    }
    let screen = OutputStyle::for_stdout(common, &loaded.settings.ui);
    let options = ViewOptions {
        style: screen.style,
        verbosity: screen.verbosity,
        shows_agent: args.follow && loaded.settings.stream_agent_output,
        clock: WallClock { zone: clock::find_local_zone(), now: clock::now },
        columns: || None,
    };
    if args.tui {
        let is_live = args.follow && RunLock::find_holder(layout.state()).is_some();
        let source = if is_live { ReplaySource::Live } else { ReplaySource::Record };
        return recording::show_run(&layout, &run, project.env.clone(), options, source);
    }
    let root = project.find_state_root(&loaded)?;
    let mut journals = LogJournals::open(&files, &root, filter, options, args.json)?;
    loop {
        // Checked before the journal: events written in between are seen in the next round.
        let is_active = RunLock::find_holder(layout.state()).is_some();
        journals.print_new_events()?;
        if is_active {
            journals.print_running_calls();
        }
        if !args.follow || !(is_active || args.forever) || !journals.has_reader() {
            journals.check_filter_matches()?;
            return Ok(ExitStatus::Complete);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Which events of a journal are shown.
struct LogFilter {
    iteration: Option<u32>,
    task: Option<TaskId>,
    since: Option<Timestamp>,
}

/// The iteration and the task of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EventContext {
    iteration: u32,
    task: Option<TaskId>,
}

impl EventContext {
    fn from_state(state: &RunState) -> Option<Self> {
        let current = state.current.as_ref()?;
        Some(Self { iteration: current.number.0, task: current.task.clone() })
    }

    /// Returns the context of an event, given the state after it. An event of a worker is about
    /// its task, whatever is being merged.
    fn for_event(event: &Event, state: &RunState) -> Option<Self> {
        let Some(worker) = event.worker() else { return Self::from_state(state) };
        Some(Self { iteration: state.iterations, task: find_task_of(state, worker).cloned() })
    }
}

impl LogFilter {
    fn from_args(args: &LogArgs) -> Result<Self, CliError> {
        let since = args.since.as_deref().map(parse_since).transpose()?;
        let task = args.task.as_ref().map(|task| TaskId(task.trim().to_owned()));
        if task.as_ref().is_some_and(|task| task.0.is_empty()) {
            return Err(CliError::for_input("--task is empty")
                .with_hint("`ralph tasks list` shows all tasks"));
        }
        Ok(Self { iteration: args.iteration, task, since })
    }

    /// Fails if a run has no such task or iteration.
    fn check(&self, state: &RunState) -> Result<(), CliError> {
        if let Some(task) = &self.task {
            let Some(tasks) = &state.tasks else {
                let message = format!("there is no task `{task}`: the run has no task list");
                return Err(CliError::for_input(message));
            };
            find_task_id(&tasks.list, &task.0)?;
        }
        self.iteration.map_or(Ok(()), |wanted| check_iteration(wanted, state.iterations))
    }

    /// Returns the filter for the journal of a worker on the task.
    fn without_task(&self) -> Self {
        Self { iteration: self.iteration, task: None, since: self.since }
    }

    /// Returns whether the filter is for this task.
    fn is_for_task(&self, task: Option<&TaskId>) -> bool {
        self.task.is_some() && self.task.as_ref() == task
    }

    /// Returns whether the filter depends on the iteration or task of an event.
    fn needs_context(&self) -> bool {
        self.iteration.is_some() || self.task.is_some()
    }

    /// Returns whether an event of this iteration and task is shown.
    fn shows(&self, recorded: &Recorded, place: Option<&EventContext>) -> bool {
        let is_late = self.since.is_none_or(|since| recorded.at >= since);
        let is_there = self
            .iteration
            .is_none_or(|number| place.is_some_and(|place| place.iteration == number));
        let is_about = self.task.as_ref().is_none_or(|task| {
            is_about(&recorded.event, task)
                || place.is_some_and(|place| place.task.as_ref() == Some(task))
        });
        is_late && is_there && is_about
    }
}

fn check_iteration(wanted: u32, count: u32) -> Result<(), CliError> {
    if (1..=count).contains(&wanted) {
        return Ok(());
    }
    let all = match count {
        0 => "no iteration yet".to_owned(),
        1 => "1 iteration".to_owned(),
        _ => format!("{count} iterations"),
    };
    Err(CliError::for_input(format!("there is no iteration {wanted}: the run has {all}")))
}

/// Returns whether an event between two iterations is about a task.
fn is_about(event: &Event, about: &TaskId) -> bool {
    if let Event::ControlRequested { asked, .. } = event {
        return matches!(
            &asked.request,
            ControlRequest::Skip { task } | ControlRequest::TaskNote { task, .. } if task == about
        );
    }
    matches!(event, Event::TaskSkipped { task, .. } if task == about)
}

/// Returns the named run, or the last one that did something.
pub(super) fn choose_run(state: &Path, named: Option<&str>) -> Result<RunId, CliError> {
    match named {
        None => runs::find_run_to_show(state).ok_or_else(|| {
            CliError::for_input("there is no run in this directory yet").with_hint(
                "`ralph run` or `ralph build` starts one; `-C DIR` looks in another directory",
            )
        }),
        Some(name) => find_run(state, name).ok_or_else(|| {
            CliError::for_input(format!("there is no run `{name}` in this directory"))
                .with_hint("without a name, the last run is used; `ralph status` shows its id")
        }),
    }
    .map(|run| run.id)
}

fn find_run(state: &Path, name: &str) -> Option<RunSummary> {
    runs::list_newest_first(state).find(|run| run.started.is_some() && run.id.0 == name)
}

/// Prints the raw streams of all calls, or of those of one iteration, in the order of the calls.
fn print_raw_streams(run: &Path, only: Option<u32>) -> Result<ExitStatus, CliError> {
    let unreadable = |error: io::Error| {
        CliError::new(ExitStatus::BadInput, format!("cannot read `{}`: {error}", run.display()))
    };
    let mut streams: Vec<(u32, u32, PathBuf)> = fs::read_dir(run)
        .map_err(unreadable)?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let call = name.strip_prefix("agent-")?.strip_suffix(".ndjson.zst")?;
            let (iteration, ask) = call.split_once('-').unwrap_or((call, "1"));
            Some((iteration.parse().ok()?, ask.parse().ok()?, entry.path()))
        })
        .collect();
    streams.retain(|(iteration, ..)| only.is_none_or(|only| *iteration == only));
    streams.sort();
    for (_, _, path) in streams {
        let mut reader = RawReader::open(&path).map_err(unreadable)?;
        let printed = if screen::is_stdout_terminal() {
            copy_harmless(&mut reader, &mut screen::open_data_output())
        } else {
            io::copy(&mut reader, &mut screen::open_data_output()).map(drop)
        };
        if printed.is_err() {
            // The reader has closed the pipe, or the disk is full.
            break;
        }
    }
    Ok(ExitStatus::Complete)
}

/// Copies an agent's output to a terminal, without its control sequences.
fn copy_harmless(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let (mut plain, mut piece) = (Plain::default(), vec![0; 64 * 1024]);
    loop {
        let read = from.read(&mut piece)?;
        let mut text = String::new();
        if read == 0 {
            plain.finish(&mut text);
        } else {
            plain.feed(&piece[..read], &mut text);
        }
        to.write_all(sanitize_text(&text).as_bytes())?;
        if read == 0 {
            return to.flush();
        }
    }
}
