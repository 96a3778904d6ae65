//! Rules on git: losing history or uncommitted work.

use std::path::Path;

use super::{CheckedCommand, GuardRule, RuleCheck};
use crate::category::GuardCategory;
use crate::git::GitCall;
use crate::lower::Word;
use crate::place::normalize_lexically;

const KEEP: &str = "Commit or stash what is there, and undo single files by name.";

/// Checks a parsed call of git.
type GitCheck = fn(&CheckedCommand<'_>, &GitCall<'_>) -> bool;

const fn new_git_rule(
    id: &'static str,
    refused: &'static str,
    instead: &'static str,
    check: fn(&CheckedCommand<'_>) -> bool,
) -> GuardRule {
    GuardRule {
        id,
        category: GuardCategory::Git,
        refused,
        instead,
        check: RuleCheck::Command(check),
    }
}

fn check_git(checked: &CheckedCommand<'_>, check: GitCheck) -> bool {
    checked.is_program(&["git"]) && check(checked, &GitCall::new(checked.words()))
}

/// Builds the table: every rule here checks a call of git.
macro_rules! git_rules {
    ($($id:literal, $refused:expr, $instead:expr, $check:expr;)*) => {
        &[$(
            new_git_rule($id, $refused, $instead, |checked| check_git(checked, $check)),
        )*]
    };
}

pub(super) const RULES: &[GuardRule] = git_rules! {
    "git.force-push", "overwrites what others have pushed",
        "Push without force; merge or rebase first.", force_pushes;
    "git.delete-remote", "deletes a branch or tag of the remote",
        "Leave branches of the remote to the user.", deletes_remote;
    "git.reset-hard", "throws away work that is not committed", KEEP, |_, git| {
        git.subcommand == "reset" && git.rest.has_any(&["--hard", "--merge", "--keep"])
    };
    "git.clean", "removes files that git does not know", "Remove what you made, by name.", |_, git| {
        git.subcommand == "clean"
            && (git.rest.has_short_flag('f') || git.rest.has_any(&["--force"]))
            && !git.rest.has_short_flag('n')
            && !git.rest.has_any(&["--dry-run"])
    };
    "git.discard-all", "throws away all changes in the work tree", KEEP, discards_all;
    "git.delete-branch", "deletes a branch whose work may be nowhere else",
        "Delete merged branches with `-d`.", |_, git| {
        let forced = git.rest.has_short_flag('D') || git.rest.has_any(&["--force", "-f"]) && (git.rest.has_short_flag('d') || git.rest.has_any(&["--delete"]));
        let moved = git.rest.has_short_flag('f') || git.rest.has_short_flag('C');
        let names = git.rest.find_operands();
        git.subcommand == "branch"
            && (forced && names.iter().any(|name| !name.raw().starts_with("ralph/"))
                || moved && !forced && names.iter().any(|name| is_shared(name.raw())))
    };
    "git.drop-stash", "throws away stashed work", "Leave stashes where they are.", |_, git| {
        let verb = git.rest.find_operands().first().map(|it| it.raw()).unwrap_or_default();
        git.subcommand == "stash" && matches!(verb, "clear" | "drop")
    };
    "git.rewrite-history", "rewrites the whole history", "Add a commit that fixes it.", |_, git| {
        matches!(git.subcommand, "filter-branch" | "filter-repo" | "replace" | "fast-import")
            || git.subcommand == "rebase" && git.rest.has_any(&["--root"])
    };
    "git.prune", "removes history that could still be recovered", "Leave the reflog and loose objects alone.", |_, git| {
        let verb = git.rest.find_operands().first().map(|it| it.raw()).unwrap_or_default();
        git.subcommand == "reflog" && matches!(verb, "expire" | "delete")
            || git.subcommand == "gc" && git.rest.find_flag_values(&["--prune"]).iter().any(|it| it == "now" || it == "all")
            || git.subcommand == "prune" && !git.rest.has_short_flag('n')
            || matches!(git.subcommand, "update-ref" | "symbolic-ref") && (git.rest.has_short_flag('d') || git.rest.has_any(&["--delete", "--stdin"]))
            || git.subcommand == "worktree" && verb == "remove" && (git.rest.has_short_flag('f') || git.rest.has_any(&["--force"]))
    };
    "git.run-config", "makes git run a program from its configuration",
        "Run the program by itself.", |_, git| git.sets_running_key() || runs_transport(git);
    "git.user-config", "changes the user's own configuration of git",
        "Set it in this repository, without `--global`.", |_, git| {
        git.subcommand == "config" && git.rest.has_any(&["--global", "--system"]) && !git.is_config_query()
    };
};

/// Returns whether a branch is one that others build on.
fn is_shared(name: &str) -> bool {
    let name = name.trim_start_matches("refs/heads/").trim_start_matches("origin/");
    matches!(
        name,
        "main"
            | "master"
            | "trunk"
            | "develop"
            | "development"
            | "production"
            | "prod"
            | "staging"
            | "stable"
    ) || name.starts_with("release")
        || name.starts_with("hotfix")
}

fn find_pushed_refs<'a>(git: &GitCall<'a>) -> Vec<&'a str> {
    let operands = git.rest.find_operands();
    operands.into_iter().skip(1).map(Word::raw).collect()
}

fn force_pushes(_: &CheckedCommand<'_>, git: &GitCall<'_>) -> bool {
    if git.subcommand != "push" || git.rest.has_any(&["--dry-run"]) {
        return false;
    }
    let leased = git.rest.has_any(&["--force-with-lease"]);
    let target = |reference: &str| is_shared(reference.rsplit(':').next().unwrap_or_default());
    git.rest.has_short_flag('f')
        || git.rest.has_any(&["--force", "--mirror", "--prune"])
        || find_pushed_refs(git).iter().any(|reference| reference.starts_with('+'))
        || leased
            && (find_pushed_refs(git).is_empty()
                || find_pushed_refs(git).iter().any(|it| target(it)))
}

fn deletes_remote(_: &CheckedCommand<'_>, git: &GitCall<'_>) -> bool {
    let deletes = git.rest.has_any(&["--delete"]) || git.rest.has_short_flag('d');
    git.subcommand == "push"
        && find_pushed_refs(git).iter().any(|reference| {
            let bare = reference.trim_start_matches([':', '+']);
            let own = bare.trim_start_matches("refs/heads/").starts_with("ralph/");
            (deletes || reference.starts_with(':') || reference.starts_with("+:")) && !own
        })
}

fn discards_all(checked: &CheckedCommand<'_>, git: &GitCall<'_>) -> bool {
    if !matches!(git.subcommand, "checkout" | "restore" | "switch") {
        return false;
    }
    if git.subcommand != "restore"
        && (git.rest.has_short_flag('f') || git.rest.has_any(&["--force", "--discard-changes"]))
    {
        return true;
    }
    if git.subcommand == "restore"
        && git.rest.has_any(&["--staged", "-S"])
        && !git.rest.has_any(&["--worktree", "-W"])
    {
        return false;
    }
    let from = match (git.directory.and_then(|it| it.as_known()), checked.command.cwd.as_deref()) {
        (Some(directory), Some(cwd)) => Path::new(cwd).join(directory),
        (None, Some(cwd)) => cwd.into(),
        (_, None) => return git.rest.find_operands().iter().any(|it| it.raw() == "."),
    };
    git.rest.find_operands().iter().any(|word| {
        let text = word.to_string();
        matches!(text.as_str(), ":/" | "*" | ":" | ":(top)" | "./*")
            || word.as_known().is_some_and(|path| {
                let is_path = path.starts_with(['.', '/']);
                let place = normalize_lexically(&from.join(path));
                is_path
                    && checked
                        .context
                        .protected
                        .project
                        .iter()
                        .any(|project| project.starts_with(&place))
            })
    })
}

fn runs_transport(git: &GitCall<'_>) -> bool {
    let words = git.words.iter().chain(git.global_options);
    let flags = ["--upload-pack", "--receive-pack", "--exec", "--exec-path"];
    words.map(Word::raw).any(|word| {
        word.starts_with("ext::")
            || flags.iter().any(|flag| word.split('=').next() == Some(flag) && word.contains('='))
                && git.subcommand != "rebase"
    })
}
