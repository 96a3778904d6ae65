//! Submodules in the survey of the work tree.
//!
//! `git add --all` starts `git status` in every submodule, with the filters that its own
//! configuration names, and an agent can write that configuration or point the submodule's `.git`
//! at another one. So submodules are excluded there, and only the commit that is checked out in
//! them is taken over. Not here: repositories in the work tree that are no submodules.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand};
use super::diff::{join_with_zeros, split_at_zeros};
use super::repository::GitRepository;
use super::shadow::ShadowIndex;
use super::vcs::GitVcs;

/// The mode of a submodule, as `git ls-files` prints it.
const MODE: &[u8] = b"160000 ";

impl GitRepository {
    /// Returns the paths of submodules in an index.
    pub(super) fn list_gitlinks(&self, index: &Path) -> Result<Vec<Vec<u8>>, VcsError> {
        if let Some(index) = self.read_large_index(index) {
            return Ok(index.gitlinks().map(<[u8]>::to_vec).collect());
        }
        if !index.exists() {
            return Ok(Vec::new());
        }
        let call = self.build_plumbing(&["ls-files", "-z", "-s"]);
        let listed = self.commands.run_for_output(call.with_index(index))?;
        let links = split_at_zeros(&listed).filter(|entry| entry.starts_with(MODE));
        let paths = links.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
        Ok(paths.map(<[u8]>::to_vec).collect())
    }
}

impl GitVcs {
    /// Returns the submodules with files that differ from their own index, each once in a process.
    /// git runs there with the configuration of the project: an agent can write the submodule's.
    pub(super) fn list_changed_submodules(&mut self) -> Vec<String> {
        // Without it there are none, and a large index need not be read once more.
        if !self.repository.top.join(".gitmodules").exists() {
            return Vec::new();
        }
        let links = self.repository.list_gitlinks(self.shadow.index_path()).unwrap_or_default();
        let mut changed = Vec::new();
        for path in links {
            let directory = self.repository.top.join(OsStr::from_bytes(&path));
            let name = self.repository.name_bytes_from_project(&path);
            if self.reported_submodules.contains(&name) {
                continue;
            }
            let Some(index) = self.repository.find_submodule_index(&path) else { continue };
            let args = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
            let call = GitCommand::new_plumbing(&directory, &args)
                .with_env("GIT_DIR", &self.repository.git_dir)
                .with_env("GIT_WORK_TREE", &directory)
                .with_index(&index);
            let listed = self.repository.commands.run_for_output(call).unwrap_or_default();
            if !listed.is_empty() {
                changed.push(name);
            }
        }
        self.reported_submodules.extend(changed.iter().cloned());
        changed
    }
}

impl ShadowIndex {
    /// Takes over the commits that are checked out in submodules. A directory whose repository is
    /// not one of ours stays as it was.
    pub(super) fn update_gitlinks(
        &self,
        repository: &GitRepository,
        gitlinks: &[Vec<u8>],
    ) -> Result<(), VcsError> {
        let ours = gitlinks.iter().map(Vec::as_slice);
        let ours = join_with_zeros(ours.filter(|path| !repository.has_nested_repository(path)));
        if ours.is_empty() {
            return Ok(());
        }
        let args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
        let call = repository.build_plumbing(&args).with_index(self.index_path());
        repository.commands.run_for_output(call.with_stdin(ours)).map(drop)
    }
}

/// Returns the argument that excludes a path from `git add`.
pub(super) fn build_exclusion(path: &[u8]) -> OsString {
    OsString::from_vec([b":(top,exclude,literal)", path].concat())
}

/// Returns whether `git add` only complained that an excluded path is also ignored.
pub(super) fn is_about_ignored(ran: &FinishedCommand) -> bool {
    ran.code == 1 && ran.has_error_text("paths are ignored by one of your .gitignore files")
}
