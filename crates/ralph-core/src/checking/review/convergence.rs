//! Detects reviews of a task that make no progress, because they ask for the same thing again and
//! again.
//!
//! It decides nothing: the cap ends every cycle. It reports to the user which tasks need a
//! person. Not here: the decision of a single review.

use std::collections::BTreeSet;

use ralph_model::review::{CriterionCheck, Divergence, ReviewComplaint};
use ralph_model::text;
use ralph_model::worktree::TreeId;

/// This many reviews in a row with the same complaint count as no progress.
const MIN_ALIKE: usize = 3;

/// How many complaints are kept for a task.
const MAX_KEPT: usize = 8;

/// How many characters of a complaint are kept.
const FEEDBACK_CHARS: usize = 2_000;

fn split_words(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !letter.is_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Returns the divergence that a new complaint reveals, if any.
pub(crate) fn find_divergence(
    earlier: &[ReviewComplaint],
    new: &ReviewComplaint,
) -> Option<Divergence> {
    let alike =
        earlier.iter().rev().take_while(|complaint| is_similar(&complaint, new)).count() + 1;
    if alike >= MIN_ALIKE {
        return Some(Divergence::SameComplaint { times: u32::try_from(alike).unwrap_or(u32::MAX) });
    }
    let same_tree = |complaint: &&ReviewComplaint| new.tree.is_some() && complaint.tree == new.tree;
    if let Some(before) = earlier.iter().find(same_tree) {
        return Some(Divergence::BackAgain { review: before.review });
    }
    let last = earlier.last()?;
    let flipped = new.unmet.iter().find(|criterion| last.met.contains(criterion))?;
    Some(Divergence::Contradiction { criterion: flipped.clone() })
}

/// Adds a complaint and drops the oldest ones beyond the limit.
pub fn push_complaint(complaints: &mut Vec<ReviewComplaint>, new: ReviewComplaint) {
    complaints.push(new);
    let surplus = complaints.len().saturating_sub(MAX_KEPT);
    complaints.drain(..surplus);
}

/// Returns the record of a review.
pub fn build_complaint(
    review: u32,
    feedback: &str,
    criteria: &[CriterionCheck],
    tree: Option<TreeId>,
) -> ReviewComplaint {
    let with = |met| {
        let checks = criteria.iter().filter(move |check| check.met == met);
        checks.map(|check| check.criterion.clone()).collect()
    };
    let feedback = text::excerpt_text(feedback, FEEDBACK_CHARS);
    ReviewComplaint { review, feedback, met: with(true), unmet: with(false), tree }
}

/// Two complaints are alike if they call the same criteria unmet, or use nearly the same
/// words. Numbers do not count: the same bug moves from line to line.
fn is_similar(complaint: &ReviewComplaint, other: &ReviewComplaint) -> bool {
    let unmet =
        |complaint: &ReviewComplaint| complaint.unmet.iter().cloned().collect::<BTreeSet<_>>();
    if !complaint.unmet.is_empty() || !other.unmet.is_empty() {
        return unmet(complaint) == unmet(other);
    }
    let (ours, theirs) = (split_words(&complaint.feedback), split_words(&other.feedback));
    let common = ours.intersection(&theirs).count();
    let all = ours.union(&theirs).count();
    all > 0 && common * 5 >= all * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(review: u32, feedback: &str) -> ReviewComplaint {
        build_complaint(review, feedback, &[], Some(TreeId(format!("t{review}"))))
    }

    fn checked(review: u32, criteria: &[(&str, bool)]) -> ReviewComplaint {
        let checks: Vec<CriterionCheck> = criteria
            .iter()
            .map(|(criterion, met)| CriterionCheck {
                criterion: (*criterion).to_owned(),
                met: *met,
                evidence: String::new(),
            })
            .collect();
        build_complaint(review, &format!("feedback {review}"), &checks, None)
    }

    #[track_caller]
    fn check(complaints: &[ReviewComplaint], expect: Option<&str>) {
        let (new, earlier) = complaints.split_last().expect("a complaint");
        assert_eq!(find_divergence(earlier, new).map(|it| it.description()).as_deref(), expect);
    }

    #[test]
    fn the_same_complaint_three_times_is_no_progress() {
        let again = |review, line| {
            complaint(
                review,
                &format!("src/a.rs:{line}: the empty input is not handled, and panics"),
            )
        };
        check(&[again(1, 7), again(2, 12)], None);
        check(
            &[again(1, 7), again(2, 12), again(3, 9)],
            Some("3 reviews in a row ask for the same thing"),
        );
        // Another complaint in between restarts the count.
        check(&[again(1, 7), again(2, 8), complaint(3, "name the constant"), again(4, 9)], None);
        check(
            &[
                checked(1, &[("a", false)]),
                checked(2, &[("a", false)]),
                checked(3, &[("a", false)]),
            ],
            Some("3 reviews in a row ask for the same thing"),
        );
        check(
            &[
                checked(1, &[("a", false)]),
                checked(2, &[("b", false)]),
                checked(3, &[("a", false)]),
            ],
            None,
        );
    }

    #[test]
    fn a_review_that_contradicts_the_previous_one_is_reported() {
        check(
            &[checked(1, &[("a", true), ("b", false)]), checked(2, &[("a", false), ("b", true)])],
            Some("the last review calls a criterion unmet that the previous one called met: a"),
        );
        check(&[checked(1, &[("a", false)]), checked(2, &[("a", true), ("b", false)])], None);
    }

    #[test]
    fn work_that_returns_to_a_rejected_state_is_reported() {
        let mut third = complaint(3, "something new");
        third.tree = Some(TreeId("t1".into()));
        check(
            &[complaint(1, "use a list"), complaint(2, "use a map"), third],
            Some("the work is again in the state that review 1 rejected"),
        );
    }

    #[test]
    fn complaints_are_limited() {
        let mut complaints = Vec::new();
        (1..=20).for_each(|review| push_complaint(&mut complaints, complaint(review, "x")));
        assert_eq!(complaints.len(), MAX_KEPT);
        assert_eq!(complaints[0].review, 13);
    }
}
