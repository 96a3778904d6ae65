//! The files that a program needs to start: its links, itself, and the interpreters of its `#!`
//! line; and which of them a sandbox has to show.
//!
//! Not here: the files that a program opens later.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// A program has a few links and interpreters; more are a loop.
const MOST_FILES: usize = 16;

/// The kernel reads this much of a `#!` line.
const LONGEST_LINE: usize = 256;

/// Directories in the home with credentials; nothing in them is shown because a program is there.
const PRIVATE: [&str; 6] = [".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store"];

/// Directories in the home that belong to many programs.
const SHARED: [&str; 5] = [".local", ".local/share", ".local/state", ".config", ".cache"];

/// Lists the paths that the start of a program goes through, under the names that are used.
/// `path` is the `PATH`.
pub(super) fn list_program_files(program: &Path, path: &OsStr) -> Vec<PathBuf> {
    let (mut files, mut waiting) = (Vec::new(), vec![normalize(program)]);
    while let Some(file) = waiting.pop() {
        if files.contains(&file) || files.len() == MOST_FILES {
            continue;
        }
        match fs::read_link(&file) {
            Ok(target) => {
                waiting.push(normalize(&file.parent().unwrap_or(&file).join(target)));
            }
            Err(_) => waiting.extend(find_interpreters(&file, path)),
        }
        files.push(file);
    }
    files
}

/// Returns the part of a hidden directory that has to be shown for a file in it: the installation
/// that the file belongs to, or the file alone.
pub(super) fn find_shown_part(hidden: &Path, file: &Path) -> Option<PathBuf> {
    let below = file.strip_prefix(hidden).ok().filter(|it| !it.as_os_str().is_empty())?;
    if PRIVATE.iter().any(|name| below.starts_with(name)) {
        return None;
    }
    let modules = below.ancestors().filter(|it| it.ends_with("node_modules")).last();
    if let Some(modules) = modules.filter(|it| it.components().count() > 1) {
        return Some(hidden.join(modules));
    }
    let directory = below.parent()?;
    let (is_bin, is_hidden) =
        (directory.ends_with("bin"), below.as_os_str().as_bytes().starts_with(b"."));
    // A directory directly in the home, such as `~/bin` or `~/projects`, may hold anything.
    let whole = match directory.parent() {
        Some(prefix) if is_bin && (is_hidden || prefix.components().count() > 1) => prefix,
        Some(_) | None => directory,
    };
    let depth = whole.components().count();
    let is_deep = depth > 1 || (depth == 1 && is_bin && is_hidden);
    let is_own = is_deep && !SHARED.iter().any(|name| whole == Path::new(name));
    Some(hidden.join(if is_own { whole } else { below }))
}

/// Returns the programs that a `#!` line names: the interpreter, and with `env` the program that
/// it looks up.
fn find_interpreters(file: &Path, path: &OsStr) -> Vec<PathBuf> {
    let mut start = Vec::new();
    let read =
        File::open(file).and_then(|file| file.take(LONGEST_LINE as u64).read_to_end(&mut start));
    let Some(line) = read.ok().and_then(|_| start.strip_prefix(b"#!")) else { return Vec::new() };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words =
        line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty()).map(OsStr::from_bytes);
    let Some(interpreter) = words.next().map(PathBuf::from).filter(|it| it.is_absolute()) else {
        return Vec::new();
    };
    let is_env = interpreter.ends_with("env");
    let mut found = vec![normalize(&interpreter)];
    let is_option = |it: &&OsStr| it.as_bytes().starts_with(b"-") || it.as_bytes().contains(&b'=');
    if let Some(name) = words.find(|it| !is_option(it)).filter(|_| is_env) {
        found.extend(find_on_path(name, path));
    }
    found
}

fn find_on_path(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let directories = std::env::split_paths(path).filter(|it| it.is_absolute());
    directories.map(|it| it.join(name)).find(|it| it.is_file())
}

/// Returns a path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut parts: Vec<OsString> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir if parts.len() > 1 => drop(parts.pop()),
            Component::ParentDir | Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                parts.push(part.as_os_str().to_owned());
            }
        }
    }
    parts.iter().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_interpreters_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("there");
        for (name, text) in [
            ("lib/agent.js", "#!/usr/bin/env -S node --flag\n"),
            ("node/bin/node", "\u{7f}ELF"),
            ("loop", "#!/nowhere/x\n"),
        ] {
            let file = root.join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            fs::write(file, text).expect("written");
        }
        fs::create_dir(root.join("bin")).expect("a directory");
        symlink("../lib/agent.js", root.join("bin/agent")).expect("a link");
        symlink("self", root.join("self")).expect("a link");
        let path = root.join("node/bin").into_os_string();
        let files = list_program_files(&root.join("bin/agent"), &path);
        for name in ["bin/agent", "lib/agent.js", "node/bin/node"] {
            assert!(files.contains(&root.join(name)), "{name}: {files:?}");
        }
        assert!(files.contains(&"/usr/bin/env".into()), "{files:?}");
        assert_eq!(list_program_files(&root.join("self"), &path), [root.join("self")]);
        let absent = [root.join("loop"), "/nowhere/x".into()];
        assert_eq!(list_program_files(&root.join("loop"), &path), absent);
    }

    #[test]
    fn the_installation_of_a_program_is_shown_and_no_more() {
        let home = Path::new("/home/u");
        for (file, expect) in [
            ("agent", Some("agent")),
            (".agent", Some(".agent")),
            (".tools/agent", Some(".tools/agent")),
            ("hid/agent.sh", Some("hid/agent.sh")),
            ("bin/agent", Some("bin/agent")),
            (".local/bin/agent", Some(".local/bin/agent")),
            ("projects/bin/agent", Some("projects/bin")),
            ("a/tools/bin/agent", Some("a/tools")),
            (".tools/bin/agent", Some(".tools")),
            ("else/lib/agent", Some("else/lib")),
            (".local/share/claude/versions/2.0", Some(".local/share/claude/versions")),
            (".local/share/agent", Some(".local/share/agent")),
            (".local/share/pipx/venvs/aider/bin/aider", Some(".local/share/pipx/venvs/aider")),
            (".npm-g/lib/node_modules/@x/cli/bin/cli.js", Some(".npm-g/lib/node_modules")),
            ("p/node_modules/a/node_modules/b/cli.js", Some("p/node_modules")),
            ("node_modules/.bin/x", Some("node_modules/.bin")),
            (".ssh/bin/agent", None),
            ("", None),
        ] {
            let shown = find_shown_part(home, &home.join(file));
            assert_eq!(shown, expect.map(|it| home.join(it)), "{file}");
        }
        assert_eq!(find_shown_part(home, Path::new("/usr/bin/env")), None);
    }
}
