//! The six ports over a simulated world. The process may die before and after every effect.
//!
//! The repository is in `ports::vcs`, files and journal are in `ports::store`. Not here: what the
//! world is like, and what must hold in it.

mod store;
mod vcs;

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;

use ralph_core::child::{ChildEnd, Ending, Force, Leftovers, NotStarted, SoftLimit};
use ralph_core::completion;
use ralph_core::control::{Found, WishId};
use ralph_core::event::Recorded;
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::gate::{GateResult, GateStatus};
use ralph_core::ports::{Activity, Agent, Clock, GateOrder, Gates, Moment, Request, StopWish, Ui};
use ralph_core::reading::{AgentEvent, Reply, Usage};
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp, Tokens, UsdMicros};

use super::deed::{Deed, Scene};
use super::dice::number_of;
use super::observer::{Invariant, Observer};
use super::plan::{CommitMode, FaultKind};
use super::recipe::{LIST_GATE, TASKS};
use super::repository::Content;
use super::world::{Checked, Truth, World, gate_number};

/// The panic payload of a death, to distinguish it from a real panic.
pub struct Died;

/// The panic payload that ends a run after a violation.
pub struct Caught;

/// No run takes this many steps, unless it never ends.
pub(super) const MOST_STEPS: u64 = 200_000;

/// Prefix of git's error messages.
pub(super) const GIT_FAILS: &str = "git says no";

/// A handle to the world, shared by the ports.
#[derive(Clone)]
pub struct Port {
    pub world: Rc<RefCell<World>>,
    pub observer: Rc<RefCell<Observer>>,
}

impl Port {
    /// Dies if this is the step to die at.
    fn step(&self) {
        let mut world = self.world.borrow_mut();
        world.steps += 1;
        world.all_steps += 1;
        let (is_death, is_endless) =
            (world.die_at == Some(world.steps), world.all_steps > MOST_STEPS);
        if is_death {
            world.tally.count("runs died");
        }
        drop(world);
        if is_endless {
            let message = format!("{MOST_STEPS} steps and no end");
            self.observer.borrow_mut().accuse(Invariant::Ends, message);
            panic::resume_unwind(Box::new(Caught));
        }
        if is_death {
            panic::resume_unwind(Box::new(Died));
        }
    }

    /// Returns the iteration that is open or was open last.
    fn iteration(&self) -> u32 {
        self.observer.borrow().iteration()
    }

    /// Returns whether a fault occurs now, until a user fixes it.
    fn fails(&self, kind: FaultKind) -> bool {
        let iteration = self.iteration();
        self.world.borrow_mut().fails(kind, iteration)
    }
}

fn ended(ending: Ending) -> ChildEnd {
    ChildEnd {
        ending,
        ran: Millis(1_000),
        soft_limit: SoftLimit::Kept,
        leftovers: Leftovers::default(),
    }
}

impl Agent for Port {
    fn ask(&mut self, request: &Request, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply {
        self.step();
        self.observer.borrow_mut().asked(request, &self.world.borrow());
        let is_interrupted = self.fails(FaultKind::AgentIsInterrupted);
        let mut action = self.play(request);
        // Its work may exist although its reply is never received.
        self.step();
        if is_interrupted {
            action.failure = Some(FailureClass::Interrupted);
        }
        let reply = reply(&action);
        {
            let mut world = self.world.borrow_mut();
            world.now += 1_000;
            world.ran += 1_000;
            world.stops |= is_interrupted;
            world.meddled |= action.meddled;
            let listed = match (world.repository.work.get(TASKS), &request.task) {
                (Some(Content::List(list)), Some(task)) => list.task(task).cloned(),
                (_, _) => None,
            };
            let truth = Truth {
                purpose: request.purpose.clone(),
                role: request.role,
                claims: action.claims,
                meant: action.meant,
                answered: action.failure.is_none(),
                listed,
                tree: world.repository.now(),
            };
            world.truths.insert((request.iteration.0, request.ask.0), truth);
            if !is_interrupted {
                world.hear(request, &reply);
            }
        }
        on_event(&AgentEvent::Notice { text: "asked".to_owned() });
        self.step();
        reply
    }

    fn recover(&mut self, request: &Request) -> Option<Reply> {
        self.step();
        let is_lost = self.fails(FaultKind::StreamIsLost);
        let mut world = self.world.borrow_mut();
        let key = (request.iteration.0, request.ask.0);
        if is_lost {
            world.received.remove(&key);
        }
        let reply = world.received.get(&key).cloned();
        world.tally.count(if reply.is_some() { "replies recovered" } else { "replies lost" });
        reply
    }

    fn command_line(&self, _request: &Request) -> Vec<String> {
        vec!["agent".to_owned()]
    }
}

impl Port {
    fn play(&self, request: &Request) -> Deed {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let act = world.act(request);
        world.tally.count(format!("agents {:?}", act.character));
        world.tally.count(format!("roles {}", request.role));
        let scene = Scene {
            plan: &world.plan,
            request,
            act,
            repository: &mut world.repository,
            now: Timestamp(world.now),
        };
        scene.play()
    }
}

/// Returns the reply to an action.
pub(super) fn reply(action: &Deed) -> Reply {
    Reply {
        signal: completion::signal(&action.text),
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
        end: ended(Ending::Exited { code: 0 }),
        failure: action.failure.clone().map(|class| Failure::new(class, "scripted")),
        warnings: Vec::new(),
    }
}

impl Gates for Port {
    fn check(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        self.step();
        tick(Millis(1_000));
        let is_interrupted = order.iteration.0 > 0 && self.fails(FaultKind::GateIsInterrupted);
        let (passed, ending) = {
            let mut world = self.world.borrow_mut();
            world.now += 500;
            world.ran += 500;
            let (passed, ending) = run_gate(&world, order);
            let tree = world.repository.now();
            commit_in_gate(&mut world, order);
            if is_interrupted {
                (false, Ending::Interrupted { force: Force::Terminated })
            } else {
                let (iteration, gate) = (order.iteration.0, order.gate.name.clone());
                world.checks.push(Checked { iteration, gate, tree, passed });
                (passed, ending)
            }
        };
        self.step();
        GateResult {
            gate: order.gate.name.clone(),
            command: order.command.to_owned(),
            severity: order.severity,
            status: if passed { GateStatus::Passed } else { GateStatus::Failed },
            end: Some(ended(ending)),
            log: Some(format!(".ralph/guardrail_{}_{}.log", order.iteration, order.gate.name)),
            output: if passed {
                "all is well".to_owned()
            } else {
                "work/a:3: it is bad".to_owned()
            },
            hash: None,
            failing: Vec::new(),
            reason: None,
            sandbox: None,
        }
    }
}

/// Runs a gate: it fails on a tree with bad content, and sometimes for no reason.
fn run_gate(world: &World, order: &GateOrder<'_>) -> (bool, Ending) {
    let exit = |passed: bool| (passed, Ending::Exited { code: i32::from(!passed) });
    let name = &order.gate.name;
    if name == LIST_GATE {
        let list = world.repository.work.get(TASKS);
        return exit(matches!(list, Some(Content::List(list)) if !list.tasks.is_empty()));
    }
    let number = gate_number(name);
    let planned = usize::try_from(number).ok().and_then(|at| world.plan.gates.get(at));
    let chance = number_of(&[u64::from(order.iteration.0), number]) % 100;
    if planned.is_some_and(|gate| chance >= 100 - gate.broken.min(100)) {
        let reason = NotStarted::NotFound { program: name.clone() };
        return (false, Ending::NotStarted { reason });
    }
    let is_flaky = planned.is_some_and(|gate| chance < gate.flaky);
    let is_bad = world.repository.work.values().any(|it| it.says(&format!("bad{number}")));
    exit(!is_bad && !is_flaky)
}

/// Does what code under test may do: make a commit.
fn commit_in_gate(world: &mut World, order: &GateOrder<'_>) {
    let planned = usize::try_from(gate_number(&order.gate.name)).ok();
    let commits = planned.and_then(|at| world.plan.gates.get(at)).is_some_and(|gate| gate.commits);
    let tree = world.repository.now();
    let head = world.repository.head.map(|head| world.repository.commits[head].tree);
    let is_possible = order.iteration.0 > 0 && world.plan.commit != CommitMode::NoGit;
    if commits && is_possible && head != Some(tree) {
        world.tally.count("gate commits".to_owned());
        world.repository.commit(tree, &format!("a gate in {}", order.iteration), None);
    }
}

impl Clock for Port {
    fn moment(&mut self) -> Moment {
        let iteration = self.iteration();
        let mut world = self.world.borrow_mut();
        world.jump(iteration);
        let is_signalled = iteration > 0 && world.fails_since(FaultKind::Signal, iteration);
        let stop = if world.stops || is_signalled { StopWish::Stop } else { StopWish::GoOn };
        Moment { now: Timestamp(world.now), ran: Millis(world.ran), stop }
    }

    fn wait(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        self.step();
        tick(Millis(1));
        self.world.borrow_mut().wait(until.0);
        self.step();
    }

    fn wishes(&mut self) -> Vec<Found> {
        let found = self.world.borrow_mut().wishes();
        if !found.is_empty() {
            self.step();
        }
        found
    }

    fn done_with(&mut self, id: &WishId) {
        self.step();
        self.world.borrow_mut().inbox.retain(|asked| asked.id != *id);
        self.step();
    }
}

impl Ui for Port {
    fn tell(&mut self, _recorded: &Recorded, state: &RunState) {
        self.observer.borrow_mut().told(state);
        if self.observer.borrow().has_found() {
            panic::resume_unwind(Box::new(Caught));
        }
    }

    fn hear(&mut self, _event: &AgentEvent) {}

    fn doing(&mut self, _activity: &Activity<'_>) {}
}
