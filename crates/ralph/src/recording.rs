//! A run shown again on a full screen: its journal and the raw streams of its agents.
//!
//! Not here: what is shown (`ralph_ui::tui`).

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::event::{Event, Recorded};
use ralph_core::ids::{IterationNumber, RunId};
use ralph_core::outcome::ExitStatus;
use ralph_core::ports::Request;
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;
use ralph_io::agents;
use ralph_io::process::{Line, Lines, Stage, Watch};
use ralph_io::store::raw::RawReader;
use ralph_io::store::tail::Tail;
use ralph_io::store::{Layout, Lock, RunDir};
use ralph_ui::tui::{self, Moment, Recording, ScreenLink};
use ralph_ui::view::{AgentStream, ViewOptions};

use crate::complaint::Complaint;
use crate::full_screen;
use crate::screen;

/// What is read of a stream at once.
const PIECE: usize = 64 * 1024;

/// A terminal that hangs is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a run that goes on is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// It is.
    Yes,
    /// What there is of it is shown from its beginning.
    No,
}

/// Shows a run until the user has seen enough.
pub(crate) fn show(
    layout: &Layout,
    run: &RunId,
    options: ViewOptions,
    follow: Follow,
) -> Result<ExitStatus, Complaint> {
    let device = full_screen::device(screen::stdout())
        .map_err(|why| Complaint::input(format!("there can be no full screen here: {why}")))?;
    let files = layout.run(run);
    let tail = Tail::open(&files.journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let moment = match follow {
        Follow::Yes if Lock::look(layout.state()).is_some() => Moment::Present,
        Follow::Yes | Follow::No => Moment::Past,
    };
    let link = ScreenLink::default();
    let shown = link.clone();
    let watch = Watch::install(move |stage| match stage {
        Stage::Running => {}
        Stage::Finish | Stage::End => shown.leave(PATIENCE),
        Stage::Leave => full_screen::give_back(),
    })
    .map_err(|error| {
        Complaint::new(ExitStatus::Incomplete, format!("cannot watch for signals: {error}"))
    })?;
    full_screen::make_room(&watch, &link, |_| {});
    let send = full_screen::sender(files.path());
    let kept = Kept { tail, project: layout.project().to_owned(), files, seen: None };
    let options = ViewOptions { agent_stream: AgentStream::Shown, ..options };
    tui::replay(device, &link, options, Box::new(kept), moment, send).map_err(|error| {
        Complaint::new(ExitStatus::Incomplete, format!("the terminal cannot be used: {error}"))
    })?;
    Ok(ExitStatus::Complete)
}

/// What was kept of a run.
struct Kept {
    tail: Tail,
    files: RunDir,
    project: PathBuf,
    /// The stream that was read last, and its length then.
    seen: Option<(PathBuf, u64)>,
}

impl Recording for Kept {
    fn facts(&mut self) -> Result<Vec<Recorded>, String> {
        let mut facts = Vec::new();
        while let Some((fact, _)) = self.tail.next_event().map_err(|error| error.to_string())? {
            facts.push(fact);
        }
        Ok(facts)
    }

    fn heard(&mut self, state: &RunState, asked: &Event, known: usize) -> Vec<AgentEvent> {
        let Some(request) = self.request(state, asked) else { return Vec::new() };
        let path = self.files.stream(request.iteration, request.ask);
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        let seen = (path, length);
        if known > 0 && self.seen.as_ref() == Some(&seen) {
            return Vec::new();
        }
        let heard = self.read(&request, &seen.0);
        self.seen = Some(seen);
        heard.into_iter().skip(known).collect()
    }
}

impl Kept {
    /// Returns a call as far as its stream can be understood by it.
    fn request(&self, state: &RunState, asked: &Event) -> Option<Request> {
        let Event::Asked { ask, role, purpose, agent, .. } = asked else { return None };
        let iteration = IterationNumber(state.iterations);
        // A gate, and a task that is stuck, may have an agent of their own.
        let usual = state.recipe.agent_for(*role);
        let others = state.recipe.asked();
        let choice = if usual.kind == *agent {
            usual
        } else {
            others.into_iter().find(|it| it.kind == *agent).unwrap_or(usual)
        };
        Some(Request {
            run: state.run.clone(),
            iteration,
            ask: *ask,
            role: *role,
            purpose: purpose.clone(),
            task: state.current.as_ref().and_then(|current| current.task.clone()),
            agent: choice.clone(),
            prompt: fs::read_to_string(self.files.prompt(iteration, *ask)).unwrap_or_default(),
            schema: None,
            soft_limit: state.recipe.limits.ask_soft,
            hard_limit: state.recipe.limits.ask_hard,
            idle_limit: state.recipe.limits.ask_idle,
            cost_left: None,
        })
    }

    fn read(&self, request: &Request, path: &std::path::Path) -> Vec<AgentEvent> {
        let Ok(mut reader) = RawReader::open(path) else { return Vec::new() };
        let mut translator = agents::translator(request, &self.project);
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        let mut piece = vec![0; PIECE];
        let mut hear = |line: Line<'_>| match line {
            Line::Whole(line) => heard.extend(translator.line(&line).events),
            Line::TooLong { .. } => {}
        };
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            lines.feed(&piece[..count], &mut hear);
        }
        // The last line of an agent that is still talking is not there yet.
        if self.files.end(request.iteration, request.ask).exists() {
            lines.finish(&mut hear);
            heard.extend(translator.finish().events);
        }
        heard
    }
}
