//! What an attempt at a job leaves to the next one on another machine: the end of its last
//! iteration.
//!
//! Not here: how journals and commits travel.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_model::event::{Event, Recorded};
use ralph_model::recipe::{Recipe, Work};
use ralph_model::worktree::{Checkpoint, TreeId};

/// Where the journal of a worker can be cut so that another machine continues from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// How many events happened until then.
    pub events: usize,
    /// How many iterations have ended.
    pub iterations: u32,
    /// What the next iteration starts from.
    pub start: Checkpoint,
    /// The trees in which iterations began, and that of restored work as 0.
    pub trees: BTreeMap<u32, TreeId>,
}

/// Returns the last start of an iteration that follows an ended one and was free of secrets. None if
/// no iteration has ended, or the state after it is not recorded yet.
#[expect(clippy::wildcard_enum_match_arm, reason = "few events begin or end an iteration")]
pub fn find_resume_point(events: &[Recorded]) -> Option<ResumePoint> {
    let mut trees = BTreeMap::new();
    let (mut open, mut ended, mut found) = ((0, 0), 0, None);
    let mut has_secrets = false;
    for (index, recorded) in events.iter().enumerate() {
        match &recorded.event {
            Event::RunStarted { recipe, .. } => {
                let restored = recipe.task_work().and_then(|work| work.restored_onto.as_deref());
                if let Some(Checkpoint::Git { tree: Some(tree), .. }) = restored {
                    trees.insert(0, tree.clone());
                }
            }
            Event::IterationStarted { iteration, .. } => open = (index, iteration.0),
            Event::IterationEnded { iteration } => ended = iteration.0,
            Event::Observed { observation: Some(observation), .. } => {
                has_secrets = !observation.leaks.is_empty();
            }
            // What must not be committed must not be pushed either.
            Event::Checkpointed { .. } if has_secrets => {}
            Event::Checkpointed {
                checkpoint: start @ Checkpoint::Git { head: Some(_), tree: Some(tree), .. },
            } => {
                let (events, iteration) = open;
                trees.insert(iteration, tree.clone());
                if ended > 0 {
                    let start = start.clone();
                    found = Some((events, ended, start));
                }
            }
            _ => {}
        }
    }
    let (events, iterations, start) = found?;
    Some(ResumePoint { events, iterations, start, trees })
}

/// Makes the journal of another machine that of a run in a directory of this one, with the recipe
/// that this machine would start the job with.
pub fn adapt_journal(events: &mut [Recorded], directory: &Path, own: &Recipe) {
    for recorded in events {
        if let Event::RunStarted { project, recipe, .. } = &mut recorded.event {
            directory.clone_into(project);
            let mut adapted = own.clone();
            adapted.uncommitted_before.clone_from(&recipe.uncommitted_before);
            if let (Work::Tasks(work), Work::Tasks(before)) = (&mut adapted.work, &recipe.work) {
                work.restored_onto.clone_from(&before.restored_onto);
            }
            **recipe = adapted;
        }
        // Paths of the other machine.
        if let Event::RunResumed { recipe, .. } = &mut recorded.event {
            *recipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::{IterationNumber, Role};
    use ralph_model::units::{Millis, Timestamp};
    use ralph_model::worktree::{CommitId, Observation, SecretLeak, TreeDiff};

    use super::*;

    fn journal(events: Vec<Event>) -> Vec<Recorded> {
        let record = |(index, event)| Recorded {
            seq: index as u64 + 1,
            at: Timestamp(0),
            ran: Millis::ZERO,
            event,
        };
        events.into_iter().enumerate().map(record).collect()
    }

    fn begin(number: u32) -> [Event; 2] {
        let iteration = IterationNumber(number);
        [
            Event::IterationStarted { iteration, role: Role::Implement, task: None },
            checkpoint(number),
        ]
    }

    fn checkpoint(number: u32) -> Event {
        Event::Checkpointed { checkpoint: state(number) }
    }

    fn state(number: u32) -> Checkpoint {
        let head = Some(CommitId("head".into()));
        Checkpoint::Git { head, branch: None, tree: Some(TreeId(format!("tree {number}"))) }
    }

    /// An agent wrote a secret into a file.
    fn observe_secret() -> Event {
        let leak = SecretLeak { path: "a".into(), line: 1, what: "a web token".into() };
        let observation = Observation {
            leaks: vec![leak],
            ..Observation::new(TreeId("tree".into()), TreeDiff::Dirty)
        };
        Event::Observed { observation: Some(observation), kept: None }
    }

    fn end(number: u32) -> Event {
        Event::IterationEnded { iteration: IterationNumber(number) }
    }

    #[test]
    fn work_continues_after_the_last_iteration_whose_result_was_recorded() {
        let mut events: Vec<Event> = begin(1).into();
        assert_eq!(find_resume_point(&journal(events.clone())), None);
        events.push(end(1));
        // Its files are not on a checkpoint yet.
        assert_eq!(find_resume_point(&journal(events.clone())), None);
        events.extend(begin(2));
        let trees = |count: u32| (1..=count).map(|it| (it, TreeId(format!("tree {it}")))).collect();
        let first = ResumePoint { events: 3, iterations: 1, start: state(2), trees: trees(2) };
        assert_eq!(find_resume_point(&journal(events.clone())), Some(first.clone()));
        events.push(end(2));
        assert_eq!(find_resume_point(&journal(events.clone())), Some(first));
        events.extend(begin(3));
        let mut leaking = events.clone();
        leaking.insert(6, observe_secret());
        assert_eq!(find_resume_point(&journal(leaking)).map(|it| it.iterations), Some(1));
        let second = ResumePoint { events: 6, iterations: 2, start: state(3), trees: trees(3) };
        assert_eq!(find_resume_point(&journal(events)), Some(second));
    }
}
