//! The page with the statistics of all runs: figures, a chart with a column for each run, tables.
//!
//! Not here: counting.

use maud::{Markup, html};
use ralph_core::reporting::report::timeline::ResultTone;
use ralph_core::reporting::stats::{ProjectStats, RunStats, StatsRow};
use ralph_model::ids::Role;

use super::chart::draw_bar;
use super::foreign_text::{clean_line, render_time};
use super::frame::render_plain_page;
use super::sections::render_table;
use crate::stats::describe_totals;
use crate::time::WallClock;

/// Columns of the chart; of more runs, the last ones are shown.
const MOST_COLUMNS: usize = 60;

/// The height of the chart in SVG units.
const HEIGHT: f64 = 100.0;

/// The figures of a run that has a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartedRun {
    /// The last part of its URL.
    pub key: String,
    pub stats: RunStats,
}

/// Returns the page for these runs, oldest first.
pub(crate) fn render_stats_page(runs: &[ChartedRun], clock: &WallClock) -> String {
    let sum = ProjectStats::from_runs(runs.iter().map(|run| run.stats.clone()));
    let body = html! {
        main #main {
            h1 { "Statistics" }
            @if let (Some(first), Some(last)) = (sum.first, sum.last) {
                p { "From " (render_time(clock, first)) " to " (render_time(clock, last)) ": " (describe_totals(&sum)) }
                (draw_runs(runs))
                (render_rows(&sum))
                (render_gate_runs(&sum))
                @if sum.waits > 0 {
                    p { "Waits for usage limits: " (sum.waits) ", " (sum.waited) }
                }
            } @else {
                p { "There is no run yet." }
            }
        }
    };
    render_plain_page("Statistics", "../", &body)
}

/// Draws a column for each run, as high as its landed tasks. An incomplete run is split in two, so
/// that it can be recognized without color.
fn draw_runs(runs: &[ChartedRun]) -> Markup {
    let shown = &runs[runs.len().saturating_sub(MOST_COLUMNS)..];
    let totals: Vec<_> =
        shown.iter().map(|run| ProjectStats::from_runs([run.stats.clone()]).total).collect();
    let most = totals.iter().map(|total| total.landed).max().unwrap_or_default().max(1);
    html! {
        figure.chart {
            div.lanes.rows-6 {
                div.roles aria-hidden="true" { span { (most) } span {} span { "0" } }
                div.columns {
                    @for (run, total) in shown.iter().zip(&totals) {
                        a href={ "../run/" (run.key) "/" } {
                            svg viewBox="0 0 1 100" preserveAspectRatio="none" aria-hidden="true" {
                                (draw_landed(f64::from(total.landed) / f64::from(most), run.stats.is_complete))
                            }
                            span.tip {
                                "Run " (clean_line(&run.stats.run.0)) "; " (total.landed) " landed; "
                                (total.attempts) " attempts; " (total.ran)
                                @if let Some(cost) = total.cost { "; " (cost) }
                            }
                        }
                    }
                }
            }
            figcaption {
                span { "Landed tasks of the last " (shown.len()) " runs" }
                span.legend { i.good {} "complete " i.bad {} "not complete" }
            }
        }
    }
}

/// Draws a share of the height. Nothing landed is a thin line.
fn draw_landed(share: f64, is_complete: bool) -> Markup {
    let high = (share * HEIGHT).max(2.0);
    let top = HEIGHT - high;
    let cells: Vec<(&str, f64, f64)> = if is_complete {
        vec![("good", top, high)]
    } else {
        vec![("bad", top, high * 0.42), ("bad", top + high * 0.58, high * 0.42)]
    };
    html! {
        @for (class, y, high) in cells {
            rect class=(class) x=".06" y=(format!("{y:.1}")) width=".88" height=(format!("{high:.1}")) {}
        }
    }
}

fn render_rows(sum: &ProjectStats) -> Markup {
    let row = |row: &StatsRow| {
        let figures = &row.figures;
        html! {
            tr {
                th scope="row" { (clean_line(&row.agent)) }
                td { @if row.model.is_empty() { "-" } @else { (clean_line(&row.model)) } }
                td { (row.role) }
                td.n { (figures.calls) }
                td.n { (figures.attempts) }
                td.n { (figures.landed) }
                td.n { @if row.role == Role::Review || figures.rejections > 0 { (figures.rejections) } @else { "-" } }
                td.n { (figures.ran) }
                td.n { @if let Some(cost) = figures.cost { (cost) } @else { "-" } }
            }
        }
    };
    let rows: Vec<Markup> = sum.rows.iter().map(row).collect();
    let columns = "Agent|Model|Role|#Calls|#Attempts|#Landed|#Rejected|#Time|#Cost";
    html! { h2 { "Agents" } (render_table("Figures by agent, model and role", columns, &rows)) }
}

fn render_gate_runs(sum: &ProjectStats) -> Markup {
    let rows: Vec<Markup> = sum
        .gates
        .iter()
        .map(|(name, gate)| {
            html! {
                tr {
                    th scope="row" { (clean_line(name)) }
                    td { (draw_bar(u64::from(gate.failed), u64::from(gate.runs), ResultTone::Bad)) }
                    td.n { (gate.failed) }
                    td.n { (gate.runs) }
                }
            }
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Gates" }
            (render_table("Failures by gate", "Gate|Share|#Failed|#Runs", &rows))
        }
    }
}
