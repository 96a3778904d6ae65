//! Carries the checkpoints of a worker's run out of its clone, and into another one.
//!
//! Not here: making checkpoints (`vcs`), and when they travel (`workers`).

use std::collections::BTreeMap;
use std::path::Path;

use ralph_core::ports::VcsError;
use ralph_model::ids::RunId;
use ralph_model::worktree::{CommitId, TreeId};

use super::head::is_object_id;
use super::repository::GitRepository;

fn build_prefix(run: &RunId) -> String {
    format!("refs/ralph/checkpoints/{run}/")
}

impl GitRepository {
    /// Fetches the checkpoints of a run from its clone, whose configuration an agent may have
    /// written. Returns the commit and the tree of each, by iteration.
    pub fn fetch_checkpoints(
        &self,
        clone: &Path,
        run: &RunId,
    ) -> Result<BTreeMap<u32, (CommitId, TreeId)>, VcsError> {
        let prefix = build_prefix(run);
        let call = self
            .build_plumbing(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
            .with_args(["--no-auto-maintenance", "--prune", "--no-recurse-submodules", "--"])
            .with_args([clone.as_os_str()])
            .with_args([format!("+{prefix}*:{prefix}*")])
            .with_setting("transfer.fsckObjects=true")
            .without_sandbox();
        self.commands.run_for_output(call)?;
        let format = "--format=%(refname:lstrip=-1) %(objectname) %(tree)";
        let listed = self.build_plumbing(&["for-each-ref", format, &prefix]);
        let listed = self.commands.run_for_output(listed)?;
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let iteration = words.next()?.parse().ok()?;
            let (commit, tree) = (words.next()?, words.next()?);
            let is_commit = is_object_id(commit) && is_object_id(tree);
            is_commit.then(|| (iteration, (CommitId(commit.to_owned()), TreeId(tree.to_owned()))))
        };
        Ok(String::from_utf8_lossy(&listed).lines().filter_map(parse).collect())
    }

    /// Gives a clone the checkpoints of a run.
    pub fn set_checkpoints(
        &self,
        run: &RunId,
        checkpoints: &BTreeMap<u32, CommitId>,
    ) -> Result<(), VcsError> {
        let prefix = build_prefix(run);
        checkpoints.iter().try_for_each(|(iteration, commit)| {
            self.set_ref(&format!("{prefix}{iteration}"), &commit.0)
        })
    }

    /// Removes what [`GitRepository::fetch_checkpoints`] left.
    pub fn remove_checkpoints(&self, run: &RunId) -> Result<(), VcsError> {
        let prefix = build_prefix(run);
        let refs = self.list_run_refs()?;
        let refs: Vec<_> = refs.iter().filter(|it| it.name.starts_with(&prefix)).collect();
        if refs.is_empty() { Ok(()) } else { self.remove_refs(&refs) }
    }
}
