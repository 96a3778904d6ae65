//! Changes set aside and restored.

use super::*;

fn run() -> RunId {
    mark(1).run
}

/// Returns a world with every kind of uncommitted change.
fn busy() -> World {
    let world = World::new();
    world.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "long"]);
    world.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    world.write("staged.txt", "staged\n");
    world.git(&["add", "staged.txt"]);
    world.write("staged.txt", "changed since\n");
    world.write("untracked.txt", "untracked\n");
    world.remove("dir/b.txt");
    fs::remove_dir(world.at("dir")).expect("removed");
    world
}

#[test]
fn a_clean_tree_has_nothing_to_set_aside() {
    let world = World::new();
    let mut git = world.open();
    assert_eq!(git.set_aside(&run()), Ok(None));
    assert_eq!(git.restore_set_aside(&run()), Ok(RestoredChanges::Nothing));
}

#[test]
fn changes_set_aside_are_restored_as_they_were() {
    let world = busy();
    let before = world.users();
    let mut git = world.open();
    let name = git.set_aside(&run()).expect("aside");
    assert_eq!(name, Some(format!("refs/ralph/set-aside/{}", run())));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.repository().list_dirty(), Ok(vec![]));
    assert_eq!(fs::read_to_string(world.at("target/ignored")).expect("there"), "precious\n");
    assert_eq!(world.open().restore_set_aside(&run()), Ok(RestoredChanges::Done));
    assert_eq!(world.users(), before);
    assert_eq!(world.ralphs_refs(), Vec::<String>::new());
}

#[test]
fn changes_set_aside_are_merged_with_the_work_of_the_run() {
    let world = busy();
    let mut git = world.open();
    git.set_aside(&run()).expect("aside");
    world.write("long.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    world.write("by-the-run.txt", "run\n");
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    // An interrupted run may leave uncommitted work as well.
    world.write("unfinished.txt", "unfinished\n");
    assert_eq!(git.restore_set_aside(&run()), Ok(RestoredChanges::Done));
    let long = fs::read_to_string(world.at("long.txt")).expect("there");
    assert_eq!(long, "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    expect_test::expect![[r"
        D dir/b.txt
         M long.txt
        AM staged.txt
        ?? unfinished.txt
        ?? untracked.txt"]]
    .assert_eq(world.git(&["status", "--porcelain"]).trim_start());
}

#[test]
fn a_conflict_leaves_everything_where_it_is() {
    let world = busy();
    let mut git = world.open();
    git.set_aside(&run()).expect("aside");
    world.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nIX\n");
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    let before = world.users();
    let name = format!("refs/ralph/kept/{}/set-aside", run());
    let conflict = RestoredChanges::Conflict { kept: name.clone(), paths: vec!["long.txt".into()] };
    assert_eq!(git.repository().runs_with_set_aside(), Ok(vec![run()]));
    assert_eq!(git.restore_set_aside(&run()), Ok(conflict));
    assert_eq!(world.users(), before);
    assert_eq!(world.ralphs_refs(), [name]);
    assert_eq!(git.repository().runs_with_set_aside(), Ok(vec![]));
    assert_eq!(
        git.restore_set_aside(&run()),
        Ok(RestoredChanges::Nothing),
        "it is not tried again"
    );
}

#[test]
fn an_ignored_file_in_the_way_is_a_conflict() {
    let world = busy();
    let mut git = world.open();
    git.set_aside(&run()).expect("aside");
    world.write(".gitignore", "untracked.txt\n");
    world.write("untracked.txt", "made by the run, and ignored\n");
    let before = world.users();
    let paths = vec!["untracked.txt".into()];
    let kept = format!("refs/ralph/kept/{}/set-aside", run());
    assert_eq!(git.restore_set_aside(&run()), Ok(RestoredChanges::Conflict { kept, paths }));
    assert_eq!(world.users(), before);
}

#[test]
fn before_the_first_commit_changes_can_be_set_aside() {
    let world = World::empty();
    world.write("staged.txt", "staged\n");
    world.git(&["add", "--all"]);
    world.write("untracked.txt", "untracked\n");
    let mut git = world.open();
    git.set_aside(&run()).expect("aside").expect("a ref");
    assert_eq!(files(&world.top()).len(), 0);
    world.write("by-the-run.txt", "run\n");
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(git.restore_set_aside(&run()), Ok(RestoredChanges::Done));
    assert_eq!(files(&world.top()).len(), 3);
}

#[test]
fn a_merge_in_progress_cannot_be_set_aside() {
    let world = World::new();
    world.git(&["checkout", "--quiet", "-b", "other"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "other"]);
    world.git(&["checkout", "--quiet", "main"]);
    world.git(&["merge", "--quiet", "--no-commit", "--no-ff", "other"]);
    let error = world.open().set_aside(&run()).expect_err("refused").to_string();
    assert!(error.starts_with("`git merge` is in progress"), "{error}");
}

#[test]
fn documents_that_a_run_is_about_are_no_obstacle_and_stay() {
    let world = busy();
    world.write("ralph/prd.md", "wanted\n");
    world.write("ralphs/other.md", "not it\n");
    let mut repository = world.repository();
    repository.set_documents(&[world.at("ralph"), world.at("long.txt")]);
    let dirty: Vec<PathBuf> =
        repository.list_dirty().expect("looked").into_iter().map(|it| it.path).collect();
    assert!(!dirty.contains(&"ralph/prd.md".into()), "{dirty:?}");
    assert!(!dirty.contains(&"long.txt".into()), "{dirty:?}");
    assert!(dirty.contains(&"ralphs/other.md".into()), "{dirty:?}");
    let before = files(&world.top());
    let mut git = GitVcs::new(repository, world.directory.path().join("run"));
    git.set_aside(&run()).expect("aside");
    assert_eq!(world.git(&["status", "--porcelain"]), " M long.txt\n?? ralph/");
    world.write("ralph/prd.md", "wanted more\n");
    assert_eq!(git.restore_set_aside(&run()), Ok(RestoredChanges::Done));
    let mut expect = before;
    expect.insert("ralph/prd.md".into(), "wanted more\n".into());
    assert_eq!(files(&world.top()), expect);
}
