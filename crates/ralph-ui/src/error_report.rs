//! Prints the error that ends the program: what happened, its causes, and hints.
//!
//! Takes plain strings, so that every kind of error can be shown. Not here: the exit code.

use std::io::Write;

use crate::sanitize;
use crate::style::{Paint, Style};

/// An error that ends the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorReport {
    /// What happened, as a fragment or as whole sentences.
    pub message: String,
    /// From the nearest cause to the farthest.
    pub causes: Vec<String>,
    pub hints: Vec<String>,
}

impl ErrorReport {
    /// Returns a problem without causes and hints.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Returns an error with the chain of its causes.
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        let chain = std::iter::successors(error.source(), |cause| cause.source());
        Self { causes: chain.map(ToString::to_string).collect(), ..Self::new(error.to_string()) }
    }

    /// Returns the same problem with one more hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the problem as lines for people.
    pub fn render_lines(&self, style: &Style) -> String {
        let mut lines = Vec::new();
        let mut add = |lead: &str, paint: Paint, text: &str| {
            for (at, line) in sanitize::sanitize_text(text).trim_end().lines().enumerate() {
                lines.push(match at {
                    0 => format!("{} {line}\n", style.paint(paint, lead)),
                    _ => format!("  {line}\n"),
                });
            }
        };
        add("error:", Paint::Bad, &make_sentence(&self.message));
        for cause in &self.causes {
            add("  caused by:", Paint::Dim, cause);
        }
        for hint in self.hints.iter().filter(|hint| !hint.trim().is_empty()) {
            add("hint:", Paint::Act, hint);
        }
        lines.concat()
    }

    /// Writes the problem. Ignores write errors: there is no other place to report them.
    pub fn print(&self, style: &Style, out: &mut impl Write) {
        let _ = out.write_all(self.render_lines(style).as_bytes()).and_then(|()| out.flush());
    }
}

/// Returns a fragment as a sentence; whole sentences and lists are left alone.
fn make_sentence(message: &str) -> String {
    let message = message.trim();
    let mut characters = message.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let is_over = message.contains('\n') || message.ends_with(['.', '!', '?', ':']);
    let stop = if is_over || message.is_empty() { "" } else { "." };
    format!("{first}{}{stop}", characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::tests::{pipe, terminal};
    use crate::style::{StreamEnvironment, StylePreferences};
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(problem: &ErrorReport, around: &StreamEnvironment, expect: &Expect) {
        let style = Style::choose_style(&StylePreferences::default(), around);
        let mut out = Vec::new();
        problem.print(&style, &mut out);
        expect.assert_eq(&String::from_utf8(out).expect("text"));
    }

    #[test]
    fn a_problem_says_what_why_and_what_next() {
        let mut problem = ErrorReport::new("cannot read task file `plan.json`")
            .with_hint("run `ralph init` first")
            .with_hint("");
        problem.causes = vec!["line 3: unknown field\n`colour`".into(), "not\x1b[2J JSON".into()];
        check(
            &problem,
            &pipe(),
            &expect![[r#"
            error: Cannot read task file `plan.json`.
              caused by: line 3: unknown field
              `colour`
              caused by: not JSON
            hint: run `ralph init` first
        "#]],
        );
    }

    #[test]
    fn colors_stay_within_their_line() {
        let problem = ErrorReport::new("no").with_hint("yes");
        let style = Style::choose_style(&StylePreferences::default(), &terminal());
        expect![[r#""\u{1b}[31merror:\u{1b}[0m No.\n\u{1b}[36mhint:\u{1b}[0m yes\n""#]]
            .assert_eq(&format!("{:?}", problem.render_lines(&style)));
    }

    #[test]
    fn fixed_wording_is_kept_to_the_letter() {
        for (message, expect) in [
            ("Plan not found. Run 'ralph plan' first.", "Plan not found. Run 'ralph plan' first."),
            ("`x` is missing", "`x` is missing."),
            ("two mistakes:\n  one\n  two", "Two mistakes:\n  one\n  two"),
            ("", ""),
        ] {
            assert_eq!(make_sentence(message), expect);
        }
    }

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|inner| inner as _)
        }
    }

    #[test]
    fn the_chain_of_causes_is_followed() {
        let disk = Layer("disk full", None);
        let error = Layer("cannot start", Some(Box::new(Layer("no lock", Some(Box::new(disk))))));
        let expect = ErrorReport {
            message: "cannot start".into(),
            causes: vec!["no lock".into(), "disk full".into()],
            hints: Vec::new(),
        };
        assert_eq!(ErrorReport::from_error(&error), expect);
    }
}
