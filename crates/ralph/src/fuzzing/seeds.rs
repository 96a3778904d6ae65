//! Where the seeds of a target are.

use std::fs;
use std::path::{Path, PathBuf};

use super::Target;

/// More of a seed says nothing new; recorded streams may be long.
const LONGEST: usize = 32 * 1024;

/// Returns the seeds of a target with their names, in the order of their paths.
pub(super) fn seeds(target: &Target, root: &Path) -> Vec<(String, Vec<u8>)> {
    let kept = format!("fuzz/seeds/{}", target.name);
    let mut files = Vec::new();
    for place in target.seeds.iter().copied().chain([kept.as_str()]) {
        collect(&root.join(place), &mut files);
    }
    files.sort();
    let named = files.into_iter().filter_map(|path| {
        let mut bytes = fs::read(&path).ok()?;
        bytes.truncate(LONGEST);
        let path = path.strip_prefix(root).unwrap_or(&path);
        Some((path.display().to_string(), bytes))
    });
    named.collect()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if path.is_file() => files.push(path.to_owned()),
        Err(_) => {}
    }
}
