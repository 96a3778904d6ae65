//! The file under other writers, damage, and a system that refuses.

use std::os::unix::fs::symlink;
use std::thread;

use ralph_core::memory::graph::{Entity, Observations};

use super::*;

const ADA: &str = "{\"type\":\"entity\",\"name\":\"Ada\",\"entityType\":\"person\",\"observations\":[\"writes\"]}\n";

fn entity(name: &str) -> Entity {
    Entity { name: name.into(), entity_type: "person".into(), ..Entity::default() }
}

fn create(name: &str) -> GraphEdit {
    GraphEdit::CreateEntities(vec![entity(name)])
}

fn names(file: &mut GraphFile) -> Vec<String> {
    file.read_graph().expect("readable").entities.iter().map(|it| it.name.clone()).collect()
}

/// Returns a directory, and the path of a graph in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("memory.jsonl");
    (directory, path)
}

/// Returns the names of the files in a directory.
fn listed(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_missing_file_is_an_empty_graph_and_is_made_with_its_directory() {
    let (directory, _) = place();
    let path = directory.path().join("new/deep/memory.jsonl");
    let mut file = GraphFile::new(&path);
    assert_eq!(names(&mut file), [""; 0]);
    assert_eq!(listed(directory.path()), [""; 0], "reading makes nothing");
    file.apply_edit(create("Ada")).expect("written");
    assert_eq!(names(&mut GraphFile::new(&path)), ["Ada"]);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_file_is_read_again_only_when_it_is_another_one() {
    let (_directory, path) = place();
    let (mut one, mut two) = (GraphFile::new(&path), GraphFile::new(&path));
    for name in ["a", "b", "c"] {
        one.apply_edit(create(name)).expect("written");
        assert_eq!(names(&mut two), names(&mut one));
    }
    // An append in place is noticed, and so is a removal of the file.
    let mut appended = OpenOptions::new().append(true).open(&path).expect("opened");
    appended.write_all(ADA.as_bytes()).expect("written");
    assert_eq!(names(&mut one), ["a", "b", "c", "Ada"]);
    fs::remove_file(&path).expect("removed");
    assert_eq!(names(&mut one), [""; 0]);
    // What was read is not read again: the memory is the same.
    one.apply_edit(create("a")).expect("written");
    let before = one.read_graph().expect("readable").entities.as_ptr();
    assert_eq!(one.read_graph().expect("readable").entities.as_ptr(), before);
}

#[test]
fn a_search_sees_own_and_foreign_changes() {
    let (_directory, path) = place();
    let (mut one, mut two) = (GraphFile::new(&path), GraphFile::new(&path));
    let found = |file: &mut GraphFile, text: &str| -> Vec<String> {
        let found = file.read_graph().expect("readable").search_entities(&[text]);
        found.entities.iter().map(|it| it.name.clone()).collect()
    };
    let observed = |name: &str, text: &str| Observations {
        entity_name: name.into(),
        contents: vec![text.into()],
    };
    assert_eq!(found(&mut one, "PERSON"), [""; 0]);
    one.apply_edit(create("Ada")).expect("written");
    two.apply_edit(create("Bob")).expect("written");
    assert_eq!(found(&mut one, "PERSON"), ["Ada", "Bob"]);
    one.apply_edit(GraphEdit::AddObservations(vec![observed("Ada", "Paints")])).expect("written");
    one.apply_edit(GraphEdit::AddObservations(vec![observed("Bob", "paints low")]))
        .expect("written");
    assert_eq!(found(&mut one, "paint"), ["Ada", "Bob"]);
    assert_eq!(found(&mut two, "paint"), ["Ada", "Bob"]);
    one.apply_edit(GraphEdit::DeleteObservations(vec![observed("Ada", "Paints")]))
        .expect("written");
    assert_eq!(found(&mut one, "paint"), ["Bob"]);
    two.apply_edit(GraphEdit::DeleteEntities(vec!["Ada".into()])).expect("written");
    assert_eq!(
        (found(&mut one, "person"), found(&mut two, "person")),
        (vec!["Bob".into()], vec!["Bob".into()])
    );
    // What is refused changes nothing.
    two.apply_edit(GraphEdit::AddObservations(vec![observed("Ada", "dances")]))
        .expect_err("not there");
    assert_eq!(found(&mut two, "dances"), [""; 0]);
}

#[test]
fn an_edit_without_effect_writes_nothing() {
    let (_directory, path) = place();
    fs::write(&path, ADA).expect("written");
    let stamp = GraphStamp::from_metadata(&fs::metadata(&path).expect("there"));
    let mut file = GraphFile::new(&path);
    file.apply_edit(create("Ada")).expect("known");
    file.apply_edit(GraphEdit::DeleteEntities(vec!["Bob".into()])).expect("not there");
    assert_eq!(GraphStamp::from_metadata(&fs::metadata(&path).expect("there")), stamp);
}

#[test]
fn eight_writers_lose_nothing() {
    let (_directory, path) = place();
    GraphFile::new(&path).apply_edit(create("shared")).expect("written");
    thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = GraphFile::new(path);
                for step in 0..20 {
                    file.apply_edit(create(&format!("{writer}-{step}"))).expect("written");
                    let contents = vec![format!("seen by {writer} in {step}")];
                    let about = Observations { entity_name: "shared".into(), contents };
                    file.apply_edit(GraphEdit::AddObservations(vec![about])).expect("written");
                }
            });
        }
    });
    let mut file = GraphFile::new(&path);
    let graph = file.read_graph().expect("readable");
    assert_eq!(graph.entities.len(), 1 + 8 * 20);
    assert_eq!(graph.entities[0].observations.len(), 8 * 20);
}

#[test]
fn damage_is_reported_once_and_moved_away_by_the_next_change() {
    let (directory, path) = place();
    let damaged = format!("nonsense\n{ADA}{{\"type\":\"ent");
    fs::write(&path, &damaged).expect("written");
    let mut file = GraphFile::new(&path);
    assert_eq!(names(&mut file), ["Ada"]);
    let notice = GraphNotice::Damaged { path: path.clone(), count: 2, first: 1 };
    assert_eq!(file.take_notices(), [notice]);
    assert_eq!(names(&mut file), ["Ada"]);
    assert_eq!(file.take_notices(), []);
    assert_eq!(fs::read_to_string(&path).expect("readable"), damaged, "reading changes nothing");
    // Even an edit without an effect repairs the file.
    file.apply_edit(create("Ada")).expect("written");
    let [GraphNotice::PutAside { path: aside }] = &file.take_notices()[..] else {
        panic!("not reported")
    };
    assert_eq!(fs::read_to_string(aside).expect("kept"), "nonsense\n{\"type\":\"ent\n");
    assert_eq!(fs::read_to_string(&path).expect("readable"), ADA);
    // Again in the same second.
    fs::write(&path, &damaged).expect("written");
    file.apply_edit(create("Ada")).expect("written");
    let kept = listed(directory.path());
    assert_eq!(kept.iter().filter(|name| name.starts_with("memory.jsonl.damaged-")).count(), 2);
}

#[test]
fn a_refused_write_leaves_the_old_file_and_the_next_one_succeeds() {
    let (directory, path) = place();
    fs::write(&path, ADA).expect("written");
    let mut file = GraphFile::new(&path);
    // A directory in place of the lock fails even for root.
    let lock = directory.path().join("memory.jsonl.lock");
    fs::create_dir(&lock).expect("made");
    let error = file.apply_edit(create("Bob")).expect_err("refused").to_string();
    assert!(error.starts_with("cannot lock `") && error.contains("Is a directory"), "{error}");
    assert_eq!(names(&mut file), ["Ada"]);
    fs::remove_dir(&lock).expect("removed");
    file.apply_edit(create("Bob")).expect("written");
    assert_eq!(names(&mut GraphFile::new(&path)), ["Ada", "Bob"]);
}

#[test]
fn anything_but_a_file_is_refused() {
    let (directory, path) = place();
    fs::create_dir(&path).expect("made");
    let mut file = GraphFile::new(&path);
    assert!(matches!(file.read_graph(), Err(GraphError::NotAFile(_))));
    assert!(matches!(file.apply_edit(create("Ada")), Err(GraphError::NotAFile(_))));
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("made");
    assert!(matches!(GraphFile::new(pipe).read_graph(), Err(GraphError::NotAFile(_))));
    let large = directory.path().join("large");
    File::create(&large).and_then(|file| file.set_len(LARGEST + 1)).expect("made");
    assert!(matches!(GraphFile::new(large).read_graph(), Err(GraphError::TooLarge(_))));
}

#[test]
fn a_lock_that_is_never_released_is_reported() {
    let (_directory, path) = place();
    let mut file = GraphFile::new(&path);
    let _held = file.lock_graph(&path).expect("free");
    file.patience = Duration::from_millis(1);
    assert!(matches!(file.apply_edit(create("Ada")), Err(GraphError::Busy { .. })));
    assert!(file.read_graph().is_ok(), "who only reads does not wait");
}

#[test]
fn a_link_stays_and_permissions_stay() {
    let (directory, path) = place();
    let target = directory.path().join("target.jsonl");
    fs::write(&target, ADA).expect("written");
    fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("set");
    symlink(&target, &path).expect("linked");
    GraphFile::new(&path).apply_edit(create("Bob")).expect("written");
    assert!(fs::symlink_metadata(&path).expect("there").is_symlink());
    assert_eq!(names(&mut GraphFile::new(&target)), ["Ada", "Bob"]);
    assert_eq!(fs::metadata(&target).expect("there").permissions().mode() & 0o777, 0o640);
}

#[test]
fn temporary_files_of_a_killed_writer_are_removed() {
    let (directory, path) = place();
    for name in [".memory.jsonl.Ab3.tmp", ".other.jsonl.Ab3.tmp", "memory.jsonl.0f.tmp"] {
        fs::write(directory.path().join(name), "half").expect("written");
    }
    GraphFile::new(&path).apply_edit(create("Ada")).expect("written");
    let expect =
        [".other.jsonl.Ab3.tmp", "memory.jsonl", "memory.jsonl.0f.tmp", "memory.jsonl.lock"];
    assert_eq!(listed(directory.path()), expect);
}

proptest::proptest! {
    #[test]
    fn lines_read_back_as_they_are_written(
        text in "(\\{\"type\":\"(entity|relation|x)\"|,\"(name|entityType|from|to|relationType)\":\"a?\"|,\"observations\":\\[\"b\"\\]|,\"n\":[0-9]{1,25}|\\}\n|[ -~]){0,20}"
    ) {
        let content = lines::parse_lines(text.as_bytes());
        let written = lines::format_lines(&content.graph, &content.others);
        let again = lines::parse_lines(&written);
        assert_eq!((&again.graph, &again.others), (&content.graph, &content.others));
        assert!(again.damaged.is_empty(), "what is written is whole");
        assert!(content.damaged.iter().map(|it| it.bytes.len()).sum::<usize>() <= text.len());
    }
}
