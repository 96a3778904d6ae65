//! The plan of a simulated run: plain data that says everything that will happen in it, so that a
//! run can be repeated, made smaller and kept.
//!
//! Not here: how plans are drawn, and what a run makes of one.

use ralph_core::gate::{FailAction, GateKind, Persistence, Reuse, Severity, ValidationStrategy};
use ralph_core::recipe::{BaselinePolicy, OnFailure};
use ralph_core::review::ReviewStatus;
use ralph_core::task::TaskStatus;
use serde::{Deserialize, Serialize};

/// Everything about a simulated run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What kind of work it is.
    pub workflow: Workflow,
    /// The task list, where there is one.
    pub tasks: Vec<TaskPlan>,
    /// The one task to do, by its place; none means all.
    pub only: Option<usize>,
    /// Whether tasks that failed before are tried again.
    pub retry: bool,
    /// The cap of reviews; none where nothing is reviewed.
    pub review: Option<u32>,
    /// How many attempts a task gets.
    pub attempts: u32,
    /// How many changes to the list an iteration may make.
    pub amendments: u32,
    /// After how many failures alike a task is stuck, and how many shifts follow.
    pub stuck: (u32, u32),
    /// How long a task may take, in seconds.
    pub task_seconds: Option<u64>,
    /// How often a failed call is repeated.
    pub retries: u32,
    /// How long a usage limit is waited for, in minutes; none where it is not.
    pub wait_minutes: Option<u64>,
    /// The limit of iterations.
    pub iterations: u32,
    /// The limit of cents.
    pub cents: Option<u64>,
    /// The limit of tokens.
    pub tokens: Option<u64>,
    /// The limit of seconds.
    pub seconds: Option<u64>,
    /// The pause between iterations, in seconds.
    pub delay: u64,
    /// Who commits.
    pub commit: CommitMode,
    /// What becomes of work that failed.
    pub on_failure: OnFailure,
    /// Whether gates are run before the work.
    pub baseline: BaselinePolicy,
    /// Which gates must pass.
    pub strategy: ValidationStrategy,
    /// The gates.
    pub gates: Vec<GatePlan>,
    /// The gate, by its place, that is red before the run begins.
    pub red_before: Option<usize>,
    /// After how many iterations handoffs are compacted; none where they are not.
    pub memory: Option<u32>,
    /// What a prompt may hold, in tokens.
    pub context: u64,
    /// What agents do, one call after the other, over and over.
    pub script: Vec<Act>,
    /// What goes wrong with the world.
    pub faults: Vec<Fault>,
    /// What people wish.
    pub wishes: Vec<WishPlan>,
    /// When the process dies: the first after so many steps, the next after so many more.
    pub deaths: Vec<u64>,
    /// How often a person goes on with a run that has ended.
    pub resumes: u32,
}

/// A kind of work, as the commands of the binary set it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workflow {
    /// `ralph run -p`.
    Prompt,
    /// `ralph run -f`.
    PromptFile,
    /// `ralph prompt`: a template of the user's own.
    Template,
    /// `ralph plan` by specifications.
    SpecsPlan,
    /// `ralph build` by specifications.
    SpecsBuild,
    /// `ralph plan` for a task list.
    ListPlan,
    /// `ralph build` over a task list that ralph keeps.
    Tasks,
    /// `ralph build` over a task list that the agent keeps.
    Stories,
}

impl Workflow {
    /// All of them.
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
        match self {
            Self::Tasks | Self::Stories => true,
            Self::Prompt
            | Self::PromptFile
            | Self::Template
            | Self::SpecsPlan
            | Self::SpecsBuild
            | Self::ListPlan => false,
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// What it waits for, by place. A place that is not there is an unknown task.
    pub after: Vec<usize>,
    /// How far it is.
    pub status: TaskStatus,
    /// What reviews said before.
    pub review: ReviewStatus,
    /// How many retries it allows itself.
    pub retries: Option<u32>,
    /// Whether it wants documentation.
    pub docs: bool,
    /// Whether it names a skill.
    pub skill: bool,
    /// Whether it speaks of the file that is protected.
    pub names_protected: bool,
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitMode {
    /// ralph.
    Ralph,
    /// The agent, who must.
    Agent,
    /// The agent, if its prompt wants that.
    AgentMay,
    /// A source-control command.
    Scm,
    /// Nobody, in a repository.
    Nobody,
    /// Nobody, and there is no repository.
    NoGit,
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatePlan {
    /// Its kind.
    pub kind: GateKind,
    /// How severe a failure is.
    pub severity: Severity,
    /// Whether it runs after another one failed.
    pub persistence: Persistence,
    /// Whether it is run again on the same tree.
    pub reuse: Reuse,
    /// How a failure joins the next prompt.
    pub action: FailAction,
    /// Whether an agent is asked in place of a command.
    pub asks: bool,
    /// Whether it is only about paths of the work.
    pub paths: bool,
    /// In how many of a hundred iterations it fails for no reason.
    pub flaky: u64,
    /// In how many of a hundred iterations it cannot be started.
    pub broken: u64,
    /// Whether the code that it runs makes a commit.
    #[serde(default)]
    pub commits: bool,
}

/// What an agent does in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// What kind of agent it is.
    pub character: Character,
    /// What tells it from another of its kind.
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
    /// A kind of agent.
    Character {
        /// Does what it is asked for, and says so.
        Honest,
        /// Does it, and does not say that it is done.
        Silent,
        /// Changes nothing, and says that it did.
        Lazy,
        /// Does it badly, and says that it is done.
        Sloppy,
        /// Says in prose that all is complete, in other words than those that count.
        ClaimsInProse,
        /// Changes nothing and gives the completion response.
        Liar,
        /// Says that it needs something of a person.
        Blocked,
        /// Crashes after its work.
        Crashes,
        /// Crashes at once.
        CrashesAtOnce,
        /// Says nothing.
        Empty,
        /// Prints what nobody can read.
        Malformed,
        /// Hangs until it is ended, in the middle of its work.
        Hangs,
        /// Is idle until it is ended.
        Idles,
        /// Runs out of turns.
        RunsOutOfTurns,
        /// Is at a usage limit.
        Limited,
        /// Is at a usage limit that it says is over.
        LimitedInThePast,
        /// Is at a usage limit that does not say when it resets.
        LimitedForLong,
        /// Is overloaded.
        Overloaded,
        /// Is not installed.
        NotInstalled,
        /// Is not logged in.
        NotLoggedIn,
        /// Does not know a flag.
        BadCall,
        /// Has a full context window.
        FullWindow,
        /// Answers with nonsense.
        Garbage,
        /// Approves whatever it is asked about; as a worker marks every task as done.
        Approves,
        /// Asks for changes without end.
        Rejects,
        /// Asks for changes without saying which.
        RejectsWithoutWords,
        /// Approves its own work in the task list.
        ApprovesItself,
        /// Edits a protected file.
        EditsProtected,
        /// Makes commits of its own.
        Commits,
        /// Rewrites the history.
        Rewrites,
        /// Switches the branch.
        SwitchesBranch,
        /// Changes criteria and counts in the task list, and removes and adds tasks.
        EditsList,
        /// Deletes the task list.
        DeletesList,
        /// Makes the task list unreadable.
        BreaksList,
        /// Deletes the plan.
        DeletesPlan,
        /// Empties the plan.
        EmptiesPlan,
        /// Leaves a secret.
        Leaks,
        /// Changes files of git's own.
        Meddles,
        /// Changes files where it is asked for words.
        ChangesFiles,
        /// Proposes changes to the task list.
        Amends,
        /// Says very much.
        Floods,
    }
}

/// Something that goes wrong with the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// In which iteration; for the journal, at which event.
    pub at: u32,
}

named! {
    /// What can go wrong with the world.
    FaultKind {
        /// A hook refuses the commit.
        HookRefuses,
        /// git cannot note a checkpoint, until a person goes on.
        CheckpointFails,
        /// git cannot survey the tree, until a person goes on.
        SurveyFails,
        /// git cannot look at what became of the tree, until a person goes on.
        ObserveFails,
        /// git cannot commit, until a person goes on.
        CommitFails,
        /// git cannot go back, until a person goes on.
        RollbackFails,
        /// git cannot shelve, until a person goes on.
        ShelveFails,
        /// git cannot tell what changed, until a person goes on.
        DiffFails,
        /// git commits and then fails to say so.
        CommitFailsLate,
        /// The source-control command fails, until a person goes on.
        ScmFails,
        /// Views for people cannot be written.
        ViewsFail,
        /// The task file cannot be written.
        ListIsReadOnly,
        /// The task file is not there when the run begins, until a person goes on.
        ListIsMissing,
        /// The prompt file is not there, until a person goes on.
        PromptIsMissing,
        /// The plan is not there when the run begins.
        PlanIsMissing,
        /// The plan cannot be written.
        PlanIsReadOnly,
        /// The journal refuses an event.
        JournalIsFull,
        /// The journal takes an event and cannot say so.
        JournalFailsLate,
        /// The clock jumps forward by a day.
        ClockJumpsForward,
        /// The clock jumps back by a day.
        ClockJumpsBack,
        /// The user ends a gate.
        GateIsInterrupted,
        /// The user ends an agent.
        AgentIsInterrupted,
        /// The user wants to stop.
        Signal,
        /// The raw stream of a reply is lost when the process dies.
        StreamIsLost,
        /// A template of the project's own cannot be used.
        TemplateIsBroken,
        /// A person changes a file before going on.
        EditedByHand,
        /// A person edits the task list before going on.
        ListEditedByHand,
        /// A person commits something before going on.
        CommittedByHand,
    }
}

/// What somebody wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WishPlan {
    /// How many seconds after the beginning.
    pub after: u64,
    /// What.
    pub wish: WishKind,
}

/// What somebody may wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WishKind {
    /// To pause.
    Pause,
    /// To go on.
    GoOn,
    /// To stop.
    Stop,
    /// To leave out a task, by its place.
    Skip(usize),
    /// To tell the next agent something.
    Note,
    /// Nothing that anybody understands.
    Junk,
}

impl Plan {
    /// Returns whether the end must be the same however often the process dies: whether nothing
    /// in it depends on time, or on what is lost with a process.
    pub fn is_timeless(&self) -> bool {
        let is_timeless_wish = |wish: &WishPlan| match wish.wish {
            WishKind::Pause | WishKind::GoOn | WishKind::Note | WishKind::Junk => true,
            WishKind::Stop | WishKind::Skip(_) => false,
        };
        let is_timeless_fault = |fault: &Fault| {
            !matches!(
                fault.kind,
                FaultKind::Signal
                    | FaultKind::AgentIsInterrupted
                    | FaultKind::StreamIsLost
                    // Nobody can take back what a call did to the list that was cut off.
                    | FaultKind::ListIsReadOnly
            )
        };
        self.seconds.is_none()
            && self.task_seconds.is_none()
            && self.wishes.iter().all(is_timeless_wish)
            && self.faults.iter().all(is_timeless_fault)
    }

    /// Returns the same plan without deaths.
    #[must_use]
    pub fn undisturbed(&self) -> Self {
        let is_death = |fault: &Fault| {
            matches!(fault.kind, FaultKind::JournalIsFull | FaultKind::JournalFailsLate)
        };
        let mut calm = Self { deaths: Vec::new(), ..self.clone() };
        calm.faults.retain(|fault| !is_death(fault));
        calm
    }
}
