//! Files for one call in a VM, which shares directories and no single files.
//!
//! A copy of each goes into a shared directory, and its path in the child's arguments and variables
//! is replaced by that of the copy. Files that the child may write are copied back when it has
//! ended, if they are regular files of limited size: a process inside may have replaced them with
//! anything. Not here: the VM.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bounded_read;
use crate::process::Spawn;
use crate::sandbox::launcher::HandedFiles;
use crate::store::layout::{create_private_directories, hash_fnv1a, write_json};

/// More than any prompt or answer.
const LARGEST: u64 = 16 << 20;

/// The note of what is to be copied back.
const NOTE: &str = "back.json";

/// What is to be copied back, with the path of each copy.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CopyBackNote {
    files: Vec<(PathBuf, PathBuf)>,
}

/// Copies files in, and returns the child with the paths of the copies.
pub(super) fn copy_in(
    spawn: Spawn,
    handed: &HandedFiles,
    outside: &[(PathBuf, PathBuf)],
    directory: &Path,
    is_shared: impl Fn(&Path) -> bool,
) -> io::Result<Spawn> {
    // The files of the last call are of no use to this one.
    let _ = fs::remove_dir_all(directory);
    create_private_directories(directory)?;
    let there = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter(|path| path.exists() && !is_shared(path)).cloned().collect()
    };
    let (readable, writable) = (there(&handed.readable), there(&handed.writable));
    let mut names: Vec<(PathBuf, PathBuf)> = outside.to_vec();
    let all = readable.iter().chain(&writable);
    names.extend(all.map(|path| (path.clone(), choose_copy_path(directory, path))));
    // The longest first: one path may be a prefix of another.
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
    for path in readable.iter().chain(&writable) {
        copy_with_paths(path, &choose_copy_path(directory, path), &names)?;
    }
    let files = writable.iter().filter(|path| path.is_file());
    let back = CopyBackNote {
        files: files.map(|it| (choose_copy_path(directory, it), it.clone())).collect(),
    };
    if !back.files.is_empty() {
        let note = directory.with_extension(NOTE);
        write_json(&note, &back).map_err(|error| io::Error::other(error.to_string()))?;
    }
    let renamed = |word: &OsStr| replace_paths(word, &names);
    Ok(Spawn {
        program: renamed(&spawn.program),
        args: spawn.args.iter().map(|word| renamed(word)).collect(),
        env: spawn.env.iter().map(|(name, value)| (name.clone(), renamed(value))).collect(),
        ..spawn
    })
}

/// Copies back the files that the child may write.
pub(in crate::sandbox) fn copy_back(directory: &Path) {
    let note = directory.with_extension(NOTE);
    let Ok(text) = fs::read(&note) else { return };
    let back: CopyBackNote = serde_json::from_slice(&text).unwrap_or_default();
    for (copy, path) in back.files {
        if let Ok(bytes) = bounded_read::read_within(directory, &copy, LARGEST) {
            // A missing answer is noticed by the code that reads it.
            let _ = fs::write(path, bytes);
        }
    }
    let _ = fs::remove_file(note);
}

/// Returns the path for the copy of a file. Files of one directory stay in one.
fn choose_copy_path(directory: &Path, path: &Path) -> PathBuf {
    let above = path.parent().unwrap_or(path).as_os_str().as_encoded_bytes();
    let name = path.file_name().unwrap_or_default();
    directory.join(format!("{:08x}", hash_fnv1a(above) & 0xffff_ffff)).join(name)
}

/// Copies a file or a whole directory, with the paths in it replaced.
fn copy_with_paths(from: &Path, to: &Path, names: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_with_paths(&entry.path(), &to.join(entry.file_name()), names)?;
        }
        return Ok(());
    }
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    let bytes = fs::read(from)?;
    let mode = fs::metadata(from)?.permissions();
    match String::from_utf8(bytes) {
        Ok(text) => fs::write(to, replace_paths(OsStr::new(&text), names).as_encoded_bytes())?,
        Err(other) => fs::write(to, other.into_bytes())?,
    }
    fs::set_permissions(to, mode)
}

/// Returns a text with the paths replaced by those inside.
fn replace_paths(word: &OsStr, names: &[(PathBuf, PathBuf)]) -> OsString {
    let Some(text) = word.to_str() else { return word.to_owned() };
    let mut text = text.to_owned();
    for (path, inside) in names {
        if let (Some(path), Some(inside)) = (path.to_str(), inside.to_str())
            && text.contains(path)
        {
            // The path of a copy must not be replaced again.
            let parts: Vec<&str> = text.split(inside).collect();
            let parts: Vec<String> = parts.iter().map(|part| part.replace(path, inside)).collect();
            text = parts.join(inside);
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{ProcessLimits, StdinSource};

    #[test]
    fn a_child_gets_copies_and_its_writes_are_copied_back() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        for name in ["run/plugin/hooks", "project"] {
            fs::create_dir_all(at(name)).expect("a directory");
        }
        for (name, text) in [
            ("run/prompt.md", "the prompt"),
            ("run/answer.md", ""),
            ("run/secret.md", "the answer of a link"),
            ("run/plugin/hooks/hooks.json", "{\"command\": \"/opt/ralph hook\"}"),
            ("project/own.md", "shared"),
        ] {
            fs::write(at(name), text).expect("written");
        }
        let handed = HandedFiles {
            readable: vec![at("run/prompt.md"), at("run/plugin"), at("project/own.md")],
            writable: vec![at("run/answer.md"), at("run/absent.md")],
        };
        let word = |text: String| OsString::from(text);
        let spawn = Spawn {
            program: "/opt/ralph".into(),
            args: vec![
                word(format!("--prompt={}", at("run/prompt.md").display())),
                word(format!("{}", at("run/answer.md").display())),
                word(format!("{}", at("project/own.md").display())),
            ],
            cwd: at("project"),
            env: vec![("PLUGIN".into(), at("run/plugin").into())],
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        };
        let directory = at("run/vm");
        let outside = [(PathBuf::from("/opt/ralph"), at("run/bin/ralph"))];
        let is_shared = |path: &Path| path.starts_with(at("project"));
        let spawn = copy_in(spawn, &handed, &outside, &directory, is_shared).expect("handed in");
        assert_eq!(spawn.program, at("run/bin/ralph"));
        assert_eq!(spawn.args[2], at("project/own.md"), "what is shared keeps its name");
        let prompt = spawn.args[0].to_str().expect("text").strip_prefix("--prompt=");
        assert_eq!(fs::read_to_string(prompt.expect("a path")).expect("a copy"), "the prompt");
        let hooks = Path::new(&spawn.env[0].1).join("hooks/hooks.json");
        let hooks = fs::read_to_string(hooks).expect("a copy");
        assert!(
            hooks.contains(&format!("{}/run/bin/ralph hook", root.path().display())),
            "{hooks}"
        );
        fs::write(&spawn.args[1], "an answer").expect("written");
        copy_back(&directory);
        assert_eq!(fs::read_to_string(at("run/answer.md")).expect("there"), "an answer");
        // A link to a file that only ralph may read.
        fs::write(at("run/answer.md"), "").expect("written");
        let again = Spawn { args: vec![at("run/answer.md").into()], ..spawn };
        let again = copy_in(again, &handed, &outside, &directory, is_shared).expect("handed in");
        fs::remove_file(&again.args[0]).expect("removed");
        std::os::unix::fs::symlink(at("run/secret.md"), &again.args[0]).expect("a link");
        copy_back(&directory);
        assert_eq!(fs::read_to_string(at("run/answer.md")).expect("there"), "");
    }
}
