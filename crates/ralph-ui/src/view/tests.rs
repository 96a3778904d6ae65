//! Whole small runs as people see them. The state is that of real events.

mod agent;
pub(crate) mod parallel;
mod run;
mod writing;

use std::cell::Cell;

use expect_test::Expect;
use jiff::tz::TimeZone;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_core::run_loop::judge::judge_iteration;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::{Speaker, TextForm, Usage};
use ralph_model::budget::Budget;
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::Purpose;
use ralph_model::failure::Failure;
use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::recipe::{
    CommitPolicy, LandingPolicy, OnFailure, PromptSource, Recipe, RunLimits, Uncommitted, Work,
};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};
use ralph_model::worktree::{Checkpoint, CommitId};

use super::*;
use crate::style::tests::{pipe, terminal};
use crate::style::{StreamEnvironment, StyleChoice, StylePreferences};

/// 2026-11-14 23:15:00 UTC.
pub(crate) const START: Timestamp = Timestamp(1_794_698_100_000);

thread_local! {
    /// The time of the view's clock; each test has its own thread.
    static NOW: Cell<Timestamp> = const { Cell::new(START) };
}

/// A run whose events are sent to a view as they happen.
struct Stage {
    view: TerminalView<Vec<u8>>,
    course: Course,
}

/// The events of a run, and the state that follows from them.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) events: Vec<Recorded>,
    state: Option<RunState>,
    ran: Millis,
}

impl Course {
    pub(crate) fn now(&self) -> Timestamp {
        START.saturating_add(self.ran)
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.ran = self.ran.saturating_add(Millis::from_secs(seconds));
    }

    pub(crate) fn state(&self) -> &RunState {
        self.state.as_ref().expect("the run has begun")
    }

    /// Applies the next event.
    pub(crate) fn take(&mut self, event: Event) -> (&Recorded, &RunState) {
        let seq = self.events.len() as u64 + 1;
        let recorded = Recorded { seq, at: self.now(), ran: self.ran, event };
        match &mut self.state {
            Some(state) => apply_event(state, &recorded).expect("the event fits"),
            None => {
                self.state = Some(start_state(&recorded).expect("the first event"));
            }
        }
        self.events.push(recorded);
        (self.events.last().expect("it is there"), self.state())
    }
}

/// Returns the first event of a run.
pub(crate) fn started(recipe: Recipe) -> Event {
    Event::RunStarted {
        journal: 2,
        version: "0.1.0".into(),
        run: RunId("20261114-231500-k3f9".into()),
        project: "/home/ada/project".into(),
        recipe: Box::new(recipe),
    }
}

impl Stage {
    fn new(around: &StreamEnvironment) -> Self {
        Self::with(&StylePreferences::default(), around, Verbosity::Normal)
    }

    fn with(
        preferences: &StylePreferences,
        around: &StreamEnvironment,
        verbosity: Verbosity,
    ) -> Self {
        Self::of(options(preferences, around, verbosity))
    }

    fn of(options: ViewOptions) -> Self {
        let view = TerminalView::new(Vec::new(), options);
        NOW.set(START);
        Self { view, course: Course::default() }
    }

    /// Lets time pass.
    fn pass(&mut self, seconds: u64) -> &mut Self {
        self.course.pass(seconds);
        NOW.set(self.now());
        self
    }

    fn now(&self) -> Timestamp {
        self.course.now()
    }

    fn tell(&mut self, event: Event) -> &mut Self {
        let (recorded, state) = self.course.take(event);
        self.view.show_event(recorded, state);
        self
    }

    fn hear(&mut self, event: &AgentEvent) -> &mut Self {
        self.view.show_agent_event(event);
        self
    }

    fn begin(&mut self, recipe: Recipe) -> &mut Self {
        self.tell(started(recipe))
    }

    fn iterate(&mut self, number: u32) -> &mut Self {
        let iteration = IterationNumber(number);
        self.tell(Event::IterationStarted { iteration, role: Role::Prompt, task: None });
        let head = Some(CommitId("1a2b3c4d5e6f".into()));
        self.tell(Event::Checkpointed {
            checkpoint: Checkpoint::Git { head, branch: None, tree: None },
        })
    }

    fn ask(&mut self, number: u32, role: Role) -> &mut Self {
        self.tell(Event::Asked {
            ask: AskNumber(number),
            role,
            purpose: if role == Role::Message { Purpose::Message } else { Purpose::Work },
            agent: AgentKind::Claude,
            command: ["claude", "-p", "--model", "opus", "two words"].map(str::to_owned).to_vec(),
            prompt_chars: 1_234,
            prompt_start: format!("Do it well.\n{}", "and well ".repeat(40)),
            budget: Vec::new(),
            token: None,
            session: None,
            instructions: Vec::new(),
        })
    }

    /// Lets the agent give this final answer and exit.
    fn answer(&mut self, number: u32, words: &str) -> &mut Self {
        let text = AgentEvent::Text {
            text: words.into(),
            speaker: Speaker::Agent,
            form: TextForm::Message,
        };
        self.hear(&text);
        let mut reading = ReplyFold::default();
        reading.apply_event(&text);
        let mut reply = reading.into_reply(end(0, 367_000), None);
        reply.usage = usage();
        (reply.tools, reply.tool_errors) = (58, 4);
        reply.model = Some("opus".into());
        self.tell(Event::Replied { ask: AskNumber(number), reply: Box::new(reply) })
    }

    fn fail(&mut self, number: u32, failure: Failure) -> &mut Self {
        let reply = ReplyFold::default().into_reply(end(1, 2_500), Some(failure));
        self.tell(Event::Replied { ask: AskNumber(number), reply: Box::new(reply) })
    }

    /// Runs a gate of the recipe.
    fn check(&mut self, name: &str, status: GateStatus, code: i32, output: &str) -> &mut Self {
        let state = self.course.state();
        let gate = state.recipe.find_gate(name);
        let gate = gate.expect("the gate is in the recipe").clone();
        self.view.show_activity(&Activity::Gate(&gate));
        self.tell(Event::GateChecked {
            result: GateResult {
                end: (status != GateStatus::Cached).then(|| end(code, 1_200)),
                log: Some(format!(".ralph/guardrail_1_{name}.log")),
                output: output.into(),
                ..GateResult::new(name, gate.check.label(), gate.severity, status)
            },
            survey: None,
        })
    }

    /// Judges as the engine does.
    fn judge(&mut self) -> &mut Self {
        let state = self.course.state();
        let current = state.current.as_ref().expect("an iteration is open");
        let judgement = judge_iteration(state, current).expect("the question has ended");
        self.tell(Event::Judged { judgement: Box::new(judgement) })
    }

    fn text(&self) -> String {
        String::from_utf8(self.view_bytes().to_vec()).expect("whole characters")
    }

    fn view_bytes(&self) -> &[u8] {
        self.view.writer.written()
    }

    #[track_caller]
    fn shows(&self, expect: &Expect) {
        expect.assert_eq(&self.text().replace('\u{1b}', "^").replace('\r', "<CR>"));
    }
}

fn options(
    preferences: &StylePreferences,
    around: &StreamEnvironment,
    verbosity: Verbosity,
) -> ViewOptions {
    ViewOptions {
        style: Style::choose_style(preferences, around),
        verbosity,
        shows_agent: true,
        clock: WallClock { zone: TimeZone::UTC, now: || NOW.get() },
        columns: || None,
    }
}

/// Preferences for ASCII output.
fn ascii() -> StylePreferences {
    StylePreferences { emoji: StyleChoice::Never, ..StylePreferences::default() }
}

fn end(code: i32, millis: u64) -> ChildEnd {
    ChildEnd { ran: Millis(millis), ..ChildEnd::from_ending(Ending::Exited { code }) }
}

fn usage() -> Usage {
    Usage {
        input: Tokens(300_000),
        output: Tokens(45_000),
        cache_read: Tokens(850_000),
        cache_write: Tokens(50_000),
        cost: Some(UsdMicros::from_dollars(5.76)),
        turns: Some(12),
    }
}

fn gate(name: &str, command: &str, severity: Severity) -> Gate {
    Gate { name: name.into(), severity, ..Gate::for_command(GateKind::Custom, command) }
}

fn recipe() -> Recipe {
    let agent =
        AgentChoice { model: Some("opus".into()), ..AgentChoice::new(AgentKind::Claude, "claude") };
    let recipe = Recipe::new(Work::Prompt(PromptSource::Text("Do it.".into())), agent);
    let budget = Budget { cost: Some(UsdMicros::from_dollars(20.0)), ..Budget::default() };
    Recipe {
        gates: vec![
            gate("lint", "make lint", Severity::Hard),
            gate("test", "make test", Severity::Hard),
            gate("style", "make style", Severity::Soft),
        ],
        landing: LandingPolicy {
            commit: CommitPolicy::Ralph,
            commit_prefix: "ralph: ".into(),
            commit_message: None,
            on_failure: OnFailure::Rollback,
            uncommitted: Uncommitted::Refused,
        },
        limits: RunLimits { budget, ..recipe.limits.clone() },
        ..recipe
    }
}
