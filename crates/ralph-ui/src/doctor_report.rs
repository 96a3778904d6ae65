//! Prints the findings of `ralph doctor`.
//!
//! Not here: the checks themselves, and the same facts as JSON.

use std::io::Write;

use crate::line_writer::LineWriter;
use crate::sanitize;
use crate::style::{LineMark, Paint, Style};
use crate::time::WallClock;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorFinding {
    pub health: Health,
    /// One line.
    pub title: String,
    pub details: Vec<Detail>,
    pub hints: Vec<String>,
}

/// The state of a checked thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Good,
    /// It works, with a warning.
    Warning,
    /// It does not work, but should.
    Bad,
    /// It is not installed, and not needed.
    Absent,
}

/// A detail line of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Text that may be wrapped.
    Text(String),
    /// Text to copy, never wrapped.
    Verbatim(String),
}

/// Writes findings under a heading. Ignores a closed pipe.
pub fn print_findings(
    heading: &str,
    findings: &[DoctorFinding],
    style: &Style,
    clock: WallClock,
    out: impl Write,
) {
    let style = Style { timestamps: false, ..style.clone() };
    let mut page = LineWriter::new(out, style, clock);
    let title = page.style().paint(Paint::Strong, heading);
    page.write_line(&title);
    for finding in findings {
        let mark = match finding.health {
            Health::Good => LineMark::Pass,
            Health::Warning => LineMark::Warn,
            Health::Bad => LineMark::Fail,
            Health::Absent => LineMark::Absent,
        };
        page.write_marked(mark, &sanitize::sanitize_text(&finding.title));
        for detail in &finding.details {
            match detail {
                Detail::Text(text) => {
                    page.write_indented(INDENT, Paint::None, &sanitize::sanitize_text(text));
                }
                Detail::Verbatim(line) => {
                    let line = sanitize::sanitize_text(line);
                    page.write_line(&format!("{:INDENT$}{line}", ""));
                }
            }
        }
        for hint in &finding.hints {
            page.write_indented(
                INDENT,
                Paint::Act,
                &format!("hint: {}", sanitize::sanitize_text(hint)),
            );
        }
    }
    page.write_blank_line();
}

/// Indents details under the title, past the mark.
const INDENT: usize = 4;

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_model::units::Timestamp;

    use super::*;
    use crate::style::tests::pipe;
    use crate::style::{StyleChoice, StylePreferences};

    #[test]
    fn findings_are_printed_with_their_hints() {
        let finding = |health, title: &str| DoctorFinding {
            health,
            title: title.into(),
            details: Vec::new(),
            hints: Vec::new(),
        };
        let findings = [
            DoctorFinding {
                details: vec![
                    Detail::Text("It can do this, that and many other things, so many that they take more than one line.".into()),
                    Detail::Verbatim("claude -p --output-format x --with many --other words --so many --that they --would wrap".into()),
                ],
                ..finding(Health::Good, "claude 2.1.325")
            },
            finding(Health::Warning, "git 1.0.0\u{1b}[2J"),
            DoctorFinding { hints: vec!["install it".into()], ..finding(Health::Bad, "codex is not there") },
            finding(Health::Absent, "gemini"),
        ];
        for (emoji, expect) in [
            (
                StyleChoice::Always,
                expect![[r#"
            Agents
            ✔ claude 2.1.325
                It can do this, that and many other things, so many that they take more than
                one line.
                claude -p --output-format x --with many --other words --so many --that they --would wrap
            ⚠ git 1.0.0
            ✘ codex is not there
                hint: install it
            ● gemini

        "#]],
            ),
            (
                StyleChoice::Never,
                expect![[r#"
            Agents
            [OK] claude 2.1.325
                It can do this, that and many other things, so many that they take more than
                one line.
                claude -p --output-format x --with many --other words --so many --that they --would wrap
            [WARN] git 1.0.0
            [ERR] codex is not there
                hint: install it
            [--] gemini

        "#]],
            ),
        ] {
            let style = Style::choose_style(
                &StylePreferences { emoji, ..StylePreferences::default() },
                &pipe(),
            );
            let mut out = Vec::new();
            print_findings(
                "Agents",
                &findings,
                &style,
                WallClock { zone: jiff::tz::TimeZone::UTC, now: || Timestamp(0) },
                &mut out,
            );
            expect.assert_eq(&String::from_utf8(out).expect("text"));
        }
    }
}
