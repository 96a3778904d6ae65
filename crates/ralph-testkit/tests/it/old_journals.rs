//! Journals of older versions, in `ralph/tests/data/journals`: every prefix folds, and the step that
//! is chosen after it is the one that recorded the next event. `scripts/record-journals` made them;
//! `old_journals` in the tests of the binary resumes their runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::ports::{Moment, StopRequest};
use ralph_core::run_loop::choose::{Step, choose_next_step};
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::phase::Phase;
use ralph_model::worktree::Landed;

/// The workflows, each with the roles whose iterations were cut off in every phase.
const CUT_OFF: [(&str, &[Role]); 4] = [
    ("prompt", &[Role::Prompt]),
    ("specs", &[Role::Plan, Role::Build]),
    ("plan", &[Role::Plan]),
    ("tasks", &[Role::Implement, Role::Merge]),
];

fn find_journals() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph/tests/data/journals");
    let entries = fs::read_dir(directory).expect("the journals").flatten();
    let mut found: Vec<PathBuf> = entries.map(|it| it.path().join("journal.jsonl")).collect();
    found.retain(|path| path.exists());
    found.sort();
    found
}

/// Returns whether a step records an event.
fn can_record(step: &Step, event: &Event) -> bool {
    let landed = match event {
        Event::Landed { landed } => Some(landed),
        _ => None,
    };
    match step {
        Step::ReadTasks => matches!(event, Event::TasksRead { .. }),
        Step::WriteTasks => matches!(event, Event::TasksWritten),
        Step::BeginBaseline => matches!(event, Event::BaselineStarted { .. }),
        Step::Baseline { gate: _, .. } => matches!(event, Event::BaselineChecked { .. }),
        Step::Begin { iteration: ours, role: our_role, task: our_task } => match event {
            Event::IterationStarted { iteration, role, task } => {
                (iteration, role, task) == (ours, our_role, our_task)
            }
            Event::TasksRead { .. } => true,
            _ => false,
        },
        Step::Checkpoint(_) => matches!(event, Event::Checkpointed { .. }),
        Step::Recover { ask: ours, .. } => {
            matches!(event, Event::Replied { ask, .. } if ask == ours)
        }
        Step::Ask { ask: ours, purpose: our_purpose, .. } => {
            matches!(event, Event::Asked { ask, purpose, .. } if (ask, purpose) == (ours, our_purpose))
        }
        Step::Wait { until: ours, reason: our_reason } => {
            matches!(event, Event::Waiting { until, reason } if (until, reason) == (ours, our_reason))
        }
        Step::RecordPlanState => matches!(event, Event::PlanSeen { .. }),
        Step::Observe => matches!(event, Event::Observed { .. } | Event::AgentListRead { .. }),
        Step::Check { .. } | Step::RecordVerdict { .. } | Step::Reuse { .. } => {
            matches!(event, Event::GateChecked { .. })
        }
        // Version 1 recorded refusals as gates.
        Step::Refuse(_) => matches!(event, Event::Refused { .. } | Event::GateChecked { .. }),
        // Version 1 compared the tree before these events and recorded nothing.
        Step::Recheck => {
            matches!(event, Event::Rechecked { .. } | Event::Judged { .. } | Event::Asked { .. })
        }
        Step::Judge => matches!(event, Event::Judged { .. }),
        Step::WriteList => matches!(landed, Some(Landed::ListWritten)),
        Step::Survey => matches!(landed, Some(Landed::Surveyed { .. })),
        Step::DiscardMessageSideEffects => matches!(landed, Some(Landed::MessageChecked { .. })),
        Step::Commit { .. } => {
            matches!(landed, Some(Landed::Committed { .. } | Landed::NothingToCommit))
        }
        Step::FindCommit => matches!(landed, Some(Landed::Committed { .. })),
        Step::Scm { .. } => matches!(landed, Some(Landed::ScmRan { .. })),
        Step::Rollback => matches!(landed, Some(Landed::RolledBack { .. })),
        Step::SaveToFailureBranch => matches!(landed, Some(Landed::SavedToFailureBranch { .. })),
        Step::Skip { .. } => matches!(event, Event::TaskSkipped { .. }),
        Step::WaitWhilePaused => matches!(event, Event::Paused),
        Step::StartJob(_) => matches!(event, Event::JobAssigned { .. }),
        Step::PollWorkers { .. } => matches!(
            event,
            Event::WorkerStarted { .. }
                | Event::WorkerProgressed { .. }
                | Event::WorkerLimited { .. }
                | Event::WorkerEnded { .. }
                | Event::WorkerLost { .. }
        ),
        Step::CancelWorker { .. } => matches!(event, Event::WorkerCanceled { .. }),
        Step::MergeCandidate => matches!(event, Event::CandidateMerged { .. }),
        Step::EndIteration(ours) => {
            matches!(event, Event::IterationEnded { iteration } if iteration == ours)
        }
        Step::Finish(ours) => match event {
            Event::RunEnded { outcome, .. } => outcome == ours,
            _ => restores_list(event),
        },
    }
}

/// Returns whether an event belongs to the end of a run, which restores the task list.
fn restores_list(event: &Event) -> bool {
    matches!(event, Event::TasksRead { .. } | Event::TasksWritten | Event::AgentListRead { .. })
}

/// Returns how the run ends, if the first of these events belongs to its end.
fn find_outcome(events: &[Recorded]) -> Option<&Outcome> {
    match events.iter().map(|it| &it.event).find(|it| !restores_list(it))? {
        Event::RunEnded { outcome, .. } => Some(outcome),
        _ => None,
    }
}

/// Returns whether an event only reports something, or what the user wants.
fn is_beside_steps(event: &Event) -> bool {
    matches!(
        event,
        Event::Warned { .. } | Event::ControlRequested { .. } | Event::RunResumed { .. }
    )
}

/// Folds a journal, and returns the workflow and the open iteration's role and phase.
fn check(path: &Path) -> Option<(String, Role, &'static str)> {
    let text = fs::read_to_string(path).expect("a journal");
    let events: Vec<Recorded> = text
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()))
        })
        .collect();
    let mut state = start_state(&events[0]).expect("a first event");
    for (place, recorded) in events.iter().enumerate().skip(1) {
        let event = &recorded.event;
        let outcome = find_outcome(&events[place..]);
        let wanted = match outcome {
            Some(Outcome::Interrupted) => StopRequest::Stop,
            _ => StopRequest::Continue,
        };
        // The step failed, whichever it was.
        let has_failed = matches!(outcome, Some(Outcome::GitFailed { .. }));
        let moment = Moment { now: recorded.at, ran: recorded.ran, stop: wanted };
        let step = choose_next_step(&state, moment);
        assert!(
            has_failed || is_beside_steps(event) || can_record(&step, event),
            "{}: before event {} the step is {step:?}, and the event {event:?}",
            path.display(),
            recorded.seq
        );
        apply_event(&mut state, recorded)
            .unwrap_or_else(|error| panic!("{}, event {}: {error}", path.display(), recorded.seq));
    }
    let current = state.current.as_ref()?;
    let phase = match current.phase {
        Phase::Started => "started",
        Phase::Working(_) => "working",
        Phase::Checking(_) => "checking",
        Phase::Landing(_) => "landing",
    };
    Some((state.recipe.workflow.clone(), current.role, phase))
}

#[test]
fn after_every_event_the_step_is_chosen_that_recorded_the_next() {
    let cut_off: BTreeSet<_> = find_journals().iter().filter_map(|it| check(it)).collect();
    for (workflow, roles) in CUT_OFF {
        for role in roles {
            for phase in ["started", "working", "checking", "landing"] {
                let place = (workflow.to_owned(), *role, phase);
                // The step of a merge that takes the place of an agent is one of its checks.
                let is_there =
                    cut_off.contains(&place) || (*role, phase) == (Role::Merge, "working");
                assert!(is_there, "no journal ends in {place:?}: {cut_off:#?}");
            }
        }
    }
}
