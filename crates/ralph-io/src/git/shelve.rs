//! Commits failed work to a failure branch, together with report files.
//!
//! Not here: the rollback afterwards, and finding such branches again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_core::event::CommitId;
use ralph_core::ports::{Mark, ShelveOrder, Shelved, VcsError};
use ralph_core::shelf::flat_branch;

use super::diff::split_zero;
use super::repository::Repository;
use super::vcs::{Git, trailers};

/// The trailer that names a report file next to the work.
pub(super) const REPORT_FILE_TRAILER: &str = "Ralph-Beside";

/// Names taken by other branches; more than this many in one second are no accident.
const MOST_NUMBERS: u32 = 1000;

/// The result of searching the names that a branch may have.
enum Search {
    /// The branch with this mark.
    Found(Shelved),
    /// A free name.
    Free(String),
}

impl Git {
    /// Commits everything in the work tree to a branch, unless that was already done. The work tree
    /// stays.
    pub(super) fn put_on_branch(&mut self, order: &ShelveOrder) -> Result<Shelved, VcsError> {
        let flat = flat_branch(&order.branch);
        let names =
            match (self.search(&order.branch, &order.mark)?, self.search(&flat, &order.mark)?) {
                (Search::Found(existing), _) | (_, Search::Found(existing)) => return Ok(existing),
                // The second name is used if a branch such as `wip` blocks the first.
                (Search::Free(name), Search::Free(flat)) => [name, flat],
            };
        let head = self.repository.head()?;
        let work = self.shadow.survey(&self.repository)?;
        let (tree, report_files) = self.with_files(&work, &order.files)?;
        let mut message = format!("{}\n\n{}", order.message.trim_end(), trailers(&order.mark));
        for path in &report_files {
            message.extend([REPORT_FILE_TRAILER, ": ", path, "\n"]);
        }
        let parents: Vec<String> = head.commit.into_iter().collect();
        let commit = self.repository.commit_tree_of_users(&tree, &parents, &message)?;
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
            let ran = self.repository.commands.run(self.repository.git(&args).signed_by_ralph())?;
            if ran.code == 0 {
                return Ok(Shelved { branch, commit: CommitId(commit) });
            }
            failed.get_or_insert_with(|| ran.failed());
        }
        Err(failed.unwrap_or_else(|| VcsError { message: "no branch could be made".to_owned() }))
    }

    fn search(&self, branch: &str, mark: &Mark) -> Result<Search, VcsError> {
        for number in 1..=MOST_NUMBERS {
            let branch = if number == 1 { branch.to_owned() } else { format!("{branch}-{number}") };
            match self.repository.resolve(&format!("refs/heads/{branch}"))? {
                None => return Ok(Search::Free(branch)),
                Some(commit) if self.repository.is_marked(&commit, mark)? => {
                    return Ok(Search::Found(Shelved { branch, commit: CommitId(commit) }));
                }
                Some(_) => {}
            }
        }
        Err(VcsError { message: format!("there is no free name for the branch {branch}") })
    }

    /// Adds files to a tree, at paths that are free. Returns the tree and the paths.
    fn with_files(
        &self,
        work: &str,
        files: &[(String, String)],
    ) -> Result<(String, Vec<String>), VcsError> {
        let commands = &self.repository.commands;
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.git(args).index(&index);
        let (mut tree, mut paths) = (work.to_owned(), Vec::new());
        for (path, text) in files {
            if path.chars().any(char::is_control) {
                return Err(VcsError { message: format!("{path:?} cannot be the name of a file") });
            }
            let path = self.repository.free_path(&tree, path)?;
            let hash = git(&["hash-object", "-w", "--no-filters", "--stdin"]);
            let blob = commands.line(hash.stdin(text.as_bytes().to_vec()))?;
            commands.output(git(&["read-tree", "--reset", &tree]))?;
            let info = format!("100644,{blob},{path}");
            commands.output(git(&["update-index", "--add", "--cacheinfo", &info]))?;
            tree = commands.line(git(&["write-tree"]))?;
            paths.push(path);
        }
        Ok((tree, paths))
    }
}

impl Repository {
    /// Returns whether a commit has the trailers of a mark.
    fn is_marked(&self, commit: &str, mark: &Mark) -> Result<bool, VcsError> {
        let format = "--format=%(trailers:only,unfold)";
        let args = ["log", "-1", "--no-show-signature", format, commit];
        let written = self.commands.line(self.git(&args))?;
        Ok(trailers(mark).lines().all(|line| written.lines().any(|it| it == line)))
    }

    /// Returns a path that is free in a tree: the given one, else with a number added to the part
    /// that is taken.
    fn free_path(&self, tree: &str, path: &str) -> Result<String, VcsError> {
        let mut path = path.to_owned();
        for number in 2..=MOST_NUMBERS {
            let Some(taken) = self.taken(tree, &path)? else {
                return Ok(path);
            };
            path = format!("{taken}-{number}{}", &path[taken.len()..]);
        }
        Err(VcsError { message: format!("there is no free name for the file `{path}`") })
    }

    /// Returns the leading part of a path that is taken by something other than a directory on the
    /// way.
    fn taken(&self, tree: &str, path: &str) -> Result<Option<String>, VcsError> {
        let prefixes = Path::new(path).ancestors().filter(|prefix| *prefix != Path::new(""));
        let call = self.git(&["ls-tree", "-z", "--full-tree", tree, "--"]).args(prefixes);
        let output = self.commands.output(call)?;
        let taken = split_zero(&output).find_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let (about, name) = (&entry[..tab], Path::new(OsStr::from_bytes(&entry[tab + 1..])));
            let is_parent = about.starts_with(b"040000") && name != Path::new(path);
            (!is_parent && Path::new(path).starts_with(name)).then(|| name.to_str()).flatten()
        });
        Ok(taken.map(str::to_owned))
    }

    /// Creates a commit object with the user's identity, or ralph's if git does not know the user:
    /// work must not be lost for want of a name.
    fn commit_tree_of_users(
        &self,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        let args = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let call = self.git(&["commit-tree", tree]).args(args);
        match self.commands.line(call.stdin(message.as_bytes().to_vec())) {
            Ok(commit) => Ok(commit),
            Err(_) => self.commit_tree(tree, parents, message),
        }
    }
}
