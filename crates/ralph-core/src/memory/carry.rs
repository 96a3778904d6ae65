//! Keeps active constraints and open issues from getting lost between two memories.
//!
//! If a compaction does not mention one, it was forgotten, not resolved. It is kept until an
//! agent lists it as resolved. Not here: the prompt of the agent.

use std::collections::BTreeSet;

use ralph_model::memory::{Compacted, Memory, SinceCompaction};

use super::read::MemoryAnswer;
use super::sentence_match::Sentence;

/// How many constraints a memory holds, and how many issues. A project with more needs a person.
pub const MOST_ITEMS: usize = 100;

/// How many characters each of them may have.
pub(crate) const ITEM_CHARS: usize = 400;

/// How many dropped items are named one by one.
const MAX_NAMED_ITEMS: usize = 50;

/// Returns the memory that follows from an answer: everything in it and, marked as carried over,
/// every item of the former memory and of the handoffs since that holds and that it does not
/// mention.
pub fn carry_over(
    former: Option<&Memory>,
    answer: MemoryAnswer,
    since: &SinceCompaction,
) -> Compacted {
    let MemoryAnswer { memory: new, resolved } = answer;
    let named = resolved.iter().map(|resolved| &resolved.item).chain(&since.fixed);
    let named: Vec<Sentence> = named.map(|text| Sentence::new(text)).collect();
    let is_over = |sentence: &Sentence| named.iter().any(|named| named.covers(sentence));
    let mut constraints = MemoryListBuilder::new(&new.carried_over);
    for entry in new.active_constraints {
        constraints.add_from_answer(entry.constraint, entry.source_iteration);
    }
    for known in former.iter().flat_map(|memory| &memory.active_constraints) {
        let constraint = KnownItem::new(&known.constraint);
        if !is_over(&constraint.sentence) {
            constraints.add_known(constraint, known.source_iteration.as_ref());
        }
    }
    for found in &since.found {
        let (alone, whole) =
            (Sentence::new(&found.constraint), KnownItem::new(&found.entry.constraint));
        let is_mentioned = constraints.has_item(&alone);
        if !is_mentioned && !is_over(&alone) && !is_over(&whole.sentence) {
            constraints.add_known(whole, found.entry.source_iteration.as_ref());
        }
    }
    let mut issues = MemoryListBuilder::new(&new.carried_over);
    for issue in new.unresolved_issues {
        issues.add_from_answer(issue, None);
    }
    let known = former.iter().flat_map(|memory| &memory.unresolved_issues);
    for issue in known.chain(since.open.iter().map(|open| &open.issue)) {
        let issue = KnownItem::new(issue);
        if !is_over(&issue.sentence) {
            issues.add_known(issue, None);
        }
    }
    let mut left_out = constraints.left_out;
    left_out.append(&mut issues.left_out);
    let named = left_out.len().min(MAX_NAMED_ITEMS);
    let more = left_out.split_off(named).len() + since.more_found as usize;
    if more > 0 {
        left_out.push(format!("(and {more} more)"));
    }
    let marked = constraints.items.iter().chain(&issues.items).filter(|item| item.is_kept);
    let marked: BTreeSet<String> = marked.map(|item| item.text.clone()).collect();
    let memory = Memory {
        carried_over: marked.into_iter().collect(),
        active_constraints: constraints
            .items
            .into_iter()
            .map(|item| ralph_model::memory::ActiveConstraint {
                constraint: item.text,
                source_iteration: item.source,
            })
            .collect(),
        unresolved_issues: issues.items.into_iter().map(|item| item.text).collect(),
        ..new
    };
    Compacted { memory, resolved, left_out }
}

/// Returns the memory that a run leaves to the next one, including what was found since.
pub fn build_final_memory(memory: Option<&Memory>, since: &SinceCompaction) -> Option<Memory> {
    if memory.is_none() && since.found.is_empty() && since.open.is_empty() {
        return None;
    }
    let answer = MemoryAnswer { memory: memory.cloned().unwrap_or_default(), resolved: Vec::new() };
    Some(carry_over(None, answer, since).memory)
}

/// One list of a memory under construction. No two of its items mean the same.
struct MemoryListBuilder<'a> {
    marks: &'a [String],
    items: Vec<MemoryItem>,
    left_out: Vec<String>,
}

/// An item that was known before.
struct KnownItem {
    text: String,
    sentence: Sentence,
}

impl KnownItem {
    fn new(text: &str) -> Self {
        let text = clip_item(text);
        Self { sentence: Sentence::new(&text), text }
    }
}

struct MemoryItem {
    text: String,
    sentence: Sentence,
    source: Option<String>,
    /// Whether ralph kept the item, not the agent.
    is_kept: bool,
}

impl<'a> MemoryListBuilder<'a> {
    fn new(marks: &'a [String]) -> Self {
        Self { marks, items: Vec::new(), left_out: Vec::new() }
    }

    fn has_item(&self, sentence: &Sentence) -> bool {
        self.items.iter().any(|item| item.sentence.covers(sentence))
    }

    /// Adds an item of the answer.
    fn add_from_answer(&mut self, text: String, source: Option<String>) {
        let clipped = clip_item(&text);
        let sentence = Sentence::new(&clipped);
        if clipped.is_empty() || self.has_item(&sentence) {
            return;
        }
        if clipped != text.trim() {
            self.left_out.push(text);
        }
        let is_kept = self.marks.contains(&clipped);
        self.push_item(MemoryItem { text: clipped, sentence, source, is_kept });
    }

    /// Adds an item that was known before, unless the answer contains it.
    fn add_known(&mut self, known: KnownItem, source: Option<&String>) {
        let KnownItem { text, sentence } = known;
        if let Some(item) = self.items.iter_mut().find(|item| item.sentence.covers(&sentence)) {
            item.source = item.source.take().or_else(|| source.cloned());
            return;
        }
        self.push_item(MemoryItem { text, sentence, source: source.cloned(), is_kept: true });
    }

    fn push_item(&mut self, item: MemoryItem) {
        if self.items.len() < MOST_ITEMS {
            self.items.push(item);
        } else {
            self.left_out.push(item.text);
        }
    }
}

/// Returns the text, shortened to the limit of an item.
pub(super) fn clip_item(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= ITEM_CHARS {
        return text.to_owned();
    }
    let start: String = text.chars().take(ITEM_CHARS - 1).collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests;
