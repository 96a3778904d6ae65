//! The author and signature of commits: the user's, as git is configured for this repository.
//!
//! Everything here runs outside the sandbox, where all of the user's configuration can be read,
//! included files as well. Not here: making commits.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand};
use super::diff::split_at_zeros;
use super::repository::GitRepository;

/// The settings for signing commits.
const SIGNING_KEYS: &str = r"^(commit\.gpgsign|gpg\..*|user\.signingkey)$";

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
    /// Parses the output of `git config --null --get-regexp`.
    fn parse(printed: &[u8]) -> Self {
        let mut signing = Self::default();
        for entry in split_at_zeros(printed) {
            let entry = String::from_utf8_lossy(entry);
            // A name without a value means true.
            let (name, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
            if name == "commit.gpgsign" {
                signing.is_wanted = is_true(value);
            } else {
                signing.settings.push(format!("{name}={value}"));
            }
        }
        signing
    }
}

fn is_true(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    ["true", "yes", "on"].contains(&value.as_str())
        || value.parse::<i64>().is_ok_and(|number| number != 0)
}

impl GitRepository {
    /// Fails if git does not know who the user is, or cannot sign although signing is configured.
    pub fn check_identity(&self) -> Result<(), VcsError> {
        for variable in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            let ran =
                self.commands.run(self.build_plumbing(&["var", variable]).without_sandbox())?;
            if ran.code != 0 {
                let message = ran.to_error().message;
                let message = format!("git does not know who commits here: {message}");
                return Err(VcsError { message });
            }
        }
        let signing = self.read_signing()?;
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

    /// Returns how the user signs commits.
    pub(super) fn read_signing(&self) -> Result<CommitSigning, VcsError> {
        let call = self
            .build_plumbing(&["config", "--null", "--get-regexp", SIGNING_KEYS])
            .without_sandbox();
        // Exit code 1 means that none of them is set.
        Ok(CommitSigning::parse(&self.commands.run(call)?.stdout))
    }

    /// Returns the files that git's configuration is read from, included files as well, except
    /// those of the repository itself.
    pub fn config_files(&self) -> Vec<PathBuf> {
        let call = self
            .build_plumbing(&["config", "--list", "--show-origin", "--name-only", "-z"])
            .without_sandbox();
        let Ok(ran) = self.commands.run(call) else { return Vec::new() };
        let absolute = split_at_zeros(&ran.stdout).filter_map(|it| it.strip_prefix(b"file:"));
        let files = absolute.filter(|path| path.starts_with(b"/"));
        let files: BTreeSet<PathBuf> = files.map(|it| OsStr::from_bytes(it).into()).collect();
        files.into_iter().collect()
    }

    /// Returns the author of the user's commits.
    pub(super) fn read_author(&self) -> Option<Author> {
        let call = self.build_plumbing(&["var", "GIT_AUTHOR_IDENT"]).without_sandbox();
        let line = self.commands.run_for_line(call).ok()?;
        let (name, rest) = line.split_once(" <")?;
        let (email, _) = rest.split_once('>')?;
        Some(Author { name: name.to_owned(), email: email.to_owned() })
    }

    /// Returns whether a hook is run before a push.
    pub fn has_push_hook(&self) -> bool {
        self.hooks_directory().is_some_and(|hooks| hooks.join("pre-push").is_file())
    }

    /// Returns the directory that git looks for hooks in.
    pub fn hooks_directory(&self) -> Option<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_is_read_from_the_configuration() {
        let settings = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        for (printed, is_wanted, expect) in [
            ("", false, settings(&[])),
            ("commit.gpgsign\ntrue\0", true, settings(&[])),
            ("commit.gpgsign\0", true, settings(&[])),
            ("commit.gpgsign\non\0commit.gpgsign\nfalse\0", false, settings(&[])),
            ("commit.gpgsign\n0\0", false, settings(&[])),
            (
                "gpg.format\nssh\0user.signingkey\n~/.ssh/id.pub\0commit.gpgsign\n1\0",
                true,
                settings(&["gpg.format=ssh", "user.signingkey=~/.ssh/id.pub"]),
            ),
        ] {
            let read = CommitSigning::parse(printed.as_bytes());
            assert_eq!(read, CommitSigning { is_wanted, settings: expect }, "{printed:?}");
        }
    }
}
