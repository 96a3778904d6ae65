//! The progress of the agent's plan, and its next items.
//!
//! Not here: whether the project uses a plan, and reading the file.

use ralph_core::tasks::checklist::{Checklist, Item};
use ralph_model::plan::Counts;
use ralph_model::text::choose_plural;

use crate::sanitize;
use crate::style::{Paint, Style};

/// Leaves room on a screen for the rest of the status.
const SHOWN: usize = 10;

/// About two lines of a terminal.
const LONGEST: usize = 200;

/// The state of the plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanFileState {
    Missing,
    /// The file exists; it may be empty.
    There {
        text: String,
        /// Whether only its beginning was read, because it is too long.
        is_cut: bool,
    },
    /// The file exists but cannot be read.
    Unreadable {
        why: String,
    },
}

/// Returns the progress of a plan and its open items.
pub fn format_plan(file: &str, state: &PlanFileState, style: &Style) -> String {
    let file = sanitize::sanitize_line(file, LONGEST, "…");
    let (text, is_cut) = match state {
        PlanFileState::Missing => return "Plan       none yet: `ralph plan` makes it\n".to_owned(),
        PlanFileState::Unreadable { why } => {
            let why = sanitize::sanitize_line(why, LONGEST, "…");
            return format!("Plan       {file} cannot be read: {why}\n");
        }
        PlanFileState::There { text, .. } if text.trim().is_empty() => {
            return format!("Plan       {file} is empty: `ralph plan` creates it again\n");
        }
        PlanFileState::There { text, is_cut } => (text, *is_cut),
    };
    let list = Checklist::read(text);
    let counts = list.counts();
    let Counts { open, done, .. } = counts;
    let within = if is_cut { ", its beginning" } else { "" };
    let total = counts.total();
    if total == 0 {
        return format!("Plan       no check boxes in {file}{within}\n");
    }
    let items = choose_plural(total as usize);
    let person = counts.describe_person_items().map(|it| format!(", {it}")).unwrap_or_default();
    let mut shown =
        format!("Plan       {done} of {total} item{items} done{person} ({file}{within})\n");
    for item in list_person_items(&list) {
        shown.push_str(&format!("  {}\n", style.paint(Paint::Warn, &format!("[?] {item}"))));
    }
    let next = list_next_items(&list);
    for item in &next {
        shown.push_str(&format!("  [ ] {item}\n"));
    }
    let more = (open as usize).saturating_sub(next.len());
    if more > 0 {
        shown.push_str(&format!("  {}\n", style.paint(Paint::Dim, &format!("and {more} more"))));
    }
    shown
}

impl PlanFileState {
    /// Returns the same as JSON; null if there is no plan.
    pub fn to_json(&self, file: &str) -> serde_json::Value {
        let (text, problem) = match self {
            Self::Missing => return serde_json::Value::Null,
            Self::There { text, .. } => (text.as_str(), None),
            Self::Unreadable { why } => ("", Some(sanitize::sanitize_line(why, LONGEST, "…"))),
        };
        let list = Checklist::read(text);
        let Counts { open, done, person } = list.counts();
        serde_json::json!({
            "file": sanitize::sanitize_line(file, LONGEST, "…"),
            "open": open,
            "done": done,
            "next": list_next_items(&list),
            "problem": problem,
            "person": person,
            "needsPerson": list_person_items(&list),
        })
    }
}

/// Returns the first open items as sanitized lines.
fn list_next_items(list: &Checklist) -> Vec<String> {
    list.open().take(SHOWN).map(format_item).collect()
}

/// Returns the first items that only a person can do as sanitized lines.
fn list_person_items(list: &Checklist) -> Vec<String> {
    list.person().take(SHOWN).map(format_item).collect()
}

fn format_item(item: &Item) -> String {
    sanitize::sanitize_line(&item.text, LONGEST, "…")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::style::{StreamEnvironment, StylePreferences};

    fn style() -> Style {
        Style::choose_style(&StylePreferences::default(), &StreamEnvironment::default())
    }

    #[track_caller]
    fn check(state: &PlanFileState, expect: &Expect) {
        expect.assert_eq(&format_plan(".ralph/plan.md", state, &style()));
    }

    fn there(text: &str) -> PlanFileState {
        PlanFileState::There { text: text.to_owned(), is_cut: false }
    }

    #[test]
    fn a_plan_shows_what_is_open() {
        let text = "# Plan\n- [x] Read the header\n- [ ] Read the body\n  - [ ] In pieces\n";
        check(
            &there(text),
            &expect![[r"
                Plan       1 of 3 items done (.ralph/plan.md)
                  [ ] Read the body
                  [ ] In pieces
            "]],
        );
        check(
            &there("- [x] All\n- [?] Choose the license: a decision\n"),
            &expect![[r"
                Plan       1 of 2 items done, 1 item needs a person (.ralph/plan.md)
                  [?] Choose the license: a decision
            "]],
        );
        check(
            &there("- [x] All"),
            &expect![[r"
                Plan       1 of 1 item done (.ralph/plan.md)
            "]],
        );
        let text = "- [ ] a\n".repeat(12);
        let state = PlanFileState::There { text, is_cut: true };
        check(
            &state,
            &expect![[r"
                Plan       0 of 12 items done (.ralph/plan.md, its beginning)
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  [ ] a
                  and 2 more
            "]],
        );
    }

    #[test]
    fn an_unusable_plan_is_reported() {
        check(
            &PlanFileState::Missing,
            &expect![[r"
                Plan       none yet: `ralph plan` makes it
            "]],
        );
        check(
            &there("\n \n"),
            &expect![[r"
                Plan       .ralph/plan.md is empty: `ralph plan` creates it again
            "]],
        );
        check(
            &there("All is well."),
            &expect![[r"
                Plan       no check boxes in .ralph/plan.md
            "]],
        );
        check(
            &PlanFileState::Unreadable { why: "it is a directory".to_owned() },
            &expect![[r"
                Plan       .ralph/plan.md cannot be read: it is a directory
            "]],
        );
    }

    #[test]
    fn the_text_of_an_agent_is_sanitized() {
        let text = format!("- [ ] \x1b[2Jclean\u{202e} slate\x07\n- [ ] {}\n", "long ".repeat(99));
        let shown = format_plan("a\nb", &there(&text), &style());
        assert!(!shown.contains(['\x1b', '\u{202e}', '\x07']), "{shown}");
        assert!(shown.contains("  [ ] [2Jclean slate\n"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 210), "{shown}");
        let facts = there(&text).to_json("a\nb").to_string();
        assert!(facts.contains(r#""next":["[2Jclean slate","long"#), "{facts}");
    }

    #[test]
    fn json_has_the_same_facts() {
        let facts = there("- [x] a\n- [ ] b\n- [ ] c\n").to_json(".ralph/plan.md");
        expect![[r#"{"file":".ralph/plan.md","open":2,"done":1,"next":["b","c"],"problem":null,"person":0,"needsPerson":[]}"#]]
            .assert_eq(&facts.to_string());
        assert_eq!(PlanFileState::Missing.to_json("x"), serde_json::Value::Null);
        let broken = PlanFileState::Unreadable { why: "it is a directory".to_owned() };
        expect![[r#"{"file":"x","open":0,"done":0,"next":[],"problem":"it is a directory","person":0,"needsPerson":[]}"#]]
            .assert_eq(&broken.to_json("x").to_string());
    }
}
