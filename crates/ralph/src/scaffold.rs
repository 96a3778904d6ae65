//! Writes fresh documents into a project without losing existing files.
//!
//! Not here: what the documents say.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::cli_error::CliError;

/// What to do with a file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Leave it as it is.
    Keep,
    /// Rename it to `.bak`.
    BackUp,
    Replace,
}

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScaffoldResult {
    New,
    /// It existed and was left as it is.
    Kept,
    /// It existed and was renamed to this path.
    BackedUp(PathBuf),
}

/// Creates a directory unless it exists. Refuses a link: git would not follow it either, so nothing
/// below it could be committed.
pub(crate) fn create_directory(path: &Path) -> Result<(), CliError> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(there) if there.is_symlink() => {
            Err(CliError::for_input(format!("`{name}` is a link, and must be a directory"))
                .with_hint("git does not follow links: files behind it could not be committed"))
        }
        Ok(_) => Err(CliError::for_input(format!("`{name}` is a file, and must be a directory"))
            .with_hint("move it away, then try again")),
        Err(_) => fs::create_dir(path)
            .map_err(|error| CliError::for_input(format!("cannot make `{name}`: {error}"))),
    }
}

/// Writes a file; `existing` says what to do with one that exists.
pub(crate) fn write_file(
    path: &Path,
    text: &str,
    existing: Existing,
) -> Result<ScaffoldResult, CliError> {
    let refused = |error: io::Error| {
        CliError::for_input(format!("cannot write `{}`: {error}", path.display()))
    };
    let is_there = fs::symlink_metadata(path).is_ok();
    let written = match (is_there, existing) {
        (false, _) => ScaffoldResult::New,
        (true, Existing::Keep) => return Ok(ScaffoldResult::Kept),
        (true, Existing::BackUp) => {
            let backup = find_unused_backup_path(path);
            fs::rename(path, &backup).map_err(refused)?;
            ScaffoldResult::BackedUp(backup)
        }
        (true, Existing::Replace) => {
            fs::remove_file(path).map_err(refused)?;
            ScaffoldResult::New
        }
    };
    // `create_new`: a file that another process has just created is not overwritten.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(refused)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = fs::remove_file(path);
        refused(error)
    })?;
    Ok(written)
}

/// Adds a line to a `.gitignore`, unless it is there. Returns whether it was added.
pub(crate) fn add_line(path: &Path, line: &str) -> Result<ScaffoldResult, CliError> {
    let refused = |error: io::Error| {
        CliError::for_input(format!("cannot write `{}`: {error}", path.display()))
    };
    let text = match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => fs::read(path).map_err(refused)?,
        // A link leads out of the project; its target is not changed.
        Ok(_) => return Ok(ScaffoldResult::Kept),
        Err(_) => Vec::new(),
    };
    if is_covered(&text, line) {
        return Ok(ScaffoldResult::Kept);
    }
    let gap = if text.is_empty() || text.ends_with(b"\n") { "" } else { "\n" };
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(refused)?;
    file.write_all(format!("{gap}{line}\n").as_bytes()).map_err(refused)?;
    Ok(ScaffoldResult::New)
}

/// Returns whether a `.gitignore` has a line already.
pub(crate) fn has_line(path: &Path, line: &str) -> bool {
    fs::read(path).is_ok_and(|text| is_covered(&text, line))
}

/// Returns whether the text has the line, with or without its slash, or the bare file name.
fn is_covered(text: &[u8], line: &str) -> bool {
    let plain = line.trim_start_matches('/');
    let all = plain.rsplit('/').next().unwrap_or(plain);
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .any(|known| [line, plain, all].iter().any(|it| it.as_bytes() == known))
}

/// Returns the first unused name for a backup: `a.bak`, then `a.2.bak`.
fn find_unused_backup_path(path: &Path) -> PathBuf {
    let with = |suffix: String| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    };
    let first = with(".bak".to_owned());
    let numbered = (2..).map(|number: u64| with(format!(".{number}.bak")));
    let mut free =
        std::iter::once(first.clone()).chain(numbered).filter(|it| it.symlink_metadata().is_err());
    free.next().unwrap_or(first)
}
