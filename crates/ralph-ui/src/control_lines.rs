//! Lines about control requests: the request, its result, and a pause.
//!
//! Not here: requests that are still pending, which `status` shows.

use std::io::Write;

use ralph_model::control::ControlRequest;
use ralph_model::event::{Event, Purpose};
use ralph_model::run::RunState;
use ralph_model::text::choose_plural;
use ralph_model::units::Timestamp;

use crate::line_text::shorten_text;
use crate::line_writer::LineWriter;
use crate::style::{LineMark, Paint};
use crate::time;

/// Prints an event caused by a control request.
pub(crate) fn print_control_event<W: Write>(page: &mut LineWriter<W>, event: &Event) {
    if let Some(line) = format_control_event(event) {
        let line = shorten_text(page, &line);
        page.write_marked(LineMark::Step, &line);
    }
}

/// Returns the text for an event caused by a control request.
pub(crate) fn format_control_event(event: &Event) -> Option<String> {
    match event {
        Event::ControlRequested { asked, refused } => {
            let by = asked.by.as_deref().unwrap_or("A user");
            let what = match &asked.request {
                ControlRequest::Note { text } => {
                    format!("{by} left a note for the next prompt: {text}")
                }
                ControlRequest::TaskNote { task, text } => {
                    format!("{by} left a note for the next prompt of {task}: {text}")
                }
                request => format!("{by} asked to {}", request.describe()),
            };
            Some(match refused {
                Some(why) => format!("{what}; rejected: {why}"),
                None => what,
            })
        }
        Event::Paused => Some("Paused; `ralph resume` resumes, `ralph stop` stops".to_owned()),
        Event::TaskSkipped { task, branch, by: _, commit: _ } => {
            let place = branch.as_ref().map(|branch| format!("; its work is on {branch}"));
            Some(format!("Task {task} is skipped{}", place.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Prints that notes were added to a prompt.
pub(crate) fn print_added_notes<W: Write>(
    page: &mut LineWriter<W>,
    purpose: &Purpose,
    state: &RunState,
) {
    let notes = state.current.as_ref().map_or(0, |current| current.notes.len());
    if notes > 0 && *purpose == Purpose::Work {
        let text = format!("{notes} note{} added to the prompt", choose_plural(notes));
        page.write_indented(0, Paint::Dim, &text);
    }
}

/// Shows on a terminal how long the run has been paused.
pub(crate) fn show_pause<W: Write>(page: &mut LineWriter<W>, since: Timestamp) {
    if page.style().rewrites {
        let clock = page.clock();
        let now = (clock.now)();
        let at = clock.format_minutes(since, now);
        let long = time::format_countdown(now.elapsed_since(since));
        let text = format!("Paused since {at} ({long}); `ralph resume` resumes");
        page.write_temporary(LineMark::Busy, &text);
    }
}
