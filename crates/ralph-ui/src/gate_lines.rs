//! The lines about gates: their start, result and output.
//!
//! Not here: the baseline (`task_lines`).

use std::io::Write;

use ralph_core::checking::stuck::skip_script_header;
use ralph_model::child::ChildEnd;
use ralph_model::gate::{FailAction, Gate, GateResult, GateStatus, Severity};
use ralph_model::recipe::Recipe;
use ralph_model::refusal::Refusal;
use ralph_model::run::RunState;
use ralph_model::text::Truncate;

use crate::line_text::{print_warning, shorten_text};
use crate::line_writer::LineWriter;
use crate::style::{LineMark, Paint};
use crate::{sanitize, stream, wait_lines};

/// So many names of failing tests fit on a line or two of a terminal.
const SHOWN_NAMES: usize = 3;

pub(crate) fn print_gate_start<W: Write>(page: &mut LineWriter<W>, gate: &Gate) {
    let text = wait_lines::format_running_gate(page, gate);
    if page.style().rewrites {
        page.write_temporary(LineMark::Busy, &text);
    } else {
        page.write_marked(LineMark::Busy, &text);
    }
}

pub(crate) fn print_gate_result<W: Write>(
    page: &mut LineWriter<W>,
    result: &GateResult,
    state: &RunState,
) {
    let recipe = &state.recipe;
    let gate = shorten_text(page, &result.gate);
    let mut ending = match &result.end {
        Some(end) if result.is_verdict => format!(" ({})", end.ran),
        Some(end) => format!(", {} ({})", end.ending, end.ran),
        None => String::new(),
    };
    if let Some(reason) = &result.reason {
        ending.push_str(&format!("; {}", shorten_text(page, reason)));
    }
    match (result.status, result.severity) {
        (GateStatus::Passed, _) => {
            page.write_marked(LineMark::Pass, &format!("Gate {gate}: passed{ending}"));
        }
        (GateStatus::Cached, _) => page.write_marked(
            LineMark::Pass,
            &format!("Gate {gate}: cached, it passed before on the same tree"),
        ),
        (GateStatus::Failed, Severity::Hard) => {
            let used = recipe.find_gate(&result.gate);
            // The usual action needs no word: a line below says that the next prompt has the output.
            let action = used
                .filter(|gate| gate.fail_action != FailAction::Append)
                .map(|gate| describe_action(gate.fail_action))
                .unwrap_or_default();
            page.write_marked(LineMark::Fail, &format!("Gate {gate}: failed{ending}{action}"));
            print_gate_output(page, result, recipe);
        }
        (GateStatus::Failed, Severity::Soft) => {
            let text = format!("Gate {gate}: failed{ending}; soft, so the work may be kept");
            page.write_marked(LineMark::Warn, &text);
            print_gate_output(page, result, recipe);
        }
    }
    let numbers = result.tests.and_then(|_| state.test_numbers.get(&result.gate));
    if let (Some(fall), GateStatus::Passed) =
        (numbers.and_then(|numbers| numbers.describe_fall()), result.status)
    {
        print_warning(page, &format!("gate {gate}: {fall}"));
    }
    if let Some(end) = &result.end {
        warn_about_child(page, end, &format!("gate {gate}"));
    }
}

/// Returns what happens with the output of a gate that failed.
fn describe_action(action: FailAction) -> &'static str {
    match action {
        FailAction::Append => "; sent to the next agent",
        FailAction::Prepend => "; sent to the next agent, before the prompt",
        FailAction::Replace => "; sent to the next agent, instead of the prompt",
    }
}

/// Prints what ralph refused, and why.
pub(crate) fn print_refusal<W: Write>(page: &mut LineWriter<W>, refusal: &Refusal) {
    page.write_marked(LineMark::Fail, &format!("Refused: {}", refusal.kind));
    let output = sanitize::sanitize_text(&refusal.output);
    for line in stream::take_excerpt(page.style(), &output) {
        page.write_line(&line);
    }
}

/// Prints why a gate failed: the failing tests, and the part of its output that its `truncate`
/// setting keeps.
pub(crate) fn print_gate_output<W: Write>(
    page: &mut LineWriter<W>,
    result: &GateResult,
    recipe: &Recipe,
) {
    if let Some(sign) = &result.sandbox {
        for text in [sign.reason.clone()].into_iter().chain(sign.list_remedies()) {
            let text = shorten_text(page, &text);
            page.write_indented(2, Paint::Warn, &format!("sandbox: {text}"));
        }
    }
    if !result.failing.is_empty() {
        let names = shorten_text(page, &format_test_names(&result.failing));
        page.write_indented(2, Paint::None, &format!("failing: {names}"));
    }
    let output = sanitize::sanitize_text(skip_script_header(&result.output));
    let gate = recipe.find_gate(&result.gate);
    let lines = match gate.map(|gate| gate.truncate) {
        Some(Truncate::Tail | Truncate::Both) => stream::take_excerpt_end(page.style(), &output),
        Some(Truncate::Head) | None => stream::take_excerpt(page.style(), &output),
    };
    for line in lines {
        page.write_line(&line);
    }
    if let Some(log) = &result.log {
        let log = shorten_text(page, log);
        page.write_indented(2, Paint::None, &format!("output: {log}"));
    }
}

fn format_test_names(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Warns about processes or pipes that a child left behind.
pub(crate) fn warn_about_child<W: Write>(page: &mut LineWriter<W>, end: &ChildEnd, who: &str) {
    match end.leftovers.processes {
        0 => {}
        1 => print_warning(page, &format!("ended 1 process that {who} left behind")),
        count => print_warning(page, &format!("ended {count} processes that {who} left behind")),
    }
    if end.leftovers.held_pipe {
        print_warning(
            page,
            &format!(
                "a process that {who} started kept its output open; ralph did not wait for it"
            ),
        );
    }
}
