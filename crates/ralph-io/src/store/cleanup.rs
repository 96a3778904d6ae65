//! Finds and removes what old runs have left on the disk.
//!
//! Not here: which runs are old, and their refs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use ralph_model::ids::RunId;

use super::layout::{CACHE_DIRECTORY, ProjectLayout};

/// The name prefix of directories that are being removed.
const REMOVING_PREFIX: &str = ".removing-";

impl ProjectLayout {
    /// Removes the directory of a run. A crash in between leaves nothing that looks like a run.
    pub fn remove_run(&self, run: &RunId) -> io::Result<()> {
        let going = self.state().join(format!("{REMOVING_PREFIX}{run}"));
        fs::rename(self.run_dir(run).path(), &going)?;
        fs::remove_dir_all(&going)
    }

    /// Removes what is left of runs whose removal was interrupted.
    pub fn finish_removals(&self) {
        for entry in fs::read_dir(self.state()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(REMOVING_PREFIX) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Returns the session logs in the project that were last written before a time, with their
    /// sizes.
    pub fn find_old_session_logs(&self, before: SystemTime) -> Vec<(PathBuf, u64)> {
        find_old_files(&self.project_files().join("logs"), ("session-", ".log"), before)
    }

    /// Returns temporary files that a crash has left, like [`Self::find_old_session_logs`].
    pub fn find_stale_temp_files(&self, before: SystemTime) -> Vec<(PathBuf, u64)> {
        let project = self.project_files();
        let places = [self.state().to_owned(), project.join("handoffs"), project];
        places.iter().flat_map(|place| find_old_files(place, (".", ".tmp"), before)).collect()
    }

    /// Returns the cache directory of agents and gates, with its size, if it is not empty.
    pub fn measure_caches(&self) -> Option<(PathBuf, u64)> {
        let directory = self.state().join(CACHE_DIRECTORY);
        let bytes = measure_directory(&directory);
        (bytes > 0).then_some((directory, bytes))
    }
}

/// Returns the old files of a directory with this name prefix and suffix. Skips everything but
/// plain files.
fn find_old_files(
    directory: &Path,
    (lead, end): (&str, &str),
    before: SystemTime,
) -> Vec<(PathBuf, u64)> {
    if !directory.symlink_metadata().is_ok_and(|it| it.is_dir()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|it| it.strip_prefix(lead)?.strip_suffix(end));
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        let is_old = metadata.modified().is_ok_and(|it| it < before);
        if rest.is_some() && metadata.is_file() && is_old {
            found.push((entry.path(), metadata.len()));
        }
    }
    found.sort();
    found
}

/// Returns how many bytes the files below a directory have. Links do not count.
pub fn measure_directory(directory: &Path) -> u64 {
    let mut total = 0_u64;
    let mut places = vec![directory.to_owned()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.path().symlink_metadata() else { continue };
            if metadata.is_dir() {
                places.push(entry.path());
            } else if metadata.is_file() {
                total = total.saturating_add(metadata.len());
            }
        }
    }
    total
}
