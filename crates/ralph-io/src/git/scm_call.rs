//! Source-control commands of the user, with any program.
//!
//! Not here: commits with git (`commit`), and hooks (`hooks`).

use ralph_core::ports::{CommitOrder, CommitResult, ScmResult, VcsError};
use ralph_model::worktree::CommitId;

use super::command::{GitCommand, GitCommands};
use super::vcs::GitVcs;

impl GitVcs {
    /// Returns a command of the user that runs outside the sandbox.
    pub(super) fn build_scm_call(&self, command: &str) -> GitCommand<'_> {
        let call = GitCommand::new_user_call(command, &self.repository.project).without_sandbox();
        let recursion = self.repository.config.find("push.recursesubmodules");
        let is_confined = is_git(command) && self.repository.commands.is_confined();
        // An agent can replace the `.git` of a submodule, and with it the configuration.
        if is_confined && recursion.is_some_and(|it| it != "no") {
            return call.with_setting("push.recurseSubmodules=check");
        }
        call
    }
}

/// Runs a source-control command of the user.
pub(super) fn run_scm(commands: &GitCommands, call: GitCommand<'_>) -> Result<ScmResult, VcsError> {
    let ran = commands.run(call)?;
    Ok(if ran.code == 0 {
        ScmResult::Done
    } else {
        ScmResult::Failed { output: ran.output_text() }
    })
}

/// Commits with a program that is not git. Its commit ids mean nothing to ralph.
pub(super) fn commit_with_other_scm(
    commands: &GitCommands,
    project: &std::path::Path,
    order: &CommitOrder,
) -> Result<CommitResult, VcsError> {
    let call = GitCommand::new_user_call(&order.command, project).with_args([
        "commit",
        "-m",
        &order.message,
    ]);
    let ran = commands.run(call)?;
    let output = ran.output_text();
    match ran.code {
        0 => Ok(CommitResult::Made(CommitId(String::new()))),
        // Mercurial's message for it.
        _ if output.contains("nothing changed") => Ok(CommitResult::Nothing),
        code => Err(VcsError {
            message: format!("`{} commit` failed (exit code {code}): {output}", order.command),
        }),
    }
}

/// Returns whether a program is git.
pub(super) fn is_git(command: &str) -> bool {
    std::path::Path::new(command).file_name().is_some_and(|name| name == "git")
}
