//! `ralph serve`: serves live pages of runs on this machine.
//!
//! Reads journals and sends control requests; nothing else of a run is touched. Not here: HTTP and
//! access control (`ralph_ui::serve`), and how a page looks.

mod worker_pages;

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_core::reporting::current_action::CurrentAction;
use ralph_core::reporting::report::{Report, Summary};
use ralph_io::store::layout::{KnownProject, list_projects};
use ralph_io::store::runs::{self, RunSummary};
use ralph_io::store::tail::JournalTail;
use ralph_io::store::{RunDir, RunLock, action_file};
use ralph_io::{bounded_read, clock, control};
use ralph_model::control::{ControlRequest, Pause, SubmittedRequest};
use ralph_model::event::Event;
use ralph_model::ids::RunId;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::task::TaskStatus;
use ralph_model::units::Millis;
use ralph_ui::html::{Controls, LiveFacts, RunActivity, WorkerKeys};
use ralph_ui::serve::{
    ChartedRun, FollowedRun, ListedRun, ListedRunState, PageContent, ServedRuns, Server,
};
use ralph_ui::stream_tail::StreamTail;
use ralph_ui::style::{StreamEnvironment, Style, StylePreferences};
use ralph_ui::time::WallClock;
use serde_json::json;

use worker_pages::WorkerPages;

use super::pages::{self, AttemptDiffs};
use crate::browser;
use crate::cli::{CommonArgs, ServeArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::recording::RecordedCall;
use crate::{run_stats, screen};

/// Most runs in the list; `ralph report` finds all runs.
const MAX_LISTED_RUNS: usize = 200;

/// Most tasks in the menu.
const MAX_TASKS: usize = 500;

/// Reads of a stream for one refresh of the page, each of 64 KB: a page that opens late catches up
/// over several.
const MAX_STREAM_READS: usize = 64;

/// Random bytes in a token, too many to guess.
const TOKEN_BYTES: usize = 24;

/// Fewer digits could be guessed.
const MIN_TOKEN_DIGITS: usize = 32;

/// More than a file with a secret holds.
const MAX_TOKEN_FILE_BYTES: u64 = 200;

/// Serves until interrupted.
pub(crate) fn main(common: &CommonArgs, args: &ServeArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let layout = project.find_layout(&loaded)?;
    let here =
        KnownProject { project: project.directory.clone(), state: layout.state().to_owned() };
    let root = project.find_state_root(&loaded)?;
    let workers = Arc::new(WorkerPages::new(root.clone()));
    let scope = if args.all { RunScope::All { root } } else { RunScope::Here(here) };
    let runs = ProjectRuns { scope, env: project.env.clone(), workers };
    let token = match &args.token_file {
        Some(file) => read_or_create_token(file)?,
        None => draw_token()?,
    };
    let port = args.port.unwrap_or(0);
    let server = Server::bind(
        port,
        token,
        Box::new(runs),
        WallClock { zone: clock::find_local_zone(), now: clock::now },
    )
    .map_err(|error| to_bind_error(port, &error))?;
    if args.json {
        let about =
            json!({ "url": server.url(), "port": server.port(), "pid": std::process::id() });
        screen::print_data(&format!("{about}\n"));
    } else {
        screen::print_data(&format!("{}\n", server.url()));
        if !common.quiet {
            screen::print_line(
                "Anyone with this address may see and control the runs. Ctrl-C ends it.",
            );
        }
    }
    let browser = if args.open {
        browser::open_page(&project, &server.create_ticket_url(draw_token()?))
    } else {
        None
    };
    // The browser stays when the server ends.
    std::mem::forget(browser);
    server.serve_forever()
}

fn to_bind_error(port: u16, error: &io::Error) -> CliError {
    let complaint = if error.kind() == io::ErrorKind::AddrInUse {
        CliError::for_input(format!("port {port} of 127.0.0.1 is in use"))
    } else {
        CliError::for_input(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
    };
    complaint.with_hint("without --port, any free port is used")
}

/// Returns a random secret as hexadecimal digits.
fn draw_token() -> Result<String, CliError> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let drawn = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    drawn.map_err(|error| {
        CliError::for_input(format!("no random numbers are available: {error}"))
    })?;
    Ok(bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}")))
}

/// Returns the secret from a file; creates the file if it does not exist.
fn read_or_create_token(file: &Path) -> Result<String, CliError> {
    let shown = file.display();
    let cannot = |what: &str, error: io::Error| {
        CliError::for_input(format!("cannot {what} the secret in `{shown}`: {error}"))
    };
    let text = match bounded_read::read_file(file, MAX_TOKEN_FILE_BYTES) {
        Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = draw_token()?;
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            let written = made.and_then(|mut made| writeln!(made, "{token}"));
            written.map_err(|error| cannot("write", error))?;
            return Ok(token);
        }
        Err(error) => return Err(cannot("read", error)),
    };
    let mode = file.metadata().map_err(|error| cannot("read", error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let complaint =
            CliError::for_input(format!("other users can read the secret in `{shown}`"));
        return Err(complaint.with_hint(format!("`chmod 600 {shown}` makes it yours only")));
    }
    let is_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digits || text.len() < MIN_TOKEN_DIGITS {
        let complaint = CliError::for_input(format!(
            "`{shown}` has no secret of at least {MIN_TOKEN_DIGITS} hexadecimal digits"
        ));
        return Err(complaint.with_hint("name a file that does not exist yet; ralph creates it"));
    }
    Ok(text)
}

/// Which runs are shown.
enum RunScope {
    /// Those of one project.
    Here(KnownProject),
    /// Those of all projects of a state root.
    All { root: PathBuf },
}

/// The runs that are shown.
struct ProjectRuns {
    scope: RunScope,
    env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    workers: Arc<WorkerPages>,
}

impl ProjectRuns {
    fn list_projects(&self) -> Vec<KnownProject> {
        match &self.scope {
            RunScope::Here(project) => vec![project.clone()],
            RunScope::All { root } => list_projects(root),
        }
    }

    /// Finds the run of a key. The server has checked that the key is not a path.
    fn find_run(&self, key: &str) -> Option<(KnownProject, RunId)> {
        let (state, run) = key.split_once('-')?;
        let project = self
            .list_projects()
            .into_iter()
            .find(|project| hash_state_path(&project.state) == state)?;
        let run = RunId(run.to_owned());
        let is_there = find_run_directory(&project.state, &run).journal_path().is_file();
        is_there.then_some((project, run))
    }

    fn follow_run(&self, key: &str) -> Option<FollowedPage> {
        let worker = self.workers.find_run(key);
        let is_worker = worker.is_some();
        let (known, run) = worker.or_else(|| self.find_run(key))?;
        let project = Project::new(known.project, self.env.clone());
        let tail =
            JournalTail::open(&find_run_directory(&known.state, &run).journal_path()).ok()?;
        let (report, state) = (Report::default(), known.state);
        Some(FollowedPage {
            project,
            state,
            run,
            tail,
            report,
            diffs: None,
            last: None,
            asked: Vec::new(),
            action: None,
            shown_second: 0,
            call: None,
            stream: new_stream_tail(),
            is_worker,
            workers: Arc::clone(&self.workers),
            worker_keys: WorkerKeys::new(),
        })
    }
}

fn new_stream_tail() -> StreamTail {
    let preferences = StylePreferences::default();
    let style = Style::choose_style(&preferences, &StreamEnvironment::default());
    StreamTail::new(&style, WallClock { zone: clock::find_local_zone(), now: clock::now })
}

fn find_run_directory(state: &Path, run: &RunId) -> RunDir {
    RunDir::from_path(state.join("runs").join(&run.0))
}

/// Returns an id for a state directory, valid for this process only.
fn hash_state_path(state: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl ServedRuns for ProjectRuns {
    fn list_runs(&self) -> Vec<ListedRun> {
        let mut listed = Vec::new();
        for known in self.list_projects() {
            let is_locked = RunLock::find_holder(&known.state).is_some();
            let mut unfinished = is_locked;
            for run in runs::list_runs(&known.state).into_iter().take(MAX_LISTED_RUNS) {
                let Some(started) = run.started else { continue };
                listed.push(ListedRun {
                    key: format!("{}-{}", hash_state_path(&known.state), run.id),
                    run: run.id.0.clone(),
                    project: pages::format_project_name(&known.project),
                    started,
                    iterations: run.iterations,
                    state: find_listed_state(&run, &mut unfinished),
                });
            }
        }
        listed.sort_by_key(|run| std::cmp::Reverse(run.started));
        listed.truncate(MAX_LISTED_RUNS);
        listed
    }

    fn read_stats(&self) -> Vec<ChartedRun> {
        let mut runs: Vec<ChartedRun> = Vec::new();
        for known in self.list_projects() {
            let state = hash_state_path(&known.state);
            runs.extend(
                run_stats::read_runs(&known.state)
                    .map(|stats| ChartedRun { key: format!("{state}-{}", stats.run), stats }),
            );
        }
        runs.sort_by_key(|run| run.stats.started);
        runs
    }

    fn open_run(&self, key: &str) -> Option<Box<dyn FollowedRun>> {
        self.follow_run(key).map(|following| Box::new(following) as Box<dyn FollowedRun>)
    }
}

/// Returns the status of a run. The newest run that has not ended holds the lock, if it is taken.
fn find_listed_state(run: &RunSummary, is_locked: &mut bool) -> ListedRunState {
    match &run.outcome {
        Some(Outcome::Complete) => ListedRunState::Complete,
        Some(outcome) => ListedRunState::Ended(outcome.to_string()),
        None if std::mem::take(is_locked) => ListedRunState::Active,
        None => ListedRunState::CutOff,
    }
}

/// A run that a page follows.
struct FollowedPage {
    project: Project,
    state: PathBuf,
    run: RunId,
    tail: JournalTail,
    report: Report,
    diffs: Option<AttemptDiffs>,
    last: Option<RunActivity>,
    /// The requests in the inbox of the run.
    asked: Vec<SubmittedRequest>,
    /// What the run is doing right now, if it is active.
    action: Option<CurrentAction>,
    /// The second of the running time that the page shows.
    shown_second: u64,
    /// The stream of the last agent call, and its last lines.
    call: Option<RecordedCall>,
    stream: StreamTail,
    /// Whether it is the run of a worker.
    is_worker: bool,
    workers: Arc<WorkerPages>,
    /// The workers of this run that have a page.
    worker_keys: WorkerKeys,
}

impl FollowedPage {
    /// Reads new events of the journal. Returns whether there were any.
    fn read_new_events(&mut self) -> Result<bool, String> {
        let mut is_new = false;
        while let Some((recorded, _)) = self.tail.next_event().map_err(|error| error.to_string())? {
            self.report.apply_event(&recorded).map_err(|error| error.to_string())?;
            if let (Event::Asked { .. }, Some(state)) = (&recorded.event, self.report.state()) {
                let files = find_run_directory(&self.state, &self.run);
                let directory = &self.project.directory;
                self.call = RecordedCall::open(&files, directory, state, &recorded.event);
                self.stream = new_stream_tail();
            }
            is_new = true;
        }
        Ok(is_new)
    }

    fn activity(&self) -> RunActivity {
        pages::find_activity(&self.state, &self.run, &self.report)
    }

    /// Reads what the agent has printed since. Returns whether there was anything.
    fn read_new_output(&mut self) -> bool {
        let mut is_new = false;
        for _ in 0..MAX_STREAM_READS {
            let events =
                self.call.as_mut().map(RecordedCall::next_events).unwrap_or_default().events;
            if events.is_empty() {
                break;
            }
            for event in &events {
                self.stream.push_event(event);
            }
            is_new = true;
        }
        is_new
    }

    /// Returns running time and current action of a run that is active.
    fn read_activity(&self, look: RunActivity) -> (Option<Millis>, Option<CurrentAction>) {
        if look == RunActivity::Ended {
            return (None, None);
        }
        let files = find_run_directory(&self.state, &self.run);
        let ran = self.report.running_time_at(clock::now());
        (Some(ran), action_file::read_action(files.path()))
    }

    fn build_page(&mut self, summary: &Summary, look: RunActivity) -> PageContent {
        let diffs =
            self.diffs.get_or_insert_with(|| AttemptDiffs::for_run(&self.project, &self.report));
        let directory = &self.project.directory;
        let stream = if look == RunActivity::Ended { "" } else { self.stream.text() };
        PageContent {
            title: pages::format_title(summary, directory),
            parts: pages::build_parts(
                &self.report,
                summary,
                directory,
                look,
                LiveFacts { action: self.action.as_ref(), stream },
                &self.worker_keys,
                diffs,
            ),
            controls: build_controls(&self.report, &self.asked, summary, look),
        }
    }
}

impl FollowedRun for FollowedPage {
    fn refresh(&mut self) -> Result<Option<PageContent>, String> {
        // Checked before the journal: events written in between are seen in the next round.
        let before = self.activity();
        let is_new = self.read_new_events()?;
        let look = if is_new { self.activity() } else { before };
        let asked = if look == RunActivity::Ended {
            Vec::new()
        } else {
            control::list_pending(find_run_directory(&self.state, &self.run).path())
        };
        let has_output = look != RunActivity::Ended && self.read_new_output();
        let (ran, action) = self.read_activity(look);
        let second = ran.map_or(0, |ran| ran.0 / 1000);
        let is_same = self.last == Some(look)
            && self.asked == asked
            && self.action == action
            && self.shown_second == second;
        if !is_new && !has_output && is_same {
            return Ok(None);
        }
        (self.last, self.asked) = (Some(look), asked);
        (self.action, self.shown_second) = (action, second);
        let summary = self.report.summary().map(|mut summary| {
            summary.total.ran = ran.unwrap_or(summary.total.ran);
            summary
        });
        if let Some(summary) = &summary {
            self.workers.add_keys(&mut self.worker_keys, summary);
        }
        Ok(summary.map(|summary| self.build_page(&summary, look)))
    }

    fn send_request(&mut self, request: &ControlRequest) -> Result<(), String> {
        if self.read_new_events()? {
            // Forces an update of the page at the next look.
            self.last = None;
        }
        let is_for_run = match request {
            ControlRequest::Stop | ControlRequest::StopNow | ControlRequest::Skip { .. } => true,
            ControlRequest::Hold { .. }
            | ControlRequest::Pause
            | ControlRequest::Resume
            | ControlRequest::Note { .. }
            | ControlRequest::TaskNote { .. } => false,
        };
        if self.is_worker && is_for_run {
            return Err("This is one worker: use the page of the whole run.".to_owned());
        }
        if self.activity() == RunActivity::Ended {
            return Err("No run is active: this one is over.".to_owned());
        }
        let place = find_run_directory(&self.state, &self.run);
        control::send_request(place.path(), request).map_err(|error| error.to_string())
    }
}

fn build_controls(
    report: &Report,
    asked: &[SubmittedRequest],
    summary: &Summary,
    look: RunActivity,
) -> Controls {
    let (mut is_paused, mut will) = match pages::find_pause_state(report) {
        Pause::No => (false, Vec::new()),
        Pause::Asked { .. } => (true, vec!["pause".to_owned()]),
        Pause::Since { .. } => (true, Vec::new()),
    };
    if report.state().is_some_and(|state| state.control.stop.is_some()) {
        will.push("stop".to_owned());
    }
    for SubmittedRequest { request, .. } in asked {
        match request {
            ControlRequest::Pause => is_paused = true,
            ControlRequest::Resume => is_paused = false,
            ControlRequest::Stop
            | ControlRequest::StopNow
            | ControlRequest::Skip { .. }
            | ControlRequest::Note { .. }
            | ControlRequest::TaskNote { .. }
            | ControlRequest::Hold { .. } => {}
        }
        will.push(request.describe());
    }
    let is_resumable = summary.outcome.as_ref().is_none_or(Outcome::is_resumable);
    let is_active = look != RunActivity::Ended;
    let why = match is_active {
        false if matches!(summary.outcome, Some(Outcome::TasksLeft { .. })) => {
            "No run is active. The commands for what failed are below.".to_owned()
        }
        false if is_resumable => "No run is active. `ralph resume` resumes this one.".to_owned(),
        false => "No run is active: this one is complete.".to_owned(),
        true if !will.is_empty() => {
            format!("Requested, and done after the current step: {}.", will.join(", "))
        }
        true if is_paused => "It is paused; resume it to continue.".to_owned(),
        true => "Requests are handled after the current step.".to_owned(),
    };
    let is_open = |status| matches!(status, TaskStatus::Pending | TaskStatus::InProgress);
    let tasks = summary.tasks.iter().filter(|task| is_open(task.status)).take(MAX_TASKS);
    Controls {
        is_active,
        is_paused,
        why,
        tasks: tasks.map(|task| (task.id.0.clone(), task.title.clone())).collect(),
    }
}
