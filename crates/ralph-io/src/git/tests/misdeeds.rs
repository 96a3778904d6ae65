//! What agents do to repositories, and that every operation copes with it.

use ralph_model::worktree::History;

use super::*;

/// Something an agent does, and what it makes of the history.
struct Misdeed {
    name: &'static str,
    action: fn(&World),
    history: History,
}

const REWRITTEN: History = History::Rewritten;

const ADVANCED: History = History::Advanced { commits: 1 };

static MISDEEDS: [Misdeed; 19] = [
    Misdeed { name: "none", action: |_| (), history: History::Same },
    Misdeed { name: "commits", action: commit_all, history: ADVANCED },
    Misdeed {
        name: "amends",
        action: |world| {
            commit_all(world);
            world.git(&["reset", "--quiet", "--soft", "HEAD~2"]);
            world.git(&["commit", "--quiet", "-m", "agent: squashed"]);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "throws commits away",
        action: |world| drop(world.git(&["reset", "--quiet", "--hard", "HEAD~1"])),
        history: REWRITTEN,
    },
    Misdeed {
        name: "switches the branch",
        action: |world| {
            world.git(&["checkout", "--quiet", "-b", "agents"]);
            commit_all(world);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "commits on two branches",
        action: |world| {
            commit_all(world);
            world.git(&["checkout", "--quiet", "-b", "agents", "HEAD~1"]);
            world.write("a.txt", "agent, elsewhere\n");
            commit_all(world);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "detaches HEAD",
        action: |world| {
            world.git(&["checkout", "--quiet", "--detach"]);
            commit_all(world);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "deletes the branch",
        action: |world| {
            commit_all(world);
            world.git(&["checkout", "--quiet", "--detach"]);
            world.git(&["branch", "--quiet", "-D", "main"]);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "deletes the branch it is on",
        action: |world| drop(world.git(&["update-ref", "-d", "refs/heads/main"])),
        history: REWRITTEN,
    },
    Misdeed {
        name: "starts over",
        action: |world| {
            world.git(&["checkout", "--quiet", "--orphan", "fresh"]);
            commit_all(world);
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "leaves a lock",
        action: |world| {
            commit_all(world);
            world.write("a.txt", "agent, more\n");
            world.write(".git/index.lock", "");
            world.write(".git/refs/heads/main.lock", "");
            world.write(".git/HEAD.lock", "");
        },
        history: ADVANCED,
    },
    Misdeed { name: "leaves a merge", action: |world| collide(world, "merge"), history: ADVANCED },
    Misdeed {
        name: "leaves a rebase",
        action: |world| collide(world, "rebase"),
        history: REWRITTEN,
    },
    Misdeed {
        name: "leaves a cherry-pick",
        action: |world| collide(world, "cherry-pick"),
        history: ADVANCED,
    },
    Misdeed {
        name: "leaves a bisection",
        action: |world| {
            commit_all(world);
            world.git(&["bisect", "start", "HEAD", "HEAD~2"]);
            world.write("agents.txt", "agent\n");
        },
        history: REWRITTEN,
    },
    Misdeed {
        name: "adds a submodule",
        action: |world| {
            let url = world.directory.path().join("module");
            fs::create_dir(&url).expect("made");
            world.git_in(&url, &["init", "--quiet"]);
            world.git_in(&url, &["commit", "--quiet", "--allow-empty", "-m", "module"]);
            let url = url.to_str().expect("text");
            let allow = "protocol.file.allow=always";
            world.git(&["-c", allow, "submodule", "--quiet", "add", "--", url, "sub"]);
        },
        history: History::Same,
    },
    Misdeed {
        name: "chooses odd names",
        action: |world| {
            for name in odd_names() {
                world.write(name, "odd\n");
            }
            commit_all(world);
        },
        history: ADVANCED,
    },
    Misdeed {
        name: "links out of the tree",
        action: |world| {
            let outside = world.directory.path().join("outside");
            fs::create_dir(&outside).expect("made");
            fs::write(outside.join("b.txt"), "outside\n").expect("written");
            world.remove("dir/b.txt");
            fs::remove_dir(world.at("dir")).expect("removed");
            std::os::unix::fs::symlink(&outside, world.at("dir")).expect("a link");
            std::os::unix::fs::symlink("/etc/passwd", world.at("passwd")).expect("a link");
        },
        history: History::Same,
    },
    Misdeed {
        name: "plants pipes",
        action: |world| {
            for path in ["a.txt", "half.txt"] {
                world.remove(path);
                pipe(&world.at(path));
            }
            world.remove("dir/b.txt");
            fs::create_dir(world.at("dir/b.txt")).expect("made");
            pipe(&world.at("dir/b.txt/pipe"));
        },
        history: History::Same,
    },
];

/// Returns all misdeeds, in a quick check every third.
fn some_misdeeds(first: usize) -> impl Iterator<Item = &'static Misdeed> {
    let (first, every) = if is_quick() { (first, 3) } else { (0, 1) };
    MISDEEDS.iter().skip(first).step_by(every)
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("made");
}

fn commit_all(world: &World) {
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "agent"]);
}

/// Commits, and leaves an operation with the branch `other` in conflict.
fn collide(world: &World, operation: &str) {
    commit_all(world);
    world.try_git(&world.top(), &[operation, "other"]).expect_err("a conflict");
}

/// Returns a repository with two commits, a branch that is in conflict with what the agent does,
/// and everything else that a user may have.
fn rich() -> World {
    let world = World::new();
    world.git(&["checkout", "--quiet", "-b", "other"]);
    world.write("a.txt", "other\n");
    world.git(&["commit", "--quiet", "--all", "-m", "other"]);
    world.git(&["checkout", "--quiet", "main"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    world.write("stashed.txt", "stashed\n");
    world.git(&["add", "stashed.txt"]);
    world.git(&["stash", "--quiet"]);
    world.write("staged.txt", "staged\n");
    world.write("half.txt", "staged\n");
    world.git(&["add", "staged.txt", "half.txt"]);
    world.write("half.txt", "changed since\n");
    world.write("untracked.txt", "untracked\n");
    world
}

/// A world after a misdeed.
struct After {
    world: World,
    git: GitVcs,
    checkpoint: Checkpoint,
    /// What the user had.
    before: Users,
    /// What there was after the misdeed.
    worst: Users,
}

fn after(rich: &World, misdeed: &Misdeed) -> After {
    let world = rich.copy();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    let before = world.users();
    world.write("a.txt", "agent\n");
    world.write("agents.txt", "agent\n");
    (misdeed.action)(&world);
    let worst = world.users();
    After { world, git, checkpoint, before, worst }
}

/// Asserts that what is the user's is as it was.
#[track_caller]
fn is_unharmed(after: &After, name: &str) {
    let (now, before) = (after.world.users(), &after.before);
    assert_eq!((&now.head, &now.index), (&before.head, &before.index), "{name}");
    assert_eq!((&now.stash, &now.config), (&before.stash, &after.worst.config), "{name}");
    for branch in &before.branches {
        assert!(now.branches.contains(branch), "{name}: {branch} in {:?}", now.branches);
    }
    let ignored = Path::new("target/ignored");
    assert_eq!(now.files.get(ignored), before.files.get(ignored), "{name}");
    assert_eq!(after.world.repository().operation(), None, "{name}");
}

/// Asserts that every commit that was on a branch or checked out can be reached from a ref.
#[track_caller]
fn nothing_is_lost(after: &After, tip: Option<&str>, name: &str) {
    let tips = after.worst.branches.iter().filter_map(|line| line.split(' ').nth(1)).chain(tip);
    for tip in tips {
        let missing = after.world.git(&["rev-list", "--count", tip, "--not", "--all"]);
        assert_eq!(missing, "0", "{name}: {tip}");
    }
}

fn tip(world: &World) -> Option<String> {
    world.try_git(&world.top(), &["rev-parse", "--verify", "HEAD"]).ok()
}

#[test]
fn every_misdeed_is_seen_and_nothing_is_touched() {
    let rich = rich();
    for misdeed in &MISDEEDS {
        let mut after = after(&rich, misdeed);
        let seen =
            after.git.observe(&after.checkpoint, &[]).expect(misdeed.name).expect("a repository");
        assert_eq!(seen.history, misdeed.history, "{}", misdeed.name);
        assert_eq!(after.world.users(), after.worst, "{}", misdeed.name);
    }
}

#[test]
fn every_history_is_restored_under_the_work() {
    let rich = rich();
    for misdeed in some_misdeeds(0) {
        let name = misdeed.name;
        let mut after = after(&rich, misdeed);
        let left = tip(&after.world);
        let kept = after.git.reset_history(&mark(3), &after.checkpoint).expect(name);
        let has_moved = misdeed.history != History::Same;
        let expected = format!("refs/ralph/kept/{}/3-history", mark(3).run);
        assert_eq!(kept, has_moved.then_some(expected), "{name}");
        if has_moved {
            is_unharmed(&after, name);
        }
        assert_eq!(after.world.users().files, after.worst.files, "{name}");
        nothing_is_lost(&after, left.as_deref(), name);
        // Done again after a crash.
        let now = (after.world.users(), after.world.ralphs_refs());
        let again = after.world.open().reset_history(&mark(3), &after.checkpoint);
        assert_eq!(again, Ok(kept), "{name}");
        assert_eq!((after.world.users(), after.world.ralphs_refs()), now, "{name}");
        // The work can be committed now, on top of what the user had.
        let parent = tip(&after.world).expect("a commit");
        let order = order_for(3, &mut after.git);
        made(after.git.commit_tree(&order));
        assert_eq!(after.world.git(&["rev-parse", "HEAD^@"]), parent, "{name}");
        let TreeId(tree) = order.tree.expect("a tree");
        assert_eq!(after.world.git(&["rev-parse", "HEAD^{tree}"]), tree, "{name}");
        assert_eq!(after.world.git(&["symbolic-ref", "HEAD"]), "refs/heads/main", "{name}");
    }
}

#[test]
fn every_work_goes_to_a_failure_branch_and_the_checkpoint_is_restored() {
    let rich = rich();
    for misdeed in some_misdeeds(1) {
        let name = misdeed.name;
        let mut after = after(&rich, misdeed);
        let left = tip(&after.world);
        let order = failure_branch_order(3, &after.checkpoint);
        let failed_work = after.git.save_to_failure_branch(&order).expect(name);
        assert_eq!(failed_work.branch, order.branch, "{name}");
        is_unharmed(&after, name);
        nothing_is_lost(&after, left.as_deref(), name);
        let mut expected = after.before.files.clone();
        let mut now = after.world.users().files;
        // The files of a submodule are its own.
        now.retain(|path, _| !path.starts_with("sub"));
        expected.retain(|path, _| !path.starts_with("sub"));
        assert_eq!(now, expected, "{name}");
        assert_eq!(
            after.world.git(&["show", "wip/ralph-fail-auth-20261114-231500:failure/state.md"]),
            "# Why"
        );
        for (path, text) in &after.worst.files {
            let is_work = !["directory", "special"].contains(&text.as_str())
                && !path.starts_with("target")
                && !path.starts_with("sub");
            let Some(path) = path.to_str().filter(|_| is_work) else { continue };
            let text = text.trim_start_matches("-> ").trim_end();
            let spec = format!("{}:{path}", failed_work.commit.0);
            assert_eq!(after.world.git(&["cat-file", "blob", &spec]), text, "{name}: {path}");
        }
        let now = (after.world.users(), after.world.ralphs_refs());
        assert_eq!(after.world.open().save_to_failure_branch(&order), Ok(failed_work), "{name}");
        assert_eq!((after.world.users(), after.world.ralphs_refs()), now, "{name}");
    }
}

#[test]
fn every_misdeed_can_be_rolled_back() {
    let rich = rich();
    for misdeed in some_misdeeds(2) {
        let name = misdeed.name;
        let mut after = after(&rich, misdeed);
        let left = tip(&after.world);
        let kept = after.git.roll_back(&mark(3), &after.checkpoint).expect(name);
        assert!(kept.is_some(), "{name}");
        is_unharmed(&after, name);
        nothing_is_lost(&after, left.as_deref(), name);
    }
}

#[test]
fn a_missing_or_damaged_head_is_written_again() {
    for (name, action) in [
        ("gone", (|head| fs::remove_file(head).expect("removed")) as fn(&Path)),
        ("garbled", |head| fs::write(head, "nonsense").expect("written")),
        ("a pipe", |head| {
            fs::remove_file(head).expect("removed");
            pipe(head);
        }),
        ("a directory", |head| {
            fs::remove_file(head).expect("removed");
            fs::create_dir(head).expect("made");
        }),
    ] {
        for detached in ["", "--detach"] {
            let world = World::new();
            world.git(&[&["checkout", "--quiet"], &[detached][..detached.len().min(1)]].concat());
            let mut git = world.open();
            let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
            let before = world.users();
            action(&world.at(".git/HEAD"));
            let seen = git.observe(&checkpoint, &[]).expect(name).expect("a repository");
            assert_eq!(seen.history, History::Same, "{name} {detached}");
            assert_eq!(git.roll_back(&mark(3), &checkpoint), Ok(None), "{name} {detached}");
            assert_eq!(world.users(), before, "{name} {detached}");
        }
    }
}

#[test]
fn files_restored_before_a_crash_are_reported_by_the_resumed_run() {
    type Action = fn(&World);
    let actions: [(Action, &str); 2] = [
        (|world| drop(world.git(&["config", "core.fsmonitor", "./evil"])), ".git/config"),
        (
            |world| drop(world.git(&["update-index", "--assume-unchanged", "a.txt"])),
            "a.txt (its changes were hidden from git)",
        ),
    ];
    for (action, expect) in actions {
        let world = World::new();
        let checkpoint =
            world.open().create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
        let look = |git: &mut GitVcs| {
            git.observe(&checkpoint, &[]).expect("observed").expect("a repository").git_tampering
        };
        action(&world);
        let mut dies = world.open();
        assert_eq!(look(&mut dies), [expect]);
        drop(dies);
        let mut resumed = world.open();
        assert_eq!(look(&mut resumed), [expect], "it may not have been reported");
        assert_eq!(look(&mut resumed), [""; 0], "it was reported");
        let mut resumed = world.open();
        assert_eq!(look(&mut resumed), [expect], "the report may not be in the journal");
        resumed.forget_reported_tampering();
        assert_eq!(look(&mut world.open()), [""; 0], "it is in the journal");
        action(&world);
        assert_eq!(
            world.open().create_checkpoint(&mark(2), CheckpointDepth::Tree).expect("noted"),
            checkpoint
        );
        assert_eq!(look(&mut world.open()), [""; 0], "an iteration begins with what there is");
    }
}

#[test]
fn git_files_changed_before_a_crash_are_restored_in_every_iteration_and_call() {
    let world = World::new();
    let read_config = || std::fs::read_to_string(world.at(".git/config")).expect("read");
    let config = read_config();
    let mut git = world.open();
    let look = |git: &mut GitVcs, since: &Checkpoint| {
        let seen = git.observe(since, &[]).expect("observed").expect("a repository");
        git.forget_reported_tampering();
        seen.git_tampering
    };
    let action = || drop(world.git(&["config", "core.fsmonitor", "./evil"]));
    let first = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    assert_eq!(look(&mut git, &first), [""; 0]);
    let second = git.create_checkpoint(&mark(2), CheckpointDepth::Tree).expect("noted");
    action();
    assert_eq!(look(&mut world.open(), &second), [".git/config"], "in a later iteration");
    assert_eq!(read_config(), config);
    let mut resumed = world.open();
    assert_eq!(look(&mut resumed, &second), [""; 0], "it is in the journal");
    resumed.ensure_git_files_recorded();
    action();
    assert_eq!(look(&mut world.open(), &second), [".git/config"], "by a reviewer");
    assert_eq!(read_config(), config);
    action();
    assert_eq!(look(&mut world.open(), &second), [""; 0], "by a user while the run is stopped");
}
