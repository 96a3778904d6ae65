//! The account of a run as one page that needs nothing but a browser: no network, no font, no
//! script. `serve` shows the same parts live.
//!
//! Titles, outputs and diffs were written by agents and tools, so each goes through `safe` and is
//! escaped; bounds keep the page small however long the run was. Not here: counting, and git.

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

/// Gives the difference between two trees, or says why it cannot be had.
pub type Diff<'a> = dyn FnMut(&TreeId, &TreeId) -> Result<String, String> + 'a;

/// What a page is made from.
pub struct Facts<'a> {
    /// What the run came to.
    pub summary: &'a Summary,
    /// Its iterations.
    pub timeline: &'a Timeline,
    /// The name of the project.
    pub project: &'a str,
    /// Whether the run is going on.
    pub standing: Standing,
    /// The time for people.
    pub clock: &'a WallClock,
    /// Asks git.
    pub diff: &'a mut Diff<'a>,
}

/// A part of a page, which can be replaced by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its id in the page.
    pub id: &'static str,
    /// Its content; empty where there is nothing to say.
    pub html: String,
}

/// Returns the parts of a page, in their order.
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
