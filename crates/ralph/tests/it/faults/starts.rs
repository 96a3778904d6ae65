//! Two starts in one work tree at the same moment: one runs, the other is refused.

use std::sync::{Arc, Barrier};
use std::thread;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Sealed, wait_until};
use serde_json::json;

use crate::repository;

#[test]
fn one_of_two_simultaneous_starts_runs() {
    let sealed = Arc::new(repository());
    let actions = json!([
        { "run": { "command": "echo \"$RALPH_RUN_ID\" >> ../ran" } },
        { "waitFor": { "path": "../continue" } },
        { "claim": "DONE" }
    ]);
    sealed.write_script(&json!([{ "do": actions }]), &json!({}));
    let rounds = effort::choose_count(20, 4);
    for round in 1..=rounds {
        let barrier = Arc::new(Barrier::new(2));
        let starting = [(), ()].map(|()| {
            let (sealed, barrier) = (Arc::clone(&sealed), Arc::clone(&barrier));
            thread::spawn(move || -> Finished {
                barrier.wait();
                sealed.run_ralph(&["run", "-p", "base"])
            })
        });
        // The first continues only when the second has been refused, or both would run in turn.
        wait_until("one of them is turned away", || {
            starting.iter().any(thread::JoinHandle::is_finished)
        });
        finish(&sealed);
        let ends = starting.map(|thread| thread.join().expect("no panic"));
        let codes: Vec<Option<i32>> = ends.iter().map(|end| end.code).collect();
        assert!(
            codes == [Some(0), Some(3)] || codes == [Some(3), Some(0)],
            "round {round}: {}\n{}",
            ends[0].stderr,
            ends[1].stderr
        );
        let turned_away = ends.iter().find(|end| end.code == Some(3)).expect("one");
        assert!(turned_away.stderr.contains("Another run is active"), "{}", turned_away.stderr);
        assert_eq!(sealed.runs().len(), round, "each round began one run");
        std::fs::remove_file(sealed.root().join("continue")).expect("removed");
    }
    let ran = std::fs::read_to_string(sealed.root().join("ran")).expect("they ran");
    assert_eq!(ran.lines().count(), rounds);
    assert_eq!(sealed.survivors(), [""; 0]);
}

fn finish(sealed: &Sealed) {
    std::fs::write(sealed.root().join("continue"), "").expect("written");
}
