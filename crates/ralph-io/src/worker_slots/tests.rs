//! Slots of a project: which one a worker gets, and who has them.

use super::*;

/// Takes a slot, and records that its clone is ready.
fn take(root: &Path, worker: &str, keep: &[&str]) -> Result<WorkerSlot, SlotError> {
    let worker = WorkerId(worker.to_owned());
    let keep: Vec<WorkerId> = keep.iter().map(|it| WorkerId((*it).to_owned())).collect();
    let work_tree = Path::new("/code/My App");
    let request = SlotRequest { root, work_tree, worker: &worker, keep: &keep, most: None };
    let slot = WorkerSlot::acquire(request)?;
    slot.record_owner(CloneState::Ready).expect("recorded");
    Ok(slot)
}

#[test]
fn a_slot_is_reused_unless_it_is_held_or_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let first = take(root, "w1", &[]).expect("a slot");
    assert_eq!(first.name(), "s1");
    assert!(first.clone_path().ends_with("s1/My App"), "{:?}", first.clone_path());
    let second = take(root, "w2", &[]).expect("a slot");
    assert_eq!(second.name(), "s2");
    drop((first, second));
    let third = take(root, "w3", &["w1"]).expect("a slot");
    assert_eq!(third.name(), "s2");
    // Its own one, not the first free one.
    drop(third);
    assert_eq!(take(root, "w3", &[]).expect("a slot").name(), "s2");
    // A gap is filled.
    fs::remove_dir_all(root.join(CLONES_DIRECTORY)).expect("removed");
    let names = |slots: Vec<SlotPlace>| -> Vec<String> {
        slots.iter().map(|it| it.name().to_owned()).collect()
    };
    let held: Vec<WorkerSlot> =
        (0..11).map(|it| take(root, &format!("v{it}"), &[]).expect("a slot")).collect();
    fs::remove_dir_all(held[3].directory()).expect("removed");
    assert_eq!(take(root, "w9", &[]).expect("a slot").name(), "s4");
    let listed = names(list_slots(root, Path::new("/code/My App")));
    assert_eq!(listed.last().map(String::as_str), Some("s11"));
    assert_eq!(list_slots(root, Path::new("/code/Other")), []);
}

#[test]
fn no_slot_is_added_to_as_many_as_a_run_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let held = take(root, "w1", &[]).expect("a slot");
    let worker = WorkerId("w2".into());
    let work_tree = Path::new("/code/My App");
    let request = SlotRequest { root, work_tree, worker: &worker, keep: &[], most: Some(1) };
    let error = WorkerSlot::acquire(request).expect_err("refused").to_string();
    assert_eq!(error, "all 1 slots are in use");
    drop(held);
    assert_eq!(WorkerSlot::acquire(request).expect("a slot").name(), "s1");
}

#[test]
fn the_same_job_twice_is_one_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let slot = take(directory.path(), "w1", &[]).expect("a slot");
    let holder = SlotHolder { pid: std::process::id(), worker: Some(WorkerId("w1".into())) };
    assert_eq!(slot.place().find_holder(), Some(holder));
    let error = take(directory.path(), "w1", &[]).expect_err("refused").to_string();
    assert_eq!(error, "worker w1 already runs in s1");
    // Also before it is recorded as the owner.
    fs::remove_file(slot.directory().join(OWNER)).expect("removed");
    let error = take(directory.path(), "w1", &[]).expect_err("refused").to_string();
    assert_eq!(error, "worker w1 already runs in s1");
    drop(slot);
    take(directory.path(), "w1", &[]).expect("free again");
}

#[test]
fn a_clone_without_a_record_has_an_unknown_owner() {
    let directory = tempfile::tempdir().expect("a directory");
    let slot = take(directory.path(), "w1", &[]).expect("a slot");
    fs::write(slot.directory().join(OWNER), "garbage").expect("written");
    assert_eq!(slot.owner(), None);
    fs::create_dir(slot.clone_path()).expect("made");
    assert_eq!(slot.owner(), Some(WorkerId("unknown-s1".into())));
    drop(slot);
    let (worker, keep) = (WorkerId("w2".into()), [WorkerId("unknown-s1".into())]);
    let (root, work_tree) = (directory.path(), Path::new("/code/My App"));
    let request = SlotRequest { root, work_tree, worker: &worker, keep: &[], most: None };
    let mut slot = WorkerSlot::acquire(request).expect("a slot");
    assert_eq!(slot.name(), "s1");
    slot.replace(SlotRequest { keep: &keep, ..request }).expect("another slot");
    assert_eq!(slot.name(), "s2");
}

#[test]
fn free_space_is_that_of_the_closest_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let free = find_free_space(&directory.path().join("not/there")).expect("measured");
    assert!(free > 0);
}
