//! A table of what each section of a prompt costs in tokens.
//!
//! Not here: deciding what is cut.

use ralph_model::context::{ContextPlan, SectionCost};
use ralph_model::units::Tokens;

use crate::sanitize;

/// Limits the list of dropped items next to the figures.
const LONGEST: usize = 200;

/// Returns the lines of the table without line breaks: one for each section and one for the total.
pub fn format_table(costs: &[SectionCost], plan: &ContextPlan) -> Vec<String> {
    let mut lines = vec![format_row("section", "tokens", "of", "")];
    for cost in costs {
        let limit = plan.cap(cost.name).map(|cap| cap.0.to_string());
        let remark = match cost.left_out.as_slice() {
            [] if !cost.name.is_counted() => "not counted".to_owned(),
            [] => String::new(),
            left_out => format!("dropped: {}", left_out.join("; ")),
        };
        let tokens = cost.tokens.0.to_string();
        lines.push(format_row(cost.name.name(), &tokens, &limit.unwrap_or_default(), &remark));
    }
    let Tokens(total) = SectionCost::sum_counted(costs);
    let remark = if total > plan.budget.0 { "over budget: the rest is never cut" } else { "" };
    lines.push(format_row("total", &total.to_string(), &plan.budget.0.to_string(), remark));
    lines
}

fn format_row(name: &str, tokens: &str, limit: &str, remark: &str) -> String {
    let remark = sanitize::sanitize_line(remark, LONGEST, "…");
    format!("{name:<9} {tokens:>7} {limit:>7}  {remark}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use ralph_model::context::SectionName;

    use super::*;

    #[test]
    fn the_table_shows_what_counts_and_what_was_dropped() {
        let cost = |name, tokens, left_out: &[&str]| SectionCost {
            name,
            tokens: Tokens(tokens),
            left_out: left_out.iter().map(|it| (*it).to_owned()).collect(),
        };
        let costs = [
            cost(SectionName::Task, 7_900, &[]),
            cost(SectionName::Output, 640, &[]),
            cost(SectionName::Memory, 2_950, &["library docs: serde\x1b[2J", "file knowledge (3)"]),
            cost(SectionName::Failure, 1_200, &[]),
        ];
        let table = |costs: &[SectionCost]| format_table(costs, &ContextPlan::default()).join("\n");
        expect_test::expect![[r#"
            section    tokens      of
            task         7900    1000
            output        640     500
            memory       2950    3000  dropped: library docs: serde; file knowledge (3)
            failure      1200          not counted
            total       11490    8000  over budget: the rest is never cut"#]]
        .assert_eq(&table(&costs));
        expect_test::expect![[r#"
            section    tokens      of
            output        640     500
            total         640    8000"#]]
        .assert_eq(&table(&costs[1..2]));
    }
}
