//! Refs on a bare repository as remote.

use super::*;

fn connect(world: &World) -> RemoteRefs {
    let remote = world.directory.path().join("remote.git").to_string_lossy().into_owned();
    world.git(&["init", "--quiet", "--bare", &remote]);
    RemoteRefs { repository: world.repository(), remote, prefix: REF_PREFIX.to_owned() }
}

fn commit(refs: &RemoteRefs, text: &str) -> CommitId {
    refs.commit_files(&[("a.json", text.as_bytes())], &[], "x").expect("written")
}

#[test]
fn a_created_ref_is_never_replaced_and_a_commit_is_fetched_by_its_id() {
    let world = World::new();
    let refs = connect(&world);
    let (first, second) = (commit(&refs, "first"), commit(&refs, "second"));
    let name = refs.build_name("results", "w/a1");
    let create =
        |commit: &CommitId| RefUpdate::Create { name: name.clone(), commit: commit.clone() };
    refs.push_refs(&[create(&first)]).expect("created");
    let again = refs.push_refs(&[create(&second)]).expect_err("it is there");
    assert!(matches!(again, RemoteError::Exists { .. }), "{again:?}");
    let patterns = [refs.build_name("results", "w/*"), refs.build_name("jobs", "w")];
    let listed = refs.list_refs(&patterns).expect("listed");
    assert_eq!(listed, [(name.clone(), first.clone())].into());
    let moved = RefUpdate::Move { name: name.clone(), commit: second.clone() };
    refs.push_refs(&[moved]).expect("moved");
    let other = copy_of(&world, &refs);
    other.fetch_commit(&second, "refs/ralph/results/r/w").expect("fetched");
    let read = other.read_file(&second, "a.json").expect("read");
    assert_eq!(read.as_deref(), Some(b"second".as_slice()));
    assert_eq!(other.read_file(&second, "b.json"), Ok(None));
    refs.push_refs(&[RefUpdate::Delete { name }]).expect("deleted");
    assert_eq!(refs.list_refs(&patterns), Ok(BTreeMap::new()));
}

/// Another repository with the same remote.
fn copy_of(world: &World, refs: &RemoteRefs) -> RemoteRefs {
    let other = world.directory.path().join("other");
    world.git(&["init", "--quiet", &other.to_string_lossy()]);
    RemoteRefs { repository: world.repository_of(&other), ..refs.clone() }
}

#[test]
fn a_refusal_is_not_taken_for_a_remote_that_does_not_work() {
    let world = World::new();
    let refs = connect(&world);
    let update = RefUpdate::Move { name: "refs/ralph/jobs/w".into(), commit: commit(&refs, "x") };
    let hook = Path::new(&refs.remote).join("hooks/pre-receive");
    fs::write(&hook, "#!/bin/sh\necho no space left >&2; exit 1\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    match refs.push_refs(std::slice::from_ref(&update)) {
        Err(RemoteError::Refused { message }) => {
            assert!(message.contains("no space left"), "{message}");
        }
        other => unreachable!("{other:?}"),
    }
    fs::remove_dir_all(&refs.remote).expect("removed");
    let gone = refs.push_refs(&[update]).expect_err("it is gone");
    assert!(matches!(gone, RemoteError::Failed { .. }), "{gone:?}");
}
