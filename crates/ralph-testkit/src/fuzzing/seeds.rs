//! Where the seeds of a target are.

use std::fs;
use std::path::{Path, PathBuf};

use super::FuzzTarget;

/// More of a seed says nothing new; recorded streams may be long.
const LONGEST: usize = 32 * 1024;

/// Tables have a seed in every line, after a tab; a sign in it stands for a newline.
const TABLES: &str = "crates/ralph-guard/tests/data";

/// Returns the seeds of a target with their names, in the order of their paths.
pub fn read_seeds(target: &FuzzTarget, root: &Path) -> Vec<(String, Vec<u8>)> {
    let kept = format!("fuzz/seeds/{}", target.name);
    let mut files = Vec::new();
    for place in target.seeds.iter().copied().chain([kept.as_str()]) {
        collect(&root.join(place), &mut files);
    }
    files.sort();
    let mut seeds = Vec::new();
    for path in files {
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if name.starts_with(TABLES) {
            let text = String::from_utf8_lossy(&bytes);
            let said = text.lines().filter_map(|line| line.split_once('\t'));
            let said = said.map(|(_, said)| said.replace('\u{23ce}', "\n").into_bytes());
            seeds.extend(said.map(|said| (name.clone(), said)));
        } else {
            bytes.truncate(LONGEST);
            seeds.push((name, bytes));
        }
    }
    seeds
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if path.is_file() => files.push(path.to_owned()),
        Err(_) => {}
    }
}
