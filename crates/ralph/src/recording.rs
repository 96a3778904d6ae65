//! Replays a run on the full screen from its journal and the raw streams of its agents.
//!
//! Not here: what is shown (`ralph_ui::tui`).

use std::borrow::Cow;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_agents::{self as agents, Translator};
use ralph_core::ports::AgentRequest;
use ralph_core::tasks::checklist::Checklist;
use ralph_io::environment::Variables;
use ralph_io::mask::Masker;
use ralph_io::process::{OutputLine, OutputLines, StopStage, Watch};
use ralph_io::store::raw::RawTail;
use ralph_io::store::tail::JournalTail;
use ralph_io::store::{ProjectLayout, RunDir, plan};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::outcome::ExitStatus;
use ralph_model::run::RunState;
use ralph_ui::tui::{self, CallOutput, Recording, ReplaySource, ScreenLink};
use ralph_ui::view::ViewOptions;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::{full_screen, screen, secrets};

/// Bytes read from a stream at once.
const PIECE: usize = 64 * 1024;

/// How long to wait for a terminal that hangs.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Shows a run until the user leaves the screen.
pub(crate) fn show_run(
    layout: &ProjectLayout,
    run: &RunId,
    env: Variables,
    options: ViewOptions,
    source: ReplaySource,
) -> Result<ExitStatus, CliError> {
    let device = full_screen::open_device(screen::open_stdout())
        .map_err(|why| CliError::for_input(format!("there can be no full screen here: {why}")))?;
    let files = layout.run_dir(run);
    let tail = JournalTail::open(&files.journal_path()).map_err(CliError::from_input_error)?;
    let link = ScreenLink::default();
    let shown = link.clone();
    let watch = Watch::install(move |stage| match stage {
        StopStage::Running => {}
        StopStage::Finish | StopStage::End => shown.leave_screen(LEAVE_TIMEOUT),
        StopStage::Leave => full_screen::restore_terminal(),
    })
    .map_err(|error| {
        CliError::new(ExitStatus::Incomplete, format!("cannot watch for signals: {error}"))
    })?;
    full_screen::leave_screen_while_stopped(&watch, &link, |_| {});
    let send = full_screen::request_sender(files.path());
    let project = Project::new(layout.project().to_owned(), env);
    let kept = RecordedRun { tail, project, files, masker: None, call: None };
    let options = ViewOptions { shows_agent: true, ..options };
    tui::replay_run(device, &link, options, Box::new(kept), source, send).map_err(|error| {
        CliError::new(ExitStatus::Incomplete, format!("the terminal cannot be used: {error}"))
    })?;
    Ok(ExitStatus::Complete)
}

/// The files of a recorded run.
struct RecordedRun {
    tail: JournalTail,
    files: RunDir,
    project: Project,
    /// Built when a plan is first read. A failure names a secret that could not be masked.
    masker: Option<Result<Masker, String>>,
    /// The call whose stream is being read.
    call: Option<RecordedCall>,
}

impl Recording for RecordedRun {
    fn read_events(&mut self) -> Result<Vec<Recorded>, String> {
        let mut facts = Vec::new();
        while let Some((fact, _)) = self.tail.next_event().map_err(|error| error.to_string())? {
            facts.push(fact);
        }
        Ok(facts)
    }

    fn select_call(&mut self, state: &RunState, asked: &Event) {
        self.call = RecordedCall::open(&self.files, &self.project.directory, state, asked);
    }

    fn read_output(&mut self) -> CallOutput {
        self.call.as_mut().map(RecordedCall::next_events).unwrap_or_default()
    }

    fn read_plan(&mut self, state: &RunState) -> Option<Checklist> {
        let build = || secrets::build_masker_for_record(&self.project, &state.recipe);
        let masker = self.masker.get_or_insert_with(build);
        read_masked_plan(&self.files, masker.as_ref().ok()?)
    }
}

/// Returns the plan as the run last read it, with secrets masked.
pub(crate) fn read_masked_plan(files: &RunDir, masker: &Masker) -> Option<Checklist> {
    let mut list = plan::read_last_seen(files)?;
    for item in &mut list.items {
        if let Cow::Owned(masked) = masker.mask_text(&item.text) {
            item.text = masked;
        }
    }
    Some(list)
}

/// Rebuilds the request of a call, as far as its stream needs it.
fn rebuild_request(files: &RunDir, state: &RunState, asked: &Event) -> Option<AgentRequest> {
    let Event::Asked { ask, role, purpose, agent, .. } = asked else { return None };
    let iteration = IterationNumber(state.iterations);
    // A gate, and a task that is stuck, may have an agent of their own.
    let usual = state.recipe.agent_for(*role);
    let others = state.recipe.callable_agents();
    let choice = if usual.kind == *agent {
        usual
    } else {
        others.into_iter().find(|it| it.kind == *agent).unwrap_or(usual)
    };
    Some(AgentRequest {
        run: state.run.clone(),
        iteration,
        ask: *ask,
        role: *role,
        purpose: purpose.clone(),
        task: state.current.as_ref().and_then(|current| current.task.clone()),
        agent: choice.clone(),
        prompt: fs::read_to_string(files.prompt_path(iteration, *ask)).unwrap_or_default(),
        session: None,
        schema: None,
        soft_limit: state.recipe.limits.ask_soft,
        hard_limit: state.recipe.limits.ask_hard,
        idle_limit: state.recipe.limits.ask_idle,
        cost_left: None,
    })
}

/// The stream of a call, translated while it is read.
pub(crate) struct RecordedCall {
    stream: PathBuf,
    /// Exists once the agent has ended.
    end: PathBuf,
    tail: Option<RawTail>,
    lines: OutputLines,
    translator: Translator,
    piece: Vec<u8>,
    is_over: bool,
}

impl RecordedCall {
    /// Returns the stream of the call that an event began, given the state after it.
    pub(crate) fn open(
        files: &RunDir,
        project: &Path,
        state: &RunState,
        asked: &Event,
    ) -> Option<Self> {
        let request = rebuild_request(files, state, asked)?;
        Some(Self::new(files, project, &request))
    }

    fn new(files: &RunDir, project: &Path, request: &AgentRequest) -> Self {
        Self {
            stream: files.stream_path(request.iteration, request.ask),
            end: files.end_path(request.iteration, request.ask),
            tail: None,
            lines: OutputLines::default(),
            translator: agents::create_translator(request, project),
            piece: vec![0; PIECE],
            is_over: false,
        }
    }

    /// Returns the next events of the stream, in chunks, so that a stream of any length can be shown in
    /// constant memory.
    pub(crate) fn next_events(&mut self) -> CallOutput {
        let mut events = Vec::new();
        // Checked before the stream: everything the agent wrote before its end is there then.
        let has_ended = self.end.exists();
        if self.tail.is_none() {
            self.tail = RawTail::open(&self.stream).ok();
        }
        while let (false, true, Some(tail)) = (self.is_over, events.is_empty(), &mut self.tail) {
            let mut push_line = |line: OutputLine<'_>| match line {
                OutputLine::Whole(line) => events.extend(self.translator.parse_for_display(&line)),
                OutputLine::TooLong { .. } => {}
            };
            match tail.read(&mut self.piece) {
                Ok(count @ 1..) => self.lines.push_bytes(&self.piece[..count], &mut push_line),
                // The agent is still writing its last line.
                Ok(0) if !has_ended => break,
                Ok(_) | Err(_) => {
                    self.is_over = true;
                    self.lines.finish(&mut push_line);
                    events.extend(self.translator.finish().events);
                }
            }
        }
        let (read, of) = self.tail.as_ref().map_or((0, 0), |it| (it.offset(), it.length()));
        CallOutput { events, read_bytes: read, total_bytes: of }
    }
}

#[cfg(test)]
mod tests {
    use ralph_io::store::raw::RawWriter;
    use ralph_model::agent::{AgentChoice, AgentKind};
    use ralph_model::agent_output::AgentEvent;
    use ralph_model::event::Purpose;
    use ralph_model::ids::{AskNumber, Role};
    use ralph_model::units::Millis;

    use super::*;

    fn request() -> AgentRequest {
        AgentRequest {
            run: RunId("20261114-231500-k3f9".to_owned()),
            iteration: IterationNumber(1),
            ask: AskNumber(1),
            role: Role::Prompt,
            purpose: Purpose::Work,
            task: None,
            agent: AgentChoice::new(AgentKind::Claude, "claude"),
            prompt: String::new(),
            session: None,
            schema: None,
            soft_limit: Millis::ZERO,
            hard_limit: Millis::ZERO,
            idle_limit: Millis::ZERO,
            cost_left: None,
        }
    }

    /// A line of some length that does not shrink to nothing.
    fn line(number: u32) -> String {
        let mut state = number.wrapping_mul(2_654_435_761) | 1;
        let mut text = format!("{number} ");
        while text.len() < 50_000 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            text.push_str(&format!("{state:08x} and so on, as agents do; "));
        }
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    fn text_events(batch: &CallOutput) -> usize {
        let count = |event: &AgentEvent| usize::from(matches!(event, AgentEvent::Text { .. }));
        batch.events.iter().map(count).sum()
    }

    #[test]
    fn fifty_megabytes_are_followed_in_one_pass_and_in_little_memory() {
        const LINES: u32 = 1_000;
        let place = tempfile::tempdir().expect("a directory");
        let (files, request) = (RunDir::from_path(place.path().to_owned()), request());
        let mut call = RecordedCall::new(&files, place.path(), &request);
        assert_eq!(call.next_events(), CallOutput::default(), "nothing is there yet");
        let path = files.stream_path(request.iteration, request.ask);
        let mut writer = RawWriter::create(&path).expect("created");
        let (mut count, mut most, mut written) = (0, 0, 0);
        for number in 0..LINES {
            let line = line(number);
            written += line.len();
            // A line that is being written is not there yet.
            let (most_of_it, rest) = line.split_at(line.len() - 9);
            writer.write(most_of_it.as_bytes()).expect("written");
            writer.flush().expect("flushed");
            while let batch = call.next_events()
                && !batch.events.is_empty()
            {
                most = most.max(batch.events.len());
                count += text_events(&batch);
            }
            writer.write(format!("{rest}\n").as_bytes()).expect("written");
        }
        assert_eq!(count, LINES as usize - 1);
        writer.finish().expect("finished");
        fs::write(files.end_path(request.iteration, request.ask), "").expect("written");
        while let batch = call.next_events()
            && !batch.events.is_empty()
        {
            count += text_events(&batch);
        }
        assert_eq!(count, LINES as usize);
        assert!(written > 50_000_000, "{written}");
        assert!(most < 10, "{most} events were held at once");
        let length = fs::metadata(&path).expect("there").len();
        let read = call.tail.as_ref().expect("opened").offset();
        assert_eq!(read, length, "every byte of the file was read once");
        assert_eq!(
            call.next_events(),
            CallOutput { events: Vec::new(), read_bytes: read, total_bytes: length }
        );
    }
}
