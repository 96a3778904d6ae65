//! Ignored files that a clone gets, such as `.env`: those that `.worktreeinclude` and the
//! settings name.
//!
//! Not here: what a setup command makes.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;
use ralph_model::worktree::CommitId;

use super::super::diff::{join_with_zeros, split_at_zeros};
use super::super::kept_objects::clone_file;
use super::super::repository::GitRepository;
use super::CloneRequest;
use crate::bounded_read;
use crate::worker_slots::WorkerSlot;

/// The file with patterns, at the top of the work tree.
const INCLUDE_FILE: &str = ".worktreeinclude";
const LARGEST_INCLUDE: u64 = 1 << 20;

/// How many files that cannot be copied are named.
const MOST_WARNINGS: usize = 5;

/// An included file.
#[derive(Debug)]
struct IncludedFile {
    /// From the top of the work tree.
    path: PathBuf,
    size: u64,
}

/// Copies the included files into a clone, but for those that are the same by size and time. Returns
/// warnings: a file that a program of the user removes or replaces in that moment is no reason to
/// end the run.
pub(super) fn copy_included(
    source: &GitRepository,
    slot: &WorkerSlot,
    request: &CloneRequest,
    is_tracked: &dyn Fn(&Path) -> bool,
) -> Result<Vec<String>, VcsError> {
    let files = list_included(source, &request.include)?;
    let total: u64 = files.iter().map(|file| file.size).sum();
    let (mut rest, mut warnings) = (Vec::new(), Vec::new());
    let warn = |path: &Path, error: io::Error| {
        format!("`{}` is not in {}: {error}", path.display(), slot.name())
    };
    for IncludedFile { path, .. } in &files {
        let (from, to) = (source.top.join(path), slot.clone_path().join(path));
        if is_same(&from, &to) {
            continue;
        }
        // A link among the parents would lead out of the clone: it is found before anything is removed.
        match make_parents(slot.clone_path(), path, is_tracked)
            .and_then(|()| super::remove_any(&to))
        {
            Ok(()) if clone_included(&from, &to).is_ok() => {}
            Ok(()) => rest.push((path, from, to)),
            Err(error) => warnings.push(warn(path, error)),
        }
    }
    if total > request.copy_limit && !rest.is_empty() {
        return Ok(vec![format!(
            "{} included files are not in {}: all of them have {total} bytes, and \
             `parallel.copyLimit` is {}",
            rest.len(),
            slot.name(),
            request.copy_limit
        )]);
    }
    for (path, from, to) in rest {
        let Err(error) = copy_file(&from, &to) else { continue };
        // Half a file is worse than none.
        let _ = fs::remove_file(&to);
        if error.kind() == io::ErrorKind::StorageFull {
            let message = format!("cannot copy `{}`: {error}", path.display());
            return Err(VcsError { message });
        }
        warnings.push(warn(path, error));
    }
    let hidden = warnings.len().saturating_sub(MOST_WARNINGS);
    warnings.truncate(MOST_WARNINGS);
    if hidden > 0 {
        warnings.push(format!("{hidden} more included files are not in {}", slot.name()));
    }
    Ok(warnings)
}

/// Returns how many bytes a new clone needs: the files of a commit, and the included ones.
pub fn find_needed_space(
    source: &GitRepository,
    CommitId(base): &CommitId,
    include: &[String],
) -> Result<u64, VcsError> {
    let call = source.build_plumbing(&["ls-tree", "-r", "-z", "--format=%(objectsize)", base]);
    let listed = source.commands.run_for_output(call)?;
    let sizes = split_at_zeros(&listed).filter_map(|it| std::str::from_utf8(it).ok());
    let tracked: u64 = sizes.filter_map(|size| size.trim().parse::<u64>().ok()).sum();
    let included: u64 = list_included(source, include)?.iter().map(|file| file.size).sum();
    Ok(tracked.saturating_add(included))
}

/// Returns the files that git ignores and a pattern names. Links are not among them.
fn list_included(
    source: &GitRepository,
    include: &[String],
) -> Result<Vec<IncludedFile>, VcsError> {
    let file = bounded_read::read_file(&source.top.join(INCLUDE_FILE), LARGEST_INCLUDE);
    let mut patterns = String::from_utf8_lossy(&file.unwrap_or_default()).into_owned();
    for pattern in include {
        patterns.push('\n');
        patterns += pattern;
    }
    if patterns.trim().is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: io::Error| VcsError { message: format!("cannot list files: {error}") };
    let list = tempfile::NamedTempFile::new().map_err(failed)?;
    fs::write(list.path(), patterns).map_err(failed)?;
    let mut from = std::ffi::OsString::from("--exclude-from=");
    from.push(list.path());
    let call = source.build_plumbing(&["ls-files", "-z", "--others", "--ignored"]);
    let run = |call| source.commands.run(call);
    let named = run(call.with_args([from]).without_sandbox())?;
    if named.code != 0 {
        return Err(named.to_error());
    }
    // Exit code 1: none of them is ignored.
    let asked = join_with_zeros(split_at_zeros(&named.stdout));
    let ignored = run(source.build_plumbing(&["check-ignore", "-z", "--stdin"]).with_stdin(asked))?;
    let paths = split_at_zeros(&ignored.stdout).map(|it| PathBuf::from(OsStr::from_bytes(it)));
    let included = paths.filter_map(|path| {
        let about = source.top.join(&path).symlink_metadata().ok()?;
        about.is_file().then_some(IncludedFile { path, size: about.len() })
    });
    Ok(included.collect())
}

fn is_same(from: &Path, to: &Path) -> bool {
    let (Ok(from), Ok(to)) = (from.symlink_metadata(), to.symlink_metadata()) else { return false };
    let times = from.modified().ok().zip(to.modified().ok());
    to.is_file() && from.len() == to.len() && times.is_some_and(|(from, to)| from == to)
}

/// Makes a file that shares its content with another one.
fn clone_included(from: &Path, to: &Path) -> io::Result<()> {
    clone_file(from, to)?;
    copy_times(from, to)
}

/// Copies a file, unless there is one already.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = match File::create_new(to) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut content = File::open(from)?;
    io::copy(&mut content, &mut target)?;
    target.set_permissions(content.metadata()?.permissions())?;
    copy_times(from, to)
}

/// Makes the directories of a file below a top, in place of links and files on the way. Fails if one
/// of these is part of the commit.
fn make_parents(top: &Path, file: &Path, is_tracked: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    let mut directory = top.to_owned();
    for part in file.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        match directory.symlink_metadata() {
            Ok(about) if about.is_dir() => {}
            Ok(_) if is_tracked(&directory) => return Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => {
                fs::remove_file(&directory)?;
                fs::create_dir(&directory)?;
            }
            Err(_) => fs::create_dir(&directory)?,
        }
    }
    Ok(())
}

/// Tools compare times to decide what is up to date.
fn copy_times(from: &Path, to: &Path) -> io::Result<()> {
    let times = FileTimes::new().set_modified(fs::metadata(from)?.modified()?);
    match File::options().write(true).open(to) {
        Ok(file) => file.set_times(times),
        // It is read-only.
        Err(_) => Ok(()),
    }
}
