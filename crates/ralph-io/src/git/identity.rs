//! The author and signature of commits: the user's, as git is configured for this repository.
//!
//! Everything here runs outside the sandbox, where all of the user's configuration can be read,
//! included files as well. Not here: making commits.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand};
use super::config::GitConfig;
use super::repository::GitRepository;
use crate::bounded_read;

/// Name and email address of an author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) name: String,
    pub(super) email: String,
}

/// How commits are signed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitSigning {
    /// Whether commits are signed at all.
    pub(super) is_wanted: bool,
    /// The settings that select the program and the key, as `name=value`. They are passed to git
    /// with every signed commit, so that a file included by the configuration cannot name another
    /// program later: an agent may be able to write that file.
    pub(super) settings: Vec<String>,
}

impl CommitSigning {
    /// Returns what the configuration says.
    pub(super) fn from_config(config: &GitConfig) -> Self {
        let is_about_signing = |name: &str| name.starts_with("gpg.") || name == "user.signingkey";
        let settings = config.values.iter().filter(|(name, _)| is_about_signing(name));
        Self {
            is_wanted: config.is_true("commit.gpgsign"),
            settings: settings.map(|(name, value)| format!("{name}={value}")).collect(),
        }
    }
}

impl GitRepository {
    /// Fails if git does not know who the user is, or cannot sign although signing is configured.
    pub fn check_identity(&self) -> Result<(), VcsError> {
        let variables = ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"];
        for variable in variables.into_iter().filter(|_| !self.has_plain_identity()) {
            let ran =
                self.commands.run(self.build_plumbing(&["var", variable]).without_sandbox())?;
            if ran.code != 0 {
                let message = ran.to_error().message;
                let message = format!("git does not know who commits here: {message}");
                return Err(VcsError { message });
            }
        }
        let signing = CommitSigning::from_config(&self.config);
        if !signing.is_wanted {
            return Ok(());
        }
        // A commit on no branch, which git removes by itself some day.
        let tree = self.empty_tree()?;
        let call = self
            .build_plumbing(&["commit-tree", "-S", &tree])
            .with_config(&signing.settings)
            .without_sandbox();
        let ran = self.commands.run(call.with_stdin(b"ralph: signature test\n".to_vec()))?;
        if ran.code == 0 { Ok(()) } else { Err(build_signing_error(&ran)) }
    }

    /// Returns whether names and addresses are set, so that git has no reason to refuse them.
    fn has_plain_identity(&self) -> bool {
        ["author", "committer"].into_iter().all(|role| {
            self.find_person(role).is_some_and(|Author { name, email }| {
                [name, email].iter().all(|it| it.contains(char::is_alphanumeric))
            })
        })
    }

    /// Returns the name and address that are set for the author or the committer. None if one is
    /// missing, or if the environment also sets the date.
    pub(super) fn find_person(&self, role: &str) -> Option<Author> {
        let env = self.commands.users_env();
        let variable = |key: &str| {
            let name = format!("GIT_{role}_{key}").to_uppercase();
            let found = env.iter().find(|(known, _)| known.to_str() == Some(&name));
            found.map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let value = |key: &str| {
            let own = || self.config.find(&format!("{role}.{key}"));
            let usual = || self.config.find(&format!("user.{key}"));
            variable(key).or_else(|| own().or_else(usual).map(str::to_owned))
        };
        match (variable("date"), value("name"), value("email")) {
            (None, Some(name), Some(email)) => Some(Author { name, email }),
            (Some(_) | None, _, _) => None,
        }
    }

    /// Returns the files that git's configuration is read from, included files as well, except
    /// those of the repository itself.
    pub fn config_files(&self) -> Vec<PathBuf> {
        self.config.files.iter().cloned().collect()
    }

    /// Returns the author of the user's commits.
    pub(super) fn read_author(&self) -> Option<Author> {
        let call = self.build_plumbing(&["var", "GIT_AUTHOR_IDENT"]).without_sandbox();
        let line = self.commands.run_for_line(call).ok()?;
        let (name, rest) = line.split_once(" <")?;
        let (email, _) = rest.split_once('>')?;
        Some(Author { name: name.to_owned(), email: email.to_owned() })
    }

    /// Returns whether Git LFS has a hook that uploads files before a push.
    pub fn has_lfs_push_hook(&self) -> bool {
        self.hooks_directory().is_some_and(|hooks| is_lfs_hook(&hooks.join("pre-push")))
    }

    /// Returns the directory that git looks for hooks in.
    pub fn hooks_directory(&self) -> Option<PathBuf> {
        if self.config.find("core.hookspath").is_none() {
            return Some(self.common_dir().join("hooks"));
        }
        // ralph's plumbing calls turn hooks off, so this is a call like the user's own.
        let call = GitCommand::new_user_call("git", &self.top).without_sandbox();
        let call = call.with_args(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]);
        let mut output = self.commands.run_for_output(call).ok()?;
        output.pop();
        Some(OsString::from_vec(output).into())
    }
}

/// Returns the error for a commit that could not be signed.
pub(super) fn build_signing_error(ran: &FinishedCommand) -> VcsError {
    let message = ran.to_error().message;
    VcsError {
        message: format!(
            "the commit could not be signed: {message}\n\
             hint: try `git commit-tree -S HEAD^{{tree}} -m test`; unlock the key, or turn \
             signing off here with `git config commit.gpgSign false`"
        ),
    }
}

/// No script of Git LFS is longer.
const LARGEST_HOOK: u64 = 64 * 1024;

/// Returns whether a hook for pushes belongs to Git LFS.
pub(super) fn is_lfs_hook(hook: &Path) -> bool {
    let text = bounded_read::read_beginning(hook, LARGEST_HOOK).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    ["git lfs", "git-lfs"].iter().any(|program| text.contains(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_is_read_from_the_configuration() {
        let settings = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        for (values, is_wanted, expect) in [
            (&[][..], false, settings(&[])),
            (&[("commit.gpgsign", "true")], true, settings(&[])),
            (&[("commit.gpgsign", "on"), ("commit.gpgsign", "false")], false, settings(&[])),
            (&[("commit.gpgsign", "0"), ("user.name", "gpg.format")], false, settings(&[])),
            (
                &[("gpg.format", "ssh"), ("user.signingkey", "~/id.pub"), ("commit.gpgsign", "1")],
                true,
                settings(&["gpg.format=ssh", "user.signingkey=~/id.pub"]),
            ),
        ] {
            let values = values.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned()));
            let config = GitConfig { values: values.collect(), ..GitConfig::default() };
            let read = CommitSigning::from_config(&config);
            assert_eq!(read, CommitSigning { is_wanted, settings: expect }, "{config:?}");
        }
    }
}
