//! The iterations: the chart, its table, and each attempt with its diff and failed gates,
//! collapsed.

use std::fmt::Write as _;

use ralph_core::report::Timeline;
use ralph_core::report::timeline::{
    FailedGate, IterationNote, IterationResult, IterationSpan, ResultTone,
};

use super::escaping::{escape_block, escape_line, render_code, render_time};
use super::sections::{render_omitted, render_section, render_table};
use super::{DiffReader, chart};
use crate::line_text::shorten_id;
use crate::time::WallClock;

/// Rows of each table of iterations.
const ROWS: usize = 50;

/// Attempts shown in full; a reader has no patience for more.
const MOST_ATTEMPTS: usize = 40;

/// A diff that is longer is read in an editor.
const LONGEST_DIFF: usize = 12_000;

/// Limit for all diffs and outputs of a page together, in characters: loads well on a phone.
const ALL_TEXT: usize = 600_000;

/// Returns the chart of all iterations, and a table of the last.
pub(super) fn render_timeline(timeline: &Timeline, clock: &WallClock) -> String {
    let notes = &timeline.iterations.latest;
    let first = notes.first().map(|note| note.iteration);
    let link = |span: &IterationSpan| match first {
        Some(first) if span.last >= first => format!("#i{}", span.first.max(first)),
        Some(_) | None => "#iterations".to_owned(),
    };
    let Some(drawn) = chart::draw_timeline(timeline, link) else { return String::new() };
    let head = [
        "Iteration",
        "Began",
        "Role",
        "Task",
        "Came to",
        "#Time",
        "#Cost",
        "#Tokens",
        "#Calls",
        "Commit",
    ];
    let mut pages = String::new();
    let rows: Vec<&IterationNote> = notes.iter().rev().collect();
    for (place, page) in rows.chunks(ROWS).enumerate() {
        let (newest, oldest) = (page.first(), page.last());
        let (Some(newest), Some(oldest)) = (newest, oldest) else { continue };
        let caption =
            format!("Iterations {} to {}, newest first", oldest.iteration, newest.iteration);
        let page: Vec<String> = page.iter().map(|note| render_row(note, clock)).collect();
        let _ = writeln!(
            pages,
            "<details id=\"iterations-{place}\"><summary>{caption}</summary>{}</details>",
            render_table(&caption, &head, &page)
        );
    }
    let missing = render_omitted(timeline.iterations.dropped_count(), "earlier iteration");
    render_section(
        "Iterations",
        &format!(
            "<p class=\"skip\"><a href=\"#iterations\">Skip the chart; the same as a table follows</a></p>\n\
             {drawn}<div id=\"iterations\" tabindex=\"-1\">{pages}{missing}</div>\n"
        ),
    )
}

fn render_row(note: &IterationNote, clock: &WallClock) -> String {
    format!(
        "<tr id=\"i{}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>\
         <td><span class=\"state {}\">{}</span></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
        note.iteration,
        note.iteration,
        render_time(clock, note.started),
        note.role,
        note.task.as_ref().map(|task| escape_line(&task.0)).unwrap_or_default(),
        choose_tone_class(note.result),
        note.result.label(),
        note.ran,
        note.cost.map(|cost| cost.to_string()).unwrap_or_default(),
        if note.tokens.0 == 0 { String::new() } else { note.tokens.to_string() },
        note.asks,
        note.commit.as_deref().map(|commit| render_code(&shorten_id(commit))).unwrap_or_default()
    )
}

fn choose_tone_class(came_to: IterationResult) -> &'static str {
    match came_to.tone() {
        ResultTone::Good => "good",
        ResultTone::Middling => "middling",
        ResultTone::Bad => "bad",
    }
}

/// Returns the last attempts, newest first, with their diffs and failures.
pub(super) fn render_attempts(timeline: &Timeline, diff: &mut DiffReader<'_>) -> String {
    let notes = &timeline.iterations;
    let mut room = ALL_TEXT;
    let mut body = String::new();
    for note in notes.latest.iter().rev().take(MOST_ATTEMPTS) {
        body.push_str(&render_attempt(note, diff, &mut room));
    }
    let missing = (notes.count as usize).saturating_sub(MOST_ATTEMPTS);
    body.push_str(&render_omitted(missing, "earlier attempt"));
    render_section("Attempts", &body)
}

fn render_attempt(note: &IterationNote, diff: &mut DiffReader<'_>, room: &mut usize) -> String {
    let mut inner = String::new();
    let summary = note.details.trim();
    if !summary.is_empty() && note.result != IterationResult::GatesFailed {
        let _ = write!(inner, "<p class=\"said\">{}</p>", take_text(summary, room));
    }
    for gate in &note.failed {
        inner.push_str(&render_failed_gate(gate, room));
    }
    match &note.change {
        None => {}
        Some(_) if *room == 0 => {
            inner.push_str("<p class=\"note\">The diff is not shown: the page is long enough.</p>");
        }
        Some((from, to)) => match diff(from, to) {
            Ok(patch) if patch.is_empty() => {
                inner.push_str("<p class=\"note\">No file differs.</p>");
            }
            Ok(patch) => inner.push_str(&render_diff(&patch, room)),
            Err(why) => {
                let _ = write!(
                    inner,
                    "<p class=\"note\">The diff is not available: {}</p>",
                    escape_line(&why)
                );
            }
        },
    }
    let task =
        note.task.as_ref().map(|task| format!(" {}", escape_line(&task.0))).unwrap_or_default();
    let head = format!(
        "<span class=\"number\">{}</span> {}{task} <span class=\"state {}\">{}</span> <span>{}</span>",
        note.iteration,
        note.role,
        choose_tone_class(note.result),
        note.result.label(),
        note.ran
    );
    if inner.is_empty() {
        return format!("<p class=\"attempt\">{head}</p>\n");
    }
    format!(
        "<details class=\"attempt\" id=\"attempt-{}\"><summary>{head}</summary>{inner}</details>\n",
        note.iteration
    )
}

fn render_failed_gate(gate: &FailedGate, room: &mut usize) -> String {
    let log = gate.log.as_deref().map(|log| format!(", all of it in {}", render_code(log)));
    let output = if gate.output.trim().is_empty() {
        String::new()
    } else {
        let name = format!("Output of {}", escape_line(&gate.name));
        format!(
            "<pre tabindex=\"0\" role=\"group\" aria-label=\"{name}\">{}</pre>",
            take_text(&gate.output, room)
        )
    };
    format!(
        "<h3>{} failed <span>exit code {}, {}{}</span></h3>{output}",
        render_code(&gate.name),
        gate.exit_code,
        gate.ran,
        log.unwrap_or_default()
    )
}

/// Returns a text cut to the remaining room of the page.
fn take_text(text: &str, room: &mut usize) -> String {
    let shown = escape_block(text, *room);
    *room = room.saturating_sub(text.chars().count());
    shown
}

/// Returns a patch with colored lines.
fn render_diff(patch: &str, room: &mut usize) -> String {
    let (mut html, mut open) = (String::new(), "");
    let shown = take_text(patch, &mut (*room).min(LONGEST_DIFF));
    *room = room.saturating_sub(patch.chars().count().min(LONGEST_DIFF));
    let (mut added, mut removed) = (0_usize, 0_usize);
    for line in shown.lines() {
        let class = match line.as_bytes() {
            [b'+', b'+', b'+', ..]
            | [b'-', b'-', b'-', ..]
            | [b'd', b'i', b'f', b'f', b' ', ..] => "file",
            [b'+', ..] => "add",
            [b'-', ..] => "del",
            [b'@', b'@', ..] => "hunk",
            _ => "",
        };
        added += usize::from(class == "add");
        removed += usize::from(class == "del");
        if class != open {
            html.push_str(if open.is_empty() { "" } else { "</span>" });
            if !class.is_empty() {
                let _ = write!(html, "<span class=\"{class}\">");
            }
            open = class;
        }
        html.push_str(line);
        html.push('\n');
    }
    html.push_str(if open.is_empty() { "" } else { "</span>" });
    format!(
        "<h3>Diff <span>+{added} −{removed}</span></h3><pre class=\"diff\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Diff\">{html}</pre>"
    )
}
