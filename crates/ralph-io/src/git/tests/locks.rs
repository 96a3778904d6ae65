//! Lock files that a killed git leaves behind.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Every kind of lock that git makes, collected by watching its commands.
const GITS: [&str; 17] = [
    "AUTO_MERGE.lock",
    "HEAD.lock",
    "MERGE_RR.lock",
    "ORIG_HEAD.lock",
    "config.lock",
    "config.worktree.lock",
    "gc.pid.lock",
    "index.lock",
    "index.stash.4711.lock",
    "logs/HEAD.lock",
    "next-index-4711.lock",
    "objects/info/commit-graph.lock",
    "objects/maintenance.lock",
    "packed-refs.lock",
    "refs/heads/main.lock",
    "refs/notes/commits.lock",
    "shallow.lock",
];

/// What other programs keep there.
const OTHERS: [&str; 4] = [".lock", "some-tool.lock", "annex/journal.lock", "lfs/cache.lock"];

/// Returns which of these are there.
fn there(directory: &Path, names: &[&'static str]) -> Vec<&'static str> {
    names.iter().copied().filter(|name| directory.join(name).exists()).collect()
}

fn leave(directory: &Path, names: &[&str]) {
    for name in names {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, "").expect("written");
    }
}

#[test]
fn locks_left_by_the_agents_git_are_removed() {
    let world = World::new();
    let directory = world.at(".git");
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.write("a.txt", "changed\n");
    leave(&directory, &GITS);
    leave(&directory, &OTHERS);
    git.observe(&checkpoint, &[]).expect("observed");
    assert_eq!(there(&directory, &GITS), [""; 0]);
    assert_eq!(there(&directory, &OTHERS), OTHERS);
}

#[test]
fn locks_in_submodules_are_removed() {
    const LEFT: [&str; 4] =
        ["index.lock", "AUTO_MERGE.lock", "refs/heads/main.lock", "modules/inner/index.lock"];
    let world = World::new();
    let other = World::new();
    let origin = other.top();
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "--quiet"];
    world.git(&[&add[..], &[origin.to_str().expect("text"), "libs/deep/sub"]].concat());
    world.git(&["commit", "--quiet", "-m", "submodule"]);
    let directory = world.at(".git/modules/libs/deep/sub");
    leave(&directory, &["modules/inner/HEAD"]);
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.write("libs/deep/sub/a.txt", "changed\n");
    leave(&directory, &LEFT);
    git.observe(&checkpoint, &[]).expect("observed");
    assert_eq!(there(&directory, &LEFT), [""; 0]);
}

#[test]
fn a_lock_from_before_the_checkpoint_stays() {
    let world = World::new();
    let directory = world.at(".git");
    leave(&directory, &GITS);
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    git.observe(&checkpoint, &[]).expect("observed");
    assert_eq!(there(&directory, &GITS), GITS);
}

#[test]
fn work_trees_share_some_locks_and_wait_for_each_other() {
    const SHARED: [&str; 3] = ["config.lock", "packed-refs.lock", "refs/heads/linked.lock"];
    const OWN: [&str; 2] = ["AUTO_MERGE.lock", "index.lock"];
    let world = World::new();
    let linked = world.directory.path().join("linked");
    world.git(&["worktree", "add", "--quiet", linked.to_str().expect("text")]);
    let common = world.at(".git");
    let own = common.join("worktrees/linked");
    let mut git = GitVcs::new(world.repository_of(&linked), world.directory.path().join("run"));
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    leave(&common, &SHARED);
    leave(&own, &OWN);

    // Another git is running in the other work tree: the locks may be its own.
    let mut other = Command::new("git")
        .args(["cat-file", "--batch-check"])
        .current_dir(world.top())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    // Until it answers, it may not have its name yet.
    other.stdin.as_mut().expect("a pipe").write_all(b"nothing\n").expect("asked");
    let mut answer = [0];
    other.stdout.as_mut().expect("a pipe").read_exact(&mut answer).expect("answered");
    git.observe(&checkpoint, &[]).expect("observed");
    assert_eq!((there(&common, &SHARED), there(&own, &OWN)), (SHARED.to_vec(), OWN.to_vec()));
    drop(other.stdin.take());
    other.wait().expect("ended");

    git.observe(&checkpoint, &[]).expect("observed");
    assert_eq!((there(&common, &SHARED), there(&own, &OWN)), (Vec::new(), Vec::new()));
}
