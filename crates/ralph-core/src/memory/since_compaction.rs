//! What accumulated since the last compaction: handoffs of iterations, the constraints and fixed
//! bugs in them, and the counters that decide when to compact again.
//!
//! It is part of the run state, so only events change it, and it stays small however long a run
//! has no compaction. Not here: when to compact.

use ralph_model::handoff::{Handoff, Priority};
use ralph_model::ids::IterationNumber;
use ralph_model::memory::{
    ActiveConstraint, FoundConstraint, OpenIssue, PendingHandoff, SinceCompaction,
};
use ralph_model::text;

use super::carry::clip_item;
use super::sentence_match::has_same_meaning;
use crate::memory::handoff_summary::summarize_handoff;

/// How many handoffs are kept in full. Compaction runs every five iterations; this allows for
/// some that fail.
const WHOLE: usize = 16;

/// How many bytes these may have together. This limits the prompt of a compaction.
const WHOLE_BYTES: u64 = 64_000;

/// How many handoffs are kept at all, the older ones as a line.
const MOST_ACCOUNTS: usize = 100;

/// Maximum length of such a line.
const LINE_CHARS: usize = 200;

/// How many findings are kept. More of them in so few iterations are noise.
const MOST_FOUND: usize = 100;

/// The outcome of an attempt at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Passed,
    /// It failed, or it was not checked.
    NotPassed,
}

/// Returns the size of a handoff's file.
fn count_bytes(handoff: &Handoff) -> u64 {
    serde_json::to_vec_pretty(handoff).map_or(0, |text| text.len() as u64 + 1)
}

/// Adds a coding iteration, with its handoff if it left one.
pub(crate) fn record_coding_iteration(
    since: &mut SinceCompaction,
    iteration: IterationNumber,
    handoff: Option<&Handoff>,
    attempted: AttemptOutcome,
) {
    since.coding_iterations += 1;
    let Some(handoff) = handoff else { return };
    since.handoff_bytes = since.handoff_bytes.saturating_add(count_bytes(handoff));
    // The findings and fixes of work that is not accepted may be gone with it.
    if attempted == AttemptOutcome::Passed {
        record_findings(since, iteration, handoff);
        record_open_issues(since, handoff);
    }
    since.handoffs.push(PendingHandoff {
        iteration,
        line: text::shorten_to_line(&summarize_handoff(handoff), LINE_CHARS),
        handoff: Some(Box::new(handoff.clone())),
    });
    make_room(since);
}

/// Records what an iteration fixed and found. A fixed bug that is found again is open again.
fn record_findings(since: &mut SinceCompaction, iteration: IterationNumber, handoff: &Handoff) {
    let fixed = handoff.bugs_encountered.iter().filter(|bug| bug.resolved);
    for bug in fixed.filter(|bug| !bug.description.trim().is_empty()) {
        if since.fixed.len() >= MOST_FOUND {
            since.fixed.remove(0);
        }
        let fixed = clip_item(&bug.description);
        since.open.retain(|open| !has_same_meaning(&fixed, &open.issue));
        since.fixed.push(fixed);
    }
    for found in &handoff.constraints_discovered {
        let constraint = clip_item(&found.constraint);
        if constraint.is_empty() {
            continue;
        }
        since.fixed.retain(|fixed| !has_same_meaning(fixed, &constraint));
        if since.found.iter().any(|known| has_same_meaning(&known.constraint, &constraint)) {
            continue;
        }
        if since.found.len() >= MOST_FOUND {
            since.more_found += 1;
            continue;
        }
        let follows = found.workaround.as_deref().unwrap_or(&found.impact).trim();
        let whole = match follows {
            "" => constraint.clone(),
            follows => clip_item(&format!("{constraint}: {follows}")),
        };
        let source_iteration = Some(iteration.to_string());
        let entry = ActiveConstraint { constraint: whole, source_iteration };
        since.found.push(FoundConstraint { constraint, entry });
    }
}

/// Records what an iteration left open: bugs that are not fixed, and urgent unfinished work.
fn record_open_issues(since: &mut SinceCompaction, handoff: &Handoff) {
    let done = &handoff.task_completed;
    if done.fully_complete {
        // What is still unfinished is in this handoff again and added below.
        since.open.retain(|open| open.business_of.as_ref() != Some(&done.task_id));
    }
    let faults = handoff.bugs_encountered.iter().filter(|bug| !bug.resolved);
    let faults = faults.map(|bug| (&bug.description, None));
    let urgent = handoff.unfinished_business.iter().filter(|it| it.priority == Priority::High);
    let urgent = urgent.map(|it| (&it.item, Some(&done.task_id)));
    for (text, task) in faults.chain(urgent) {
        let issue = clip_item(text);
        if issue.is_empty() {
            continue;
        }
        since.fixed.retain(|fixed| !has_same_meaning(fixed, &issue));
        if since.open.iter().any(|known| has_same_meaning(&known.issue, &issue)) {
            continue;
        }
        if since.open.len() >= MOST_FOUND {
            since.more_found += 1;
            continue;
        }
        since.open.push(OpenIssue { issue, business_of: task.cloned() });
    }
}

/// Reduces the oldest handoffs to lines until the rest is small enough.
fn make_room(since: &mut SinceCompaction) {
    let mut left = WHOLE_BYTES;
    for (nth, entry) in since.handoffs.iter_mut().rev().enumerate() {
        let size = entry.handoff.as_deref().map_or(0, count_bytes);
        match left.checked_sub(size) {
            Some(rest) if nth < WHOLE => left = rest,
            // Everything older than one that does not fit is dropped too.
            Some(_) | None => (left, entry.handoff) = (0, None),
        }
    }
    let surplus = since.handoffs.len().saturating_sub(MOST_ACCOUNTS);
    since.handoffs.drain(..surplus);
    since.dropped_handoffs =
        since.dropped_handoffs.saturating_add(u32::try_from(surplus).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::TaskId;
    use ralph_model::memory::CompactionTrigger;
    use serde_json::{Value, json};

    use super::*;
    use crate::memory::handoff_reading as read;

    fn handoff(more: &Value) -> Handoff {
        let mut value = json!({"task_completed":
            {"task_id": "T", "summary": "Did it. And more.", "fully_complete": true}});
        for (key, entry) in more.as_object().into_iter().flatten() {
            value[key] = entry.clone();
        }
        read::read_handoff([value], "", &TaskId("T".into()), &[])
    }

    fn code(since: &mut SinceCompaction, iteration: u32, handoff: &Handoff) {
        record_coding_iteration(
            since,
            IterationNumber(iteration),
            Some(handoff),
            AttemptOutcome::Passed,
        );
    }

    fn found(constraint: &str) -> Value {
        json!({"constraints_discovered": [{"constraint": constraint, "impact": "slow"}]})
    }

    #[test]
    fn what_does_not_fit_is_kept_as_a_line() {
        let mut since = SinceCompaction::default();
        for iteration in 1..=200 {
            code(&mut since, iteration, &handoff(&json!({})));
        }
        assert_eq!((since.handoffs.len(), since.dropped_handoffs), (MOST_ACCOUNTS, 100));
        let whole = since.handoffs.iter().filter(|entry| entry.handoff.is_some()).count();
        assert_eq!(whole, WHOLE);
        assert!(since.handoffs[0].handoff.is_none(), "the oldest give way");
        assert_eq!(since.handoffs[0].line, "[T] Did it. 0 files.");
        assert_eq!(since.coding_iterations, 200);
        // One very large handoff pushes out itself and older ones, not younger ones.
        let huge = handoff(&json!({"recommendations": ["x".repeat(70_000)]}));
        code(&mut since, 201, &huge);
        code(&mut since, 202, &handoff(&json!({})));
        let whole: Vec<u32> = since
            .handoffs
            .iter()
            .filter(|it| it.handoff.is_some())
            .map(|it| it.iteration.0)
            .collect();
        assert_eq!(whole, [202]);
        assert!(since.handoff_bytes > 70_000);
    }

    #[test]
    fn findings_outlive_the_handoffs_they_came_in() {
        let mut since = SinceCompaction::default();
        code(&mut since, 3, &handoff(&found("SQLite has one writer")));
        for iteration in 4..=200 {
            let repeated = handoff(&found("sqlite has one writer."));
            code(&mut since, iteration, &repeated);
        }
        let entry = ActiveConstraint {
            constraint: "SQLite has one writer: slow".into(),
            source_iteration: Some("3".into()),
        };
        let constraint = "SQLite has one writer".into();
        assert_eq!(since.found, [FoundConstraint { constraint, entry }]);
        for count in 0..300 {
            let odd = handoff(&found(&format!("limit number {count} holds")));
            code(&mut since, 201, &odd);
        }
        assert_eq!((since.found.len(), since.more_found), (MOST_FOUND, 201));
    }

    #[test]
    fn work_that_is_not_accepted_neither_binds_nor_fixes() {
        let mut since = SinceCompaction::default();
        let bug = |is_resolved: bool| json!({"description": "the cache is stale", "resolution": "x", "resolved": is_resolved});
        code(&mut since, 1, &handoff(&json!({"bugs_encountered": [bug(false)]})));
        let mut claims = found("Tokens live in cookies only");
        claims["bugs_encountered"] = json!([bug(true)]);
        record_coding_iteration(
            &mut since,
            IterationNumber(2),
            Some(&handoff(&claims)),
            AttemptOutcome::NotPassed,
        );
        assert_eq!((since.found.len(), open(&since)), (0, vec!["the cache is stale"]));
        assert_eq!(since.handoffs.len(), 2, "the compactor still reads of it");
    }

    #[test]
    fn what_is_found_after_it_was_fixed_is_back() {
        let bug = json!({"bugs_encountered": [
            {"description": "the cache is stale", "resolution": "x", "resolved": true},
            {"description": "open", "resolution": "", "resolved": false}]});
        let mut since = SinceCompaction::default();
        code(&mut since, 1, &handoff(&bug));
        assert_eq!(since.fixed, ["the cache is stale"]);
        assert_eq!(open(&since), ["open"]);
        code(&mut since, 2, &handoff(&found("The cache is stale.")));
        assert_eq!(since.fixed, [] as [&str; 0]);
    }

    /// A handoff of work on a task that leaves a bug and some unfinished work.
    fn leaving(task: &str, is_complete: bool, fault: &str, business: &str) -> Handoff {
        let entry = |text: &str, priority: &str| json!({"item": text, "reason": "no time", "priority": priority});
        let mut handoff = handoff(&json!({
            "bugs_encountered": [{"description": fault, "resolution": "", "resolved": false}],
            "unfinished_business": [entry(business, "high"), entry("rename things", "low")]}));
        handoff.task_completed.task_id = TaskId(task.into());
        handoff.task_completed.fully_complete = is_complete;
        handoff
    }

    fn open(since: &SinceCompaction) -> Vec<&str> {
        since.open.iter().map(|open| open.issue.as_str()).collect()
    }

    #[test]
    fn what_is_left_open_stays_until_it_is_fixed_or_its_task_is_done() {
        let mut since = SinceCompaction::default();
        code(&mut since, 1, &leaving("A", false, "the login test is flaky", "write the manual"));
        code(&mut since, 2, &leaving("A", false, "The login test is FLAKY.", "write the manual"));
        assert_eq!(open(&since), ["the login test is flaky", "write the manual"]);
        // Neither another task nor an unchecked attempt closes unfinished work.
        let nothing = [("B", AttemptOutcome::Passed), ("A", AttemptOutcome::NotPassed)];
        for (task, attempted) in nothing {
            let done = leaving(task, true, "", "");
            record_coding_iteration(&mut since, IterationNumber(3), Some(&done), attempted);
            assert_eq!(open(&since), ["the login test is flaky", "write the manual"]);
        }
        // It reports again what it still leaves.
        let done = leaving("A", true, "", "print the manual");
        record_coding_iteration(
            &mut since,
            IterationNumber(4),
            Some(&done),
            AttemptOutcome::Passed,
        );
        assert_eq!(open(&since), ["the login test is flaky", "print the manual"]);
        let fixed = json!({"bugs_encountered": [
            {"description": "login test is flaky", "resolution": "x", "resolved": true}]});
        code(&mut since, 5, &handoff(&fixed));
        assert_eq!(open(&since), ["print the manual"]);
        // A bug that is found again is open again.
        code(&mut since, 6, &leaving("C", true, "the login test is flaky", ""));
        assert_eq!(open(&since), ["print the manual", "the login test is flaky"]);
        assert_eq!(since.fixed, [] as [&str; 0]);
    }

    #[test]
    fn a_flood_of_issues_is_counted() {
        let mut since = SinceCompaction::default();
        for count in 0..MOST_FOUND + 7 {
            code(
                &mut since,
                1,
                &leaving("A", false, &format!("fault number {count} is there"), ""),
            );
        }
        assert_eq!((since.open.len(), since.more_found), (MOST_FOUND, 7));
    }

    #[test]
    fn only_a_compaction_that_succeeds_consumes_the_handoffs() {
        let next = TaskId("N".into());
        let mut since = SinceCompaction::default();
        record_coding_iteration(&mut since, IterationNumber(1), None, AttemptOutcome::NotPassed);
        code(&mut since, 2, &handoff(&found("c")));
        let before = since.clone();
        for (trigger, expect) in [
            (
                CompactionTrigger::Periodic,
                SinceCompaction { coding_iterations: 0, ..before.clone() },
            ),
            (CompactionTrigger::Size, SinceCompaction { handoff_bytes: 0, ..before.clone() }),
            (
                CompactionTrigger::Documentation,
                SinceCompaction { documented: [next.clone()].into(), ..before.clone() },
            ),
        ] {
            let mut since = before.clone();
            since.record_failed_compaction(trigger, Some(&next));
            assert_eq!(since, SinceCompaction { compactions: 1, ..expect });
        }
        since.record_compaction(IterationNumber(3), Some(&next));
        let expect = SinceCompaction {
            last: Some(IterationNumber(3)),
            compactions: 1,
            documented: [next].into(),
            ..SinceCompaction::default()
        };
        assert_eq!(since, expect);
    }
}
