//! Replaces a file atomically: a reader sees the old content or the new, also after a power
//! failure.
//!
//! Not here: appending, as the journal does.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// Replaces a file, readable by its owner only. A symbolic link at the path is replaced, not
/// followed.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, PermissionsExt::from_mode(0o600))
}

/// Replaces a file with the given permissions, whatever the umask.
pub fn replace_with(path: &Path, content: &[u8], permissions: Permissions) -> io::Result<()> {
    replace_and_hold(path, content, permissions).map(drop)
}

/// Writes a file that the user names as the place of a result. Follows symbolic links, keeps the
/// permissions of a file that exists, and fails if it is read-only. A device or a pipe is written
/// to, not replaced.
pub fn write_named_output(path: &Path, content: &[u8], new: Permissions) -> io::Result<()> {
    let about = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if path.symlink_metadata().is_ok() {
                // A link that leads nowhere yet: this creates its target.
                std::fs::write(path, content)
            } else {
                replace_with(path, content, new)
            };
        }
        found => found?,
    };
    if about.is_file() {
        if about.permissions().readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Renaming needs no permission to write to the file itself.
        OpenOptions::new().write(true).open(path)?;
        return replace_with(&path.canonicalize()?, content, about.permissions());
    }
    OpenOptions::new().write(true).open(path)?.write_all(content)
}

/// Replaces a file like [`replace_with`], and returns the new one, open: as long as it is held, no
/// other file can have its inode number.
pub fn replace_and_hold(path: &Path, content: &[u8], permissions: Permissions) -> io::Result<File> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    write_and_rename(directory, path, content, permissions)
}

/// Replaces a file like [`replace_with`]. Writes the temporary file to `scratch`, where one left by
/// a crash does no harm: elsewhere git would take it for work.
pub fn replace_via_scratch(
    scratch: &Path,
    path: &Path,
    content: &[u8],
    permissions: Permissions,
) -> io::Result<()> {
    write_and_rename(scratch, path, content, permissions).map(drop)
}

/// A file that is not needed any more and can be overwritten. Removing a large file and creating
/// another one takes disks longer than overwriting it.
#[derive(Debug)]
pub struct SpareFile(NamedTempFile);

/// Replaces a file like [`replace_with`], by overwriting a spare file.
pub fn replace_with_spare(
    SpareFile(mut file): SpareFile,
    path: &Path,
    content: &[u8],
    permissions: Permissions,
) -> io::Result<()> {
    file.write_all(content)?;
    file.as_file().set_len(content.len().try_into().unwrap_or(u64::MAX))?;
    rename_written(file, path, content, permissions).map(drop)
}

fn write_and_rename(
    scratch: &Path,
    path: &Path,
    content: &[u8],
    permissions: Permissions,
) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let mut temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .permissions(PermissionsExt::from_mode(0o600))
        .tempfile_in(scratch)?;
    temporary.write_all(content)?;
    rename_written(temporary, path, content, permissions)
}

/// Renames a written file to its final path.
fn rename_written(
    written: NamedTempFile,
    path: &Path,
    content: &[u8],
    permissions: Permissions,
) -> io::Result<File> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    written.as_file().set_permissions(permissions.clone())?;
    written.as_file().sync_all()?;
    match written.persist(path) {
        Ok(file) => sync_directory(directory).map(|()| file),
        Err(refused) if refused.error.kind() == io::ErrorKind::CrossesDevices => {
            write_and_rename(directory, path, content, permissions)
        }
        Err(refused) => Err(refused.error),
    }
}

/// Replaces a file, readable by its owner only, without syncing: for content that means nothing
/// after a power failure.
pub fn replace_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".passing.")
        .suffix(".tmp")
        .permissions(PermissionsExt::from_mode(0o600))
        .tempfile_in(directory)?;
    temporary.write_all(content)?;
    temporary.persist(path)?;
    Ok(())
}

/// Makes `name` a hard link to a file, in place of what has that name. For use before the original
/// path is given to another file: the content is kept without being written again. Returns the file
/// that had the name, if it is large and has no other link: a process that still reads it may find
/// it changed.
pub fn link_in_place(file: &Path, name: &Path) -> io::Result<Option<SpareFile>> {
    let directory = name.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = tempfile::Builder::new()
        .prefix(".link.")
        .suffix(".tmp")
        .make_in(directory, |path| std::fs::hard_link(file, path))?;
    let temporary = temporary.into_temp_path();
    let spare = take_spare(directory, name);
    std::fs::rename(&temporary, name)?;
    // If both are already links to one file, nothing was renamed; then this removes the extra link.
    drop(temporary);
    // A crash must not leave the old name on a file that is being overwritten.
    sync_directory(directory)?;
    Ok(spare)
}

/// Smaller files are removed and created in no time.
const LARGE: u64 = 256 * 1024;

/// Moves away a large, writable file that has no other link, for reuse.
fn take_spare(directory: &Path, name: &Path) -> Option<SpareFile> {
    // Links are not followed and pipes not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() <= LARGE || about.nlink() != 1 {
        return None;
    }
    let renamed = tempfile::Builder::new()
        .prefix(".spare.")
        .suffix(".tmp")
        .make_in(directory, |path| std::fs::rename(name, path));
    let path = renamed.ok()?.into_temp_path();
    // Another program may have replaced the file in between.
    let is_it = |it: &Metadata| (it.dev(), it.ino()) == (about.dev(), about.ino());
    let found = std::fs::symlink_metadata(&path).ok().filter(is_it);
    found.map(|_| SpareFile(NamedTempFile::from_parts(file, path)))
}

/// Removes a file, if there is one.
pub fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_file_is_replaced_whole_and_is_the_owners() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.json");
        fs::write(&path, "old, and longer than the new").expect("a file");
        replace_file(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_file_that_is_replaced_is_kept_under_another_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, name) = (directory.path().join("list.json"), directory.path().join("list.bak"));
        fs::write(&name, "older").expect("a file");
        for (old, new) in [("old", "new"), ("new", "newer")] {
            fs::write(&path, old).expect("a file");
            for _ in 0..2 {
                assert!(link_in_place(&path, &name).expect("kept").is_none(), "it is small");
            }
            replace_file(&path, new.as_bytes()).expect("replaced");
            assert_eq!(fs::read_to_string(&name).expect("readable"), old);
            assert_eq!(fs::read_to_string(&path).expect("readable"), new);
        }
        assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 2);
        link_in_place(&directory.path().join("nothing"), &name).expect_err("nothing to keep");
        assert_eq!(fs::read_to_string(&name).expect("readable"), "new");
    }

    #[test]
    fn large_files_are_reused_in_turn() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, name) = (directory.path().join("list.json"), directory.path().join("list.bak"));
        let permissions = || Permissions::from_mode(0o640);
        let text = |number: usize| "0123456789"[..=number].repeat(100_000 - number * 5_000);
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        fs::write(&path, text(3)).expect("a file");
        let mut seen = vec![inode(&path)];
        for number in [4, 5, 6, 5, 4] {
            let before = fs::read_to_string(&path).expect("readable");
            let spare = link_in_place(&path, &name).expect("kept");
            match spare {
                Some(spare) => {
                    replace_with_spare(spare, &path, text(number).as_bytes(), permissions())
                }
                None => replace_with(&path, text(number).as_bytes(), permissions()),
            }
            .expect("replaced");
            seen.push(inode(&path));
            assert!(fs::read_to_string(&path).expect("readable") == text(number));
            assert!(fs::read_to_string(&name).expect("readable") == before);
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
            assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 2);
        }
        assert_eq!(seen[2..], seen[..4]);
        assert_ne!(seen[0], seen[1]);

        // A file with another link, or a link to it, is not overwritten.
        let (twin, target) = (directory.path().join("twin"), directory.path().join("target"));
        fs::hard_link(&name, &twin).expect("a second name");
        let kept = fs::read_to_string(&twin).expect("readable");
        assert!(link_in_place(&path, &name).expect("kept").is_none());
        assert!(fs::read_to_string(&twin).expect("readable") == kept);
        fs::write(&target, text(2)).expect("a file");
        fs::remove_file(&name).expect("removed");
        std::os::unix::fs::symlink(&target, &name).expect("a link");
        assert!(link_in_place(&path, &name).expect("kept").is_none());
        assert!(fs::read_to_string(&target).expect("readable") == text(2));
    }

    #[test]
    fn nothing_but_the_file_itself_is_created_in_its_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let (scratch, place) = (directory.path().join("scratch"), directory.path().join("place"));
        fs::create_dir(&scratch).expect("a directory");
        fs::create_dir(&place).expect("a directory");
        let permissions = || Permissions::from_mode(0o644);
        let path = place.join("tasks.json");
        replace_via_scratch(&scratch, &path, b"new", permissions()).expect("replaced");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(&scratch).expect("readable").count(), 0);
        // Nothing was written next to the file: without the scratch directory it fails.
        fs::remove_dir(&scratch).expect("removed");
        replace_via_scratch(&scratch, &path, b"newer", permissions()).expect_err("no place");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
    }

    #[test]
    fn a_named_output_goes_to_what_has_the_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            write_named_output(&path(name), text.as_bytes(), Permissions::from_mode(0o644))
        };
        let mode = |name: &str| fs::metadata(path(name)).expect("there").permissions().mode();
        write("page", "first").expect("created");
        assert_eq!(mode("page") & 0o777, 0o644);
        fs::set_permissions(path("page"), Permissions::from_mode(0o660)).expect("a mode");
        std::os::unix::fs::symlink("page", path("link")).expect("a link");
        write("link", "second").expect("written");
        assert_eq!(fs::read_to_string(path("page")).expect("readable"), "second");
        assert_eq!(mode("page") & 0o777, 0o660);
        assert!(fs::symlink_metadata(path("link")).expect("there").is_symlink());

        std::os::unix::fs::symlink("target", path("dangling")).expect("a link");
        write("dangling", "third").expect("written");
        assert_eq!(fs::read_to_string(path("target")).expect("readable"), "third");

        fs::set_permissions(path("page"), Permissions::from_mode(0o444)).expect("a mode");
        let refused = write("page", "fourth").expect_err("read-only");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_to_string(path("page")).expect("readable"), "second");
        write(".", "fifth").expect_err("a directory");
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe");
        let theirs = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(theirs));
        write_named_output(&path, b"page", Permissions::from_mode(0o644)).expect("written");
        assert_eq!(reader.join().expect("no panic").expect("readable"), "page");
        assert!(!fs::symlink_metadata(&path).expect("there").is_file());
    }

    #[test]
    fn a_link_is_replaced_and_its_target_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("target");
        let path = directory.path().join("state.json");
        fs::write(&target, "precious").expect("a file");
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        replace_file(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&target).expect("readable"), b"precious");
        assert!(fs::symlink_metadata(&path).expect("there").is_file());
    }
}
