//! The screen as a user sees it, and key handling, with states of real events.

mod any_events;
mod keys;
mod layouts;
mod replays;
mod threads;
mod workers;

use std::cell::Cell;

use jiff::tz::TimeZone;
use ralph_core::ports::{Activity, Ui as _};
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::{AgentEvent, Speaker, TextForm, ToolOutcome};
use ralph_model::budget::Budget;
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_model::recipe::{PromptSource, Recipe, RunLimits, TaskWork, Work};
use ralph_model::run::RunState;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::units::{Millis, Timestamp, UsdMicros};
use ralph_model::worktree::{Checkpoint, CommitId};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Rect, Size};

use super::display::{LiveRun, ScreenHost as _};
use super::draw::draw_screen;
use super::facts::WholePlan;
use super::link::ScreenHandle as Link;
use super::screen::ScreenState;
use super::view::ScreenFeed;
use crate::style::tests::terminal;
use crate::style::{StreamEnvironment, Style, StyleChoice, StylePreferences};
use crate::time::WallClock;
use crate::view::tests::{Course, START, started};
use crate::view::{Verbosity, ViewOptions};

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(START) };
}

/// A run and its screen, without a thread between them.
struct Rig {
    teller: ScreenFeed<Link>,
    live: LiveRun,
    screen: ScreenState,
    course: Course,
}

impl Rig {
    fn new() -> Self {
        Self::with(&StylePreferences::default(), &terminal())
    }

    fn with(preferences: &StylePreferences, around: &StreamEnvironment) -> Self {
        NOW.set(START);
        let (link, options) = (Link::default(), options(preferences, around));
        let mut screen = ScreenState::new(options.style.clone(), options.clock.clone());
        screen.size = Size::new(80, 20);
        Self {
            teller: ScreenFeed::new(link.clone(), link.clone(), options),
            live: LiveRun {
                link,
                send: Box::new(|_| Ok(())),
                read_plan: Box::new(|| None),
                plan: WholePlan::default(),
            },
            screen,
            course: Course::default(),
        }
    }

    fn pass(&mut self, seconds: u64) -> &mut Self {
        self.course.pass(seconds);
        NOW.set(self.course.now());
        self
    }

    fn tell(&mut self, event: Event) -> &mut Self {
        let (recorded, state) = self.course.take(event);
        self.teller.show_event(recorded, state);
        self
    }

    fn hear(&mut self, event: &AgentEvent) -> &mut Self {
        self.teller.show_agent_event(event);
        self
    }

    fn begin(&mut self, recipe: Recipe) -> &mut Self {
        self.tell(started(recipe))
    }

    fn iterate(&mut self, number: u32, role: Role, task: Option<&str>) -> &mut Self {
        let task = task.map(|id| TaskId(id.into()));
        self.tell(Event::IterationStarted { iteration: IterationNumber(number), role, task });
        let head = Some(CommitId("1a2b3c4d5e6f".into()));
        let checkpoint = Checkpoint::Git { head, branch: None, tree: None };
        self.tell(Event::Checkpointed { checkpoint });
        self.tell(Event::Asked {
            ask: AskNumber(1),
            role,
            purpose: Purpose::Work,
            agent: AgentKind::Claude,
            command: vec!["claude".into()],
            prompt_chars: 10,
            prompt_start: "Do it.".into(),
            budget: Vec::new(),
            token: None,
            session: None,
            instructions: Vec::new(),
        })
    }

    fn run_gate(&mut self, name: &str) -> &mut Self {
        let gate = gate(name, Severity::Hard);
        self.teller.show_activity(&Activity::Gate(&gate));
        self
    }

    fn check(&mut self, name: &str, status: GateStatus, output: &str) -> &mut Self {
        self.run_gate(name);
        self.tell(Event::GateChecked { result: result(name, status, output), survey: None })
    }

    /// Updates the screen and returns its content.
    fn cells(&mut self) -> Buffer {
        self.screen.now = NOW.get();
        self.live.refresh(&mut self.screen);
        cells(&self.screen)
    }

    fn text(&mut self) -> String {
        lines(&self.cells())
    }

    /// Shows it on a screen of another size.
    fn sized(&mut self, width: u16, height: u16) -> String {
        self.screen.size = Size::new(width, height);
        self.text()
    }
}

fn cells(screen: &ScreenState) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, screen.size.width, screen.size.height));
    draw_screen(screen, &mut buffer);
    buffer
}

/// Returns the text of a buffer, line by line.
fn lines(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            use ratatui_core::buffer::CellWidth as _;
            // Skips the right half of a wide character.
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = cell.cell_width();
            }
            skip = skip.saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn options(preferences: &StylePreferences, around: &StreamEnvironment) -> ViewOptions {
    ViewOptions {
        style: Style::choose_style(preferences, around),
        verbosity: Verbosity::Normal,
        shows_agent: true,
        clock: WallClock { zone: TimeZone::UTC, now: || NOW.get() },
        columns: || None,
    }
}

/// No emoji and no colors.
fn plain() -> (StylePreferences, StreamEnvironment) {
    let preferences = StylePreferences { emoji: StyleChoice::Never, ..StylePreferences::default() };
    (preferences, StreamEnvironment { no_color: Some("1".into()), ..terminal() })
}

fn gate(name: &str, severity: Severity) -> Gate {
    Gate {
        name: name.into(),
        severity,
        ..Gate::for_command(GateKind::Custom, format!("make {name}"))
    }
}

fn result(name: &str, status: GateStatus, output: &str) -> GateResult {
    GateResult {
        end: Some(ended()),
        output: output.into(),
        ..GateResult::new(name, format!("make {name}"), Severity::Hard, status)
    }
}

fn ended() -> ChildEnd {
    ChildEnd { ran: Millis(1_200), ..ChildEnd::from_ending(Ending::Exited { code: 0 }) }
}

fn recipe(work: Work) -> Recipe {
    let recipe = Recipe::new(work, AgentChoice::new(AgentKind::Claude, "claude"));
    let budget = Budget { cost: Some(UsdMicros::from_dollars(20.0)), ..Budget::default() };
    Recipe {
        gates: vec![gate("lint", Severity::Hard), gate("test", Severity::Hard)],
        limits: RunLimits { budget, ..recipe.limits.clone() },
        ..recipe
    }
}

fn prompt_recipe() -> Recipe {
    recipe(Work::Prompt(PromptSource::Text("Do it.".into())))
}

fn task_list(count: usize) -> TaskList {
    let task = |number: usize| {
        let title = ["Read the file", "Print 日本", "Say what is wrong"][number % 3];
        Task::new(format!("T-{:03}", number + 1), title)
    };
    TaskList { tasks: (0..count).map(task).collect(), ..TaskList::default() }
}

fn text(message: &str) -> AgentEvent {
    let (speaker, form) = (Speaker::Agent, TextForm::Message);
    AgentEvent::Text { text: message.into(), speaker, form }
}

/// A run over a task list with its second task in progress.
fn tasks() -> Rig {
    let (preferences, around) = (StylePreferences::default(), terminal());
    tasks_with(Rig::with(&preferences, &around))
}

fn tasks_with(mut rig: Rig) -> Rig {
    let mut list = task_list(4);
    list.tasks[0].status = TaskStatus::Done;
    rig.begin(recipe(Work::Tasks(TaskWork::new("plan.json"))));
    rig.tell(Event::TasksRead { list: Box::new(list), remarks: Vec::new() });
    rig.pass(62).iterate(1, Role::Implement, Some("T-002"));
    rig.hear(&text("I read it first.\n"));
    rig.hear(&AgentEvent::ToolStarted {
        id: "1".into(),
        name: "Read".into(),
        summary: "src/main.rs".into(),
        speaker: Speaker::Agent,
    });
    rig.hear(&AgentEvent::ToolEnded {
        id: "1".into(),
        outcome: ToolOutcome::Error,
        output: "no such file".into(),
    });
    rig.check("lint", GateStatus::Passed, "").run_gate("test").pass(3);
    rig
}
