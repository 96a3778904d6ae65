//! What a look at the machine found, as a list of findings for people.
//!
//! Not here: looking at anything, and the same facts as JSON.

use std::io::Write;

use crate::page::Page;
use crate::safe;
use crate::style::{Mark, Paint, Style, Timestamps};
use crate::time::WallClock;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it is.
    pub health: Health,
    /// What it is, in a line.
    pub title: String,
    /// More about it.
    pub details: Vec<Detail>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It works.
    Good,
    /// It works, and there is something to know.
    Doubtful,
    /// It does not work, and should.
    Bad,
    /// It is not there, and need not be.
    Absent,
}

/// A line about a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Words that may be wrapped.
    Words(String),
    /// Something to copy, which stays in one line.
    Verbatim(String),
}

/// Writes findings under a heading. A reader that has gone away is no error.
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
                Detail::Words(words) => page.add(INDENT, Paint::None, &safe::harmless(words)),
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

/// Details stand under the title, clear of the mark.
const INDENT: usize = 4;

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_core::units::Timestamp;

    use super::*;
    use crate::style::tests::pipe;
    use crate::style::{Choice, Wishes};

    #[test]
    fn findings_are_told_with_what_to_do_about_them() {
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
