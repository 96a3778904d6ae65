//! `ralph __workers --git`: the worker host that passes jobs to other machines over the git remote.

use ralph_io::git::{GitRepository, RemoteRefs, RepositoryDiscovery};
use ralph_io::process::{ProcessLimits, Spawn, StdinSource, Watch};
use ralph_io::workers::{GitWorkerHost, StartKind, serve_jobs_over_git};
use ralph_model::outcome::ExitStatus;

use crate::cli::{CommonArgs, GitHostArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::secrets;

/// How long one command of git on a remote may take.
const REMOTE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// The remote that is used if there are several.
const USUAL_REMOTE: &str = "origin";

/// Runs the worker host.
pub(crate) fn main(common: &CommonArgs, args: &GitHostArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let repository = open_repository(&project)?;
    let layout = project.find_layout_in(&loaded, Some(&repository))?;
    let env = project.env.clone();
    let prefix = args.ref_prefix.trim_end_matches('/').to_owned();
    let host = GitWorkerHost {
        shell: Spawn {
            program: "sh".into(),
            args: vec!["-c".into()],
            cwd: project.directory.clone(),
            env: project.env.clone(),
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        },
        refs: RemoteRefs {
            remote: choose_remote(&repository, args.remote.as_deref())?,
            repository,
            prefix,
        },
        start: args.start.clone().unwrap_or_default(),
        cancel: args.cancel.clone(),
        start_kind: if args.attached { StartKind::Attached } else { StartKind::Submits },
        poll: args.poll.into(),
        lost_after: args.lost_after.into(),
        patience: args.patience.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        root: project.find_state_root(&loaded)?,
        runs: layout.runs_path(),
        build_masker: Box::new(move |recipe| secrets::build_masker(&env, recipe)),
    };
    serve_jobs_over_git(&host).map_err(|error| {
        CliError::new(ExitStatus::Incomplete, format!("the worker host failed: {error}"))
    })?;
    Ok(ExitStatus::Complete)
}

/// Opens the repository of a project for commands on a remote.
pub(super) fn open_repository(project: &Project) -> Result<GitRepository, CliError> {
    let (directory, env) = (&project.directory, project.env.clone());
    let found =
        GitRepository::discover_within(directory, env, Watch::new_detached(), REMOTE_TIMEOUT);
    match found.map_err(CliError::from_git_error)? {
        RepositoryDiscovery::Repository(repository) => Ok(*repository),
        RepositoryDiscovery::NotFound => {
            let shown = directory.display();
            Err(CliError::for_input(format!("there is no git repository in `{shown}`")))
        }
        RepositoryDiscovery::NoGit => Err(CliError::for_input("git is not installed")),
    }
}

/// Returns the remote to use.
pub(super) fn choose_remote(
    repository: &GitRepository,
    named: Option<&str>,
) -> Result<String, CliError> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let remotes = RemoteRefs::list_remotes(repository).map_err(CliError::from_git_error)?;
    match remotes.as_slice() {
        [] => Err(CliError::for_input("jobs go over a git remote, and this repository has none")
            .with_hint("`git remote add origin ADDRESS` adds one that all machines can reach")),
        [only] => Ok(only.clone()),
        several if several.iter().any(|it| it == USUAL_REMOTE) => Ok(USUAL_REMOTE.to_owned()),
        several => Err(CliError::for_input(format!(
            "this repository has several remotes: {}",
            several.join(", ")
        ))
        .with_hint("--remote NAME says which one is meant")),
    }
}
