//! The world of a simulated run: everything that survives a death, the faults, and the truth
//! about what happened, which the engine does not know.
//!
//! Not here: the ports, through which the engine sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ralph_core::ports::AgentRequest;
use ralph_core::tasks::plan::{assess_changed_plan, assess_plan};
use ralph_model::agent_output::Reply;
use ralph_model::control::{ControlRequest, ControlRequestId, InboxEntry, SubmittedRequest};
use ralph_model::event::{Purpose, Recorded};
use ralph_model::ids::Role;
use ralph_model::plan::PlanState;
use ralph_model::recipe::PROGRESS;
use ralph_model::task::{Task, TaskList};
use ralph_model::units::Timestamp;

use super::agent_action::IntendedVerdict;
use super::dice::hash_numbers;
use super::git_dir::SimulatedGitDir;
use super::plan::{AgentAct, FaultKind, RequestKind, SimulatedWorkflow, SimulationPlan};
use super::recipe::{PLAN, PROTECTED, TASKS, build_list, format_task_id};
use super::repository::{FileContent, SimulatedRepository, Tree};
use super::tally::Tally;
use super::user_edits::EditedList;

/// The start time of every world.
const BEGINNING: i64 = 1_700_000_000_000;

const DAY: i64 = 86_400_000;

/// The truth about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTruth {
    pub purpose: Purpose,
    pub role: Role,
    /// Whether the agent gave the completion response in its exact form.
    pub claims: bool,
    /// The intended verdict, if one is requested.
    pub meant: IntendedVerdict,
    pub answered: bool,
    /// The call's task, as the file had it after the call.
    pub listed: Option<Task>,
    pub tree: usize,
}

/// The truth about a gate that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateTruth {
    /// The iteration; 0 before the work.
    pub iteration: u32,
    pub gate: String,
    pub tree: usize,
    pub passed: bool,
}

/// Everything that survives a death.
#[derive(Debug)]
pub struct SimulatedWorld {
    pub plan: SimulationPlan,
    pub journal: Vec<Recorded>,
    /// Replies that were received completely, by iteration and call.
    pub received: BTreeMap<(u32, u32), Reply>,
    /// How many replies each call purpose got.
    reply_counts: BTreeMap<(u32, String), u32>,
    /// The truth about every call, by iteration and call.
    pub truths: BTreeMap<(u32, u32), CallTruth>,
    /// The truth about every gate that was run.
    pub checks: Vec<GateTruth>,
    pub repository: SimulatedRepository,
    /// ralph's copy of the plan, which no agent can change.
    pub plan_copy: Option<FileContent>,
    pub git_dir: SimulatedGitDir,
    pub by_hand: Option<u32>,
    /// A user's edit of the task list, until the run resumes.
    pub edited: Option<EditedList>,
    /// A user's commit since the run ended.
    pub committed: Option<usize>,
    /// Users' commits that the run continued from.
    pub user_commits: Vec<usize>,
    /// The list as this process last wrote it.
    pub left_list: Option<Rc<TaskList>>,
    /// Whether writing the task file ever failed.
    pub list_failed: bool,
    /// Whether writing the plan ever failed.
    pub plan_failed: bool,
    /// The wall clock in milliseconds.
    pub now: i64,
    /// How long the run has been running.
    pub ran: u64,
    /// Whether the user wants to stop.
    pub stops: bool,
    pub inbox: Vec<SubmittedRequest>,
    /// When an invalid file appears in the inbox.
    invalid_requests: Vec<i64>,
    pub steps: u64,
    pub all_steps: u64,
    pub die_at: Option<u64>,
    /// Faults that have occurred since a user last started the run.
    fired: BTreeSet<usize>,
    /// Faults that are over.
    spent: BTreeSet<usize>,
    pub tally: Tally,
}

impl SimulatedWorld {
    /// Returns the world in which a plan begins.
    pub fn new(plan: &SimulationPlan) -> Self {
        let at = |seconds: u64| BEGINNING + i64::try_from(seconds * 1_000).unwrap_or(0);
        let requests = plan.control_requests.iter().enumerate();
        let inbox = requests.filter_map(|(number, planned)| {
            Some(SubmittedRequest {
                id: ControlRequestId(format!("request-{number}")),
                at: Timestamp(at(planned.after)),
                by: number.is_multiple_of(2).then(|| "a user".to_owned()),
                request: match planned.request {
                    RequestKind::Pause => ControlRequest::Pause,
                    RequestKind::Resume => ControlRequest::Resume,
                    RequestKind::Stop => ControlRequest::Stop,
                    RequestKind::Skip(place) => {
                        ControlRequest::Skip { task: format_task_id(place) }
                    }
                    RequestKind::Note => {
                        ControlRequest::Note { text: format!("Watch the {number}th step.") }
                    }
                    RequestKind::Junk => return None,
                },
            })
        });
        let mut tally = Tally::default();
        if plan.workflow == SimulatedWorkflow::SpecsBuild
            && plan.faults.iter().any(|fault| fault.kind == FaultKind::PlanIsMissing)
        {
            tally.count_one("fault PlanIsMissing");
        }
        let junk = plan.control_requests.iter().filter(|it| it.request == RequestKind::Junk);
        Self {
            inbox: inbox.collect(),
            invalid_requests: junk.map(|it| at(it.after)).collect(),
            journal: Vec::new(),
            received: BTreeMap::new(),
            reply_counts: BTreeMap::new(),
            truths: BTreeMap::new(),
            checks: Vec::new(),
            repository: SimulatedRepository::new(build_first_tree(plan)),
            plan_copy: None,
            git_dir: SimulatedGitDir::default(),
            by_hand: None,
            edited: None,
            committed: None,
            user_commits: Vec::new(),
            left_list: None,
            list_failed: false,
            plan_failed: false,
            now: BEGINNING,
            ran: 0,
            stops: false,
            steps: 0,
            all_steps: 0,
            die_at: None,
            fired: BTreeSet::new(),
            spent: BTreeSet::new(),
            tally,
            plan: plan.clone(),
        }
    }

    /// Begins a process: what was only in memory is gone.
    pub fn begin_process(&mut self, die_at: Option<u64>) {
        (self.steps, self.die_at, self.stops) = (0, die_at, false);
        self.left_list = None;
        self.git_dir.begin_process();
    }

    /// A user fixes the faults and resumes a run that has ended.
    pub fn fix_and_resume(&mut self) {
        self.fix_faults();
        self.stops = false;
        self.apply_user_edits();
    }

    /// A user fixes the faults.
    pub fn fix_faults(&mut self) {
        self.spent.append(&mut self.fired);
    }

    /// Returns whether a fault occurs in this iteration, until a user fixes it.
    pub fn has_fault(&mut self, kind: FaultKind, iteration: u32) -> bool {
        let place = self.find_fault(kind, |at| at == iteration);
        self.record_fault(kind, place)
    }

    /// Returns whether a fault occurs from this iteration on, until a user fixes it.
    pub fn has_fault_since(&mut self, kind: FaultKind, iteration: u32) -> bool {
        let place = self.find_fault(kind, |at| at <= iteration);
        self.record_fault(kind, place)
    }

    /// Returns whether a fault occurs that occurs only once.
    pub fn take_fault(&mut self, kind: FaultKind, now: u32) -> bool {
        let place = self.find_fault(kind, |at| at <= now);
        if let Some(place) = place {
            self.tally.count_one(format!("fault {kind:?}"));
            self.spent.insert(place);
        }
        place.is_some()
    }

    fn find_fault(&self, kind: FaultKind, is_now: impl Fn(u32) -> bool) -> Option<usize> {
        let is_it = |place: usize| {
            let fault = &self.plan.faults[place];
            fault.kind == kind && is_now(fault.at) && !self.spent.contains(&place)
        };
        (0..self.plan.faults.len()).find(|place| is_it(*place))
    }

    fn record_fault(&mut self, kind: FaultKind, place: Option<usize>) -> bool {
        if let Some(place) = place {
            self.tally.count_one(format!("fault {kind:?}"));
            self.fired.insert(place);
        }
        place.is_some()
    }

    /// Returns the agent's act for this request. It stays the same until the request gets a
    /// reply.
    pub fn choose_act(&self, request: &AgentRequest) -> AgentAct {
        let key = (request.iteration.0, format_purpose(&request.purpose));
        let nth = self.reply_counts.get(&key).copied().unwrap_or(0);
        let purpose = match &request.purpose {
            Purpose::Work => 0,
            Purpose::Message => 7,
            Purpose::Gate(name) => {
                3 + hash_numbers(&[name.len() as u64, parse_gate_number(name)]) % 5
            }
        };
        let script = &self.plan.script;
        let at = u64::from(request.iteration.0 + nth) + purpose;
        let at = usize::try_from(at).unwrap_or(0).checked_rem(script.len()).unwrap_or(0);
        let honest = AgentAct { character: super::plan::Character::Honest, salt: 0 };
        script.get(at).copied().unwrap_or(honest)
    }

    /// Records that a request got a reply.
    pub fn record_reply(&mut self, request: &AgentRequest, reply: &Reply) {
        let key = (request.iteration.0, format_purpose(&request.purpose));
        *self.reply_counts.entry(key).or_default() += 1;
        self.received.insert((request.iteration.0, request.ask.0), reply.clone());
    }

    /// Returns what is in the inbox by now.
    pub fn read_inbox(&mut self) -> Vec<InboxEntry> {
        let now = self.now;
        let there = self.inbox.iter().filter(|asked| asked.at.0 <= now);
        let mut found: Vec<InboxEntry> = there.cloned().map(InboxEntry::Request).collect();
        let before = self.invalid_requests.len();
        self.invalid_requests.retain(|at| *at > now);
        let junk = before - self.invalid_requests.len();
        let name = "junk.json".to_owned();
        found.extend(
            (0..junk).map(|_| InboxEntry::Invalid { name: name.clone(), why: "junk".to_owned() }),
        );
        found
    }

    /// Waits until a time, or until a control request arrives.
    pub fn wait_until(&mut self, until: i64) {
        let next = self.inbox.iter().map(|asked| asked.at.0).min();
        if until == i64::MAX && next.is_none() {
            // No run stays paused forever.
            self.now += 3_600_000;
            let id = ControlRequestId(format!("resume-{}", self.now));
            let at = Timestamp(self.now);
            self.inbox.push(SubmittedRequest { id, at, by: None, request: ControlRequest::Resume });
            return;
        }
        let end = next.map_or(until, |at| at.min(until));
        self.now = self.now.max(end);
    }

    /// Lets the clock jump, if planned.
    pub fn jump_clock(&mut self, iteration: u32) {
        if self.take_fault(FaultKind::ClockJumpsForward, iteration) {
            self.now += DAY;
        }
        if self.take_fault(FaultKind::ClockJumpsBack, iteration) {
            self.now -= DAY;
        }
    }

    /// Reads the plan that the agent maintains, and compares it with the copy.
    pub fn read_plan(&self, removed: &[String]) -> PlanState {
        let text = match self.repository.work.get(PLAN) {
            Some(FileContent::Text(text)) => Some(text.to_string()),
            Some(FileContent::List(_)) | None => None,
        };
        let text_now = text.clone().unwrap_or_default();
        let look = assess_plan(Ok(text));
        match look {
            PlanState::Usable { .. } => {
                let before = match &self.plan_copy {
                    Some(FileContent::Text(text)) => text.to_string(),
                    Some(FileContent::List(_)) | None => String::new(),
                };
                assess_changed_plan(removed, &before, &text_now)
            }
            PlanState::Lost { loss, copy } => PlanState::Lost {
                loss,
                copy: if self.plan_copy.is_some() {
                    ralph_model::plan::PlanCopy::Kept
                } else {
                    copy
                },
            },
        }
    }

    /// Keeps a copy of a usable plan.
    pub fn keep_plan(&mut self) {
        if self.read_plan(&[]).counts().is_some() {
            self.plan_copy = self.repository.work.get(PLAN).cloned();
        }
    }
}

/// Returns the number in the name of a gate.
pub fn parse_gate_number(name: &str) -> u64 {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(99)
}

fn format_purpose(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Work => "work".to_owned(),
        Purpose::Message => "message".to_owned(),
        Purpose::Gate(name) => name.clone(),
    }
}

fn build_first_tree(plan: &SimulationPlan) -> Tree {
    let mut tree = Tree::new();
    let mut add = |path: &str, content| drop(tree.insert(path.to_owned(), content));
    add("README.md", FileContent::from_text("A project."));
    add(PROTECTED, FileContent::from_text("exit 1"));
    if let Some(gate) = plan.red_before {
        add("work/old", FileContent::from_text(format!("bad{gate} from before")));
    }
    if plan.workflow.is_list() {
        add(TASKS, FileContent::List(std::rc::Rc::new(build_list(plan))));
        add(PROGRESS, FileContent::from_text("## Codebase Patterns\n\n---\n"));
    }
    let has_fault = |kind| plan.faults.iter().any(|fault| fault.kind == kind);
    if plan.workflow == SimulatedWorkflow::SpecsBuild && !has_fault(FaultKind::PlanIsMissing) {
        add(PLAN, FileContent::from_text("# Plan\n- [ ] one\n- [ ] two\n- [x] three\n"));
    }
    tree
}
