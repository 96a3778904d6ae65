//! Workers of a small world: each is a small world of its own, with the same scripted agent. Its
//! run survives the death of the coordinator, like a clone on a disk.
//!
//! A tree is a list of words. Workers' trees are merged word by word; two words such as `x=1` and
//! `x=2` are in conflict.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use ralph_core::ports::{Workers, WorkersError};
use ralph_core::run_loop::fold::fold_events;
use ralph_core::tasks::job_result::{build_job_result, must_continue};
use ralph_model::agent::AgentKind;
use ralph_model::control::ControlRequest;
use ralph_model::event::Event;
use ralph_model::ids::{IterationNumber, RunId, WorkerId};
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::recipe::{Recipe, Work};
use ralph_model::run::IterationMark;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{Job, JobResult, WorkerEvent};
use ralph_model::worktree::{Checkpoint, CommitId, TreeId};

use super::repository::MAIN;
use super::{BEGINNING, ScriptedDeath, ScriptedWorld, SharedWorld};

/// How long a poll takes.
const POLL_MILLIS: i64 = 250;

/// A run that takes longer waits for a worker that is not there.
const LONGEST_RUN: i64 = 24 * 60 * 60 * 1000;

/// How many polls a worker takes, unless the world says otherwise.
const USUAL_POLLS: u32 = 2;

/// A worker.
pub struct ScriptedWorker {
    pub job: Job,
    /// Its clone and its run.
    pub world: SharedWorld,
    /// The tree of the commit that it started from.
    base: String,
    polls_left: u32,
    /// Whether a process of the coordinator has started it, and it has not ended since.
    is_live: bool,
    is_stopped: bool,
}

impl ScriptedWorker {
    /// Runs the worker's engine, which dies at a port call. None if it did.
    fn run_job_until(&mut self, death: Option<u64>) -> Option<JobResult> {
        self.world.0.borrow_mut().die_at = death;
        let ran = panic::catch_unwind(AssertUnwindSafe(|| self.run_job()));
        self.world.0.borrow_mut().die_at = None;
        match ran {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<ScriptedDeath>() => None,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Runs the worker's engine, and returns how the run ended.
    fn run_job(&mut self) -> JobResult {
        let state = || fold_events(&self.world.0.borrow().journal).ok();
        if state().is_none_or(|state| must_continue(&state, &self.job)) {
            self.world.0.borrow_mut().stop_at = self.is_stopped.then_some(0);
            let limits = self.job.recipe.limits.clone();
            let changed = state().map(|state| Recipe { limits, ..state.recipe });
            let recipe = adapt_recipe(&self.job, &self.base);
            self.world.run_process(&recipe, changed).expect("a worker runs");
        }
        let (task, place) = (&self.job.assignment.task, "s1");
        let state = state().expect("a worker has a journal");
        build_job_result(&state, task, place, Path::new("/clone")).expect("it has ended")
    }
}

impl ScriptedWorld {
    /// Commits the tree, so that workers have something to start from.
    pub fn commit_start(&mut self) {
        let run = RunId("user".to_owned());
        let mark = IterationMark { run, iteration: IterationNumber(0), task: None };
        self.commits.push((self.tree.clone(), "start".to_owned(), mark));
    }

    /// Returns the tree of a commit of the coordinator.
    pub(super) fn tree_of(&self, CommitId(commit): &CommitId) -> Option<String> {
        let at: usize = commit.split('+').next()?.parse().ok()?;
        self.commits.get(at).map(|commit| commit.0.clone())
    }

    /// Handles that the coordinator is a new process: its workers ended with the old one.
    pub(super) fn end_workers(&mut self) {
        for worker in self.workers.values_mut() {
            (worker.is_live, worker.is_stopped) = (false, false);
        }
    }

    /// Edits the task file as the user does, once it is time.
    fn edit_list_as_user(&mut self) {
        let is_due = |(after, _): &mut (i64, _)| self.now >= BEGINNING + *after;
        if let (Some((_, edit)), Some(list)) = (self.user_edit.take_if(is_due), &mut self.tasks) {
            edit(list);
        }
    }

    /// Adds the word of the user to the work tree, once it is time.
    fn edit_tree_as_user(&mut self) {
        let is_due = |(after, _): &mut (i64, _)| self.now >= BEGINNING + *after;
        if let Some((_, word)) = self.user_word.take_if(is_due) {
            self.tree = format!("{} {word}", self.tree);
        }
    }

    /// Notes the end of a worker that is recorded although its work was not fetched.
    pub(super) fn note_unfetched_end(&mut self, event: &Event) {
        let Event::WorkerEnded { worker, result } = event else { return };
        if !self.fetched.iter().any(|(id, commit)| id == worker && *commit == result.commit) {
            self.ended_too_early.push(worker.clone());
        }
    }

    /// Merges the tree of a worker into the tree of a checkpoint.
    pub(super) fn merge_words(&mut self, ours: &str, base: &str, theirs: &str) -> MergeOutcome {
        if ours == base {
            theirs.clone_into(&mut self.tree);
            return MergeOutcome::Same { tree: TreeId(theirs.to_owned()) };
        }
        let is_old = |word: &&str| base.split(' ').any(|it| it == *word);
        let is_known = |word: &&str| ours.split(' ').any(|it| it == *word);
        let added: Vec<&str> =
            theirs.split(' ').filter(|it| !is_old(it) && !is_known(it)).collect();
        let find_key = |word: &str| word.split_once('=').map(|(key, _)| key.to_owned());
        let is_taken = |word: &&&str| {
            let key = find_key(word);
            key.is_some() && ours.split(' ').filter(|it| !is_old(it)).any(|it| find_key(it) == key)
        };
        let paths: Vec<String> =
            added.iter().filter(is_taken).filter_map(|it| find_key(it)).collect();
        let kept: Vec<&str> = ours
            .split(' ')
            .filter(|it| !is_old(it) || theirs.split(' ').any(|word| word == *it))
            .collect();
        let tree = [kept, added].concat().join(" ");
        if !paths.is_empty() {
            let messages = format!("CONFLICT in {}", paths.join(" "));
            let tree = TreeId(format!("{tree} <<<"));
            let committed = self.commits.last().map_or("", |commit| commit.0.as_str());
            let is_edited = |path: &&String| {
                let is_it = |word: &&str| find_key(word).as_ref() == Some(*path);
                let (mine, last) = (ours.split(' ').find(is_it), committed.split(' ').find(is_it));
                mine != last
            };
            let edits = paths.iter().filter(is_edited).cloned().collect();
            return MergeOutcome::Conflict { tree, paths, messages, edits };
        }
        self.tree.clone_from(&tree);
        MergeOutcome::Clean { tree: TreeId(tree), edits: Vec::new() }
    }
}

impl Workers for SharedWorld {
    fn start_job(&mut self, job: &Job) -> Result<(), WorkersError> {
        self.count_call();
        {
            let mut world = self.0.borrow_mut();
            let worker = &job.assignment.worker;
            if world.lost_host.take_if(|task| *task == job.assignment.task).is_some() {
                world.end_workers();
                return Err(WorkersError { message: "the host is gone".to_owned() });
            }
            let message = "no base".to_owned();
            let base = job.assignment.base.as_ref().and_then(|it| world.tree_of(it));
            let base = base.ok_or(WorkersError { message })?;
            let polls = world.worker_polls.get(&job.assignment.task).copied();
            if !world.workers.contains_key(worker) {
                let clone = build_clone(&world, job, &base);
                let new = ScriptedWorker {
                    job: job.clone(),
                    world: clone,
                    base,
                    polls_left: polls.unwrap_or(USUAL_POLLS),
                    is_live: false,
                    is_stopped: false,
                };
                world.workers.insert(worker.clone(), new);
            }
            let started = world.workers.get_mut(worker).expect("it is there");
            // A worker that is started again changes only its limits.
            started.job.recipe.limits = job.recipe.limits.clone();
            (started.is_live, started.is_stopped) = (true, false);
            started.polls_left = started.polls_left.max(1);
        }
        self.count_call();
        Ok(())
    }

    fn poll_events(&mut self, _: Timestamp, tick: &mut dyn FnMut(Millis)) -> Vec<WorkerEvent> {
        self.count_call();
        tick(Millis(1));
        let events = {
            let mut world = self.0.borrow_mut();
            world.now += POLL_MILLIS;
            assert!(world.now < BEGINNING + LONGEST_RUN, "the run waits for nothing");
            world.ran += POLL_MILLIS.unsigned_abs();
            world.edit_list_as_user();
            world.edit_tree_as_user();
            let ids: Vec<WorkerId> = world.workers.keys().cloned().collect();
            ids.iter().filter_map(|id| poll_worker(&mut world, id)).collect()
        };
        self.count_call();
        events
    }

    fn send_request(&mut self, worker: &WorkerId, request: &ControlRequest) {
        self.count_call();
        let mut world = self.0.borrow_mut();
        world.sent.push((worker.clone(), request.clone()));
        if let Some(worker) = world.workers.get_mut(worker) {
            worker.is_stopped |= matches!(request, ControlRequest::Stop | ControlRequest::StopNow);
        }
    }

    fn cancel_worker(&mut self, worker: &WorkerId) {
        self.count_call();
        if let Some(worker) = self.0.borrow_mut().workers.get_mut(worker) {
            worker.is_live = false;
        }
        self.count_call();
    }
}

/// Returns the private world of a job: the base is committed, and the tree of an earlier round is
/// uncommitted work.
fn build_clone(world: &ScriptedWorld, job: &Job, base: &str) -> SharedWorld {
    let clone = SharedWorld::new(world.script);
    {
        let mut inner = clone.0.borrow_mut();
        base.clone_into(&mut inner.tree);
        inner.commit_start();
        inner.tasks.clone_from(&world.tasks);
        inner.list_script = world.list_script;
        inner.power_fails = world.power_fails;
        if let Some(TreeId(tree)) = &job.assignment.start_tree {
            inner.tree.clone_from(tree);
        }
    }
    clone
}

/// Lets a worker work for one poll. Returns what it reports.
fn poll_worker(world: &mut ScriptedWorld, id: &WorkerId) -> Option<WorkerEvent> {
    let worker = world.workers.get_mut(id).filter(|it| it.is_live)?;
    if let Some(kind) = world.limits.remove(&worker.job.assignment.task) {
        let (worker, agent) = (id.clone(), AgentKind::Text);
        return Some(WorkerEvent::Limited { worker, agent, until: None, kind });
    }
    worker.polls_left = worker.polls_left.saturating_sub(1);
    if worker.polls_left > 0 && !worker.is_stopped {
        return None;
    }
    let task = worker.job.assignment.task.clone();
    if let Some(left) = world.losses.get_mut(&task).filter(|left| **left > 0) {
        *left -= 1;
        worker.is_live = false;
        let reason = "killed".to_owned();
        return Some(WorkerEvent::Lost { worker: Some(id.clone()), reason });
    }
    let death = world.worker_deaths.remove(&task);
    let result = worker.run_job_until(death);
    (worker.is_live, worker.polls_left) = (false, 1);
    let Some(mut result) = result else {
        let reason = "killed".to_owned();
        return Some(WorkerEvent::Lost { worker: Some(id.clone()), reason });
    };
    let base = worker.base.clone();
    if let Some(CommitId(commit)) = &mut result.commit {
        *commit = format!("{id}:{commit}");
        let tree = result.tree.clone().map(|it| it.0).unwrap_or_default();
        world.candidates.insert(commit.clone(), (base, tree));
    }
    Some(WorkerEvent::Ended { worker: id.clone(), result: Box::new(result) })
}

/// Returns the recipe of a worker's run, whose changes count from its base.
fn adapt_recipe(job: &Job, base: &str) -> Recipe {
    let mut recipe = (*job.recipe).clone();
    if let (Work::Tasks(work), Some(_)) = (&mut recipe.work, &job.assignment.start_tree) {
        let (head, branch) = (Some(CommitId("0+0".to_owned())), Some(MAIN.to_owned()));
        let tree = Some(TreeId(base.to_owned()));
        work.restored_onto = Some(Box::new(Checkpoint::Git { head, branch, tree }));
    }
    recipe
}
