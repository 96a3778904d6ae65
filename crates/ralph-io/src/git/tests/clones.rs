//! Clones of workers, made by ralph, with old work of agents in them.

use ralph_core::ports::FetchOutcome;
use ralph_model::agent_output::Usage;
use ralph_model::ids::WorkerId;
use ralph_model::recipe::ClonePolicy;
use ralph_model::worker::JobResult;

use super::*;
use crate::worker_slots::{SlotRequest, WorkerSlot, find_due_setup, record_setup};

/// A project, and where its clones are.
struct Clones {
    world: World,
    top: PathBuf,
}

impl Clones {
    fn new(world: World) -> Self {
        let top = world.top();
        Self { world, top }
    }

    fn repository(&self) -> GitRepository {
        self.world.repository_of(&self.top)
    }

    fn slot(&self, worker: &str) -> WorkerSlot {
        let root = self.world.directory.path().join("state");
        let worker = WorkerId(worker.to_owned());
        let (work_tree, keep) = (self.repository().top().to_owned(), &[]);
        let request =
            SlotRequest { root: &root, work_tree: &work_tree, worker: &worker, keep, most: None };
        WorkerSlot::acquire(request).expect("a slot")
    }

    fn request(&self) -> CloneRequest {
        CloneRequest {
            base: CommitId(self.world.git_in(&self.top, &["rev-parse", "HEAD"])),
            branch: Some("refs/heads/main".to_owned()),
            start_tree: None,
            include: Vec::new(),
            copy_limit: 1 << 20,
        }
    }

    #[track_caller]
    fn prepare(&self, slot: &WorkerSlot) -> PreparedClone {
        prepare_clone(&self.repository(), slot, &self.request()).expect("prepared")
    }

    #[track_caller]
    fn git(&self, slot: &WorkerSlot, args: &[&str]) -> String {
        self.world.git_in(slot.clone_path(), args)
    }

    fn write(slot: &WorkerSlot, path: &str, text: &str) {
        let path = slot.clone_path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn read(slot: &WorkerSlot, path: &str) -> String {
        fs::read_to_string(slot.clone_path().join(path)).unwrap_or_default()
    }
}

#[test]
fn a_clone_borrows_objects_and_has_no_remote() {
    let clones = Clones::new(World::new());
    clones.world.git(&["config", "user.name", "Local \"Name\""]);
    clones.world.git(&["remote", "add", "origin", "https://example.com/x.git"]);
    clones.world.git(&["branch", "other"]);
    clones.world.script(".git/hooks/pre-commit", "exit 0");
    clones.world.write(".git/info/exclude", "*.local\n");
    let slot = clones.slot("w1");
    assert_eq!(slot.name(), "s1");
    let prepared = clones.prepare(&slot);
    assert_eq!(prepared, PreparedClone { is_new: true, warnings: Vec::new() });
    assert_eq!(slot.clone_path().file_name(), clones.top.file_name());

    assert_eq!(clones.git(&slot, &["status", "--porcelain", "--branch"]), "## main");
    assert_eq!(clones.git(&slot, &["log", "--format=%s"]), "first");
    assert_eq!(clones.git(&slot, &["count-objects"]), "0 objects, 0 kilobytes");
    assert_eq!(clones.git(&slot, &["remote"]), "");
    assert_eq!(clones.git(&slot, &["branch", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(clones.git(&slot, &["config", "user.name"]), "Local \"Name\"");
    assert_eq!(clones.git(&slot, &["fsck", "--no-dangling"]), "");
    let own = |name| slot.clone_path().join(".git").join(name);
    assert_eq!(fs::read_to_string(own("info/exclude")).expect("there"), "*.local\n");
    assert!(own("hooks/pre-commit").metadata().expect("there").permissions().mode() & 0o100 != 0);
    let mut expect = files(&clones.top);
    expect.retain(|path, _| !path.starts_with("target"));
    assert_eq!(files(slot.clone_path()), expect);
}

#[test]
fn the_next_job_keeps_ignored_files_and_the_times_of_unchanged_ones() {
    let clones = Clones::new(World::new());
    clones.prepare(&clones.slot("w1"));
    clones.world.write("a.txt", "changed\n");
    clones.world.write(".ralph/.gitignore", "/.gitignore\n/context/\n");
    clones.world.git(&["commit", "--quiet", "--all", "-m", "second"]);
    let slot = clones.slot("w2");
    assert_eq!(slot.name(), "s1");
    Clones::write(&slot, "target/cache", "kept");
    for path in ["CLAUDE.local.md", ".vscode/tasks.json", "x.log"] {
        Clones::write(&slot, path, "of the last job");
    }
    let exclude = "CLAUDE.local.md\n.vscode/\n";
    clones.world.write(".git/info/exclude", exclude);
    fs::write(slot.clone_path().join(".git/info/exclude"), exclude).expect("written");
    Clones::write(&slot, ".ralph/.gitignore", "/.gitignore\n/context/\n");
    Clones::write(&slot, ".ralph/context/memory.md", "of the last job");
    let time = |path: &str| {
        fs::metadata(slot.clone_path().join(path)).expect("there").modified().expect("known")
    };
    let (changed, same) = (time("a.txt"), time("dir/b.txt"));
    let prepared = clones.prepare(&slot);
    assert_eq!(prepared, PreparedClone { is_new: false, warnings: Vec::new() });
    assert_eq!(time("dir/b.txt"), same);
    assert_ne!(time("a.txt"), changed);
    assert_eq!(Clones::read(&slot, "a.txt"), "changed\n");
    assert_eq!(Clones::read(&slot, "target/cache"), "kept");
    assert!(slot.has_leftovers());
    assert_eq!(Clones::read(&slot, "x.log"), "of the last job");
    assert_eq!(Clones::read(&slot, "CLAUDE.local.md"), "");
    assert_eq!(Clones::read(&slot, ".vscode/tasks.json"), "");
    assert_eq!(Clones::read(&slot, ".ralph/context/memory.md"), "");
    assert_eq!(clones.git(&slot, &["status", "--porcelain"]), "");
}

#[test]
fn work_on_no_ref_is_saved_before_the_clone_is_reset() {
    let clones = Clones::new(World::new());
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    let repository = clones.repository();
    assert_eq!(find_unsaved_work(&repository, slot.place()), Ok(None));
    Clones::write(&slot, "committed.txt", "committed\n");
    clones.git(&slot, &["add", "--all"]);
    clones.git(&slot, &["commit", "--quiet", "-m", "work"]);
    Clones::write(&slot, "a.txt", "uncommitted\n");
    Clones::write(&slot, "dir/new.txt", "untracked\n");
    Clones::write(&slot, "x.log", "ignored\n");
    let unsaved = UnsavedWork { has_commits: true, files: 2 };
    assert_eq!(find_unsaved_work(&repository, slot.place()), Ok(Some(unsaved)));
    drop(slot);

    let slot = clones.slot("w2");
    let prepared = clones.prepare(&slot);
    assert_eq!(prepared.warnings, ["work of w1 is kept as refs/ralph/kept/w1"]);
    assert_eq!(clones.git(&slot, &["status", "--porcelain"]), "");
    assert_eq!(Clones::read(&slot, "x.log"), "ignored\n");
    assert_eq!(Clones::read(&slot, "committed.txt"), "");
    let show = |path: &str| clones.world.git(&["show", &format!("refs/ralph/kept/w1:{path}")]);
    assert_eq!(show("committed.txt"), "committed");
    assert_eq!(show("a.txt"), "uncommitted");
    assert_eq!(show("dir/new.txt"), "untracked");
    assert_eq!(clones.world.git(&["log", "--format=%s", "refs/ralph/kept/w1~1"]), "work\nfirst");
    // Saved once is enough, and a second one of the same name replaces nothing.
    drop(slot);
    clones.prepare(&clones.slot("w1"));
    let slot = clones.slot("w1");
    Clones::write(&slot, "a.txt", "more\n");
    drop(slot);
    let prepared = clones.prepare(&clones.slot("w3"));
    assert_eq!(prepared.warnings, ["work of w1 is kept as refs/ralph/kept/w1-2"]);
}

#[test]
fn a_commit_that_was_fetched_needs_no_saving() {
    let clones = Clones::new(World::new());
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    Clones::write(&slot, "a.txt", "work\n");
    clones.git(&slot, &["commit", "--quiet", "--all", "-m", "work"]);
    let clone = slot.clone_path().display().to_string();
    clones.world.git(&["fetch", "--quiet", &clone, "HEAD:refs/ralph/candidates/r/w1"]);
    assert_eq!(find_unsaved_work(&clones.repository(), slot.place()), Ok(None));
    assert_eq!(clones.prepare(&slot).warnings, Vec::<String>::new());
}

#[test]
fn a_clone_whose_work_cannot_be_saved_is_not_reset() {
    let clones = Clones::new(World::new());
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    Clones::write(&slot, "a.txt", "work\n");
    drop(slot);
    // The ref cannot be made.
    clones.world.git(&["update-ref", "refs/ralph/kept/w1/x", "HEAD"]);
    let slot = clones.slot("w2");
    let error = prepare_clone(&clones.repository(), &slot, &clones.request()).expect_err("refused");
    let error = error.to_string();
    let expect = "s1 is not used: the work of w1 in it could not be saved: `git fetch` failed";
    assert!(error.starts_with(expect), "{error}");
    assert_eq!(Clones::read(&slot, "a.txt"), "work\n");
    assert_eq!(slot.owner(), Some(WorkerId("w1".into())));
}

#[test]
fn what_an_agent_left_in_git_and_in_place_of_files_is_harmless() {
    let clones = Clones::new(World::new());
    let outside = clones.world.directory.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("b.txt"), "of the user\n").expect("written");
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    let marker = clones.world.directory.path().join("started");
    let program = format!("touch '{}'; false", marker.display());
    for name in ["core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process"] {
        clones.git(&slot, &["config", name, &program]);
    }
    // A filter of the user that runs whatever lies in the current directory.
    for name in ["filter.y.clean", "filter.y.smudge"] {
        clones.world.git(&["config", name, "sh -c '. ./module'"]);
    }
    Clones::write(&slot, "module", &format!("{program}\n"));
    let hook = format!("#!/bin/sh\n{program}\n");
    for name in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit"] {
        let path = slot.clone_path().join(".git/hooks").join(name);
        fs::write(&path, &hook).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    Clones::write(&slot, ".gitattributes", "a* filter=x\n* filter=y\n");
    fs::remove_dir_all(slot.clone_path().join("dir")).expect("removed");
    std::os::unix::fs::symlink(&outside, slot.clone_path().join("dir")).expect("a link");
    fs::remove_file(slot.clone_path().join("a.txt")).expect("removed");
    Clones::write(&slot, "a.txt/deep/file", "a directory in place of a file\n");
    Clones::write(&slot, "nested/.git/HEAD", "ref: refs/heads/main\n");
    for directory in ["objects", "refs"] {
        fs::create_dir(slot.clone_path().join("nested/.git").join(directory)).expect("made");
    }
    Clones::write(&slot, "nested/file", "x\n");
    drop(slot);

    let slot = clones.slot("w2");
    let prepared = clones.prepare(&slot);
    let nested = "s1 still has `nested/`, a repository of its own";
    assert_eq!(prepared.warnings, ["work of w1 is kept as refs/ralph/kept/w1", nested]);
    assert!(!marker.exists(), "a program of the agent was started");
    let outside = fs::read_to_string(outside.join("b.txt")).expect("there");
    assert_eq!(outside, "of the user\n");
    let mut files = files(slot.clone_path());
    files.retain(|path, _| !path.starts_with("nested"));
    let mut expect = super::files(&clones.top);
    expect.retain(|path, _| !path.starts_with("target"));
    assert_eq!(files, expect);
    let config = Clones::read(&slot, ".git/config");
    assert!(!config.contains("filter") && !config.contains("fsmonitor"), "{config}");
    assert!(!slot.clone_path().join(".git/hooks/pre-commit").exists());
}

#[test]
fn a_requeued_tree_is_uncommitted_work() {
    let clones = Clones::new(World::new());
    clones.world.write("a.txt", "<<<<<<< conflict\n");
    clones.world.write("new.txt", "new\n");
    clones.world.git(&["add", "--all"]);
    let tree = clones.world.git(&["write-tree"]);
    clones.world.git(&["reset", "--quiet", "--hard"]);
    let slot = clones.slot("w1");
    let request = CloneRequest { start_tree: Some(TreeId(tree)), ..clones.request() };
    prepare_clone(&clones.repository(), &slot, &request).expect("prepared");
    assert_eq!(clones.git(&slot, &["status", "--porcelain"]), " M a.txt\n?? new.txt");
}

#[test]
fn every_kind_of_project_has_clones() {
    let sha256 = World::empty();
    fs::remove_dir_all(sha256.at(".git")).expect("removed");
    sha256.git(&["init", "--quiet", "--object-format=sha256", "--initial-branch=main"]);
    sha256.write("a.txt", "a\n");
    sha256.git(&["add", "--all"]);
    sha256.git(&["commit", "--quiet", "-m", "first"]);

    let linked = World::new();
    linked.git(&["worktree", "add", "--quiet", "-b", "side", "../linked"]);
    let linked_top = linked.directory.path().join("linked").canonicalize().expect("there");

    let below = World::new();
    let below_top = below.at("dir");

    let (borrower, lender) = (World::new(), World::new());
    let from = lender.top().display().to_string();
    fs::remove_dir_all(borrower.top()).expect("removed");
    borrower.git_in(borrower.directory.path(), &["clone", "--quiet", "--shared", &from, "project"]);
    let found = find_object_directories(&borrower.repository());
    assert_eq!(found, [borrower.at(".git/objects"), lender.at(".git/objects")]);

    let tops = [sha256.top(), linked_top, below_top, borrower.top()];
    for (world, top) in [sha256, linked, below, borrower].into_iter().zip(tops) {
        let clones = Clones { world, top };
        for worker in ["w1", "w2"] {
            let slot = clones.slot(worker);
            let request = CloneRequest { branch: Some("main".into()), ..clones.request() };
            let prepared = prepare_clone(&clones.repository(), &slot, &request).expect("prepared");
            assert_eq!(prepared.is_new, worker == "w1");
            assert_eq!(clones.git(&slot, &["status", "--porcelain"]), "", "{:?}", clones.top);
            assert_eq!(clones.git(&slot, &["log", "--format=%s"]), "first");
            Clones::write(&slot, "a.txt", "work\n");
        }
        let kept = clones.world.git_in(&clones.top, &["show", "refs/ralph/kept/w1:a.txt"]);
        assert_eq!(kept, "work");
    }
}

#[test]
fn included_files_are_copied_and_again_if_they_differ() {
    let clones = Clones::new(World::new());
    clones.world.write(".gitignore", "*.log\n/target/\n.env*\nlink\n");
    clones.world.write(".worktreeinclude", ".env*\n!.env.old\nlink\nnot-ignored\n");
    clones.world.git(&["add", "--all"]);
    clones.world.git(&["commit", "--quiet", "-m", "second"]);
    for path in [".env", "dir/.env.local", ".env.old", "not-ignored", "x.log", "y.log"] {
        clones.world.write(path, "content\n");
    }
    std::os::unix::fs::symlink("/etc/passwd", clones.world.at("link")).expect("a link");
    let request = CloneRequest { include: vec!["/x.log".into()], ..clones.request() };
    let repository = clones.repository();
    let slot = clones.slot("w1");
    let limited = CloneRequest { copy_limit: 3, ..request.clone() };
    let prepared = prepare_clone(&repository, &slot, &limited).expect("prepared");
    let is_there = |slot: &WorkerSlot, path: &str| slot.clone_path().join(path).exists();
    // Where files can share their content there is nothing to copy.
    let is_shared = is_there(&slot, ".env");
    let warning = "3 included files are not in s1: all of them have 24 bytes, and \
                   `parallel.copyLimit` is 3";
    assert_eq!(prepared.warnings.first().map(String::as_str), (!is_shared).then_some(warning));
    let again = prepare_clone(&repository, &slot, &request).expect("prepared");
    assert!(!again.is_new);
    assert!(is_there(&slot, ".env"));
    Clones::write(&slot, ".env", "of an agent\n");
    prepare_clone(&repository, &slot, &request).expect("prepared");
    assert_eq!(Clones::read(&slot, ".env"), "content\n");

    fs::remove_dir_all(slot.directory()).expect("removed");
    drop(slot);
    let slot = clones.slot("w2");
    assert_eq!(prepare_clone(&repository, &slot, &request).expect("prepared").warnings, [""; 0]);
    for (path, expect) in [
        (".env", true),
        ("dir/.env.local", true),
        ("x.log", true),
        (".env.old", false),
        ("not-ignored", false),
        ("y.log", false),
        ("link", false),
    ] {
        assert_eq!(is_there(&slot, path), expect, "{path}");
    }
    let tracked = fs::metadata(clones.world.at(".gitignore")).expect("there").len()
        + fs::metadata(clones.world.at(".worktreeinclude")).expect("there").len()
        + 4;
    assert_eq!(find_needed_space(&repository, &request.base, &request.include), Ok(tracked + 24));
}

#[test]
fn an_included_file_that_cannot_be_copied_is_a_warning() {
    let clones = Clones::new(World::new());
    clones.world.write(".gitignore", ".env*\n");
    clones.world.write(".worktreeinclude", ".env*\n");
    std::os::unix::fs::symlink("elsewhere", clones.world.at("linked")).expect("a link");
    clones.world.git(&["add", "--all"]);
    clones.world.git(&["commit", "--quiet", "-m", "second"]);
    // In the clone it is the link of the commit.
    fs::remove_file(clones.world.at("linked")).expect("removed");
    for path in [".env", "linked/.env"] {
        clones.world.write(path, "content\n");
    }
    let slot = clones.slot("w1");
    let warnings = clones.prepare(&slot).warnings;
    assert!(
        matches!(&warnings[..], [only] if only.contains("`linked/.env` is not in s1")),
        "{warnings:?}"
    );
    assert_eq!(Clones::read(&slot, ".env"), "content\n");
}

#[test]
fn the_setup_command_is_due_in_a_new_clone_and_after_changes() {
    let clones = Clones::new(World::new());
    let policy = ClonePolicy {
        setup: Some("make".into()),
        setup_when: vec!["a.txt".into(), "missing".into()],
        ..ClonePolicy::default()
    };
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    assert_eq!(find_due_setup(&slot, &ClonePolicy::default()), None);
    let due = find_due_setup(&slot, &policy).expect("due in a new clone");
    // What the agent changes meanwhile is not what the command has seen.
    Clones::write(&slot, "a.txt", "changed\n");
    record_setup(&slot, &due).expect("recorded");
    assert_ne!(find_due_setup(&slot, &policy), None);
    clones.prepare(&slot);
    assert_eq!(find_due_setup(&slot, &policy), None);
    let other = ClonePolicy { setup: Some("other".into()), ..policy };
    assert_ne!(find_due_setup(&slot, &other), None);
}

#[test]
fn repositories_without_clones_are_refused_with_a_remedy() {
    let policy = ClonePolicy::default();
    let check = |world: &World| {
        check_can_clone(&world.repository(), &policy).map_err(|it| (it.reason, it.hint))
    };
    let expect = |reason: &str, hint: &str| {
        Err((reason.to_owned(), Some(hint.to_owned()).filter(|hint| !hint.is_empty())))
    };
    let plain = World::new();
    assert_eq!(check(&plain), Ok(()));
    assert_eq!(check(&World::empty()), expect("there is no commit yet", "commit something first"));

    let detached = plain.copy();
    detached.git(&["checkout", "--quiet", "--detach"]);
    let hint = "check out a branch, such as with `git switch -c work`";
    assert_eq!(check(&detached), expect("HEAD is detached", hint));

    let shallow = plain.copy();
    shallow.write(".git/shallow", &shallow.git(&["rev-parse", "HEAD"]));
    let hint = "run `git fetch --unshallow`";
    assert_eq!(check(&shallow), expect("the repository is a shallow clone", hint));

    let partial = plain.copy();
    partial.git(&["config", "remote.origin.promisor", "true"]);
    assert_eq!(check(&partial), expect("the repository is a partial clone", ""));

    let sparse = plain.copy();
    sparse.git(&["config", "core.sparseCheckout", "true"]);
    let hint = "run `git sparse-checkout disable`";
    assert_eq!(check(&sparse), expect("the work tree is a sparse checkout", hint));

    let modules = plain.copy();
    modules.write(".gitmodules", "");
    let hint = "set `parallel.setup`: to `true`, which leaves them empty, or with --no-sandbox to \
                    `git submodule update --init`";
    let reason = "there are submodules, and no command sets them up";
    assert_eq!(check(&modules), expect(reason, hint));
    let with_setup = ClonePolicy { setup: Some("x".into()), ..policy.clone() };
    assert_eq!(check_can_clone(&modules.repository(), &with_setup), Ok(()));

    let lfs = plain.copy();
    lfs.write("dir/.gitattributes", "# filter=lfs\n*.bin filter=lfs diff=lfs\n");
    lfs.git(&["add", "--all"]);
    assert_eq!(check(&lfs), expect("`dir/.gitattributes` uses Git LFS", ""));

    let filter = plain.copy();
    filter.git(&["config", "filter.x.clean", "python3 -m strip"]);
    assert_eq!(check(&filter), Ok(()));
    filter.write(".git/info/attributes", "*.nb filter=x\n");
    let reason = "`info/attributes` uses the filter `x` of git's configuration";
    assert_eq!(check(&filter), expect(reason, ""));
}

/// What a worker ended with whose last commit is this one.
fn result(slot: &WorkerSlot, commit: &str) -> JobResult {
    let clone = slot.clone_path();
    serde_json::from_value(serde_json::json!({
        "outcome": { "end": "complete" }, "place": "s1", "repository": clone, "commit": commit,
        "usage": Usage::default(), "iterations": 1, "ran": 1,
    }))
    .expect("a result")
}

#[test]
fn a_candidate_is_copied_with_two_starts_of_git_and_needs_its_clone_no_more() {
    let clones = Clones::new(World::new());
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    for text in ["one\n", "two\n"] {
        Clones::write(&slot, "dir/b.txt", text);
        clones.git(&slot, &["add", "--all"]);
        clones.git(&slot, &["commit", "--quiet", "-m", text]);
    }
    let commit = clones.git(&slot, &["rev-parse", "HEAD"]);
    let repository = clones.repository();
    repository.head().expect("known");
    let before = repository.commands.count();
    let (run, worker) = (RunId("r".into()), WorkerId("w1".into()));
    let fetched = repository.fetch_candidate(&run, &worker, &result(&slot, &commit));
    assert_eq!(fetched, Ok(FetchOutcome::Fetched));
    assert_eq!(repository.commands.count() - before, 2);
    fs::remove_dir_all(slot.clone_path()).expect("removed");
    assert_eq!(clones.world.git(&["show", "refs/ralph/candidates/r/w1:dir/b.txt"]), "two");
    clones.world.git(&["fsck", "--strict", "--connectivity-only"]);
}

#[test]
fn a_candidate_with_missing_or_forged_objects_is_not_taken() {
    let clones = Clones::new(World::new());
    let slot = clones.slot("w1");
    clones.prepare(&slot);
    let forge = |entry: &str| {
        let script = format!(
            "tree=$(printf '{entry}' | git mktree --missing) && git commit-tree -p HEAD -m x $tree"
        );
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(slot.clone_path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "x").env(format!("GIT_{role}_EMAIL"), "x");
        }
        String::from_utf8(command.output().expect("it runs").stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    let missing = forge("100644 blob 0123456789012345678901234567890123456789\\ta.txt\\n");
    let git_file = forge("100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\\t.git\\n");
    let (repository, run, worker) = (clones.repository(), RunId("r".into()), WorkerId("w1".into()));
    for commit in [missing, git_file] {
        assert_eq!(commit.len(), 40, "{commit}");
        let fetched = repository.fetch_candidate(&run, &worker, &result(&slot, &commit));
        assert!(matches!(fetched, Ok(FetchOutcome::Missing { .. })), "{commit}: {fetched:?}");
        assert_eq!(clones.world.git(&["for-each-ref", "refs/ralph/candidates"]), "");
    }
}
