//! A Markdown plan with check boxes: each top-level item becomes a task.
//!
//! Boxes within an item are its acceptance criteria; other lines within it are its description.
//! Assigns no ids.

use ralph_model::text;

use crate::tasks::checklist::Mark;

/// A longer list is not a plan.
const MOST_ITEMS: usize = 500;

/// A title is one line.
const LONGEST_TITLE: usize = 200;

/// One item of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixPlanItem {
    pub title: String,
    /// The headings above it except the first of the document, then the lines within it.
    pub description: String,
    /// The boxes within it; never empty.
    pub criteria: Vec<String>,
    pub mark: Mark,
}

/// Parses a plan. If it has no boxes, every top-level bullet is an open item.
pub fn parse_fix_plan(plan: &str) -> Vec<FixPlanItem> {
    let lines = parse_lines(plan);
    let has_boxes =
        lines.iter().any(|line| matches!(line, FixPlanLine::Bullet { mark: Some(_), .. }));
    let mut items: Vec<FixPlanItem> = Vec::new();
    let mut heading = String::new();
    let mut top = None;
    for line in lines {
        match line {
            FixPlanLine::Heading(text) => {
                heading = text;
                top = None;
            }
            FixPlanLine::Bullet { indent, mark, text } => {
                let is_within = top.is_some_and(|top| indent > top);
                let is_item = !is_within && (mark.is_some() || !has_boxes);
                if is_item && items.len() < MOST_ITEMS {
                    top = Some(indent);
                    items.push(FixPlanItem {
                        title: text::join_to_line(&text, LONGEST_TITLE),
                        description: heading.clone(),
                        criteria: Vec::new(),
                        mark: mark.unwrap_or(Mark::Open),
                    });
                    continue;
                }
                match items.last_mut().filter(|_| is_within) {
                    Some(item) if mark.is_some() => item.criteria.push(text),
                    Some(item) => add_line(&mut item.description, &text),
                    None => top = None,
                }
            }
            FixPlanLine::Text { indent, text } => match items.last_mut() {
                Some(item) if top.is_some_and(|top| indent > top) => {
                    add_line(&mut item.description, &text);
                }
                Some(_) | None => top = None,
            },
        }
    }
    for item in &mut items {
        if item.description.is_empty() {
            item.description.clone_from(&item.title);
        }
        if item.criteria.is_empty() {
            item.criteria.push(item.title.clone());
        }
    }
    items
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// A line of a plan with content.
enum FixPlanLine {
    Heading(String),
    Bullet { indent: usize, mark: Option<Mark>, text: String },
    Text { indent: usize, text: String },
}

fn parse_lines(plan: &str) -> Vec<FixPlanLine> {
    let mut lines = Vec::new();
    let mut is_code = false;
    let mut is_first_heading = true;
    for line in plan.trim_start_matches('\u{feff}').lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let text = text.trim_end();
        if text.starts_with("```") || text.starts_with("~~~") {
            is_code = !is_code;
        } else if text.is_empty() || is_code {
        } else if indent == 0 && text.starts_with('#') {
            let heading = text.trim_start_matches('#').trim();
            // The first one is the name of the document.
            let heading = if is_first_heading { "" } else { heading };
            is_first_heading = false;
            lines.push(FixPlanLine::Heading(heading.to_owned()));
        } else {
            lines.push(match parse_bullet(text) {
                Some((mark, text)) => FixPlanLine::Bullet { indent, mark, text },
                None => FixPlanLine::Text { indent, text: text.to_owned() },
            });
        }
    }
    lines
}

/// Returns the box and the text of a list item.
fn parse_bullet(line: &str) -> Option<(Option<Mark>, String)> {
    let digits = line.len() - line.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let rest = match &line[digits..] {
        rest if digits > 0 => rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))?,
        rest => ["- ", "* ", "+ "].iter().find_map(|it| rest.strip_prefix(it))?,
    };
    let rest = rest.trim_start();
    let boxed = [("[ ]", Mark::Open), ("[x]", Mark::Done), ("[X]", Mark::Done)];
    let found = boxed.iter().find_map(|(sign, mark)| Some((*mark, rest.strip_prefix(sign)?)));
    let (mark, text) = found.map_or((None, rest), |(mark, text)| (Some(mark), text.trim()));
    let text = strip_bold(text);
    // A task needs a title; control characters alone are not one.
    let has_text = text.chars().any(|it| !it.is_whitespace() && !it.is_control());
    has_text.then_some((mark, text))
}

/// Returns the text of an item without bold markup.
fn strip_bold(text: &str) -> String {
    text.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(title: &str, description: &str, criteria: &[&str], mark: Mark) -> FixPlanItem {
        let criteria = criteria.iter().map(|it| (*it).to_owned()).collect();
        FixPlanItem { title: title.into(), description: description.into(), criteria, mark }
    }

    #[track_caller]
    fn check(plan: &str, expect: &[FixPlanItem]) {
        assert_eq!(parse_fix_plan(plan), expect, "{plan}");
    }

    #[test]
    fn items_have_headings_criteria_and_descriptions() {
        let plan = "# Fix plan\n\n## High Priority\n- [ ] **Parse** dates\n  - [ ] ISO dates\n  - [x] Years\n  Not times.\n- [x] Set up\n\n## Notes\n- Remember this\n\n```\n- [ ] code\n```\n";
        check(
            plan,
            &[
                item(
                    "Parse dates",
                    "High Priority\nNot times.",
                    &["ISO dates", "Years"],
                    Mark::Open,
                ),
                item("Set up", "High Priority", &["Set up"], Mark::Done),
            ],
        );
    }

    #[test]
    fn bullets_count_if_there_are_no_boxes() {
        check(
            "- one\n  - detail\n1. two\n",
            &[
                item("one", "detail", &["one"], Mark::Open),
                item("two", "two", &["two"], Mark::Open),
            ],
        );
        check("No list at all.\n", &[]);
        check("- [ ]\n- \n", &[]);
        check("- [ ] ****\n- [ ] ** **\n- [x] \u{1}\n", &[]);
    }

    #[test]
    fn a_plan_of_any_size_is_read() {
        let plan = "- [ ] x\n".repeat(MOST_ITEMS + 10);
        assert_eq!(parse_fix_plan(&plan).len(), MOST_ITEMS);
        let long = parse_fix_plan(&format!("- [ ] {}", "ä".repeat(5000)));
        assert!(long[0].title.chars().count() <= LONGEST_TITLE + 1);
    }
}
