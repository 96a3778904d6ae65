//! Tests of bounded memory and repetition.

use super::*;

fn hash(text: &str) -> ErrorHash {
    let mut hasher = ErrorHasher::new("test");
    hasher.feed_text(text);
    hasher.finish_hash()
}

#[test]
fn repetition_and_order_do_not_matter() {
    assert_eq!(hash("waiting\nboom\n"), hash("boom\nwaiting\nwaiting\nwaiting"));
    assert_ne!(hash("waiting\nboom\n"), hash("waiting\nbang\n"));
    assert_ne!(hash("waiting\n"), hash(""));
}

#[test]
fn the_hash_is_the_same_in_every_version() {
    assert_eq!(hash("boom").0, "899109bb");
}

#[test]
fn a_flood_of_different_lines_is_hashed_in_bounded_memory() {
    let flood: Vec<String> = (0..MOST_LINES + 100).map(|count| format!("line x{count}y")).collect();
    let mut backwards = flood.clone();
    backwards.reverse();
    let mut hasher = ErrorHasher::new("test");
    hasher.feed_text(&flood.join("\n"));
    hasher.seen.compact_set();
    assert!(hasher.seen.set.is_none());
    assert_eq!(hasher.finish_hash(), hash(&backwards.join("\n")));
    backwards[7].push('!');
    assert_ne!(hash(&flood.join("\n")), hash(&backwards.join("\n")));
}

#[test]
fn the_project_directory_is_ignored() {
    let at = |directory: &str| {
        let mut hasher = ErrorHasher::for_directory("test", directory);
        hasher.feed_text(&format!("error in {directory}/src/deep/down/lib.rs\nin {directory}\n"));
        hasher.finish_hash()
    };
    assert_eq!(at("/home/one/project"), at("/srv/jobs/another"));
}
