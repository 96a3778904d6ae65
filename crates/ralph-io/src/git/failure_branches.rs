//! Failure branches of a task: listing them, merging their work back, archiving them.
//!
//! Not here: creating them, and asking whether to use one again.

use std::path::Path;

use ralph_core::landing::failure_branch::{
    flatten_branch_name, is_failure_branch, name_archive_branch,
};
use ralph_core::ports::VcsError;
use ralph_model::ids::TaskId;
use ralph_model::units::Timestamp;
use ralph_model::worktree::CommitId;

use super::diff::{join_with_zeros, split_at_zeros};
use super::failure_commit::REPORT_FILE_TRAILER;
use super::vcs::{GitVcs, format_task_trailer};

/// A branch with the work of a failed task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureBranch {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    pub commit: CommitId,
    /// When the commit was made.
    pub when: Timestamp,
    pub message: String,
}

/// The result of merging a failure branch into the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenWork {
    /// The work is in the work tree.
    Done,
    /// The work is in the work tree, with markers where it conflicts with later work.
    Marked { paths: Vec<String> },
    /// Other files are in its way. Nothing was changed.
    Blocked { paths: Vec<String> },
}

impl GitVcs {
    /// Returns the failure branches of a task, newest first.
    pub fn list_failure_branches(&self, task: &TaskId) -> Result<Vec<FailureBranch>, VcsError> {
        Ok(self.list_with_checkout(task)?.into_iter().map(|(branch, _)| branch).collect())
    }

    /// Merges the work on a failure branch into the work tree, without the report files that were
    /// added to it. HEAD and index stay.
    pub fn merge_failure_branch(&mut self, from: &FailureBranch) -> Result<TakenWork, VcsError> {
        let CommitId(commit) = &from.commit;
        let work = self.extract_work(commit)?;
        let work = self.without_own_documents(&work)?;
        let now = self.shadow.survey_tree(&self.repository)?;
        Ok(match self.merge_with_markers(&now, &work)? {
            Ok(paths) if paths.is_empty() => TakenWork::Done,
            Ok(paths) => {
                let name = |path: &String| self.repository.name_from_project(Path::new(path));
                TakenWork::Marked { paths: paths.iter().map(name).collect() }
            }
            Err(paths) => TakenWork::Blocked { paths },
        })
    }

    /// Renames the failure branches of a task, so that they are out of the way. Skips those that
    /// are checked out somewhere. Returns the new names, newest first.
    pub fn archive_failure_branches(&mut self, task: &TaskId) -> Result<Vec<String>, VcsError> {
        let mut archived = Vec::new();
        for (FailureBranch { branch, .. }, is_checked_out) in self.list_with_checkout(task)? {
            if !is_checked_out {
                archived.push(self.archive_branch_as(&branch)?);
            }
        }
        Ok(archived)
    }

    fn archive_branch_as(&self, branch: &str) -> Result<String, VcsError> {
        const MOST: u32 = 1000;
        let name = name_archive_branch(branch);
        let mut failed = None;
        for name in [name.clone(), flatten_branch_name(&name)] {
            for number in 1..=MOST {
                let name = if number == 1 { name.clone() } else { format!("{name}-{number}") };
                if self.repository.has_ref(&format!("refs/heads/{name}"))? {
                    continue;
                }
                // `git branch --move` keeps the reflog and the user's settings of the branch. It
                // writes git's configuration, which is read-only in the sandbox, and starts no
                // program.
                let call =
                    self.repository.build_plumbing(&["branch", "--move", "--", branch, &name]);
                let call = call.with_ralph_identity().without_sandbox();
                let ran = self.repository.commands.run(call)?;
                if ran.code == 0 {
                    return Ok(name);
                }
                failed.get_or_insert_with(|| ran.to_error());
                break;
            }
        }
        Err(failed.unwrap_or_else(|| VcsError {
            message: format!("there is no free name for the branch {branch} in the archive"),
        }))
    }

    /// Returns the failure branches of a task, each with whether it is checked out somewhere.
    fn list_with_checkout(&self, task: &TaskId) -> Result<Vec<(FailureBranch, bool)>, VcsError> {
        const FIELDS: usize = 6;
        let format = "--format=%(refname:lstrip=2)%00%(objectname)%00%(committerdate:unix)%00\
                      %(worktreepath)%00%(trailers:key=Ralph-Task,valueonly,unfold)%00%(contents)%00";
        let args = ["for-each-ref", format, "refs/heads/wip/", "refs/heads/wip-ralph-fail-*"];
        let output =
            self.repository.commands.run_for_output(self.repository.build_plumbing(&args))?;
        let fields: Vec<String> = output
            .split(|byte| *byte == 0)
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect();
        let mut found: Vec<(FailureBranch, bool)> = fields
            .chunks_exact(FIELDS)
            .map(|fields| (fields, fields[0].trim_start()))
            // The user may have continued the work, so the last commit need not be ours.
            .filter(|(fields, branch)| {
                let marked = fields[4].trim();
                is_failure_branch(branch, task)
                    && (marked.is_empty() || marked == format_task_trailer(task))
            })
            .map(|(fields, branch)| {
                let seconds: i64 = fields[2].parse().unwrap_or(0);
                let found = FailureBranch {
                    branch: branch.to_owned(),
                    commit: CommitId(fields[1].clone()),
                    when: Timestamp(seconds.saturating_mul(1000)),
                    message: fields[5].trim_end().to_owned(),
                };
                (found, !fields[3].is_empty())
            })
            .collect();
        found.sort_by(|(one, _), (other, _)| {
            (other.when, &other.branch).cmp(&(one.when, &one.branch))
        });
        Ok(found)
    }

    /// Returns a commit with the same history as a failure branch, but only with the work.
    fn extract_work(&self, commit: &str) -> Result<String, VcsError> {
        let commands = &self.repository.commands;
        let head = self.repository.head()?;
        let format = format!("--format=%(trailers:key={REPORT_FILE_TRAILER},valueonly,unfold)");
        let mut log =
            self.repository.build_plumbing(&["log", "-z", "--no-show-signature", &format, commit]);
        if let Some(head) = &head.commit {
            log = log.with_args(["--not", head]);
        }
        let trailers = commands.run_for_output(log)?;
        let report_files = split_at_zeros(&trailers)
            .flat_map(|text| text.split(|byte| *byte == b'\n'))
            .filter(|path| !path.is_empty());
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.build_plumbing(args).with_index(&index);
        commands.run_for_output(git(&["read-tree", "--reset", commit]))?;
        let remove = git(&["update-index", "--force-remove", "-z", "--stdin"]);
        commands.run_for_output(remove.with_stdin(join_with_zeros(report_files)))?;
        let tree = commands.run_for_line(git(&["write-tree"]))?;
        let parents = commands
            .run_for_line(self.repository.build_plumbing(&["rev-parse", &format!("{commit}^@")]))?;
        let parents: Vec<String> = parents.lines().map(str::to_owned).collect();
        self.repository.commit_tree(&tree, &parents, "ralph: the work on a failure branch")
    }
}
