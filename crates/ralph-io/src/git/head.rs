//! What is checked out: the branch, its commit, and that commit's tree.
//!
//! Not here: moving it, which only going back does.

use ralph_core::ports::VcsError;

use super::repository::Repository;

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The full name of the branch; none if HEAD is detached.
    pub(super) branch: Option<String>,
    /// The commit; none before the first one.
    pub(super) commit: Option<String>,
    /// The commit's tree, or the empty one.
    pub(super) tree: String,
}

impl Repository {
    /// Looks at what is checked out.
    pub(super) fn head(&self) -> Result<Head, VcsError> {
        let args = ["rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD"];
        let ran = self.commands.run(self.git(&args))?;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let mut lines = text.lines().map(str::to_owned);
        if let (0, Some(commit), Some(tree), Some(name)) =
            (ran.code, lines.next(), lines.next(), lines.next())
        {
            let branch = (name != "HEAD").then_some(name);
            return Ok(Head { branch, commit: Some(commit), tree });
        }
        // Before the first commit the name of the branch is all there is.
        let branch = self.commands.run(self.git(&["symbolic-ref", "--quiet", "HEAD"]))?;
        let name = String::from_utf8_lossy(&branch.stdout).trim_end().to_owned();
        let unborn = branch.code == 0 && !self.has_ref(&name)?;
        if !unborn {
            return Err(ran.failed());
        }
        Ok(Head { branch: Some(name), commit: None, tree: self.empty_tree()? })
    }

    /// Returns whether a ref exists.
    pub(super) fn has_ref(&self, name: &str) -> Result<bool, VcsError> {
        Ok(self.resolve(name)?.is_some())
    }

    /// Returns the object that a ref or other name stands for.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>, VcsError> {
        let ran = self.commands.run(self.git(&["rev-parse", "--quiet", "--verify", name]))?;
        let id = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        Ok((ran.code == 0).then_some(id))
    }

    /// Returns the tree without files.
    pub(super) fn empty_tree(&self) -> Result<String, VcsError> {
        self.commands.line(self.git(&["mktree"]))
    }
}
