//! The plan that an agent maintains: its state after the agent.
//!
//! An agent may do anything to the file. So ralph keeps a copy of the last usable plan,
//! and restores a plan that is lost. Not here: reading the file, and its items.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_model::plan::{NAMED_ITEMS, PlanCopy, PlanLoss, PlanState, RemovedItems};

use crate::tasks::checklist::{Checklist, Mark};

/// How many removed items a run remembers by name.
const MOST_REMOVED: usize = 200;

/// Returns the feedback for an agent that reports completion while items of its plan are
/// open.
pub(crate) fn build_open_items_feedback(file: &Path, open: u32, next: &[String]) -> String {
    let items: Vec<String> = next.iter().map(|item| format!("  - [ ] {item}")).collect();
    let more = (open as usize).saturating_sub(items.len());
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let (noun, them) = if open == 1 { ("item is", "it") } else { ("items are", "them") };
    format!(
        "You said that the work is complete, but {open} {noun} open in `{}`:\n{}{more}\nDo {them}, or remove items that are no longer needed and note why there; then report completion again.",
        file.display(),
        items.join("\n")
    )
}

/// Returns the feedback for an agent that reports completion after items were deleted from its
/// plan.
pub(crate) fn build_deleted_items_feedback(file: &Path, removed: &RemovedItems) -> String {
    let (noun, them) =
        if removed.deleted == 1 { ("item was", "it") } else { ("items were", "them") };
    let names = removed.items.iter().take(NAMED_ITEMS.min(removed.deleted as usize));
    let items: Vec<String> = names.map(|item| format!("  - [ ] {item}")).collect();
    let more = (removed.deleted as usize).saturating_sub(items.len());
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    format!(
        "You said that the work is complete, but {} {noun} removed from `{}` in this run and never marked as done:\n{}{more}\nDo {them} and restore {them} in the plan with a mark, or write there why they are not needed (`- ~~item~~ because ...`); then report completion again.",
        removed.deleted,
        file.display(),
        items.join("\n")
    )
}

/// Returns the state of a usable plan with the items that were removed from it and never marked as
/// done: those known before, and those that the text before had without a mark, unless they are there
/// now.
pub fn assess_changed_plan(known: &[String], before: &str, now: &str) -> PlanState {
    add_removed_items(assess_plan_text(now), &find_removed_items(known, before, now), now)
}

/// An item may get words at its end. Each open item that is new counts as one that was reworded; one
/// that is marked as done from the beginning only if it shares a word with it.
fn find_removed_items(known: &[String], before: &str, now: &str) -> Vec<String> {
    let (before, now) = (Checklist::read(before), Checklist::read(now));
    let texts: BTreeSet<&str> = now.items.iter().map(|item| item.text.as_str()).collect();
    let is_there = |text: &str| {
        texts.range::<&str, _>(text..).next().is_some_and(|longer| longer.starts_with(text))
    };
    let is_new = |text: &str| !before.items.iter().any(|item| text.starts_with(&item.text));
    let mut new: Vec<_> = now.items.iter().filter(|item| is_new(&item.text)).collect();
    let missing = before.items.iter().filter(|it| it.mark != Mark::Done && !is_there(&it.text));
    let mut missing: Vec<&String> = missing.map(|item| &item.text).collect();
    missing.retain(|text| match new.iter().position(|item| has_common_word(text, &item.text)) {
        Some(at) => {
            new.remove(at);
            false
        }
        None => true,
    });
    let open = new.iter().filter(|item| item.mark != Mark::Done).count();
    let missing = missing.into_iter().skip(open).filter(|text| !known.contains(text)).cloned();
    known.iter().filter(|text| !is_there(text)).cloned().chain(missing).collect()
}

/// Returns whether two texts have a word of three letters or more in common.
fn has_common_word(text: &str, other: &str) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|it: char| !it.is_alphanumeric());
        words.filter(|it| it.chars().count() > 2).map(str::to_lowercase).collect()
    };
    !words(text).is_disjoint(&words(other))
}

fn add_removed_items(look: PlanState, removed: &[String], now: &str) -> PlanState {
    let PlanState::Usable { counts, next, person, removed: _ } = look else { return look };
    let is_struck = |item: &&String| now.contains(&format!("~~{item}"));
    let deleted = removed.iter().filter(|item| !is_struck(item));
    let items = deleted.clone().chain(removed.iter().filter(is_struck));
    let items = items.take(MOST_REMOVED).cloned().collect();
    let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
    let deleted = count(deleted.count());
    let removed = RemovedItems { count: count(removed.len()), deleted, items };
    PlanState::Usable { counts, next, person, removed }
}

/// Returns the state for the text of a plan.
pub fn assess_plan_text(text: &str) -> PlanState {
    let list = Checklist::read(text);
    let next = list.open().take(NAMED_ITEMS).map(|item| item.text.clone()).collect();
    let person = list.person().take(NAMED_ITEMS).map(|item| item.text.clone()).collect();
    PlanState::Usable { counts: list.counts(), next, person, removed: RemovedItems::default() }
}

/// Returns the state for a file that was read, if there is no copy of it.
pub fn assess_plan(read: Result<Option<String>, String>) -> PlanState {
    let loss = match read {
        Ok(Some(text)) if text.trim().is_empty() => PlanLoss::Empty,
        Ok(Some(text)) => return assess_plan_text(&text),
        Ok(None) => PlanLoss::Missing,
        Err(why) => PlanLoss::Unusable { why },
    };
    PlanState::Lost { loss, copy: PlanCopy::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &[&str], before: &str, now: &str, expect: &[&str]) {
        let known: Vec<String> = known.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(find_removed_items(&known, before, now), expect, "{before:?} -> {now:?}");
    }

    #[test]
    fn items_that_are_gone_without_a_mark_were_removed() {
        let two = "- [ ] one\n- [ ] two\n";
        check(&[], two, "- [x] one\n- [ ] two\n", &[]);
        check(&[], two, "- [x] one\n", &["two"]);
        check(&[], two, "# Nothing\n", &["one", "two"]);
        check(&[], two, "- [x] one\n- ~~two~~ because it is not needed\n", &["two"]);
        check(&[], two, "- [x] one\n- [?] two: needs a key\n", &[]);
        // Reworded items, and done ones that are cleared away.
        check(&[], two, "- [x] one, with tests\n- [ ] another two\n", &[]);
        check(&[], two, "- [ ] both\n", &["two"]);
        check(&[], two, "- [x] Done with one\n- [ ] 2\n", &[]);
        check(&[], two, "- [x] both\n- [x] other\n", &["one", "two"]);
        check(&[], "- [x] one\n- [ ] two\n", "- [ ] two\n", &[]);
        check(&[], "- [x] one\n- [ ] two\n", "- [ ] 2\n", &[]);
        // Removed ones stay removed until they are there again.
        check(&["two"], "- [x] one\n", "- [x] one\n", &["two"]);
        check(&["two"], "- [x] one\n", "- [x] one\n- [x] two\n", &[]);
        // ralph died before it kept a copy without it.
        check(&["two"], two, "- [x] one\n", &["two"]);
    }

    #[test]
    fn struck_items_are_removed_and_not_deleted() {
        let now = "- [x] one\n- ~~two~~ because it is not needed\n";
        let removed = ["two".to_owned(), "three".to_owned()];
        let look = add_removed_items(assess_plan_text(now), &removed, now);
        let items = vec!["three".to_owned(), "two".to_owned()];
        assert_eq!(look.removed(), Some(&RemovedItems { count: 2, deleted: 1, items }));
        let expect = "2 items were removed from the plan and never marked done: three; two";
        assert_eq!(look.removed().and_then(RemovedItems::describe).as_deref(), Some(expect));
    }
}
