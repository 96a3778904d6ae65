//! Every seed, every kept finding and a fixed number of mutations through every fuzz target.

use std::path::Path;

use ralph_testkit::fuzzing::{check_mutations, check_repetitions, check_seeds, list_targets};

#[test]
fn every_target_has_a_unique_name_and_every_seed_a_target() {
    let mut names: Vec<&str> = list_targets().map(|target| target.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    // Those of the binary's own targets.
    names.extend(["settings", "key-value", "quantities", "hooks", "memory-calls"]);
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for entry in std::fs::read_dir(seeds).expect("seeds").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(names.contains(&name.as_str()), "`{name}` is no target");
    }
}

#[test]
fn nothing_that_was_found_is_found_again() {
    list_targets().for_each(check_seeds);
}

#[test]
fn no_mutation_breaks_a_parser() {
    for (target, number) in list_targets().zip(1..) {
        check_mutations(target, number);
    }
}

#[test]
fn repetitions_take_no_longer_than_their_length() {
    list_targets().for_each(check_repetitions);
}
