//! Keeps active constraints and open issues from getting lost between two memories.
//!
//! If a compaction does not mention one, it was forgotten, not resolved. It is kept until an
//! agent lists it as resolved. Not here: the prompt of the agent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::read::{Answer, Resolved};
use super::same::Sentence;
use super::{Memory, Since};

/// How many constraints a memory holds, and how many issues. A project with more needs a person.
pub const MOST_ITEMS: usize = 100;

/// How many characters each of them may have.
pub(crate) const ITEM_CHARS: usize = 400;

/// How many dropped items are named one by one.
const NAMED: usize = 50;

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    pub memory: Memory,
    /// Items that the agent lists as resolved.
    pub resolved: Vec<Resolved>,
    /// Items that did not fit into the memory, unshortened.
    pub left_out: Vec<String>,
}

/// Returns the memory that follows from an answer: everything in it and, marked as carried over,
/// every item of the former memory and of the handoffs since that holds and that it does not
/// mention.
pub fn carry_over(former: Option<&Memory>, answer: Answer, since: &Since) -> Compacted {
    let Answer { memory: new, resolved } = answer;
    let named = resolved.iter().map(|resolved| &resolved.item).chain(&since.mended);
    let named: Vec<Sentence> = named.map(|text| Sentence::new(text)).collect();
    let is_over = |sentence: &Sentence| named.iter().any(|named| named.says(sentence));
    let mut constraints = Kept::new(&new.carried_over);
    for entry in new.active_constraints {
        constraints.say(entry.constraint, entry.source_iteration);
    }
    for known in former.iter().flat_map(|memory| &memory.active_constraints) {
        let constraint = Known::new(&known.constraint);
        if !is_over(&constraint.sentence) {
            constraints.keep(constraint, known.source_iteration.as_ref());
        }
    }
    for found in &since.found {
        let (alone, whole) =
            (Sentence::new(&found.constraint), Known::new(&found.entry.constraint));
        let is_mentioned = constraints.speaks_of(&alone);
        if !is_mentioned && !is_over(&alone) && !is_over(&whole.sentence) {
            constraints.keep(whole, found.entry.source_iteration.as_ref());
        }
    }
    let mut issues = Kept::new(&new.carried_over);
    for issue in new.unresolved_issues {
        issues.say(issue, None);
    }
    let known = former.iter().flat_map(|memory| &memory.unresolved_issues);
    for issue in known.chain(since.open.iter().map(|open| &open.issue)) {
        let issue = Known::new(issue);
        if !is_over(&issue.sentence) {
            issues.keep(issue, None);
        }
    }
    let mut left_out = constraints.left_out;
    left_out.append(&mut issues.left_out);
    let named = left_out.len().min(NAMED);
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
            .map(|item| super::ActiveConstraint {
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
pub fn left(memory: Option<&Memory>, since: &Since) -> Option<Memory> {
    if memory.is_none() && since.found.is_empty() && since.open.is_empty() {
        return None;
    }
    let answer = Answer { memory: memory.cloned().unwrap_or_default(), resolved: Vec::new() };
    Some(carry_over(None, answer, since).memory)
}

/// One list of a memory under construction. No two of its items mean the same.
struct Kept<'a> {
    marks: &'a [String],
    items: Vec<Item>,
    left_out: Vec<String>,
}

/// An item that was known before.
struct Known {
    text: String,
    sentence: Sentence,
}

impl Known {
    fn new(text: &str) -> Self {
        let text = clip(text);
        Self { sentence: Sentence::new(&text), text }
    }
}

struct Item {
    text: String,
    sentence: Sentence,
    source: Option<String>,
    /// Whether ralph kept the item, not the agent.
    is_kept: bool,
}

impl<'a> Kept<'a> {
    fn new(marks: &'a [String]) -> Self {
        Self { marks, items: Vec::new(), left_out: Vec::new() }
    }

    fn speaks_of(&self, sentence: &Sentence) -> bool {
        self.items.iter().any(|item| item.sentence.says(sentence))
    }

    /// Adds an item of the answer.
    fn say(&mut self, text: String, source: Option<String>) {
        let clipped = clip(&text);
        let sentence = Sentence::new(&clipped);
        if clipped.is_empty() || self.speaks_of(&sentence) {
            return;
        }
        if clipped != text.trim() {
            self.left_out.push(text);
        }
        let is_kept = self.marks.contains(&clipped);
        self.add(Item { text: clipped, sentence, source, is_kept });
    }

    /// Adds an item that was known before, unless the answer contains it.
    fn keep(&mut self, known: Known, source: Option<&String>) {
        let Known { text, sentence } = known;
        if let Some(item) = self.items.iter_mut().find(|item| item.sentence.says(&sentence)) {
            item.source = item.source.take().or_else(|| source.cloned());
            return;
        }
        self.add(Item { text, sentence, source: source.cloned(), is_kept: true });
    }

    fn add(&mut self, item: Item) {
        if self.items.len() < MOST_ITEMS {
            self.items.push(item);
        } else {
            self.left_out.push(item.text);
        }
    }
}

/// Returns the text, shortened to the limit of an item.
pub(super) fn clip(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= ITEM_CHARS {
        return text.to_owned();
    }
    let start: String = text.chars().take(ITEM_CHARS - 1).collect();
    format!("{}…", start.trim_end())
}

impl Compacted {
    /// Returns warnings about items that did not fit.
    pub fn remarks(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let count = self.left_out.len();
        let items = if count == 1 { "1 item".to_owned() } else { format!("{count} items") };
        vec![format!(
            "{items} did not fit into the memory, the first is: {}; .ralph/context/compacted-latest.json keeps them as `left_out`",
            crate::text::glance(&self.left_out[0], 80)
        )]
    }
}

#[cfg(test)]
mod tests;
