//! The recipe: every policy of a run, validated, with nothing left to look up.
//!
//! What differs between workflows is a field here. The engine sees only the recipe; it never
//! knows the name of a workflow. Not here: where the values come from (settings and flags).

mod agent;
mod prompt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::amend::AmendmentPolicy;
use crate::budget::Budget;
use crate::context::ContextPlan;
use crate::failure::{Patience, RateLimitPolicy, Retries};
use crate::gate::{Check, Gate, ValidationStrategy};
use crate::glob::Pattern;
use crate::guard;
use crate::ids::{Role, TaskId};
use crate::memory::MemoryPolicy;
use crate::review::ReviewPolicy;
use crate::sandbox::Policy;
use crate::secret::{MASK, is_secret_name, known};
use crate::stuck::StuckPolicy;
use crate::task::{Keeper, ListForm};
use crate::units::Millis;

pub use agent::{
    AgentChoice, AgentKind, AgentOutput, Origin, Permissions, Selectors, UsageSelectors,
};
pub use prompt::{
    FinishNote, IterationCount, PlanFile, PlanPart, PromptPlan, PromptSource, Template,
    TemplatePlace,
};

/// The policies of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name of the workflow, for people only.
    pub workflow: String,
    /// What is to be done.
    pub work: Work,
    /// The role that a prompt is asked in; tasks have roles of their own.
    #[serde(default = "Role::of_prompts")]
    pub role: Role,
    /// The agent for every role that has none of its own.
    pub agent: AgentChoice,
    /// Other agents for single roles.
    pub agents: BTreeMap<Role, AgentChoice>,
    /// The agent for attempts after a strategy shift, where there is one.
    #[serde(default)]
    pub escalate: Option<AgentChoice>,
    /// How prompts are put together.
    pub prompt: PromptPlan,
    /// The checks after the agent, in order.
    pub gates: Vec<Gate>,
    /// Which of them must pass.
    pub strategy: ValidationStrategy,
    /// Whether the hard ones are run once before any agent.
    pub baseline: BaselinePolicy,
    /// What an attempt may not change.
    pub protect: Vec<Pattern>,
    /// What the user takes out of `protect` again.
    #[serde(default)]
    pub unprotected: Vec<Pattern>,
    /// The part of `protect` that no task lifts, whatever it names: the settings, the scripts of
    /// gates and the files that agents get their instructions from.
    #[serde(default)]
    pub locked: Vec<Pattern>,
    /// The files of the project that gates run, as people know them.
    #[serde(default)]
    pub gate_scripts: Vec<String>,
    /// Files in which what only has the shape of a secret may be committed.
    #[serde(default)]
    pub secrets_allowed: Vec<Pattern>,
    /// All that an attempt may change; empty means everything that is not protected. The rest is
    /// put back.
    #[serde(default)]
    pub scope: Vec<Pattern>,
    /// What the settings make of the guard's findings.
    #[serde(default)]
    pub guard: guard::Policy,
    /// The one file that the work is about, where there is one. It is a draft until the work is
    /// complete: a run that ends otherwise leaves what was there before.
    #[serde(default)]
    pub draft: Option<PathBuf>,
    /// The plan that the work goes by and the agent keeps, where there is one.
    #[serde(default)]
    pub plan: Option<PlanFile>,
    /// When the accounts of iterations are compacted into a memory, where they are.
    #[serde(default)]
    pub memory: Option<MemoryPolicy>,
    /// What completes a prompt.
    #[serde(default)]
    pub completion: Completion,
    /// The text that completes the work, where the agent's word is needed.
    pub completion_response: String,
    /// What becomes of the work tree.
    pub landing: LandingPolicy,
    /// How failed calls are repeated.
    pub retries: Retries,
    /// What happens at a usage limit.
    pub rate_limit: RateLimitPolicy,
    /// What bounds the run.
    pub limits: RunLimits,
    /// What agents and gates can reach.
    #[serde(default)]
    pub sandbox: Policy,
}

impl Recipe {
    /// Returns whether an attempt may not change a path.
    pub fn protects(&self, path: &str) -> bool {
        let is_in = |patterns: &[Pattern]| patterns.iter().any(|it| it.matches(path));
        self.is_locked(path) || is_in(&self.protect) && !is_in(&self.unprotected)
    }

    /// Returns whether a path is protected in a way that no task lifts.
    pub fn is_locked(&self, path: &str) -> bool {
        self.locked.iter().any(|it| it.matches(path))
    }

    /// Returns what is protected besides the settings, as agents are told: scripts of gates first.
    pub fn protected_names(&self) -> Vec<String> {
        let own = self.protect.iter().filter(|it| !self.locked.contains(it));
        let own = own.map(|it| it.as_str().trim_start_matches('/').to_owned());
        self.gate_scripts.iter().cloned().chain(own).collect()
    }

    /// Returns the plainest recipe for some work: no gates, nothing committed, ten iterations,
    /// and the default for everything else.
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
            secrets_allowed: Vec::new(),
            scope: Vec::new(),
            guard: guard::Policy::default(),
            draft: None,
            plan: None,
            memory: None,
            completion: Completion::Signal,
            completion_response: "DONE".to_owned(),
            landing: LandingPolicy {
                commit: CommitPolicy::Nobody,
                commit_prefix: "ralph".to_owned(),
                commit_message: None,
                on_failure: OnFailure::Keep,
                uncommitted: Uncommitted::Refused,
            },
            retries: Retries { max: 3, backoff: Millis::from_secs(5) },
            rate_limit: RateLimitPolicy { wait: Patience::Wait, max_wait: Millis::from_mins(360) },
            limits: RunLimits {
                iterations: 10,
                budget: Budget::default(),
                ask_soft: Millis::from_mins(12),
                ask_hard: Millis::from_mins(20),
                ask_idle: Millis::from_mins(10),
                delay: Millis::ZERO,
                unchanged: None,
            },
            sandbox: Policy::default(),
        }
    }

    /// Returns the agent for a role.
    pub fn agent_for(&self, role: Role) -> &AgentChoice {
        self.agents.get(&role).unwrap_or(&self.agent)
    }

    /// Returns the recipe as it is written down: without the secrets that agents get in their
    /// environment.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        for choice in shown.every_agent() {
            let secrets = choice
                .env
                .iter_mut()
                .filter(|(name, value)| is_secret_name(name) && known::is_worth_hiding(value));
            secrets.for_each(|(_, value)| MASK.clone_into(value));
        }
        shown
    }

    /// Returns every agent in it, to be changed.
    pub fn every_agent(&mut self) -> impl Iterator<Item = &mut AgentChoice> {
        let gates = self.gates.iter_mut().filter_map(|gate| match &mut gate.check {
            Check::Agent(agent) => Some(&mut **agent),
            Check::Command(_) => None,
        });
        std::iter::once(&mut self.agent)
            .chain(self.agents.values_mut())
            .chain(&mut self.escalate)
            .chain(gates)
    }

    /// Returns the agents that the run may ask, each once.
    pub fn asked(&self) -> Vec<&AgentChoice> {
        let roles = match &self.work {
            Work::Prompt(_) => vec![self.role, Role::Message],
            Work::Tasks(_) => vec![Role::Implement, Role::Review, Role::Fix, Role::Message],
        };
        let roles = roles.into_iter().chain(self.memory.iter().map(|_| Role::Compact));
        let roles = roles.map(|role| self.agent_for(role));
        let gates = self.gates.iter().filter_map(|gate| match &gate.check {
            Check::Agent(agent) => Some(&**agent),
            Check::Command(_) => None,
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

    /// Returns whether the run cannot do without a git repository.
    pub fn needs_git(&self) -> bool {
        let commits_with_git = match &self.landing.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Agent => self.landing.uncommitted == Uncommitted::Refused,
            CommitPolicy::Scm(scm) => scm.is_git() && !scm.tasks.is_empty(),
            CommitPolicy::Nobody => false,
        };
        commits_with_git || self.landing.on_failure == OnFailure::Rollback
    }

    /// Returns whether the agent keeps the task list itself.
    pub fn is_kept_by_agent(&self) -> bool {
        self.task_work().is_some_and(|work| match work.keeper {
            Keeper::Agent => true,
            Keeper::Ralph => false,
        })
    }

    /// Returns whether ralph is going to commit: the work, or at least the list of tasks.
    pub fn commits(&self) -> bool {
        let commits_list = self.landing.commit == CommitPolicy::Agent && self.task_work().is_some();
        self.landing.commits() || commits_list
    }

    /// Returns whether somebody is going to commit, who takes everything that lies there: ralph,
    /// or an agent that must.
    pub fn takes_everything(&self) -> bool {
        let must_agent = self.landing.commit == CommitPolicy::Agent
            && self.landing.uncommitted == Uncommitted::Refused;
        self.commits() || must_agent
    }

    /// Returns the tag with which an agent says that the work is complete.
    pub fn signal(&self) -> String {
        format!("<promise>{}</promise>", self.completion_response)
    }

    /// Returns the tag that an agent answers a prompt of the user's with when all is done.
    pub fn completion_tag(&self) -> String {
        format!("<response>{}</response>", self.completion_response)
    }

    /// Returns the commands that are run after the agent.
    pub fn commands(&self) -> Vec<String> {
        let gates = self.gates.iter();
        gates
            .filter_map(|gate| match &gate.check {
                Check::Command(command) => Some(command.clone()),
                Check::Agent(_) => None,
            })
            .collect()
    }

    /// Returns the policies of the work on a task list, where that is the work.
    pub fn task_work(&self) -> Option<&TaskWork> {
        match &self.work {
            Work::Tasks(work) => Some(work),
            Work::Prompt(_) => None,
        }
    }
}

/// Whether the hard gates are run once before any agent is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselinePolicy {
    /// They are not.
    Off,
    /// They are; what is red is told apart from what the run breaks.
    Note,
    /// They are, and must be green.
    Require,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A prompt, until the gates pass and, where the recipe wants that, the agent gives the
    /// completion response.
    Prompt(PromptSource),
    /// A task list, until every task is done or none can go on.
    Tasks(TaskWork),
}

/// What completes a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// The hard gates pass, and the agent gives the completion response.
    #[default]
    Signal,
    /// The hard gates pass. Nobody needs the word of the agent where they can tell.
    Gates,
}

/// How a task list is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWork {
    /// The file.
    pub file: PathBuf,
    /// Who writes it.
    pub keeper: Keeper,
    /// How it is written.
    #[serde(default)]
    pub form: ListForm,
    /// The one task to do, if not all are to be done.
    pub only: Option<TaskId>,
    /// Which tasks that failed before are tried again.
    pub retry: Retry,
    /// How many attempts a task gets that does not say so itself.
    pub attempts: u32,
    /// How many changes to the list an iteration may make.
    pub amendments: u32,
    /// Which of them are applied without asking the user.
    #[serde(default)]
    pub amendment_policy: AmendmentPolicy,
    /// Whether finished tasks are reviewed by a fresh agent.
    pub review: ReviewPolicy,
    /// When attempts count as stuck.
    pub stuck: StuckPolicy,
    /// A task is worth a warning after this long.
    pub soft_limit: Millis,
    /// A task is given up after this long.
    pub hard_limit: Millis,
}

/// Which tasks that failed before a run are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// None.
    Nothing,
    /// All of them.
    All,
    /// This one, if it failed.
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
}

impl TaskWork {
    /// Returns the usual way to work on a list: five attempts, no review.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            keeper: Keeper::Ralph,
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
        }
    }

    /// Returns whether a path, from the project directory, is the task file or the notes beside
    /// it: what an agent that keeps the list writes beside its work.
    pub fn is_document(&self, project: &Path, path: &str) -> bool {
        let is_it = |file: &PathBuf| file.strip_prefix(project).unwrap_or(file) == Path::new(path);
        self.documents().iter().any(is_it)
    }

    /// Returns the task file and the notes beside it.
    pub fn documents(&self) -> [PathBuf; 2] {
        [self.file.clone(), self.file.with_file_name(PROGRESS)]
    }
}

/// The name of the notes that agents keep beside the task file.
pub const PROGRESS: &str = "progress.txt";

/// What becomes of the work tree after an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingPolicy {
    /// Who commits work that passed.
    pub commit: CommitPolicy,
    /// The beginning of ralph's own commit subjects.
    pub commit_prefix: String,
    /// The template of ralph's own commit messages, in place of the usual form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    /// What becomes of work that failed.
    pub on_failure: OnFailure,
    /// What is made of changes that an agent leaves uncommitted whose work it is to commit.
    #[serde(default)]
    pub uncommitted: Uncommitted,
}

/// What is made of changes that an agent leaves uncommitted whose work it is to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uncommitted {
    /// The work is not handed in.
    #[default]
    Refused,
    /// The next iteration is told. Its prompt says whether that is as it should be.
    Told,
}

impl LandingPolicy {
    /// Returns whether ralph itself commits.
    pub fn commits(&self) -> bool {
        match &self.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Scm(scm) => scm.tasks.iter().any(ScmTask::is_commit),
            CommitPolicy::Agent | CommitPolicy::Nobody => false,
        }
    }

    /// Returns whether commits are pushed.
    pub fn pushes(&self) -> bool {
        let is_push = |task: &ScmTask| match task {
            ScmTask::Run(words) => words.first().is_some_and(|word| word == "push"),
            ScmTask::Commit => false,
        };
        match &self.commit {
            CommitPolicy::Scm(scm) => scm.is_git() && scm.tasks.iter().any(is_push),
            CommitPolicy::Ralph | CommitPolicy::Agent | CommitPolicy::Nobody => false,
        }
    }

    /// Returns whether nobody but ralph may write the history. That of another program than git
    /// is not looked at.
    pub fn is_history_ralphs(&self) -> bool {
        match &self.commit {
            CommitPolicy::Ralph => true,
            CommitPolicy::Scm(scm) => scm.is_git() && self.commits(),
            CommitPolicy::Agent | CommitPolicy::Nobody => false,
        }
    }
}

/// Who commits work that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitPolicy {
    /// ralph, with a subject of its own.
    Ralph,
    /// The agent, as part of its work.
    Agent,
    /// Nobody: changes stay in the work tree.
    Nobody,
    /// A command with tasks such as `commit` and `push`, and a message written by the agent.
    Scm(Scm),
}

/// A source-control command and what to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scm {
    /// The program.
    pub command: String,
    /// What to run, in order.
    pub tasks: Vec<ScmTask>,
}

impl Scm {
    /// Returns whether the program is git, wherever it lies.
    pub fn is_git(&self) -> bool {
        self.command.rsplit('/').next() == Some("git")
    }
}

/// One source-control task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScmTask {
    /// Commits everything but runtime files, with the agent's message.
    Commit,
    /// Runs the command with these words.
    Run(Vec<String>),
}

impl ScmTask {
    /// Returns whether this is the commit.
    pub(crate) fn is_commit(&self) -> bool {
        match self {
            Self::Commit => true,
            Self::Run(_) => false,
        }
    }
}

/// What becomes of work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It stays for the next attempt.
    Keep,
    /// The tree goes back to the checkpoint; what it removes is kept on a ref first.
    Rollback,
}

/// What bounds a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The number of iterations.
    pub iterations: u32,
    /// Money, tokens and time.
    pub budget: Budget,
    /// A call to the agent is worth a warning after this long.
    pub ask_soft: Millis,
    /// A call to the agent is ended after this long.
    pub ask_hard: Millis,
    /// A call to the agent is ended after this long without a useful event.
    pub ask_idle: Millis,
    /// A pause between iterations.
    pub delay: Millis,
    /// How many iterations in a row may pass the checks without changing anything, where the work
    /// is a prompt; none for no limit.
    #[serde(default)]
    pub unchanged: Option<u32>,
}
