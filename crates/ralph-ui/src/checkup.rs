//! Prints the findings of `ralph doctor`.
//!
//! Not here: the checks themselves, and the same facts as JSON.

use std::io::Write;

use crate::page::Page;
use crate::safe;
use crate::style::{Mark, Paint, Style, Timestamps};
use crate::time::WallClock;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
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
    Doubtful,
    /// It does not work, but should.
    Bad,
    /// It is not installed, and not needed.
    Absent,
}

/// A detail line of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Text that may be wrapped.
    Words(String),
    /// Text to copy, never wrapped.
    Verbatim(String),
}

/// Writes findings under a heading. Ignores a closed pipe.
pub fn print(
    heading: &str,
    findings: &[Finding],
    style: &Style,
    clock: WallClock,
    out: impl Write,
) {
    let style = Style { timestamps: Timestamps::Hidden, ..style.clone() };
    let mut page = Page::new(out, style, clock);
    let title = page.style().paint(Paint::Strong, heading);
    page.line(&title);
    for finding in findings {
        let (mark, paint) = match finding.health {
            Health::Good => (Mark::Pass, Paint::Good),
            Health::Doubtful => (Mark::Warn, Paint::Warn),
            Health::Bad => (Mark::Fail, Paint::Bad),
            Health::Absent => (Mark::Step, Paint::Dim),
        };
        page.say(mark, paint, &safe::harmless(&finding.title));
        for detail in &finding.details {
            match detail {
                Detail::Words(text) => page.add(INDENT, Paint::None, &safe::harmless(text)),
                Detail::Verbatim(line) => {
                    let line = safe::harmless(line);
                    page.line(&format!("{:INDENT$}{line}", ""));
                }
            }
        }
        for hint in &finding.hints {
            page.add(INDENT, Paint::Act, &format!("hint: {}", safe::harmless(hint)));
        }
    }
    page.gap();
}

/// Indents details under the title, past the mark.
const INDENT: usize = 4;

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_core::units::Timestamp;

    use super::*;
    use crate::style::tests::pipe;
    use crate::style::{Choice, Wishes};

    #[test]
    fn findings_are_printed_with_their_hints() {
        let finding = |health, title: &str| Finding {
            health,
            title: title.into(),
            details: Vec::new(),
            hints: Vec::new(),
        };
        let findings = [
            Finding {
                details: vec![
                    Detail::Words("It can do this, that and many other things, so many that they take more than one line.".into()),
                    Detail::Verbatim("claude -p --output-format x --with many --other words --so many --that they --would wrap".into()),
                ],
                ..finding(Health::Good, "claude 2.1.325")
            },
            finding(Health::Doubtful, "git 1.0.0\u{1b}[2J"),
            Finding { hints: vec!["install it".into()], ..finding(Health::Bad, "codex is not there") },
            finding(Health::Absent, "gemini"),
        ];
        for (emoji, expect) in [
            (
                Choice::Always,
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
                Choice::Never,
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
            let style = Style::choose(&Wishes { emoji, ..Wishes::default() }, &pipe());
            let mut out = Vec::new();
            print("Agents", &findings, &style, WallClock::system(|| Timestamp(0)), &mut out);
            expect.assert_eq(&String::from_utf8(out).expect("text"));
        }
    }
}
