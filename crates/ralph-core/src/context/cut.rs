//! Cutting sections down to the room there is.
//!
//! A section is made of blocks, a block of pieces. All pieces that may go stand in one fixed
//! order, and what is cut is always a beginning of that order: a smaller budget never brings back
//! what a larger one left out. Whatever goes is named where it would have stood. Not here: what
//! the pieces say.

use super::SectionName;
use crate::text;

/// More names than these do not help an agent.
const NAMED: usize = 5;

/// A name is for recognizing, not for reading.
const NAME_CHARS: usize = 40;

/// What a section costs beside its text: the empty lines around it.
const AROUND: usize = 2;

/// What a block costs beside its text: the empty line before it, and a fence that is closed.
const AROUND_BLOCK: usize = 6;

/// When a piece gives way, the first of these first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A line about an earlier iteration.
    Earlier,
    /// What was looked up about a library.
    LibraryDocs,
    /// What a file is for.
    FileKnowledge,
    /// A skill beyond the first.
    OtherSkills,
    /// Work that is done. From here on only to keep to a budget that all of the above exceeds.
    CompletedWork,
    /// A decision.
    Decisions,
    /// A detail of the iteration before.
    Previous,
    /// A line of the first skill.
    FirstSkill,
    /// An issue that is open.
    OpenIssues,
    /// A constraint: gives way only to the bound of its own section, never to the budget.
    Constraints,
    /// Never.
    Never,
}

/// Which pieces of a block go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutFrom {
    /// The first ones.
    Start,
    /// The last ones.
    End,
}

/// How what was cut of a block is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Label {
    /// By its name and how much it is, such as `file knowledge (3 of 8)`.
    Counted(String),
    /// By the names of the pieces after its own, such as `library docs: serde, clap`.
    Named(String),
}

/// Something that stays or goes as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its name, where its block names its pieces.
    pub(crate) name: String,
    /// Its text, without a line break at the end.
    pub(crate) text: String,
}

impl Piece {
    /// Returns a piece that is only counted.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { name: String::new(), text: text.into() }
    }
}

/// Pieces of one kind under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// What stands above the pieces, if any of them stays; may be empty.
    pub(crate) heading: String,
    /// When they give way.
    pub(crate) step: Step,
    /// Which go first.
    pub(crate) from: CutFrom,
    /// How they are named when they are gone.
    pub(crate) label: Label,
    /// They, in the order of the text.
    pub(crate) pieces: Vec<Piece>,
}

/// A section that may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: SectionName,
    /// What stands above its blocks; may be empty.
    pub(crate) title: String,
    /// The characters that it may have by itself.
    pub(crate) cap: usize,
    /// How many of them are taken by text that is not in the blocks.
    pub(crate) taken: usize,
    /// How often the template has it.
    pub(crate) uses: usize,
    /// Its blocks, in the order of the text.
    pub(crate) blocks: Vec<Block>,
}

/// A section that was cut to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    /// The section.
    pub(crate) name: SectionName,
    /// Its text; empty if it has nothing to say.
    pub(crate) text: String,
    /// What was left out.
    pub(crate) left_out: Vec<String>,
}

/// Cuts sections until each keeps to its own bound and all of them fit into `room` characters.
///
/// If they do not even without everything that may go, that is what comes back.
pub(crate) fn fit(sections: Vec<Section>, room: usize) -> Vec<Fitted> {
    let mut cuts: Vec<SectionCut> = sections.into_iter().map(SectionCut::new).collect();
    for cut in &mut cuts {
        let cap = cut.section.cap.saturating_sub(cut.section.taken);
        for at in cut.order() {
            while cut.size > cap && cut.drop_one(at) {}
        }
    }
    let mut order: Vec<(Step, usize, usize)> = Vec::new();
    for (which, cut) in cuts.iter().enumerate() {
        let blocks = cut.section.blocks.iter().enumerate();
        let cuttable = blocks.filter(|(_, block)| block.step < Step::Constraints);
        order.extend(cuttable.map(|(at, block)| (block.step, which, at)));
    }
    // Of equals the last one goes first, as everywhere.
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
    cuts.iter().map(SectionCut::fitted).collect()
}

/// A section while it is being cut.
struct SectionCut {
    section: Section,
    /// How many pieces of each block are gone.
    gone: Vec<usize>,
    /// The characters of each piece, by block.
    chars: Vec<Vec<usize>>,
    /// At most this many characters are left.
    size: usize,
}

impl SectionCut {
    fn new(section: Section) -> Self {
        let count = |text: &str| text.chars().count();
        let chars: Vec<Vec<usize>> = (section.blocks.iter())
            .map(|block| block.pieces.iter().map(|piece| count(&piece.text) + 1).collect())
            .collect();
        let mut size = 0;
        for (block, chars) in section.blocks.iter().zip(&chars).filter(|(_, it)| !it.is_empty()) {
            size += count(&block.heading) + AROUND_BLOCK + chars.iter().sum::<usize>();
        }
        if size > 0 {
            size += count(&section.title) + AROUND;
        }
        Self { gone: vec![0; section.blocks.len()], chars, size, section }
    }

    /// Returns what it costs as often as the template has it.
    fn cost(&self) -> usize {
        self.size.saturating_mul(self.section.uses)
    }

    /// Returns the blocks in the order in which the section's own bound cuts them.
    fn order(&self) -> Vec<usize> {
        let blocks = &self.section.blocks;
        let mut order: Vec<usize> =
            (0..blocks.len()).filter(|at| blocks[*at].step < Step::Never).collect();
        order.sort_by_key(|at| (blocks[*at].step, std::cmp::Reverse(*at)));
        order
    }

    /// Takes the next piece of a block away. Returns whether there was one.
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
            self.size += self.longest_note_of(at) + NOTE.chars().count() + 2;
        }
        if gone + 1 == count {
            self.size -= block.heading.chars().count() + AROUND_BLOCK;
        }
        self.gone[at] += 1;
        true
    }

    /// Returns the characters that the note about a block has at most, however much of it is gone.
    fn longest_note_of(&self, at: usize) -> usize {
        let block = &self.section.blocks[at];
        let count = block.pieces.len();
        let longest = match &block.label {
            Label::Counted(name) => format!("{name} ({count} of {count})"),
            Label::Named(_) => self.note_of(at, count),
        };
        longest.chars().count()
    }

    /// Names the first `gone` pieces of a block that go.
    fn note_of(&self, at: usize, gone: usize) -> String {
        let block = &self.section.blocks[at];
        let count = block.pieces.len();
        match &block.label {
            Label::Counted(name) if gone == count => format!("{name} ({count})"),
            Label::Counted(name) => format!("{name} ({gone} of {count})"),
            Label::Named(name) => {
                let shown = (0..gone.min(NAMED)).map(|nth| match block.from {
                    CutFrom::Start => &block.pieces[nth],
                    CutFrom::End => &block.pieces[count - 1 - nth],
                });
                let shown: Vec<String> =
                    shown.map(|piece| text::one_line(&piece.name, NAME_CHARS)).collect();
                let more = match gone.saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{name}: {}{more}", shown.join(", "))
            }
        }
    }

    fn fitted(&self) -> Fitted {
        let mut parts: Vec<String> = Vec::new();
        let mut left_out = Vec::new();
        for (at, block) in self.section.blocks.iter().enumerate() {
            let gone = self.gone[at];
            if gone > 0 {
                left_out.push(self.note_of(at, gone));
            }
            let kept = match block.from {
                CutFrom::Start => &block.pieces[gone..],
                CutFrom::End => &block.pieces[..block.pieces.len() - gone],
            };
            if !kept.is_empty() {
                parts.push(block_text(&block.heading, kept));
            }
        }
        if !left_out.is_empty() {
            parts.push(format!("{NOTE}{})", left_out.join("; ")));
        }
        let text = match (parts.is_empty(), self.section.title.as_str()) {
            (true, _) => String::new(),
            (false, "") => parts.join("\n\n"),
            (false, title) => format!("{title}\n{}", parts.join("\n\n")),
        };
        Fitted { name: self.section.name, text, left_out }
    }
}

/// How the text says that something is gone.
const NOTE: &str = "(left out for room: ";

fn block_text(heading: &str, pieces: &[Piece]) -> String {
    let mut lines: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    if !heading.is_empty() {
        lines.insert(0, heading);
    }
    let text = lines.join("\n");
    // Half a listing would take the rest of the prompt with it.
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    if fences % 2 == 1 { format!("{text}\n```") } else { text }
}
