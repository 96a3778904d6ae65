//! Lines about control requests: the request, its result, and a pause.
//!
//! Not here: requests that are still pending, which `status` shows.

use std::io::Write;

use ralph_core::control::Wish;
use ralph_core::event::{Event, Purpose};
use ralph_core::run::RunState;
use ralph_core::units::Timestamp;

use crate::lines::words;
use crate::page::Page;
use crate::stream::plural;
use crate::style::{Mark, Motion, Paint};
use crate::time;

/// Prints an event caused by a control request.
pub(crate) fn tell<W: Write>(page: &mut Page<W>, event: &Event) {
    if let Some(line) = told(event) {
        let line = words(page, &line);
        page.say(Mark::Step, Paint::Act, &line);
    }
}

/// Returns the text for an event caused by a control request.
pub(crate) fn told(event: &Event) -> Option<String> {
    match event {
        Event::Wished { asked, refused } => {
            let by = asked.by.as_deref().unwrap_or("A user");
            let what = match &asked.wish {
                Wish::Note { text } => format!("{by} left a note for the next prompt: {text}"),
                request @ (Wish::Pause | Wish::GoOn | Wish::Stop | Wish::Skip { .. }) => {
                    format!("{by} asked to {}", request.words())
                }
            };
            Some(match refused {
                Some(why) => format!("{what}; rejected: {why}"),
                None => what,
            })
        }
        Event::Paused => Some("Paused; `ralph go` resumes, `ralph stop` stops".to_owned()),
        Event::TaskSkipped { task, branch, by: _, commit: _ } => {
            let place = branch.as_ref().map(|branch| format!("; its work is on {branch}"));
            Some(format!("Task {task} is skipped{}", place.unwrap_or_default()))
        }
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::TasksRead { .. }
        | Event::TasksWritten
        | Event::BaselineStarted { .. }
        | Event::BaselineChecked { .. }
        | Event::IterationStarted { .. }
        | Event::Checkpointed { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Waiting { .. }
        | Event::Observed { .. }
        | Event::PlanSeen { .. }
        | Event::Claimed { .. }
        | Event::GateChecked { .. }
        | Event::Judged { .. }
        | Event::Landed { .. }
        | Event::IterationEnded { .. }
        | Event::Warned { .. }
        | Event::RunEnded { .. } => None,
    }
}

/// Prints that notes were added to a prompt.
pub(crate) fn handed_over<W: Write>(page: &mut Page<W>, purpose: &Purpose, state: &RunState) {
    let notes = state.current.as_ref().map_or(0, |current| current.notes.len());
    if notes > 0 && *purpose == Purpose::Work {
        let text = format!("{notes} note{} added to the prompt", plural(notes));
        page.add(0, Paint::Dim, &text);
    }
}

/// Shows on a terminal how long the run has been paused.
pub(crate) fn still_paused<W: Write>(page: &mut Page<W>, since: Timestamp) {
    match page.style().motion {
        Motion::Appends => {}
        Motion::Rewrites => {
            let clock = page.clock();
            let now = (clock.now)();
            let at = clock.minutes(since, now);
            let long = time::countdown(now.since(since));
            page.pass(Mark::Busy, &format!("Paused since {at} ({long}); `ralph go` resumes"));
        }
    }
}
