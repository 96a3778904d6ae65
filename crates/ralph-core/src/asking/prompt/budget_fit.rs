//! Cuts a prompt for work on a task to its budget.
//!
//! Protected parts are counted first; skills, handoffs and memory get the remaining space. Not
//! here: in which order sections are cut, which `context` decides.

use ralph_model::context::{SectionCost, SectionName};
use ralph_model::run::PromptSize;
use ralph_model::units::Tokens;

use super::role::{
    RenderedPrompt, RoleFrame, RolePrompt, TemplateValues, add_common_values, count_uses,
    render_role_prompt,
};
use super::task::TaskParts;
use crate::asking::context::{
    self, CutFrom, CutLabel, CutStep, FittedSection, PromptSection, SectionBlock, SectionPiece,
};
use crate::asking::handoff_levels as levels;

/// Each row of the cost table is rounded up to whole tokens; this is the most that adds up to.
const ROUNDING: u64 = 8;

/// The sections that may be cut, with the variables that hold them.
const CUTTABLE: [(SectionName, &str); 4] = [
    (SectionName::Skills, "SKILLS"),
    (SectionName::Memory, "MEMORY"),
    (SectionName::Previous, "HANDOFFS"),
    (SectionName::Earlier, "HANDOFFS"),
];

/// Text about failed attempts.
pub(super) struct FailureText {
    /// ralph's own record of the attempts, which counts against the budget.
    pub(super) record: String,
    /// What failed last, verbatim, and what to do about it. Does not count.
    pub(super) output: String,
}

/// Fills in the template of an attempt with as much as fits.
pub(super) fn render_within_budget(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &RoleFrame<'_>,
    mut values: TemplateValues,
    failure: &FailureText,
) -> RenderedPrompt {
    let texts = [&failure.output, &failure.record].map(String::as_str);
    values.insert("FAILURE", join_sections(texts.into_iter()));
    let base = render_role_prompt(prompt, frame, values.clone());
    let mut counted = values.clone();
    add_common_values(prompt, frame, &mut counted, &mut Vec::new());
    let taken = |names: &[&str]| -> usize {
        let chars = |name: &&str| counted.get(*name).map_or(0, |value| value.chars().count());
        names.iter().map(|name| chars(name) * count_uses(prompt, frame, name)).sum()
    };
    let failed = count_uses(prompt, frame, "FAILURE");
    let output = failure.output.chars().count() * failed;
    let record = failure.record.chars().count() * failed;
    let whole = base.text.chars().count();
    let room = parts.room;
    let fixed = (whole + room.reserved).saturating_sub(output);
    let budget = Tokens(room.plan.budget.0.saturating_sub(ROUNDING));
    let left = match room.size {
        PromptSize::Full => room.calibration.estimate_chars(budget).saturating_sub(fixed),
        PromptSize::Smallest => 0,
    };
    let fitted = context::fit_sections(build_sections(prompt, parts, frame, record), left);
    for (_, variable) in CUTTABLE {
        let texts = CUTTABLE.iter().filter(|(_, of)| *of == variable).filter_map(|(name, _)| {
            fitted.iter().find(|it| it.name == *name).map(|it| it.text.as_str())
        });
        values.insert(variable, join_sections(texts));
    }
    let task = taken(&["TASK", "FEEDBACK"]);
    let project = taken(&["PRD", "PROJECT_PROMPT", "PATTERNS"]);
    let rest = fixed.saturating_sub(task + project + record);
    let mut rendered = render_role_prompt(prompt, frame, values);
    rendered.budget =
        calculate_costs(parts, &fitted, |variable| count_uses(prompt, frame, variable));
    let mut charge = |name, chars| {
        context::add_section_cost(&mut rendered.budget, name, chars, room.calibration);
    };
    charge(SectionName::Task, task);
    charge(SectionName::Output, rest);
    charge(SectionName::Project, project);
    charge(SectionName::Previous, record);
    charge(SectionName::Failure, output);
    rendered
}

/// Returns the sections that may be cut and that the template uses.
fn build_sections(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &RoleFrame<'_>,
    record: usize,
) -> Vec<PromptSection> {
    let sections = [
        Some(build_skills_section(parts.skills)),
        parts.memory.map(|memory| {
            let cap = parts.room.calibration.estimate_chars(parts.room.plan.memory);
            context::build_memory_section(memory, cap)
        }),
        Some(PromptSection { taken: record, ..levels::build_previous_section(parts.handoffs) }),
        Some(levels::build_earlier_section(parts.handoffs)),
    ];
    let sections = sections.into_iter().flatten().map(|section| {
        let cap =
            parts.room.plan.cap(section.name).map(|cap| parts.room.calibration.estimate_chars(cap));
        let uses = count_uses(prompt, frame, find_variable(section.name));
        PromptSection { cap: cap.unwrap_or(usize::MAX), uses, ..section }
    });
    sections.filter(|section| section.uses > 0).collect()
}

fn find_variable(name: SectionName) -> &'static str {
    CUTTABLE.iter().find(|(cuttable, _)| *cuttable == name).map_or("", |(_, variable)| variable)
}

fn calculate_costs(
    parts: &TaskParts<'_>,
    fitted: &[FittedSection],
    uses: impl Fn(&str) -> usize,
) -> Vec<SectionCost> {
    let fitted = fitted.iter().filter(|it| !it.text.is_empty());
    fitted
        .map(|it| {
            let chars = it.text.chars().count() * uses(find_variable(it.name));
            let tokens = parts.room.calibration.estimate_tokens(chars);
            SectionCost { name: it.name, tokens, left_out: it.left_out.clone() }
        })
        .collect()
}

/// Returns the skills as a section. The first skill is cut line by line; the others are dropped
/// whole.
fn build_skills_section(skills: &[(String, String)]) -> PromptSection {
    let mut blocks = Vec::new();
    for (at, (name, text)) in skills.iter().enumerate() {
        let (text, heading) = (text.trim_end(), format!("## Skill: {name}"));
        blocks.push(if at == 0 {
            SectionBlock {
                heading,
                step: CutStep::FirstSkill,
                from: CutFrom::End,
                label: CutLabel::Counted(format!("lines of skill {name}")),
                pieces: text.lines().map(SectionPiece::new).collect(),
            }
        } else {
            SectionBlock {
                heading,
                step: CutStep::OtherSkills,
                from: CutFrom::End,
                label: CutLabel::Named("skill".to_owned()),
                pieces: vec![SectionPiece { name: name.clone(), text: text.to_owned() }],
            }
        });
    }
    let title = String::new();
    PromptSection { name: SectionName::Skills, title, cap: usize::MAX, taken: 0, uses: 1, blocks }
}

fn join_sections<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests;
