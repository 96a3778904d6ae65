//! One row of the table: a figure of ralph, its baseline, and its limits.
//!
//! Not here: measuring.

use std::fmt;
use std::time::Duration;

use ralph_testkit::measure::to_milliseconds;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Figure {
    Time(Duration),
    /// In bytes.
    Size(u64),
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// At most this many times the baseline.
    Times(f64),
    /// At most this.
    Below(Figure),
    /// At most this much more than the baseline.
    More(Duration),
    /// Between these two.
    Between(Figure, Figure),
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    what: String,
    found: Found,
}

#[derive(Debug)]
enum Found {
    Figures { ours: Figure, baseline: Option<(Figure, String)>, bars: Vec<Bar> },
    LeftOut(String),
}

/// The names of the columns.
const COLUMNS: [&str; 7] = ["what", "ralph", "baseline", "", "ratio", "bar", ""];

impl Row {
    /// Returns a figure with its baseline.
    pub(crate) fn compared(
        what: impl Into<String>,
        ours: Figure,
        (baseline, name): (Figure, &str),
        bars: impl Into<Vec<Bar>>,
    ) -> Self {
        let baseline = Some((baseline, name.to_owned()));
        Self { what: what.into(), found: Found::Figures { ours, baseline, bars: bars.into() } }
    }

    /// Returns a figure without a baseline.
    pub(crate) fn single(what: &str, ours: Figure, bars: impl Into<Vec<Bar>>) -> Self {
        let found = Found::Figures { ours, baseline: None, bars: bars.into() };
        Self { what: what.to_owned(), found }
    }

    /// Returns a row for what cannot be measured here.
    pub(crate) fn skipped(what: &str, why: impl Into<String>) -> Self {
        Self { what: what.to_owned(), found: Found::LeftOut(why.into()) }
    }

    fn cells(&self) -> [String; 7] {
        let what = self.what.clone();
        let none = String::new;
        match &self.found {
            Found::LeftOut(why) => {
                [what, none(), none(), none(), none(), none(), format!("LEFT OUT: {why}")]
            }
            Found::Figures { ours, baseline, bars } => {
                let compared_with = baseline.as_ref().map(|(figure, _)| *figure);
                let ratio = compared_with.map(|compared_with| ours.value() / compared_with.value());
                let is_held = bars.iter().all(|bar| bar.is_held(*ours, compared_with));
                let bar = bars.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                [
                    what,
                    ours.to_string(),
                    compared_with.map_or_else(none, |it| it.to_string()),
                    baseline.as_ref().map_or_else(none, |(_, name)| name.clone()),
                    ratio.map_or_else(none, shown_ratio),
                    bar,
                    match (bars.is_empty(), is_held) {
                        (true, _) => none(),
                        (false, true) => "held".to_owned(),
                        (false, false) => "**MISSED**".to_owned(),
                    },
                ]
            }
        }
    }

    /// Returns the row on one line, for progress output.
    pub(crate) fn line(&self) -> String {
        let cells = self.cells();
        let cells = cells.iter().filter(|cell| !cell.is_empty());
        cells.map(String::as_str).collect::<Vec<_>>().join(" | ")
    }
}

/// Returns a Markdown table with aligned columns.
pub(crate) fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 7]> = rows.iter().map(Row::cells).collect();
    let header = COLUMNS.map(str::to_owned);
    let mut widths = [3; COLUMNS.len()];
    for cells in cells.iter().chain([&header]) {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 7]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| {
            let room = width - cell.chars().count();
            format!(" {cell}{} |", " ".repeat(room))
        });
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths.map(|width| "-".repeat(width));
    [line(&header), line(&rule)].into_iter().chain(cells.iter().map(line)).collect()
}

impl Figure {
    fn value(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            Self::Size(bytes) => rough(bytes),
        }
    }
}

impl Bar {
    fn is_held(self, ours: Figure, compared_with: Option<Figure>) -> bool {
        match (self, compared_with) {
            (Self::Times(times), Some(compared_with)) => {
                ours.value() <= times * compared_with.value()
            }
            (Self::More(time), Some(compared_with)) => {
                ours.value() <= compared_with.value() + time.as_secs_f64()
            }
            (Self::Times(_) | Self::More(_), None) => unreachable!("a baseline for {self}"),
            (Self::Below(most), _) => ours.value() <= most.value(),
            (Self::Between(least, most), _) => {
                (least.value()..=most.value()).contains(&ours.value())
            }
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) if time.as_secs() >= 10 => write!(f, "{:.1} s", time.as_secs_f64()),
            Self::Time(time) if time.as_secs() >= 1 => write!(f, "{:.2} s", time.as_secs_f64()),
            Self::Time(time) if time.as_millis() >= 100 => {
                write!(f, "{:.0} ms", to_milliseconds(*time))
            }
            Self::Time(time) if time.as_millis() >= 10 => {
                write!(f, "{:.1} ms", to_milliseconds(*time))
            }
            Self::Time(time) => write!(f, "{:.2} ms", to_milliseconds(*time)),
            Self::Size(bytes) => write!(f, "{:.1} MB", rough(*bytes) / 1e6),
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |figure: &Figure| match figure {
            Figure::Time(time) if time.as_secs() > 0 => format!("{} s", time.as_secs()),
            Figure::Time(time) => format!("{} ms", time.as_millis()),
            Figure::Size(bytes) => format!("{} MB", bytes / 1_000_000),
        };
        match self {
            Self::Times(times) => write!(f, "≤ {} ×", (times * 1000.0).round() / 1000.0),
            Self::Below(most) => write!(f, "≤ {}", short(most)),
            Self::More(time) => write!(f, "≤ {} more", short(&Figure::Time(*time))),
            Self::Between(least, most) => write!(f, "{} to {}", short(least), short(most)),
        }
    }
}

fn shown_ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{ratio:.0}"),
        ratio if ratio < 0.1 => format!("{ratio:.3}"),
        ratio => format!("{ratio:.2}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the sixteenth digit does not matter")]
fn rough(number: u64) -> f64 {
    number as f64
}
