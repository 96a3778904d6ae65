//! What an agent did to tree and history, and patches.

use ralph_core::ports::{OBSERVED_FILES, Observation};
use ralph_model::glob::Pattern;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::worktree::History;

use super::*;

#[track_caller]
fn observe(git: &mut GitVcs, since: &Checkpoint) -> Observation {
    git.observe(since, &[]).expect("observed").expect("a repository")
}

fn touched(path: &str, action: FileAction) -> FileTouched {
    FileTouched { path: path.to_owned(), action }
}

#[test]
fn files_are_compared_with_the_checkpoint_and_not_with_the_commit() {
    let world = World::new();
    world.write("mine.txt", "mine\n");
    world.write("a.txt", "mine\n");
    for depth in [CheckpointDepth::Tree, CheckpointDepth::Head] {
        let mut git = world.open();
        let checkpoint = git.create_checkpoint(&mark(1), depth).expect("noted");
        let quiet = observe(&mut git, &checkpoint);
        assert_eq!((quiet.changes, quiet.history), (TreeDiff::Dirty, History::Same));
        match depth {
            CheckpointDepth::Tree => assert_eq!(quiet.files, []),
            CheckpointDepth::Head => assert_eq!(quiet.files.len(), 2),
        }
    }
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.remove("dir/b.txt");
    world.write("a.txt", "agent\n");
    world.write(OsStr::from_bytes(b"x\xff"), "odd\n");
    world.write(".ralph/state.json", "runtime\n");
    let before = (world.users(), fs::read(world.at(".git/index")).expect("readable"));
    let seen = observe(&mut git, &checkpoint);
    assert_eq!(
        seen.files,
        [
            touched("a.txt", FileAction::Modified),
            touched("dir/b.txt", FileAction::Deleted),
            touched("x\u{fffd}", FileAction::Created),
        ]
    );
    assert_eq!(seen.tree, git.survey_tree().expect("surveyed").expect("a repository").tree);
    assert_eq!((world.users(), fs::read(world.at(".git/index")).expect("readable")), before);
    assert_eq!(git.observe(&Checkpoint::None, &[]), Ok(None));
}

#[test]
fn a_long_list_of_files_is_cut() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    for number in 0..OBSERVED_FILES + 7 {
        world.write(format!("many/{number:03}"), "x");
    }
    let seen = observe(&mut git, &checkpoint);
    assert_eq!((seen.files.len(), seen.more_files), (OBSERVED_FILES, 7));
    assert_eq!(seen.files.last(), Some(&touched("many/199", FileAction::Created)));
    // No number of other changes hides a watched path.
    world.write("zz/watched", "x");
    let watched = [Pattern::new("zz/*").expect("a pattern")];
    let seen = git.observe(&checkpoint, &watched).expect("observed").expect("a repository");
    assert_eq!(seen.files.first(), Some(&touched("zz/watched", FileAction::Created)));
    assert_eq!((seen.files.len(), seen.more_files), (OBSERVED_FILES, 8));
}

#[test]
fn commits_are_counted_from_the_checkpoint() {
    for (world, before) in [(World::new(), 1), (World::empty(), 0)] {
        let mut git = world.open();
        let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Head).expect("noted");
        for commits in 1..=3 {
            world.git(&["commit", "--quiet", "--allow-empty", "-m", "agent"]);
            let seen = observe(&mut git, &checkpoint);
            assert_eq!(seen.history, History::Advanced { commits });
            assert_eq!(seen.changes, TreeDiff::Clean);
            let count = world.git(&["rev-list", "--count", "HEAD"]);
            assert_eq!(count, (commits + before).to_string());
        }
    }
}

#[test]
fn a_replaced_commit_hides_nothing() {
    let world = World::new();
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    let old = world.git(&["rev-parse", "HEAD"]);
    world.git(&["commit", "--quiet", "--amend", "--allow-empty", "-m", "another"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "third"]);
    // As if the old one had been an ancestor all the time.
    world.git(&["replace", "--force", "HEAD~1", &old]);
    assert_eq!(observe(&mut git, &checkpoint).history, History::Rewritten);
}

#[test]
fn a_repository_further_up_is_not_taken_for_a_removed_one() {
    let world = World::new();
    let mut git = world.open();
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.git_in(world.directory.path(), &["init", "--quiet"]);
    fs::remove_dir_all(world.at(".git")).expect("removed");
    let error = git.observe(&checkpoint, &[]).expect_err("refused").to_string();
    assert!(error.contains("not a git repository"), "{error}");
    git.roll_back(&mark(1), &checkpoint).expect_err("refused");
    git.save_to_failure_branch(&failure_branch_order(1, &checkpoint)).expect_err("refused");
}

#[test]
fn a_patch_is_bounded_and_names_binary_files() {
    let world = World::new();
    let mut git = world.open();
    let tree = |git: &mut GitVcs| git.survey_tree().expect("surveyed").expect("a repository").tree;
    let from = tree(&mut git);
    world.write("a.txt", "ä\n");
    fs::write(world.at("image"), b"\0\xff\0").expect("written");
    world.script(".git/tool", "echo from a tool");
    world.git(&["config", "diff.external", ".git/tool"]);
    let to = tree(&mut git);
    let whole = git.diff_trees(&from, &to, 10_000).expect("compared");
    expect_test::expect![[r"
        diff --git a/a.txt b/a.txt
        index 7898192..8be8316 100644
        --- a/a.txt
        +++ b/a.txt
        @@ -1 +1 @@
        -a
        +ä
        diff --git a/image b/image
        new file mode 100644
        index 0000000..38d9025
        Binary files /dev/null and b/image differ
    "]]
    .assert_eq(&whole);
    let length = whole.chars().count();
    assert_eq!(git.diff_trees(&from, &to, length).expect("compared"), whole);
    for chars in [0, 1, 15, 16, 17, 100, length - 1] {
        let cut = git.diff_trees(&from, &to, chars).expect("compared");
        assert_eq!(cut.chars().count(), chars, "{cut}");
        assert_eq!(cut.ends_with("\n... [truncated]"), chars > 15, "{cut}");
    }
    assert_eq!(git.diff_trees(&from, &from, 100), Ok(String::new()));
}

#[test]
fn odd_things_are_reported_as_git_alone_sees_them() {
    let world = World::new();
    let checkpoint =
        world.open().create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    let repository = |name: &str| {
        fs::create_dir(world.at(name)).expect("made");
        world.git_in(&world.at(name), &["init", "--quiet"]);
    };
    let see =
        |git: &mut GitVcs| git.observe(&checkpoint, &[]).expect("seen").expect("a repository");
    let actions: [&dyn Fn(); 5] = [
        &|| {},
        &|| odd_names().iter().for_each(|name| world.write(name, "odd\n")),
        &|| world.write("dir/b.txt", &"long\n".repeat(50_000)),
        &|| repository("unborn"),
        &|| {
            repository("embedded");
            let place = world.at("embedded");
            world.git_in(&place, &["commit", "--quiet", "--allow-empty", "-m", "inside"]);
        },
    ];
    for (at, action) in actions.iter().enumerate() {
        action();
        let together = see(&mut world.open_with_git_alone());
        assert_eq!(together, see(&mut world.open()), "after action {at}");
        assert_eq!(together.files.is_empty(), at == 0, "after action {at}");
    }
}
