//! The report of a run as one self-contained HTML page: no network, no font, no script. `serve`
//! shows the same parts live.
//!
//! Agents and tools write the titles, outputs and diffs, so each goes through `sanitize`, and `maud`
//! escapes it; limits keep the page small for any length of the run. Not here: counting, and git.

mod attempts;
mod chart;
mod foreign_text;
mod frame;
mod outcome;
mod sections;
mod stats;
mod workers;

use std::collections::BTreeMap;

use ralph_core::reporting::current_action::CurrentAction;
use ralph_core::reporting::report::{Summary, Timeline};
use ralph_model::ids::WorkerId;
use ralph_model::worktree::TreeId;

pub use frame::{Controls, ListedRun, ListedRunState, render_document, render_list_page};
pub(crate) use frame::{LivePageData, SCRIPT, render_live_page, render_style};
pub use outcome::RunActivity;
pub use stats::ChartedRun;
pub(crate) use stats::render_stats_page;

use crate::time::WallClock;

/// Returns the diff between two trees, or why it is not available.
pub type DiffReader<'a> = dyn FnMut(&TreeId, &TreeId) -> Result<String, String> + 'a;

/// The input of a page.
pub struct PageInput<'a> {
    pub summary: &'a Summary,
    pub timeline: &'a Timeline,
    pub project: &'a str,
    pub status: RunActivity,
    pub live: LiveFacts<'a>,
    pub workers: &'a WorkerKeys,
    pub clock: &'a WallClock,
    pub diff: &'a mut DiffReader<'a>,
}

/// What is shown of an active run that is not in its journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveFacts<'a> {
    /// What the run is doing right now.
    pub action: Option<&'a CurrentAction>,
    /// The last lines of the agent's stream.
    pub stream: &'a str,
}

/// The keys of the pages of workers that have one.
pub type WorkerKeys = BTreeMap<WorkerId, String>;

/// A part of a page, which can be replaced separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePart {
    /// The id of the HTML element.
    pub id: &'static str,
    /// Empty if there is nothing to show.
    pub html: String,
}

/// Returns the parts of a page, in order.
pub fn render_parts(facts: &mut PageInput<'_>) -> Vec<PagePart> {
    let (summary, timeline, clock) = (facts.summary, facts.timeline, facts.clock);
    let parts = [
        ("outcome", outcome::render_heading(summary, facts.status, facts.project, clock)),
        ("now", outcome::render_action(facts.live.action, clock)),
        ("stream", outcome::render_stream(facts.live.stream)),
        ("needs-you", sections::render_needs_you(summary)),
        ("progress", sections::render_progress(timeline)),
        ("timeline", attempts::render_timeline(timeline, clock)),
        ("tasks", sections::render_tasks(summary)),
        ("workers", workers::render_workers(summary, facts.status, facts.workers, clock)),
        ("left-open", sections::render_left_open(summary)),
        ("costs", sections::render_roles(summary)),
        ("gates", sections::render_gates(summary)),
        ("reviews", sections::render_reviews(summary)),
        ("attempts", attempts::render_attempts(timeline, facts.diff)),
        ("history", sections::render_history(summary)),
        ("notes", sections::render_notes(summary)),
    ];
    parts.into_iter().map(|(id, html)| PagePart { id, html: html.into_string() }).collect()
}

#[cfg(test)]
mod tests;
