//! Commits and refs that ralph makes for itself, without a process where that is simple.
//!
//! Not here: commits of the user (`commit`), and which refs there are (`vcs`, `restore`).

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ralph_core::ports::VcsError;

use super::object_store::{format_id, parse_id};
use super::ref_files::read_packed_ref;
use super::repository::GitRepository;
use crate::atomic_file::remove_if_exists;

impl GitRepository {
    /// Creates a commit object that is on no branch.
    pub(super) fn commit_tree(
        &self,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, VcsError> {
        if let Some(commit) = self.write_own_commit(tree, parents, message) {
            return Ok(commit);
        }
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let call =
            self.build_plumbing(&["commit-tree", tree]).with_args(parents).with_ralph_identity();
        self.commands.run_for_line(call.with_stdin(message.as_bytes().to_vec()))
    }

    /// Writes the commit itself. None if that is left to git: an object is missing, or the objects
    /// are not where they usually are.
    fn write_own_commit(&self, tree: &str, parents: &[String], message: &str) -> Option<String> {
        let store = self.open_objects()?;
        let is_there = |id: &str| parse_id(id).is_some_and(|id| store.contains(&id));
        if !is_there(tree) || !parents.iter().all(|parent| is_there(parent)) {
            return None;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        let mut content = format!("tree {tree}\n");
        for parent in parents {
            content.extend(["parent ", parent, "\n"]);
        }
        for role in ["author", "committer"] {
            content += &format!("{role} ralph <ralph@localhost> {now} +0000\n");
        }
        content.extend(["\n", message]);
        store.write("commit", content.as_bytes()).ok().map(|id| format_id(&id))
    }

    /// Creates or moves a ref of ralph.
    pub(super) fn set_ref(&self, name: &str, id: &str) -> Result<(), VcsError> {
        if self.write_ref_file(name, id).is_ok() {
            return Ok(());
        }
        let call = self.build_plumbing(&["update-ref", name, id]);
        self.commands.run_for_output(call).map(drop)
    }

    /// Removes a ref of ralph, if it exists.
    pub(super) fn remove_ref(&self, name: &str) -> Result<(), VcsError> {
        let common = self.common_dir();
        let is_loose =
            !common.join("reftable").exists() && read_packed_ref(&common, name).is_none();
        if is_loose && remove_if_exists(&common.join(name)).is_ok() {
            return Ok(());
        }
        let call = self.build_plumbing(&["update-ref", "-d", name]);
        self.commands.run_for_output(call).map(drop)
    }

    /// Writes the file of a ref. Fails where git is needed: another format, another process that
    /// writes it, or a directory that an agent has replaced by a link.
    fn write_ref_file(&self, name: &str, id: &str) -> io::Result<()> {
        let common = self.common_dir();
        if common.join("reftable").exists() || !name.starts_with("refs/ralph/") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let path = common.join(name);
        let inside = Path::new(name).parent().into_iter().flat_map(Path::components);
        let mut directory: PathBuf = common;
        for part in inside {
            directory.push(part);
            match directory.symlink_metadata() {
                Ok(about) if about.is_dir() => {}
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => fs::create_dir(&directory)?,
            }
        }
        let lock = directory.join(format!("{}.lock", name.rsplit('/').next().unwrap_or(name)));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&lock)?;
        let written = writeln!(file, "{id}").and_then(|()| fs::rename(&lock, &path));
        if written.is_err() {
            let _ = fs::remove_file(&lock);
        }
        written
    }
}
