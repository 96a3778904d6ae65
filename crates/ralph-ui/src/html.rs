//! The report of a run as one self-contained HTML page: no network, no font, no script. `serve`
//! shows the same parts live.
//!
//! Agents and tools write the titles, outputs and diffs, so each goes through `sanitize` and is
//! escaped; limits keep the page small for any length of the run. Not here: counting, and git.

mod attempts;
mod chart;
mod frame;
mod outcome;
mod sections;
mod words;

use ralph_core::event::TreeId;
use ralph_core::report::{Summary, Timeline};

pub use frame::{Controls, Listed, ListedState, document, list_page};
pub(crate) use frame::{Live, SCRIPT, live_page, style};
pub use outcome::Standing;
pub(crate) use words::escape;

use crate::time::WallClock;

/// Returns the diff between two trees, or why it is not available.
pub type Diff<'a> = dyn FnMut(&TreeId, &TreeId) -> Result<String, String> + 'a;

/// The input of a page.
pub struct Facts<'a> {
    pub summary: &'a Summary,
    pub timeline: &'a Timeline,
    pub project: &'a str,
    pub standing: Standing,
    pub clock: &'a WallClock,
    pub diff: &'a mut Diff<'a>,
}

/// A part of a page, which can be replaced separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The id of the HTML element.
    pub id: &'static str,
    /// Empty if there is nothing to show.
    pub html: String,
}

/// Returns the parts of a page, in order.
pub fn parts(facts: &mut Facts<'_>) -> Vec<Part> {
    let (summary, timeline, clock) = (facts.summary, facts.timeline, facts.clock);
    let outcome = outcome::heading(summary, facts.standing, facts.project, clock);
    vec![
        Part { id: "outcome", html: outcome },
        Part { id: "needs-you", html: sections::needs_you(summary) },
        Part { id: "progress", html: sections::progress(timeline) },
        Part { id: "timeline", html: attempts::timeline(timeline, clock) },
        Part { id: "tasks", html: sections::tasks(summary) },
        Part { id: "costs", html: sections::roles(summary) },
        Part { id: "gates", html: sections::gates(summary) },
        Part { id: "reviews", html: sections::reviews(summary) },
        Part { id: "attempts", html: attempts::attempts(timeline, facts.diff) },
        Part { id: "history", html: sections::history(summary) },
        Part { id: "notes", html: sections::notes(summary) },
    ]
}

#[cfg(test)]
mod tests;
