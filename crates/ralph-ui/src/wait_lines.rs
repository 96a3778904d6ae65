//! Lines and countdowns for waits of a run, and for gates that run long.
//!
//! Not here: pauses that a user requested, see `control_lines`.

use std::io::Write;

use ralph_model::event::WaitReason;
use ralph_model::gate::Gate;
use ralph_model::phase::Iteration;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};

use crate::line_text::shorten_text;
use crate::line_writer::LineWriter;
use crate::style::LineMark;
use crate::time;

/// Keeps a wait of five hours to thirty lines in a log.
const WAIT_LINE_EVERY: Millis = Millis::from_mins(10);

/// Prints that a wait begins.
pub(crate) fn print_wait_start<W: Write>(
    page: &mut LineWriter<W>,
    until: Timestamp,
    reason: WaitReason,
    now: Timestamp,
    state: &RunState,
) {
    let at = page.clock().format_minutes(until, now);
    let left = until.elapsed_since(now);
    match reason {
        WaitReason::UsageLimit => page.write_marked(
            LineMark::Limit,
            &format!("Usage limit: waiting until {at} (in {left}); this counts against no limit"),
        ),
        WaitReason::Retry => {
            let asking = state.current.as_ref().and_then(Iteration::open_call);
            let count = asking.map_or(1, |asking| asking.failures);
            let why = asking
                .and_then(|asking| asking.last_failure.as_ref())
                .map(|failure| format!(", because of: {}", failure.class.name()))
                .unwrap_or_default();
            let max = state.recipe.retries.max;
            let text = format!("Retry {count} of {max} in {left}{why}");
            page.write_marked(LineMark::Again, &text);
        }
        WaitReason::Delay => {
            page.write_marked(LineMark::Busy, &format!("Pausing {left} before the next iteration"));
        }
    }
}

/// Shows a live countdown on a terminal; elsewhere prints a line every ten minutes.
pub(crate) fn show_countdown<W: Write>(
    page: &mut LineWriter<W>,
    announced: &mut Option<Millis>,
    until: Timestamp,
    reason: WaitReason,
    left: Millis,
) {
    let label = match reason {
        WaitReason::UsageLimit => "Usage limit",
        WaitReason::Retry => "Retry",
        WaitReason::Delay => "Pause",
    };
    let clock = page.clock();
    let at = clock.format_minutes(until, (clock.now)());
    if page.style().rewrites {
        let text = format!("{label}: resumes at {at}, in {}", time::format_countdown(left));
        page.write_temporary(LineMark::Busy, &text);
        return;
    }
    let before = *announced.get_or_insert(left);
    if before.0.saturating_sub(left.0) >= WAIT_LINE_EVERY.0 {
        *announced = Some(left);
        let text = format!("{label}: still waiting, resumes at {at} (in {left})");
        page.write_marked(LineMark::Busy, &text);
    }
}

/// Returns the line for a gate that is running.
pub(crate) fn format_running_gate<W: Write>(page: &LineWriter<W>, gate: &Gate) -> String {
    let name = shorten_text(page, &gate.name);
    if gate.name == gate.check.label() {
        format!("Gate {name}: running")
    } else {
        format!("Gate {name}: running {}", shorten_text(page, gate.check.label()))
    }
}

/// Shows on a terminal how long a gate has been running, with a spinner.
pub(crate) fn show_running_gate<W: Write>(page: &mut LineWriter<W>, gate: &Gate, ran: Millis) {
    const SPINNER: [&str; 4] = ["|", "/", "-", "\\"];
    if page.style().rewrites {
        let seconds = ran.0 / 1000;
        let spinner = SPINNER[usize::try_from(seconds % 4).unwrap_or(0)];
        let long = time::format_countdown(Millis(seconds * 1000));
        // The time comes first, so that cutting a long command does not cut the time.
        let text = format!("{spinner} {long} {}", format_running_gate(page, gate));
        page.write_temporary(LineMark::Busy, &text);
    }
}
