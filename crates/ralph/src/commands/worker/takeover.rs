//! Continues the run of a worker that another machine did not end.
//!
//! Its clone is made with the work of that machine, and its journal becomes that of a run here:
//! the iterations that have ended are not repeated. Not here: how the work arrives (`ralph_io::workers`).

use ralph_core::tasks::earlier_work::adapt_journal;
use ralph_io::store::journal::{self, Journal, JournalError};
use ralph_io::workers::WorkerOutput;
use ralph_model::event::{Event, Recorded};
use ralph_model::run::RunState;
use ralph_model::worker::{EarlierWork, TakenOver, WorkerEvent};
use ralph_model::worktree::Checkpoint;

use super::{CloneStart, WorkerJob};
use crate::cli_error::CliError;
use crate::project::Project;

impl WorkerJob {
    /// Prepares the continuation of the work of another machine. Returns the state that follows and
    /// whose work it is; no state if that fails, and nothing without such work or if this machine
    /// itself came as far.
    pub(super) fn take_over(
        &mut self,
        main: &Project,
        own: Option<&RunState>,
        output: &WorkerOutput,
    ) -> Option<(Option<RunState>, Option<TakenOver>)> {
        let earlier = self.job.earlier.take()?;
        if own.is_some_and(|own| own.iterations >= earlier.from.iterations) {
            return None;
        }
        match self.prepare_takeover(main, &earlier, output) {
            Ok(state) => {
                self.is_taken_over = true;
                Some((Some(state), Some(earlier.from)))
            }
            Err(error) => {
                let EarlierWork { from: TakenOver { machine, .. }, .. } = *earlier;
                let text = format!("the work of {machine} is not continued: {}", error.message);
                output.report(WorkerEvent::Warning { text });
                // What is half there would be resumed.
                let files = self.find_files();
                let removed = files.map(|it| std::fs::remove_dir_all(it.path()));
                drop(removed);
                Some((None, None))
            }
        }
    }

    fn prepare_takeover(
        &mut self,
        main: &Project,
        earlier: &EarlierWork,
        output: &WorkerOutput,
    ) -> Result<RunState, CliError> {
        let Checkpoint::Git { head: Some(base), branch, tree } = earlier.start.clone() else {
            return Err(CliError::for_input("it names no commit"));
        };
        let mut events = read_events(earlier).map_err(CliError::from_input_error)?;
        self.make_clone(CloneStart { base, branch, tree }, output)?;
        let clone = Project::new(self.slot.clone_path().to_owned(), main.env.clone());
        let missing = || CliError::for_input("the clone of the worker is not there");
        let repository = clone.find_repository(&ralph_io::process::Watch::new_detached())?;
        let repository = repository.ok_or_else(missing)?;
        repository
            .set_checkpoints(&self.run_id(), &earlier.checkpoints)
            .map_err(CliError::from_git_error)?;
        let files = self.find_files().ok_or_else(missing)?;
        let recipe = self.build_recipe(main, &files)?;
        adapt_journal(&mut events, &self.find_directory(), &recipe);
        let path = files.journal_path();
        let mut journal = Journal::create(&path).map_err(CliError::from_input_error)?;
        for recorded in &events {
            journal.append(recorded).map_err(CliError::from_input_error)?;
        }
        let state = journal::fold_journal(&path).map_err(CliError::from_input_error)?;
        // The task file is that of the job; as after a kill, the run writes its own list into it.
        if let (Some(tasks), Some(last)) = (&state.tasks, events.last()) {
            let list = Box::new(tasks.list.clone());
            let event = Event::TasksRead { list, remarks: Vec::new() };
            let restored = Recorded { seq: last.seq + 1, event, ..last.clone() };
            journal.append(&restored).map_err(CliError::from_input_error)?;
        }
        journal.sync().map_err(CliError::from_input_error)?;
        journal::fold_journal(&path).map_err(CliError::from_input_error)
    }
}

fn read_events(earlier: &EarlierWork) -> Result<Vec<Recorded>, JournalError> {
    journal::open_for_reading(&earlier.journal)?.collect()
}
