//! Merges of workers' commits, which come from clones that borrow objects.

use ralph_core::ports::FetchOutcome;
use ralph_model::agent_output::Usage;
use ralph_model::attempt::AttemptLog;
use ralph_model::ids::WorkerId;
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::JobResult;

use super::*;

fn worker() -> WorkerId {
    WorkerId("20261114-231500-k3f9-T1-r1".into())
}

fn result(clone: &Path, commit: &str) -> Box<JobResult> {
    Box::new(JobResult {
        outcome: Outcome::Complete,
        place: "s1".into(),
        repository: clone.to_owned(),
        commit: Some(CommitId(commit.into())),
        tree: None,
        failure_branch: None,
        passed: BTreeMap::new(),
        usage: Usage::default(),
        iterations: 1,
        ran: Millis(0),
        figures: None,
        task: None,
        added: Vec::new(),
        proposals: Vec::new(),
        memory: None,
        handoffs: Vec::new(),
        abandoned: None,
        log: AttemptLog::default(),
        unread_notes: Vec::new(),
    })
}

pub(super) fn candidate(commit: &str) -> Candidate {
    Candidate {
        worker: worker(),
        task: TaskId("T1".into()),
        round: 1,
        commit: CommitId(commit.into()),
        result: result(Path::new("/nonexistent"), commit),
        since: Timestamp(0),
    }
}

/// Makes a clone that borrows objects, with a commit that changes `dir/b.txt` and adds `new.txt`.
pub(super) fn make_clone(world: &World, name: &str) -> (PathBuf, String) {
    let clone = world.directory.path().join(name);
    let path = clone.display().to_string();
    world.git(&["clone", "--quiet", "--shared", ".", &path]);
    fs::write(clone.join("dir/b.txt"), "b of the worker\n").expect("written");
    fs::write(clone.join("new.txt"), "new\n").expect("written");
    (clone.clone(), commit_in(world, &clone))
}

fn commit_in(world: &World, clone: &Path) -> String {
    world.git_in(clone, &["add", "--all"]);
    world.git_in(clone, &["commit", "--quiet", "-m", "work"]);
    let commit = world.git_in(clone, &["rev-parse", "HEAD"]);
    // On no ref, as after the clone was reset.
    world.git_in(clone, &["checkout", "--quiet", "--detach"]);
    world.git_in(clone, &["branch", "--force", "main", "HEAD~1"]);
    commit
}

#[track_caller]
pub(super) fn fetch(git: &mut GitVcs, clone: &Path, commit: &str) {
    let fetched = git.fetch_result(&mark(1).run, &worker(), &result(clone, commit));
    assert_eq!(fetched, Ok(FetchOutcome::Fetched));
}

/// Returns a world, and a fetched commit of a worker.
fn world_with_candidate() -> (World, GitVcs, String) {
    let world = World::new();
    let (clone, commit) = make_clone(&world, "s1");
    let mut git = world.open();
    fetch(&mut git, &clone, &commit);
    fs::remove_dir_all(clone).expect("removed");
    (world, git, commit)
}

fn checkpoint(git: &mut GitVcs) -> Checkpoint {
    git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("recorded")
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.at(path)).unwrap_or_default()
}

#[test]
fn a_result_is_fetched_onto_a_ref_of_the_run() {
    let world = World::new();
    let before = world.users();
    let (clone, commit) = make_clone(&world, "s1");
    let mut git = world.open();
    for _ in 0..2 {
        fetch(&mut git, &clone, &commit);
    }
    let name = format!("refs/ralph/candidates/{}/{}", mark(1).run, worker());
    assert_eq!(world.ralphs_refs(), std::slice::from_ref(&name));
    assert_eq!(world.git(&["rev-parse", &name]), commit);
    assert_eq!(world.users(), before);
    assert!(!world.at(".git/FETCH_HEAD").exists());
    let refs = world.repository().list_run_refs().expect("listed");
    assert_eq!(refs[0].run, mark(1).run);
    // What is here already needs no clone.
    fetch(&mut git, Path::new("/nonexistent"), &commit);
    for (path, commit) in [
        (clone.as_path(), "0".repeat(40)),
        (clone.as_path(), "1".repeat(40)),
        (Path::new("/nonexistent"), "1".repeat(40)),
        (clone.as_path(), "--all".to_owned()),
    ] {
        let fetched = git.fetch_result(&mark(1).run, &worker(), &result(path, &commit));
        assert!(
            matches!(fetched, Ok(FetchOutcome::Missing { .. })),
            "{path:?} {commit}: {fetched:?}"
        );
    }
}

#[test]
fn the_failure_branch_of_a_worker_is_fetched() {
    let world = World::new();
    let (clone, commit) = make_clone(&world, "s1");
    world.git_in(&clone, &["branch", "wip/ralph-fail-T1", &commit]);
    let mut git = world.open();
    let branch = Some("wip/ralph-fail-T1".to_owned());
    let failed = JobResult { commit: None, failure_branch: branch, ..*result(&clone, &commit) };
    assert_eq!(git.fetch_result(&mark(1).run, &worker(), &failed), Ok(FetchOutcome::Fetched));
    assert_eq!(world.git(&["rev-parse", "wip/ralph-fail-T1"]), commit);
    let nothing = JobResult { failure_branch: None, ..failed };
    assert_eq!(git.fetch_result(&mark(1).run, &worker(), &nothing), Ok(FetchOutcome::Fetched));
}

#[test]
fn work_on_the_tip_merges_to_the_same_tree() {
    let (world, mut git, commit) = world_with_candidate();
    let users = world.users();
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    let tree = TreeId(world.git(&["rev-parse", &format!("{commit}^{{tree}}")]));
    assert_eq!(merged, MergeOutcome::Same { tree: tree.clone() });
    assert_eq!(
        (read(&world, "new.txt"), read(&world, "target/ignored")),
        ("new\n".into(), "precious\n".into())
    );
    // HEAD, index and branches are as before, and no operation is in progress.
    let Users { index, branches, head, .. } = world.users();
    assert_eq!((index, branches, head), (users.index, users.branches, users.head));
    // Again, as after a crash.
    let again = git.merge_candidate(&mark(1), &onto, &candidate(&commit));
    assert_eq!(again, Ok(MergeOutcome::Same { tree: tree.clone() }));
    let survey = git.survey_tree().expect("surveyed").expect("a repository");
    assert_eq!(survey.tree, tree);
}

#[test]
fn work_is_merged_with_what_landed_since() {
    let (world, mut git, commit) = world_with_candidate();
    world.write("a.txt", "a of another\n");
    world.git(&["commit", "--quiet", "--all", "-m", "another"]);
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    assert!(matches!(merged, MergeOutcome::Clean { .. }), "{merged:?}");
    assert_eq!(read(&world, "a.txt"), "a of another\n");
    assert_eq!(read(&world, "dir/b.txt"), "b of the worker\n");
}

#[test]
fn an_uncommitted_edit_of_the_user_is_merged_and_makes_a_difference() {
    let (world, mut git, commit) = world_with_candidate();
    world.write("a.txt", "edited\n");
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    let MergeOutcome::Clean { edits, .. } = merged else { panic!("{merged:?}") };
    assert_eq!(edits, ["a.txt"]);
    assert_eq!(
        (read(&world, "a.txt"), read(&world, "new.txt")),
        ("edited\n".into(), "new\n".into())
    );
}

#[test]
fn a_conflict_changes_nothing_and_has_a_tree_with_markers() {
    let (world, mut git, commit) = world_with_candidate();
    world.write("dir/b.txt", "b of another\n");
    world.git(&["commit", "--quiet", "--all", "-m", "another"]);
    let before = world.users();
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    let MergeOutcome::Conflict { tree, paths, messages, edits } = merged else {
        panic!("{merged:?}")
    };
    assert_eq!((paths, edits), (vec!["dir/b.txt".to_owned()], Vec::new()));
    assert!(messages.contains("Merge conflict in dir/b.txt"), "{messages}");
    let marked = world.git(&["show", &format!("{}:dir/b.txt", tree.0)]);
    assert!(marked.contains("<<<<<<<") && marked.contains("b of the worker"), "{marked}");
    assert_eq!(world.users(), before);
    git.keep_requeued_tree(&mark(1).run, &worker(), &tree).expect("kept");
    let name = format!("refs/ralph/requeued/{}/{}", mark(1).run, worker());
    assert_eq!(world.git(&["rev-parse", &name]), tree.0);
}

#[test]
fn a_conflict_with_what_the_user_did_not_commit_names_it() {
    let (world, mut git, commit) = world_with_candidate();
    world.write("dir/b.txt", "b of the user\n");
    let before = world.users();
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    let MergeOutcome::Conflict { paths, edits, .. } = merged else { panic!("{merged:?}") };
    assert_eq!((paths, edits), (vec!["dir/b.txt".to_owned()], vec!["dir/b.txt".to_owned()]));
    assert_eq!(world.users(), before);
    // A conflict elsewhere is one with the commit.
    world.git(&["checkout", "--quiet", "dir/b.txt"]);
    world.write("dir/b.txt", "b of another\n");
    world.git(&["commit", "--quiet", "--all", "-m", "another"]);
    world.write("a.txt", "a of the user\n");
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(2), &onto, &candidate(&commit)).expect("merged");
    let MergeOutcome::Conflict { paths, edits, .. } = merged else { panic!("{merged:?}") };
    assert_eq!((paths, edits), (vec!["dir/b.txt".to_owned()], Vec::new()));
}

#[test]
fn an_ignored_file_in_the_way_is_a_conflict() {
    let world = World::new();
    let (clone, _) = make_clone(&world, "s1");
    fs::write(clone.join("x.log"), "of the worker\n").expect("written");
    world.git_in(&clone, &["add", "--force", "x.log"]);
    let commit = commit_in(&world, &clone);
    let mut git = world.open();
    fetch(&mut git, &clone, &commit);
    world.write("x.log", "of the user\n");
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    assert!(
        matches!(&merged, MergeOutcome::Conflict { paths, edits, .. } if paths == &["x.log"] && edits == paths),
        "{merged:?}"
    );
    assert_eq!(
        (read(&world, "x.log"), read(&world, "new.txt")),
        ("of the user\n".into(), String::new())
    );
}

#[test]
fn a_merge_that_was_cut_short_is_done_again() {
    let (world, mut first, commit) = world_with_candidate();
    let onto = checkpoint(&mut first);
    // Half of the checkout, found by the next process.
    world.write("new.txt", "ne");
    let mut git = world.open();
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    assert!(matches!(merged, MergeOutcome::Same { .. }), "{merged:?}");
    assert_eq!(
        (read(&world, "new.txt"), read(&world, "dir/b.txt")),
        ("new\n".into(), "b of the worker\n".into())
    );
    git.roll_back(&mark(1), &onto).expect("rolled back");
    assert_eq!((read(&world, "new.txt"), read(&world, "dir/b.txt")), (String::new(), "b\n".into()));
}

#[test]
fn changes_of_the_task_list_in_a_clone_do_not_arrive() {
    let world = World::new();
    world.write("plan/tasks.json", "committed\n");
    world.git(&["add", "--all"]);
    world.git(&["commit", "--quiet", "-m", "list"]);
    let (clone, _) = make_clone(&world, "s1");
    fs::write(clone.join("plan/tasks.json"), "of an agent\n").expect("written");
    fs::write(clone.join("plan/progress.txt"), "of an agent\n").expect("written");
    let commit = commit_in(&world, &clone);
    let mut repository = world.repository();
    repository.set_own_file(&world.at("plan/tasks.json"));
    let mut git = GitVcs::new(repository, world.directory.path().join("run"));
    fetch(&mut git, &clone, &commit);
    world.write("plan/tasks.json", "in progress\n");
    let onto = checkpoint(&mut git);
    let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("merged");
    // The list of the run is no change of the code.
    assert!(matches!(merged, MergeOutcome::Same { .. }), "{merged:?}");
    assert_eq!(read(&world, "plan/tasks.json"), "in progress\n");
    assert_eq!(
        (read(&world, "plan/progress.txt"), read(&world, "new.txt")),
        (String::new(), "new\n".into())
    );
}

#[test]
fn a_commit_that_is_not_there_is_missing() {
    let world = World::new();
    let mut git = world.open();
    let onto = checkpoint(&mut git);
    for commit in ["0".repeat(40), "HEAD".to_owned(), "--help".to_owned()] {
        let merged = git.merge_candidate(&mark(1), &onto, &candidate(&commit)).expect("answered");
        assert!(matches!(merged, MergeOutcome::Missing { .. }), "{merged:?}");
    }
}
