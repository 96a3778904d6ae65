//! `ralph clones` and `ralph clean --clones`: what is in the clones of workers, and their removal.

use std::fs;

use ralph_io::git::{CloneRequest, GitRepository, RepositoryDiscovery, prepare_clone};
use ralph_io::process::Watch;
use ralph_io::worker_slots::{SlotRequest, WorkerSlot};
use ralph_model::ids::WorkerId;
use ralph_model::worktree::CommitId;
use ralph_testkit::sealed::{Finished, Sealed};
use serde_json::{Value, json};

use crate::repository;

fn open(sealed: &Sealed) -> GitRepository {
    let mut env = vec![("PATH".into(), std::env::var_os("PATH").expect("set"))];
    env.extend(
        [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    match GitRepository::discover(&sealed.project_dir(), env, Watch::new_detached()) {
        Ok(RepositoryDiscovery::Repository(repository)) => *repository,
        other => unreachable!("a repository, not {other:?}"),
    }
}

/// Makes a clone for a worker, and returns its slot.
fn make_clone(sealed: &Sealed, worker: &str, keep: &[&str]) -> WorkerSlot {
    let source = open(sealed);
    let worker = WorkerId(worker.to_owned());
    let keep: Vec<WorkerId> = keep.iter().map(|it| WorkerId((*it).to_owned())).collect();
    let root = sealed.state_dir();
    let work_tree = source.top();
    let request = SlotRequest { root: &root, work_tree, worker: &worker, keep: &keep, most: None };
    let slot = WorkerSlot::acquire(request);
    let slot = slot.expect("a slot");
    let request = CloneRequest {
        base: CommitId(sealed.run_git(&["rev-parse", "HEAD"]).trim().to_owned()),
        branch: Some("main".to_owned()),
        start_tree: None,
        include: Vec::new(),
        copy_limit: 0,
    };
    prepare_clone(&source, &slot, &request).expect("prepared");
    slot
}

fn parse(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).expect("JSON")
}

#[test]
fn clones_are_listed_and_only_those_without_unsaved_work_are_removed() {
    let sealed = repository();
    sealed.write_file("a.txt", "a\n");
    sealed.commit_all("first");
    let none = "There are no clones of workers.\n";
    assert_eq!(sealed.run_ralph(&["clones"]).expect_code(0).stdout, none);

    let saved = make_clone(&sealed, "run-T1-r1", &[]).directory().to_owned();
    let unsaved = make_clone(&sealed, "run-T2-r1", &["run-T1-r1"]).directory().to_owned();
    fs::write(unsaved.join("project/a.txt"), "work\n").expect("written");
    let held = make_clone(&sealed, "run-T3-r1", &["run-T1-r1", "run-T2-r1"]);

    let listed = sealed.run_ralph(&["clones"]).expect_code(0).stdout;
    let pid = std::process::id();
    for (line, (start, end)) in listed.lines().zip([
        ("s1  run-T1-r1, ", ", no unsaved work".to_owned()),
        ("s2  run-T2-r1, ", ", unsaved work in 1 changed file".to_owned()),
        ("s3  run-T3-r1, ", format!(", in use by process {pid}")),
    ]) {
        assert!(line.starts_with(start) && line.ends_with(&end), "{listed}");
    }
    let facts = parse(&sealed.run_ralph(&["clones", "--json"]).expect_code(0));
    let of = |key: &str| -> Vec<_> {
        let clones = facts["clones"].as_array().expect("a list");
        clones.iter().map(|clone| clone[key].clone()).collect()
    };
    assert_eq!(of("slot"), [json!("s1"), json!("s2"), json!("s3")]);
    assert_eq!(of("unsaved"), [json!(false), json!(true), json!(null)]);
    assert_eq!(of("heldBy"), [json!(null), json!(null), json!(pid)]);

    let planned = sealed.run_ralph(&["clean", "--clones", "--dry-run"]).expect_code(1);
    assert!(planned.stdout.starts_with("Would be removed: s1; "), "{}", planned.stdout);
    assert!(saved.exists());
    let cleaned = sealed.run_ralph(&["clean", "--clones"]).expect_code(1);
    assert!(cleaned.stdout.starts_with("Removed: s1; "), "{}", cleaned.stdout);
    cleaned
        .expect_stderr("These clones were not removed: s2 (")
        .expect_stderr("): unsaved work in 1 changed file; s3 (")
        .expect_stderr(&format!("): in use by process {pid}"))
        .expect_stderr("hint: ralph saves the work");
    assert!(!saved.exists() && unsaved.exists() && held.directory().exists());
    drop(held);
    let facts = parse(&sealed.run_ralph(&["clean", "--clones", "--json"]).expect_code(1));
    assert_eq!(facts["removed"], json!(["s3"]));
    assert_eq!(facts["refused"][0]["slot"], "s2");
    let kept = fs::read_to_string(unsaved.join("project/a.txt"));
    assert_eq!(kept.ok().as_deref(), Some("work\n"));
}

#[test]
fn a_clone_of_a_repository_that_was_made_again_is_removed_by_hand() {
    let sealed = repository();
    sealed.write_file("a.txt", "a\n");
    sealed.commit_all("first");
    let slot = make_clone(&sealed, "run-T1-r1", &[]).directory().to_owned();
    fs::remove_dir_all(sealed.project_dir().join(".git")).expect("removed");
    sealed.run_git(&["init", "--quiet"]);
    sealed.write_file("a.txt", "b\n");
    sealed.commit_all("another beginning");
    let cleaned = sealed.run_ralph(&["clean", "--clones"]).expect_code(1);
    let printed = cleaned.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = printed.split_once("cannot be saved: `").expect("a hint");
    let (command, _) = rest.split_once('`').expect("a command");
    let done = std::process::Command::new("sh").args(["-c", command]).status();
    assert!(done.is_ok_and(|it| it.success()) && !slot.exists(), "{command}");
    sealed.run_ralph(&["clean", "--clones"]).expect_code(0);
}
