//! Rollbacks: the user's work is not lost, and the iteration's work is kept.

use super::*;

/// Rolls back what `iteration` did, and returns the ref that keeps it.
#[track_caller]
fn check(world: &World, iteration: impl FnOnce()) -> Option<String> {
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    let before = world.users();
    iteration();
    let worst = files(&world.top());
    let kept = git.roll_back(&mark(3), &checkpoint).expect("back");
    let after = world.users();
    assert_eq!(after.files, before.files);
    assert_eq!((&after.head, &after.stash), (&before.head, &before.stash));
    assert_eq!((&after.index, &after.config), (&before.index, &before.config));
    for branch in &before.branches {
        assert!(after.branches.contains(branch), "{branch} in {:?}", after.branches);
    }
    if let Some(name) = &kept {
        // Whatever is gone can be had from the ref.
        for (path, text) in
            worst.iter().filter(|(path, text)| after.files.get(*path) != Some(*text))
        {
            let Some(path) = path.to_str().filter(|_| !text.starts_with("directory")) else {
                continue;
            };
            let text = text.trim_start_matches("+x ").trim_start_matches("-> ");
            let refs = world.ralphs_refs();
            let kept = refs.iter().filter(|it| it.starts_with(name)).any(|name| {
                let list = world.git(&["ls-tree", "-r", "--name-only", name, path]);
                !list.is_empty()
                    && world.git(&["show", &format!("{name}:{path}")]) == text.trim_end()
            });
            assert!(kept, "{path} is not kept");
        }
    }
    // Asked again after a crash, it finds nothing to do and knows the ref.
    assert_eq!(world.open().roll_back(&mark(3), &checkpoint), Ok(kept.clone()));
    assert_eq!(world.users(), after);
    kept
}

fn kept_ref() -> String {
    format!("refs/ralph/kept/{}/3", mark(3).run)
}

#[test]
fn a_quiet_iteration_leaves_nothing_to_keep() {
    let world = World::new();
    assert_eq!(check(&world, || ()), None);
}

#[test]
fn changes_are_undone_and_kept() {
    let world = World::new();
    let kept = check(&world, || {
        world.write("a.txt", "changed\n");
        world.remove("dir/b.txt");
        fs::remove_dir(world.at("dir")).expect("removed");
        world.write("new/deep/c.txt", "c\n");
        world.script("a tool.sh", "true");
    });
    assert_eq!(kept, Some(kept_ref()));
    assert!(!world.at("new").exists());
}

#[test]
fn uncommitted_work_of_the_user_is_restored() {
    let world = World::new();
    world.write("stashed.txt", "stashed\n");
    world.git(&["add", "stashed.txt"]);
    world.git(&["stash", "--quiet"]);
    world.write("staged.txt", "staged\n");
    world.write("half.txt", "staged\n");
    world.git(&["add", "staged.txt", "half.txt"]);
    world.write("half.txt", "changed since\n");
    world.write("untracked.txt", "untracked\n");
    world.write(".ralph/state.json", "runtime\n");
    for name in odd_names() {
        world.write(name, "odd\n");
    }
    let kept = check(&world, || {
        world.write("half.txt", "by the agent\n");
        world.remove("untracked.txt");
        world.git(&["rm", "--quiet", "--force", "--cached", "staged.txt"]);
        for name in odd_names() {
            world.remove(name);
        }
        world.git(&["add", "--all"]);
    });
    assert_eq!(kept, Some(kept_ref()));
}

#[test]
fn ignored_files_are_not_touched_whatever_the_agent_makes_of_the_rules() {
    let world = World::new();
    world.write("secret.log", "secret\n");
    let kept = check(&world, || {
        // Gives away the user's files, and hides its own.
        world.write(".gitignore", "*.hidden\n");
        world.write("own.hidden", "hidden\n");
        world.git(&["add", "--all"]);
    });
    assert_eq!(kept, Some(kept_ref()));
    assert_eq!(fs::read_to_string(world.at("secret.log")).expect("there"), "secret\n");
    assert!(!world.at("own.hidden").exists());
    let second = format!("{}-2:own.hidden", kept.expect("kept"));
    assert_eq!(world.git(&["show", &second]), "hidden");
}

#[test]
fn a_forced_ignored_file_stays() {
    let world = World::new();
    world.write("secret.log", "secret\n");
    let kept = check(&world, || {
        world.git(&["add", "--force", "secret.log", "target/ignored"]);
        world.write("a.txt", "changed\n");
    });
    assert_eq!(kept, Some(kept_ref()));
}

#[test]
fn a_tracked_file_that_is_hidden_on_the_way_is_kept() {
    let world = World::new();
    world.write("tracked.log", "tracked\n");
    world.git(&["add", "--force", "tracked.log"]);
    world.git(&["commit", "--quiet", "-m", "tracked although ignored"]);
    let kept = check(&world, || {
        world.git(&["rm", "--quiet", "--cached", "tracked.log"]);
        world.write("tracked.log", "changed, and hidden\n");
    });
    assert_eq!(kept, Some(kept_ref()));
}

#[test]
fn files_directories_and_links_may_change_places() {
    let world = World::new();
    std::os::unix::fs::symlink("a.txt", world.at("link")).expect("a link");
    world.script("tool.sh", "true");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "more kinds"]);
    check(&world, || {
        world.remove("a.txt");
        world.write("a.txt/inside", "a directory now\n");
        world.remove("dir/b.txt");
        fs::remove_dir(world.at("dir")).expect("removed");
        world.write("dir", "a file now\n");
        world.remove("link");
        world.write("link", "a file now\n");
        let plain = fs::Permissions::from_mode(0o644);
        fs::set_permissions(world.at("tool.sh"), plain).expect("set");
    });
    check(&World::new(), || ());
    let world = World::new();
    let outside = world.directory.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("b.txt"), "outside\n").expect("written");
    check(&world, || {
        world.remove("dir/b.txt");
        fs::remove_dir(world.at("dir")).expect("removed");
        std::os::unix::fs::symlink(&outside, world.at("dir")).expect("a link");
    });
    assert_eq!(fs::read_to_string(outside.join("b.txt")).expect("there"), "outside\n");
}

#[test]
fn commits_of_the_agent_are_taken_back_and_kept() {
    let world = World::new();
    let mut tip = String::new();
    let kept = check(&world, || {
        world.write("a.txt", "committed by the agent\n");
        world.git(&["commit", "--quiet", "--all", "-m", "agent"]);
        tip = world.git(&["rev-parse", "HEAD"]);
        world.write("a.txt", "and changed\n");
    });
    let parent = world.git(&["rev-parse", &format!("{}^", kept.expect("kept"))]);
    assert_eq!(parent, tip);
}

#[test]
fn another_branch_is_left_and_its_commits_stay() {
    let world = World::new();
    let kept = check(&world, || {
        world.write("a.txt", "on main\n");
        world.git(&["commit", "--quiet", "--all", "-m", "on main"]);
        world.git(&["checkout", "--quiet", "-b", "agents", "HEAD~1"]);
        world.write("a.txt", "on agents\n");
        world.git(&["commit", "--quiet", "--all", "-m", "on agents"]);
    });
    let kept = kept.expect("kept");
    // Both lines of work can be reached from the ref.
    let log = world.git(&["log", "--format=%s", &kept]);
    assert!(log.contains("on main") && log.contains("on agents"), "{log}");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "agents"]), "on agents");
}

#[test]
fn a_detached_head_is_detached_again() {
    let world = World::new();
    world.git(&["checkout", "--quiet", "--detach"]);
    check(&world, || {
        world.write("a.txt", "on main\n");
        world.git(&["checkout", "--quiet", "main"]);
        world.git(&["commit", "--quiet", "--allow-empty", "-m", "on main"]);
        world.git(&["checkout", "--quiet", "--detach"]);
        world.git(&["commit", "--quiet", "--all", "-m", "detached"]);
        world.git(&["branch", "--quiet", "--force", "main", "HEAD~2"]);
    });
}

#[test]
fn before_the_first_commit_a_rollback_works_too() {
    let world = World::empty();
    world.write("mine.txt", "mine\n");
    check(&world, || {
        world.git(&["add", "--all"]);
        world.git(&["commit", "--quiet", "-m", "agent"]);
        world.write("more.txt", "more\n");
    });
    assert_eq!(world.git(&["branch", "--list"]), "");
}

#[test]
fn a_merge_that_the_agent_left_open_is_aborted() {
    let world = World::new();
    world.git(&["checkout", "--quiet", "-b", "other"]);
    world.write("a.txt", "other\n");
    world.git(&["commit", "--quiet", "--all", "-m", "other"]);
    world.git(&["checkout", "--quiet", "main"]);
    world.write("a.txt", "main\n");
    world.git(&["commit", "--quiet", "--all", "-m", "main"]);
    check(&world, || {
        world.try_git(&world.top(), &["merge", "--quiet", "other"]).expect_err("a conflict");
    });
    assert_eq!(world.repository().operation(), None);
}

#[test]
fn a_submodule_is_not_moved() {
    let world = World::new();
    let other = World::new();
    let url = other.top();
    world.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        url.to_str().expect("text"),
        "sub",
    ]);
    world.git(&["commit", "--quiet", "-m", "submodule"]);
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    world.git_in(&world.at("sub"), &["commit", "--quiet", "--allow-empty", "-m", "inner"]);
    world.write("sub/inner.txt", "inner\n");
    world.write("a.txt", "changed\n");
    assert_eq!(git.roll_back(&mark(3), &checkpoint), Ok(Some(kept_ref())));
    assert_eq!(fs::read_to_string(world.at("a.txt")).expect("there"), "a\n");
    assert_eq!(fs::read_to_string(world.at("sub/inner.txt")).expect("there"), "inner\n");
    assert_eq!(world.git_in(&world.at("sub"), &["log", "-1", "--format=%s"]), "inner");
    assert_eq!(world.git(&["diff", "--cached"]), "");
}

#[test]
fn ignored_files_in_the_way_are_kept_too() {
    let world = World::new();
    // Where there was a file there is a directory with ignored files, and the other way around.
    let kept = check(&world, || {
        world.remove("a.txt");
        world.write("a.txt/sub/in the way.log", "ignored\n");
        world.write("a.txt/visible", "visible\n");
        world.write(".gitignore", "*.log\n/target/\n/dir\n");
        world.remove("dir/b.txt");
        fs::remove_dir(world.at("dir")).expect("removed");
        world.write("dir", "an ignored file\n");
    });
    assert_eq!(kept, Some(kept_ref()));
}

#[test]
fn a_repository_in_the_way_stops_it_before_anything_is_lost() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    world.remove("a.txt");
    world.write("a.txt/file", "inner\n");
    world.git_in(&world.at("a.txt"), &["init", "--quiet"]);
    let error = git.roll_back(&mark(3), &checkpoint).expect_err("refused").to_string();
    assert!(error.contains("a repository is in the way"), "{error}");
    assert_eq!(fs::read_to_string(world.at("a.txt/file")).expect("there"), "inner\n");
}

#[test]
fn a_crash_during_a_rollback_loses_nothing() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
    let before = world.users();
    world.write("a.txt", "changed\n");
    world.write("new.txt", "new\n");
    let run = mark(3).run;
    // The state after the ref was written and half of the files were restored.
    let head = world.git(&["rev-parse", "HEAD"]);
    let TreeId(tree) = git.survey_tree().expect("surveyed").expect("a repository").tree;
    let commit = world.git(&["commit-tree", &tree, "-p", &head, "-m", "kept"]);
    world.git(&["update-ref", &format!("refs/ralph/kept/{run}/3"), &commit]);
    world.remove("new.txt");
    assert_eq!(world.open().roll_back(&mark(3), &checkpoint), Ok(Some(kept_ref())));
    let after = world.users();
    assert_eq!((&after.files, &after.index), (&before.files, &before.index));
    let name = kept_ref();
    assert_eq!(world.git(&["show", &format!("{name}:new.txt")]), "new");
    assert_eq!(world.git(&["show", &format!("{name}-2:a.txt")]), "changed");
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let world = World::new();
    world.git(&["sparse-checkout", "set", "elsewhere"]);
    assert!(!world.at("dir").exists());
    check(&world, || {
        world.write("a.txt", "changed\n");
        world.write("dir/new.txt", "outside\n");
    });
    assert!(!world.at("dir").exists());
}

#[test]
fn checkpoints_without_a_tree_cannot_be_restored() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Head).expect("noted");
    git.roll_back(&mark(3), &checkpoint).expect_err("refused");
    assert_eq!(git.roll_back(&mark(3), &Checkpoint::None), Ok(None));
}

#[test]
fn paths_outside_a_scope_are_restored_and_the_rest_stays() {
    let world = World::new();
    world.write("ralph/prd.md", "never committed\n");
    world.git(&["add", "ralph/prd.md"]);
    let before = world.users();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.write("ralph/prd.md", "easier\n");
    world.write("ralph/tasks.json", "{}\n");
    world.write("new/file.txt", "new\n");
    world.write("target/ignored", "built\n");
    world.remove("a.txt");
    world.git(&["add", "--all"]);
    let is_outside = |path: &str| path != "ralph/tasks.json";
    let kept =
        git.restore_paths(&mark(1), &checkpoint, &is_outside).expect("restored").expect("a ref");
    let mut expect = before.clone();
    expect.files.insert("ralph/tasks.json".into(), "{}\n".into());
    expect.files.insert("target/ignored".into(), "built\n".into());
    assert_eq!(world.users(), expect);
    assert_eq!(world.git(&["show", &format!("{kept}:new/file.txt")]), "new");
    // Done again, as after a crash, it is the same.
    let again = git.restore_paths(&mark(1), &checkpoint, &is_outside).expect("restored");
    assert_eq!((again, world.users()), (Some(kept), expect));
}

#[test]
fn a_scope_keeps_the_agents_commits_and_resets_the_index_to_them() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.write("plan.md", "- [ ] one\n");
    world.write("a.txt", "code\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "-q", "-m", "the agent's"]);
    let is_outside = |path: &str| path != "plan.md";
    git.restore_paths(&mark(1), &checkpoint, &is_outside).expect("restored").expect("a ref");
    assert_eq!(world.git(&["status", "--porcelain"]), " M a.txt");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "the agent's");
    let seen = git.observe(&checkpoint, &[]).expect("looked").expect("a repository");
    assert_eq!((seen.changes, seen.uncommitted), (TreeDiff::Dirty, vec!["a.txt".to_owned()]));
}
