//! Folds control requests into the state and compares with a small model; then checks the
//! chosen step.

use proptest::prelude::*;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::budget::Budget;
use ralph_model::control::{ControlRequestId, UserNote, with_notes};
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{IterationNumber, Role, RunId, WorkerId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{ParallelPolicy, PromptSource, Recipe, TaskWork};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{JobAssignment, WorkerShare};

use super::*;
use crate::ports::{Moment, StopRequest};
use crate::run_loop::choose::{self, Step};
use crate::run_loop::fold::{apply_event, fold_events, start_state};

/// An event to record.
#[derive(Debug, Clone)]
enum Happening {
    Asked(ControlRequest),
    Paused,
    Resumed,
    Iteration(Role),
    Call,
}

fn request() -> impl Strategy<Value = ControlRequest> {
    prop_oneof![
        Just(ControlRequest::Pause),
        Just(ControlRequest::Resume),
        Just(ControlRequest::Stop),
        Just(ControlRequest::StopNow),
        Just(ControlRequest::Skip { task: TaskId("a".into()) }),
        "[a-c ]{0,3}".prop_map(|text| ControlRequest::Note { text }),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => request().prop_map(Happening::Asked),
        1 => Just(Happening::Paused),
        1 => Just(Happening::Resumed),
        1 => prop_oneof![Just(Role::Prompt), Just(Role::Review)].prop_map(Happening::Iteration),
        2 => Just(Happening::Call),
    ]
}

fn begun() -> RunState {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let recipe = Recipe::new(Work::Prompt(PromptSource::Text("base".into())), agent);
    let event = Event::RunStarted {
        journal: 1,
        version: "0".into(),
        run: RunId("r".into()),
        project: "/p".into(),
        recipe: Box::new(recipe),
    };
    let first = Recorded { seq: 1, at: Timestamp(0), ran: Millis::ZERO, event };
    start_state(&first).expect("a beginning")
}

fn after(state: &mut RunState, event: Event) {
    let seq = state.seq + 1;
    let at = Timestamp(i64::try_from(seq).expect("small") * 1_000);
    let recorded = Recorded { seq, at, ran: Millis::ZERO, event };
    apply_event(state, &recorded).expect("it fits");
}

fn asked(state: &RunState, request: ControlRequest) -> Event {
    let refused = find_refusal(state, &request);
    let (id, at) = (ControlRequestId(format!("{:015}-x", state.seq)), Timestamp(500));
    Event::ControlRequested { asked: SubmittedRequest { id, at, by: None, request }, refused }
}

fn called(number: u32) -> Event {
    Event::Asked {
        ask: ralph_model::ids::AskNumber(number),
        role: Role::Prompt,
        purpose: ralph_model::event::Purpose::Work,
        agent: AgentKind::Text,
        command: Vec::new(),
        prompt_chars: 4,
        prompt_start: "base".into(),
        budget: Vec::new(),
        token: None,
        session: None,
        instructions: Vec::new(),
    }
}

/// What the state must come to.
#[derive(Debug, Default, PartialEq)]
struct Model {
    pause: &'static str,
    stop: bool,
    waiting: Vec<String>,
    delivered: Vec<String>,
    role: Option<Role>,
}

impl Model {
    fn take(&mut self, happening: &Happening) {
        match happening {
            Happening::Asked(ControlRequest::Pause) if self.pause.is_empty() => {
                self.pause = "asked";
            }
            Happening::Asked(ControlRequest::Resume) => self.pause = "",
            Happening::Asked(ControlRequest::Stop | ControlRequest::StopNow) => self.stop = true,
            Happening::Asked(ControlRequest::Note { text })
                if !text.trim().is_empty() && self.waiting.len() < MAX_WAITING_NOTES =>
            {
                self.waiting.push(text.clone());
            }
            Happening::Paused => self.pause = "since",
            Happening::Resumed => (self.pause, self.stop) = ("", false),
            Happening::Iteration(role) => (self.role, self.delivered) = (Some(*role), Vec::new()),
            Happening::Call if self.role == Some(Role::Prompt) => {
                self.delivered.append(&mut self.waiting);
            }
            Happening::Asked(_) | Happening::Call => {}
        }
    }

    fn of(state: &RunState) -> Self {
        let texts = |notes: &[UserNote]| notes.iter().map(|note| note.text.clone()).collect();
        Self {
            pause: match state.control.pause {
                Pause::No => "",
                Pause::Asked { .. } => "asked",
                Pause::Since { .. } => "since",
            },
            stop: state.control.stop.is_some(),
            waiting: texts(&state.control.notes),
            delivered: state.current.as_ref().map(|it| texts(&it.notes)).unwrap_or_default(),
            role: state.current.as_ref().map(|it| it.role),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_fold_keeps_to_the_model(happenings in prop::collection::vec(happening(), 0..40)) {
        let (mut state, mut model, mut iterations, mut calls) = (begun(), Model::default(), 0, 0);
        for happening in &happenings {
            let event = match happening {
                Happening::Asked(request) => asked(&state, request.clone()),
                Happening::Paused => Event::Paused,
                Happening::Resumed => Event::RunResumed { version: "0".into(), recipe: None },
                Happening::Iteration(role) => {
                    iterations += 1;
                    calls = 0;
                    let iteration = IterationNumber(iterations);
                    Event::IterationStarted { iteration, role: *role, task: None }
                }
                Happening::Call if state.current.is_none() => continue,
                Happening::Call => {
                    calls += 1;
                    called(calls)
                }
            };
            after(&mut state, event);
            model.take(happening);
            prop_assert_eq!(&Model::of(&state), &model);
            prop_assert!(state.control.skips.is_empty(), "a prompt has no tasks");
            let moment = Moment { now: Timestamp(0), ran: Millis::ZERO, stop: StopRequest::Continue };
            let step = choose::choose_next_step(&state, moment);
            match (model.stop, model.pause) {
                (true, _) => prop_assert_eq!(step, Step::Finish(Outcome::Interrupted)),
                (false, "") => prop_assert_ne!(step, Step::WaitWhilePaused),
                (false, _) => prop_assert!(
                    matches!(step, Step::WaitWhilePaused | Step::Recover { .. } | Step::Finish(_)),
                    "{:?}", step
                ),
            }
        }
    }
}

#[test]
fn waiting_requests_are_applied_in_order() {
    let state = begun();
    let requests = [
        ControlRequest::Pause,
        ControlRequest::Pause,
        ControlRequest::Resume,
        ControlRequest::Stop,
    ];
    let waiting: Vec<SubmittedRequest> = (0..)
        .zip(requests)
        .map(|(at, request)| SubmittedRequest {
            id: ControlRequestId(format!("{at}")),
            at: Timestamp(at),
            by: None,
            request,
        })
        .collect();
    let pauses: Vec<Pause> = (0..=4)
        .map(|count| apply_waiting_requests(&state, &waiting[..count]).control.pause)
        .collect();
    let asked = Pause::Asked { at: Timestamp(0) };
    assert_eq!(pauses, [Pause::No, asked, asked, Pause::No, Pause::No]);
    assert_eq!(apply_waiting_requests(&state, &waiting).control.stop, Some(Timestamp(3)));
}

#[test]
fn notes_are_appended_to_a_prompt_with_their_authors() {
    let note = |by: Option<&str>, text: &str| UserNote {
        at: Timestamp(0),
        by: by.map(str::to_owned),
        text: text.to_owned(),
    };
    assert_eq!(with_notes("base\n".into(), &[]), "base\n");
    assert_eq!(
        with_notes("base\n".into(), &[note(Some("ann"), " one\n"), note(None, "two")]),
        "base\n\n# A note from ann\n\none\n\n# A note from the person who watches this run\n\ntwo"
    );
}

/// Returns a run with two workers, of which the one on `a` is live.
fn parallel() -> RunState {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe::new(Work::Tasks(TaskWork::new("plan.json")), agent);
    recipe.parallel = Some(ParallelPolicy::new(2));
    let first = Event::RunStarted {
        journal: 3,
        version: "0".into(),
        run: RunId("r".into()),
        project: "/p".into(),
        recipe: Box::new(recipe),
    };
    let job = |task: &str| Event::JobAssigned {
        assignment: Box::new(JobAssignment {
            worker: WorkerId(format!("r-{task}-r1")),
            task: TaskId(task.into()),
            round: 1,
            base: None,
            start_tree: None,
            conflicts: Vec::new(),
            compacts: None,
            share: WorkerShare { budget: Budget::default(), iterations: 1 },
        }),
    };
    let lost = Event::WorkerLost {
        worker: Some(WorkerId("r-b-r1".into())),
        reason: "x".into(),
        has_ended: false,
    };
    let events = [first, job("a"), job("b"), lost];
    let recorded = events.into_iter().zip(1..).map(|(event, seq)| Recorded {
        seq,
        at: Timestamp(0),
        ran: Millis::ZERO,
        event,
    });
    fold_events(&recorded.collect::<Vec<_>>()).expect("the events fit")
}

#[test]
fn a_note_for_a_task_needs_a_worker_at_work_on_it() {
    let note = |task: &str, text: &str| ControlRequest::TaskNote {
        task: TaskId(task.into()),
        text: text.into(),
    };
    let state = parallel();
    assert_eq!(find_refusal(&state, &note("a", "x")), None);
    for (request, expect) in [
        (note("a", " "), "it is empty"),
        (note("b", "x"), "no worker is at work on b"),
        (note("c", "x"), "no worker is at work on c"),
    ] {
        assert_eq!(find_refusal(&state, &request).as_deref(), Some(expect), "{request:?}");
    }
    let refused = find_refusal(&begun(), &note("a", "x"));
    assert_eq!(refused.as_deref(), Some("the run works on one task at a time"));
}

#[test]
fn notes_for_workers_do_not_wait_in_the_coordinator() {
    let mut state = parallel();
    for number in 0..=MAX_WAITING_NOTES {
        let request = ControlRequest::Note { text: "x".into() };
        assert_eq!(find_refusal(&state, &request), None, "note {number}");
        let id = ControlRequestId(number.to_string());
        let asked = SubmittedRequest { id, at: Timestamp(0), by: None, request };
        after(&mut state, Event::ControlRequested { asked, refused: None });
    }
    assert_eq!(state.control.notes, []);
}
