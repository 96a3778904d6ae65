//! Decides when handoffs are compacted: a pure rule, evaluated before every coding iteration.

use ralph_model::memory::{CompactionTrigger, MemoryPolicy, SinceCompaction};
use ralph_model::task::Task;

/// Returns why handoffs must be compacted before the next task, or `None`.
pub fn find_trigger(
    policy: &MemoryPolicy,
    since: &SinceCompaction,
    next: &Task,
) -> Option<CompactionTrigger> {
    let needs_docs = next.needs_docs || !next.libraries.is_empty();
    if needs_docs && !since.documented.contains(&next.id) {
        return Some(CompactionTrigger::Documentation);
    }
    find_handoff_trigger(policy, since)
}

/// Returns why handoffs must be compacted, whatever the next task needs.
pub(crate) fn find_handoff_trigger(
    policy: &MemoryPolicy,
    since: &SinceCompaction,
) -> Option<CompactionTrigger> {
    // Without handoffs there is nothing to compact.
    if since.handoffs.is_empty() {
        return None;
    }
    if since.handoff_bytes > policy.threshold_bytes {
        return Some(CompactionTrigger::Size);
    }
    (since.coding_iterations >= policy.every_iterations.max(1))
        .then_some(CompactionTrigger::Periodic)
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::{IterationNumber, TaskId};
    use ralph_model::memory::PendingHandoff;

    use super::*;

    /// What the next task needs.
    enum Wants {
        Nothing,
        Docs,
        Libraries,
    }

    #[track_caller]
    fn check(
        wants: &Wants,
        bytes: u64,
        iterations: u32,
        documented: &str,
        expect: Option<CompactionTrigger>,
    ) {
        let mut next = Task::new("T", "T");
        match wants {
            Wants::Nothing => {}
            Wants::Docs => next.needs_docs = true,
            Wants::Libraries => next.libraries = vec!["serde".into()],
        }
        let entry =
            PendingHandoff { iteration: IterationNumber(1), line: "l".into(), handoff: None };
        let since = SinceCompaction {
            coding_iterations: iterations,
            handoff_bytes: bytes,
            handoffs: if iterations > 0 { vec![entry] } else { Vec::new() },
            documented: [TaskId(documented.into())].into(),
            ..SinceCompaction::default()
        };
        let policy =
            MemoryPolicy { every_iterations: 5, threshold_bytes: 100, ..Default::default() };
        assert_eq!(find_trigger(&policy, &since, &next), expect);
    }

    #[test]
    fn documentation_comes_before_size_before_time() {
        use CompactionTrigger::{Documentation, Periodic, Size};
        check(&Wants::Nothing, 0, 0, "", None);
        check(&Wants::Nothing, 100, 4, "", None);
        check(&Wants::Nothing, 101, 1, "", Some(Size));
        check(&Wants::Nothing, 100, 5, "", Some(Periodic));
        check(&Wants::Nothing, 101, 5, "", Some(Size));
        check(&Wants::Docs, 0, 0, "", Some(Documentation));
        check(&Wants::Libraries, 101, 5, "", Some(Documentation));
        // Once for each task.
        check(&Wants::Docs, 0, 0, "T", None);
        check(&Wants::Libraries, 0, 0, "other", Some(Documentation));
        check(&Wants::Libraries, 101, 1, "T", Some(Size));
        check(&Wants::Libraries, 0, 5, "T", Some(Periodic));
        // There is nothing to compact.
        check(&Wants::Nothing, 101, 0, "", None);
    }

    #[test]
    fn zero_iterations_count_as_one() {
        let entry =
            PendingHandoff { iteration: IterationNumber(1), line: "l".into(), handoff: None };
        let since = SinceCompaction {
            coding_iterations: 1,
            handoffs: vec![entry],
            ..SinceCompaction::default()
        };
        let policy = MemoryPolicy { every_iterations: 0, ..Default::default() };
        assert_eq!(
            find_trigger(&policy, &since, &Task::new("T", "T")),
            Some(CompactionTrigger::Periodic)
        );
        let since = SinceCompaction { coding_iterations: 0, ..since };
        assert_eq!(find_trigger(&policy, &since, &Task::new("T", "T")), None);
    }
}
