//! What is found around a project directory, and what is uncommitted there.

use super::*;

fn discover(world: &World, directory: &Path) -> Result<RepositoryDiscovery, String> {
    let found = GitRepository::discover(directory, world.env.clone(), Watch::new_detached());
    found.map_err(|error| error.to_string())
}

#[test]
fn directories_without_a_work_tree_are_distinguished() {
    let world = World::new();
    let outside = tempfile::tempdir().expect("a directory");
    assert!(matches!(discover(&world, outside.path()), Ok(RepositoryDiscovery::NotFound)));

    world.git_in(outside.path(), &["init", "--quiet", "--bare"]);
    let error = discover(&world, outside.path()).expect_err("refused");
    assert!(error.ends_with("is a bare repository: there is no work tree to work in"), "{error}");
    let error = discover(&world, &world.at(".git")).expect_err("refused");
    assert!(error.ends_with("lies in a git directory, not in a work tree"), "{error}");

    let env = vec![("PATH".into(), outside.path().into())];
    let found = GitRepository::discover(&world.top(), env, Watch::new_detached());
    assert!(matches!(found, Ok(RepositoryDiscovery::NoGit)), "{found:?}");
}

#[test]
fn a_git_directory_that_git_does_not_take_is_found() {
    let world = World::new();
    let find = |project: &Path, env: &[(OsString, OsString)]| find_unusable_git_dir(project, env);
    let is_found =
        || matches!(discover(&world, &world.at("dir")), Ok(RepositoryDiscovery::Repository(_)));
    assert!(is_found());
    let head = fs::read(world.at(".git/HEAD")).expect("readable");
    world.write(".git/HEAD", "");
    assert!(!is_found());
    assert_eq!(find(&world.at("dir"), &world.env), Some(world.at(".git")));
    let limited = [("GIT_CEILING_DIRECTORIES".into(), world.top().into())];
    assert_eq!(find(&world.at("dir"), &limited), None);
    fs::write(world.at(".git/HEAD"), head).expect("written");
    assert!(is_found());

    let outside = tempfile::tempdir().expect("a directory");
    assert_eq!(find(outside.path(), &[]), None);
    fs::create_dir(outside.path().join(".git")).expect("a directory");
    assert_eq!(find(outside.path(), &[]), None);
    fs::remove_dir(outside.path().join(".git")).expect("removed");
    fs::write(outside.path().join(".git"), "gitdir: /nowhere\n").expect("written");
    assert_eq!(find(outside.path(), &[]), Some(outside.path().join(".git")));
}

#[test]
fn a_repository_that_git_distrusts_is_an_error_with_gits_message() {
    let mut world = World::new();
    world.env.push(("GIT_TEST_ASSUME_DIFFERENT_OWNER".into(), "1".into()));
    let error = discover(&world, &world.top()).expect_err("refused");
    assert!(error.contains("dubious ownership") && error.contains("safe.directory"), "{error}");
}

#[test]
fn the_whole_work_tree_is_found_from_a_directory_within() {
    let world = World::new();
    assert_eq!(world.repository_of(&world.at("dir")).top(), world.top());
}

#[test]
fn uncommitted_paths_are_listed_but_runtime_files_are_not() {
    let world = World::new();
    assert_eq!(world.repository().list_dirty().expect("listed"), []);
    world.write("a.txt", "changed\n");
    world.remove("dir/b.txt");
    for name in odd_names() {
        world.write(name, "new\n");
    }
    for name in ["state.json", "logs/ralph.log", "guardrail_1_x.log", "handoffs/h.json"] {
        world.write(Path::new(".ralph").join(name), "runtime\n");
    }
    world.write(".ralph/settings.json", "{}\n");
    let mut expect: Vec<(PathBuf, DirtyKind)> =
        odd_names().map(|name| (name, DirtyKind::Untracked)).to_vec();
    expect.push(("a.txt".into(), DirtyKind::Changed));
    expect.push(("dir/b.txt".into(), DirtyKind::Changed));
    expect.push((".ralph/settings.json".into(), DirtyKind::Untracked));
    expect.sort_by(|one, other| one.0.cmp(&other.0));
    let before = fs::read(world.at(".git/index")).expect("readable");
    let mut found: Vec<(PathBuf, DirtyKind)> = world
        .repository()
        .list_dirty()
        .expect("listed")
        .into_iter()
        .map(|it| (it.path, it.kind))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expect);
    assert_eq!(fs::read(world.at(".git/index")).expect("readable"), before);
}

#[test]
fn a_merge_in_progress_is_reported() {
    let world = World::new();
    assert_eq!(world.repository().operation(), None);
    world.git(&["checkout", "--quiet", "-b", "other"]);
    world.write("a.txt", "other\n");
    world.git(&["commit", "--quiet", "--all", "-m", "other"]);
    world.git(&["checkout", "--quiet", "main"]);
    world.git(&["merge", "--quiet", "--no-commit", "--no-ff", "other"]);
    assert_eq!(world.repository().operation(), Some("merge"));
}

#[test]
fn without_a_repository_there_are_no_checkpoints() {
    let directory = tempfile::tempdir().expect("a directory");
    let world = World::empty();
    let mut none = NoRepository::new(directory.path(), world.env.clone(), Watch::new_detached());
    assert_eq!(none.create_checkpoint(&mark(1), CheckpointDepth::Tree), Ok(Checkpoint::None));
    assert_eq!(none.survey_tree(), Ok(None));
    assert_eq!(none.roll_back(&mark(1), &Checkpoint::None), Ok(None));
    let mut order = CommitOrder {
        mark: mark(1),
        message: "m".into(),
        tree: None,
        expected_head: None,
        command: "git".into(),
    };
    let error = none.commit_tree(&order).expect_err("refused").to_string();
    assert!(error.contains("is not in a git repository"), "{error}");
    // Another program than git commits in its own way.
    order.command = "true".into();
    assert_eq!(none.commit_tree(&order), Ok(CommitResult::Made(CommitId(String::new()))));
    order.command = "false".into();
    none.commit_tree(&order).expect_err("failed");
    assert_eq!(none.run_scm("true", &["push".into()]), Ok(ScmResult::Done));
    let failed = none.run_scm("ls", &["/nonexistent".into()]).expect("ran");
    assert!(matches!(failed, ScmResult::Failed { output } if output.contains("/nonexistent")));
    let error = none.run_scm("no-such-program", &[]).expect_err("not found").to_string();
    assert!(error.contains("was not found"), "{error}");
}
