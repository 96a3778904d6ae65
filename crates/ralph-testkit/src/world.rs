//! A small world behind the six ports: scripted agents and gates, a repository that is a list of
//! trees, a journal in memory, a clock that jumps. It can die at any port call, before or after
//! the call's effect; what was durable survives.

mod repository;
mod time;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ralph_core::active::Active;
use ralph_core::child::{ChildEnd, Ending, Leftovers, SoftLimit};
use ralph_core::control::Asked;
use ralph_core::engine::{Engine, EngineError, Start};
use ralph_core::event::{Event, Recorded};
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::gate::{GateResult, GateStatus};
use ralph_core::ids::{Role, RunId};
use ralph_core::memory::Compacted;
use ralph_core::outcome::Outcome;
use ralph_core::plan::{Loss, PlanCopy, PlanLook};
use ralph_core::ports::{
    Agent, GateOrder, Gates, ListOrder, Look, Mark, Ports, PromptError, Request, ShelveOrder,
    Store, StoreError, TasksError, TasksFound, View,
};
use ralph_core::reading::{AgentEvent, Reply, Usage};
use ralph_core::recipe::Recipe;
use ralph_core::run::RunState;
use ralph_core::task::TaskList;
use ralph_core::units::{Millis, Tokens, UsdMicros};

/// What a scripted agent does in a call.
#[derive(Debug, Clone)]
pub struct Deed {
    /// The state it leaves the tree in; `None` leaves it unchanged.
    pub tree: Option<String>,
    pub text: String,
    /// Why it gives no answer, if so.
    pub failure: Option<FailureClass>,
}

/// Decides what the agent does, from the request and the current tree.
pub type Script = fn(&Request, &str) -> Deed;

/// What an agent that owns the task list does to it, from the request and the world's seed.
pub type Keeping = fn(&Request, u64, &mut TaskList);

/// What else an agent does to the world.
pub type Doing = fn(&Request, &mut World);

/// Everything that survives a crash, and the scripted behavior of the world.
pub struct World {
    pub journal: Vec<Recorded>,
    /// Replies that were received completely, by iteration and call.
    pub received: BTreeMap<(u32, u32), Reply>,
    pub tree: String,
    /// The commits, oldest first: tree, message, mark.
    pub commits: Vec<(String, String, Mark)>,
    pub kept: Vec<String>,
    /// Failure branches: tree and order.
    pub shelves: Vec<(String, ShelveOrder)>,
    /// How many commits the agent made by itself on top of ours.
    pub foreign_commits: u32,
    /// How often the tree was surveyed.
    pub surveys: u32,
    /// The prompts of the agent calls, with their roles.
    pub prompts: Vec<(Role, String)>,
    /// The state written for the hooks before each agent call.
    pub active: Vec<Active>,
    /// The last memory view that was written.
    pub memory: Option<Compacted>,
    pub scm: Vec<String>,
    /// The wall clock in milliseconds.
    pub now: i64,
    /// How long the run has been running.
    pub ran: u64,
    pub waited: u64,
    /// The task file; `None` if it is missing.
    pub tasks: Option<TaskList>,
    /// The prompt file; `None` if it is missing.
    pub prompt_file: Option<String>,
    /// The project's own prompt templates, by name; an error describes what is wrong with one.
    pub templates: BTreeMap<String, Result<String, String>>,
    /// The files next to the task file, by name.
    pub beside: BTreeMap<String, String>,
    /// The plan that the agent maintains.
    pub plan: Option<String>,
    /// ralph's copy of it, which no agent can change.
    pub plan_copy: Option<String>,
    /// The output of a hook that refuses commits, while there is one.
    pub hook: Option<String>,
    /// The user stops the run once the clock shows this.
    pub stop_at: Option<i64>,
    /// Control requests; each arrives once the clock shows its time.
    pub inbox: Vec<Asked>,
    /// The port call to die at, counted over the whole test; odd ones die after the effect.
    pub die_at: Option<u64>,
    /// Port calls so far, counted twice: before and after each effect.
    pub calls: u64,
    /// What the agent does to the task file, if it owns it.
    pub keeping: Option<Keeping>,
    pub doing: Option<Doing>,
    /// Distinguishes random worlds.
    pub seed: u64,
    script: Script,
}

/// The panic payload of a death, to distinguish it from a real panic.
struct Died;

/// A handle to the world, shared by the ports.
#[derive(Clone)]
pub struct Shared(pub Rc<RefCell<World>>);

/// The start time of every world.
pub const BEGINNING: i64 = 1_700_000_000_000;

impl Shared {
    /// Returns a world in which the agent follows the script.
    pub fn new(script: Script) -> Self {
        Self(Rc::new(RefCell::new(World {
            journal: Vec::new(),
            received: BTreeMap::new(),
            tree: "start".to_owned(),
            commits: Vec::new(),
            kept: Vec::new(),
            shelves: Vec::new(),
            foreign_commits: 0,
            surveys: 0,
            prompts: Vec::new(),
            active: Vec::new(),
            memory: None,
            scm: Vec::new(),
            now: BEGINNING,
            ran: 0,
            waited: 0,
            tasks: None,
            prompt_file: Some("from the file".to_owned()),
            templates: BTreeMap::new(),
            beside: BTreeMap::new(),
            plan: None,
            plan_copy: None,
            hook: None,
            stop_at: None,
            inbox: Vec::new(),
            die_at: None,
            calls: 0,
            keeping: None,
            doing: None,
            seed: 0,
            script,
        })))
    }

    /// Runs a recipe to its end, dying and resuming as configured.
    pub fn run(&self, recipe: &Recipe) -> Result<Outcome, EngineError> {
        loop {
            let run = AssertUnwindSafe(|| self.run_once(recipe));
            match panic::catch_unwind(run) {
                Ok(end) => return end,
                Err(payload) if payload.is::<Died>() => {}
                Err(payload) => panic::resume_unwind(payload),
            }
        }
    }

    /// Starts the run, or resumes it if there is a journal.
    pub fn run_once(&self, recipe: &Recipe) -> Result<Outcome, EngineError> {
        let (mut agent, mut gates, mut vcs) = (self.clone(), self.clone(), self.clone());
        let (mut store, mut clock, mut ui) = (self.clone(), self.clone(), self.clone());
        let ports = Ports {
            agent: &mut agent,
            gates: &mut gates,
            vcs: &mut vcs,
            store: &mut store,
            clock: &mut clock,
            ui: &mut ui,
        };
        let journal = self.0.borrow().journal.clone();
        let mut engine = if journal.is_empty() {
            Engine::start(
                ports,
                Start {
                    run: RunId("20260101-000000-test".into()),
                    project: PathBuf::from("/project"),
                    recipe: recipe.clone(),
                    version: "0".into(),
                },
            )?
        } else {
            Engine::resume(ports, RunState::fold(&journal)?, "0".into(), None)?
        };
        engine.run()
    }

    /// Dies if this is the call to die at. Called before and after every effect.
    fn step(&self) {
        let mut world = self.0.borrow_mut();
        world.calls += 1;
        if world.die_at == Some(world.calls) {
            world.die_at = None;
            drop(world);
            panic::resume_unwind(Box::new(Died));
        }
    }
}

fn ended(code: i32) -> ChildEnd {
    ChildEnd {
        ending: Ending::Exited { code },
        ran: Millis(1_000),
        soft_limit: SoftLimit::Kept,
        leftovers: Leftovers::default(),
    }
}

impl Agent for Shared {
    fn ask(&mut self, request: &Request, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply {
        self.step();
        let reply = {
            let mut world = self.0.borrow_mut();
            world.prompts.push((request.role, request.prompt.clone()));
            world.now += 1_000;
            world.ran += 1_000;
            let action = (world.script)(request, &world.tree);
            if let Some(tree) = action.tree {
                world.tree = tree;
            }
            let seed = world.seed;
            if let (Some(keeping), Some(list)) = (world.keeping, &mut world.tasks) {
                keeping(request, seed, list);
            }
            if let Some(doing) = world.doing {
                doing(request, &mut world);
            }
            let reply = Reply {
                signal: ralph_core::completion::signal(&action.text),
                text: action.text,
                structured: None,
                usage: Usage {
                    input: Tokens(100),
                    cost: Some(UsdMicros::from_dollars(0.01)),
                    ..Usage::default()
                },
                session: None,
                model: None,
                tools: 0,
                tool_errors: 0,
                unparsed: 0,
                end: ended(0),
                failure: action.failure.map(|class| Failure::new(class, "scripted")),
                warnings: Vec::new(),
            };
            world.received.insert((request.iteration.0, request.ask.0), reply.clone());
            reply
        };
        on_event(&AgentEvent::Notice { text: "asked".into() });
        self.step();
        reply
    }

    fn recover(&mut self, request: &Request) -> Option<Reply> {
        self.step();
        let key = (request.iteration.0, request.ask.0);
        self.0.borrow().received.get(&key).cloned()
    }

    fn command_line(&self, _request: &Request) -> Vec<String> {
        vec!["agent".into()]
    }
}

impl Gates for Shared {
    /// A gate's command is a word that must occur in the tree. With `+` in front it is added if
    /// it is missing, and with `*` in front each time.
    fn check(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        self.step();
        tick(Millis(1_000));
        let command = order.gate.check.label().to_owned();
        let is_green = {
            let tree = &mut self.0.borrow_mut().tree;
            let is_there = tree.contains(command.trim_start_matches(['+', '*']));
            if command.starts_with('*') || (command.starts_with('+') && !is_there) {
                tree.extend([" ", &command[1..]]);
            }
            is_there || command.starts_with(['+', '*'])
        };
        self.step();
        GateResult {
            gate: order.gate.name.clone(),
            severity: order.severity,
            status: if is_green { GateStatus::Passed } else { GateStatus::Failed },
            end: Some(ended(i32::from(!is_green))),
            log: Some(format!(".ralph/guardrail_{}_{command}.log", order.iteration)),
            output: format!("no {command}"),
            hash: None,
            failing: Vec::new(),
            reason: None,
            command,
            sandbox: None,
        }
    }
}

impl Store for Shared {
    fn masked(&self, event: Event) -> Event {
        event
    }

    fn append(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        self.step();
        self.0.borrow_mut().journal.push(recorded.clone());
        self.step();
        Ok(())
    }

    fn read_prompt(&mut self, path: &Path) -> Result<String, PromptError> {
        self.step();
        let missing = || PromptError { message: format!("no prompt file `{}`", path.display()) };
        self.0.borrow().prompt_file.clone().ok_or_else(missing)
    }

    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        self.step();
        let missing = || TasksError { message: format!("no task file `{}`", path.display()) };
        self.0.borrow().tasks.clone().ok_or_else(missing)
    }

    fn look_at_tasks(&mut self, path: &Path, known: &TaskList, _look: Look) -> TasksFound {
        self.step();
        match &self.0.borrow().tasks {
            Some(list) if list == known => TasksFound::Same,
            Some(list) => TasksFound::Edited(Box::new(list.clone())),
            None => TasksFound::Broken { message: format!("no task file `{}`", path.display()) },
        }
    }

    fn write_tasks(&mut self, _path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError> {
        self.step();
        self.0.borrow_mut().tasks = Some(order.outcome());
        self.step();
        Ok(())
    }

    fn read_file(&mut self, path: &str, _chars: usize) -> Option<String> {
        self.step();
        (path == "tree").then(|| self.0.borrow().tree.clone())
    }

    fn skill(&mut self, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        Ok((name == "known").then(|| "Know this.".to_owned()))
    }

    fn prompt_template(&mut self, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        let template = self.0.borrow().templates.get(name).cloned();
        template.transpose().map_err(|message| PromptError { message })
    }

    fn read_beside(&mut self, _tasks: &Path, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        Ok(self.0.borrow().beside.get(name).cloned())
    }

    fn write_beside(&mut self, _tasks: &Path, name: &str, text: &str) -> Result<(), StoreError> {
        self.step();
        self.0.borrow_mut().beside.insert(name.to_owned(), text.to_owned());
        self.step();
        Ok(())
    }

    fn look_at_plan(&mut self, _file: &Path) -> PlanLook {
        self.step();
        let mut world = self.0.borrow_mut();
        match world.plan.clone() {
            Some(text) if !text.trim().is_empty() => {
                world.plan_copy = Some(text.clone());
                PlanLook::of(&text)
            }
            text => PlanLook::Lost {
                loss: if text.is_some() { Loss::Empty } else { Loss::Missing },
                copy: match world.plan_copy {
                    Some(_) => PlanCopy::Kept,
                    None => PlanCopy::None,
                },
            },
        }
    }

    fn put_plan_back(&mut self, _file: &Path) -> Result<(), StoreError> {
        self.step();
        let copy = self.0.borrow().plan_copy.clone();
        self.0.borrow_mut().plan = copy;
        self.step();
        Ok(())
    }

    fn publish(&mut self, view: &View<'_>) -> Result<(), StoreError> {
        self.step();
        if let View::Active(active) = view {
            self.0.borrow_mut().active.push((*active).clone());
        }
        if let View::Memory { compacted, .. } = view {
            self.0.borrow_mut().memory = Some((*compacted).clone());
        }
        Ok(())
    }
}
