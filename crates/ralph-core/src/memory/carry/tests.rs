//! What is carried over: nothing that holds disappears unless an agent lists it as resolved, and
//! nothing grows.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use ralph_model::memory::{ActiveConstraint, FoundConstraint, OpenIssue, ResolvedItem};

use super::*;

fn constraint(text: &str) -> ActiveConstraint {
    ActiveConstraint { constraint: text.into(), source_iteration: None }
}

fn memory(constraints: &[&str], issues: &[&str]) -> Memory {
    Memory {
        project_summary: "s".into(),
        active_constraints: constraints.iter().map(|text| constraint(text)).collect(),
        unresolved_issues: issues.iter().map(|text| (*text).to_owned()).collect(),
        ..Memory::default()
    }
}

fn found(text: &str, follows: &str) -> FoundConstraint {
    let entry = ActiveConstraint {
        constraint: format!("{text}: {follows}"),
        source_iteration: Some("3".into()),
    };
    FoundConstraint { constraint: text.into(), entry }
}

fn open(issue: &str) -> OpenIssue {
    OpenIssue { issue: issue.into(), business_of: None }
}

fn resolved(item: &str) -> ResolvedItem {
    ResolvedItem { item: item.into(), reason: "r".into() }
}

#[track_caller]
fn check(
    former: &Memory,
    new: Memory,
    named: &[&str],
    since: &SinceCompaction,
    expect: (&[&str], &[&str], &[&str]),
) {
    let resolved = named.iter().map(|item| resolved(item)).collect();
    let answer = MemoryAnswer { memory: new, resolved };
    let memory = carry_over(Some(former), answer, since).memory;
    let constraints = memory.active_constraints.iter().map(|it| it.constraint.as_str());
    assert_eq!(constraints.collect::<Vec<_>>(), expect.0);
    assert_eq!(memory.unresolved_issues, expect.1);
    assert_eq!(memory.carried_over, expect.2);
}

#[test]
fn what_an_answer_does_not_mention_is_kept_and_marked() {
    let former =
        memory(&["SQLite has one writer", "no network in CI"], &["the login test is flaky"]);
    let nothing = SinceCompaction::default();
    check(
        &former,
        memory(&["sqlite has ONE writer."], &[]),
        &[],
        &nothing,
        (
            &["sqlite has ONE writer.", "no network in CI"],
            &["the login test is flaky"],
            &["no network in CI", "the login test is flaky"],
        ),
    );
    // It goes when the agent lists it as resolved.
    check(
        &former,
        memory(&["SQLite has one writer"], &[]),
        &["No network in CI", "The login test is flaky"],
        &nothing,
        (&["SQLite has one writer"], &[], &[]),
    );
    let fixed = SinceCompaction {
        fixed: vec!["The login test is flaky.".into()],
        ..SinceCompaction::default()
    };
    check(
        &former,
        memory(&[], &[]),
        &["no network in CI"],
        &fixed,
        (&["SQLite has one writer"], &[], &["SQLite has one writer"]),
    );
    // A near miss names nothing.
    check(
        &memory(&["no network in CI"], &[]),
        memory(&[], &[]),
        &["network in CI"],
        &nothing,
        (&["no network in CI"], &[], &["no network in CI"]),
    );
    // An item that the agent mentions and calls resolved at once stays.
    check(
        &memory(&[], &[]),
        memory(&["one writer"], &[]),
        &["one writer"],
        &nothing,
        (&["one writer"], &[], &[]),
    );
    // An item that was carried over and is now mentioned by the agent is no longer marked.
    let kept = Memory { carried_over: vec!["old git".into()], ..memory(&["old git"], &[]) };
    check(&kept, memory(&["old git"], &[]), &[], &nothing, (&["old git"], &[], &[]));
}

#[test]
fn what_handoffs_found_is_added_unless_it_is_mentioned() {
    let nothing = memory(&[], &[]);
    let since = SinceCompaction {
        found: vec![
            found("git is old", "never use merge-tree"),
            found("CI has no network", "vendor"),
        ],
        ..SinceCompaction::default()
    };
    check(
        &nothing,
        memory(&["CI has no network"], &[]),
        &[],
        &since,
        (
            &["CI has no network", "git is old: never use merge-tree"],
            &[],
            &["git is old: never use merge-tree"],
        ),
    );
    check(
        &nothing,
        memory(&[], &[]),
        &["git is old", "CI has no network: vendor"],
        &since,
        (&[], &[], &[]),
    );
}

#[test]
fn what_handoffs_left_open_is_an_issue_unless_mentioned_or_resolved() {
    let nothing = memory(&[], &[]);
    let since = SinceCompaction {
        open: vec![open("the login test is flaky"), open("write the manual")],
        ..SinceCompaction::default()
    };
    check(
        &nothing,
        memory(&[], &["The login test is FLAKY."]),
        &[],
        &since,
        (&[], &["The login test is FLAKY.", "write the manual"], &["write the manual"]),
    );
    check(
        &nothing,
        memory(&[], &[]),
        &["Write the manual!"],
        &since,
        (&[], &["the login test is flaky"], &["the login test is flaky"]),
    );
    // A run that ends before a compaction leaves it to the next run.
    let left = build_final_memory(None, &since).expect("something is left");
    assert_eq!(left.unresolved_issues, ["the login test is flaky", "write the manual"]);
}

#[test]
fn a_source_that_an_answer_forgets_is_kept() {
    let known = ActiveConstraint { source_iteration: Some("3".into()), ..constraint("old git") };
    let former = Memory { active_constraints: vec![known.clone()], ..memory(&[], &[]) };
    let answer = MemoryAnswer { memory: memory(&["old git"], &[]), resolved: Vec::new() };
    let compacted = carry_over(Some(&former), answer, &SinceCompaction::default());
    assert_eq!(compacted.memory.active_constraints, [known]);
}

#[test]
fn what_exceeds_a_bound_is_named() {
    let many: Vec<String> = (0..130).map(|count| format!("limit number {count} holds")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = "long ".repeat(200);
    let answer = MemoryAnswer { memory: memory(&many, &[&long]), resolved: Vec::new() };
    let since = SinceCompaction { more_found: 5, ..SinceCompaction::default() };
    let compacted = carry_over(None, answer, &since);
    assert_eq!(compacted.memory.active_constraints.len(), MOST_ITEMS);
    assert_eq!(compacted.memory.unresolved_issues[0].chars().count(), ITEM_CHARS);
    assert_eq!(compacted.left_out[0], "limit number 100 holds");
    assert!(compacted.left_out.contains(&long));
    assert_eq!(compacted.left_out.last().map(String::as_str), Some("(and 5 more)"));
    let [remark] = &compacted.remarks()[..] else { panic!("one remark") };
    assert!(remark.starts_with("32 items did not fit into the memory"), "{remark}");
}

/// Sentences that are alike and not the same, so that comparing them matters.
fn sentence() -> impl Strategy<Value = String> {
    let words = "cache token query index store reader writer login queue parser limits holds slow \
                 flaky locked stale not never no 1 7 10 42 8080 db.rs lib.rs main.rs";
    let word = prop::sample::select(words.split(' ').collect::<Vec<_>>());
    prop::collection::vec(word, 1..7).prop_map(|words| words.join(" "))
}

prop_compose! {
    fn any_memory()(
        constraints in prop::collection::vec(sentence(), 0..8),
        issues in prop::collection::vec(sentence(), 0..8),
    ) -> Memory {
        let constraints: Vec<&str> = constraints.iter().map(String::as_str).collect();
        let issues: Vec<&str> = issues.iter().map(String::as_str).collect();
        memory(&constraints, &issues)
    }
}

prop_compose! {
    fn any_since()(
        texts in prop::collection::vec((sentence(), sentence()), 0..4),
        fixed in prop::collection::vec(sentence(), 0..2),
        left in prop::collection::vec(sentence(), 0..3),
    ) -> SinceCompaction {
        let found = texts.iter().map(|(text, follows)| found(text, follows)).collect();
        let open = left.iter().map(|issue| open(issue)).collect();
        SinceCompaction { found, open, fixed, ..SinceCompaction::default() }
    }
}

fn texts(memory: &Memory) -> Vec<&str> {
    let constraints = memory.active_constraints.iter().map(|it| it.constraint.as_str());
    constraints.chain(memory.unresolved_issues.iter().map(String::as_str)).collect()
}

/// What a compaction makes of what was known, in parts that a test can look at.
struct Round<'a> {
    former: &'a Memory,
    answered: &'a Memory,
    named: &'a [ResolvedItem],
    since: &'a SinceCompaction,
    after: &'a Compacted,
}

impl Round<'_> {
    /// Returns items that hold and have disappeared without being resolved, or are marked
    /// wrongly.
    fn wrong(&self) -> Vec<String> {
        let there = texts(&self.after.memory);
        let after: Vec<Sentence> = there.iter().map(|text| Sentence::new(text)).collect();
        let left_out: Vec<Sentence> =
            self.after.left_out.iter().map(|text| Sentence::new(&clip_item(text))).collect();
        let named = self.named.iter().map(|it| &it.item).chain(&self.since.fixed);
        let named: Vec<Sentence> = named.map(|text| Sentence::new(text)).collect();
        let is_in = |all: &[Sentence], it: &Sentence| all.iter().any(|other| other.covers(it));
        // Only the first fifty dropped items are named.
        let has_more = self.after.left_out.len() > MAX_NAMED_ITEMS;
        let is_kept = |it: &Sentence| is_in(&after, it) || is_in(&left_out, it) || has_more;
        let is_lost = |text: &&str| !is_kept(&Sentence::new(&clip_item(text)));
        let is_gone = |text: &&str| {
            // Most items are there verbatim; only the rest needs the expensive comparison.
            let settles = |it: &Sentence| is_kept(it) || is_in(&named, it);
            !there.contains(text) && !settles(&Sentence::new(&clip_item(text)))
        };
        let mut wrong: Vec<&str> = Vec::new();
        wrong.extend(texts(self.answered).into_iter().filter(is_lost));
        wrong.extend(texts(self.former).into_iter().filter(is_gone));
        wrong.extend(self.since.open.iter().map(|open| open.issue.as_str()).filter(is_gone));
        let found = self.since.found.iter();
        let found = found.map(|it| (it.constraint.as_str(), it.entry.constraint.as_str()));
        let found = found.filter(|(alone, whole)| is_gone(alone) && is_gone(whole));
        wrong.extend(found.map(|(alone, _)| alone));
        let memory = &self.after.memory;
        let marks = memory.carried_over.iter().map(String::as_str);
        wrong.extend(marks.filter(|mark| !texts(memory).contains(mark)));
        wrong.into_iter().map(str::to_owned).collect()
    }
}

proptest! {
    #[test]
    fn nothing_that_holds_disappears_unless_it_is_named(
        former in any_memory(),
        new in any_memory(),
        named in prop::collection::vec(sentence(), 0..3),
        since in any_since(),
    ) {
        let named: Vec<ResolvedItem> = named.iter().map(|item| resolved(item)).collect();
        let answer = MemoryAnswer { memory: new.clone(), resolved: named.clone() };
        let after = carry_over(Some(&former), answer, &since);
        prop_assert_eq!(&after.left_out, &[""; 0]);
        let round =
            Round { former: &former, answered: &new, named: &named, since: &since, after: &after };
        prop_assert_eq!(round.wrong(), [""; 0]);
    }

    #[test]
    fn carrying_over_twice_changes_nothing(
        former in any_memory(),
        new in any_memory(),
        named in prop::collection::vec(sentence(), 0..3),
        since in any_since(),
    ) {
        let named: Vec<ResolvedItem> = named.iter().map(|item| resolved(item)).collect();
        let answer = MemoryAnswer { memory: new, resolved: named.clone() };
        let once = carry_over(Some(&former), answer, &since).memory;
        let again = MemoryAnswer { memory: once.clone(), resolved: named };
        prop_assert_eq!(&carry_over(Some(&former), again, &since).memory, &once);
    }

    #[test]
    fn clipping_twice_changes_nothing(text in "[a ä\n]{380,420}") {
        let once = clip_item(&text);
        prop_assert!(once.chars().count() <= ITEM_CHARS);
        prop_assert_eq!(clip_item(&once), once);
    }
}

/// Compactions that forget everything and find something new each time, as large as possible.
/// Once the memory is full of the longest items, its size no longer changes.
#[test]
fn a_memory_stays_small_after_any_number_of_compactions() {
    let mut known: Option<Memory> = None;
    let mut sizes = Vec::new();
    for round in 0..150 {
        let long = format!("round {round:03} {}", "ä".repeat(2_000));
        let mut since = SinceCompaction::default();
        since.found.push(found(&format!("limit {round:03} holds"), "so be it"));
        since.open.push(open(&format!("fault {round:03} is there")));
        let new = memory(&[&long], &[&format!("issue {round:03} is open")]);
        let answer = MemoryAnswer { memory: new, resolved: Vec::new() };
        let compacted = carry_over(known.as_ref(), answer, &since);
        sizes.push(serde_json::to_string(&compacted).expect("serializable").len());
        known = Some(compacted.memory);
    }
    let known = known.expect("a memory");
    assert_eq!((known.active_constraints.len(), known.unresolved_issues.len()), (100, 100));
    let (growing, settled) = sizes.split_at(105);
    assert!(growing[0] * 10 < settled[0] && settled[0] < 400_000, "{sizes:?}");
    assert!(settled.iter().all(|size| *size == settled[0]), "{settled:?}");
}

/// A thousand compactions by an agent that mentions, forgets, finds and resolves items at random.
/// The same ones in every run.
#[test]
fn a_thousand_random_compactions_forget_nothing_and_stay_small() {
    let mut runner = TestRunner::deterministic();
    let mut draw = |strategy: &BoxedStrategy<(Memory, SinceCompaction, Vec<usize>, Vec<usize>)>| {
        strategy.new_tree(&mut runner).expect("a value").current()
    };
    // It resolves about as much as there is new, so that the memory grows and shrinks.
    let places = |most: usize| prop::collection::vec(any::<usize>(), 0..most);
    let strategy = (any_memory(), any_since(), places(4), places(20)).boxed();
    let mut former = Memory::default();
    let mut most = 0;
    for round in 0..1_000 {
        let (mut answered, since, repeated, settled) = draw(&strategy);
        let known: Vec<String> = texts(&former).into_iter().map(str::to_owned).collect();
        let pick = |at: usize| known.get(at % known.len().max(1)).cloned();
        answered.unresolved_issues.extend(repeated.into_iter().filter_map(pick));
        let named: Vec<ResolvedItem> =
            settled.into_iter().filter_map(pick).map(|item| resolved(&item)).collect();
        let answer = MemoryAnswer { memory: answered.clone(), resolved: named.clone() };
        let after = carry_over(Some(&former), answer, &since);
        let checked = Round {
            former: &former,
            answered: &answered,
            named: &named,
            since: &since,
            after: &after,
        };
        assert_eq!(checked.wrong(), [""; 0], "round {round}");
        let memory = &after.memory;
        let lengths = (memory.active_constraints.len(), memory.unresolved_issues.len());
        assert!(lengths.0 <= MOST_ITEMS && lengths.1 <= MOST_ITEMS, "{lengths:?}");
        most = most.max(serde_json::to_string(&after).expect("serializable").len());
        former = after.memory;
    }
    assert!(most < 400_000, "{most}");
}
