//! Repositories that workers cannot have clones of, with the reason and what to do about it.
//!
//! Not here: what else a parallel run needs.

use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;
use ralph_model::recipe::ClonePolicy;
use ralph_model::version::Version;

use super::super::config::is_true;
use super::super::diff::split_at_zeros;
use super::super::repository::GitRepository;
use crate::bounded_read;

/// The first version with `git merge-tree --write-tree`.
const OLDEST_GIT: Version = Version::new(2, 38, 0);

/// The filter of Git LFS, which keeps objects of its own in the git directory.
const LFS: &str = "lfs";

/// Where git looks for attributes of the user.
const USERS_ATTRIBUTES: &str = "~/.config/git/attributes";

/// Larger files are no attributes.
const LARGEST_ATTRIBUTES: u64 = 1 << 20;

/// Why there can be no clones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct CloneObstacle {
    pub reason: String,
    /// What removes it, if anything does.
    pub hint: Option<String>,
}

/// Checks that workers can have clones of a repository.
pub fn check_can_clone(
    repository: &GitRepository,
    policy: &ClonePolicy,
) -> Result<(), CloneObstacle> {
    match find_obstacle(repository, policy) {
        Ok(None) => Ok(()),
        Ok(Some((reason, hint))) => Err(CloneObstacle { reason, hint: hint.map(str::to_owned) }),
        Err(error) => Err(CloneObstacle { reason: error.message, hint: None }),
    }
}

fn find_obstacle(
    repository: &GitRepository,
    policy: &ClonePolicy,
) -> Result<Option<(String, Option<&'static str>)>, VcsError> {
    let printed = repository.commands.run_for_line(repository.build_plumbing(&["version"]))?;
    if let Some(version) = Version::find_in(&printed).filter(|it| *it < OLDEST_GIT) {
        let reason = format!("git {version} is older than {OLDEST_GIT}");
        return Ok(Some((reason, Some("install a newer git"))));
    }
    let head = repository.head()?;
    if head.commit.is_none() {
        return Ok(Some(("there is no commit yet".to_owned(), Some("commit something first"))));
    }
    if head.branch.is_none() {
        let reason = "HEAD is detached".to_owned();
        return Ok(Some((reason, Some("check out a branch, such as with `git switch -c work`"))));
    }
    if repository.common_dir().join("shallow").exists() {
        let reason = "the repository is a shallow clone".to_owned();
        return Ok(Some((reason, Some("run `git fetch --unshallow`"))));
    }
    let values = &repository.config.values;
    let is_promisor =
        |(name, value): &(String, String)| name.ends_with(".promisor") && is_true(value);
    if repository.config.find("extensions.partialclone").is_some() || values.iter().any(is_promisor)
    {
        return Ok(Some(("the repository is a partial clone".to_owned(), None)));
    }
    if repository.is_sparse() {
        let reason = "the work tree is a sparse checkout".to_owned();
        return Ok(Some((reason, Some("run `git sparse-checkout disable`"))));
    }
    if policy.setup.is_none() && repository.top.join(".gitmodules").exists() {
        let reason = "there are submodules, and no command sets them up".to_owned();
        let hint = "set `parallel.setup`: to `true`, which leaves them empty, or with --no-sandbox to \
                    `git submodule update --init`";
        return Ok(Some((reason, Some(hint))));
    }
    Ok(find_used_filter(repository)?.map(|(file, filter)| match filter.as_str() {
        LFS => (format!("`{file}` uses Git LFS"), None),
        _ => (format!("`{file}` uses the filter `{filter}` of git's configuration"), None),
    }))
}

/// Returns a file with attributes for Git LFS or another filter that git has a program for, and the
/// name of the filter.
fn find_used_filter(repository: &GitRepository) -> Result<Option<(String, String)>, VcsError> {
    let args = ["ls-files", "-z", "--", ".gitattributes", "**/.gitattributes"];
    let call = repository.build_plumbing(&args).with_env("GIT_GLOB_PATHSPECS", "1");
    let listed = repository.commands.run_for_output(call)?;
    let listed = split_at_zeros(&listed).map(|it| String::from_utf8_lossy(it).into_owned());
    let mut files = listed.map(|name| (repository.top.join(&name), name)).collect::<Vec<_>>();
    let own = "info/attributes".to_owned();
    files.push((repository.common_dir().join(&own), own));
    let users = repository.config.find("core.attributesfile").unwrap_or(USERS_ATTRIBUTES);
    files.push((resolve_home(repository, users), users.to_owned()));
    let is_filter = |name: &str| {
        let has_program = |(key, _): &(String, String)| {
            let key = key.strip_prefix("filter.").and_then(|it| it.strip_prefix(name));
            key.is_some_and(|it| [".clean", ".smudge", ".process"].contains(&it))
        };
        name == LFS || repository.config.values.iter().any(has_program)
    };
    let find_filter = |path: &Path| {
        let text = bounded_read::read_beginning(path, LARGEST_ATTRIBUTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let mut names =
            lines.flat_map(str::split_whitespace).filter_map(|word| word.strip_prefix("filter="));
        names.find(|name| is_filter(name)).map(str::to_owned)
    };
    Ok(files.into_iter().find_map(|(path, name)| Some((name, find_filter(&path)?))))
}

/// Returns the path of a file that git's configuration names.
fn resolve_home(repository: &GitRepository, file: &str) -> PathBuf {
    let env = repository.commands.users_env();
    let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
    match (file.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => repository.top.join(file),
    }
}
