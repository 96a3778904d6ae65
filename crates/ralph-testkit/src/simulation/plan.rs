//! The plan of a simulated run: plain data that determines everything that happens in it, so that
//! a run can be repeated, reduced and kept.
//!
//! Not here: how plans are drawn, and how they are played.

use ralph_model::gate::{
    FailAction, GateKind, GatePersistence, GateReuse, Severity, ValidationStrategy,
};
use ralph_model::recipe::{BaselinePolicy, OnFailure};
use ralph_model::review::ReviewStatus;
use ralph_model::task::TaskStatus;
use serde::{Deserialize, Serialize};

/// Everything about a simulated run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulationPlan {
    /// The kind of work.
    pub workflow: SimulatedWorkflow,
    /// The task list, if there is one.
    pub tasks: Vec<TaskPlan>,
    /// The index of the one task to do; `None` for all.
    pub only: Option<usize>,
    /// Whether tasks that failed before are retried.
    pub retry: bool,
    /// The cap of reviews; `None` without reviews.
    pub review: Option<u32>,
    /// How many attempts a task gets.
    pub attempts: u32,
    /// How many changes to the list an iteration may make.
    pub amendments: u32,
    /// After how many equal failures a task is stuck, and how many strategy shifts follow.
    pub stuck: (u32, u32),
    /// How long a task may take, in seconds.
    pub task_seconds: Option<u64>,
    /// How often a failed call is repeated.
    pub retries: u32,
    /// The longest wait for a usage limit, in minutes; `None` to stop instead.
    pub wait_minutes: Option<u64>,
    pub iterations: u32,
    pub cents: Option<u64>,
    pub tokens: Option<u64>,
    pub seconds: Option<u64>,
    /// The pause between iterations, in seconds.
    pub delay: u64,
    pub commit: CommitMode,
    /// What happens to failed work.
    pub on_failure: OnFailure,
    /// Whether gates run before the work.
    pub baseline: BaselinePolicy,
    pub strategy: ValidationStrategy,
    pub gates: Vec<GatePlan>,
    /// The index of the gate that fails before the run begins.
    pub red_before: Option<usize>,
    /// After how many iterations handoffs are compacted; `None` for never.
    pub memory: Option<u32>,
    /// The token budget of a prompt.
    pub context: u64,
    /// What agents do in each call, repeated from the start when it is used up.
    pub script: Vec<AgentAct>,
    /// What goes wrong in the world.
    pub faults: Vec<PlannedFault>,
    pub control_requests: Vec<RequestPlan>,
    /// When the process dies: the first time after this many steps, then after this many more.
    pub deaths: Vec<u64>,
    /// Whether the deaths are power cuts, which also take the events that were not synced.
    #[serde(default)]
    pub power: bool,
    /// How often a user resumes a run that has ended.
    pub resumes: u32,
}

/// A kind of work, as the commands of the binary set it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedWorkflow {
    /// `ralph run -p`.
    Prompt,
    /// `ralph run -f`.
    PromptFile,
    /// `ralph prompt`: the user's own template.
    Template,
    /// `ralph plan` by specifications.
    SpecsPlan,
    /// `ralph build` by specifications.
    SpecsBuild,
    /// `ralph plan` for a task list.
    ListPlan,
    /// `ralph build` over a task list that ralph owns.
    Tasks,
    /// `ralph build` over a task list that the agent owns.
    Stories,
}

impl SimulatedWorkflow {
    pub const ALL: [Self; 8] = [
        Self::Prompt,
        Self::PromptFile,
        Self::Template,
        Self::SpecsPlan,
        Self::SpecsBuild,
        Self::ListPlan,
        Self::Tasks,
        Self::Stories,
    ];

    /// Returns whether the work is a task list.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Tasks | Self::Stories)
    }
}

/// A planned task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Indexes of the tasks it waits for. An index out of range is an unknown task.
    pub after: Vec<usize>,
    pub status: TaskStatus,
    pub review: ReviewStatus,
    /// How many retries it allows itself.
    pub retries: Option<u32>,
    pub docs: bool,
    pub skill: bool,
    /// Whether it names the protected file.
    pub names_protected: bool,
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitMode {
    Ralph,
    /// The agent must commit.
    Agent,
    /// The agent, if its prompt asks for it.
    AgentMay,
    Scm,
    /// No commits, in a repository.
    NoCommit,
    /// No commits and no repository.
    NoGit,
}

/// A planned gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
pub struct GatePlan {
    pub kind: GateKind,
    pub severity: Severity,
    /// Whether it runs after another one failed.
    pub persistence: GatePersistence,
    /// Whether it runs again on the same tree.
    pub reuse: GateReuse,
    /// How a failure is added to the next prompt.
    pub action: FailAction,
    /// Whether it asks an agent instead of running a command.
    pub asks: bool,
    /// Whether it only applies to paths of the work.
    pub paths: bool,
    /// In how many percent of the iterations it fails for no reason.
    pub flaky: u64,
    /// In how many percent of the iterations it cannot be started.
    pub broken: u64,
    /// Whether the code that it runs makes a commit.
    #[serde(default)]
    pub commits: bool,
    /// Whether the code that it runs writes a file; in every third iteration another content each time.
    #[serde(default)]
    pub writes: bool,
}

/// What an agent does in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAct {
    /// The kind of agent.
    pub character: Character,
    /// Distinguishes agents of the same kind.
    pub salt: u32,
}

macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

named! {
    Character {
        /// Does the work and reports it.
        Honest,
        /// Does the work but does not report completion.
        Silent,
        /// Changes nothing but reports work.
        Lazy,
        /// Does it badly but reports completion.
        Sloppy,
        /// Claims completion in prose, but not with the completion tag.
        ClaimsInProse,
        /// Changes nothing and gives the completion response.
        Liar,
        /// Reports that it needs something from a person.
        Blocked,
        Crashes,
        CrashesAtOnce,
        Empty,
        Malformed,
        /// Hangs in the middle of its work until it is ended.
        Hangs,
        /// Is idle until it is ended.
        Idles,
        RunsOutOfTurns,
        Limited,
        /// Is at a usage limit whose reset time is in the past.
        LimitedInThePast,
        /// Is at a usage limit without a reset time.
        LimitedForLong,
        Overloaded,
        NotInstalled,
        NotLoggedIn,
        BadCall,
        FullWindow,
        Garbage,
        /// Approves whatever it is asked about; as a worker marks every task as done.
        Approves,
        /// Asks for changes without end.
        Rejects,
        /// Asks for changes without feedback.
        RejectsWithoutWords,
        /// Approves without evidence for any criterion.
        ApprovesWithoutEvidence,
        /// Approves its own work in the task list.
        ApprovesItself,
        EditsProtected,
        RemovesProtected,
        /// Deletes a branch of the user.
        DeletesBranch,
        /// Writes instructions for the reviewer of its work.
        Instructs,
        /// Quotes an approval: as a reviewer one that the work contains, as a worker as if it were
        /// a reviewer.
        QuotesApproval,
        Commits,
        Rewrites,
        SwitchesBranch,
        /// Changes criteria and counts in the task list, and removes and adds tasks.
        EditsList,
        DeletesList,
        BreaksList,
        DeletesPlan,
        EmptiesPlan,
        /// Marks or removes the open items of the plan without doing them.
        TicksPlan,
        Leaks,
        Meddles,
        /// Changes files although it is only asked for an answer.
        ChangesFiles,
        /// Proposes changes to the task list.
        Amends,
        Floods,
        /// Does the work and removes tests, so that its gates run fewer of them.
        RemovesTests,
    }
}

/// Something that goes wrong in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    pub kind: FaultKind,
    /// In which iteration; for the journal, at which event.
    pub at: u32,
}

named! {
    /// What can go wrong in the world.
    FaultKind {
        HookRefuses,
        /// git cannot create a checkpoint, until a user resumes the run.
        CheckpointFails,
        /// git cannot survey the tree, until a user resumes the run.
        SurveyFails,
        /// git cannot observe changes to the tree, until a user resumes the run.
        ObserveFails,
        /// git cannot commit, until a user resumes the run.
        CommitFails,
        /// git cannot roll back, until a user resumes the run.
        RollbackFails,
        /// git cannot create a failure branch, until a user resumes the run.
        FailureBranchFails,
        /// git cannot compute a diff, until a user resumes the run.
        DiffFails,
        /// git commits but then reports a failure.
        CommitFailsLate,
        /// The source-control command fails, until a user resumes the run.
        ScmFails,
        /// Views for users cannot be written.
        ViewsFail,
        /// The task file cannot be written.
        ListIsReadOnly,
        /// The task file is missing when the run begins, until a user resumes it.
        ListIsMissing,
        /// The prompt file is missing, until a user resumes the run.
        PromptIsMissing,
        /// The plan is missing when the run begins.
        PlanIsMissing,
        PlanIsReadOnly,
        JournalIsFull,
        /// The journal stores an event but then reports a failure.
        JournalFailsLate,
        /// The clock jumps forward by a day.
        ClockJumpsForward,
        /// The clock jumps back by a day.
        ClockJumpsBack,
        GateIsInterrupted,
        AgentIsInterrupted,
        Signal,
        /// The raw stream of a reply is lost when the process dies.
        StreamIsLost,
        /// A template of the project is unusable.
        TemplateIsBroken,
        /// A user changes a file before resuming.
        EditedByHand,
        /// A user edits the task list before resuming.
        ListEditedByHand,
        /// A user commits something before resuming.
        CommittedByHand,
    }
}

/// A planned control request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPlan {
    /// How many seconds after the beginning.
    pub after: u64,
    pub request: RequestKind,
}

/// The kinds of control requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    Pause,
    Resume,
    Stop,
    /// Skip a task, by its index.
    Skip(usize),
    /// Add a note to the next prompt.
    Note,
    Junk,
}

impl SimulationPlan {
    /// Returns whether the end must be the same however often the process dies, because nothing
    /// in the plan depends on time or on what a death loses.
    pub fn is_timeless(&self) -> bool {
        let is_timeless_request = |planned: &RequestPlan| match planned.request {
            RequestKind::Pause | RequestKind::Resume | RequestKind::Note | RequestKind::Junk => {
                true
            }
            RequestKind::Stop | RequestKind::Skip(_) => false,
        };
        let is_timeless_fault = |fault: &PlannedFault| {
            !matches!(
                fault.kind,
                FaultKind::Signal
                    | FaultKind::AgentIsInterrupted
                    | FaultKind::StreamIsLost
                    // Changes of an interrupted call to the list cannot be reverted.
                    | FaultKind::ListIsReadOnly
            )
        };
        self.seconds.is_none()
            && self.task_seconds.is_none()
            && self.control_requests.iter().all(is_timeless_request)
            && self.faults.iter().all(is_timeless_fault)
            && !self.gates.iter().any(|gate| gate.writes)
    }

    /// Returns the same plan without deaths.
    #[must_use]
    pub fn without_deaths(&self) -> Self {
        let is_death = |fault: &PlannedFault| {
            matches!(fault.kind, FaultKind::JournalIsFull | FaultKind::JournalFailsLate)
        };
        let mut calm = Self { deaths: Vec::new(), ..self.clone() };
        calm.faults.retain(|fault| !is_death(fault));
        calm
    }
}
