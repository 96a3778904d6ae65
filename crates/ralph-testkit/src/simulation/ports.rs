//! The ports over a simulated world. The process may die before and after every effect.
//!
//! The repository is in `ports::vcs`, files and journal are in `ports::store`. Not here: what the
//! world is like, and what must hold in it.

mod store;
mod vcs;

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;

use ralph_core::answers::completion;
use ralph_core::ports::{
    Activity, Agent, AgentRequest, Clock, GateOrder, Gates, Moment, StopRequest, Ui,
};
use ralph_model::agent_output::{AgentEvent, Reply, Usage};
use ralph_model::child::{ChildEnd, Ending, Force, NotStarted};
use ralph_model::control::{ControlRequestId, InboxEntry};
use ralph_model::event::Recorded;
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::gate::{GateKind, GateResult, GateStatus};
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};

use super::agent_action::{AgentAction, AgentScene};
use super::dice::hash_numbers;
use super::observer::{Invariant, Observer};
use super::plan::{CommitMode, FaultKind};
use super::recipe::{GATE_FILE, LIST_GATE, TASKS};
use super::repository::{FileContent, count_tests};
use super::world::{CallTruth, GateTruth, SimulatedWorld, parse_gate_number};
use crate::world::add_token;

/// The panic payload of a death, to distinguish it from a real panic.
pub struct SimulatedDeath;

/// The panic payload that ends a run after a violation.
pub struct ViolationFound;

/// No run takes this many steps, unless it never ends.
pub(super) const MOST_STEPS: u64 = 200_000;

/// Prefix of git's error messages.
pub(super) const GIT_ERROR: &str = "git says no";

/// A handle to the world, shared by the ports.
#[derive(Clone)]
pub struct Port {
    pub world: Rc<RefCell<SimulatedWorld>>,
    pub observer: Rc<RefCell<Observer>>,
    synced: Rc<RefCell<SyncedEvents>>,
}

/// What survives a power cut.
#[derive(Debug, Default)]
struct SyncedEvents {
    count: usize,
    /// Whether later events must survive before the next effect.
    must_sync: bool,
    /// What was known then.
    observer: Observer,
}

impl Port {
    /// Returns the ports of a world.
    pub fn new(world: SimulatedWorld, observer: Rc<RefCell<Observer>>) -> Self {
        Self { world: Rc::new(RefCell::new(world)), observer, synced: Rc::default() }
    }

    /// Notes that the events so far survive a power cut.
    fn note_sync(&self) {
        let world = self.world.borrow();
        if world.plan.power && world.die_at.is_some() {
            let (count, observer) = (world.journal.len(), self.observer.borrow().clone());
            *self.synced.borrow_mut() = SyncedEvents { count, must_sync: false, observer };
        }
    }

    /// Loses the events that were not synced.
    fn cut_power(&self) {
        let (mut world, mut synced) = (self.world.borrow_mut(), self.synced.borrow_mut());
        if world.journal.len() > synced.count {
            world.tally.count_one("power cuts that took events");
        }
        world.journal.truncate(synced.count);
        *self.observer.borrow_mut() = synced.observer.clone();
        synced.must_sync = false;
    }

    /// Dies if this is the step to die at.
    fn count_step(&self) {
        let mut world = self.world.borrow_mut();
        world.steps += 1;
        world.all_steps += 1;
        let (is_death, is_endless) =
            (world.die_at == Some(world.steps), world.all_steps > MOST_STEPS);
        if is_death {
            world.tally.count_one("runs died");
        }
        drop(world);
        if is_endless {
            let message = format!("{MOST_STEPS} steps and no end");
            self.observer.borrow_mut().report_violation(Invariant::Ends, message);
            panic::resume_unwind(Box::new(ViolationFound));
        }
        if is_death {
            if self.world.borrow().plan.power {
                self.cut_power();
            }
            panic::resume_unwind(Box::new(SimulatedDeath));
        }
    }

    /// Returns the iteration that is open or was open last.
    fn iteration(&self) -> u32 {
        self.observer.borrow().iteration()
    }

    /// Returns whether a fault occurs now, until a user fixes it.
    fn has_fault(&self, kind: FaultKind) -> bool {
        let iteration = self.iteration();
        self.world.borrow_mut().has_fault(kind, iteration)
    }
}

fn build_child_end(ending: Ending) -> ChildEnd {
    ChildEnd { ran: Millis(1_000), ..ChildEnd::from_ending(ending) }
}

impl Agent for Port {
    fn ask(&mut self, request: &AgentRequest, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply {
        self.count_step();
        self.observer.borrow_mut().check_prompt(request, &self.world.borrow());
        let is_interrupted = self.has_fault(FaultKind::AgentIsInterrupted);
        let mut action = self.play_request(request);
        // Its work may exist although its reply is never received.
        self.count_step();
        if is_interrupted {
            action.failure = Some(FailureClass::Interrupted);
        }
        let mut reply = build_reply(&action);
        reply.text = add_token(request, &reply.text);
        {
            let mut world = self.world.borrow_mut();
            world.now += 1_000;
            world.ran += 1_000;
            world.stops |= is_interrupted;
            world.git_dir.is_changed |= action.changed_git_dir;
            let listed = match (world.repository.work.get(TASKS), &request.task) {
                (Some(FileContent::List(list)), Some(task)) => list.find_task(task).cloned(),
                (_, _) => None,
            };
            let truth = CallTruth {
                purpose: request.purpose.clone(),
                role: request.role,
                claims: action.claims,
                meant: action.verdict,
                answered: action.failure.is_none(),
                listed,
                tree: world.repository.number_work_tree(),
            };
            world.truths.insert((request.iteration.0, request.ask.0), truth);
            if !is_interrupted {
                world.record_reply(request, &reply);
            }
        }
        on_event(&AgentEvent::Notice { text: "asked".to_owned() });
        self.count_step();
        reply
    }

    fn recover(&mut self, request: &AgentRequest) -> Option<Reply> {
        self.count_step();
        let is_lost = self.has_fault(FaultKind::StreamIsLost);
        let mut world = self.world.borrow_mut();
        let key = (request.iteration.0, request.ask.0);
        if is_lost {
            world.received.remove(&key);
        }
        let reply = world.received.get(&key).cloned();
        world.tally.count_one(if reply.is_some() { "replies recovered" } else { "replies lost" });
        reply
    }

    fn command_line(&self, _request: &AgentRequest) -> Vec<String> {
        vec!["agent".to_owned()]
    }
}

impl Port {
    fn play_request(&self, request: &AgentRequest) -> AgentAction {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let act = world.choose_act(request);
        world.tally.count_one(format!("agents {:?}", act.character));
        world.tally.count_one(format!("roles {}", request.role));
        let scene = AgentScene {
            plan: &world.plan,
            request,
            act,
            repository: &mut world.repository,
            now: Timestamp(world.now),
        };
        scene.play_act()
    }
}

/// Returns the reply to an action.
pub(super) fn build_reply(action: &AgentAction) -> Reply {
    Reply {
        signal: completion::find_signal(&action.text),
        text: action.text.clone(),
        structured: None,
        usage: Usage {
            input: Tokens(100),
            cost: Some(UsdMicros::from_dollars(0.01)),
            ..Usage::default()
        },
        session: None,
        model: None,
        tools: 1,
        tool_errors: 0,
        unparsed: 0,
        end: build_child_end(Ending::Exited { code: 0 }),
        failure: action.failure.clone().map(|class| Failure::new(class, "scripted")),
        warnings: Vec::new(),
    }
}

impl Gates for Port {
    fn run_gate(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        self.count_step();
        tick(Millis(1_000));
        let is_interrupted = order.iteration.0 > 0 && self.has_fault(FaultKind::GateIsInterrupted);
        let is_counted = order.gate.kind == GateKind::Test && order.gate.name != LIST_GATE;
        let (passed, ending, tests) = {
            let mut world = self.world.borrow_mut();
            world.now += 500;
            world.ran += 500;
            let (passed, ending) = run_gate(&world, order);
            let tests = is_counted.then(|| count_tests(&world.repository.work));
            let tree = world.repository.number_work_tree();
            commit_in_gate(&mut world, order);
            write_in_gate(&mut world, order);
            if is_interrupted {
                (false, Ending::Interrupted { force: Force::Terminated }, None)
            } else {
                let (iteration, gate) = (order.iteration.0, order.gate.name.clone());
                world.checks.push(GateTruth { iteration, gate, tree, passed });
                (passed, ending, tests)
            }
        };
        self.count_step();
        GateResult {
            end: Some(build_child_end(ending)),
            tests,
            log: Some(format!(".ralph/guardrail_{}_{}.log", order.iteration, order.gate.name)),
            output: if passed {
                "all is well".to_owned()
            } else {
                "work/a:3: it is bad".to_owned()
            },
            ..GateResult::new(
                order.gate.name.clone(),
                order.command.to_owned(),
                order.severity,
                if passed { GateStatus::Passed } else { GateStatus::Failed },
            )
        }
    }
}

/// Runs a gate: it fails on a tree with bad content, and sometimes for no reason.
fn run_gate(world: &SimulatedWorld, order: &GateOrder<'_>) -> (bool, Ending) {
    let exit = |passed: bool| (passed, Ending::Exited { code: i32::from(!passed) });
    let name = &order.gate.name;
    if name == LIST_GATE {
        let list = world.repository.work.get(TASKS);
        return exit(matches!(list, Some(FileContent::List(list)) if !list.tasks.is_empty()));
    }
    let number = parse_gate_number(name);
    let planned = usize::try_from(number).ok().and_then(|at| world.plan.gates.get(at));
    let chance = hash_numbers(&[u64::from(order.iteration.0), number]) % 100;
    if planned.is_some_and(|gate| chance >= 100 - gate.broken.min(100)) {
        let reason = NotStarted::NotFound { program: name.clone() };
        return (false, Ending::NotStarted { reason });
    }
    let is_flaky = planned.is_some_and(|gate| chance < gate.flaky);
    let is_bad = world.repository.work.values().any(|it| it.has_text(&format!("bad{number}")));
    exit(!is_bad && !is_flaky)
}

/// Does what code under test may do: make a commit.
fn commit_in_gate(world: &mut SimulatedWorld, order: &GateOrder<'_>) {
    let planned = usize::try_from(parse_gate_number(&order.gate.name)).ok();
    let commits = planned.and_then(|at| world.plan.gates.get(at)).is_some_and(|gate| gate.commits);
    let tree = world.repository.number_work_tree();
    let head = world.repository.head.map(|head| world.repository.commits[head].tree);
    let is_possible = order.iteration.0 > 0 && world.plan.commit != CommitMode::NoGit;
    if commits && is_possible && head != Some(tree) {
        world.tally.count_one("gate commits".to_owned());
        world.repository.make_commit(tree, &format!("a gate in {}", order.iteration), None);
    }
}

/// Does what code under test may do: write a file. In every third iteration it never writes the same.
fn write_in_gate(world: &mut SimulatedWorld, order: &GateOrder<'_>) {
    let planned = usize::try_from(parse_gate_number(&order.gate.name)).ok();
    let writes = planned.and_then(|at| world.plan.gates.get(at)).is_some_and(|gate| gate.writes);
    let iteration = order.iteration.0;
    if writes && iteration > 0 {
        let salt = if iteration.is_multiple_of(3) { world.all_steps } else { 0 };
        let content = FileContent::from_text(format!("{iteration} {salt}"));
        world.tally.count_one("gate writes".to_owned());
        world.repository.work.insert(GATE_FILE.to_owned(), content);
    }
}

impl Clock for Port {
    fn read_moment(&mut self) -> Moment {
        let iteration = self.iteration();
        let mut world = self.world.borrow_mut();
        world.jump_clock(iteration);
        let is_signalled = iteration > 0 && world.has_fault_since(FaultKind::Signal, iteration);
        let stop =
            if world.stops || is_signalled { StopRequest::Stop } else { StopRequest::Continue };
        Moment { now: Timestamp(world.now), ran: Millis(world.ran), stop }
    }

    fn wait_until(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        self.count_step();
        tick(Millis(1));
        self.world.borrow_mut().wait_until(until.0);
        self.count_step();
    }

    fn read_control_requests(&mut self) -> Vec<InboxEntry> {
        let found = self.world.borrow_mut().read_inbox();
        if !found.is_empty() {
            self.count_step();
        }
        found
    }

    fn remove_control_request(&mut self, id: &ControlRequestId) {
        self.count_step();
        self.world.borrow_mut().inbox.retain(|asked| asked.id != *id);
        self.count_step();
    }
}

impl Ui for Port {
    fn show_event(&mut self, _recorded: &Recorded, state: &RunState) {
        self.observer.borrow_mut().check_state(state);
        if self.observer.borrow().has_found() {
            panic::resume_unwind(Box::new(ViolationFound));
        }
    }

    fn show_agent_event(&mut self, _event: &AgentEvent) {}

    fn show_activity(&mut self, _activity: &Activity<'_>) {}
}
