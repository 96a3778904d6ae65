//! How many reviews the tasks of a list took.

use std::collections::BTreeMap;

use ralph_model::task::TaskList;
use serde::Serialize;

/// Review statistics of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStats {
    /// How many tasks had how many reviews.
    pub tasks_by_count: BTreeMap<u32, u32>,
    /// How many tasks were approved at the cap.
    pub at_cap: u32,
    pub reading: ReviewAssessment,
}

/// Interpretation of the review statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAssessment {
    /// Most tasks passed their first review.
    Cheap,
    /// Many tasks took three reviews or more.
    CatchFaults,
    Mixed,
}

impl ReviewStats {
    /// Returns the review statistics of a list, if there were reviews.
    pub fn from_list(list: &TaskList) -> Option<Self> {
        let mut tasks_by_count: BTreeMap<u32, u32> = BTreeMap::new();
        for task in list.tasks.iter().filter(|task| task.review.count > 0) {
            *tasks_by_count.entry(task.review.count).or_default() += 1;
        }
        let reviewed: u32 = tasks_by_count.values().sum();
        if reviewed == 0 {
            return None;
        }
        let at_cap = list.tasks.iter().filter(|task| task.review.is_approved_at_cap()).count();
        let once = tasks_by_count.get(&1).copied().unwrap_or_default();
        let often: u32 = tasks_by_count.range(3..).map(|(_, tasks)| tasks).sum();
        // A third of the tasks counts as many, more than half as most.
        let reading = if once * 2 > reviewed {
            ReviewAssessment::Cheap
        } else if often * 3 >= reviewed {
            ReviewAssessment::CatchFaults
        } else {
            ReviewAssessment::Mixed
        };
        Some(Self { tasks_by_count, at_cap: u32::try_from(at_cap).unwrap_or(u32::MAX), reading })
    }
}
