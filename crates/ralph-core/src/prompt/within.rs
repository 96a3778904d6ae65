//! Cuts a prompt for work on a task to its budget.
//!
//! Protected parts are counted first; skills, handoffs and memory get the remaining space. Not
//! here: in which order sections are cut, which `context` decides.

use super::role::{Frame, Rendered, RolePrompt, Values, complete, render, uses};
use super::task::TaskParts;
use crate::context::{
    self, Block, CutFrom, Fitted, Label, Piece, Section, SectionCost, SectionName, Step,
};
use crate::handoff::levels;
use crate::run::PromptSize;
use crate::units::Tokens;

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
pub(super) struct Failure {
    /// ralph's own record of the attempts, which counts against the budget.
    pub(super) record: String,
    /// The output of the checks, verbatim, and what belongs to it. Does not count.
    pub(super) output: String,
}

/// Fills in the template of an attempt with as much as fits.
pub(super) fn render_within(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &Frame<'_>,
    mut values: Values,
    failure: &Failure,
) -> Rendered {
    let texts = [&failure.record, &failure.output].map(String::as_str);
    values.insert("FAILURE", joined(texts.into_iter()));
    let base = render(prompt, frame, values.clone());
    let mut counted = values.clone();
    complete(prompt, frame, &mut counted, &mut Vec::new());
    let taken = |names: &[&str]| -> usize {
        let chars = |name: &&str| counted.get(*name).map_or(0, |value| value.chars().count());
        names.iter().map(|name| chars(name) * uses(prompt, frame, name)).sum()
    };
    let failed = uses(prompt, frame, "FAILURE");
    let output = failure.output.chars().count() * failed;
    let record = failure.record.chars().count() * failed;
    let whole = base.text.chars().count();
    let room = parts.room;
    let fixed = (whole + room.reserved).saturating_sub(output);
    let budget = Tokens(room.plan.budget.0.saturating_sub(ROUNDING));
    let left = match room.size {
        PromptSize::Full => room.calibration.chars(budget).saturating_sub(fixed),
        PromptSize::Smallest => 0,
    };
    let fitted = context::fit(sections(prompt, parts, frame, record), left);
    for (_, variable) in CUTTABLE {
        let texts = CUTTABLE.iter().filter(|(_, of)| *of == variable).filter_map(|(name, _)| {
            fitted.iter().find(|it| it.name == *name).map(|it| it.text.as_str())
        });
        values.insert(variable, joined(texts));
    }
    let task = taken(&["TASK", "FEEDBACK"]);
    let project = taken(&["PRD", "PROJECT_PROMPT", "PATTERNS"]);
    let rest = fixed.saturating_sub(task + project + record);
    let mut rendered = render(prompt, frame, values);
    rendered.budget = costs(parts, &fitted, |variable| uses(prompt, frame, variable));
    let mut charge = |name, chars| {
        context::charge(&mut rendered.budget, name, chars, room.calibration);
    };
    charge(SectionName::Task, task);
    charge(SectionName::Output, rest);
    charge(SectionName::Project, project);
    charge(SectionName::Previous, record);
    charge(SectionName::Failure, output);
    rendered
}

/// Returns the sections that may be cut and that the template uses.
fn sections(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &Frame<'_>,
    record: usize,
) -> Vec<Section> {
    let sections = [
        Some(skills(parts.skills)),
        parts.memory.map(|memory| {
            let cap = parts.room.calibration.chars(parts.room.plan.memory);
            context::memory_section(memory, cap)
        }),
        Some(Section { taken: record, ..levels::previous_section(parts.handoffs) }),
        Some(levels::earlier_section(parts.handoffs)),
    ];
    let sections = sections.into_iter().flatten().map(|section| {
        let cap = parts.room.plan.cap(section.name).map(|cap| parts.room.calibration.chars(cap));
        let uses = uses(prompt, frame, variable_of(section.name));
        Section { cap: cap.unwrap_or(usize::MAX), uses, ..section }
    });
    sections.filter(|section| section.uses > 0).collect()
}

fn variable_of(name: SectionName) -> &'static str {
    CUTTABLE.iter().find(|(cuttable, _)| *cuttable == name).map_or("", |(_, variable)| variable)
}

fn costs(
    parts: &TaskParts<'_>,
    fitted: &[Fitted],
    uses: impl Fn(&str) -> usize,
) -> Vec<SectionCost> {
    let fitted = fitted.iter().filter(|it| !it.text.is_empty());
    fitted
        .map(|it| {
            let chars = it.text.chars().count() * uses(variable_of(it.name));
            let tokens = parts.room.calibration.tokens(chars);
            SectionCost { name: it.name, tokens, left_out: it.left_out.clone() }
        })
        .collect()
}

/// Returns the skills as a section. The first skill is cut line by line; the others are dropped
/// whole.
fn skills(skills: &[(String, String)]) -> Section {
    let mut blocks = Vec::new();
    for (at, (name, text)) in skills.iter().enumerate() {
        let (text, heading) = (text.trim_end(), format!("## Skill: {name}"));
        blocks.push(if at == 0 {
            Block {
                heading,
                step: Step::FirstSkill,
                from: CutFrom::End,
                label: Label::Counted(format!("lines of skill {name}")),
                pieces: text.lines().map(Piece::new).collect(),
            }
        } else {
            Block {
                heading,
                step: Step::OtherSkills,
                from: CutFrom::End,
                label: Label::Named("skill".to_owned()),
                pieces: vec![Piece { name: name.clone(), text: text.to_owned() }],
            }
        });
    }
    let title = String::new();
    Section { name: SectionName::Skills, title, cap: usize::MAX, taken: 0, uses: 1, blocks }
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests;
