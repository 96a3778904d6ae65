//! The git directory of a clone, written by ralph: objects are borrowed, nothing leads to a server.
//!
//! Not here: the work tree.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;

use super::super::config::GitConfig;
use super::super::object_store::list_object_directories;
use super::super::repository::GitRepository;
use super::{find_project_in, remove_any};
use crate::bounded_read;

/// Hooks and lists of patterns are small.
const LARGEST_FILE: u64 = 1 << 20;

/// Settings that change how files are read and written. None of them starts a program: ralph calls git
/// in a clone outside of any sandbox, where an agent may have written any file and any attribute.
const COPIED_KEYS: [&str; 11] = [
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.longpaths",
    "core.precomposeunicode",
    "core.excludesfile",
    "core.attributesfile",
    "core.hookspath",
];

/// A section that is copied completely.
const COPIED_SECTION: &str = "user.";

/// What HEAD of a clone is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloneHead<'a> {
    Branch {
        name: &'a str,
        commit: &'a str,
    },
    Detached {
        commit: &'a str,
    },
    /// There is no commit.
    Unborn,
}

impl<'a> CloneHead<'a> {
    pub(super) fn new(commit: &'a str, branch: Option<&'a str>) -> Self {
        match branch {
            Some(name) => {
                Self::Branch { name: name.strip_prefix("refs/heads/").unwrap_or(name), commit }
            }
            None => Self::Detached { commit },
        }
    }
}

/// A git directory to be made.
#[derive(Debug)]
pub(super) struct NewGitDir<'a> {
    /// The repository of the project.
    pub(super) source: &'a GitRepository,
    pub(super) git_dir: &'a Path,
    /// The work tree that it is for.
    pub(super) top: &'a Path,
    pub(super) head: CloneHead<'a>,
    /// The object directories that it borrows from.
    pub(super) objects: Vec<PathBuf>,
}

impl NewGitDir<'_> {
    /// Makes the directory, in place of any that is there, and returns the repository. Its
    /// commands use this directory whatever `.git` in the work tree is.
    pub(super) fn create(self) -> Result<GitRepository, VcsError> {
        let config = self.build_config();
        self.write_files(&config).map_err(|error| VcsError {
            message: format!("cannot write `{}`: {error}", self.git_dir.display()),
        })?;
        let mut clone = GitRepository::new(
            self.source.commands.for_clones(),
            find_project_in(self.source, self.top),
            (self.top.to_owned(), self.git_dir.to_owned()),
            GitConfig { values: config, ..GitConfig::default() },
        );
        clone.has_fixed_dir = true;
        Ok(clone)
    }

    fn write_files(&self, config: &[(String, String)]) -> io::Result<()> {
        let at = |name: &str| self.git_dir.join(name);
        remove_any(self.git_dir)?;
        for directory in ["objects/info", "objects/pack", "refs/heads", "info", "hooks"] {
            fs::create_dir_all(at(directory))?;
        }
        fs::write(at("config"), format_config(config))?;
        fs::write(at("objects/info/alternates"), format_alternates(&self.objects)?)?;
        let head = match self.head {
            CloneHead::Branch { name, commit } => {
                let path = at("refs/heads").join(name);
                fs::create_dir_all(path.parent().unwrap_or(&path))?;
                fs::write(path, format!("{commit}\n"))?;
                format!("ref: refs/heads/{name}\n")
            }
            CloneHead::Detached { commit } => format!("{commit}\n"),
            CloneHead::Unborn => "ref: refs/heads/none\n".to_owned(),
        };
        fs::write(at("HEAD"), head)?;
        let common = self.source.common_dir();
        for name in ["info/exclude", "info/attributes"] {
            if let Ok(content) = bounded_read::read_beginning(&common.join(name), LARGEST_FILE) {
                fs::write(at(name), content)?;
            }
        }
        for entry in fs::read_dir(common.join("hooks")).into_iter().flatten().flatten() {
            let is_sample = Path::new(&entry.file_name()).extension() == Some("sample".as_ref());
            if !is_sample
                && let Ok(content) = bounded_read::read_beginning(&entry.path(), LARGEST_FILE)
            {
                let target = at("hooks").join(entry.file_name());
                fs::write(&target, content)?;
                let mode = fs::metadata(entry.path())?.permissions().mode();
                fs::set_permissions(&target, Permissions::from_mode(mode & 0o755))?;
            }
        }
        Ok(())
    }

    /// Returns the settings of the clone, with names as git prints them.
    fn build_config(&self) -> Vec<(String, String)> {
        let source = self.source;
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut config = match source.config.find("extensions.objectformat") {
            Some(format) => vec![
                setting("core.repositoryformatversion", "1"),
                setting("extensions.objectformat", format),
            ],
            None => vec![setting("core.repositoryformatversion", "0")],
        };
        config.push(setting("core.bare", "false"));
        config.push(setting("commit.gpgsign", "false"));
        for (name, value) in &source.config.values {
            if name == "core.hookspath" {
                config.extend(find_inside(&source.top, value).map(|inside| (name.clone(), inside)));
            } else if COPIED_KEYS.contains(&name.as_str()) || name.starts_with(COPIED_SECTION) {
                config.push(setting(name, value));
            }
        }
        config
    }
}

/// Returns the object directory of a repository and those that it borrows from.
pub fn find_object_directories(repository: &GitRepository) -> Vec<PathBuf> {
    list_object_directories(repository.common_dir().join("objects"))
}

/// Returns a directory of hooks as a path from the top, if it is in the project.
fn find_inside(top: &Path, directory: &str) -> Option<String> {
    if directory.starts_with('~') {
        return None;
    }
    let path = top.join(directory);
    let is_outside = path.components().any(|it| it == std::path::Component::ParentDir);
    let inside = path.strip_prefix(top).ok().filter(|_| !is_outside)?;
    inside.to_str().filter(|it| !it.is_empty()).map(str::to_owned)
}

fn format_alternates(directories: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for directory in directories {
        let path = directory.as_os_str().as_bytes();
        if path.contains(&b'\n') {
            return Err(io::Error::other("the path of the project has a line break"));
        }
        text.extend_from_slice(path);
        text.push(b'\n');
    }
    Ok(text)
}

/// Formats a configuration file. Names are `section.key` or `section.subsection.key`.
fn format_config(config: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in config {
        let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
        let section = match section.split_once('.') {
            Some((section, subsection)) => format!("{section} \"{}\"", escape(subsection)),
            None => section.to_owned(),
        };
        let value = escape(value).replace('\n', "\\n").replace('\t', "\\t");
        text += &format!("[{section}]\n\t{key} = \"{value}\"\n");
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_git_reads_them() {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let text = format_config(&[
            setting("core.bare", "false"),
            setting("filter.a.b.clean", "x \"y\" \\z\n#"),
        ]);
        let expect =
            "[core]\n\tbare = \"false\"\n[filter \"a.b\"]\n\tclean = \"x \\\"y\\\" \\\\z\\n#\"\n";
        assert_eq!(text, expect);
    }

    #[test]
    fn hooks_are_used_only_inside_the_project() {
        let top = Path::new("/p");
        for (directory, expect) in [
            (".husky", Some(".husky")),
            ("/p/.githooks", Some(".githooks")),
            ("/etc/hooks", None),
            ("../hooks", None),
            ("~/hooks", None),
            ("/p", None),
        ] {
            assert_eq!(find_inside(top, directory).as_deref(), expect, "{directory}");
        }
    }
}
