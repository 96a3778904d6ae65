//! What a run works with (terminal, signals, lock, repository), held for as long as the run lasts.
//!
//! Not here: the run itself.

mod views;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_io::clock;
use ralph_io::control::StopWatcher;
use ralph_io::environment::Variables;
use ralph_io::git::{GitRepository, GitVcs, RestoredChanges, TakenWork};
use ralph_io::process::Watch;
use ralph_io::sandbox::Launcher;
use ralph_io::store::draft::RunDraft;
use ralph_io::store::layout::PROJECT_DIRECTORY;
use ralph_io::store::runs;
use ralph_io::store::{LockError, ProjectLayout, RunDir, RunLock};
use ralph_model::ids::{RunId, TaskId};
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::{CommitOwner, Recipe};
use ralph_model::units::Millis;
use ralph_model::worktree::{Checkpoint, UNCOMMITTED_FILES};
use ralph_ui::tui::{ScreenLink, SideWriter};
use ralph_ui::writer::NonBlocking;

use crate::cli::CommonArgs;
use crate::cli_error::CliError;
use crate::documents::{DIRECTORY, DOCUMENTS};
use crate::full_screen::{FINAL_FLUSH_TIMEOUT, announce_signal};
use crate::project::Project;
use crate::recipe::SPECS_DIR;
use crate::screen::{self, OutputStyle};
use crate::settings::types::sections::LogLevelSetting;
use crate::settings::{self, LoadedSettings};
use crate::start_warnings::{SHOWN_PATHS, StartPlace};
use crate::{full_screen, unfinished_run};

/// How git is started on the work tree; directly if there is no sandbox.
pub(crate) type GitSandbox = Option<(Launcher, Variables)>;

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

/// Returns the error for work on a failure branch that would replace files which git ignores.
fn build_blocked_error(branch: &str, paths: &[String]) -> CliError {
    let paths = paths.join(", ");
    let message = format!("files are in the way of the work on {branch}: {paths}");
    CliError::new(ExitStatus::GitFailed, message)
        .with_hint("move these files, then start again; --fresh begins the task without that work")
}

/// A task that failed before, whose work is on a failure branch.
#[derive(Debug, Clone)]
pub(crate) struct FormerAttempt {
    pub(crate) task: TaskId,
    pub(crate) plan: FailureBranchPlan,
}

/// Where the work of a task that failed before is when the run begins.
#[derive(Debug)]
pub(crate) enum FormerWork {
    /// In the work tree.
    InTree {
        /// The state before it.
        onto: Checkpoint,
        /// Paths with markers of a conflict with later work.
        conflicts: Vec<String>,
    },
    /// On this branch.
    Archived(String),
}

/// What to do with the failure branch of a task that is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureBranchPlan {
    /// Continue from it.
    Take,
    /// Archive it and start the task from scratch.
    Archive,
    /// Ask the user; without a terminal, archive it.
    Ask,
}

/// The resources of a run.
pub(crate) struct RunContext {
    /// ralph's own signals.
    pub(crate) watch: Watch,
    pub(crate) layout: ProjectLayout,
    /// The environment ralph was started with.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) keeps_awake: bool,
    pub(crate) skills: PathBuf,
    /// Tokens of the model's context window, if the user sets it.
    pub(crate) context_window: Option<u64>,
    /// The directory of the project's own prompt templates.
    pub(crate) prompts: PathBuf,
    screen: OutputStyle,
    /// Whether the user asked for the full-screen view.
    wants_tui: bool,
    full_screen: ScreenLink,
    out: NonBlocking,
    repository: Option<GitRepository>,
    shows_agent: bool,
    /// Level of the log file in the project.
    log_level: LogLevelSetting,
    remarks: Vec<String>,
    _lock: RunLock,
}

impl RunContext {
    /// Takes the lock of the work tree and opens everything else that a run needs.
    pub(crate) fn open(
        common: &CommonArgs,
        project: &Project,
        loaded: &LoadedSettings,
    ) -> Result<Self, CliError> {
        let settings = &loaded.settings;
        let cannot = |what: &str, error: std::io::Error| {
            CliError::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
        };
        let full_screen = ScreenLink::default();
        let out = NonBlocking::start(SideWriter::new(full_screen.clone(), screen::open_stderr()))
            .map_err(|error| cannot("start a thread", error))?;
        let (writer, shown) = (out.clone(), full_screen.clone());
        let watch = Watch::install(move |stage| announce_signal(&writer, &shown, stage))
            .map_err(|error| cannot("watch for signals", error))?;
        let writer = out.clone();
        full_screen::leave_screen_while_stopped(&watch, &full_screen, move |paused_for| {
            let paused_for = Millis::from(paused_for);
            writer.write_line(&format!(
                "Resuming after a stop of {paused_for}; it does not count against any limit."
            ));
        });
        let repository = project.find_repository_for_work(&watch)?;
        let layout = project.find_layout_in(loaded, repository.as_ref())?;
        layout.prepare_state().map_err(|error| {
            CliError::from_input_error(error).with_hint(
                "make it writable, or name another place: `stateDir` in the settings, or XDG_STATE_HOME",
            )
        })?;
        let lock =
            RunLock::acquire(layout.state(), clock::now()).map_err(|error| match &error {
                LockError::Busy(_) => CliError::new(ExitStatus::Busy, error.to_string()),
                LockError::Refused { .. } => CliError::from_error(ExitStatus::BadInput, &error),
            })?;
        settings::record_local_settings(layout.project(), layout.state())
            .map_err(|error| cannot("write ralph's state", error))?;
        layout.prepare_project().map_err(CliError::from_input_error)?;
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
            screen: OutputStyle::for_stderr(common, &settings.ui),
            wants_tui: settings.ui.tui,
            full_screen,
            out,
            repository,
            shows_agent: settings.stream_agent_output,
            log_level: settings.log.level,
            remarks: loading.chain(merged).collect(),
            _lock: lock,
        })
    }

    /// Registers the files of a run that users write and that may be uncommitted.
    pub(crate) fn register_own_files(&mut self, recipe: &Recipe) {
        if let Some(repository) = &mut self.repository {
            register_own_files(repository, self.layout.project(), recipe);
        }
    }

    /// Saves the content of the task file before a run that writes a draft of it.
    pub(crate) fn begin_draft(&self, run: &RunId, recipe: &Recipe) -> Result<(), CliError> {
        let Some(draft) = self.find_draft(run, recipe) else { return Ok(()) };
        draft.save_original().map_err(|error| {
            CliError::for_input(format!("cannot save a copy of the task file: {error}"))
        })
    }

    /// Restores the draft of a resumed run.
    pub(crate) fn restore_draft(&self, run: &RunId, recipe: &Recipe) -> Result<(), CliError> {
        let Some(draft) = self.find_draft(run, recipe) else { return Ok(()) };
        draft.restore_draft().map_err(|error| {
            CliError::for_input(format!("cannot restore the draft of the task file: {error}"))
        })
    }

    /// Returns the draft that a run works on.
    pub(crate) fn find_draft(&self, run: &RunId, recipe: &Recipe) -> Option<RunDraft> {
        let file = recipe.draft.as_ref()?;
        Some(RunDraft::new(self.layout.project().join(file), self.layout.run_dir(run)))
    }

    /// Removes the draft of a run that ended before the draft was valid. `ralph resume` restores it.
    pub(crate) fn withdraw_draft(
        &self,
        draft: Option<&RunDraft>,
        outcome: &Result<Outcome, CliError>,
    ) {
        let draft = match (draft, outcome) {
            (None, _) | (Some(_), Ok(Outcome::Complete)) => return,
            (Some(draft), Ok(_) | Err(_)) => draft,
        };
        match draft.restore_original() {
            Ok(false) => {}
            Ok(true) => self
                .out
                .write_line("The task file is restored; `ralph resume` continues with the draft."),
            Err(error) => {
                self.out.write_line(&format!("warning: the task file is a draft: {error}"));
            }
        }
    }

    /// Returns the repository, if there is one.
    pub(crate) fn repository(&self) -> Option<&GitRepository> {
        self.repository.as_ref()
    }

    /// Returns the paths that are uncommitted before a run on a prompt whose agent has to commit
    /// everything, or which commits nothing.
    pub(crate) fn list_uncommitted(
        &self,
        recipe: &Recipe,
        dirty: DirtyPlan,
    ) -> Result<Vec<String>, CliError> {
        let repository = match (&self.repository, dirty) {
            (_, DirtyPlan::SetAside) | (None, _) => return Ok(Vec::new()),
            (Some(repository), _) => repository,
        };
        let is_compared =
            matches!(recipe.ownership().commits, CommitOwner::Agent | CommitOwner::NoOne);
        if !is_compared || recipe.task_work().is_some() {
            return Ok(Vec::new());
        }
        let paths = repository.list_all_dirty().map_err(CliError::from_git_error)?;
        let names = paths.iter().map(|dirty| repository.name_from_project(&dirty.path));
        Ok(names.take(UNCOMMITTED_FILES).collect())
    }

    /// Stashes uncommitted changes if the user asked for it.
    pub(crate) fn set_aside(
        &self,
        run: &RunId,
        dirty: DirtyPlan,
        sandboxed: GitSandbox,
    ) -> Result<(), CliError> {
        let (Some(mut git), DirtyPlan::SetAside) = (self.open_git(run, sandboxed.clone()), dirty)
        else {
            return Ok(());
        };
        match git.set_aside(run) {
            Ok(kept) => {
                if let Some(kept) = kept {
                    self.out.write_line(&format!(
                        "Your uncommitted changes are set aside until the run ends, on {kept}."
                    ));
                }
                Ok(())
            }
            Err(error) => {
                self.restore_set_aside_now(run, sandboxed);
                Err(CliError::from_git_error(error))
            }
        }
    }

    /// Takes over or archives the failure branch of a task that is tried again. Returns where
    /// its work is now, if there is any.
    pub(crate) fn handle_failure_branch(
        &self,
        run: &RunId,
        FormerAttempt { task, plan }: &FormerAttempt,
        sandboxed: GitSandbox,
    ) -> Result<Option<FormerWork>, CliError> {
        let Some(mut git) = self.open_git(run, sandboxed) else { return Ok(None) };
        let failure_branches = git.list_failure_branches(task).map_err(CliError::from_git_error)?;
        let Some(newest) = failure_branches.first() else { return Ok(None) };
        let is_taken = match plan {
            FailureBranchPlan::Take => true,
            FailureBranchPlan::Archive => false,
            FailureBranchPlan::Ask => screen::ask_yes_no(&format!(
                "Task {task} failed before; its work is on {}. Continue from there?",
                newest.branch
            )),
        };
        let mut restored = None;
        if is_taken {
            let onto = git.save_start(run).map_err(CliError::from_git_error)?;
            let conflicts = match git
                .merge_failure_branch(newest)
                .map_err(CliError::from_git_error)?
            {
                TakenWork::Done => Vec::new(),
                TakenWork::Marked { paths } => {
                    self.out.write_line(&format!(
                            "The earlier work conflicts with later work in {}; its agent resolves that.",
                            paths.join(", ")
                        ));
                    paths
                }
                TakenWork::Blocked { paths } => {
                    return Err(build_blocked_error(&newest.branch, &paths));
                }
            };
            restored = Some(FormerWork::InTree { onto, conflicts });
        }
        let archived = git.archive_failure_branches(task).map_err(CliError::from_git_error)?;
        for branch in &archived {
            self.out.write_line(&format!("The earlier work is on {branch}."));
        }
        Ok(restored.or_else(|| archived.into_iter().next().map(FormerWork::Archived)))
    }

    /// Restores the changes that were set aside, unless the run is only interrupted.
    pub(crate) fn restore_set_aside(
        &self,
        run: &RunId,
        outcome: &Result<Outcome, CliError>,
        sandboxed: GitSandbox,
    ) {
        match outcome {
            Ok(Outcome::Interrupted) | Err(_) => {
                let repository = self.repository.as_ref();
                let is_aside = |it: &GitRepository| {
                    it.runs_with_set_aside().is_ok_and(|runs| runs.contains(run))
                };
                if repository.is_some_and(is_aside) {
                    self.out.write_line(&format!(
                        "Your uncommitted changes are still set aside: `ralph resume {run}` restores them when the run ends. They are on refs/ralph/set-aside/{run}."
                    ));
                }
            }
            Ok(_) => self.restore_set_aside_now(run, sandboxed),
        }
    }

    fn restore_set_aside_now(&self, run: &RunId, sandboxed: GitSandbox) {
        let Some(mut git) = self.open_git(run, sandboxed) else { return };
        match git.restore_set_aside(run) {
            Ok(RestoredChanges::Nothing) => {}
            Ok(RestoredChanges::Done) => self.out.write_line("The changes that were set aside are restored."),
            Ok(RestoredChanges::Conflict { kept, paths }) => self.out.write_line(&format!(
                "warning: the changes that were set aside conflict with the work of the run ({}); they are kept on {kept}",
                paths.join(", ")
            )),
            Err(error) => self.out.write_line(&format!(
                "warning: cannot restore the changes that were set aside: {}",
                error.message
            )),
        }
    }

    /// Restores what was set aside for runs of this work tree that were killed before they began or
    /// after they had ended. Returns remarks about the runs that can be resumed.
    pub(crate) fn restore_orphaned_set_aside(&self) -> Result<Vec<String>, CliError> {
        let Some(repository) = self.repository.as_ref().filter(|it| it.operation().is_none())
        else {
            return Ok(Vec::new());
        };
        let runs = repository.runs_with_set_aside().map_err(CliError::from_git_error)?;
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut remarks_found = Vec::new();
        for known in runs::list_runs(self.layout.state()).iter().filter(|it| runs.contains(&it.id))
        {
            match (known.started, &known.outcome) {
                (Some(_), None | Some(Outcome::Interrupted)) => remarks_found.push(format!(
                    "changes were set aside for run {0}; they are restored when it ends: `ralph resume {0}`",
                    known.id
                )),
                (None, _) | (Some(_), Some(_)) => {
                    self.restore_set_aside_now(&known.id, None);
                }
            }
        }
        Ok(remarks_found)
    }

    /// Returns the repository for a run, with git started inside the sandbox if there is one.
    pub(crate) fn open_git(&self, run: &RunId, sandboxed: GitSandbox) -> Option<GitVcs> {
        let mut repository = self.repository.clone()?.with_run_id(&run.0);
        if let Some((launcher, env)) = sandboxed {
            repository = repository.with_launcher(launcher, env);
        }
        Some(GitVcs::new(repository, self.layout.run_dir(run).path()))
    }

    /// Returns the place that warnings before the run are about.
    pub(crate) fn start_place<'a>(&'a self, loaded: &'a LoadedSettings) -> StartPlace<'a> {
        let (project, repository) = (self.layout.project(), self.repository.as_ref());
        StartPlace { loaded, project, repository, env: &self.env }
    }

    /// Watches for a request to stop now while a run is active.
    pub(crate) fn watch_for_stop(&self, files: &RunDir) -> Option<StopWatcher> {
        let (out, shown) = (self.out.clone(), self.full_screen.clone());
        let on_stop = move || {
            shown.show_ending();
            out.write_line("Asked to stop now, ending what is running...");
        };
        // Without a thread the request is read after the current step.
        StopWatcher::start(files.path(), self.watch.clone(), on_stop).ok()
    }

    /// Returns a non-blocking writer to the terminal.
    pub(crate) fn terminal(&self) -> NonBlocking {
        self.out.clone()
    }

    /// Waits until the last line is written, but not long for a terminal that does not read.
    pub(crate) fn flush_terminal(&self) {
        self.out.wait_until_written(FINAL_FLUSH_TIMEOUT);
    }
}

/// Registers the files of a run that users write before the work and edit in between: task file and
/// documents, or specifications, plan and settings.
pub(crate) fn register_own_files(repository: &mut GitRepository, project: &Path, recipe: &Recipe) {
    let specs = recipe.plan.as_ref().and_then(|_| recipe.prompt.vars.get(SPECS_DIR));
    let about = [PROJECT_DIRECTORY, ".gitignore"].into_iter().chain(specs.map(String::as_str));
    repository.set_documents(&about.map(|path| project.join(path)).collect::<Vec<_>>());
    register_task_documents(repository, project, recipe);
}

/// Registers the task file that ralph writes, and the documents that may be uncommitted.
pub(crate) fn register_task_documents(
    repository: &mut GitRepository,
    project: &Path,
    recipe: &Recipe,
) {
    let file = recipe.task_work().map(|work| &work.file).or(recipe.draft.as_ref());
    let Some(file) = file.map(|file| project.join(file)) else { return };
    repository.set_own_file(&file);
    let companions = DOCUMENTS.iter().map(|name| file.with_file_name(name));
    let scaffold = [DIRECTORY, PROJECT_DIRECTORY, ".gitignore"].map(|path| project.join(path));
    repository.set_documents(&companions.chain(scaffold).collect::<Vec<_>>());
}

/// Fails if a merge, rebase or the like is in progress: the first commit would end it.
pub(crate) fn check_no_git_operation(repository: Option<&GitRepository>) -> Result<(), CliError> {
    let Some(operation) = repository.and_then(GitRepository::operation) else {
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
    Err(CliError::new(ExitStatus::GitFailed, message).with_hint(hint))
}

/// Fails if commits of the run would include uncommitted changes of the user. They may be the work
/// of an unfinished run in `others`.
pub(crate) fn check_tree_is_clean(
    repository: Option<&GitRepository>,
    others: Option<&Path>,
    recipe: &Recipe,
    dirty: DirtyPlan,
) -> Result<(), CliError> {
    let repository = match (repository, dirty) {
        (Some(repository), DirtyPlan::Refuse) if recipe.commits_everything() => repository,
        (Some(_) | None, _) => return Ok(()),
    };
    let paths = repository.list_dirty().map_err(CliError::from_git_error)?;
    if paths.is_empty() {
        return Ok(());
    }
    let mut shown: Vec<String> =
        paths.iter().take(SHOWN_PATHS).map(|dirty| format!("  {}", dirty.path.display())).collect();
    if paths.len() > SHOWN_PATHS {
        shown.push(format!("  and {} more", paths.len() - SHOWN_PATHS));
    }
    let who = if recipe.commits() { "ralph" } else { "the agent" };
    let error = CliError::for_input(format!(
        "there are uncommitted changes, and {who} is going to commit:\n{}",
        shown.join("\n")
    ));
    let error = match others.and_then(unfinished_run::find_resume_command) {
        Some(command) => {
            error.with_hint(format!("`{command}` continues the last run, if they are its work"))
        }
        None => error,
    };
    let output = paths.iter().find(|it| screen::is_output_file(&repository.top().join(&it.path)));
    let error = match output {
        Some(output) => error.with_hint(format!(
            "`{}` is the output of this command: redirect it to a file outside the project, such \
             as `~/ralph.out`",
            output.path.display()
        )),
        None => error,
    };
    let way = match recipe.parallel {
        Some(_) => "commit them",
        None => "commit them, or pass --include-dirty to make them part of the first commit",
    };
    Err(error
        .with_hint(way)
        .with_hint("or pass --set-aside to remove them for the run and restore them at the end"))
}
