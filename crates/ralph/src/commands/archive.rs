//! `ralph archive`: archives a task list and its documents, and writes fresh ones.
//!
//! The archive is complete before anything is replaced, so that a crash loses nothing. Not here:
//! the text of the summary.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::CommitResult;
use ralph_io::atomic_file;
use ralph_io::formats::TaskFile;
use ralph_io::git::{GitRepository, GitVcs};
use ralph_io::store::proposals;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::PROGRESS;
use ralph_model::task::{REQUIREMENTS_FILE, TaskList};
use ralph_model::worktree::CommitId;
use ralph_ui::report::archive::{self, ArchivedList};

use crate::cli::{ArchiveArgs, CommonArgs};
use crate::cli_error::CliError;
use crate::documents::{self, Documents, INIT, UNNAMED};
use crate::project::Project;
use crate::run_context::{RunContext, check_no_git_operation};
use crate::settings::types::sections::CommitSetting;
use crate::settings::{LoadedSettings, Settings};
use crate::templates::{self, Feature};
use crate::{scaffold, screen, task_file};

/// The directory of all archives.
const ARCHIVES: &str = "ralph-archive";

/// Name prefix of unfinished archives.
const UNFINISHED_PREFIX: &str = ".making-";

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &ArchiveArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let documents = Documents::for_project(&project, &loaded.settings)?;
    let label = args.label.as_deref().map(|it| Feature::parse(it, "--label")).transpose()?;
    // The lock keeps a run from working on the archived files.
    let context = RunContext::open(common, &project, &loaded)?;
    check_no_git_operation(context.repository())?;
    let stock = ArchiveSource::read(&project, &documents)?;
    let archives = project.directory.join(ARCHIVES);
    scaffold::create_directory(&archives)?;
    remove_unfinished(&archives);
    let about = match &label {
        Some(label) => label.slug.clone(),
        None => stock.archive_name(context.repository(), &project),
    };
    let day = documents::format_today();
    let name = find_unused_name(&archives, &format!("{day}-{about}"));
    let last = find_last_change(context.repository(), &documents, &stock);
    let summary = archive::render_archive(&ArchivedList {
        name: &name,
        on: &day,
        begun: stock.start_date().as_deref(),
        last: last.as_deref(),
        list: stock.list(),
    });
    write_archive(&archives, &name, &stock, &summary)?;
    stock.write_fresh_documents(&documents, &day)?;
    // The proposals are about archived tasks.
    let tasks = documents.resolve_path(&documents.tasks);
    if let Err(error) = proposals::drop_proposals(context.layout.state(), &tasks) {
        screen::print_warning(&error.to_string());
    }
    let kept = commit_archive(&context, &loaded, &documents, &stock, &name)?;
    if !common.quiet {
        screen::print_data(&format_report(&stock, &name, &kept));
    }
    Ok(ExitStatus::Complete)
}

/// The documents to archive.
struct ArchiveSource {
    files: Vec<(String, Vec<u8>)>,
    tasks: Option<TaskFile>,
    mistakes: Option<CliError>,
}

impl ArchiveSource {
    /// Reads the documents. Fails if they are missing or still the bare templates.
    fn read(project: &Project, documents: &Documents) -> Result<Self, CliError> {
        let names = [
            documents.find_sibling_path(REQUIREMENTS_FILE),
            documents.tasks.clone(),
            documents.find_sibling_path(PROGRESS),
        ];
        let there: Vec<String> = names
            .into_iter()
            .filter(|name| documents.resolve_path(name).symlink_metadata().is_ok())
            .collect();
        if there.iter().all(|name| documents::is_fresh(&documents.resolve_path(name))) {
            let complaint = CliError::for_input("there is nothing to archive");
            return Err(complaint.with_hint(if there.is_empty() {
                INIT
            } else {
                "the documents are still the bare templates"
            }));
        }
        let mut files = Vec::new();
        for name in there {
            let place = documents.resolve_path(&name);
            let refused =
                |what: String| CliError::for_input(format!("cannot read `{name}`: {what}"));
            // Reading a pipe would never end.
            if !place.metadata().is_ok_and(|it| it.is_file()) {
                return Err(refused("it is not a regular file".to_owned()));
            }
            let content = fs::read(&place).map_err(|error| refused(error.to_string()))?;
            files.push((name, content));
        }
        let is_listed = files.iter().any(|(name, _)| *name == documents.tasks);
        let read = is_listed.then(|| TaskFile::read(&documents.resolve_path(&documents.tasks)));
        let (tasks, mistakes) = match read {
            None => (None, None),
            Some(Ok(tasks)) => (Some(tasks), None),
            Some(Err(problems)) => (None, Some(task_file::to_problems_error(project, &problems))),
        };
        Ok(Self { files, tasks, mistakes })
    }

    fn list(&self) -> Option<&TaskList> {
        self.tasks.as_ref().map(TaskFile::list)
    }

    /// Returns the name of the archive: the branch of the list, the checked-out branch, or the
    /// project.
    fn archive_name(&self, repository: Option<&GitRepository>, project: &Project) -> String {
        let of_list = self.list().and_then(|list| list.branch.clone());
        let checked_out = || repository.and_then(|repository| repository.branch().ok().flatten());
        let directory = project.directory.file_name().unwrap_or_default().to_string_lossy();
        let named = [of_list, checked_out(), Some(directory.into_owned())];
        let slugs = named
            .iter()
            .flatten()
            .map(|name| templates::slugify(name.strip_prefix("ralph/").unwrap_or(name)));
        slugs.into_iter().find(|slug| !slug.is_empty()).unwrap_or_else(|| "list".to_owned())
    }

    /// Returns the day the work began, from the progress notes.
    fn start_date(&self) -> Option<String> {
        let (_, notes) = self.files.iter().find(|(name, _)| name.ends_with(PROGRESS))?;
        let notes = String::from_utf8_lossy(notes);
        let line = notes.lines().find_map(|line| line.strip_prefix("Started:"))?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Replaces the documents by fresh ones. Fails if one was changed since it was read.
    fn write_fresh_documents(&self, documents: &Documents, day: &str) -> Result<(), CliError> {
        let commands = self.list().map(|list| list.verify_commands.clone()).unwrap_or_default();
        for (name, content) in &self.files {
            let place = documents.resolve_path(name);
            let refused = |what: String| {
                CliError::for_input(format!("cannot write `{name}`: {what}"))
                    .with_hint(format!("the old documents are in {ARCHIVES}; nothing is lost"))
            };
            if !fs::read(&place).is_ok_and(|now| now == *content) {
                return Err(refused("it was changed in the meantime".to_owned()));
            }
            let text = if *name == documents.tasks {
                templates::render_tasks("", None, &commands)
            } else if name.ends_with(REQUIREMENTS_FILE) {
                templates::render_prd(UNNAMED)
            } else {
                templates::render_progress(UNNAMED, day)
            };
            let mode = fs::metadata(&place).map(|it| it.permissions());
            let mode = mode.unwrap_or_else(|_| Permissions::from_mode(0o644));
            atomic_file::replace_with(&place, text.as_bytes(), mode)
                .map_err(|error| refused(error.to_string()))?;
        }
        Ok(())
    }
}

/// Removes unfinished archives of killed commands. Their sources were not touched.
fn remove_unfinished(archives: &Path) {
    let entries = fs::read_dir(archives).into_iter().flatten().flatten();
    for entry in
        entries.filter(|it| it.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX))
    {
        // A leftover does no harm.
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Returns the first unused name: `a`, then `a-2`.
fn find_unused_name(archives: &Path, name: &str) -> String {
    let numbered = (2..).map(|number: u64| format!("{name}-{number}"));
    let mut free = std::iter::once(name.to_owned())
        .chain(numbered)
        .filter(|name| archives.join(name).symlink_metadata().is_err());
    free.next().unwrap_or_else(|| name.to_owned())
}

/// Writes the archive. It gets its name only once it is complete.
fn write_archive(
    archives: &Path,
    name: &str,
    stock: &ArchiveSource,
    summary: &str,
) -> Result<(), CliError> {
    let made = || -> io::Result<()> {
        let making = tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(archives)?;
        let files = stock.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()));
        for (path, content) in files.chain([("summary.md", summary.as_bytes())]) {
            let file = Path::new(path).file_name().unwrap_or_default();
            let mode = Permissions::from_mode(0o644);
            atomic_file::replace_with(&making.path().join(file), content, mode)?;
        }
        fs::set_permissions(making.path(), Permissions::from_mode(0o755))?;
        fs::rename(making.path(), archives.join(name))?;
        // It was renamed, so the temporary directory must not be removed.
        let _ = making.keep();
        atomic_file::sync_directory(archives)
    };
    made().map_err(|error| {
        CliError::for_input(format!("cannot write `{ARCHIVES}/{name}`: {error}"))
            .with_hint("the documents are as they were")
    })
}

fn find_last_change(
    repository: Option<&GitRepository>,
    documents: &Documents,
    stock: &ArchiveSource,
) -> Option<String> {
    let newest = |name: &String| {
        repository?.find_last_change_date(&documents.resolve_path(name)).ok().flatten()
    };
    stock.files.iter().filter_map(|(name, _)| newest(name)).max()
}

/// Whether the archive was committed.
enum ArchiveCommit {
    Committed(String),
    NotCommitted(&'static str),
}

/// Commits the archive and the fresh documents, and nothing else.
fn commit_archive(
    context: &RunContext,
    loaded: &LoadedSettings,
    documents: &Documents,
    stock: &ArchiveSource,
    name: &str,
) -> Result<ArchiveCommit, CliError> {
    let settings: &Settings = &loaded.settings;
    let Some(repository) = context.repository() else {
        return Ok(ArchiveCommit::NotCommitted("this is not a git repository"));
    };
    if settings.commit == Some(CommitSetting::None) {
        return Ok(ArchiveCommit::NotCommitted("the settings turn commits off"));
    }
    let archive = format!("{ARCHIVES}/{name}");
    let failed = |what: String| {
        CliError::new(ExitStatus::GitFailed, format!("the archive was not committed: {what}"))
            .with_hint(format!("it is complete in {archive}; commit it yourself"))
    };
    let scratch = tempfile::tempdir_in(context.layout.state())
        .map_err(|error| failed(format!("cannot write to the state directory: {error}")))?;
    let mut paths: Vec<PathBuf> = vec![documents.resolve_path(&archive)];
    paths.extend(stock.files.iter().map(|(name, _)| documents.resolve_path(name)));
    let progress = stock.list().map(TaskList::progress);
    let far =
        progress.map(|it| format!(" — {} of {} tasks done{}", it.done, it.total, it.shortfall()));
    let message = format!("{}: archive {name}{}", settings.commit_prefix, far.unwrap_or_default());
    let mut git = GitVcs::new(repository.clone(), scratch.path());
    match git.commit_only(&paths, &message) {
        Ok(CommitResult::Made(CommitId(commit))) => Ok(ArchiveCommit::Committed(commit)),
        Ok(CommitResult::Nothing) => Ok(ArchiveCommit::NotCommitted("git ignores it")),
        Ok(CommitResult::Refused { output } | CommitResult::MessageRefused { output }) => {
            Err(failed(format!("a hook refused it\n{output}")))
        }
        Ok(CommitResult::Interrupted) => Err(failed("a hook was interrupted".to_owned())),
        Ok(CommitResult::Moved { now, .. }) => Err(failed(format!("{now} is checked out"))),
        Err(error) => Err(failed(error.message)),
    }
}

fn format_report(stock: &ArchiveSource, name: &str, kept: &ArchiveCommit) -> String {
    let mut text = String::new();
    if let Some(mistakes) = &stock.mistakes {
        let mistakes = mistakes.message.lines().collect::<Vec<_>>().join("\n  ");
        text.push_str(&format!("The list is archived as it is: {mistakes}\n"));
    }
    let far = stock.list().map(TaskList::progress);
    let far = far.map(|it| format!(", {} of {} tasks done{}", it.done, it.total, it.shortfall()));
    text.push_str(&format!("Archived in {ARCHIVES}/{name}{}.\n", far.unwrap_or_default()));
    text.push_str(&match kept {
        ArchiveCommit::Committed(commit) => {
            format!("Committed as {}.\n", &commit[..commit.len().min(7)])
        }
        ArchiveCommit::NotCommitted(why) => format!("Not committed: {why}.\n"),
    });
    text.push_str("\nFresh documents are in place. Name the next feature with\n  ralph init --workflow tasks --name FEATURE\nIt keeps `verifyCommands` and prompt.md.\n");
    text
}
