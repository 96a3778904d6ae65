//! Commits failed work to a failure branch, together with report files.
//!
//! Not here: the rollback afterwards, and finding such branches again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_core::landing::failure_branch::flatten_branch_name;
use ralph_core::ports::{FailedWorkLocation, FailureBranchOrder, SavedBranch, VcsError};
use ralph_model::run::IterationMark;
use ralph_model::worktree::CommitId;

use super::diff::split_at_zeros;
use super::repository::GitRepository;
use super::vcs::{GitVcs, format_trailers};

/// The trailer that names a report file next to the work.
pub(super) const REPORT_FILE_TRAILER: &str = "Ralph-Beside";

/// Names taken by other branches; more than this many in one second are no accident.
const MOST_NUMBERS: u32 = 1000;

/// The result of searching the names that a branch may have.
enum BranchSearch {
    /// The branch with this mark.
    Found(SavedBranch),
    /// A free name.
    Free(String),
}

impl GitVcs {
    /// Commits the failed work to a branch, unless that was already done. The work tree stays.
    pub(super) fn commit_to_failure_branch(
        &mut self,
        order: &FailureBranchOrder,
    ) -> Result<SavedBranch, VcsError> {
        let flat = flatten_branch_name(&order.branch);
        let names = match (
            self.find_branch_name(&order.branch, &order.mark)?,
            self.find_branch_name(&flat, &order.mark)?,
        ) {
            (BranchSearch::Found(existing), _) | (_, BranchSearch::Found(existing)) => {
                return Ok(existing);
            }
            // The second name is used if a branch such as `wip` blocks the first.
            (BranchSearch::Free(name), BranchSearch::Free(flat)) => [name, flat],
        };
        let (work, parent) = match &order.work {
            FailedWorkLocation::InWorkTree => {
                (self.shadow.survey_tree(&self.repository)?, self.repository.head()?.commit)
            }
            FailedWorkLocation::Candidate(CommitId(commit)) => {
                (self.repository.resolve_tree(Some(commit))?, Some(commit.clone()))
            }
        };
        let (tree, report_files) = self.add_report_files(&work, &order.files)?;
        let mut message =
            format!("{}\n\n{}", order.message.trim_end(), format_trailers(&order.mark));
        for path in &report_files {
            message.extend([REPORT_FILE_TRAILER, ": ", path, "\n"]);
        }
        let parents: Vec<String> = parent.into_iter().collect();
        let commit = self.repository.commit_tree_as_user(&tree, &parents, &message)?;
        let mut failed = None;
        for branch in names {
            let name = format!("refs/heads/{branch}");
            // The empty old value makes git refuse if the branch exists.
            let args = [
                "update-ref",
                "-m",
                "ralph: failure branch",
                "--create-reflog",
                &name,
                &commit,
                "",
            ];
            let ran = self
                .repository
                .commands
                .run(self.repository.build_plumbing(&args).with_ralph_identity())?;
            if ran.code == 0 {
                return Ok(SavedBranch { branch, commit: CommitId(commit) });
            }
            failed.get_or_insert_with(|| ran.to_error());
        }
        Err(failed.unwrap_or_else(|| VcsError { message: "no branch could be made".to_owned() }))
    }

    fn find_branch_name(
        &self,
        branch: &str,
        mark: &IterationMark,
    ) -> Result<BranchSearch, VcsError> {
        for number in 1..=MOST_NUMBERS {
            let branch = if number == 1 { branch.to_owned() } else { format!("{branch}-{number}") };
            match self.repository.resolve_name(&format!("refs/heads/{branch}"))? {
                None => return Ok(BranchSearch::Free(branch)),
                Some(commit) if self.repository.has_mark(&commit, mark)? => {
                    return Ok(BranchSearch::Found(SavedBranch {
                        branch,
                        commit: CommitId(commit),
                    }));
                }
                Some(_) => {}
            }
        }
        Err(VcsError { message: format!("there is no free name for the branch {branch}") })
    }

    /// Adds files to a tree, at paths that are free. Returns the tree and the paths.
    fn add_report_files(
        &self,
        work: &str,
        files: &[(String, String)],
    ) -> Result<(String, Vec<String>), VcsError> {
        let commands = &self.repository.commands;
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.build_plumbing(args).with_index(&index);
        let (mut tree, mut paths) = (work.to_owned(), Vec::new());
        for (path, text) in files {
            if path.chars().any(char::is_control) {
                return Err(VcsError { message: format!("{path:?} cannot be the name of a file") });
            }
            let path = self.repository.find_free_path(&tree, path)?;
            let hash = git(&["hash-object", "-w", "--no-filters", "--stdin"]);
            let blob = commands.run_for_line(hash.with_stdin(text.as_bytes().to_vec()))?;
            commands.run_for_output(git(&["read-tree", "--reset", &tree]))?;
            let info = format!("100644,{blob},{path}");
            commands.run_for_output(git(&["update-index", "--add", "--cacheinfo", &info]))?;
            tree = commands.run_for_line(git(&["write-tree"]))?;
            paths.push(path);
        }
        Ok((tree, paths))
    }
}

impl GitRepository {
    /// Returns whether a commit has the trailers of a mark.
    fn has_mark(&self, commit: &str, mark: &IterationMark) -> Result<bool, VcsError> {
        let format = "--format=%(trailers:only,unfold)";
        let args = ["log", "-1", "--no-show-signature", format, commit];
        let written = self.commands.run_for_line(self.build_plumbing(&args))?;
        Ok(format_trailers(mark).lines().all(|line| written.lines().any(|it| it == line)))
    }

    /// Returns a path that is free in a tree: the given one, else with a number added to the part
    /// that is taken.
    fn find_free_path(&self, tree: &str, path: &str) -> Result<String, VcsError> {
        let mut path = path.to_owned();
        for number in 2..=MOST_NUMBERS {
            let Some(taken) = self.find_taken_prefix(tree, &path)? else {
                return Ok(path);
            };
            path = format!("{taken}-{number}{}", &path[taken.len()..]);
        }
        Err(VcsError { message: format!("there is no free name for the file `{path}`") })
    }

    /// Returns the leading part of a path that is taken by something other than a directory on the
    /// way.
    fn find_taken_prefix(&self, tree: &str, path: &str) -> Result<Option<String>, VcsError> {
        let prefixes = Path::new(path).ancestors().filter(|prefix| *prefix != Path::new(""));
        let call =
            self.build_plumbing(&["ls-tree", "-z", "--full-tree", tree, "--"]).with_args(prefixes);
        let output = self.commands.run_for_output(call)?;
        let taken = split_at_zeros(&output).find_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let (about, name) = (&entry[..tab], Path::new(OsStr::from_bytes(&entry[tab + 1..])));
            let is_parent = about.starts_with(b"040000") && name != Path::new(path);
            (!is_parent && Path::new(path).starts_with(name)).then(|| name.to_str()).flatten()
        });
        Ok(taken.map(str::to_owned))
    }

    /// Creates a commit object with the user's identity, or ralph's if git does not know the user:
    /// work must not be lost for want of a name.
    fn commit_tree_as_user(
        &self,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        let args = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let call = self.build_plumbing(&["commit-tree", tree]).with_args(args);
        match self.commands.run_for_line(call.with_stdin(message.as_bytes().to_vec())) {
            Ok(commit) => Ok(commit),
            Err(_) => self.commit_tree(tree, parents, message),
        }
    }
}
