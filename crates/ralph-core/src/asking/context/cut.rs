//! Cuts sections until they fit.
//!
//! A section consists of blocks, a block of pieces. All pieces that may be cut have one fixed
//! order, and the cut always takes a prefix of that order: a smaller budget never keeps what a
//! larger one cut. Every cut is noted in place. Not here: the text of the pieces.

use ralph_model::context::SectionName;
use ralph_model::text;

/// More names than these do not help an agent.
const MAX_NAMED: usize = 5;

/// A name only has to be recognizable.
const NAME_CHARS: usize = 40;

/// Characters around a section: the empty lines.
const SECTION_OVERHEAD: usize = 2;

/// Characters around a block: the empty line before it, and a fence that is closed.
const BLOCK_OVERHEAD: usize = 6;

/// Order in which pieces are cut, the first of these first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CutStep {
    /// A line about an earlier iteration.
    Earlier,
    /// Documentation looked up for a library.
    LibraryDocs,
    FileKnowledge,
    /// A skill beyond the first.
    OtherSkills,
    /// Completed work. From here on pieces are cut only if cutting all of the above is not
    /// enough.
    CompletedWork,
    Decisions,
    /// A detail of the previous iteration.
    Previous,
    /// A line of the first skill.
    FirstSkill,
    OpenIssues,
    /// A constraint: cut only to keep the limit of its own section, never for the budget.
    Constraints,
    Never,
}

/// Which pieces of a block are cut first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutFrom {
    Start,
    End,
}

/// How the cut pieces of a block are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CutLabel {
    /// By a name and a count, such as `file knowledge (3 of 8)`.
    Counted(String),
    /// By a name and the names of the pieces, such as `library docs: serde, clap`.
    Named(String),
}

/// The smallest unit that is kept or cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionPiece {
    /// Set if the block names its pieces.
    pub(crate) name: String,
    /// The text, without a line break at the end.
    pub(crate) text: String,
}

impl SectionPiece {
    /// Returns a piece without a name.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { name: String::new(), text: text.into() }
    }
}

/// Pieces of one kind under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionBlock {
    /// The line above the pieces, if any of them stays; may be empty.
    pub(crate) heading: String,
    pub(crate) step: CutStep,
    pub(crate) from: CutFrom,
    /// How cut pieces are named.
    pub(crate) label: CutLabel,
    /// In the order of the text.
    pub(crate) pieces: Vec<SectionPiece>,
}

/// A section that may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptSection {
    pub(crate) name: SectionName,
    /// The line above its blocks; may be empty.
    pub(crate) title: String,
    /// The section's own limit in characters.
    pub(crate) cap: usize,
    /// How many of these are taken by text outside the blocks.
    pub(crate) taken: usize,
    /// How often the template includes the section.
    pub(crate) uses: usize,
    /// In the order of the text.
    pub(crate) blocks: Vec<SectionBlock>,
}

/// A section that was cut to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FittedSection {
    pub(crate) name: SectionName,
    /// Empty if everything was cut.
    pub(crate) text: String,
    pub(crate) left_out: Vec<String>,
}

/// Cuts sections until each keeps its own limit and all of them fit into `room` characters. Skills,
/// which the task names, may exceed their limit by the room that the other sections leave.
///
/// If they do not fit even without everything that may be cut, returns them cut to the minimum.
pub(crate) fn fit_sections(sections: Vec<PromptSection>, room: usize) -> Vec<FittedSection> {
    let mut cuts: Vec<SectionCut> = sections.into_iter().map(SectionCut::new).collect();
    let (skills, others): (Vec<&mut SectionCut>, Vec<&mut SectionCut>) =
        cuts.iter_mut().partition(|cut| cut.section.name == SectionName::Skills);
    let mut used = 0;
    for cut in others {
        cut.cut_to_limit(cut.section.cap);
        used += cut.cost();
    }
    for cut in skills {
        let free = room.saturating_sub(used) / cut.section.uses.max(1);
        cut.cut_to_limit(cut.section.cap.max(free));
        used += cut.cost();
    }
    let mut order: Vec<(CutStep, usize, usize)> = Vec::new();
    for (which, cut) in cuts.iter().enumerate() {
        let blocks = cut.section.blocks.iter().enumerate();
        let cuttable = blocks.filter(|(_, block)| block.step < CutStep::Constraints);
        order.extend(cuttable.map(|(at, block)| (block.step, which, at)));
    }
    // Among equals the last one is cut first.
    order.sort_by_key(|&(step, which, at)| (step, which, std::cmp::Reverse(at)));
    let mut total: usize = cuts.iter().map(SectionCut::cost).sum();
    for (_, which, at) in order {
        while total > room {
            let before = cuts[which].cost();
            if !cuts[which].drop_one(at) {
                break;
            }
            total = total + cuts[which].cost() - before;
        }
    }
    cuts.iter().map(SectionCut::to_fitted).collect()
}

/// A section while it is being cut.
struct SectionCut {
    section: PromptSection,
    /// How many pieces of each block are cut.
    gone: Vec<usize>,
    /// The characters of each piece, by block.
    chars: Vec<Vec<usize>>,
    /// Upper bound of the characters that are left.
    size: usize,
}

impl SectionCut {
    fn new(section: PromptSection) -> Self {
        let count = |text: &str| text.chars().count();
        let chars: Vec<Vec<usize>> = (section.blocks.iter())
            .map(|block| block.pieces.iter().map(|piece| count(&piece.text) + 1).collect())
            .collect();
        let mut size = 0;
        for (block, chars) in section.blocks.iter().zip(&chars).filter(|(_, it)| !it.is_empty()) {
            size += count(&block.heading) + BLOCK_OVERHEAD + chars.iter().sum::<usize>();
        }
        if size > 0 {
            size += count(&section.title) + SECTION_OVERHEAD;
        }
        Self { gone: vec![0; section.blocks.len()], chars, size, section }
    }

    /// Returns the characters of all the times the template includes the section.
    fn cost(&self) -> usize {
        self.size.saturating_mul(self.section.uses)
    }

    /// Cuts pieces until the section has at most so many characters.
    fn cut_to_limit(&mut self, limit: usize) {
        let limit = limit.saturating_sub(self.section.taken);
        for at in self.cut_order() {
            while self.size > limit && self.drop_one(at) {}
        }
    }

    /// Returns the blocks in the order in which the section's own limit cuts them.
    fn cut_order(&self) -> Vec<usize> {
        let blocks = &self.section.blocks;
        let mut order: Vec<usize> =
            (0..blocks.len()).filter(|at| blocks[*at].step < CutStep::Never).collect();
        order.sort_by_key(|at| (blocks[*at].step, std::cmp::Reverse(*at)));
        order
    }

    /// Cuts the next piece of a block. Returns whether there was one.
    fn drop_one(&mut self, at: usize) -> bool {
        let (block, gone) = (&self.section.blocks[at], self.gone[at]);
        let count = block.pieces.len();
        if gone == count {
            return false;
        }
        let next = match block.from {
            CutFrom::Start => gone,
            CutFrom::End => count - 1 - gone,
        };
        self.size -= self.chars[at][next];
        if gone == 0 {
            self.size += self.count_longest_note(at) + CUT_NOTE.chars().count() + 2;
        }
        if gone + 1 == count {
            self.size -= block.heading.chars().count() + BLOCK_OVERHEAD;
        }
        self.gone[at] += 1;
        true
    }

    /// Returns the most characters that the note about a block can have.
    fn count_longest_note(&self, at: usize) -> usize {
        let block = &self.section.blocks[at];
        let count = block.pieces.len();
        let longest = match &block.label {
            CutLabel::Counted(name) => format!("{name} ({count} of {count})"),
            CutLabel::Named(_) => self.format_note(at, count),
        };
        longest.chars().count()
    }

    /// Returns the note about the first `gone` cut pieces of a block.
    fn format_note(&self, at: usize, gone: usize) -> String {
        let block = &self.section.blocks[at];
        let count = block.pieces.len();
        match &block.label {
            CutLabel::Counted(name) if gone == count => format!("{name} ({count})"),
            CutLabel::Counted(name) => format!("{name} ({gone} of {count})"),
            CutLabel::Named(name) => {
                let shown = (0..gone.min(MAX_NAMED)).map(|nth| match block.from {
                    CutFrom::Start => &block.pieces[nth],
                    CutFrom::End => &block.pieces[count - 1 - nth],
                });
                let shown: Vec<String> =
                    shown.map(|piece| text::join_to_line(&piece.name, NAME_CHARS)).collect();
                let more = match gone.saturating_sub(MAX_NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{name}: {}{more}", shown.join(", "))
            }
        }
    }

    fn to_fitted(&self) -> FittedSection {
        let mut parts: Vec<String> = Vec::new();
        let mut left_out = Vec::new();
        for (at, block) in self.section.blocks.iter().enumerate() {
            let gone = self.gone[at];
            if gone > 0 {
                left_out.push(self.format_note(at, gone));
            }
            let kept = match block.from {
                CutFrom::Start => &block.pieces[gone..],
                CutFrom::End => &block.pieces[..block.pieces.len() - gone],
            };
            if !kept.is_empty() {
                parts.push(format_block(&block.heading, kept));
            }
        }
        if !left_out.is_empty() {
            parts.push(format!("{CUT_NOTE}{})", left_out.join("; ")));
        }
        let text = match (parts.is_empty(), self.section.title.as_str()) {
            (true, _) => String::new(),
            (false, "") => parts.join("\n\n"),
            (false, title) => format!("{title}\n{}", parts.join("\n\n")),
        };
        FittedSection { name: self.section.name, text, left_out }
    }
}

/// Introduces the note about cut pieces.
const CUT_NOTE: &str = "(omitted for space: ";

fn format_block(heading: &str, pieces: &[SectionPiece]) -> String {
    let mut lines: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    if !heading.is_empty() {
        lines.insert(0, heading);
    }
    let text = lines.join("\n");
    // An unclosed code fence would swallow the rest of the prompt.
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    if fences % 2 == 1 { format!("{text}\n```") } else { text }
}
