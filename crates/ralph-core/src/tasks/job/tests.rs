//! Names of jobs.

use super::*;

#[test]
fn jobs_of_different_tasks_never_share_a_name() {
    let run = RunId("r".into());
    let name = |task: &str, number| name_worker(&run, &TaskId(task.into()), number).0;
    assert_eq!(name("T1", 1), "r-T1-r1");
    assert_eq!(name("T1", 2), "r-T1-r2");
    let names = [name("a b", 1), name("a/b", 1), name("a-b", 1), name("///", 1), name("task", 1)];
    for (at, one) in names.iter().enumerate() {
        assert!(one.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-'), "{one}");
        assert!(!names[at + 1..].contains(one), "{one}");
    }
    assert!(name(&"x".repeat(500), 1).len() < 150);
}
