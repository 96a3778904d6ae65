//! The files of the project that gate commands run, and which of them are protected.
//!
//! Not here: the settings and the files with the agents' instructions, which are protected too; and
//! what follows from a change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

use ralph_guard::{ScriptLocation, ShellState, find_scripts};
use ralph_io::bounded_read;
use ralph_io::process::Watch;
use ralph_model::glob::Pattern;

use crate::project::Project;

/// Directories that package managers and builds fill. Files there that git ignores are replaced by
/// every installation or build, so they are not protected.
const GENERATED: [&str; 18] = [
    "node_modules",
    ".venv",
    "venv",
    "env",
    ".tox",
    ".nox",
    "vendor",
    ".bundle",
    "__pypackages__",
    ".direnv",
    ".pixi",
    "target",
    "build",
    "_build",
    ".build",
    "dist",
    "out",
    "zig-out",
];

/// Longest chain of links that is followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// Most files matched against a pattern; a larger directory is not a directory of scripts.
const MOST_ENTRIES: usize = 10_000;

/// Bytes of a file that show whether it is a compiled program.
const SNIFFED_BYTES: u64 = 1024;

/// Returns the files of the project that are protected because gates run them, with every link on
/// the way to them, relative to the project directory. Skips installed and built programs.
pub(crate) fn find_protected_scripts<'a>(
    project: &Project,
    commands: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let start = ShellState {
        cwd: project.directory.to_string_lossy().into_owned(),
        home: env::var("HOME").ok(),
        variables: BTreeMap::new(),
    };
    let places = commands.flat_map(|command| find_scripts(command, &start));
    let named = places.flat_map(|place| match place {
        ScriptLocation::File(path) => vec![path],
        ScriptLocation::Matching { directory, pattern } => {
            find_matching(project, &directory, &pattern)
        }
    });
    let files: BTreeSet<PathBuf> =
        named.flat_map(|file| follow_links(&project.directory, &file)).collect();
    let generated: Vec<PathBuf> =
        files.iter().filter(|file| is_generated(&project.directory, file)).cloned().collect();
    let spared: BTreeSet<PathBuf> = if generated.is_empty() {
        BTreeSet::new()
    } else {
        match project.find_repository(&Watch::new_detached()) {
            Ok(Some(repository)) => repository.find_ignored(&generated),
            // Without git there is no sign that they belong to the project.
            Ok(None) | Err(_) => generated.into_iter().collect(),
        }
    };
    let files = files.iter().filter(|file| !spared.contains(*file));
    let named = files.filter_map(|file| file.strip_prefix(&project.directory).ok());
    named.map(|file| file.to_string_lossy().into_owned()).collect()
}

/// Returns the file that a path leads to and the links on the way, those inside the project only.
/// Empty if there is no such file.
fn follow_links(project: &Path, script: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = project.to_owned();
    let mut rest: Vec<PathBuf> = reverse_components(script);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        at.push(&part);
        let Ok(target) = fs::read_link(&at) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return Vec::new();
        }
        found.push(at.clone());
        at.pop();
        rest.extend(reverse_components(&target));
    }
    if !at.is_file() {
        return Vec::new();
    }
    found.push(at);
    found.retain(|file| file.starts_with(project));
    found
}

/// Returns the components of a path, last one first. An absolute path includes the root.
fn reverse_components(path: &Path) -> Vec<PathBuf> {
    let steps = path.components().filter(|it| *it != Component::CurDir);
    steps.rev().map(|it| PathBuf::from(it.as_os_str())).collect()
}

/// Returns whether a file looks like the output of an installation or a build.
pub(crate) fn is_generated(project: &Path, file: &Path) -> bool {
    let below = file.strip_prefix(project).unwrap_or(file);
    let is_known = |it: Component<'_>| GENERATED.iter().any(|name| it.as_os_str() == *name);
    let is_environment = |it: &Path| it.starts_with(project) && it.join("pyvenv.cfg").is_file();
    below.components().rev().skip(1).any(is_known)
        || file.ancestors().skip(1).any(is_environment)
        || bounded_read::read_file(file, SNIFFED_BYTES).is_ok_and(|start| start.contains(&0))
}

/// Returns the files below a directory of the project whose paths match.
fn find_matching(project: &Project, directory: &Path, pattern: &Pattern) -> Vec<PathBuf> {
    if !directory.starts_with(&project.directory) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    let mut looked_at = 0;
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MOST_ENTRIES {
                return found;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let is_skipped = name == ".git" || GENERATED.iter().any(|it| name == *it);
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                open.extend(Some(path).filter(|_| !is_skipped));
            } else if let Ok(below) = path.strip_prefix(directory)
                && pattern.matches(&below.to_string_lossy())
            {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_followed_through_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().canonicalize().expect("there");
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, project.join(name)).expect("a link");
        };
        fs::create_dir_all(project.join("tools/ci")).expect("made");
        fs::write(project.join("tools/ci/real.sh"), "true").expect("written");
        link("tools/ci", "ci");
        link("ci/real.sh", "check.sh");
        link("/usr/bin/env", "outside");
        link("loop", "loop");
        for (script, expect) in [
            ("tools/ci/real.sh", &["tools/ci/real.sh"] as &[&str]),
            ("check.sh", &["check.sh", "ci", "tools/ci/real.sh"]),
            ("tools/../ci/real.sh", &["ci", "tools/ci/real.sh"]),
            ("outside", &["outside"]),
            ("loop", &[]),
            ("missing.sh", &[]),
            ("tools", &[]),
        ] {
            let expect: Vec<PathBuf> = expect.iter().map(|it| project.join(it)).collect();
            assert_eq!(follow_links(&project, Path::new(script)), expect, "{script}");
        }
    }

    #[test]
    fn installed_and_built_programs_are_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        let file = |path: &str, content: &[u8]| {
            let path = project.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, content).expect("written");
        };
        file("python-env/pyvenv.cfg", b"");
        for (path, content, expect) in [
            ("check.sh", b"true" as &[u8], false),
            ("local/check", b"true", false),
            ("target", b"true", false),
            ("node_modules/.bin/jest", b"#!/usr/bin/env node", true),
            ("web/node_modules/.bin/jest", b"#!/usr/bin/env node", true),
            ("python-env/bin/pytest", b"#!/bin/sh", true),
            ("bin/app", b"\x7fELF\x02\x01\x01\x00", true),
        ] {
            file(path, content);
            assert_eq!(is_generated(project, &project.join(path)), expect, "{path}");
        }
    }
}
