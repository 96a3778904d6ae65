//! A small world behind the seven ports: scripted agents and gates, a repository that is a list of
//! trees, a journal in memory, a clock that jumps. It can die at any port call, before or after
//! the call's effect; what was durable survives.

mod repository;
mod time;
mod workers;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ralph_core::ports::{
    Agent, AgentRequest, FailureBranchOrder, GateOrder, Gates, ListOrder, Ports, ProjectText,
    PromptError, Store, StoreError, TasksError, View,
};
use ralph_core::run_loop::engine::{Engine, EngineError, RunStart};
use ralph_core::run_loop::fold::{apply_event, fold_events, start_state};
use ralph_core::tasks::plan::assess_changed_plan;
use ralph_io::store::journal::{SyncTime, find_sync_time};
use ralph_model::agent_output::{AgentEvent, Reply, Usage};
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::control::{ControlRequest, SubmittedRequest};
use ralph_model::event::{Event, Recorded};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::hook_state::HookState;
use ralph_model::ids::{Role, RunId, TaskId, WorkerId};
use ralph_model::memory::Compacted;
use ralph_model::outcome::Outcome;
use ralph_model::plan::{PlanCopy, PlanLoss, PlanState};
use ralph_model::recipe::Recipe;
use ralph_model::run::{IterationMark, RunState};
use ralph_model::task::{TaskList, TasksFound};
use ralph_model::units::{Millis, Tokens, UsdMicros};
use ralph_model::worker::WorkerLimitKind;
use ralph_model::worktree::{CommitId, TreeId};

pub use workers::ScriptedWorker;

/// What a scripted agent does in a call.
#[derive(Debug, Clone)]
pub struct ScriptedAction {
    /// The state it leaves the tree in; `None` leaves it unchanged.
    pub tree: Option<String>,
    pub text: String,
    /// Why it gives no answer, if so.
    pub failure: Option<FailureClass>,
}

/// Decides what the agent does, from the request and the current tree.
pub type AgentScript = fn(&AgentRequest, &str) -> ScriptedAction;

/// What an agent that owns the task list does to it, from the request and the world's seed.
pub type ListScript = fn(&AgentRequest, u64, &mut TaskList);

/// What the user does to the task file.
pub type UserEdit = fn(&mut TaskList);

/// What else an agent does to the world.
pub type WorldScript = fn(&AgentRequest, &mut ScriptedWorld);

/// Everything that survives a crash, and the scripted behavior of the world.
pub struct ScriptedWorld {
    pub journal: Vec<Recorded>,
    /// The state after the events that were shown: folding all of them after each takes minutes.
    folded: Option<RunState>,
    /// Replies that were received completely, by iteration and call.
    pub received: BTreeMap<(u32, u32), Reply>,
    pub tree: String,
    /// The commits, oldest first: tree, message, mark.
    pub commits: Vec<(String, String, IterationMark)>,
    pub kept: Vec<String>,
    /// Failure branches: tree and order.
    pub failure_branches: Vec<(String, FailureBranchOrder)>,
    /// How many commits the agent made by itself on top of ours.
    pub foreign_commits: u32,
    /// How often the tree was surveyed.
    pub surveys: u32,
    /// The prompts of the agent calls, with their roles.
    pub prompts: Vec<(Role, String)>,
    /// The state written for the hooks before each agent call.
    pub active: Vec<HookState>,
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
    pub companion_files: BTreeMap<String, String>,
    /// The plan that the agent maintains.
    pub plan: Option<String>,
    /// ralph's copy of it, which no agent can change.
    pub plan_copy: Option<String>,
    /// The output of a hook that refuses commits, while there is one.
    pub hook: Option<String>,
    /// The user stops the run once the clock shows this.
    pub stop_at: Option<i64>,
    /// Control requests; each arrives once the clock shows its time.
    pub inbox: Vec<SubmittedRequest>,
    /// The port call to die at, counted over the whole test; odd ones die after the effect.
    pub die_at: Option<u64>,
    /// Port calls so far, counted twice: before and after each effect.
    pub calls: u64,
    /// Whether a death is a power cut, which also takes the events that were not synced.
    pub power_fails: bool,
    /// How many events survive a power cut, and whether later ones must before the next effect.
    synced: (usize, bool),
    /// How many events power cuts took.
    pub lost_events: usize,
    /// What the agent does to the task file, if it owns it.
    pub list_script: Option<ListScript>,
    pub world_script: Option<WorldScript>,
    /// The workers that were started, with their runs.
    pub workers: BTreeMap<WorkerId, ScriptedWorker>,
    /// How many polls the workers of tasks take; others take two.
    pub worker_polls: BTreeMap<TaskId, u32>,
    /// How often the workers of tasks are still killed at their end.
    pub losses: BTreeMap<TaskId, u32>,
    /// The port calls at which the workers of tasks die, once.
    pub worker_deaths: BTreeMap<TaskId, u64>,
    /// The task at whose start the worker host turns out to be gone, once.
    pub lost_host: Option<TaskId>,
    /// The commits of workers: the trees of base and commit.
    pub candidates: BTreeMap<String, (String, String)>,
    /// What was fetched from workers.
    pub fetched: Vec<(WorkerId, Option<CommitId>)>,
    /// How often the work on tasks still cannot be fetched.
    pub unfetchable: BTreeMap<TaskId, u32>,
    /// Workers whose end was recorded before their work was fetched.
    pub ended_too_early: Vec<WorkerId>,
    /// A word that the user adds to the work tree and does not commit, once, and how long after
    /// the start.
    pub user_word: Option<(i64, String)>,
    /// The merged trees of workers whose tasks start again.
    pub requeued: BTreeMap<WorkerId, TreeId>,
    /// Limits that the workers of tasks report, once.
    pub limits: BTreeMap<TaskId, WorkerLimitKind>,
    /// The requests that were sent to workers.
    pub sent: Vec<(WorkerId, ControlRequest)>,
    /// What the user does to the task file, once, and how long after the start.
    pub user_edit: Option<(i64, UserEdit)>,
    /// The trees on which a flaky gate has failed.
    pub flaked: BTreeSet<String>,
    /// Distinguishes random worlds.
    pub seed: u64,
    script: AgentScript,
}

/// The panic payload of a death, to distinguish it from a real panic.
struct ScriptedDeath;

/// A handle to the world, shared by the ports.
#[derive(Clone)]
pub struct SharedWorld(pub Rc<RefCell<ScriptedWorld>>);

/// The start time of every world.
pub const BEGINNING: i64 = 1_700_000_000_000;

impl SharedWorld {
    /// Returns a world in which the agent follows the script.
    pub fn new(script: AgentScript) -> Self {
        Self(Rc::new(RefCell::new(ScriptedWorld {
            journal: Vec::new(),
            folded: None,
            received: BTreeMap::new(),
            tree: "start".to_owned(),
            commits: Vec::new(),
            kept: Vec::new(),
            failure_branches: Vec::new(),
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
            companion_files: BTreeMap::new(),
            plan: None,
            plan_copy: None,
            hook: None,
            stop_at: None,
            inbox: Vec::new(),
            die_at: None,
            calls: 0,
            power_fails: false,
            synced: (0, false),
            lost_events: 0,
            list_script: None,
            world_script: None,
            workers: BTreeMap::new(),
            worker_polls: BTreeMap::new(),
            losses: BTreeMap::new(),
            worker_deaths: BTreeMap::new(),
            lost_host: None,
            candidates: BTreeMap::new(),
            fetched: Vec::new(),
            unfetchable: BTreeMap::new(),
            ended_too_early: Vec::new(),
            user_word: None,
            requeued: BTreeMap::new(),
            limits: BTreeMap::new(),
            sent: Vec::new(),
            user_edit: None,
            flaked: BTreeSet::new(),
            seed: 0,
            script,
        })))
    }

    /// Runs a recipe to its end, dying and resuming as configured.
    pub fn run_to_end(&self, recipe: &Recipe) -> Result<Outcome, EngineError> {
        loop {
            let run = AssertUnwindSafe(|| self.run_once(recipe));
            match panic::catch_unwind(run) {
                Ok(end) => return end,
                Err(payload) if payload.is::<ScriptedDeath>() => {}
                Err(payload) => panic::resume_unwind(payload),
            }
        }
    }

    /// Starts or resumes the run, and dies at a port call, counted from now. None if it died.
    pub fn run_until_death(
        &self,
        recipe: &Recipe,
        death: Option<u64>,
    ) -> Option<Result<Outcome, EngineError>> {
        {
            let mut world = self.0.borrow_mut();
            world.die_at = death.map(|death| world.calls + death);
        }
        let ran = panic::catch_unwind(AssertUnwindSafe(|| self.run_once(recipe)));
        self.0.borrow_mut().die_at = None;
        match ran {
            Ok(end) => Some(end),
            Err(payload) if payload.is::<ScriptedDeath>() => None,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Starts the run, or resumes it if there is a journal.
    pub fn run_once(&self, recipe: &Recipe) -> Result<Outcome, EngineError> {
        self.run_process(recipe, None)
    }

    /// Starts the run, or resumes it with other policies.
    fn run_process(
        &self,
        recipe: &Recipe,
        changed: Option<Recipe>,
    ) -> Result<Outcome, EngineError> {
        self.0.borrow_mut().end_workers();
        let mut workers = self.clone();
        let (mut agent, mut gates, mut vcs) = (self.clone(), self.clone(), self.clone());
        let (mut store, mut clock, mut ui) = (self.clone(), self.clone(), self.clone());
        let ports = Ports {
            agent: &mut agent,
            gates: &mut gates,
            vcs: &mut vcs,
            store: &mut store,
            clock: &mut clock,
            ui: &mut ui,
            workers: &mut workers,
        };
        let journal = self.0.borrow().journal.clone();
        let mut engine = if journal.is_empty() {
            Engine::start_run(
                ports,
                RunStart {
                    run: RunId("20260101-000000-test".into()),
                    project: PathBuf::from("/project"),
                    recipe: recipe.clone(),
                    version: "0".into(),
                },
            )?
        } else {
            Engine::resume_run(ports, fold_events(&journal)?, "0".into(), changed)?
        };
        engine.run()
    }

    /// Dies if this is the call to die at. Called before and after every effect.
    fn count_call(&self) {
        let mut world = self.0.borrow_mut();
        world.calls += 1;
        if world.die_at == Some(world.calls) {
            world.die_at = None;
            if world.power_fails {
                world.cut_power();
            }
            drop(world);
            panic::resume_unwind(Box::new(ScriptedDeath));
        }
    }
}

impl ScriptedWorld {
    /// Returns the state after all events.
    fn fold_journal(&mut self) -> &RunState {
        let first = || start_state(&self.journal[0]).expect("a journal of ours folds");
        let is_known = |it: &RunState| it.seq <= self.journal.len() as u64;
        let mut state = self.folded.take().filter(is_known).unwrap_or_else(first);
        let known = usize::try_from(state.seq).expect("a few events");
        for recorded in &self.journal[known..] {
            apply_event(&mut state, recorded).expect("a journal of ours folds");
        }
        self.folded.insert(state)
    }

    /// Appends an event, and syncs it when the journal on a disk does.
    fn append_synced_as_on_disk(&mut self, recorded: &Recorded) {
        self.journal.push(recorded.clone());
        match find_sync_time(&recorded.event) {
            SyncTime::AtOnce => self.synced = (self.journal.len(), false),
            SyncTime::BeforeActing => self.synced.1 = true,
            SyncTime::WithTheNext => {}
        }
    }

    /// Loses the events that were not synced.
    fn cut_power(&mut self) {
        self.lost_events += self.journal.len() - self.synced.0;
        self.journal.truncate(self.synced.0);
        self.folded = None;
        self.synced.1 = false;
    }
}

fn build_exit(code: i32) -> ChildEnd {
    ChildEnd { ran: Millis(1_000), ..ChildEnd::from_ending(Ending::Exited { code }) }
}

/// Returns an answer with the token of its call in its first object, as the prompt demands.
pub(crate) fn add_token(request: &AgentRequest, text: &str) -> String {
    let token = request.schema.as_ref().and_then(|it| it["properties"]["token"].get("const"));
    match token {
        Some(token) => text.replacen("{\"", &format!("{{\"token\": {token}, \""), 1),
        None => text.to_owned(),
    }
}

impl Agent for SharedWorld {
    fn ask(&mut self, request: &AgentRequest, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply {
        self.count_call();
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
            if let (Some(keeping), Some(list)) = (world.list_script, &mut world.tasks) {
                keeping(request, seed, list);
            }
            if let Some(doing) = world.world_script {
                doing(request, &mut world);
            }
            let text = add_token(request, &action.text);
            let reply = Reply {
                signal: ralph_core::answers::completion::find_signal(&text),
                text,
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
                end: build_exit(0),
                failure: action.failure.map(|class| Failure::new(class, "scripted")),
                warnings: Vec::new(),
            };
            world.received.insert((request.iteration.0, request.ask.0), reply.clone());
            reply
        };
        on_event(&AgentEvent::Notice { text: "asked".into() });
        self.count_call();
        reply
    }

    fn recover(&mut self, request: &AgentRequest) -> Option<Reply> {
        self.count_call();
        let key = (request.iteration.0, request.ask.0);
        self.0.borrow().received.get(&key).cloned()
    }

    fn command_line(&self, _request: &AgentRequest) -> Vec<String> {
        vec!["agent".into()]
    }
}

impl Gates for SharedWorld {
    /// A gate's command is a word that must occur in the tree. With `+` in front it is added if
    /// it is missing, and with `*` in front each time. With `!` in front the gate fails if all of
    /// its words occur, and with `?` in front the first time it runs on a tree.
    fn run_gate(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        self.count_call();
        tick(Millis(1_000));
        let command = order.gate.check.label().to_owned();
        let is_flaky = command.starts_with('?');
        let is_green = if is_flaky {
            let mut world = self.0.borrow_mut();
            let tree = world.tree.clone();
            !world.flaked.insert(tree)
        } else {
            let tree = &mut self.0.borrow_mut().tree;
            let is_there = tree.contains(command.trim_start_matches(['+', '*']));
            if command.starts_with('*') || (command.starts_with('+') && !is_there) {
                tree.extend([" ", &command[1..]]);
            }
            match command.strip_prefix('!') {
                Some(words) => !words.split(' ').all(|word| tree.contains(word)),
                None => is_there || command.starts_with(['+', '*']),
            }
        };
        self.count_call();
        GateResult {
            end: Some(build_exit(i32::from(!is_green))),
            log: Some(format!(".ralph/guardrail_{}_{command}.log", order.iteration)),
            output: format!("no {command}"),
            ..GateResult::new(
                order.gate.name.clone(),
                command,
                order.severity,
                if is_green { GateStatus::Passed } else { GateStatus::Failed },
            )
        }
    }
}

impl Store for SharedWorld {
    fn mask_secrets(&self, event: Event) -> Event {
        event
    }

    fn append_event(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        self.count_call();
        self.0.borrow_mut().note_unfetched_end(&recorded.event);
        self.0.borrow_mut().append_synced_as_on_disk(recorded);
        self.count_call();
        Ok(())
    }

    fn sync_events(&mut self) -> Result<(), StoreError> {
        let mut world = self.0.borrow_mut();
        if world.synced.1 {
            world.synced = (world.journal.len(), false);
        }
        Ok(())
    }

    fn read_text(&mut self, text: &ProjectText) -> Result<Option<String>, PromptError> {
        self.count_call();
        let world = self.0.borrow();
        match text {
            ProjectText::PromptFile(path) => {
                let message = format!("no prompt file `{}`", path.display());
                world.prompt_file.clone().map(Some).ok_or(PromptError { message })
            }
            ProjectText::Template(name) => {
                let template = world.templates.get(*name).cloned();
                template.transpose().map_err(|message| PromptError { message })
            }
            ProjectText::Companion { name, .. } => Ok(world.companion_files.get(*name).cloned()),
            ProjectText::Skill(name) => Ok((name == "known").then(|| "Know this.".to_owned())),
            ProjectText::Excerpt { path, .. } if path == "tree" => Ok(Some(world.tree.clone())),
            // Files in conflict; `<<<` is a marker.
            ProjectText::Excerpt { .. } => Ok(Some(world.tree.replace(" <<<", "\n<<<<<<< ours"))),
        }
    }

    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        self.count_call();
        let missing = || TasksError { message: format!("no task file `{}`", path.display()) };
        self.0.borrow().tasks.clone().ok_or_else(missing)
    }

    fn check_task_file(&mut self, path: &Path, known: &TaskList) -> TasksFound {
        self.count_call();
        match &self.0.borrow().tasks {
            Some(list) if list == known => TasksFound::Same,
            Some(list) => TasksFound::Edited(Box::new(list.clone())),
            None => TasksFound::Broken { message: format!("no task file `{}`", path.display()) },
        }
    }

    fn write_tasks(&mut self, _path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError> {
        self.count_call();
        self.0.borrow_mut().tasks = Some(order.resulting_list());
        self.count_call();
        Ok(())
    }

    fn write_companion_file(
        &mut self,
        _tasks: &Path,
        name: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        self.count_call();
        self.0.borrow_mut().companion_files.insert(name.to_owned(), text.to_owned());
        self.count_call();
        Ok(())
    }

    fn inspect_plan(&mut self, _file: &Path, removed: &[String]) -> PlanState {
        self.count_call();
        let world = self.0.borrow();
        match world.plan.clone() {
            Some(text) if !text.trim().is_empty() => {
                let before = world.plan_copy.as_deref().unwrap_or_default();
                assess_changed_plan(removed, before, &text)
            }
            text => PlanState::Lost {
                loss: if text.is_some() { PlanLoss::Empty } else { PlanLoss::Missing },
                copy: match world.plan_copy {
                    Some(_) => PlanCopy::Kept,
                    None => PlanCopy::None,
                },
            },
        }
    }

    fn keep_plan(&mut self, _file: &Path) {
        self.count_call();
        let plan = self.0.borrow().plan.clone();
        if let Some(text) = plan.filter(|text| !text.trim().is_empty()) {
            self.0.borrow_mut().plan_copy = Some(text);
        }
        self.count_call();
    }

    fn restore_plan(&mut self, _file: &Path) -> Result<(), StoreError> {
        self.count_call();
        let copy = self.0.borrow().plan_copy.clone();
        self.0.borrow_mut().plan = copy;
        self.count_call();
        Ok(())
    }

    fn publish_view(&mut self, view: &View<'_>) -> Result<(), StoreError> {
        self.count_call();
        if let View::HookState(active) = view {
            self.0.borrow_mut().active.push((*active).clone());
        }
        if let View::Memory { compacted, .. } = view {
            self.0.borrow_mut().memory = Some((*compacted).clone());
        }
        Ok(())
    }
}
