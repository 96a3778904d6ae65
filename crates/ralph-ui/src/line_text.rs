//! Short texts that the lines about a run share: ids, foreign text, warnings.
//!
//! Not here: which lines are printed.

use std::io::Write;

use ralph_model::agent::{AgentChoice, AgentOrigin};
use ralph_model::ids::IterationNumber;
use ralph_model::run::RunState;

use crate::line_writer::LineWriter;
use crate::sanitize;
use crate::style::LineMark;

/// Limits foreign text within a line of ralph: enough to understand it, at most a few lines.
pub(crate) const FOREIGN_TEXT_CHARS: usize = 500;

/// The length of an abbreviated id in git.
const SHORT_ID: usize = 7;

/// Returns `Iteration 2/10`.
pub(crate) fn format_iteration(iteration: IterationNumber, state: &RunState) -> String {
    format!("Iteration {iteration}/{}", state.last_iteration())
}

pub(crate) fn print_warning<W: Write>(page: &mut LineWriter<W>, text: &str) {
    let text = shorten_text(page, text);
    page.write_marked(LineMark::Warn, &text);
}

/// Returns foreign text sanitized and shortened for use within a line.
pub(crate) fn shorten_text<W: Write>(page: &LineWriter<W>, text: &str) -> String {
    sanitize::sanitize_line(text, FOREIGN_TEXT_CHARS, page.style().format_mark(LineMark::More))
}

/// Returns the abbreviated form of an id.
pub(crate) fn shorten_id(id: &str) -> String {
    sanitize::sanitize_line(sanitize::cut_chars(id, SHORT_ID), SHORT_ID, "")
}

/// Returns the name of the agent with its model or command.
pub(crate) fn format_agent_name(agent: &AgentChoice) -> String {
    let detail = match agent.kind.origin() {
        AgentOrigin::Product => agent.model.clone(),
        AgentOrigin::Command | AgentOrigin::BuiltIn => {
            let model = agent.model.as_ref().map(|model| format!(", {model}"));
            Some(format!("{}{}", agent.command, model.unwrap_or_default()))
        }
    };
    let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{}{detail}", agent.kind.name())
}
