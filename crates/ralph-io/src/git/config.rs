//! git's configuration for a repository, read once with all files that it includes.
//!
//! Not here: what the values mean for commits (`identity`).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;

use super::command::{GitCommand, GitCommands};
use super::diff::split_at_zeros;

/// The configuration when the repository was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitConfig {
    /// Names in lower case, with their values, in git's order: the last one counts.
    pub(super) values: Vec<(String, String)>,
    /// The files that it is read from, except those of the repository itself.
    pub(super) files: BTreeSet<PathBuf>,
    /// The files that it would include, existing or not.
    pub(super) includes: Vec<PathBuf>,
}

/// What a shell may write around the name of a program.
const AROUND_WORDS: [char; 11] = ['\'', '"', '(', ')', '{', '}', ';', '&', '|', '!', '`'];

impl GitConfig {
    /// Reads the configuration outside of any sandbox.
    pub(super) fn read(commands: &GitCommands, project: &Path) -> Result<Self, VcsError> {
        let call = GitCommand::new_user_call("git", project).with_env("LC_ALL", "C").with_args([
            "config",
            "--list",
            "--show-origin",
            "-z",
        ]);
        Ok(Self::parse(&commands.run_for_output(call.without_sandbox())?, project))
    }

    /// Parses pairs of an origin and a name with its value.
    fn parse(printed: &[u8], project: &Path) -> Self {
        let mut config = Self::default();
        let fields: Vec<&[u8]> = split_at_zeros(printed).collect();
        for pair in fields.chunks_exact(2) {
            let origin = pair[0].strip_prefix(b"file:").map(|it| Path::new(OsStr::from_bytes(it)));
            config.files.extend(origin.filter(|it| it.is_absolute()).map(Path::to_owned));
            let text = String::from_utf8_lossy(pair[1]);
            // A name without a value means true.
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            if name == "include.path" || name.starts_with("includeif.") {
                let directory = origin.and_then(Path::parent).map(|it| project.join(it));
                config.includes.extend(directory.map(|it| it.join(value)));
            }
            config.values.push((name.to_owned(), value.to_owned()));
        }
        config
    }

    /// Returns a value. Section and key of the name are in lower case.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the files that it names in any way: those it includes, existing or not, and the
    /// existing ones among its values, which git may start. Relative ones are looked up in `top`.
    pub(super) fn list_named_files(&self, top: &Path) -> Vec<PathBuf> {
        let words = self.values.iter().flat_map(|(_, value)| value.split_whitespace());
        let words = words.map(|word| word.trim_matches(AROUND_WORDS)).filter(|it| !it.is_empty());
        let named = words.map(|word| top.join(word)).filter(|path| path.is_file());
        self.includes.iter().cloned().chain(named).collect()
    }

    /// Returns the names of the hooks that it has.
    pub(super) fn list_hook_names(&self) -> BTreeSet<&str> {
        let names = self
            .values
            .iter()
            .filter_map(|(name, _)| Some(name.strip_prefix("hook.")?.rsplit_once('.')?.0));
        names.collect()
    }

    /// Returns whether a value means true.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.find(name).is_some_and(is_true)
    }
}

/// Returns whether git takes a value for true.
pub(super) fn is_true(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    ["true", "yes", "on"].contains(&value.as_str())
        || value.parse::<i64>().is_ok_and(|number| number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_files_are_listed() {
        let printed = b"file:/home/u/.gitconfig\0user.name\nA\nB\0file:.git/config\0core.bare\0\
            command line:\0core.bare\nfalse\0file:/home/u/.gitconfig\0empty.value\n\0";
        let config = GitConfig::parse(printed, Path::new("/p"));
        assert_eq!(config.find("user.name"), Some("A\nB"));
        assert!(!config.is_true("core.bare"));
        assert_eq!(config.find("empty.value"), Some(""));
        assert_eq!(config.find("core.worktree"), None);
        assert_eq!(config.files, BTreeSet::from([PathBuf::from("/home/u/.gitconfig")]));
        for (value, expect) in
            [("true", true), ("ON", true), ("1", true), ("0", false), ("no", false), ("", false)]
        {
            assert_eq!(is_true(value), expect, "{value:?}");
        }
    }
}
