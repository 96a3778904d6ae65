//! A repository in everyday use: a stash, branches, a tag, another work tree, ignored files, and
//! staged, unstaged and untracked changes.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::Sealed;

use crate::repository;

/// Ignore rules: for ralph's own files, and the user's.
const IGNORED: &str = "/.ralph/*\n!/.ralph/implementation_plan.md\n/cache/\n.env\n";

/// Returns a repository with everything except uncommitted changes. The settings are not part of
/// it: they contain paths of this test.
pub(super) fn lived_in() -> Sealed {
    let sealed = repository();
    sealed.write_file(".gitignore", IGNORED);
    sealed.write_file("src.txt", "one\ntwo\nthree\n");
    sealed.write_file("notes.txt", "notes\n");
    commit_all(&sealed, "Settle in");
    sealed.run_git(&["tag", "v1"]);
    sealed.write_file("notes.txt", "notes for later\n");
    sealed.run_git(&["stash", "--quiet"]);
    let other = sealed.root().join("other").to_string_lossy().into_owned();
    sealed.run_git(&["worktree", "add", "--quiet", "-b", "side", &other]);
    fs::write(Path::new(&other).join("half.txt"), "half\n").expect("written");
    sealed.run_git(&["-C", &other, "add", "-A"]);
    sealed.write_file("cache/deep/object.o", "object");
    sealed.write_file(".env", "NAME=value\n");
    sealed
}

/// Adds uncommitted changes of every kind.
pub(super) fn in_the_middle(sealed: &Sealed) {
    sealed.write_file("staged.txt", "staged\n");
    sealed.write_file("src.txt", "one\nTWO\nthree\n");
    sealed.run_git(&["add", "staged.txt", "src.txt"]);
    sealed.write_file("src.txt", "one\nTWO\nthree, not staged\n");
    sealed.write_file("untracked/deep.txt", "untracked\n");
    fs::remove_file(sealed.project_dir().join("README.md")).expect("removed");
}

/// Adds a submodule.
pub(super) fn with_submodule(sealed: &Sealed) {
    let module = sealed.root().join("module").to_string_lossy().into_owned();
    sealed.run_git(&["init", "--quiet", &module]);
    // Its commit is part of every commit above it, and must be the same each time.
    let mut commit = sealed.build_command("git");
    commit.args(["-C", &module, "commit", "--quiet", "--allow-empty", "-m", "Module"]);
    let date = "2026-01-01T00:00:00Z";
    commit.env("GIT_AUTHOR_DATE", date).env("GIT_COMMITTER_DATE", date);
    assert!(commit.status().expect("it runs").success());
    let allow = "protocol.file.allow=always";
    sealed.run_git(&["-c", allow, "submodule", "--quiet", "add", "--", "../module", "sub"]);
    commit_all(sealed, "Submodule");
}

pub(super) fn commit_all(sealed: &Sealed, message: &str) {
    sealed.run_git(&["add", "-A"]);
    sealed.run_git(&["commit", "--quiet", "-m", message]);
}

/// The user's files and refs, which no run may touch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserState {
    refs: Vec<String>,
    staged: String,
    not_staged: String,
    files: Vec<(&'static str, Option<String>)>,
    other_tree: String,
    settings: String,
}

impl UserState {
    pub(super) fn read(sealed: &Sealed) -> Self {
        let refs = sealed.run_git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let is_theirs = |name: &&str| {
            let runs = ["refs/heads/main ", "refs/heads/wip/", "refs/ralph/", "refs/remotes/"];
            !runs.iter().any(|run| name.starts_with(run))
        };
        let files = ["src.txt", "staged.txt", "untracked/deep.txt", "README.md", "notes.txt"];
        let files = files.into_iter().chain(["cache/deep/object.o", ".env", "../other/half.txt"]);
        Self {
            refs: refs.lines().filter(is_theirs).map(str::to_owned).collect(),
            staged: sealed.run_git(&["diff", "--cached", "--raw", "--no-abbrev"]),
            // The plan and the list of a run change during the run.
            not_staged: sealed.run_git(&["diff", "--", "src.txt", "README.md", "notes.txt"]),
            files: files
                .map(|path| (path, fs::read_to_string(sealed.project_dir().join(path)).ok()))
                .collect(),
            other_tree: sealed.run_git(&["-C", "../other", "status", "--porcelain"]),
            settings: sealed.run_git(&["config", "--list", "--local"]),
        }
    }
}
