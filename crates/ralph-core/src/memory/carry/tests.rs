//! What is carried over: nothing that holds disappears unless somebody names it, and nothing grows.

use proptest::prelude::*;

use super::*;
use crate::memory::ActiveConstraint;
use crate::memory::same::says;
use crate::memory::since::Found;

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

fn found(text: &str, follows: &str) -> Found {
    let entry = ActiveConstraint {
        constraint: format!("{text}: {follows}"),
        source_iteration: Some("3".into()),
    };
    Found { constraint: text.into(), entry }
}

fn resolved(item: &str) -> Resolved {
    Resolved { item: item.into(), reason: "r".into() }
}

#[track_caller]
fn check(
    former: &Memory,
    new: Memory,
    named: &[&str],
    since: &Since,
    expect: (&[&str], &[&str], &[&str]),
) {
    let resolved = named.iter().map(|item| resolved(item)).collect();
    let answer = Answer { memory: new, resolved };
    let memory = carry_over(Some(former), answer, since).memory;
    let constraints = memory.active_constraints.iter().map(|it| it.constraint.as_str());
    assert_eq!(constraints.collect::<Vec<_>>(), expect.0);
    assert_eq!(memory.unresolved_issues, expect.1);
    assert_eq!(memory.carried_over, expect.2);
}

#[test]
fn what_an_answer_does_not_speak_of_is_kept_and_marked() {
    let former =
        memory(&["SQLite has one writer", "no network in CI"], &["the login test is flaky"]);
    let nothing = Since::default();
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
    // It goes when somebody names it.
    check(
        &former,
        memory(&["SQLite has one writer"], &[]),
        &["No network in CI", "The login test is flaky"],
        &nothing,
        (&["SQLite has one writer"], &[], &[]),
    );
    let mended = Since { mended: vec!["The login test is flaky.".into()], ..Since::default() };
    check(
        &former,
        memory(&[], &[]),
        &["no network in CI"],
        &mended,
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
    // What an agent says and calls resolved at once is said.
    check(
        &memory(&[], &[]),
        memory(&["one writer"], &[]),
        &["one writer"],
        &nothing,
        (&["one writer"], &[], &[]),
    );
    // What was kept once and is now said by the agent is marked no longer.
    let kept = Memory { carried_over: vec!["old git".into()], ..memory(&["old git"], &[]) };
    check(&kept, memory(&["old git"], &[]), &[], &nothing, (&["old git"], &[], &[]));
}

#[test]
fn what_handoffs_found_is_added_unless_it_is_said() {
    let nothing = memory(&[], &[]);
    let since = Since {
        found: vec![
            found("git is old", "never use merge-tree"),
            found("CI has no network", "vendor"),
        ],
        ..Since::default()
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
fn a_source_that_an_answer_forgets_is_kept() {
    let known = ActiveConstraint { source_iteration: Some("3".into()), ..constraint("old git") };
    let former = Memory { active_constraints: vec![known.clone()], ..memory(&[], &[]) };
    let answer = Answer { memory: memory(&["old git"], &[]), resolved: Vec::new() };
    let compacted = carry_over(Some(&former), answer, &Since::default());
    assert_eq!(compacted.memory.active_constraints, [known]);
}

#[test]
fn what_exceeds_a_bound_is_named() {
    let many: Vec<String> = (0..130).map(|count| format!("limit number {count} holds")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = "long ".repeat(200);
    let answer = Answer { memory: memory(&many, &[&long]), resolved: Vec::new() };
    let since = Since { more_found: 5, ..Since::default() };
    let compacted = carry_over(None, answer, &since);
    assert_eq!(compacted.memory.active_constraints.len(), MOST_ITEMS);
    assert_eq!(compacted.memory.unresolved_issues[0].chars().count(), ITEM_CHARS);
    assert_eq!(compacted.left_out[0], "limit number 100 holds");
    assert!(compacted.left_out.contains(&long));
    assert_eq!(compacted.left_out.last().map(String::as_str), Some("(and 5 more)"));
    let [remark] = &compacted.remarks()[..] else { panic!("one remark") };
    assert!(remark.starts_with("the memory has no room for 32 items"), "{remark}");
}

/// Sentences that are alike and not the same, so that comparing them matters.
fn sentence() -> impl Strategy<Value = String> {
    let word = prop_oneof!["[a-d]{4}", "not", "never", "[0-9]{1,2}", "db\\.rs"];
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
        mended in prop::collection::vec(sentence(), 0..2),
    ) -> Since {
        let found = texts.iter().map(|(text, follows)| found(text, follows)).collect();
        Since { found, mended, ..Since::default() }
    }
}

fn texts(memory: &Memory) -> Vec<&str> {
    let constraints = memory.active_constraints.iter().map(|it| it.constraint.as_str());
    constraints.chain(memory.unresolved_issues.iter().map(String::as_str)).collect()
}

proptest! {
    #[test]
    fn nothing_that_holds_disappears_unless_it_is_named(
        former in any_memory(),
        new in any_memory(),
        named in prop::collection::vec(sentence(), 0..3),
        since in any_since(),
    ) {
        let named: Vec<Resolved> = named.iter().map(|item| resolved(item)).collect();
        let answer = Answer { memory: new.clone(), resolved: named.clone() };
        let after = carry_over(Some(&former), answer, &since).memory;
        let is_named = |text: &str| {
            named.iter().map(|it| &it.item).chain(&since.mended).any(|named| says(named, text))
        };
        let is_there = |text: &str| texts(&after).iter().any(|there| says(there, text));
        for text in texts(&former) {
            prop_assert!(is_there(text) || is_named(text), "{text}");
        }
        for text in texts(&new) {
            prop_assert!(is_there(text), "{text}");
        }
        for found in &since.found {
            let (alone, whole) = (&found.constraint, &found.entry.constraint);
            let is_known = is_there(alone) || is_there(whole);
            prop_assert!(is_known || is_named(alone) || is_named(whole), "{whole}");
        }
        for mark in &after.carried_over {
            prop_assert!(texts(&after).contains(&mark.as_str()));
        }
    }

    #[test]
    fn carrying_over_twice_changes_nothing(
        former in any_memory(),
        new in any_memory(),
        named in prop::collection::vec(sentence(), 0..3),
        since in any_since(),
    ) {
        let named: Vec<Resolved> = named.iter().map(|item| resolved(item)).collect();
        let answer = Answer { memory: new, resolved: named.clone() };
        let once = carry_over(Some(&former), answer, &since).memory;
        let again = Answer { memory: once.clone(), resolved: named };
        prop_assert_eq!(&carry_over(Some(&former), again, &since).memory, &once);
    }

    #[test]
    fn clipping_twice_changes_nothing(text in "[a ä\n]{380,420}") {
        let once = clip(&text);
        prop_assert!(once.chars().count() <= ITEM_CHARS);
        prop_assert_eq!(clip(&once), once);
    }
}

/// A thousand compactions that forget everything and find something new each time.
#[test]
fn a_memory_stays_small_after_a_thousand_compactions() {
    let mut known: Option<Memory> = None;
    let mut most = 0;
    for round in 0..1_000 {
        let long = format!("round {round} {}", "ä".repeat(2_000));
        let mut since = Since::default();
        since.found.push(found(&clip(&format!("limit {round} holds")), "so be it"));
        let new = memory(&[&long], &[&format!("issue {round} is open")]);
        let answer = Answer { memory: new, resolved: Vec::new() };
        let compacted = carry_over(known.as_ref(), answer, &since);
        most = most.max(serde_json::to_string(&compacted).expect("serializable").len());
        known = Some(compacted.memory);
    }
    let known = known.expect("a memory");
    assert_eq!((known.active_constraints.len(), known.unresolved_issues.len()), (100, 100));
    assert!(most < 400_000, "{most}");
}
