//! Rules on git: losing history or uncommitted work.

use std::path::Path;

use super::{Act, Check, Rule};
use crate::guard::category::Category;
use crate::guard::git::Git;
use crate::guard::lower::Word;
use crate::guard::place::lexical;

const KEEP: &str = "Commit or stash what is there, and undo single files by name.";

/// Checks a parsed call of git.
type GitCheck = fn(&Act<'_>, &Git<'_>) -> bool;

const fn new_git_rule(
    id: &'static str,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Act<'_>) -> bool,
) -> Rule {
    Rule { id, category: Category::Git, refused, instead, check: Check::Command(check) }
}

fn check_git(checked: &Act<'_>, check: GitCheck) -> bool {
    checked.is(&["git"]) && check(checked, &Git::new(checked.words()))
}

/// Builds the table: every rule here checks a call of git.
macro_rules! git_rules {
    ($($id:literal, $refused:expr, $instead:expr, $check:expr;)*) => {
        &[$(
            new_git_rule($id, $refused, $instead, |checked| check_git(checked, $check)),
        )*]
    };
}

pub(super) const RULES: &[Rule] = git_rules! {
    "git.force-push", "overwrites what others have pushed",
        "Push without force; merge or rebase first.", force_pushes;
    "git.delete-remote", "deletes a branch or tag of the remote",
        "Leave branches of the remote to the user.", deletes_remote;
    "git.reset-hard", "throws away work that is not committed", KEEP, |_, git| {
        git.verb == "reset" && git.rest.has(&["--hard", "--merge", "--keep"])
    };
    "git.clean", "removes files that git does not know", "Remove what you made, by name.", |_, git| {
        git.verb == "clean"
            && (git.rest.short('f') || git.rest.has(&["--force"]))
            && !git.rest.short('n')
            && !git.rest.has(&["--dry-run"])
    };
    "git.discard-all", "throws away all changes in the work tree", KEEP, discards_all;
    "git.delete-branch", "deletes a branch whose work may be nowhere else",
        "Delete merged branches with `-d`.", |_, git| {
        let forced = git.rest.short('D') || git.rest.has(&["--force", "-f"]) && (git.rest.short('d') || git.rest.has(&["--delete"]));
        let moved = git.rest.short('f') || git.rest.short('C');
        let names = git.rest.operands();
        git.verb == "branch"
            && (forced && names.iter().any(|name| !name.raw().starts_with("ralph/"))
                || moved && !forced && names.iter().any(|name| is_shared(name.raw())))
    };
    "git.drop-stash", "throws away stashed work", "Leave stashes where they are.", |_, git| {
        let verb = git.rest.operands().first().map(|it| it.raw()).unwrap_or_default();
        git.verb == "stash" && matches!(verb, "clear" | "drop")
    };
    "git.rewrite-history", "rewrites the whole history", "Add a commit that fixes it.", |_, git| {
        matches!(git.verb, "filter-branch" | "filter-repo" | "replace" | "fast-import")
    };
    "git.prune", "removes history that could still be recovered", "Leave the reflog and loose objects alone.", |_, git| {
        let verb = git.rest.operands().first().map(|it| it.raw()).unwrap_or_default();
        git.verb == "reflog" && matches!(verb, "expire" | "delete")
            || git.verb == "gc" && git.rest.texts(&["--prune"]).iter().any(|it| it == "now" || it == "all")
            || git.verb == "prune" && !git.rest.short('n')
            || matches!(git.verb, "update-ref" | "symbolic-ref") && (git.rest.short('d') || git.rest.has(&["--delete", "--stdin"]))
            || git.verb == "worktree" && verb == "remove" && (git.rest.short('f') || git.rest.has(&["--force"]))
    };
    "git.run-config", "makes git run a program from its configuration",
        "Run the program by itself.", |_, git| git.sets_running_key() || runs_transport(git);
    "git.user-config", "changes the user's own configuration of git",
        "Set it in this repository, without `--global`.", |_, git| {
        git.verb == "config" && git.rest.has(&["--global", "--system"]) && !git.only_asks()
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

fn pushed<'a>(git: &Git<'a>) -> Vec<&'a str> {
    let operands = git.rest.operands();
    operands.into_iter().skip(1).map(Word::raw).collect()
}

fn force_pushes(_: &Act<'_>, git: &Git<'_>) -> bool {
    if git.verb != "push" || git.rest.has(&["--dry-run"]) {
        return false;
    }
    let leased = git.rest.has(&["--force-with-lease"]);
    let target = |reference: &str| is_shared(reference.rsplit(':').next().unwrap_or_default());
    git.rest.short('f')
        || git.rest.has(&["--force", "--mirror", "--prune"])
        || pushed(git).iter().any(|reference| reference.starts_with('+'))
        || leased && (pushed(git).is_empty() || pushed(git).iter().any(|it| target(it)))
}

fn deletes_remote(_: &Act<'_>, git: &Git<'_>) -> bool {
    let deletes = git.rest.has(&["--delete"]) || git.rest.short('d');
    git.verb == "push"
        && pushed(git).iter().any(|reference| {
            let bare = reference.trim_start_matches([':', '+']);
            let own = bare.trim_start_matches("refs/heads/").starts_with("ralph/");
            (deletes || reference.starts_with(':') || reference.starts_with("+:")) && !own
        })
}

fn discards_all(checked: &Act<'_>, git: &Git<'_>) -> bool {
    if !matches!(git.verb, "checkout" | "restore" | "switch") {
        return false;
    }
    if git.verb != "restore"
        && (git.rest.short('f') || git.rest.has(&["--force", "--discard-changes"]))
    {
        return true;
    }
    if git.verb == "restore"
        && git.rest.has(&["--staged", "-S"])
        && !git.rest.has(&["--worktree", "-W"])
    {
        return false;
    }
    let from = match (git.directory.and_then(|it| it.known()), checked.command.cwd.as_deref()) {
        (Some(directory), Some(cwd)) => Path::new(cwd).join(directory),
        (None, Some(cwd)) => cwd.into(),
        (_, None) => return git.rest.operands().iter().any(|it| it.raw() == "."),
    };
    git.rest.operands().iter().any(|word| {
        let text = word.to_string();
        matches!(text.as_str(), ":/" | "*" | ":" | ":(top)" | "./*")
            || word.known().is_some_and(|path| {
                let is_path = path.starts_with(['.', '/']);
                let place = lexical(&from.join(path));
                is_path
                    && checked
                        .around
                        .protected
                        .project
                        .iter()
                        .any(|project| project.starts_with(&place))
            })
    })
}

fn runs_transport(git: &Git<'_>) -> bool {
    let words = git.words.iter().chain(git.global);
    let flags = ["--upload-pack", "--receive-pack", "--exec", "--exec-path"];
    words.map(Word::raw).any(|word| {
        word.starts_with("ext::")
            || flags.iter().any(|flag| word.split('=').next() == Some(flag) && word.contains('='))
                && git.verb != "rebase"
    })
}
