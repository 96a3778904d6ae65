//! The project's own hooks for commits and pushes. ralph runs them itself, by git's conventions, in
//! the sandbox if there is one, like everything that touches the work tree.
//!
//! Not here: what follows from a refusal.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::ports::{HookResult, HookTrial, VcsError};
use ralph_model::run::IterationMark;
use ralph_model::units::Millis;

use super::command::{GitCommand, NotRun};
use super::identity::{Author, is_lfs_hook};
use super::shadow;
use super::vcs::{GitVcs, format_trailers};
use crate::atomic_file::remove_if_exists;
use crate::bounded_read;

/// No commit message is longer.
const LARGEST_MESSAGE: u64 = 1024 * 1024;

/// A file of the hook that only notes what git passes to it: its arguments, and its input.
const NOTING_HOOK: &[u8] =
    b"#!/bin/sh\nprintf '%s\\n' \"$1\" \"$2\" > \"$0.seen\"\ncat >> \"$0.seen\"\n";

/// A hook that is run before a commit or a push, or after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitHook {
    PreCommit,
    PrepareCommitMsg,
    CommitMsg,
    PostCommit,
    PrePush,
}

impl CommitHook {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PreCommit => "pre-commit",
            Self::PrepareCommitMsg => "prepare-commit-msg",
            Self::CommitMsg => "commit-msg",
            Self::PostCommit => "post-commit",
            Self::PrePush => "pre-push",
        }
    }
}

/// The result of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommitHookRun {
    /// There is no hook, or it passed.
    Passed,
    Refused {
        output: String,
    },
    /// The user stopped the run.
    Interrupted,
}

/// Where the hooks are, and the author of commits.
#[derive(Debug, Clone)]
pub(super) struct CommitHooks {
    directory: Option<PathBuf>,
    author: Option<Author>,
}

/// Returns where the pre-commit framework stores the programs of its hooks, if it is in use.
pub fn find_framework_store(env: &[(OsString, OsString)]) -> Option<PathBuf> {
    let variable = |name: &str| {
        let value = env.iter().find_map(|(known, value)| (known == name).then(|| value.clone()));
        value.filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let store = variable("PRE_COMMIT_HOME").or_else(|| Some(cache()?.join("pre-commit")))?;
    store.is_dir().then_some(store)
}

impl GitVcs {
    /// Returns the executable of a hook, if there is one.
    pub(super) fn find_hook(&mut self, hook: CommitHook) -> Option<PathBuf> {
        let repository = &self.repository;
        let hooks = self.hooks.get_or_insert_with(|| {
            // A link in the home directory is broken inside a sandbox. A hook that is itself a link
            // stays one: its name may select which hook it is.
            let directory = repository.hooks_directory();
            let directory = directory.map(|path| path.canonicalize().unwrap_or(path));
            CommitHooks { directory, author: None }
        });
        let path = hooks.directory.as_ref()?.join(hook.name());
        let about = fs::metadata(&path).ok()?;
        (about.is_file() && about.permissions().mode() & 0o111 != 0).then_some(path)
    }

    /// Runs a hook with this index, if there is one.
    pub(super) fn run_hook(
        &mut self,
        hook: CommitHook,
        args: &[&Path],
        index: &Path,
    ) -> CommitHookRun {
        self.start_hook(hook, |call| call.with_args(args).with_env("GIT_INDEX_FILE", index))
    }

    /// Runs the hook for a push in the sandbox, if there is one, with what git would pass to it. A
    /// dry run of the push finds that out, with a hook of ralph's own.
    pub(super) fn run_push_hook(
        &mut self,
        command: &str,
        args: &[String],
    ) -> Result<CommitHookRun, VcsError> {
        // The hook of Git LFS uploads files, which the sandbox prevents.
        if self.find_hook(CommitHook::PrePush).is_none_or(|hook| is_lfs_hook(&hook)) {
            return Ok(CommitHookRun::Passed);
        }
        // It runs outside the sandbox, so not in the scratch directory, where hooks can write.
        let failed = |error: io::Error| VcsError {
            message: format!("cannot write to `{}`: {error}", self.directory.display()),
        };
        let own = tempfile::tempdir_in(&self.directory).map_err(failed)?;
        let noting = own.path().join(CommitHook::PrePush.name());
        let seen = own.path().join("pre-push.seen");
        write_new(&noting, NOTING_HOOK, 0o755).map_err(failed)?;
        let setting = format!("core.hooksPath={}", own.path().display());
        let call = self.build_scm_call(command).with_config(&[setting]);
        let call = call.with_args(["push", "--dry-run"]).with_args(args.iter().skip(1));
        // If this fails, the push fails too, and reports why.
        self.repository.commands.run(call)?;
        let Ok(seen) = bounded_read::read_file(&seen, LARGEST_MESSAGE) else {
            return Ok(CommitHookRun::Passed);
        };
        let mut lines = seen.splitn(3, |byte| *byte == b'\n').map(<[u8]>::to_vec);
        let [remote, url, input] = [(); 3].map(|()| lines.next().unwrap_or_default());
        let args = [remote, url].map(OsString::from_vec);
        Ok(self.start_hook(CommitHook::PrePush, |call| call.with_args(args).with_stdin(input)))
    }

    /// Runs a hook, if there is one, with further arguments and variables.
    fn start_hook(
        &mut self,
        hook: CommitHook,
        extend: impl FnOnce(GitCommand<'_>) -> GitCommand<'_>,
    ) -> CommitHookRun {
        let Some(program) = self.find_hook(hook) else { return CommitHookRun::Passed };
        let author = self.read_hook_author();
        // Like git, `sh` runs a script without a shebang. It remains the parent process, so that a
        // hook that kills its parent does not kill ralph.
        let call = GitCommand::new_user_call(program, &self.repository.top)
            .with_env("GIT_EDITOR", ":")
            .with_env("GIT_PREFIX", "")
            .with_shell();
        let mut call = extend(call);
        if hook == CommitHook::PrepareCommitMsg {
            call = call.with_args(["message"]);
        }
        if let Some(store) = find_framework_store(self.repository.commands.users_env()) {
            call = call.with_env("PRE_COMMIT_HOME", store);
        }
        // In the sandbox, the configuration that names the author may not be readable.
        if let Some(Author { name, email }) = author {
            call = call.with_env("GIT_AUTHOR_NAME", name).with_env("GIT_AUTHOR_EMAIL", email);
        }
        let name = hook.name();
        match self.repository.commands.try_run(call) {
            Ok(ran) if ran.code == 0 => CommitHookRun::Passed,
            Ok(ran) => {
                let output = ran.output_text();
                let code = ran.code;
                let silent = format!("the {name} hook ended with exit code {code} and no output");
                let output = if output.trim().is_empty() { silent } else { output };
                CommitHookRun::Refused { output }
            }
            Err(NotRun::Interrupted) => CommitHookRun::Interrupted,
            Err(NotRun::TimedOut { output }) => CommitHookRun::Refused {
                output: format!(
                    "{output}\n[ralph] the {name} hook took longer than {}",
                    Millis::from(self.repository.commands.patience())
                ),
            },
            Err(NotRun::NotFound) => {
                CommitHookRun::Refused { output: format!("the {name} hook could not be started") }
            }
            Err(NotRun::Other { message }) => {
                CommitHookRun::Refused { output: format!("the {name} hook did not end: {message}") }
            }
        }
    }

    fn read_hook_author(&mut self) -> Option<Author> {
        let hooks = self.hooks.as_mut()?;
        if hooks.author.is_none() {
            hooks.author = self.repository.read_author();
        }
        hooks.author.clone()
    }

    /// Writes an index for hooks that holds a tree, with git's cached file metadata.
    pub(super) fn write_hook_index(&mut self, tree: &str) -> Result<PathBuf, VcsError> {
        self.shadow.load_tree(&self.repository, tree)?;
        let index = self.scratch.join("index.hook");
        shadow::copy_index(self.shadow.index_path(), &index).map_err(|error| VcsError {
            message: format!("cannot write `{}`: {error}", index.display()),
        })?;
        Ok(index)
    }

    /// Runs the pre-commit hook on an index that holds a tree.
    pub(super) fn run_tree_hook(&mut self, tree: &str) -> Result<HookResult, VcsError> {
        if self.find_hook(CommitHook::PreCommit).is_none() {
            return Ok(HookResult::Absent);
        }
        let index = self.write_hook_index(tree)?;
        Ok(self.run_hook_on_index(&index))
    }

    fn run_hook_on_index(&mut self, index: &Path) -> HookResult {
        match self.run_hook(CommitHook::PreCommit, &[], index) {
            CommitHookRun::Passed => HookResult::Passed,
            CommitHookRun::Refused { output } => HookResult::Refused { output },
            CommitHookRun::Interrupted => HookResult::Interrupted,
        }
    }

    /// Marks files that differ from an index as unchanged in it. The pre-commit framework saves such
    /// changes in its store before it runs hooks, and the store is read-only in a sandbox.
    fn hide_changes(&self, index: &Path) -> Result<(), VcsError> {
        let repository = &self.repository;
        let list = repository.build_plumbing(&["diff-files", "--name-only", "-z"]);
        let paths = repository.commands.run_for_output(list.with_index(index))?;
        if paths.is_empty() {
            return Ok(());
        }
        let words = ["update-index", "--assume-unchanged", "-z", "--stdin"];
        let mark = repository.build_plumbing(&words).with_index(index).with_stdin(paths);
        repository.commands.run_for_output(mark).map(drop)
    }

    /// Runs the commit hooks on HEAD, and with a message.
    pub(super) fn try_all_hooks(
        &mut self,
        mark: &IterationMark,
        message: Option<&str>,
    ) -> Result<HookTrial, VcsError> {
        let head = self.repository.head()?;
        if let Some(message) = message {
            let message = self.with_trailers(message, &format_trailers(mark))?;
            match self.run_message_hook(message, &head.tree)? {
                Ok(_) => {}
                Err(CommitHookRun::Refused { output }) => {
                    return Ok(HookTrial::MessageRefused { output });
                }
                Err(CommitHookRun::Interrupted | CommitHookRun::Passed) => {
                    return Ok(HookTrial::Interrupted);
                }
            }
        }
        if self.find_hook(CommitHook::PreCommit).is_none() {
            return Ok(HookTrial::Passed);
        }
        let index = self.write_hook_index(&head.tree)?;
        self.hide_changes(&index)?;
        Ok(match self.run_hook_on_index(&index) {
            HookResult::Absent | HookResult::Passed => HookTrial::Passed,
            HookResult::Interrupted => HookTrial::Interrupted,
            HookResult::Refused { output } => {
                let branch = head.checked_out().short_branch().map(str::to_owned);
                HookTrial::CommitRefused { output, branch }
            }
        })
    }

    /// Runs the hooks that may read and change the message. Returns the message, or the result if a
    /// hook refused.
    pub(super) fn run_message_hook(
        &mut self,
        message: String,
        tree: &str,
    ) -> Result<Result<String, CommitHookRun>, VcsError> {
        let hooks = [CommitHook::PrepareCommitMsg, CommitHook::CommitMsg];
        if hooks.iter().all(|hook| self.find_hook(*hook).is_none()) {
            return Ok(Ok(message));
        }
        let index = self.write_hook_index(tree)?;
        let file = self.repository.git_dir.join("COMMIT_EDITMSG");
        let failed = |error: io::Error| VcsError {
            message: format!("cannot write or read `{}`: {error}", file.display()),
        };
        write_new(&file, message.as_bytes(), 0o644).map_err(failed)?;
        for hook in hooks {
            match self.run_hook(hook, &[&file], &index) {
                CommitHookRun::Passed => {}
                run @ (CommitHookRun::Refused { .. } | CommitHookRun::Interrupted) => {
                    return Ok(Err(run));
                }
            }
        }
        let message = bounded_read::read_file(&file, LARGEST_MESSAGE).map_err(failed)?;
        let message = clean_message(&String::from_utf8_lossy(&message));
        if message.is_empty() {
            let output = "the hooks left an empty commit message".to_owned();
            return Ok(Err(CommitHookRun::Refused { output }));
        }
        Ok(Ok(message))
    }
}

/// Writes a file that hooks read, or a hook. Removes an existing file first: it may be a link.
fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    remove_if_exists(path)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)?.write_all(content)
}

/// Cleans a message like `git commit --cleanup=whitespace`: no space at the end of lines, no empty
/// lines at the beginning and the end, never two of them in a row.
pub(super) fn clean_message(message: &str) -> String {
    let mut clean = String::new();
    let mut is_after_empty = false;
    for line in message.lines().map(str::trim_end) {
        if line.is_empty() {
            is_after_empty = true;
            continue;
        }
        if is_after_empty && !clean.is_empty() {
            clean.push('\n');
        }
        is_after_empty = false;
        clean.extend([line, "\n"]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cleaned_as_git_does() {
        for (message, expect) in [
            ("", ""),
            (" \n\n", ""),
            ("a", "a\n"),
            ("\n\na  \n\n\n b\t\n\n", "a\n\n b\n"),
            ("# no comment\n", "# no comment\n"),
        ] {
            assert_eq!(clean_message(message), expect, "{message:?}");
        }
    }
}
