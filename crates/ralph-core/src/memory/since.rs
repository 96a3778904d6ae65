//! What has gathered since the last compaction: accounts of iterations, what they found and what
//! they mended, and the counters that say when to compact again.
//!
//! Part of the state, so it changes only by events, and it stays small however long a run goes
//! without a compaction. Not here: when to compact.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::carry::clip;
use super::same::says;
use super::{ActiveConstraint, Trigger};
use crate::handoff::{Handoff, Priority};
use crate::ids::{IterationNumber, TaskId};
use crate::text;

/// How many accounts are held whole. Compaction comes every five iterations; this leaves room for
/// some that fail.
const WHOLE: usize = 16;

/// How many bytes those may have together. It bounds the prompt of a compaction.
const WHOLE_BYTES: u64 = 64_000;

/// How many accounts are held at all, the older ones as a line.
const MOST_ACCOUNTS: usize = 100;

/// How long such a line may be.
const LINE_CHARS: usize = 200;

/// How many findings are held. More of them in so few iterations are a flood.
const MOST_FOUND: usize = 100;

/// What has gathered since the last compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Since {
    /// The last iteration whose compaction succeeded.
    pub last: Option<IterationNumber>,
    /// How many iterations compacted, or tried to. They do not count against the limit.
    pub compactions: u32,
    /// Coding iterations since the counter was last reset.
    pub coding_iterations: u32,
    /// Bytes of handoffs since the counter was last reset.
    pub handoff_bytes: u64,
    /// The accounts that no compaction has taken in yet, oldest first.
    pub accounts: Vec<Account>,
    /// How many more there were before these.
    pub more_accounts: u32,
    /// Constraints that they found.
    pub found: Vec<Found>,
    /// How many more they found, and how many more issues they left.
    pub more_found: u32,
    /// Issues that they left open.
    #[serde(default)]
    pub open: Vec<Open>,
    /// Faults that they mended.
    pub mended: Vec<String>,
    /// The tasks whose documentation was looked up, or was to be.
    pub documented: BTreeSet<TaskId>,
}

/// The account of an iteration that no compaction has taken in yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The iteration.
    pub iteration: IterationNumber,
    /// It in one line.
    pub line: String,
    /// It; none where there was no room for it.
    pub handoff: Option<Box<Handoff>>,
}

/// A constraint that an iteration found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// It alone.
    pub constraint: String,
    /// It with what follows from it, as a memory holds it.
    pub entry: ActiveConstraint,
}

/// An issue that an iteration left open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// It.
    pub issue: String,
    /// The task that it is unfinished business of; none for a fault, which is nobody's.
    pub business_of: Option<TaskId>,
}

/// What became of an attempt at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempted {
    /// It passed every check.
    Passed,
    /// It did not, or nobody has checked it.
    Otherwise,
}

impl Since {
    /// Takes in a coding iteration, with its account where it left one.
    pub(crate) fn coded(
        &mut self,
        iteration: IterationNumber,
        handoff: Option<&Handoff>,
        attempted: Attempted,
    ) {
        self.coding_iterations += 1;
        let Some(handoff) = handoff else { return };
        self.handoff_bytes = self.handoff_bytes.saturating_add(size(handoff));
        // What work found and fixed that is not accepted may be gone with it.
        if attempted == Attempted::Passed {
            self.find(iteration, handoff);
        }
        self.leave_open(handoff, attempted);
        self.accounts.push(Account {
            iteration,
            line: text::glance(&handoff.line(), LINE_CHARS),
            handoff: Some(Box::new(handoff.clone())),
        });
        self.make_room();
    }

    /// Notes what an iteration mended and found. What is found after it was mended is back.
    fn find(&mut self, iteration: IterationNumber, handoff: &Handoff) {
        let mended = handoff.bugs_encountered.iter().filter(|bug| bug.resolved);
        for bug in mended.filter(|bug| !bug.description.trim().is_empty()) {
            if self.mended.len() >= MOST_FOUND {
                self.mended.remove(0);
            }
            let mended = clip(&bug.description);
            self.open.retain(|open| !says(&mended, &open.issue));
            self.mended.push(mended);
        }
        for found in &handoff.constraints_discovered {
            let constraint = clip(&found.constraint);
            if constraint.is_empty() {
                continue;
            }
            self.mended.retain(|mended| !says(mended, &constraint));
            if self.found.iter().any(|known| says(&known.constraint, &constraint)) {
                continue;
            }
            if self.found.len() >= MOST_FOUND {
                self.more_found += 1;
                continue;
            }
            let follows = found.workaround.as_deref().unwrap_or(&found.impact).trim();
            let whole = match follows {
                "" => constraint.clone(),
                follows => clip(&format!("{constraint}: {follows}")),
            };
            let source_iteration = Some(iteration.to_string());
            let entry = ActiveConstraint { constraint: whole, source_iteration };
            self.found.push(Found { constraint, entry });
        }
    }

    /// Notes what an iteration left open: faults that are not mended, and urgent business.
    fn leave_open(&mut self, handoff: &Handoff, attempted: Attempted) {
        let done = &handoff.task_completed;
        if attempted == Attempted::Passed && done.fully_complete {
            // What it has not done it says again below.
            self.open.retain(|open| open.business_of.as_ref() != Some(&done.task_id));
        }
        let faults = handoff.bugs_encountered.iter().filter(|bug| !bug.resolved);
        let faults = faults.map(|bug| (&bug.description, None));
        let urgent = handoff.unfinished_business.iter().filter(|it| it.priority == Priority::High);
        let urgent = urgent.map(|it| (&it.item, Some(&done.task_id)));
        for (text, task) in faults.chain(urgent) {
            let issue = clip(text);
            if issue.is_empty() {
                continue;
            }
            self.mended.retain(|mended| !says(mended, &issue));
            if self.open.iter().any(|known| says(&known.issue, &issue)) {
                continue;
            }
            if self.open.len() >= MOST_FOUND {
                self.more_found += 1;
                continue;
            }
            self.open.push(Open { issue, business_of: task.cloned() });
        }
    }

    /// Makes lines of the oldest accounts, until the rest is small enough to be held.
    fn make_room(&mut self) {
        let mut left = WHOLE_BYTES;
        for (place, account) in self.accounts.iter_mut().rev().enumerate() {
            let size = account.handoff.as_deref().map_or(0, size);
            match left.checked_sub(size) {
                Some(rest) if place < WHOLE => left = rest,
                // What is older than one that does not fit is not held either.
                Some(_) | None => (left, account.handoff) = (0, None),
            }
        }
        let surplus = self.accounts.len().saturating_sub(MOST_ACCOUNTS);
        self.accounts.drain(..surplus);
        self.more_accounts =
            self.more_accounts.saturating_add(u32::try_from(surplus).unwrap_or(u32::MAX));
    }

    /// Takes in a compaction that succeeded: what it took in is in the memory now.
    pub(crate) fn compacted(&mut self, iteration: IterationNumber, next: Option<&TaskId>) {
        let mut documented = std::mem::take(&mut self.documented);
        documented.extend(next.cloned());
        *self = Self {
            last: Some(iteration),
            compactions: self.compactions + 1,
            documented,
            ..Self::default()
        };
    }

    /// Takes in a compaction that failed: it is tried again when it is due anew, with all that has
    /// gathered by then.
    pub(crate) fn failed(&mut self, trigger: Trigger, next: Option<&TaskId>) {
        self.compactions += 1;
        match trigger {
            Trigger::Documentation => self.documented.extend(next.cloned()),
            Trigger::Size => self.handoff_bytes = 0,
            Trigger::Periodic => self.coding_iterations = 0,
        }
    }
}

/// Returns how large the file of a handoff is.
fn size(handoff: &Handoff) -> u64 {
    serde_json::to_vec_pretty(handoff).map_or(0, |text| text.len() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::handoff::read;

    fn handoff(more: &Value) -> Handoff {
        let mut value = json!({"task_completed":
            {"task_id": "T", "summary": "Did it. And more.", "fully_complete": true}});
        for (key, entry) in more.as_object().into_iter().flatten() {
            value[key] = entry.clone();
        }
        read::read([value], "", &TaskId("T".into()), &[])
    }

    fn code(since: &mut Since, iteration: u32, handoff: &Handoff) {
        since.coded(IterationNumber(iteration), Some(handoff), Attempted::Passed);
    }

    fn found(constraint: &str) -> Value {
        json!({"constraints_discovered": [{"constraint": constraint, "impact": "slow"}]})
    }

    #[test]
    fn what_has_no_room_is_kept_as_a_line() {
        let mut since = Since::default();
        for iteration in 1..=200 {
            code(&mut since, iteration, &handoff(&json!({})));
        }
        assert_eq!((since.accounts.len(), since.more_accounts), (MOST_ACCOUNTS, 100));
        let whole = since.accounts.iter().filter(|account| account.handoff.is_some()).count();
        assert_eq!(whole, WHOLE);
        assert!(since.accounts[0].handoff.is_none(), "the oldest give way");
        assert_eq!(since.accounts[0].line, "[T] Did it. 0 files.");
        assert_eq!(since.coding_iterations, 200);
        // One enormous account pushes out itself and what is older, not what is younger.
        let huge = handoff(&json!({"recommendations": ["x".repeat(70_000)]}));
        code(&mut since, 201, &huge);
        code(&mut since, 202, &handoff(&json!({})));
        let whole: Vec<u32> = since
            .accounts
            .iter()
            .filter(|it| it.handoff.is_some())
            .map(|it| it.iteration.0)
            .collect();
        assert_eq!(whole, [202]);
        assert!(since.handoff_bytes > 70_000);
    }

    #[test]
    fn findings_outlive_the_accounts_they_came_in() {
        let mut since = Since::default();
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
        assert_eq!(since.found, [Found { constraint, entry }]);
        for count in 0..300 {
            let odd = handoff(&found(&format!("limit number {count} holds")));
            code(&mut since, 201, &odd);
        }
        assert_eq!((since.found.len(), since.more_found), (MOST_FOUND, 201));
    }

    #[test]
    fn work_that_is_not_accepted_neither_binds_nor_fixes() {
        let mut since = Since::default();
        let bug = |is_resolved: bool| json!({"description": "the cache is stale", "resolution": "x", "resolved": is_resolved});
        code(&mut since, 1, &handoff(&json!({"bugs_encountered": [bug(false)]})));
        let mut claims = found("Tokens live in cookies only");
        claims["bugs_encountered"] = json!([bug(true)]);
        since.coded(IterationNumber(2), Some(&handoff(&claims)), Attempted::Otherwise);
        assert_eq!((since.found.len(), open(&since)), (0, vec!["the cache is stale"]));
        assert_eq!(since.accounts.len(), 2, "the compactor still reads of it");
    }

    #[test]
    fn what_is_found_after_it_was_mended_is_back() {
        let bug = json!({"bugs_encountered": [
            {"description": "the cache is stale", "resolution": "x", "resolved": true},
            {"description": "open", "resolution": "", "resolved": false}]});
        let mut since = Since::default();
        code(&mut since, 1, &handoff(&bug));
        assert_eq!(since.mended, ["the cache is stale"]);
        assert_eq!(open(&since), ["open"]);
        code(&mut since, 2, &handoff(&found("The cache is stale.")));
        assert_eq!(since.mended, [] as [&str; 0]);
    }

    /// An account of work on a task that leaves a fault and some business.
    fn leaving(task: &str, is_complete: bool, fault: &str, business: &str) -> Handoff {
        let entry = |text: &str, priority: &str| json!({"item": text, "reason": "no time", "priority": priority});
        let mut handoff = handoff(&json!({
            "bugs_encountered": [{"description": fault, "resolution": "", "resolved": false}],
            "unfinished_business": [entry(business, "high"), entry("rename things", "low")]}));
        handoff.task_completed.task_id = TaskId(task.into());
        handoff.task_completed.fully_complete = is_complete;
        handoff
    }

    fn open(since: &Since) -> Vec<&str> {
        since.open.iter().map(|open| open.issue.as_str()).collect()
    }

    #[test]
    fn what_is_left_open_stays_until_it_is_mended_or_its_task_is_done() {
        let mut since = Since::default();
        code(&mut since, 1, &leaving("A", false, "the login test is flaky", "write the manual"));
        code(&mut since, 2, &leaving("A", false, "The login test is FLAKY.", "write the manual"));
        assert_eq!(open(&since), ["the login test is flaky", "write the manual"]);
        // Neither another task nor a claim that no check confirms settles business.
        let nothing = [("B", Attempted::Passed), ("A", Attempted::Otherwise)];
        for (task, attempted) in nothing {
            let done = leaving(task, true, "", "");
            since.coded(IterationNumber(3), Some(&done), attempted);
            assert_eq!(open(&since), ["the login test is flaky", "write the manual"]);
        }
        // What it still leaves it says again.
        let done = leaving("A", true, "", "print the manual");
        since.coded(IterationNumber(4), Some(&done), Attempted::Passed);
        assert_eq!(open(&since), ["the login test is flaky", "print the manual"]);
        let mended = json!({"bugs_encountered": [
            {"description": "login test is flaky", "resolution": "x", "resolved": true}]});
        code(&mut since, 5, &handoff(&mended));
        assert_eq!(open(&since), ["print the manual"]);
        // What is met again is back.
        code(&mut since, 6, &leaving("C", true, "the login test is flaky", ""));
        assert_eq!(open(&since), ["print the manual", "the login test is flaky"]);
        assert_eq!(since.mended, [] as [&str; 0]);
    }

    #[test]
    fn a_flood_of_issues_is_counted() {
        let mut since = Since::default();
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
    fn only_a_compaction_that_succeeds_takes_the_accounts() {
        let next = TaskId("N".into());
        let mut since = Since::default();
        since.coded(IterationNumber(1), None, Attempted::Otherwise);
        code(&mut since, 2, &handoff(&found("c")));
        let before = since.clone();
        for (trigger, expect) in [
            (Trigger::Periodic, Since { coding_iterations: 0, ..before.clone() }),
            (Trigger::Size, Since { handoff_bytes: 0, ..before.clone() }),
            (Trigger::Documentation, Since { documented: [next.clone()].into(), ..before.clone() }),
        ] {
            let mut since = before.clone();
            since.failed(trigger, Some(&next));
            assert_eq!(since, Since { compactions: 1, ..expect });
        }
        since.compacted(IterationNumber(3), Some(&next));
        let expect = Since {
            last: Some(IterationNumber(3)),
            compactions: 1,
            documented: [next].into(),
            ..Since::default()
        };
        assert_eq!(since, expect);
    }
}
