//! Failure branches: created, found again, merged back, archived.

use ralph_core::ports::{SavedBranch, VcsError};

use super::*;

fn task() -> TaskId {
    TaskId("auth".into())
}

const BRANCH: &str = "wip/ralph-fail-auth-20261114-231500";

/// Commits what `work` does in the third iteration to a failure branch.
fn fail(world: &World, work: impl FnOnce()) -> Result<SavedBranch, VcsError> {
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    work();
    git.save_to_failure_branch(&failure_branch_order(3, &checkpoint))
}

#[track_caller]
fn only_branch(world: &World) -> FailureBranch {
    let mut branches = world.open().list_failure_branches(&task()).expect("listed");
    assert_eq!(branches.len(), 1, "{branches:?}");
    branches.remove(0)
}

#[test]
fn a_failure_branch_has_the_work_and_the_report() {
    let world = World::new();
    let head = world.git(&["rev-parse", "HEAD"]);
    let failed = fail(&world, || world.write("new.txt", "new\n")).expect("committed");
    assert_eq!(failed.branch, BRANCH);
    expect_test::expect![[r"
        User <user@example.com>
        ralph: auth failed

        Iterations: 3/5
        Last gate: test

        Ralph-Run: 20261114-231500-k3f9
        Ralph-Iteration: 3
        Ralph-Task: auth
        Ralph-Beside: failure/state.md


        A	failure/state.md
        A	new.txt"]]
    .assert_eq(&world.git(&["log", "-1", "--name-status", "--format=%an <%ae>%n%B", BRANCH]));
    assert_eq!(world.git(&["rev-parse", &format!("{BRANCH}^@")]), head);
    assert!(!world.at("new.txt").exists());
}

#[test]
fn a_name_that_is_taken_gets_a_number() {
    let world = World::new();
    world.git(&["branch", BRANCH]);
    world.write("failure/state.md", "the user's\n");
    let failed = fail(&world, || world.write("new.txt", "new\n")).expect("committed");
    assert_eq!(failed.branch, format!("{BRANCH}-2"));
    let listed = world.git(&["ls-tree", "-r", "--name-only", &failed.branch, "failure/"]);
    assert_eq!(listed, "failure/state.md\nfailure/state.md-2");
    let again = fail(&world, || ()).expect("committed");
    assert_eq!(again, failed, "the same iteration is not committed twice");
    // A file in place of the directory, and a branch in place of the branch's.
    let world = World::new();
    world.git(&["branch", "wip"]);
    world.write("failure", "the user's\n");
    let failed = fail(&world, || ()).expect("committed");
    assert_eq!(failed.branch, "wip-ralph-fail-auth-20261114-231500");
    let listed = world.git(&["ls-tree", "-r", "--name-only", &failed.branch, "failure-2/"]);
    assert_eq!(listed, "failure-2/state.md");
    assert_eq!(fail(&world, || ()), Ok(failed));
    let archived = world.open().archive_failure_branches(&task()).expect("archived");
    assert_eq!(archived, ["wip-archive-wip-ralph-fail-auth-20261114-231500"]);
}

#[test]
fn before_the_first_commit_a_failure_branch_is_a_root() {
    let world = World::empty();
    world.write("mine.txt", "mine\n");
    world.git(&["add", "mine.txt"]);
    let before = world.users();
    let failed = fail(&world, || {
        world.write("new.txt", "new\n");
    })
    .expect("committed");
    assert_eq!(world.git(&["log", "--format=%P", BRANCH]), "");
    let after = world.users();
    assert_eq!((&after.files, &after.index), (&before.files, &before.index));
    assert_eq!(after.head, before.head);
    let mut git = world.open();
    assert_eq!(git.merge_failure_branch(&only_branch(&world)), Ok(TakenWork::Done));
    assert!(world.at("new.txt").exists() && !world.at("failure").exists());
    // The same with commits of the agent's own.
    let world = World::empty();
    fail(&world, || {
        world.write("new.txt", "new\n");
        world.git(&["add", "--all"]);
        world.git(&["commit", "--quiet", "-m", "agent"]);
    })
    .expect("committed");
    assert_eq!(world.git(&["log", "--format=%s", &failed.branch]), "ralph: auth failed\nagent");
    assert_eq!(world.git(&["branch", "--format=%(refname:short)"]), BRANCH);
    assert_eq!(files(&world.top()).len(), 0);
}

#[test]
fn failed_work_is_committed_without_an_identity_and_past_all_hooks() {
    let mut world = World::new();
    world.env.retain(|(name, _)| !name.to_string_lossy().contains("_EMAIL"));
    world.git(&["config", "user.useConfigOnly", "true"]);
    for hook in ["pre-commit", "commit-msg", "reference-transaction"] {
        world.script(&format!(".git/hooks/{hook}"), "exit 3");
    }
    fail(&world, || world.write("new.txt", "new\n")).expect("committed");
    assert_eq!(world.git(&["log", "-1", "--format=%an", BRANCH]), "ralph");
}

#[test]
fn many_attempts_later_the_first_checkpoint_is_still_known() {
    let world = World::new();
    world.write("staged.txt", "staged\n");
    world.git(&["add", "staged.txt"]);
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    let before = world.users();
    for iteration in 4..9 {
        world.write("work.txt", &iteration.to_string());
        world.git(&["add", "--all"]);
        git.create_checkpoint(&mark(iteration), CheckpointDepth::Tree).expect("noted");
    }
    git.save_to_failure_branch(&failure_branch_order(8, &checkpoint)).expect("committed");
    let after = world.users();
    assert_eq!((&after.files, &after.index), (&before.files, &before.index));
    git.save_to_failure_branch(&failure_branch_order(8, &Checkpoint::None))
        .expect_err("nothing to restore");
}

#[test]
fn a_crash_after_the_branch_was_made_is_made_good() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    let before = world.users();
    world.write("new.txt", "new\n");
    let order = failure_branch_order(3, &checkpoint);
    let failed = git.commit_to_failure_branch(&order).expect("committed");
    assert!(world.at("new.txt").exists());
    assert_eq!(world.open().save_to_failure_branch(&order), Ok(failed));
    assert_eq!(world.users().files, before.files);
    assert_eq!(
        world.git(&["for-each-ref", "--format=%(refname)", "refs/heads/wip"]),
        format!("refs/heads/{BRANCH}")
    );
}

#[test]
fn failure_branches_are_found_by_task_newest_first() {
    let mut world = World::new();
    let tree = world.git(&["rev-parse", "HEAD^{tree}"]);
    for (branch, when, trailer) in [
        (BRANCH, 100, "Ralph-Task: auth"),
        ("wip/ralph-fail-auth-20261115-000000", 200, "Ralph-Task: auth"),
        ("wip/ralph-fail-auth-20261115-000000-2", 200, ""),
        ("wip/ralph-fail-auth-20261116-000000", 300, "Ralph-Task: au/th"),
        ("wip/ralph-fail-auth-more-20261116-000000", 300, "Ralph-Task: auth-more"),
        ("wip/archive/ralph-fail-auth-20261101-000000", 50, "Ralph-Task: auth"),
    ] {
        world.env.push(("GIT_COMMITTER_DATE".into(), format!("@{when} +0000").into()));
        let message = format!("failed\n\nbody\n\n{trailer}");
        let commit = world.git(&["commit-tree", &tree, "-m", &message]);
        world.git(&["branch", branch, &commit]);
        world.env.pop();
    }
    let found: Vec<(String, i64)> = world
        .open()
        .list_failure_branches(&task())
        .expect("listed")
        .into_iter()
        .map(|it| (it.branch, it.when.0))
        .collect();
    assert_eq!(
        found,
        [
            ("wip/ralph-fail-auth-20261115-000000-2".into(), 200_000),
            ("wip/ralph-fail-auth-20261115-000000".into(), 200_000),
            (BRANCH.into(), 100_000),
        ]
    );
}

#[test]
fn failed_work_comes_back_on_top_of_what_was_done_since() {
    let world = World::new();
    world.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "long"]);
    fail(&world, || {
        world.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
        world.write(OsStr::from_bytes(b"new-\xff"), "new\n");
        world.remove("dir/b.txt");
    })
    .expect("committed");
    world.write("long.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    world.git(&["commit", "--quiet", "--all", "-m", "since"]);
    world.write("untracked.txt", "untracked\n");
    let before = world.users();
    let branch = only_branch(&world);
    assert!(
        branch.message.starts_with("ralph: auth failed\n\nIterations: 3/5"),
        "{}",
        branch.message
    );
    assert_eq!(world.open().merge_failure_branch(&branch), Ok(TakenWork::Done));
    let after = world.users();
    assert_eq!((&after.index, &after.branches), (&before.index, &before.branches));
    expect_test::expect![[r#"
        D dir/b.txt
         M long.txt
        ?? "new-\377"
        ?? untracked.txt"#]]
    .assert_eq(world.git(&["status", "--porcelain"]).trim_start());
    // Taking it twice changes nothing.
    assert_eq!(world.open().merge_failure_branch(&branch), Ok(TakenWork::Done));
    assert_eq!(world.users(), after);
}

#[test]
fn work_that_no_longer_fits_is_marked() {
    let world = World::new();
    fail(&world, || world.write("a.txt", "agent\n")).expect("committed");
    world.write("a.txt", "since\n");
    world.git(&["commit", "--quiet", "--all", "-m", "since"]);
    let before = world.users();
    let marked = TakenWork::Marked { paths: vec!["a.txt".into()] };
    assert_eq!(world.open().merge_failure_branch(&only_branch(&world)), Ok(marked));
    let after = world.users();
    assert_eq!((&after.index, &after.branches), (&before.index, &before.branches));
    let text = fs::read_to_string(world.at("a.txt")).expect("read");
    assert!(
        text.starts_with("<<<<<<< ") && text.contains("since\n=======\nagent\n>>>>>>> "),
        "{text}"
    );
}

#[test]
fn work_whose_place_is_taken_is_reported_and_nothing_changes() {
    // An ignored file is in the way.
    let world = World::new();
    fail(&world, || world.write("new.txt", "agent\n")).expect("committed");
    world.write(".git/info/exclude", "new.txt\n");
    world.write("new.txt", "ignored\n");
    let before = world.users();
    let blocked = TakenWork::Blocked { paths: vec!["new.txt".into()] };
    assert_eq!(world.open().merge_failure_branch(&only_branch(&world)), Ok(blocked));
    assert_eq!(world.users(), before);
}

#[test]
fn a_failure_branch_that_a_user_continued_is_taken_whole() {
    let world = World::new();
    fail(&world, || world.write("new.txt", "agent\n")).expect("committed");
    world.git(&["checkout", "--quiet", BRANCH]);
    world.write("more.txt", "user\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "user"]);
    world.git(&["checkout", "--quiet", "main"]);
    assert_eq!(world.open().merge_failure_branch(&only_branch(&world)), Ok(TakenWork::Done));
    assert_eq!(world.git(&["status", "--porcelain"]), "?? more.txt\n?? new.txt");
}

#[test]
fn archived_failure_branches_are_renamed_and_never_lost() {
    let world = World::new();
    let failed = fail(&world, || world.write("new.txt", "agent\n")).expect("committed");
    let archived = "wip/archive/ralph-fail-auth-20261114-231500";
    world.git(&["branch", archived]);
    world.git(&["branch", "wip/ralph-fail-auth-20261115-000000"]);
    world.git(&["branch", "wip/ralph-fail-other-20261115-000000"]);
    let linked = world.directory.path().join("linked");
    let linked = linked.to_str().expect("text");
    world.git(&["worktree", "add", "--quiet", linked, "wip/ralph-fail-auth-20261115-000000"]);
    let before = world.users();
    let names = world.open().archive_failure_branches(&task()).expect("archived");
    assert_eq!(names, [format!("{archived}-2")]);
    assert_eq!(world.git(&["rev-parse", &names[0]]), failed.commit.0);
    assert_eq!(world.users().branches.len(), before.branches.len());
    let left = world.open().list_failure_branches(&task()).expect("listed");
    assert_eq!(left.len(), 1, "the one that is checked out stays: {left:?}");
}
