//! Clears the setuid and setgid bits that an agent set on files of the project.
//!
//! Outside the sandbox such a file runs with the rights of its owner, for any user that starts it. Files that
//! had such a bit before the call are the user's.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many files are checked after a call: about 50 ms.
const MOST_ENTRIES: usize = 50_000;

/// How many names the warning lists.
const MOST_NAMED: usize = 5;

const BITS: u32 = 0o6000;

/// Clears the bits that were set since a time, and returns a warning about the files.
pub(crate) fn clear_new_bits(project: &Path, since: SystemTime) -> Option<String> {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let mut cleared = Vec::new();
    let (mut open, mut left) = (vec![project.to_owned()], MOST_ENTRIES);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return describe_files(project, &cleared);
            }
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                // There are as many object files as iterations, and git starts none of them.
                if !entry.path().ends_with(".git/objects") {
                    open.push(entry.path());
                }
            } else if about.is_file() && about.mode() & BITS != 0 && about.ctime() >= since {
                let mode = Permissions::from_mode(about.mode() & !BITS & 0o7777);
                let is_cleared = fs::set_permissions(entry.path(), mode).is_ok();
                cleared.push((entry.path(), is_cleared));
            }
        }
    }
    describe_files(project, &cleared)
}

fn describe_files(project: &Path, files: &[(std::path::PathBuf, bool)]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let names = files.iter().take(MOST_NAMED).map(|(path, is_cleared)| {
        let name = path.strip_prefix(project).unwrap_or(path).display();
        if *is_cleared { name.to_string() } else { format!("{name} (not cleared)") }
    });
    let names: Vec<String> = names.collect();
    let more = files.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "the agent set setuid or setgid bits, which ralph cleared: {}{more}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_bits_of_files_are_cleared() {
        let project = tempfile::tempdir().expect("a directory");
        let file = |name: &str, mode: u32| {
            let path = project.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(&path, "").expect("written");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            path
        };
        let (first, second) = (file("deep/in/a", 0o4755), file("b", 0o2755));
        let plain = file("c", 0o755);
        fs::set_permissions(project.path().join("deep"), Permissions::from_mode(0o2755))
            .expect("set");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
        let later = SystemTime::now() + std::time::Duration::from_secs(10);
        assert_eq!(clear_new_bits(project.path(), later), None);
        let warning = clear_new_bits(project.path(), UNIX_EPOCH).expect("a warning");
        assert!(warning.contains("deep/in/a") && warning.contains('b'), "{warning}");
        assert_eq!([&first, &second, &plain].map(|it| mode(it)), [0o755; 3]);
        assert_eq!(mode(&project.path().join("deep")), 0o2755);
        assert_eq!(clear_new_bits(project.path(), UNIX_EPOCH), None);
    }
}
