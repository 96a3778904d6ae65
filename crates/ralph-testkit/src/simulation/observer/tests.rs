//! The observer finds violations: in a forged journal, or in a world that does not match it.

mod edited;
mod endless;
mod landed;
mod listed;
mod prompted;

use ralph_model::agent::AgentKind;
use ralph_model::event::{Event, JOURNAL_VERSION, Purpose, Recorded};
use ralph_model::gate::{
    FailAction, GateKind, GatePersistence, GateResult, GateReuse, GateStatus, Severity,
    ValidationStrategy,
};
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::judgement::{Judgement, Landing, Verdict};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{BaselinePolicy, OnFailure};
use ralph_model::review::{ReviewState, ReviewStatus};
use ralph_model::run::{IterationMark, RunState};
use ralph_model::task::{TaskChange, TaskStatus};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::{Checkpoint, CommitId, Landed, Observation, TreeDiff};

use super::{Invariant, Observer};
use crate::simulation::agent_action::IntendedVerdict;
use crate::simulation::plan::{
    AgentAct, Character, CommitMode, GatePlan, SimulatedWorkflow, SimulationPlan, TaskPlan,
};
use crate::simulation::recipe::{TASKS, build_list, build_recipe, format_task_id};
use crate::simulation::repository::{FileContent, format_tree_id};
use crate::simulation::world::{CallTruth, GateTruth, SimulatedWorld};

fn plan(workflow: SimulatedWorkflow) -> SimulationPlan {
    let task = TaskPlan {
        after: Vec::new(),
        status: TaskStatus::Pending,
        review: ReviewStatus::None,
        retries: None,
        docs: false,
        skill: false,
        names_protected: false,
    };
    let gate = GatePlan {
        kind: GateKind::Test,
        severity: Severity::Hard,
        persistence: GatePersistence::WhenGreen,
        reuse: GateReuse::SameTree,
        action: FailAction::Append,
        asks: false,
        paths: false,
        flaky: 0,
        broken: 0,
        commits: false,
        writes: false,
    };
    SimulationPlan {
        workflow,
        tasks: if workflow.is_list() { vec![task; 2] } else { Vec::new() },
        only: None,
        retry: false,
        review: None,
        attempts: 3,
        amendments: 1,
        stuck: (3, 2),
        task_seconds: None,
        retries: 1,
        wait_minutes: None,
        iterations: 2,
        cents: None,
        tokens: None,
        seconds: None,
        delay: 0,
        commit: CommitMode::Ralph,
        on_failure: OnFailure::Keep,
        baseline: BaselinePolicy::Off,
        strategy: ValidationStrategy::Strict,
        gates: vec![gate],
        red_before: None,
        memory: None,
        context: 8_000,
        script: vec![AgentAct { character: Character::Honest, salt: 0 }],
        faults: Vec::new(),
        control_requests: Vec::new(),
        power: false,
        deaths: Vec::new(),
        resumes: 0,
    }
}

/// A forged journal in a forged world.
struct Forged {
    world: SimulatedWorld,
    observer: Observer,
}

impl Forged {
    /// Returns a journal that has begun.
    fn new(plan: &SimulationPlan) -> Self {
        let mut forged = Self { world: SimulatedWorld::new(plan), observer: Observer::default() };
        forged.record(Event::RunStarted {
            journal: JOURNAL_VERSION,
            version: "0".into(),
            run: RunId("forged".into()),
            project: "/project".into(),
            recipe: Box::new(build_recipe(plan)),
        });
        if plan.workflow.is_list() {
            let list = Box::new(build_list(plan));
            forged.record(Event::TasksRead { list, remarks: Vec::new() });
        }
        forged
    }

    fn record(&mut self, event: Event) {
        let seq = self.world.journal.len() as u64 + 1;
        let recorded = Recorded { seq, at: Timestamp(0), ran: Millis(0), event };
        self.world.journal.push(recorded.clone());
        self.observer.check_event(&recorded, &mut self.world);
    }

    /// Records that the run was interrupted, whatever the world looks like.
    fn record_end(&mut self) {
        let before = self.observer.violations.len();
        self.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
        self.observer.violations.truncate(before);
    }

    fn begin(&mut self, iteration: u32, role: Role) {
        let task = self.world.plan.workflow.is_list().then(|| format_task_id(0));
        let iteration = IterationNumber(iteration);
        self.record(Event::IterationStarted { iteration, role, task });
        let checkpoint = self.world.repository.checkpoint();
        self.record(Event::Checkpointed { checkpoint });
    }

    fn ask(&mut self, ask: u32, role: Role) {
        self.record(Event::Asked {
            ask: AskNumber(ask),
            role,
            purpose: Purpose::Work,
            agent: AgentKind::Text,
            command: Vec::new(),
            prompt_chars: 0,
            prompt_start: String::new(),
            budget: Vec::new(),
            token: None,
            session: None,
            instructions: Vec::new(),
        });
    }

    /// Records work that was answered, and the truth about it.
    fn answer(&mut self, role: Role, claims: bool, meant: IntendedVerdict) {
        let work = FileContent::from_text("good of 1");
        self.world.repository.work.insert("work/task-0".into(), work);
        let number = self.observer.iteration();
        let tree = self.world.repository.number_work_tree();
        let truth = CallTruth {
            purpose: Purpose::Work,
            role,
            claims,
            meant,
            answered: true,
            listed: None,
            tree,
        };
        self.world.truths.insert((number, 1), truth);
        self.ask(1, role);
        let action = crate::simulation::agent_action::AgentAction {
            text: "an answer".into(),
            claims,
            verdict: meant,
            failure: None,
            changed_git_dir: false,
        };
        let reply = Box::new(crate::simulation::ports::build_reply(&action));
        self.record(Event::Replied { ask: AskNumber(1), reply });
        let observation = Observation::new(format_tree_id(tree), TreeDiff::Dirty);
        self.record(Event::Observed { observation: Some(observation), kept: None });
    }

    /// Records a gate: the reported and the true result.
    fn gate(&mut self, reported: GateStatus, passed: bool) {
        self.gate_with_tests(reported, passed, None);
    }

    /// Records a gate and how many tests it ran.
    fn gate_with_tests(&mut self, reported: GateStatus, passed: bool, tests: Option<u64>) {
        let (iteration, tree) =
            (self.observer.iteration(), self.world.repository.number_work_tree());
        let gate = "gate-0".to_owned();
        self.world.checks.push(GateTruth { iteration, gate: gate.clone(), tree, passed });
        let result = GateResult::new(gate.clone(), gate, Severity::Hard, reported);
        let result = GateResult { tests, ..result };
        self.record(Event::GateChecked { result, survey: None });
    }

    /// Makes a commit of ralph without recording it.
    fn commit_only(&mut self) {
        let iteration = IterationNumber(self.observer.iteration());
        let mark =
            IterationMark { run: RunId("forged".into()), iteration, task: Some(format_task_id(0)) };
        let tree = self.world.repository.number_work_tree();
        self.world.repository.make_commit(tree, "forged", Some(mark));
    }

    fn commit(&mut self) {
        self.commit_only();
        let (commit, subject) = (CommitId("commit-1".into()), "forged".into());
        self.record(Event::Landed { landed: Landed::Committed { commit, subject } });
    }

    fn end(&mut self, changes: Vec<TaskChange>) {
        let judgement = Judgement {
            verdict: Verdict::Passed { signal: None },
            landing: Landing::Keep,
            feedback: Vec::new(),
            changes,
            amended: Vec::new(),
            handoff: None,
            failed: None,
            complaint: None,
            divergence: None,
            rejected_open_items: None,
            compacted: None,
        };
        self.record(Event::Judged { judgement: Box::new(judgement) });
        self.record(Event::IterationEnded {
            iteration: IterationNumber(self.observer.iteration()),
        });
    }

    #[track_caller]
    fn expect_violation(&self, invariant: Option<Invariant>) {
        let found: Vec<Invariant> =
            self.observer.violations.iter().map(|it| it.invariant).collect();
        let expected: Vec<Invariant> = invariant.into_iter().collect();
        assert_eq!(found, expected, "{:?}", self.observer.violations);
    }

    /// Checks that exactly this was found, with this message.
    #[track_caller]
    fn expect_message(&self, invariant: Invariant, reported: &str) {
        self.expect_violation(Some(invariant));
        assert!(
            self.observer.violations[0].message.contains(reported),
            "{:?}",
            self.observer.violations
        );
    }
}

fn done(place: usize) -> TaskChange {
    TaskChange::SetStatus { task: format_task_id(place), status: TaskStatus::Done }
}

#[test]
fn a_valid_run_has_no_violations() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    forged.begin(1, Role::Implement);
    forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
    forged.gate(GateStatus::Passed, true);
    let mut list = build_list(&forged.world.plan);
    list.tasks[0].status = TaskStatus::Done;
    let list = FileContent::List(std::rc::Rc::new(list));
    forged.world.repository.work.insert(TASKS.into(), list);
    forged.commit();
    forged.end(vec![done(0)]);
    forged.expect_violation(None);
}

#[test]
fn a_commit_after_a_failed_gate_is_found() {
    for (reported, passed) in [(GateStatus::Failed, false), (GateStatus::Passed, false)] {
        let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
        forged.begin(1, Role::Implement);
        forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
        forged.gate(reported, passed);
        if reported == GateStatus::Failed {
            forged.expect_violation(None);
            forged.commit();
        }
        forged.expect_violation(Some(Invariant::Commits));
    }
    let mut unchecked = Forged::new(&plan(SimulatedWorkflow::Tasks));
    unchecked.begin(1, Role::Implement);
    unchecked.answer(Role::Implement, false, IntendedVerdict::Nothing);
    unchecked.commit();
    unchecked.expect_violation(Some(Invariant::Commits));
}

#[test]
fn a_commit_of_an_unchecked_tree_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    forged.begin(1, Role::Implement);
    forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
    forged.gate(GateStatus::Passed, true);
    forged.world.repository.work.insert("work/late".into(), FileContent::from_text("late"));
    forged.commit();
    forged.expect_violation(Some(Invariant::Commits));
}

#[test]
fn a_task_that_is_done_without_gates_or_review_is_found() {
    let mut unchecked = Forged::new(&plan(SimulatedWorkflow::Tasks));
    unchecked.begin(1, Role::Implement);
    unchecked.answer(Role::Implement, false, IntendedVerdict::Nothing);
    unchecked.end(vec![done(0)]);
    unchecked.expect_violation(Some(Invariant::Done));

    let reviewed = SimulationPlan { review: Some(3), ..plan(SimulatedWorkflow::Tasks) };
    let review = |status, count| TaskChange::SetReview {
        task: format_task_id(0),
        review: ReviewState { status, count, feedback: String::new() },
    };
    for (role, meant) in
        [(Role::Implement, IntendedVerdict::Approval), (Role::Review, IntendedVerdict::Changes)]
    {
        let mut forged = Forged::new(&reviewed);
        forged.begin(1, Role::Implement);
        forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
        forged.gate(GateStatus::Passed, true);
        if role == Role::Review {
            forged.end(vec![review(ReviewStatus::NeedsReview, 0)]);
            forged.begin(2, Role::Review);
            forged.answer(Role::Review, false, meant);
            forged.end(vec![done(0), review(ReviewStatus::Approved, 1)]);
            forged.expect_violation(Some(Invariant::Done));
        } else {
            forged.end(vec![done(0), review(ReviewStatus::Approved, 0)]);
            let found = forged.observer.violations.iter();
            assert!(found.into_iter().any(|it| it.invariant == Invariant::Done));
        }
    }
}

#[test]
fn a_complete_run_with_a_task_that_only_the_cap_approved_is_found() {
    let mut plan = SimulationPlan { review: Some(1), ..plan(SimulatedWorkflow::Tasks) };
    plan.tasks.truncate(1);
    let review = |status, count| TaskChange::SetReview {
        task: format_task_id(0),
        review: ReviewState { status, count, feedback: String::new() },
    };
    for (meant, expect) in
        [(IntendedVerdict::Approval, None), (IntendedVerdict::Changes, Some(Invariant::Completion))]
    {
        let mut forged = Forged::new(&plan);
        forged.begin(1, Role::Implement);
        forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
        forged.gate(GateStatus::Passed, true);
        forged.end(vec![review(ReviewStatus::NeedsReview, 0)]);
        forged.begin(2, Role::Review);
        forged.answer(Role::Review, false, meant);
        forged.end(vec![done(0), review(ReviewStatus::Approved, 1)]);
        forged.expect_violation(None);
        forged.observer.check_finished_list(None);
        forged.expect_violation(expect);
    }
}

#[test]
fn a_task_that_moves_in_an_iteration_on_another_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    forged.begin(1, Role::Implement);
    forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
    forged.gate(GateStatus::Passed, true);
    forged.end(vec![done(1)]);
    forged.expect_violation(Some(Invariant::Transitions));

    let mut edited = Forged::new(&plan(SimulatedWorkflow::Tasks));
    let mut list = build_list(&edited.world.plan);
    list.tasks[1].status = TaskStatus::Done;
    edited.record(Event::TasksRead { list: Box::new(list), remarks: Vec::new() });
    edited.expect_violation(Some(Invariant::Transitions));
}

#[test]
fn unclaimed_completion_is_found() {
    for (claims, reported) in [(false, GateStatus::Passed), (true, GateStatus::Failed)] {
        let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
        forged.begin(1, Role::Prompt);
        forged.answer(Role::Prompt, claims, IntendedVerdict::Nothing);
        forged.gate(reported, reported == GateStatus::Passed);
        forged.end(Vec::new());
        forged.record(Event::RunEnded { outcome: Outcome::Complete, left: None });
        forged.expect_violation(Some(Invariant::Completion));
    }
    let mut open = Forged::new(&plan(SimulatedWorkflow::Tasks));
    open.record(Event::RunEnded { outcome: Outcome::Complete, left: None });
    open.expect_violation(Some(Invariant::Completion));
}

#[test]
fn a_run_without_end_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
    for iteration in 1..=3 {
        forged.record(Event::IterationStarted {
            iteration: IterationNumber(iteration),
            role: Role::Prompt,
            task: None,
        });
    }
    forged.expect_violation(Some(Invariant::Ends));
}

#[test]
fn what_is_lost_is_found() {
    let mut file = Forged::new(&plan(SimulatedWorkflow::Prompt));
    file.world.repository.work.remove("README.md");
    file.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    file.expect_violation(Some(Invariant::NothingLost));

    let mut commit = Forged::new(&plan(SimulatedWorkflow::Prompt));
    let tree = commit.world.repository.number_work_tree();
    commit.world.repository.make_commit(tree, "of an agent's", None);
    commit.world.repository.head = Some(0);
    commit.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    commit.expect_violation(Some(Invariant::NothingLost));

    let mut branch = Forged::new(&plan(SimulatedWorkflow::Prompt));
    branch.world.repository.branches.clear();
    branch.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    branch.expect_message(Invariant::NothingLost, "a branch of the user is gone");

    for (is_there, found) in [(true, None), (false, Some(Invariant::NothingLost))] {
        let mut edit = Forged::new(&plan(SimulatedWorkflow::Prompt));
        edit.world.by_hand = Some(1);
        if is_there {
            edit.world.repository.work.insert("by-hand/1".into(), FileContent::from_text("bad1"));
        }
        edit.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
        edit.expect_violation(found);
    }
}

#[test]
fn a_rollback_that_keeps_nothing_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
    forged.begin(1, Role::Prompt);
    forged.answer(Role::Prompt, false, IntendedVerdict::Nothing);
    forged.world.repository.work.remove("work/task-0");
    forged.record(Event::Landed { landed: Landed::RolledBack { kept: None } });
    forged.expect_violation(Some(Invariant::KeptFirst));
}

#[test]
fn an_answer_that_is_paid_for_twice_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
    forged.begin(1, Role::Prompt);
    forged.ask(1, Role::Prompt);
    let action = crate::simulation::agent_action::AgentAction {
        text: "an answer".into(),
        claims: false,
        verdict: IntendedVerdict::Nothing,
        failure: None,
        changed_git_dir: false,
    };
    forged.world.received.insert((1, 1), crate::simulation::ports::build_reply(&action));
    forged.ask(2, Role::Prompt);
    forged.expect_violation(Some(Invariant::PaidTwice));
}

#[test]
fn a_state_that_is_not_the_fold_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
    let mut other: RunState = forged.observer.state().cloned().expect("it has begun");
    forged.observer.check_state(&other);
    forged.expect_violation(None);
    other.iterations += 1;
    forged.observer.check_state(&other);
    forged.expect_violation(Some(Invariant::Fold));

    let mut torn = Forged::new(&plan(SimulatedWorkflow::Prompt));
    torn.world.journal.remove(0);
    torn.record(Event::Paused);
    torn.expect_violation(Some(Invariant::Fold));

    let mut read = Forged::new(&plan(SimulatedWorkflow::Prompt));
    read.observer.check_journal(&read.world);
    read.expect_violation(None);
    let last = read.world.journal.pop().expect("it has begun");
    let ran = Millis(7);
    read.world.journal.push(Recorded { ran, ..last });
    read.observer.check_journal(&read.world);
    read.expect_message(Invariant::Fold, "the journal as read from disk folds to another state");

    let mut other = Forged::new(&plan(SimulatedWorkflow::Prompt));
    let written = other.world.journal[0].clone();
    other.observer.check_read_back(&written, serde_json::to_string(&written));
    other.expect_violation(None);
    let changed = Recorded { ran: Millis(7), ..written.clone() };
    other.observer.check_read_back(&written, serde_json::to_string(&changed));
    other.expect_message(Invariant::Fold, "an event that is read differs from the written one");
}

#[test]
fn a_prompt_without_its_task_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    forged.begin(1, Role::Implement);
    let request = prompted::request(Role::Implement, "Do something.");
    forged.observer.check_prompt(&request, &forged.world);
    forged.expect_violation(Some(Invariant::Prompts));
}

#[test]
fn an_empty_checkpoint_is_not_a_violation() {
    let mut forged = Forged::new(&SimulationPlan {
        commit: CommitMode::NoGit,
        ..plan(SimulatedWorkflow::Prompt)
    });
    forged.begin(1, Role::Prompt);
    forged.record(Event::Checkpointed { checkpoint: Checkpoint::None });
    forged.record(Event::Landed { landed: Landed::RolledBack { kept: None } });
    forged.expect_violation(None);
}
