//! Noting the work tree without touching anything.

use super::*;

fn listed(world: &World, TreeId(tree): &TreeId) -> Vec<String> {
    let list = world.git(&["ls-tree", "-r", "--name-only", tree]);
    list.lines().map(str::to_owned).collect()
}

fn survey(git: &mut GitVcs) -> (TreeId, TreeDiff) {
    let survey = git.survey_tree().expect("surveyed").expect("a repository");
    (survey.tree, survey.changes)
}

#[test]
fn a_survey_sees_everything_and_touches_nothing() {
    let world = World::new();
    // Staged, changed after staging, untracked, stashed, ignored: all of the user's states.
    world.write("stashed.txt", "stashed\n");
    world.git(&["add", "stashed.txt"]);
    world.git(&["stash", "--quiet"]);
    world.write("a.txt", "staged\n");
    world.git(&["add", "a.txt"]);
    world.write("a.txt", "changed\n");
    world.remove("dir/b.txt");
    world.write("new/c.txt", "c\n");
    let before = (world.users(), fs::read(world.at(".git/index")).expect("readable"));
    let mut git = world.open();
    let (tree, changes) = survey(&mut git);
    assert_eq!(changes, TreeDiff::Dirty);
    assert_eq!(listed(&world, &tree), [".gitignore", "a.txt", "new/c.txt"]);
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    let head = Some(CommitId(world.git(&["rev-parse", "HEAD"])));
    let branch = Some("refs/heads/main".to_owned());
    assert_eq!(
        checkpoint,
        Checkpoint::Git { head: head.clone(), branch: branch.clone(), tree: Some(tree.clone()) }
    );
    let checkpoint = git.create_checkpoint(&mark(2), CheckpointDepth::Head).expect("noted");
    assert_eq!(checkpoint, Checkpoint::Git { head, branch, tree: None });
    assert_eq!((world.users(), fs::read(world.at(".git/index")).expect("readable")), before);
}

#[test]
fn a_change_of_the_same_size_in_the_same_second_is_seen() {
    let world = World::new();
    let mut git = world.open();
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
    for text in ["1\n", "2\n", "3\n", "4\n"] {
        world.write("a.txt", text);
        assert_eq!(survey(&mut git).1, TreeDiff::Dirty, "{text}");
        // A fresh shadow, copied from an index of this very second.
        world.git(&["add", "a.txt"]);
        world.write("a.txt", "a\n");
        assert_eq!(survey(&mut world.open()).1, TreeDiff::Clean, "{text}");
        world.git(&["reset", "--quiet"]);
    }
}

#[test]
fn runtime_files_are_left_out_and_the_projects_own_are_not() {
    let world = World::new();
    for name in
        ["state.json", "logs/ralph.log", "guardrail_1_x.log", "memory.jsonl", "context/c.json"]
    {
        world.write(Path::new(".ralph").join(name), "runtime\n");
    }
    for name in ["settings.json", "prompts/p.md", "skills/s.md", "mcp/m.json"] {
        world.write(Path::new(".ralph").join(name), "mine\n");
    }
    let (tree, _) = survey(&mut world.open());
    let own: Vec<String> =
        listed(&world, &tree).into_iter().filter(|path| path.starts_with(".ralph/")).collect();
    assert_eq!(
        own,
        [".ralph/mcp/m.json", ".ralph/prompts/p.md", ".ralph/settings.json", ".ralph/skills/s.md"]
    );
    // The same in a directory within the work tree, whose name looks like a pattern.
    world.write("we[i]rd/.ralph/guardrail_1_x.log", "runtime\n");
    world.write("we[i]rd/.ralph/state.md", "runtime\n");
    let mut git =
        GitVcs::new(world.repository_of(&world.at("we[i]rd")), world.directory.path().join("run"));
    let (tree, _) = survey(&mut git);
    assert!(!listed(&world, &tree).iter().any(|path| path.contains("rd/")));
}

#[test]
fn odd_names_links_and_modes_are_noted() {
    let world = World::new();
    for name in odd_names() {
        world.write(name, "odd\n");
    }
    world.script("run.sh", "true");
    std::os::unix::fs::symlink("/nonexistent", world.at("link")).expect("a link");
    let (TreeId(tree), _) = survey(&mut world.open());
    let list = world.git(&["ls-tree", "-r", "-z", &tree]);
    assert_eq!(list.matches('\0').count(), 9);
    assert!(list.contains("100755") && list.contains("120000"), "{list}");
}

#[test]
fn garbage_collected_objects_are_added_again() {
    let world = World::new();
    world.write("one.txt", "1\n");
    // Older than the shadow, so that git sees by its times that it did not change.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(world.at("one.txt")).expect("there");
    file.set_modified(long_ago).expect("set");
    let mut git = world.open();
    let (tree, _) = survey(&mut git);
    world.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(survey(&mut git).0, tree);
    world.git(&["gc", "--quiet", "--prune=now"]);
    world.write("two.txt", "2\n");
    let (tree, changes) = survey(&mut git);
    assert_eq!(changes, TreeDiff::Dirty);
    let listed = listed(&world, &tree);
    assert!(
        ["one.txt", "two.txt"].iter().all(|it| listed.iter().any(|path| path == it)),
        "{listed:?}"
    );
    world.git(&["cat-file", "-e", &format!("{}:one.txt", tree.0)]);
}

#[test]
fn an_empty_repository_can_be_surveyed() {
    let world = World::empty();
    let mut git = world.open();
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    let Checkpoint::Git { head: None, tree: Some(_), .. } = checkpoint else {
        unreachable!("no commit in {checkpoint:?}");
    };
    world.write("a.txt", "a\n");
    let (tree, changes) = survey(&mut git);
    assert_eq!((listed(&world, &tree), changes), (vec!["a.txt".to_owned()], TreeDiff::Dirty));
    assert!(!world.at(".git/index").exists());
}

#[test]
fn repositories_within_the_work_tree_are_left_out() {
    let world = World::new();
    for name in ["unborn", "another unborn", "born"] {
        world.write(format!("{name}/file"), "inner\n");
        world.git_in(&world.at(name), &["init", "--quiet"]);
    }
    world.git_in(&world.at("born"), &["add", "--all"]);
    world.git_in(&world.at("born"), &["commit", "--quiet", "-m", "inner"]);
    world.git(&["worktree", "add", "--quiet", "trees/one"]);
    world.write("new.txt", "new\n");
    let (tree, _) = survey(&mut world.open());
    assert_eq!(listed(&world, &tree), [".gitignore", "a.txt", "dir/b.txt", "new.txt"]);
}

#[test]
fn a_submodule_is_recorded_at_its_commit() {
    let world = World::new();
    let other = World::new();
    let url = other.top();
    let url = url.to_str().expect("text");
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    let mut git = world.open();
    let (TreeId(tree), _) = survey(&mut git);
    assert!(world.git(&["ls-tree", &tree, "sub"]).starts_with("160000"));
    world.git(&["commit", "--quiet", "-m", "submodule"]);
    // Uncommitted changes inside it are its own affair.
    world.write("sub/a.txt", "changed\n");
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
    assert_eq!(world.repository().list_dirty().expect("listed"), []);
}

#[test]
fn files_outside_a_sparse_checkout_stay_in_the_tree() {
    let world = World::new();
    world.write("dir2/c.txt", "c\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "second"]);
    world.git(&["sparse-checkout", "set", "dir2"]);
    assert!(!world.at("dir/b.txt").exists());
    let mut git = world.open();
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
    world.write("dir/new.txt", "outside\n");
    world.write("dir2/c.txt", "changed\n");
    let (tree, _) = survey(&mut git);
    let expect = [".gitignore", "a.txt", "dir/b.txt", "dir/new.txt", "dir2/c.txt"];
    assert_eq!(listed(&world, &tree), expect);
}

#[test]
fn files_that_the_agent_tracks_or_untracks_count() {
    let world = World::new();
    let mut git = world.open();
    survey(&mut git);
    // A forced ignored file that the agent commits itself must not be deleted by the next one.
    world.write("forced.log", "log\n");
    world.git(&["add", "--force", "forced.log"]);
    world.git(&["commit", "--quiet", "-m", "forced"]);
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
    world.git(&["rm", "--quiet", "--cached", "forced.log"]);
    let (tree, _) = survey(&mut git);
    assert_eq!(listed(&world, &tree), [".gitignore", "a.txt", "dir/b.txt"]);
    // Even without an index the last commit is known.
    world.git(&["reset", "--quiet"]);
    world.remove(".git/index");
    assert_eq!(survey(&mut git).1, TreeDiff::Clean);
}

#[test]
fn checkpoints_survive_garbage_collection_up_to_a_limit() {
    let world = World::new();
    let mut git = world.open();
    world.write("untracked.txt", "untracked\n");
    for iteration in [1, 2, 3, 101, 102] {
        git.create_checkpoint(&mark(iteration), CheckpointDepth::Tree).expect("noted");
    }
    let refs: Vec<String> = world
        .ralphs_refs()
        .iter()
        .map(|name| name.rsplit('/').next().expect("a name").to_owned())
        .collect();
    assert_eq!(refs, ["101", "102", "3"]);
    world.git(&["gc", "--quiet", "--prune=now"]);
    let name = format!("refs/ralph/checkpoints/{}/3:untracked.txt", mark(1).run);
    assert_eq!(world.git(&["cat-file", "blob", &name]), "untracked");
}

#[test]
fn settings_about_line_ends_do_not_stop_a_survey() {
    let world = World::new();
    world.git(&["config", "core.autocrlf", "input"]);
    world.git(&["config", "core.safecrlf", "true"]);
    world.write("mixed.txt", "one\r\ntwo\n");
    assert_eq!(survey(&mut world.open()).1, TreeDiff::Dirty);
}

#[test]
fn an_index_that_is_split_or_cached_works() {
    for (setting, value) in [
        ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"),
        ("index.version", "4"),
        ("feature.manyFiles", "true"),
    ] {
        let world = World::new();
        world.git(&["config", setting, value]);
        world.write("staged.txt", "staged\n");
        world.git(&["add", "staged.txt"]);
        world.write("new.txt", "new\n");
        let before = world.users();
        let mut git = world.open();
        let (tree, _) = survey(&mut git);
        assert_eq!(listed(&world, &tree).len(), 5, "{setting}");
        assert_eq!(world.users(), before, "{setting}");
        // With something staged, and then with nothing staged, the index follows a commit.
        for iteration in 1..=2 {
            let order = order_for(iteration, &mut git);
            made(git.commit_tree(&order));
            assert_eq!(world.git(&["status", "--porcelain"]), "", "{setting}");
            world.write("new.txt", "newer\n");
        }
    }
}

#[test]
fn changes_hidden_from_git_are_seen_unless_the_user_hid_them() {
    for how in ["--assume-unchanged", "--skip-worktree"] {
        let world = World::new();
        let mut git = world.open();
        let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
        world.git(&["update-index", how, "a.txt"]);
        world.write("a.txt", "changed\n");
        let seen = git.observe(&checkpoint, &[]).expect("observed").expect("a repository");
        let paths: Vec<&str> = seen.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.txt"], "{how}");
        assert_eq!(seen.git_tampering, ["a.txt (its changes were hidden from git)"], "{how}");
        assert_eq!(world.git(&["ls-files", "-v", "a.txt"]), "H a.txt", "{how}: it is restored");

        let world = World::new();
        world.git(&["update-index", how, "a.txt"]);
        world.write("a.txt", "changed\n");
        let mut git = world.open();
        let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
        world.write("new.txt", "new\n");
        world.git(&["add", "new.txt"]);
        let seen = git.observe(&checkpoint, &[]).expect("observed").expect("a repository");
        let paths: Vec<&str> = seen.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((paths.as_slice(), seen.git_tampering.len()), (&["new.txt"][..], 0), "{how}");
        assert_ne!(world.git(&["ls-files", "-v", "a.txt"]), "H a.txt", "{how}: it is the user's");
    }
}

#[test]
fn a_tree_observed_before_garbage_collection_can_be_compared() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.write("one.txt", "1\n");
    let look = |git: &mut GitVcs, since: &Checkpoint| {
        git.observe(since, &[]).expect("observed").expect("a repository")
    };
    let first = look(&mut git, &checkpoint).tree;
    let Checkpoint::Git { head, branch, tree: Some(begin) } = checkpoint else { panic!("no tree") };
    let gone = Checkpoint::Git { head, branch, tree: Some(first.clone()) };

    world.git(&["gc", "--quiet", "--prune=now"]);
    let patch = git.diff_trees(&begin, &first, 1_000).expect("made again");
    assert!(patch.contains("+1"), "{patch}");

    world.git(&["gc", "--quiet", "--prune=now"]);
    world.write("two.txt", "2\n");
    let name_changes = |git: &mut GitVcs| -> Vec<String> {
        look(git, &gone).files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(name_changes(&mut git), ["two.txt"], "this process knows what it saw");
    let of_another_process = name_changes(&mut world.open());
    let expect = ["one.txt", "two.txt"];
    assert_eq!(of_another_process, expect, "since the commit, for want of what came after");
    assert!(git.diff_trees(&begin, &first, 1_000).is_err(), "its objects are gone");
}
