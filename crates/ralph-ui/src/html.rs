//! The report of a run as one self-contained HTML page: no network, no font, no script. `serve`
//! shows the same parts live.
//!
//! Agents and tools write the titles, outputs and diffs, so each goes through `sanitize` and is
//! escaped; limits keep the page small for any length of the run. Not here: counting, and git.

mod attempts;
mod chart;
mod escaping;
mod frame;
mod outcome;
mod sections;

use ralph_core::event::TreeId;
use ralph_core::report::{Summary, Timeline};

pub(crate) use escaping::escape_html;
pub use frame::{Controls, ListedRun, ListedRunState, render_document, render_list_page};
pub(crate) use frame::{LivePageData, SCRIPT, render_live_page, render_style};
pub use outcome::RunActivity;

use crate::time::WallClock;

/// Returns the diff between two trees, or why it is not available.
pub type DiffReader<'a> = dyn FnMut(&TreeId, &TreeId) -> Result<String, String> + 'a;

/// The input of a page.
pub struct PageInput<'a> {
    pub summary: &'a Summary,
    pub timeline: &'a Timeline,
    pub project: &'a str,
    pub status: RunActivity,
    pub clock: &'a WallClock,
    pub diff: &'a mut DiffReader<'a>,
}

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
    let outcome = outcome::render_heading(summary, facts.status, facts.project, clock);
    vec![
        PagePart { id: "outcome", html: outcome },
        PagePart { id: "needs-you", html: sections::render_needs_you(summary) },
        PagePart { id: "progress", html: sections::render_progress(timeline) },
        PagePart { id: "timeline", html: attempts::render_timeline(timeline, clock) },
        PagePart { id: "tasks", html: sections::render_tasks(summary) },
        PagePart { id: "costs", html: sections::render_roles(summary) },
        PagePart { id: "gates", html: sections::render_gates(summary) },
        PagePart { id: "reviews", html: sections::render_reviews(summary) },
        PagePart { id: "attempts", html: attempts::render_attempts(timeline, facts.diff) },
        PagePart { id: "history", html: sections::render_history(summary) },
        PagePart { id: "notes", html: sections::render_notes(summary) },
    ]
}

#[cfg(test)]
mod tests;
