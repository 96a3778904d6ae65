//! `ralph log`: the journal of a run for people, as JSON, or the agent's own stream.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ralph_core::ids::RunId;
use ralph_core::outcome::ExitStatus;
use ralph_core::ports::Ui as _;
use ralph_core::run::RunState;
use ralph_io::clock;
use ralph_io::store::raw::RawReader;
use ralph_io::store::tail::Tail;
use ralph_io::store::{Lock, runs};
use ralph_ui::time::WallClock;
use ralph_ui::view::{AgentStream, TerminalView, ViewOptions};

use crate::cli::{CommonArgs, LogArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen::{self, Screen};

/// A person does not see a shorter delay.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Prints what happened in a run.
pub(crate) fn main(common: &CommonArgs, args: &LogArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let run = choose(layout.state(), args.run.as_deref())?;
    let files = layout.run(&run);
    if args.raw {
        return raw(files.path());
    }
    let screen = Screen::for_stdout(common, &loaded.settings.ui);
    let options = ViewOptions {
        style: screen.style,
        verbosity: screen.verbosity,
        agent_stream: AgentStream::Hidden,
        clock: WallClock::system(clock::now),
    };
    let mut view = TerminalView::new(screen::stdout(), options);
    let unreadable = |error: &dyn std::error::Error| Complaint::of(ExitStatus::BadInput, error);
    let mut tail = Tail::open(&files.journal()).map_err(|error| unreadable(&error))?;
    let mut state: Option<RunState> = None;
    loop {
        // Looked at before the journal: what is written in between is seen in the next round.
        let is_active = Lock::look(layout.state()).is_some();
        while let Some((recorded, text)) = tail.next_event().map_err(|error| unreadable(&error))? {
            if args.json {
                screen::print_data(&format!("{text}\n"));
                continue;
            }
            let now = match state.take() {
                None => RunState::begin(&recorded),
                Some(mut state) => state.apply(&recorded).map(|()| state),
            }
            .map_err(|error| unreadable(&error))?;
            view.tell(&recorded, &now);
            state = Some(now);
        }
        if !args.follow || !is_active {
            return Ok(ExitStatus::Complete);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Returns the run that is named, or the last one.
pub(super) fn choose(state: &Path, named: Option<&str>) -> Result<RunId, Complaint> {
    let known = runs::runs(state);
    let mut begun = known.into_iter().filter(|run| run.started.is_some());
    match named {
        None => {
            begun.next().ok_or_else(|| Complaint::input("there is no run in this directory yet"))
        }
        Some(name) => begun.find(|run| run.id.0 == name).ok_or_else(|| {
            Complaint::input(format!("there is no run `{name}` in this directory"))
                .hint("`ralph status` names the last one, which is meant without a name")
        }),
    }
    .map(|run| run.id)
}

/// Prints the raw streams of all calls, in the order of the calls.
fn raw(run: &Path) -> Result<ExitStatus, Complaint> {
    let unreadable = |error: io::Error| {
        Complaint::new(ExitStatus::BadInput, format!("cannot read `{}`: {error}", run.display()))
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
    streams.sort();
    for (_, _, path) in streams {
        let mut reader = RawReader::open(&path).map_err(unreadable)?;
        if io::copy(&mut reader, &mut screen::stdout()).is_err() {
            // The reader has gone away.
            break;
        }
    }
    Ok(ExitStatus::Complete)
}
