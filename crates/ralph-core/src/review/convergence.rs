//! Whether the reviews of a task get anywhere, or ask for the same thing again and again.
//!
//! It decides nothing: the cap ends every cycle. It tells a person which tasks need one. Not
//! here: what a single review decides.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::CriterionCheck;
use crate::event::TreeId;
use crate::text;

/// So many reviews with one and the same complaint do not get anywhere.
const ALIKE: usize = 3;

/// How many complaints are remembered for a task.
const REMEMBERED: usize = 8;

/// How much of a complaint is remembered.
const CHARS: usize = 2_000;

/// A review that asked for changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// The number of the review.
    pub review: u32,
    /// What it wanted to be mended.
    pub feedback: String,
    /// The criteria it called met.
    pub met: Vec<String>,
    /// The criteria it called unmet.
    pub unmet: Vec<String>,
    /// What it looked at.
    pub tree: Option<TreeId>,
}

impl Complaint {
    /// Returns what is remembered of a review.
    pub fn new(
        review: u32,
        feedback: &str,
        criteria: &[CriterionCheck],
        tree: Option<TreeId>,
    ) -> Self {
        let with = |met| {
            let checks = criteria.iter().filter(move |check| check.met == met);
            checks.map(|check| check.criterion.clone()).collect()
        };
        let feedback = text::excerpt_of(feedback, CHARS);
        Self { review, feedback, met: with(true), unmet: with(false), tree }
    }

    /// Two complaints are alike if they call the same criteria unmet, or say nearly the same in
    /// nearly the same words. Numbers do not count: the same fault moves from line to line.
    fn is_like(&self, other: &Self) -> bool {
        let unmet = |complaint: &Self| complaint.unmet.iter().cloned().collect::<BTreeSet<_>>();
        if !self.unmet.is_empty() || !other.unmet.is_empty() {
            return unmet(self) == unmet(other);
        }
        let (ours, theirs) = (words(&self.feedback), words(&other.feedback));
        let common = ours.intersection(&theirs).count();
        let all = ours.union(&theirs).count();
        all > 0 && common * 5 >= all * 4
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !letter.is_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// How the reviews of a task fail to get anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "as")]
pub enum Divergence {
    /// The same complaint came again and again.
    SameComplaint {
        /// How often in a row.
        times: u32,
    },
    /// A review calls unmet what the one before it called met.
    Contradiction {
        /// The criterion.
        criterion: String,
    },
    /// The work is once more what an earlier review refused.
    BackAgain {
        /// The number of that review.
        review: u32,
    },
}

impl Divergence {
    /// Returns it in words.
    pub fn words(&self) -> String {
        match self {
            Self::SameComplaint { times } => {
                format!("{times} reviews in a row ask for the same thing")
            }
            Self::Contradiction { criterion } => {
                format!("the last review calls unmet what the one before called met: {criterion}")
            }
            Self::BackAgain { review } => {
                format!("the work is once more what review {review} refused")
            }
        }
    }
}

/// Returns how a new complaint shows that the reviews do not get anywhere, if it does.
pub(crate) fn assess(earlier: &[Complaint], new: &Complaint) -> Option<Divergence> {
    let alike = earlier.iter().rev().take_while(|complaint| complaint.is_like(new)).count() + 1;
    if alike >= ALIKE {
        return Some(Divergence::SameComplaint { times: u32::try_from(alike).unwrap_or(u32::MAX) });
    }
    let same_tree = |complaint: &&Complaint| new.tree.is_some() && complaint.tree == new.tree;
    if let Some(before) = earlier.iter().find(same_tree) {
        return Some(Divergence::BackAgain { review: before.review });
    }
    let last = earlier.last()?;
    let flipped = new.unmet.iter().find(|criterion| last.met.contains(criterion))?;
    Some(Divergence::Contradiction { criterion: flipped.clone() })
}

/// Remembers a complaint.
pub fn remember(complaints: &mut Vec<Complaint>, new: Complaint) {
    complaints.push(new);
    let surplus = complaints.len().saturating_sub(REMEMBERED);
    complaints.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(review: u32, feedback: &str) -> Complaint {
        Complaint::new(review, feedback, &[], Some(TreeId(format!("t{review}"))))
    }

    fn checked(review: u32, criteria: &[(&str, bool)]) -> Complaint {
        let checks: Vec<CriterionCheck> = criteria
            .iter()
            .map(|(criterion, met)| CriterionCheck {
                criterion: (*criterion).to_owned(),
                met: *met,
                evidence: String::new(),
            })
            .collect();
        Complaint::new(review, &format!("feedback {review}"), &checks, None)
    }

    #[track_caller]
    fn check(complaints: &[Complaint], expect: Option<&str>) {
        let (new, earlier) = complaints.split_last().expect("a complaint");
        assert_eq!(assess(earlier, new).map(|it| it.words()).as_deref(), expect);
    }

    #[test]
    fn the_same_complaint_three_times_is_no_progress() {
        let again = |review, line| {
            said(review, &format!("src/a.rs:{line}: the empty input is not handled, and panics"))
        };
        check(&[again(1, 7), again(2, 12)], None);
        check(
            &[again(1, 7), again(2, 12), again(3, 9)],
            Some("3 reviews in a row ask for the same thing"),
        );
        // Something else in between begins the count anew.
        check(&[again(1, 7), again(2, 8), said(3, "name the constant"), again(4, 9)], None);
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
    fn a_review_that_takes_back_what_the_last_one_granted_is_shown() {
        check(
            &[checked(1, &[("a", true), ("b", false)]), checked(2, &[("a", false), ("b", true)])],
            Some("the last review calls unmet what the one before called met: a"),
        );
        check(&[checked(1, &[("a", false)]), checked(2, &[("a", true), ("b", false)])], None);
    }

    #[test]
    fn work_that_comes_back_to_a_refused_state_is_shown() {
        let mut third = said(3, "something new");
        third.tree = Some(TreeId("t1".into()));
        check(
            &[said(1, "use a list"), said(2, "use a map"), third],
            Some("the work is once more what review 1 refused"),
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut complaints = Vec::new();
        (1..=20).for_each(|review| remember(&mut complaints, said(review, "x")));
        assert_eq!(complaints.len(), REMEMBERED);
        assert_eq!(complaints[0].review, 13);
    }
}
