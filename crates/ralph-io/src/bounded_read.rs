//! Bounded reads of files that an agent may have written or replaced.
//!
//! Nothing here waits for a pipe, reads a device, or reads more than the given bound. Where a
//! project is given, nothing outside of it is read either: a link that leads out is refused, be it
//! the file itself or a directory on the way. Not here: what the bytes mean.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use rustix::fs::{Mode, OFlags};

/// Returns at most `most` bytes from the start of a regular file. Follows links; fails for
/// directories, pipes and devices.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for a writer; non-blocking, it opens at once and is refused below.
    read_at_most(open_with_flags(path, OFlags::NONBLOCK)?, most)
}

/// Returns at most `most` bytes from the start of a regular file. Fails for anything else, links
/// included.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_with_flags(path, OFlags::NONBLOCK | OFlags::NOFOLLOW)?, most)
}

/// Returns at most `most` bytes from the start of a file of a project. A path inside the project
/// is read only if it is still inside once all links are resolved. A path outside was chosen by
/// the user and is read as it is.
pub(crate) fn read_within(project: &Path, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let path = project.join(path);
    if !is_below(&path, project) {
        return read_beginning(&path, most);
    }
    let project = project.canonicalize()?;
    let real = path.canonicalize()?;
    let below = real.strip_prefix(&project).map_err(|_| build_leads_out_error())?;
    read_at_most(open_below(&project, below)?, most)
}

/// Returns the SHA-256 digest of a text and of the content of a regular file, as hexadecimal
/// digits. Without a file, or where it cannot be read, only the text counts.
pub fn compute_digest(text: &str, file: Option<&Path>) -> String {
    let mut context = Context::new(&SHA256);
    context.update(text.as_bytes());
    context.update(&[0]);
    let is_file = |file: &File| file.metadata().is_ok_and(|it| it.is_file());
    let opened = file.and_then(|file| open_with_flags(file, OFlags::NONBLOCK).ok()).filter(is_file);
    if let Some(mut file) = opened {
        context.update(&[1]);
        let mut buffer = [0; 1 << 14];
        while let Ok(count @ 1..) = file.read(&mut buffer) {
            context.update(&buffer[..count]);
        }
    }
    let bytes = context.finish();
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Fails if a path inside the project leads out of it through a link: a write there would change
/// a file outside the project.
pub(crate) fn check_inside_project(project: &Path, path: &Path) -> io::Result<()> {
    let path = project.join(path);
    if !is_below(&path, project) {
        return Ok(());
    }
    let project = project.canonicalize()?;
    let there = path.ancestors().find_map(|place| place.canonicalize().ok());
    if there.is_some_and(|real| real.starts_with(&project)) {
        Ok(())
    } else {
        Err(build_leads_out_error())
    }
}

/// Returns whether a path is lexically below a directory, without resolving links.
pub(crate) fn is_below(path: &Path, directory: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain.starts_with(directory)
}

/// Opens a file below a directory, one component at a time without following links: replacing a
/// directory on the way by a link gains an attacker nothing.
fn open_below(directory: &Path, below: &Path) -> io::Result<File> {
    let names: Vec<_> = below.components().map(Component::as_os_str).collect();
    let Some((name, parents)) = names.split_last() else {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, IS_DIRECTORY));
    };
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let step = flags | OFlags::DIRECTORY;
    let mut at = rustix::fs::open(directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for parent in parents {
        at = rustix::fs::openat(&at, *parent, step, Mode::empty())?;
    }
    Ok(rustix::fs::openat(&at, *name, flags | OFlags::NONBLOCK, Mode::empty())?.into())
}

fn open_with_flags(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn read_at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, IS_DIRECTORY));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

const IS_DIRECTORY: &str = "it is a directory";

fn build_leads_out_error() -> io::Error {
    io::Error::other("it leads out of the project")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_digest_covers_the_text_and_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        let absent = compute_digest("a", Some(&file));
        assert_eq!(absent, compute_digest("a", None));
        assert_eq!(absent, compute_digest("a", Some(directory.path())), "only regular files count");
        fs::write(&file, "").expect("written");
        let empty = compute_digest("a", Some(&file));
        fs::write(&file, "x").expect("written");
        let full = compute_digest("a", Some(&file));
        let other = compute_digest("b", Some(&file));
        let all = [&absent, &empty, &full, &other];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{all:?}");
        assert_eq!(full.len(), 64);
    }

    #[test]
    fn only_files_are_read_and_never_too_much_of_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "abc").expect("written");
        for (most, expect) in [(0, ""), (2, "ab"), (3, "abc"), (u64::MAX, "abc")] {
            for read in [
                read_beginning(&at("file"), most),
                read_file(&at("file"), most),
                read_within(directory.path(), Path::new("file"), most),
            ] {
                assert_eq!(read.expect("read"), expect.as_bytes(), "{most}");
            }
        }
        let pipe = at("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
        for (path, expect) in [
            (directory.path().to_owned(), "it is a directory"),
            (pipe, "it is not a regular file"),
            ("/dev/zero".into(), "it is not a regular file"),
        ] {
            for read in [
                read_beginning(&path, 9),
                read_file(&path, 9),
                read_within(directory.path(), &path, 9),
            ] {
                assert_eq!(read.expect_err("refused").to_string(), expect);
            }
        }
        let error = read_beginning(&at("nothing"), 9).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn links_stay_in_the_project() {
        let outside = tempfile::tempdir().expect("a directory");
        let project = tempfile::tempdir().expect("a directory");
        let (secret, at) = (outside.path().join("secret"), |name: &str| project.path().join(name));
        fs::write(&secret, "secret").expect("written");
        fs::create_dir(at("real")).expect("made");
        fs::write(at("real/file"), "fine").expect("written");
        symlink("real/file", at("within")).expect("linked");
        symlink(at("real"), at("absolute")).expect("linked");
        symlink(&secret, at("out")).expect("linked");
        symlink(outside.path(), at("way-out")).expect("linked");
        for (path, expect) in [
            ("real/file", Ok("fine")),
            ("real/../within", Ok("fine")),
            ("absolute/file", Ok("fine")),
            ("out", Err("it leads out of the project")),
            ("way-out/secret", Err("it leads out of the project")),
        ] {
            let read = read_within(project.path(), Path::new(path), 99);
            let read = read.map(|bytes| String::from_utf8(bytes).expect("text"));
            let read = read.as_deref().map_err(ToString::to_string);
            assert_eq!(read, expect.map_err(str::to_owned), "{path}");
            let place = check_inside_project(project.path(), Path::new(path));
            assert_eq!(place.map_err(|error| error.to_string()).err(), read.err(), "{path}");
        }
        for (path, is_fine) in [("new", true), ("real/new/new", true), ("way-out/new", false)] {
            assert_eq!(
                check_inside_project(project.path(), Path::new(path)).is_ok(),
                is_fine,
                "{path}"
            );
        }
        // A path outside of the project was chosen by the user.
        assert_eq!(read_within(project.path(), &secret, 99).expect("read"), b"secret");
        assert!(read_file(&at("within"), 99).is_err());
    }
}
