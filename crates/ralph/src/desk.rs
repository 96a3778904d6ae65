//! What a run works with (terminal, signals, lock, repository), held for as long as the run lasts.
//!
//! Not here: the run itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ralph_agents as agents;
use ralph_core::engine::EngineError;
use ralph_core::ids::{RunId, TaskId};
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::ports::{Ui, VcsError};
use ralph_core::recipe::Recipe;
use ralph_core::run::RunState;
use ralph_core::units::Millis;
use ralph_io::clock;
use ralph_io::environment::Variables;
use ralph_io::git::{Git, PutBack, Repository, Taken};
use ralph_io::mask::{MaskWriter, Masker};
use ralph_io::process::{Stage, Watch};
use ralph_io::sandbox::Launcher;
use ralph_io::store::draft::{Draft, Withdrawn};
use ralph_io::store::layout::PROJECT_DIRECTORY;
use ralph_io::store::{Layout, Lock, LockError, files, runs};
use ralph_ui::session::SessionLog;
use ralph_ui::style::Style;
use ralph_ui::time::WallClock;
use ralph_ui::tui::{Aside, FullScreen, ScreenLink, Setup};
use ralph_ui::view::{AgentStream, Fanout, SHUTTING_DOWN, TerminalView, Verbosity, ViewOptions};
use ralph_ui::writer::NonBlocking;

use crate::cli::CommonArgs;
use crate::complaint::Complaint;
use crate::dead_run::{self, Moved};
use crate::documents::{DIRECTORY, DOCUMENTS};
use crate::full_screen;
use crate::project::{Project, complain_of_layout};
use crate::recipe::{self, SPECS_DIR};
use crate::recording;
use crate::screen::{self, Screen};
use crate::session::{self, Incomplete};
use crate::settings::types::sections::LogLevel;
use crate::settings::{self, Loaded};

/// How long ralph waits at the end for a terminal that has stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// More paths than this do not help the user to decide.
const SHOWN_PATHS: usize = 5;

/// What to do with uncommitted changes where ralph is going to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirtyPlan {
    /// Refuse to start.
    Refuse,
    /// Start; they become part of the first commit.
    Include,
    /// Stash them, and restore them at the end.
    SetAside,
}

/// A task that failed before, whose work is on a failure branch.
#[derive(Debug, Clone)]
pub(crate) struct Shelved {
    pub(crate) task: TaskId,
    pub(crate) plan: ShelfPlan,
}

/// What to do with the failure branch of a task that is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShelfPlan {
    /// Continue from it.
    Take,
    /// Archive it and start the task from scratch.
    Archive,
    /// Ask the user; without a terminal, archive it.
    Ask,
}

/// The resources of a run.
pub(crate) struct Desk {
    /// ralph's own signals.
    pub(crate) watch: Watch,
    pub(crate) layout: Layout,
    /// The environment ralph was started with.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) keeps_awake: bool,
    pub(crate) skills: PathBuf,
    /// Tokens of the model's context window, if the user sets it.
    pub(crate) context_window: Option<u64>,
    /// The directory of the project's own prompt templates.
    pub(crate) prompts: PathBuf,
    screen: Screen,
    /// Whether the user asked for the full-screen view.
    wants_tui: bool,
    full_screen: ScreenLink,
    out: NonBlocking,
    repository: Option<Repository>,
    agent_stream: AgentStream,
    /// Level of the log file in the project.
    log_level: LogLevel,
    remarks: Vec<String>,
    _lock: Lock,
}

impl Desk {
    /// Takes the lock of the work tree and opens everything else that a run needs.
    pub(crate) fn open(
        common: &CommonArgs,
        project: &Project,
        loaded: &Loaded,
    ) -> Result<Self, Complaint> {
        let settings = &loaded.settings;
        let cannot = |what: &str, error: std::io::Error| {
            Complaint::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
        };
        let full_screen = ScreenLink::default();
        let out = NonBlocking::start(Aside::new(full_screen.clone(), screen::stderr()))
            .map_err(|error| cannot("start a thread", error))?;
        let (writer, shown) = (out.clone(), full_screen.clone());
        let watch = Watch::install(move |stage| announce(&writer, &shown, stage))
            .map_err(|error| cannot("watch for signals", error))?;
        let writer = out.clone();
        full_screen::make_room(&watch, &full_screen, move |paused_for| {
            let paused_for = Millis::from(paused_for);
            writer.say(&format!(
                "Resuming after a stop of {paused_for}; it does not count against any limit."
            ));
        });
        let repository = project.repository(&watch)?;
        let layout = project.layout_in(loaded, repository.as_ref())?;
        layout.prepare_state().map_err(|error| complain_of_layout(&error))?;
        let lock = Lock::acquire(layout.state(), clock::now()).map_err(|error| match &error {
            LockError::Busy(_) => Complaint::new(ExitStatus::Busy, error.to_string()),
            LockError::Refused { .. } => Complaint::of(ExitStatus::BadInput, &error),
        })?;
        settings::record_local_settings(layout.project(), layout.state())
            .map_err(|error| cannot("write ralph's state", error))?;
        layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
        let loading =
            loaded.files.iter().map(|path| format!("Loading settings from {}", path.display()));
        let merged = std::iter::once(format!("Settings: {}", loaded.masked_json()));
        Ok(Self {
            watch,
            layout,
            env: project.env.clone(),
            keeps_awake: settings.prevent_sleep,
            skills: settings.skills_dir.clone().into(),
            context_window: settings.context.window,
            prompts: settings.prompts_dir.clone().into(),
            screen: Screen::new(common, &settings.ui),
            wants_tui: settings.ui.tui,
            full_screen,
            out,
            repository,
            agent_stream: if settings.stream_agent_output {
                AgentStream::Shown
            } else {
                AgentStream::Hidden
            },
            log_level: settings.log.level,
            remarks: loading.chain(merged).collect(),
            _lock: lock,
        })
    }

    /// Registers the task file that ralph writes, and the documents that may be uncommitted.
    pub(crate) fn keeps_list_of(&mut self, recipe: &Recipe) {
        if recipe.plan.is_some() {
            self.is_about_specs(recipe);
        }
        let file = recipe.task_work().map(|work| &work.file).or(recipe.draft.as_ref());
        let (Some(repository), Some(file)) = (&mut self.repository, file) else { return };
        let project = self.layout.project();
        let file = project.join(file);
        repository.keeps(&file);
        let companions = DOCUMENTS.iter().map(|name| file.with_file_name(name));
        let scaffold = [DIRECTORY, PROJECT_DIRECTORY, ".gitignore"].map(|path| project.join(path));
        repository.is_about(&companions.chain(scaffold).collect::<Vec<_>>());
    }

    /// Registers specifications, plan and settings as files that may be uncommitted: users write them
    /// before the work and edit them in between.
    fn is_about_specs(&mut self, recipe: &Recipe) {
        let Some(repository) = &mut self.repository else { return };
        let project = self.layout.project();
        let specs = recipe.prompt.vars.get(SPECS_DIR).map(String::as_str);
        let about = [PROJECT_DIRECTORY, ".gitignore"].into_iter().chain(specs);
        repository.is_about(&about.map(|path| project.join(path)).collect::<Vec<_>>());
    }

    /// Saves the content of the task file before a run that writes a draft of it.
    pub(crate) fn begin_draft(&self, run: &RunId, recipe: &Recipe) -> Result<(), Complaint> {
        let Some(draft) = self.draft(run, recipe) else { return Ok(()) };
        draft.begin().map_err(|error| {
            Complaint::input(format!("cannot keep what the task file holds: {error}"))
        })
    }

    /// Restores the draft of a resumed run.
    pub(crate) fn take_up_draft(&self, run: &RunId, recipe: &Recipe) -> Result<(), Complaint> {
        let Some(draft) = self.draft(run, recipe) else { return Ok(()) };
        draft.take_up().map_err(|error| {
            Complaint::input(format!("cannot bring the draft of the task file back: {error}"))
        })
    }

    /// Returns the draft that a run works on.
    pub(crate) fn draft(&self, run: &RunId, recipe: &Recipe) -> Option<Draft> {
        let file = recipe.draft.as_ref()?;
        Some(Draft::new(self.layout.project().join(file), self.layout.run(run)))
    }

    /// Removes the draft of a run that ended before the draft was valid. `ralph resume` restores it.
    pub(crate) fn withdraw(&self, draft: Option<&Draft>, outcome: &Result<Outcome, Complaint>) {
        let draft = match (draft, outcome) {
            (None, _) | (Some(_), Ok(Outcome::Complete)) => return,
            (Some(draft), Ok(_) | Err(_)) => draft,
        };
        match draft.withdraw() {
            Ok(Withdrawn::Unchanged) => {}
            Ok(Withdrawn::PutBack) => {
                self.out.say("The task file is restored; `ralph resume` continues with the draft.")
            }
            Err(error) => self.out.say(&format!("warning: the task file is a draft: {error}")),
        }
    }

    /// Fails if the recipe needs a repository that does not exist.
    pub(crate) fn repository_is_there(&self, recipe: &Recipe) -> Result<(), Complaint> {
        if self.repository.is_some() || !recipe.needs_git() {
            return Ok(());
        }
        let project = self.layout.project().display();
        Err(Complaint::new(
            ExitStatus::GitFailed,
            format!("`{project}` is not in a git repository, and the settings ask for commits or rollbacks"),
        )
        .hint("run `git init` first, or remove `scm`, `commit` and `onFailure` from the settings"))
    }

    /// Returns the repository, if there is one.
    pub(crate) fn repository(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    /// Fails if the run makes commits and a merge, rebase or the like is in progress.
    pub(crate) fn nothing_is_under_way(&self, recipe: &Recipe) -> Result<(), Complaint> {
        if recipe.takes_everything() { self.no_operation_is_under_way() } else { Ok(()) }
    }

    /// Fails if a merge, rebase or the like is in progress: the first commit would end it.
    pub(crate) fn no_operation_is_under_way(&self) -> Result<(), Complaint> {
        let Some(operation) = self.repository.as_ref().and_then(Repository::operation) else {
            return Ok(());
        };
        let hint = if operation == "bisect" {
            "end it with `git bisect reset`, then start again".to_owned()
        } else {
            format!(
                "finish it with `git {operation} --continue` or give it up with `git {operation} --abort`, then start again"
            )
        };
        let message = format!(
            "`git {operation}` is under way in this repository, and the first commit would end it"
        );
        Err(Complaint::new(ExitStatus::GitFailed, message).hint(hint))
    }

    /// Fails if git could not make the commits of the run because the identity or the signing key is
    /// missing. Checked before the first paid agent call.
    pub(crate) fn can_commit(&self, recipe: &Recipe) -> Result<(), Complaint> {
        match &self.repository {
            Some(repository) if recipe.takes_everything() => repository
                .check_identity()
                .map_err(|error| Complaint::new(ExitStatus::GitFailed, error.message)),
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if commits of the run would include uncommitted changes of the user.
    pub(crate) fn tree_is_clean(&self, recipe: &Recipe, dirty: DirtyPlan) -> Result<(), Complaint> {
        let repository = match (&self.repository, dirty) {
            (Some(repository), DirtyPlan::Refuse) if recipe.takes_everything() => repository,
            (Some(_) | None, _) => return Ok(()),
        };
        let paths = repository
            .dirty()
            .map_err(|error| Complaint::new(ExitStatus::GitFailed, error.message))?;
        if paths.is_empty() {
            return Ok(());
        }
        let mut shown: Vec<String> = paths
            .iter()
            .take(SHOWN_PATHS)
            .map(|dirty| format!("  {}", dirty.path.display()))
            .collect();
        if paths.len() > SHOWN_PATHS {
            shown.push(format!("  and {} more", paths.len() - SHOWN_PATHS));
        }
        let who = if recipe.commits() { "ralph" } else { "the agent" };
        Err(Complaint::input(format!(
            "there are uncommitted changes, and {who} is going to commit:\n{}",
            shown.join("\n")
        ))
        .hint("commit them, or pass --include-dirty to make them part of the first commit")
        .hint("or pass --set-aside to keep them out of the way and get them back at the end"))
    }

    /// Stashes uncommitted changes if the user asked for it.
    pub(crate) fn set_aside(&self, run: &RunId, dirty: DirtyPlan) -> Result<(), Complaint> {
        match (self.git(run, None), dirty) {
            (Some(mut git), DirtyPlan::SetAside) => git
                .set_aside(run)
                .map(drop)
                .map_err(|error| Complaint::new(ExitStatus::GitFailed, error.message)),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Takes over or archives the failure branch of a task that is tried again.
    pub(crate) fn unshelve(&self, run: &RunId, former: Option<&Shelved>) -> Result<(), Complaint> {
        let (Some(mut git), Some(Shelved { task, plan })) = (self.git(run, None), former) else {
            return Ok(());
        };
        let failed = |error: VcsError| Complaint::new(ExitStatus::GitFailed, error.message);
        let failure_branches = git.shelves(task).map_err(failed)?;
        let Some(newest) = failure_branches.first() else { return Ok(()) };
        let is_taken = match plan {
            ShelfPlan::Take => true,
            ShelfPlan::Archive => false,
            ShelfPlan::Ask => screen::ask(&format!(
                "Task {task} failed before; its work is on {}. Continue from there?",
                newest.branch
            )),
        };
        if is_taken {
            match git.take_from_shelf(newest).map_err(failed)? {
                Taken::Done => {}
                Taken::Conflict { paths } => {
                    return Err(Complaint::new(
                        ExitStatus::GitFailed,
                        format!(
                            "the work on {} conflicts with the current files: {}",
                            newest.branch,
                            paths.join(", ")
                        ),
                    )
                    .hint("--fresh begins the task without it"));
                }
            }
        }
        for branch in git.archive_shelves(task).map_err(failed)? {
            self.out.say(&format!("The former work is on {branch}."));
        }
        Ok(())
    }

    /// Restores the changes that were set aside, unless the run is only interrupted.
    pub(crate) fn put_back(&self, run: &RunId, outcome: &Result<Outcome, Complaint>) {
        match outcome {
            Ok(Outcome::Interrupted) | Err(_) => {}
            Ok(_) => self.put_back_now(run),
        }
    }

    fn put_back_now(&self, run: &RunId) {
        let Some(mut git) = self.git(run, None) else { return };
        match git.put_back(run) {
            Ok(PutBack::Nothing) => {}
            Ok(PutBack::Done) => self.out.say("The changes that were set aside are restored."),
            Ok(PutBack::Conflict { kept, paths }) => self.out.say(&format!(
                "warning: the changes that were set aside conflict with the work of the run ({}); they are kept on {kept}",
                paths.join(", ")
            )),
            Err(error) => self.out.say(&format!(
                "warning: cannot restore the changes that were set aside: {}",
                error.message
            )),
        }
    }

    /// Restores what was set aside for runs of this work tree that were killed before they began or
    /// after they had ended. Returns remarks about the runs that can be resumed.
    pub(crate) fn bring_back(&self) -> Result<Vec<String>, Complaint> {
        let Some(repository) = self.repository.as_ref().filter(|it| it.operation().is_none())
        else {
            return Ok(Vec::new());
        };
        let runs = repository
            .set_aside_for()
            .map_err(|error| Complaint::new(ExitStatus::GitFailed, error.message))?;
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut remarks_found = Vec::new();
        for known in runs::runs(self.layout.state()).iter().filter(|it| runs.contains(&it.id)) {
            match (known.started, &known.outcome) {
                (Some(_), None | Some(Outcome::Interrupted)) => remarks_found.push(format!(
                    "changes were set aside for run {0}; they are restored when it ends: `ralph resume {0}`",
                    known.id
                )),
                (None, _) | (Some(_), Some(_)) => self.put_back_now(&known.id),
            }
        }
        Ok(remarks_found)
    }

    /// Moves away the lock files of a git process that was killed with the run, and reports them.
    /// Fails if the user moved the history since.
    pub(crate) fn free_repository(&self, state: &RunState) -> Result<Vec<String>, Complaint> {
        let Some(repository) = &self.repository else { return Ok(Vec::new()) };
        self.history_is_as_left(state)?;
        Ok(dead_run::free_locks(repository, &self.layout.run(&state.run)))
    }

    /// Fails if the user moved the history since, for a run that could not record where it ended.
    pub(crate) fn history_is_as_left(&self, state: &RunState) -> Result<(), Complaint> {
        let is_noted = state.left.as_ref().is_some_and(|left| left.repository.is_some());
        let (Some(repository), false) = (&self.repository, state.outcome.is_some() && is_noted)
        else {
            return Ok(());
        };
        match dead_run::moved_since(repository, &self.layout.run(&state.run), state)? {
            Some(Moved { left, now }) => Err(session::complaint(&EngineError::Moved { left, now })),
            None => Ok(()),
        }
    }

    /// Returns the repository for a run, with git started inside the sandbox if there is one.
    pub(crate) fn git(&self, run: &RunId, sandboxed: Option<(Launcher, Variables)>) -> Option<Git> {
        let mut repository = self.repository.clone()?;
        if let Some((launcher, env)) = sandboxed {
            repository = repository.launched_by(launcher, env);
        }
        Some(Git::new(repository, self.layout.run(run).path()))
    }

    /// Returns warnings to show before the run.
    pub(crate) fn warnings(&self, loaded: &Loaded, recipe: &Recipe) -> Vec<String> {
        let mut warnings = loaded.warnings.clone();
        warnings.extend(recipe::without_effect(loaded, recipe));
        if self.repository.is_none() {
            warnings
                .push("this is no git repository: nothing can be compared or undone".to_owned());
        }
        let is_detached = self.repository.as_ref().map_or(Ok(false), Repository::is_detached);
        if recipe.commits() && is_detached == Ok(true) {
            warnings.push(
                "HEAD is detached: the commits of this run go onto no branch; `git switch -c NAME` makes one of them"
                    .to_owned(),
            );
        }
        let agent = &recipe.agent;
        warnings.extend(agents::billing_warning(agent.kind, &self.env, &agent.env));
        warnings.extend(recipe.asked().into_iter().flat_map(agents::version_warnings));
        warnings
    }

    /// Returns the views of a run: the terminal and the logs in the project.
    pub(crate) fn views(
        &self,
        run: &RunId,
        incomplete: Incomplete,
        masker: &Masker,
    ) -> Fanout<'static> {
        let options = |style: Style, verbosity, agent_stream| ViewOptions {
            style,
            verbosity,
            agent_stream,
            clock: WallClock::system(clock::now),
        };
        let style = self.screen.style.clone();
        let options_here = options(style, self.screen.verbosity, self.agent_stream);
        let mut terminal =
            TerminalView::new(MaskWriter::new(masker, self.out.clone()), options_here.clone());
        for remark in &self.remarks {
            terminal.remark(remark);
        }
        let mut views = vec![self.on_terminal(run, masker, options_here, terminal)];
        // A missing log is no reason to stop; the journal has everything.
        if let Ok(log) = files::open_log(&self.layout) {
            let style = self.screen.style.for_log();
            let verbosity = match self.log_level {
                LogLevel::Debug => Verbosity::Verbose,
                LogLevel::Info => Verbosity::Normal,
                LogLevel::Warn | LogLevel::Error => Verbosity::Quiet,
            };
            let options = options(style, verbosity, AgentStream::Hidden);
            let log = MaskWriter::new(masker, log);
            views.push(Box::new(TerminalView::new(log, options)));
        }
        if let Ok(log) = files::open_session_log(&self.layout, clock::now()) {
            let log = SessionLog::new(MaskWriter::new(masker, log), WallClock::system(clock::now));
            views.push(Box::new(match incomplete {
                Incomplete::Fails => log,
                Incomplete::IsFine => log.allowing_incomplete(),
            }));
        }
        Fanout::new(views)
    }

    /// Returns a non-blocking writer to the terminal.
    pub(crate) fn terminal(&self) -> NonBlocking {
        self.out.clone()
    }

    /// Returns the terminal view: plain lines, or the full screen with the plain view as fallback.
    fn on_terminal(
        &self,
        run: &RunId,
        masker: &Masker,
        options: ViewOptions,
        plain: TerminalView<MaskWriter<NonBlocking>>,
    ) -> Box<dyn Ui> {
        if !self.wants_tui {
            return Box::new(plain);
        }
        let device = match full_screen::device(screen::stderr()) {
            Ok(device) => device,
            Err(why) => {
                self.out
                    .say(&format!("warning: no full screen: {why}; continuing with plain lines"));
                return Box::new(plain);
            }
        };
        let files = self.layout.run(run);
        let send = full_screen::sender(files.path());
        let plan_masker = masker.clone();
        let read_plan = Box::new(move || recording::plan_of(&files, &plan_masker));
        let screen = self.full_screen.clone();
        let setup = Setup { device, send, read_plan, screen, options };
        Box::new(FullScreen::start(setup, |screen| MaskWriter::new(masker, screen), plain))
    }

    /// Waits until the last line is written, but not long for a terminal that does not read.
    pub(crate) fn finish(&self) {
        self.out.finish(LAST_WORDS);
    }
}

/// Reports a received signal.
fn announce(out: &NonBlocking, screen: &ScreenLink, stage: Stage) {
    match stage {
        Stage::Running => {}
        Stage::Finish => {
            screen.stops_after_this_step();
            out.say(SHUTTING_DOWN);
        }
        Stage::End => {
            screen.stops_now();
            out.say("Received a second signal, ending what is running...");
        }
        Stage::Leave => {
            full_screen::give_back();
            screen.is_left();
            out.say("Received a third signal, leaving at once.");
            out.finish(LAST_WORDS);
        }
    }
}
