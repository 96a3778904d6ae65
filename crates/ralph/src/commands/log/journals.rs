//! The journals that `ralph log` prints: that of the run, and with `--task` also those of the
//! workers on the task, in the order of their events. While a run is followed, what its agents do is
//! printed as it comes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_core::ports::Ui as _;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_io::store::RunDir;
use ralph_io::store::layout::find_worker_run;
use ralph_io::store::tail::JournalTail;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::WorkerId;
use ralph_model::run::RunState;
use ralph_model::units::Timestamp;
use ralph_ui::view::{TerminalView, ViewOptions};

use super::{EventContext, LogFilter};
use crate::cli_error::CliError;
use crate::recording::RecordedCall;
use crate::screen::{self, DataOutput};

/// The journals of a run and of workers.
pub(super) struct LogJournals {
    /// The first is that of the run.
    open: Vec<FilteredJournal>,
    /// The workers on the task whose journals are not open yet, or do not exist yet.
    awaited: BTreeSet<WorkerId>,
    root: PathBuf,
    options: ViewOptions,
    json: bool,
}

/// A journal of which some events are printed.
struct FilteredJournal {
    files: RunDir,
    tail: JournalTail,
    next: Option<(Recorded, String)>,
    state: Option<RunState>,
    filter: LogFilter,
    view: TerminalView<DataOutput>,
    /// The agent call that was begun last, if it is shown and has no reply yet.
    call: Option<FollowedCall>,
    is_read: bool,
    has_shown: bool,
}

/// An agent call whose output is printed as it comes, if it is still running when it is found.
struct FollowedCall {
    output: RecordedCall,
    is_running: bool,
}

impl LogJournals {
    /// Opens the journal of a run; those of its workers are found below `root`.
    pub(super) fn open(
        files: &RunDir,
        root: &Path,
        filter: LogFilter,
        options: ViewOptions,
        json: bool,
    ) -> Result<Self, CliError> {
        let first = FilteredJournal::open(files, filter, options.clone())?;
        let (open, awaited) = (vec![first], BTreeSet::new());
        Ok(Self { open, awaited, root: root.to_owned(), options, json })
    }

    /// Prints the new events of all journals, the oldest first.
    pub(super) fn print_new_events(&mut self) -> Result<(), CliError> {
        loop {
            self.open_awaited()?;
            let mut first: Option<(Timestamp, usize)> = None;
            for (at, journal) in self.open.iter_mut().enumerate() {
                let next = journal.read_next()?.map(|next| (next, at));
                first = first.into_iter().chain(next).min();
            }
            let Some((_, at)) = first else { return Ok(()) };
            let worker = self.open[at].print_next(self.json)?;
            if at == 0 {
                self.awaited.extend(worker);
            }
        }
    }

    /// Prints what the agents that are at work did since the last time.
    pub(super) fn print_running_calls(&mut self) {
        for journal in &mut self.open {
            if let Some(call) = &mut journal.call {
                call.is_running = true;
            }
            journal.print_call();
        }
    }

    /// Returns whether the output is still read.
    pub(super) fn has_reader(&self) -> bool {
        self.open.iter().all(|it| it.is_read && it.view.first_error().is_none())
    }

    /// Fails if nothing is shown because the run has no such task or iteration.
    pub(super) fn check_filter_matches(&self) -> Result<(), CliError> {
        let first = &self.open[0];
        match &first.state {
            Some(state) if !self.open.iter().any(|it| it.has_shown) => first.filter.check(state),
            Some(_) | None => Ok(()),
        }
    }

    fn open_awaited(&mut self) -> Result<(), CliError> {
        for worker in self.awaited.clone() {
            let Some(known) = find_worker_run(&self.root, &worker) else { continue };
            let files = RunDir::from_path(known.state.join("runs").join(&worker.0));
            let filter = self.open[0].filter.without_task();
            self.open.push(FilteredJournal::open(&files, filter, self.options.clone())?);
            self.awaited.remove(&worker);
        }
        Ok(())
    }
}

impl FilteredJournal {
    fn open(files: &RunDir, filter: LogFilter, options: ViewOptions) -> Result<Self, CliError> {
        let tail = JournalTail::open(&files.journal_path()).map_err(CliError::from_input_error)?;
        let view = TerminalView::new(screen::open_data_output(), options);
        let files = RunDir::from_path(files.path().to_owned());
        Ok(Self {
            files,
            tail,
            next: None,
            state: None,
            filter,
            view,
            call: None,
            is_read: true,
            has_shown: false,
        })
    }

    /// Prints what the agent of a running call did since the last time.
    fn print_call(&mut self) {
        let Some(call) = self.call.as_mut().filter(|call| call.is_running) else { return };
        loop {
            let events = call.output.next_events().events;
            if events.is_empty() {
                return;
            }
            for event in &events {
                self.view.show_agent_event(event);
            }
        }
    }

    /// Returns the time of the next event, if there is one.
    fn read_next(&mut self) -> Result<Option<Timestamp>, CliError> {
        if self.next.is_none() {
            self.next = self.tail.next_event().map_err(CliError::from_input_error)?;
        }
        Ok(self.next.as_ref().map(|(recorded, _)| recorded.at))
    }

    /// Prints the next event. Returns its worker, if it begins the job of one on the task.
    fn print_next(&mut self, json: bool) -> Result<Option<WorkerId>, CliError> {
        let Some((recorded, text)) = self.next.take() else { return Ok(None) };
        // A journal that does not fold can still be printed.
        if json && !self.filter.needs_context() {
            if self.filter.shows(&recorded, None) {
                self.has_shown = true;
                self.print_text(&text);
            }
            return Ok(None);
        }
        let before = self.state.as_ref().and_then(EventContext::from_state);
        let now = match self.state.take() {
            None => start_state(&recorded),
            Some(mut state) => apply_event(&mut state, &recorded).map(|()| state),
        }
        .map_err(CliError::from_input_error)?;
        let place = EventContext::for_event(&recorded.event, &now).or(before);
        if self.filter.shows(&recorded, place.as_ref()) {
            self.has_shown = true;
            if json {
                self.print_text(&text);
            } else {
                let event = &recorded.event;
                if let Event::Replied { .. } = event {
                    self.print_call();
                    self.call = None;
                }
                self.view.show_event(&recorded, &now);
                if let Event::Asked { .. } = event {
                    let output = RecordedCall::open(&self.files, &now.project, &now, event);
                    self.call = output.map(|output| FollowedCall { output, is_running: false });
                }
            }
        }
        self.state = Some(now);
        let is_on_task = |it: &EventContext| self.filter.is_for_task(it.task.as_ref());
        let worker = place.filter(is_on_task).and_then(|_| recorded.event.worker());
        Ok(worker.filter(|_| is_job(&recorded)).cloned())
    }

    fn print_text(&mut self, text: &str) {
        self.is_read &= screen::try_print_data(&format!("{text}\n")).is_ok();
    }
}

fn is_job(recorded: &Recorded) -> bool {
    matches!(recorded.event, Event::JobAssigned { .. })
}
