//! Commits that carry files over a git remote, on refs of ralph: jobs go to other machines in
//! them, and results come back.
//!
//! Not here: what the files mean, and when to try again.

use std::collections::BTreeMap;

use ralph_core::ports::VcsError;
use ralph_model::worktree::CommitId;

use super::head::is_object_id;
use super::repository::GitRepository;

/// The namespace of refs on a remote, unless the server accepts only branches.
pub const REF_PREFIX: &str = "refs/ralph";

/// Larger files are no jobs and no results.
const LARGEST_FILE: usize = 64 << 20;

/// A git remote and the namespace for ralph's refs there.
#[derive(Debug, Clone)]
pub struct RemoteRefs {
    pub repository: GitRepository,
    /// A name or an address.
    pub remote: String,
    /// Without a slash at the end.
    pub prefix: String,
}

/// The remote did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// It answered, and refused: a hook, a full disk, no permission.
    #[error("the git remote refuses the push: {message}")]
    Refused { message: String },
    /// A ref that may only be created is there already.
    #[error("the git remote has that ref already: {message}")]
    Exists { message: String },
    /// What a ref has cannot be used.
    #[error("the job is refused: {message}")]
    BadJob { message: String },
    #[error("the git remote does not work: {message}")]
    Failed { message: String },
}

/// A change of a ref on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefUpdate {
    /// Fails if the ref is there.
    Create {
        name: String,
        commit: CommitId,
    },
    Move {
        name: String,
        commit: CommitId,
    },
    Delete {
        name: String,
    },
}

impl From<VcsError> for RemoteError {
    fn from(error: VcsError) -> Self {
        Self::Failed { message: error.message }
    }
}

impl RemoteRefs {
    /// Returns the full name of a ref.
    pub fn build_name(&self, kind: &str, rest: &str) -> String {
        format!("{}/{kind}/{rest}", self.prefix)
    }

    /// Returns the address of the remote.
    pub fn find_address(&self) -> Result<String, VcsError> {
        let call = self.repository.build_plumbing(&["ls-remote", "--get-url", &self.remote]);
        self.repository.commands.run_for_line(call)
    }

    /// Returns the names of the remotes of the repository.
    pub fn list_remotes(repository: &GitRepository) -> Result<Vec<String>, VcsError> {
        let output = repository.commands.run_for_output(repository.build_plumbing(&["remote"]))?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    /// Writes a commit with these files.
    pub fn commit_files(
        &self,
        files: &[(&str, &[u8])],
        parents: &[CommitId],
        message: &str,
    ) -> Result<CommitId, VcsError> {
        let repository = &self.repository;
        let mut listed = String::new();
        for (name, bytes) in files {
            let call = repository.build_plumbing(&["hash-object", "-w", "--stdin"]);
            let blob = repository.commands.run_for_line(call.with_stdin(bytes.to_vec()))?;
            listed.push_str(&format!("100644 blob {blob}\t{name}\n"));
        }
        let call = repository.build_plumbing(&["mktree"]).with_stdin(listed.into_bytes());
        let tree = repository.commands.run_for_line(call)?;
        let parents: Vec<String> = parents.iter().map(|it| it.0.clone()).collect();
        repository.commit_tree(&tree, &parents, message).map(CommitId)
    }

    /// Writes a commit with the files of a tree.
    pub fn commit_tree(&self, tree: &str, parent: &CommitId) -> Result<CommitId, VcsError> {
        let parents = [parent.0.clone()];
        self.repository.commit_tree(tree, &parents, "ralph: the merged tree").map(CommitId)
    }

    /// Reads a file of a commit that is in the repository; none if the commit has no such file.
    pub fn read_file(&self, commit: &CommitId, name: &str) -> Result<Option<Vec<u8>>, VcsError> {
        let repository = &self.repository;
        let Some(blob) = repository.resolve_name(&format!("{}:{name}", commit.0))? else {
            return Ok(None);
        };
        let call = repository.build_plumbing(&["cat-file", "blob", &blob]);
        repository.commands.run_for_output(call.with_output_limit(LARGEST_FILE)).map(Some)
    }

    /// Returns the parents of a commit that is in the repository.
    pub fn list_parents(&self, commit: &CommitId) -> Result<Vec<CommitId>, VcsError> {
        let call = self.repository.build_plumbing(&["rev-parse", &format!("{}^@", commit.0)]);
        let output = self.repository.commands.run_for_output(call)?;
        let lines = String::from_utf8_lossy(&output).into_owned();
        Ok(lines.lines().map(|line| CommitId(line.to_owned())).collect())
    }

    /// Returns the commit of a ref of the repository itself.
    pub fn find_local(&self, name: &str) -> Result<Option<CommitId>, VcsError> {
        Ok(self.repository.resolve_name(name)?.map(CommitId))
    }

    /// Sets a ref of the repository itself.
    pub fn set_local(&self, name: &str, commit: &CommitId) -> Result<(), VcsError> {
        self.repository.set_ref(name, &commit.0)
    }

    /// Lists refs on the remote. Patterns are full names, or end with `/*`.
    pub fn list_refs(
        &self,
        patterns: &[String],
    ) -> Result<BTreeMap<String, CommitId>, RemoteError> {
        let call = self.repository.build_plumbing(&["ls-remote", "--quiet", "--refs", "--"]);
        let call = call.with_args([&self.remote]).with_args(patterns).without_sandbox();
        let output = self.repository.commands.run_for_output(call)?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let refs = text.lines().filter_map(|line| line.split_once('\t'));
        let refs = refs.filter(|(id, name)| is_object_id(id) && name.starts_with(&self.prefix));
        Ok(refs.map(|(id, name)| (name.to_owned(), CommitId(id.to_owned()))).collect())
    }

    /// Fetches a commit by its id, which a later push to its ref does not change, and sets a ref
    /// of the repository to it.
    pub fn fetch_commit(&self, commit: &CommitId, local: &str) -> Result<(), RemoteError> {
        if !is_object_id(&commit.0) {
            let message = format!("`{}` is not a commit", commit.0);
            return Err(RemoteError::Failed { message });
        }
        let call = self.repository.build_plumbing(&["fetch", "--quiet", "--no-tags"]);
        let call = call
            .with_args(["--no-write-fetch-head", "--no-auto-maintenance", "--no-prune"])
            .with_args(["--no-recurse-submodules", "--", &self.remote])
            .with_args([format!("+{}:{local}", commit.0)])
            // Another machine made the objects.
            .with_setting("transfer.fsckObjects=true")
            .without_sandbox();
        self.repository.commands.run_for_output(call)?;
        Ok(())
    }

    /// Pushes refs.
    pub fn push_refs(&self, updates: &[RefUpdate]) -> Result<(), RemoteError> {
        let call = self.repository.build_plumbing(&["push", "--porcelain", "--no-verify"]);
        let mut call = call.with_args(["--no-follow-tags", "--recurse-submodules=no"]);
        let mut specs = Vec::new();
        for update in updates {
            match update {
                RefUpdate::Create { name, commit } => {
                    call = call.with_args([format!("--force-with-lease={name}:")]);
                    specs.push(format!("{}:{name}", commit.0));
                }
                RefUpdate::Move { name, commit } => specs.push(format!("+{}:{name}", commit.0)),
                RefUpdate::Delete { name } => specs.push(format!(":{name}")),
            }
        }
        let call = call.with_args(["--", &self.remote]).with_args(&specs).without_sandbox();
        let ran = self.repository.commands.run(call)?;
        if ran.code == 0 {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        let message = ran.to_error().message;
        let refused: Vec<&str> = printed.lines().filter(|line| line.starts_with('!')).collect();
        Err(if refused.is_empty() {
            RemoteError::Failed { message }
        } else if refused.iter().all(|line| line.contains("stale info")) {
            RemoteError::Exists { message }
        } else {
            let why = refused.iter().filter_map(|line| line.rsplit('\t').next());
            let why: Vec<&str> = why.collect();
            RemoteError::Refused { message: format!("{}\n{message}", why.join(", ")) }
        })
    }
}
