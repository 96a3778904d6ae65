//! `ralph serve`: serves live pages of runs on this machine.
//!
//! Reads journals and sends control requests; nothing else of a run is touched. Not here: HTTP and
//! access control (`ralph_ui::serve`), and how a page looks.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::control::{Asked, Pause, Wish};
use ralph_core::ids::RunId;
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::report::{Report, Summary};
use ralph_core::task::TaskStatus;
use ralph_io::process::{Companion, Limits, Spawn, Stdin};
use ralph_io::store::layout::{KnownProject, list_projects};
use ralph_io::store::runs::{self, RunSummary};
use ralph_io::store::tail::Tail;
use ralph_io::store::{Lock, RunDir};
use ralph_io::{bounded, clock, control};
use ralph_ui::html::Controls;
use ralph_ui::serve::{Follow, Listed, ListedState, Runs, Server, Shown};
use ralph_ui::time::WallClock;
use serde_json::json;

use super::pages::{self, Diffs, Look};
use crate::cli::{CommonArgs, ServeArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;

/// Most runs in the list; `ralph report` finds all runs.
const MOST_LISTED: usize = 200;

/// Most tasks in the menu.
const MOST_TASKS: usize = 500;

/// Random bytes in a token, too many to guess.
const TOKEN_BYTES: usize = 24;

/// Fewer digits could be guessed.
const SHORTEST_TOKEN: usize = 32;

/// More than a file with a secret holds.
const LONGEST_TOKEN: u64 = 200;

/// Serves until interrupted.
pub(crate) fn main(common: &CommonArgs, args: &ServeArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let here =
        KnownProject { project: project.directory.clone(), state: layout.state().to_owned() };
    let scope = if args.all {
        Scope::All { root: project.state_root(&loaded)? }
    } else {
        Scope::Here(here)
    };
    let runs = KnownRuns { scope, env: project.env.clone() };
    let token = match &args.token_file {
        Some(file) => kept_token(file)?,
        None => drawn_token()?,
    };
    let port = args.port.unwrap_or(0);
    let server = Server::bind(port, token, Box::new(runs), WallClock::system(clock::now))
        .map_err(|error| refuse(port, &error))?;
    if args.json {
        let about =
            json!({ "url": server.url(), "port": server.port(), "pid": std::process::id() });
        screen::print_data(&format!("{about}\n"));
    } else {
        screen::print_data(&format!("{}\n", server.url()));
        if !common.quiet {
            screen::say("Anyone with this address may see and control the runs. Ctrl-C ends it.");
        }
    }
    let browser = if args.open { open(&project, &server.ticket_url(drawn_token()?)) } else { None };
    // The browser stays when the server ends.
    std::mem::forget(browser);
    server.run()
}

fn refuse(port: u16, error: &io::Error) -> Complaint {
    let complaint = if error.kind() == io::ErrorKind::AddrInUse {
        Complaint::input(format!("port {port} of 127.0.0.1 is in use"))
    } else {
        Complaint::input(format!("cannot listen on port {port} of 127.0.0.1: {error}"))
    };
    complaint.hint("leave --port out, and any free port is taken")
}

/// Returns a random secret as hexadecimal digits.
fn drawn_token() -> Result<String, Complaint> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let drawn = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    drawn.map_err(|error| Complaint::input(format!("there is no source of chance: {error}")))?;
    Ok(bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}")))
}

/// Returns the secret from a file; creates the file if it does not exist.
fn kept_token(file: &Path) -> Result<String, Complaint> {
    let shown = file.display();
    let cannot = |what: &str, error: io::Error| {
        Complaint::input(format!("cannot {what} the secret in `{shown}`: {error}"))
    };
    let text = match bounded::read_file(file, LONGEST_TOKEN) {
        Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = drawn_token()?;
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            let written = made.and_then(|mut made| writeln!(made, "{token}"));
            written.map_err(|error| cannot("write", error))?;
            return Ok(token);
        }
        Err(error) => return Err(cannot("read", error)),
    };
    let mode = file.metadata().map_err(|error| cannot("read", error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let complaint = Complaint::input(format!("others may read the secret in `{shown}`"));
        return Err(complaint.hint(format!("`chmod 600 {shown}` keeps it to you")));
    }
    let is_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digits || text.len() < SHORTEST_TOKEN {
        let complaint = Complaint::input(format!(
            "`{shown}` is no secret of at least {SHORTEST_TOKEN} hexadecimal digits"
        ));
        return Err(complaint.hint("name a file that is not there yet, and it is made"));
    }
    Ok(text)
}

/// Opens a browser; if that fails, the user has the printed address.
fn open(project: &Project, url: &str) -> Option<Companion> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let spawn = Spawn {
        program: program.into(),
        args: vec![url.into()],
        cwd: project.directory.clone(),
        env: project.env.clone(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    };
    Companion::start(&spawn)
        .map_err(|reason| screen::warn(&format!("no browser could be opened: {reason}")))
        .ok()
}

/// Which runs are shown.
enum Scope {
    /// Those of one project.
    Here(KnownProject),
    /// Those of all projects of a state root.
    All {
        /// The root.
        root: PathBuf,
    },
}

/// The runs that are shown.
struct KnownRuns {
    scope: Scope,
    env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl KnownRuns {
    fn projects(&self) -> Vec<KnownProject> {
        match &self.scope {
            Scope::Here(project) => vec![project.clone()],
            Scope::All { root } => list_projects(root),
        }
    }

    /// Finds the run of a key. The server has checked that the key is not a path.
    fn find(&self, key: &str) -> Option<(KnownProject, RunId)> {
        let (state, run) = key.split_once('-')?;
        let project =
            self.projects().into_iter().find(|project| digest(&project.state) == state)?;
        let run = RunId(run.to_owned());
        let is_there = directory(&project.state, &run).journal().is_file();
        is_there.then_some((project, run))
    }

    fn open(&self, key: &str) -> Option<Following> {
        let (known, run) = self.find(key)?;
        let project = Project { directory: known.project, env: self.env.clone() };
        let tail = Tail::open(&directory(&known.state, &run).journal()).ok()?;
        let (report, state) = (Report::default(), known.state);
        Some(Following {
            project,
            state,
            run,
            tail,
            report,
            diffs: None,
            last: None,
            asked: Vec::new(),
        })
    }
}

fn directory(state: &Path, run: &RunId) -> RunDir {
    RunDir::at(state.join("runs").join(&run.0))
}

/// Returns an id for a state directory, valid for this process only.
fn digest(state: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Runs for KnownRuns {
    fn list(&self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for known in self.projects() {
            let is_locked = Lock::look(&known.state).is_some();
            let mut unfinished = is_locked;
            for run in runs::runs(&known.state).into_iter().take(MOST_LISTED) {
                let Some(started) = run.started else { continue };
                listed.push(Listed {
                    key: format!("{}-{}", digest(&known.state), run.id),
                    run: run.id.0.clone(),
                    project: pages::name(&known.project),
                    started,
                    iterations: run.iterations,
                    state: state_of(&run, &mut unfinished),
                });
            }
        }
        listed.sort_by_key(|run| std::cmp::Reverse(run.started));
        listed.truncate(MOST_LISTED);
        listed
    }

    fn follow(&self, key: &str) -> Option<Box<dyn Follow>> {
        self.open(key).map(|following| Box::new(following) as Box<dyn Follow>)
    }
}

/// Returns the status of a run. The newest run that has not ended holds the lock, if it is taken.
fn state_of(run: &RunSummary, is_locked: &mut bool) -> ListedState {
    match &run.outcome {
        Some(Outcome::Complete) => ListedState::Complete,
        Some(outcome) => ListedState::Ended(outcome.to_string()),
        None if std::mem::take(is_locked) => ListedState::Active,
        None => ListedState::CutOff,
    }
}

/// A run that a page follows.
struct Following {
    project: Project,
    state: PathBuf,
    run: RunId,
    tail: Tail,
    report: Report,
    diffs: Option<Diffs>,
    last: Option<Look>,
    /// The requests in the inbox of the run.
    asked: Vec<Asked>,
}

impl Following {
    /// Reads new events of the journal. Returns whether there were any.
    fn catch_up(&mut self) -> Result<bool, String> {
        let mut is_new = false;
        while let Some((recorded, _)) = self.tail.next_event().map_err(|error| error.to_string())? {
            self.report.apply(&recorded).map_err(|error| error.to_string())?;
            is_new = true;
        }
        Ok(is_new)
    }

    fn standing(&self) -> Look {
        Look::at(&self.state, &self.run, &self.report)
    }

    fn show(&mut self, summary: &Summary, look: Look) -> Shown {
        let diffs = self.diffs.get_or_insert_with(|| Diffs::of(&self.project, &self.report));
        let directory = &self.project.directory;
        Shown {
            title: pages::title(summary, directory),
            parts: pages::parts(&self.report, summary, directory, look, diffs),
            controls: controls(&self.report, &self.asked, summary, look),
        }
    }
}

impl Follow for Following {
    fn look(&mut self) -> Result<Option<Shown>, String> {
        // Checked before the journal: events written in between are seen in the next round.
        let before = self.standing();
        let is_new = self.catch_up()?;
        let look = if is_new { self.standing() } else { before };
        let asked = match look {
            Look::Active => control::waiting(directory(&self.state, &self.run).path()),
            Look::Over => Vec::new(),
        };
        if !is_new && self.last == Some(look) && self.asked == asked {
            return Ok(None);
        }
        (self.last, self.asked) = (Some(look), asked);
        let summary = self.report.summary();
        Ok(summary.map(|summary| self.show(&summary, look)))
    }

    fn wish(&mut self, request: &Wish) -> Result<(), String> {
        if self.catch_up()? {
            // Forces an update of the page at the next look.
            self.last = None;
        }
        match self.standing() {
            Look::Over => Err("No run is active: this one is over.".to_owned()),
            Look::Active => {
                let place = directory(&self.state, &self.run);
                control::send(place.path(), request).map_err(|error| error.to_string())
            }
        }
    }
}

fn controls(report: &Report, asked: &[Asked], summary: &Summary, look: Look) -> Controls {
    let (mut is_paused, mut will) = match pages::pause(report) {
        Pause::No => (false, Vec::new()),
        Pause::Asked { .. } => (true, vec!["pause".to_owned()]),
        Pause::Since { .. } => (true, Vec::new()),
    };
    if report.state().is_some_and(|state| state.control.stop.is_some()) {
        will.push("stop".to_owned());
    }
    for Asked { wish: request, .. } in asked {
        match request {
            Wish::Pause => is_paused = true,
            Wish::GoOn => is_paused = false,
            Wish::Stop | Wish::Skip { .. } | Wish::Note { .. } => {}
        }
        will.push(request.words());
    }
    let is_resumable = summary.outcome.as_ref().is_none_or(Outcome::is_resumable);
    let why = match look {
        Look::Over if is_resumable => {
            "No run is active. `ralph resume` resumes this one.".to_owned()
        }
        Look::Over => "No run is active: this one is complete.".to_owned(),
        Look::Active if !will.is_empty() => {
            format!("Requested, and done after the current step: {}.", will.join(", "))
        }
        Look::Active if is_paused => "It is paused; resume it to continue.".to_owned(),
        Look::Active => "Requests are handled after the current step.".to_owned(),
    };
    let is_open = |status| matches!(status, TaskStatus::Pending | TaskStatus::InProgress);
    let tasks = summary.tasks.iter().filter(|task| is_open(task.status)).take(MOST_TASKS);
    Controls {
        is_active: look == Look::Active,
        is_paused,
        why,
        tasks: tasks.map(|task| (task.id.0.clone(), task.title.clone())).collect(),
    }
}
