//! The recipe: every policy of a run, validated and complete.
//!
//! What differs between workflows is a field here. The engine sees only the recipe; it
//! never knows the name of a workflow. Not here: where the values come from (settings and
//! flags).

mod ownership;
mod parallel;
mod prompt;
mod scm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent::AgentChoice;
use crate::amendment::AmendmentPolicy;
use crate::attempt::EarlierAttempts;
use crate::budget::Budget;
use crate::context::ContextPlan;
use crate::failure::{RateLimitAction, RateLimitPolicy, Retries};
use crate::gate::{Gate, GateCheck, Severity, ValidationStrategy};
use crate::glob::Pattern;
use crate::guard_policy::GuardPolicy;
use crate::ids::{Role, TaskId};
use crate::memory::MemoryPolicy;
use crate::review::ReviewPolicy;
use crate::sandbox::SandboxPolicy;
use crate::stuck::StuckPolicy;
use crate::task::{ListForm, ListOwner, TaskList, TaskStatus};
use crate::units::Millis;
use crate::worktree::Checkpoint;

pub use ownership::{CommitOwner, HistoryOwner, Ownership};
pub use parallel::{ClonePolicy, JobContext, MOST_JOBS, OtherTask, OverlapPolicy, ParallelPolicy};
pub use prompt::{
    FinishNote, IterationCount, PlanFile, PlanPart, PromptPlan, PromptSource, RunPrompt, Template,
    TemplatePlace,
};
pub use scm::{MessageAuthor, Scm, ScmTask};

/// The policies of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name of the workflow, for people only.
    pub workflow: String,
    pub work: Work,
    /// The role of iterations on a prompt; tasks have roles of their own.
    #[serde(default = "Role::for_prompts")]
    pub role: Role,
    /// The agent for every role that has none of its own.
    pub agent: AgentChoice,
    /// Other agents for single roles.
    pub agents: BTreeMap<Role, AgentChoice>,
    /// The agent for attempts after a strategy shift, where there is one.
    #[serde(default)]
    pub escalate: Option<AgentChoice>,
    /// How prompts are assembled.
    pub prompt: PromptPlan,
    /// The gates, in order.
    pub gates: Vec<Gate>,
    /// Which of them must pass.
    pub strategy: ValidationStrategy,
    /// Whether the hard ones run once before any agent.
    pub baseline: BaselinePolicy,
    /// Paths that an attempt may not change.
    pub protect: Vec<Pattern>,
    /// Exceptions from `protect` set by the user.
    #[serde(default)]
    pub unprotected: Vec<Pattern>,
    /// The part of `protect` that stays protected even if a task names it: the settings,
    /// the scripts of gates and the agents' instruction files.
    #[serde(default)]
    pub locked: Vec<Pattern>,
    /// The project files that gates run, as shown to people.
    #[serde(default)]
    pub gate_scripts: Vec<String>,
    /// Further files of the project that say what gates do. A change of them is reported.
    #[serde(default)]
    pub gate_files: Vec<String>,
    /// Names in `locked` that do not exist and would change what the programs of gates do.
    #[serde(default)]
    pub gate_shadows: Vec<String>,
    /// The names of programs that gates start.
    #[serde(default)]
    pub gate_programs: Vec<String>,
    /// Files in which text that only looks like a secret may be committed.
    #[serde(default)]
    pub secrets_allowed: Vec<Pattern>,
    /// The only paths that an attempt may change; empty means everything that is not
    /// protected. Other changes are reverted.
    #[serde(default)]
    pub scope: Vec<Pattern>,
    /// Paths that were uncommitted before the run began, where the agent has to commit or no one
    /// commits; the first ones of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted_before: Vec<String>,
    /// How the guard treats its findings, from the settings.
    #[serde(default)]
    pub guard: GuardPolicy,
    /// The one file that the work produces, if any. It is a draft until the work is
    /// complete: a run that ends otherwise restores the previous file.
    #[serde(default)]
    pub draft: Option<PathBuf>,
    /// The plan that the agent follows and maintains, if any.
    #[serde(default)]
    pub plan: Option<PlanFile>,
    /// When handoffs are compacted into a memory, if at all.
    #[serde(default)]
    pub memory: Option<MemoryPolicy>,
    /// What completes a prompt.
    #[serde(default)]
    pub completion: Completion,
    /// The text that completes the work, where the agent has to confirm.
    pub completion_response: String,
    /// What happens to the work tree.
    pub landing: LandingPolicy,
    pub retries: Retries,
    /// What happens at a usage limit.
    pub rate_limit: RateLimitPolicy,
    /// Limits of the run.
    pub limits: RunLimits,
    /// What agents and gates can access.
    #[serde(default)]
    pub sandbox: SandboxPolicy,
    /// How it works on several tasks at once, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelPolicy>,
}

impl Recipe {
    /// Returns whether a path is protected from changes.
    pub fn is_protected(&self, path: &str) -> bool {
        let is_in = |patterns: &[Pattern]| patterns.iter().any(|it| it.matches(path));
        self.is_locked(path) || is_in(&self.protect) && !is_in(&self.unprotected)
    }

    /// Returns whether a path stays protected even if a task names it.
    pub fn is_locked(&self, path: &str) -> bool {
        self.locked.iter().any(|it| it.matches(path))
    }

    /// Returns the protected paths other than the settings for prompts, scripts of gates
    /// first.
    pub fn protected_names(&self) -> Vec<String> {
        let own = self.protect.iter().filter(|it| !self.locked.contains(it));
        let own = own.map(|it| it.as_str().trim_start_matches('/').to_owned());
        let is_new = |name: &String| !self.gate_scripts.contains(name);
        self.gate_scripts.iter().cloned().chain(own.filter(is_new)).collect()
    }

    /// Returns the simplest recipe for some work: no gates, no commits, ten iterations,
    /// and defaults for everything else.
    pub fn new(work: Work, agent: AgentChoice) -> Self {
        Self {
            workflow: "prompt".to_owned(),
            work,
            role: Role::Prompt,
            agent,
            agents: BTreeMap::new(),
            escalate: None,
            prompt: PromptPlan {
                iteration_count: IterationCount::Hidden,
                output_chars: 5000,
                vars: BTreeMap::new(),
                context: ContextPlan::default(),
                finish: FinishNote::Omitted,
            },
            gates: Vec::new(),
            strategy: ValidationStrategy::Strict,
            baseline: BaselinePolicy::Off,
            protect: Vec::new(),
            unprotected: Vec::new(),
            locked: Vec::new(),
            gate_scripts: Vec::new(),
            gate_files: Vec::new(),
            gate_shadows: Vec::new(),
            gate_programs: Vec::new(),
            secrets_allowed: Vec::new(),
            uncommitted_before: Vec::new(),
            scope: Vec::new(),
            guard: GuardPolicy::default(),
            draft: None,
            plan: None,
            memory: None,
            completion: Completion::Signal,
            completion_response: "DONE".to_owned(),
            landing: LandingPolicy {
                commit: CommitPolicy::NoCommit,
                commit_prefix: "ralph".to_owned(),
                commit_message: None,
                on_failure: OnFailure::Keep,
                uncommitted: Uncommitted::Refused,
            },
            retries: Retries { max: 3, backoff: Millis::from_secs(5) },
            rate_limit: RateLimitPolicy {
                wait: RateLimitAction::Wait,
                max_wait: Millis::from_mins(360),
            },
            limits: RunLimits {
                iterations: 10,
                budget: Budget::default(),
                ask_soft: Millis::from_mins(12),
                ask_hard: Millis::from_mins(20),
                ask_idle: Millis::from_mins(10),
                delay: Millis::ZERO,
                unchanged: None,
            },
            sandbox: SandboxPolicy::default(),
            parallel: None,
        }
    }

    /// Returns the gate with a name.
    pub fn find_gate(&self, name: &str) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.name == name)
    }

    /// Returns the agent for a role.
    pub fn agent_for(&self, role: Role) -> &AgentChoice {
        self.agents.get(&role).unwrap_or(&self.agent)
    }

    /// Returns every agent of the recipe, mutably.
    pub fn list_agents_mut(&mut self) -> impl Iterator<Item = &mut AgentChoice> {
        let gates = self.gates.iter_mut().filter_map(|gate| match &mut gate.check {
            GateCheck::Agent(agent) => Some(&mut **agent),
            GateCheck::Command(_) => None,
        });
        std::iter::once(&mut self.agent)
            .chain(self.agents.values_mut())
            .chain(&mut self.escalate)
            .chain(gates)
    }

    /// Returns the agents that the run may call, each once.
    pub fn callable_agents(&self) -> Vec<&AgentChoice> {
        let roles = match &self.work {
            Work::Prompt(_) => vec![self.role, Role::Message],
            Work::Tasks(_) => vec![Role::Implement, Role::Review, Role::Fix, Role::Message],
        };
        let roles = roles.into_iter().chain(self.memory.iter().map(|_| Role::Compact));
        let roles = roles.map(|role| self.agent_for(role));
        let gates = self.gates.iter().filter_map(|gate| match &gate.check {
            GateCheck::Agent(agent) => Some(&**agent),
            GateCheck::Command(_) => None,
        });
        let escalate = self.escalate.iter().filter(|_| self.task_work().is_some());
        let mut asked: Vec<&AgentChoice> = Vec::new();
        for agent in roles.chain(gates).chain(escalate) {
            if !asked.contains(&agent) {
                asked.push(agent);
            }
        }
        asked
    }

    /// Returns whether the run needs a git repository.
    pub fn needs_git(&self) -> bool {
        let commits_with_git = match &self.landing.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Agent => self.landing.uncommitted == Uncommitted::Refused,
            CommitPolicy::Scm(scm) => scm.is_git() && !scm.tasks.is_empty(),
            CommitPolicy::NoCommit => false,
        };
        commits_with_git || self.landing.on_failure == OnFailure::Rollback
    }

    /// Returns who owns the task list, commits and the history.
    pub fn ownership(&self) -> Ownership {
        Ownership::from_recipe(self)
    }

    /// Returns whether the agent owns the task list.
    pub fn is_list_owned_by_agent(&self) -> bool {
        self.ownership().does_agent_own_list()
    }

    /// Returns whether ralph commits: the work, or at least the task list.
    pub fn commits(&self) -> bool {
        let commits_list = self.landing.commit == CommitPolicy::Agent && self.task_work().is_some();
        self.landing.commits() || commits_list
    }

    /// Returns whether commits include everything in the work tree: those of ralph, or of
    /// an agent that must commit.
    pub fn commits_everything(&self) -> bool {
        let must_agent = self.landing.commit == CommitPolicy::Agent
            && self.landing.uncommitted == Uncommitted::Refused;
        self.commits() || must_agent
    }

    /// Returns the tag with which an agent reports completion.
    pub fn completion_signal(&self) -> String {
        format!("<promise>{}</promise>", self.completion_response)
    }

    /// Returns the tag with which an agent answers a template or the user's own prompt.
    pub fn completion_tag(&self) -> String {
        if matches!(self.work, Work::Prompt(PromptSource::Template(_))) {
            return self.completion_signal();
        }
        format!("<response>{}</response>", self.completion_response)
    }

    /// Returns the gate commands.
    pub fn gate_commands(&self) -> Vec<String> {
        Self::list_commands(self.gates.iter())
    }

    /// Returns the commands of the gates that must pass whatever was changed.
    pub fn hard_gate_commands(&self) -> Vec<String> {
        let is_hard = |gate: &&Gate| self.strategy.find_severity(gate) == Some(Severity::Hard);
        let is_always_run = |gate: &&Gate| gate.roles.is_empty() && gate.paths.is_empty();
        Self::list_commands(self.gates.iter().filter(is_hard).filter(is_always_run))
    }

    fn list_commands<'a>(gates: impl Iterator<Item = &'a Gate>) -> Vec<String> {
        gates
            .filter_map(|gate| match &gate.check {
                GateCheck::Command(command) => Some(command.clone()),
                GateCheck::Agent(_) => None,
            })
            .collect()
    }

    /// Returns the policies for a task list, if that is the work.
    pub fn task_work(&self) -> Option<&TaskWork> {
        match &self.work {
            Work::Tasks(work) => Some(work),
            Work::Prompt(_) => None,
        }
    }
}

/// Whether the hard gates run once before any agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BaselinePolicy {
    /// They run, and failures are reported as broken before the run.
    Note,
    /// They run, and must pass.
    Require,
    /// They do not run.
    Off,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A prompt, until the gates pass and, where the recipe wants that, the agent gives the
    /// completion response.
    Prompt(PromptSource),
    /// A task list, until every task is done or none can be worked on.
    Tasks(TaskWork),
}

/// What completes a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The hard gates pass, and the agent gives the completion response.
    #[default]
    Signal,
    /// The hard gates pass. The agent need not confirm.
    Gates,
}

/// How a task list is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWork {
    pub file: PathBuf,
    pub keeper: ListOwner,
    #[serde(default)]
    pub form: ListForm,
    /// The only task to do, if not all.
    pub only: Option<TaskId>,
    /// Which failed tasks are tried again.
    pub retry: Retry,
    /// Attempts for tasks that set no limit of their own.
    pub attempts: u32,
    /// Changes of the list that an iteration may make.
    pub amendments: u32,
    /// Which of them are applied without asking the user.
    #[serde(default)]
    pub amendment_policy: AmendmentPolicy,
    /// Whether finished tasks are reviewed by a fresh agent.
    pub review: ReviewPolicy,
    /// When attempts count as stuck.
    pub stuck: StuckPolicy,
    /// Time after which a task causes a warning.
    pub soft_limit: Millis,
    /// Time after which a task is given up.
    pub hard_limit: Millis,
    /// Failed attempts of earlier runs, which this run continues to count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierAttempts>,
    /// Tasks that agents added to the list in earlier runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<TaskId>,
    /// The state before the work of a failure branch was restored; changes count from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_onto: Option<Box<Checkpoint>>,
    /// Paths in which that work conflicts with later work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored_conflicts: Vec<String>,
    /// What the run knows of the parallel run whose job it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobContext>>,
}

/// Which tasks that failed before a run are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    Nothing,
    All,
    Only(TaskId),
}

impl Retry {
    /// Returns whether a task that failed before is tried again.
    pub fn includes(&self, task: &TaskId) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Only(only) => only == task,
        }
    }

    /// Resets the failed tasks of a list that are tried again. Returns whether there are any.
    pub fn reset_failed(&self, list: &mut TaskList) -> bool {
        let mut is_changed = false;
        for task in &mut list.tasks {
            if task.status == TaskStatus::Failed && self.includes(&task.id) {
                (task.status, task.attempts, is_changed) = (TaskStatus::Pending, 0, true);
            }
        }
        is_changed
    }
}

impl TaskWork {
    /// Returns the attempt limit of a task.
    pub fn attempt_limit(&self, list: &TaskList, task: &TaskId) -> u32 {
        list.find_task(task)
            .map_or(self.attempts, |task| task.count_allowed_attempts(self.attempts))
            .max(1)
    }

    /// Returns the default policies for a task list: five attempts, no review.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            keeper: ListOwner::Ralph,
            form: ListForm::Plan,
            only: None,
            retry: Retry::Nothing,
            attempts: 5,
            amendments: 3,
            amendment_policy: AmendmentPolicy::Add,
            review: ReviewPolicy::Skip,
            stuck: StuckPolicy { after: 3, strategy_shifts: 2 },
            soft_limit: Millis::from_mins(45),
            hard_limit: Millis::from_mins(60),
            earlier: Vec::new(),
            added: Vec::new(),
            restored_onto: None,
            restored_conflicts: Vec::new(),
            job: None,
        }
    }

    /// Returns whether a path, relative to the project directory, is the task file or the
    /// notes next to it: the files that an agent that owns the list writes besides its
    /// work.
    pub fn is_document(&self, project: &Path, path: &str) -> bool {
        let is_it = |file: &PathBuf| file.strip_prefix(project).unwrap_or(file) == Path::new(path);
        self.documents().iter().any(is_it)
    }

    /// Returns the task file and the notes next to it.
    pub fn documents(&self) -> [PathBuf; 2] {
        [self.file.clone(), self.file.with_file_name(PROGRESS)]
    }
}

/// The name of the notes that agents keep next to the task file.
pub const PROGRESS: &str = "progress.txt";

/// What happens to the work tree after an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingPolicy {
    /// Who commits work that passed.
    pub commit: CommitPolicy,
    /// The prefix of ralph's own commit subjects.
    pub commit_prefix: String,
    /// The template of ralph's own commit messages, instead of the default form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    pub on_failure: OnFailure,
    #[serde(default)]
    pub uncommitted: Uncommitted,
}

/// How ralph treats changes that an agent leaves uncommitted although it should commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uncommitted {
    /// The attempt fails as not handed in.
    #[default]
    Refused,
    /// The next iteration gets feedback. Its prompt decides whether to commit.
    #[serde(rename = "told")]
    Reported,
}

impl LandingPolicy {
    /// Returns whether ralph itself commits.
    pub fn commits(&self) -> bool {
        match &self.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Scm(scm) => scm.tasks.iter().any(ScmTask::is_commit),
            CommitPolicy::Agent | CommitPolicy::NoCommit => false,
        }
    }

    /// Returns whether commits are pushed.
    pub fn pushes(&self) -> bool {
        let is_push = |task: &ScmTask| match task {
            ScmTask::Run(args) => args.first().is_some_and(|arg| arg == "push"),
            ScmTask::Commit => false,
        };
        match &self.commit {
            CommitPolicy::Scm(scm) => scm.is_git() && scm.tasks.iter().any(is_push),
            CommitPolicy::Ralph | CommitPolicy::Agent | CommitPolicy::NoCommit => false,
        }
    }

    /// Returns whether only ralph may write the git history. The history of another
    /// program than git is not checked.
    pub fn is_history_owned_by_ralph(&self) -> bool {
        match &self.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Scm(scm) => scm.is_git() && self.commits(),
            CommitPolicy::Agent | CommitPolicy::NoCommit => false,
        }
    }
}

/// Who commits work that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitPolicy {
    /// ralph, with its own subject.
    Ralph,
    /// The agent, as part of its work.
    Agent,
    /// No commit: changes stay in the work tree.
    #[serde(rename = "nobody")]
    NoCommit,
    /// A command with tasks such as `commit` and `push`, and a message written by the agent.
    Scm(Scm),
}

/// What happens to the changes of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They stay for the next attempt.
    #[default]
    Keep,
    /// They are saved on a ref, and the tree is reset to the checkpoint.
    Rollback,
}

/// Limits of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The number of iterations.
    pub iterations: u32,
    /// Money, tokens and time.
    pub budget: Budget,
    /// Time after which an agent call causes a warning.
    pub ask_soft: Millis,
    /// Time after which an agent call is ended.
    pub ask_hard: Millis,
    /// Time without a useful event after which an agent call is ended.
    pub ask_idle: Millis,
    /// A pause between iterations.
    pub delay: Millis,
    /// How many consecutive iterations on a prompt may pass the gates without changing
    /// anything, or fail for the same reason; none for no limit.
    #[serde(default)]
    pub unchanged: Option<u32>,
}
