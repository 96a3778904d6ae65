//! The iterations: the chart, its table, and each attempt with its diff and failed gates,
//! collapsed.

use maud::{Markup, html};
use ralph_core::reporting::report::Timeline;
use ralph_core::reporting::report::timeline::{
    FailedGate, IterationNote, IterationResult, IterationSpan, ResultTone,
};

use super::foreign_text::{clean_block, clean_line, render_code, render_time};
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
pub(super) fn render_timeline(timeline: &Timeline, clock: &WallClock) -> Markup {
    let notes = &timeline.iterations.latest;
    let first = notes.first().map(|note| note.iteration);
    let link = |span: &IterationSpan| match first {
        Some(first) if span.last >= first => format!("#i{}", span.first.max(first)),
        Some(_) | None => "#iterations".to_owned(),
    };
    let Some(drawn) = chart::draw_timeline(timeline, link) else { return Markup::default() };
    let head = "Iteration|Began|Role|Task|Came to|#Time|#Cost|#Tokens|#Calls|Commit";
    let rows: Vec<&IterationNote> = notes.iter().rev().collect();
    let pages = rows.chunks(ROWS).map(|page| {
        let (newest, oldest) = (page[0].iteration, page[page.len() - 1].iteration);
        let rows: Vec<Markup> = page.iter().map(|note| render_row(note, clock)).collect();
        (format!("Iterations {oldest} to {newest}, newest first"), rows)
    });
    let body = html! {
        p.skip { a href="#iterations" { "Skip the chart; the same as a table follows" } }
        (drawn)
        div #iterations tabindex="-1" {
            @for (place, (caption, rows)) in pages.enumerate() {
                details id={ "iterations-" (place) } {
                    summary { (caption) }
                    (render_table(&caption, head, &rows))
                }
            }
            (render_omitted(timeline.iterations.dropped_count(), "earlier iteration"))
        }
    };
    render_section("Iterations", &body)
}

fn render_row(note: &IterationNote, clock: &WallClock) -> Markup {
    html! {
        tr id={ "i" (note.iteration) } {
            th scope="row" { (note.iteration) }
            td { (render_time(clock, note.started)) }
            td { (note.role) }
            td { @if let Some(task) = &note.task { (clean_line(&task.0)) } }
            td { (render_result(note.result)) }
            td.n { (note.ran) }
            td.n { @if let Some(cost) = note.cost { (cost) } }
            td.n { @if note.tokens.0 > 0 { (note.tokens) } }
            td.n { (note.asks) }
            td { @if let Some(commit) = &note.commit { (render_code(&shorten_id(commit))) } }
        }
    }
}

fn render_result(result: IterationResult) -> Markup {
    let class = match result.tone() {
        ResultTone::Good => "good",
        ResultTone::Middling => "middling",
        ResultTone::Bad => "bad",
    };
    html! { span class={ "state " (class) } { (result.label()) } }
}

/// Returns the last attempts, newest first, with their diffs and failures.
pub(super) fn render_attempts(timeline: &Timeline, diff: &mut DiffReader<'_>) -> Markup {
    let notes = &timeline.iterations;
    let mut room = ALL_TEXT;
    let missing = (notes.count as usize).saturating_sub(MOST_ATTEMPTS);
    let body = html! {
        @for note in notes.latest.iter().rev().take(MOST_ATTEMPTS) {
            (render_attempt(note, diff, &mut room))
        }
        (render_omitted(missing, "earlier attempt"))
    };
    render_section("Attempts", &body)
}

fn render_attempt(note: &IterationNote, diff: &mut DiffReader<'_>, room: &mut usize) -> Markup {
    let summary = note.details.trim();
    let inner = html! {
        @if !summary.is_empty() && note.result != IterationResult::GatesFailed {
            p.said { (take_text(summary, room)) }
        }
        @for gate in &note.failed {
            (render_failed_gate(gate, room))
        }
        @match &note.change {
            None => {}
            Some(_) if *room == 0 => {
                p.note { "The diff is not shown: the page is long enough." }
            }
            Some((from, to)) => @match diff(from, to) {
                Ok(patch) if patch.is_empty() => { p.note { "No file differs." } }
                Ok(patch) => { (render_diff(&patch, room)) }
                Err(why) => { p.note { "The diff is not available: " (clean_line(&why)) } }
            }
        }
    };
    let head = html! {
        span.number { (note.iteration) } " " (note.role)
        @if let Some(task) = &note.task { " " (clean_line(&task.0)) }
        " " (render_result(note.result)) " " span { (note.ran) }
    };
    html! {
        @if inner.0.is_empty() {
            p.attempt { (head) }
        } @else {
            details.attempt id={ "attempt-" (note.iteration) } { summary { (head) } (inner) }
        }
    }
}

fn render_failed_gate(gate: &FailedGate, room: &mut usize) -> Markup {
    html! {
        h3 {
            (render_code(&gate.name)) " failed "
            span {
                @if let Some(code) = gate.exit_code { "exit code " (code) ", " }
                (gate.ran)
                @if let Some(log) = &gate.log { ", all of it in " (render_code(log)) }
            }
        }
        @if !gate.output.trim().is_empty() {
            pre tabindex="0" role="group" aria-label={ "Output of " (clean_line(&gate.name)) } {
                (take_text(&gate.output, room))
            }
        }
    }
}

/// Returns a text cut to the remaining room of the page.
fn take_text(text: &str, room: &mut usize) -> String {
    let shown = clean_block(text, *room);
    *room = room.saturating_sub(text.chars().count());
    shown
}

/// Returns a patch with colored lines.
fn render_diff(patch: &str, room: &mut usize) -> Markup {
    let shown = take_text(patch, &mut (*room).min(LONGEST_DIFF));
    *room = room.saturating_sub(patch.chars().count().min(LONGEST_DIFF));
    // Neighboring lines of a class, each with its line break, share an element.
    let mut runs: Vec<(&str, String)> = Vec::new();
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
        if runs.last().is_none_or(|(open, _)| *open != class) {
            runs.push((class, String::new()));
        }
        if let Some((_, text)) = runs.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    html! {
        h3 { "Diff " span { "+" (added) " −" (removed) } }
        pre.diff tabindex="0" role="group" aria-label="Diff" {
            @for (class, text) in &runs {
                @if class.is_empty() { (text) } @else { span class=(class) { (text) } }
            }
        }
    }
}
