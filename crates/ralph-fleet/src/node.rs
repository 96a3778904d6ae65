//! A node: takes jobs of one repository from the service and runs a worker for each.
//!
//! While a worker runs, the node renews its lease on the job. If it cannot do that for a whole
//! timeout, another node may have the job, so it stops its own worker.

use std::path::PathBuf;
use std::pin::pin;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_model::fingerprint::Fingerprint;
use temporalio_client::errors::AsyncActivityError;
use temporalio_client::{ActivityIdentifier, Client};
use temporalio_common::ActivityDefinition as _;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::runtime::{PollerBehavior, RuntimeOptions};
use temporalio_sdk::{ApplicationFailure, Runtime, Worker, WorkerOptions};
use tokio::sync::watch;
use tokio::time;

use crate::end_signal::EndSignal;
use crate::error::FleetError;
use crate::home;
use crate::jobs::JobActivity;
use crate::jobs::workflow::RunJob;
use crate::lease::{JobLease, StopReason};
use crate::repository::FleetRepository;
use crate::service::{JobProgress, JobRef, ResultRef};
use crate::worker_process::{WorkerCommand, WorkerExit, run_worker};

/// What a node is.
#[derive(Debug)]
pub(crate) struct NodeSettings {
    pub(crate) name: String,
    pub(crate) repository: FleetRepository,
    pub(crate) slots: usize,
    pub(crate) directory: PathBuf,
}

/// The node as the service calls it.
pub(crate) struct FleetNode {
    settings: NodeSettings,
    logs: PathBuf,
    client: Client,
    /// Becomes true once the node is asked to leave.
    leaving: watch::Receiver<bool>,
}

/// Takes jobs until the user ends the node.
pub(crate) async fn serve_node(client: Client, settings: NodeSettings) -> Result<(), FleetError> {
    let refused = |error: String| FleetError::Refused { what: "the node", reason: error };
    let logs = home::find_home()?.join("logs");
    std::fs::create_dir_all(&logs).map_err(FleetError::for_io("create the directory of logs"))?;
    let mut end = EndSignal::watch()?;
    let (leave, leaving) = watch::channel(false);
    let queue = settings.repository.name_queue();
    let identity = format!("{}#{}", settings.name, process::id());
    let slots = FixedSizeSlotSupplier::new(settings.slots);
    // A step of a workflow takes milliseconds; the others are not used.
    let single = || FixedSizeSlotSupplier::new(1);
    let tuner = TunerHolder::builder()
        .activity_task_slot_supplier(slots)
        .workflow_task_slot_supplier(single())
        .local_activity_task_slot_supplier(single())
        .nexus_task_slot_supplier(single())
        .build();
    println!(
        "{} takes jobs of {queue}, {} at a time; Ctrl-C leaves",
        settings.name, settings.slots
    );
    debug_assert_eq!(FleetNode::run_job.name(), JobActivity.name(), "jobs reach their activity");
    let node = FleetNode { settings, logs, client: client.clone(), leaving };
    let options = WorkerOptions::new(queue)
        .register_activities(node)
        .register_workflow::<RunJob>()
        .map_err(|error| refused(error.to_string()))?
        // None is kept: the next step of a job goes to any node at once, not first to this one.
        .max_cached_workflows(0)
        .workflow_task_poller_behavior(PollerBehavior::SimpleMaximum(1))
        .client_identity_override(identity)
        .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(1))
        .tuner(tuner)
        .build();
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())
        .map_err(|error| refused(error.to_string()))?;
    let mut worker =
        Worker::new(&runtime, client, options).map_err(|error| refused(error.to_string()))?;
    let shut_down = worker.shutdown_handle();
    let served = async {
        worker
            .run()
            .await
            .map_err(|error| FleetError::Refused { what: "the node", reason: error.to_string() })
    };
    let mut served = pin!(served);
    tokio::select! {
        ended = &mut served => return ended,
        () = end.wait() => {}
    }
    println!("leaving: jobs go to other nodes");
    // Without a receiver no job runs.
    let _ = leave.send(true);
    shut_down();
    tokio::select! {
        ended = &mut served => ended,
        () = end.wait() => Ok(()),
    }
}

#[activities]
impl FleetNode {
    /// Runs a job. Ends once its result is on a ref.
    #[activity(name = "run_job")]
    pub(crate) async fn run_job(
        self: Arc<Self>,
        context: ActivityContext,
        job: JobRef,
    ) -> Result<ResultRef, ActivityError> {
        let info = context.info();
        let label = build_label(&job.attempt, info.attempt, &info.task_token);
        if !is_job_ref(&job) {
            return Err(refuse_job("the job is no ref of a repository"));
        }
        println!("{} attempt {}: started", info.activity_id, info.attempt);
        let (stop, stopping) = watch::channel(false);
        let node = self.settings.name.clone();
        let progress = JobProgress { node: node.clone(), ..JobProgress::default() };
        let progress = Mutex::new(progress);
        let command = WorkerCommand {
            job: job.job,
            log: self.logs.join(format!("{}.{}.log", info.activity_id, info.attempt)),
            label: label.clone(),
            node: node.clone(),
            remote: self.settings.repository.url.clone(),
            directory: self.settings.directory.clone(),
        };
        let mut work = pin!(run_worker(&command, &progress, stopping));
        let mut leaving = self.leaving.clone();
        let reason = tokio::select! {
            done = &mut work => {
                let what = match &done {
                    Ok(exit) => exit.describe().to_owned(),
                    Err(error) => format!("`ralph` cannot be started: {error}"),
                };
                println!("{} attempt {}: {what}", info.activity_id, info.attempt);
                return match done {
                    Ok(WorkerExit::HasResult) => Ok(ResultRef { label, node, is_refused: false }),
                    Ok(WorkerExit::Refused) => Ok(ResultRef { label, node, is_refused: true }),
                    Ok(WorkerExit::Withdrawn) => Err(refuse_job("the run withdrew the job")),
                    Ok(WorkerExit::Lost(_)) | Err(_) => Err(fail_attempt(&node, &what)),
                };
            }
            reason = self.keep_lease(&context, &progress) => reason,
            _ = leaving.wait_for(|it| *it) => StopReason::Leaving,
        };
        println!("{} attempt {}: stopped, {}", info.activity_id, info.attempt, reason.describe());
        // It may have pushed its result just before.
        let _ = stop.send(true);
        let ended = work.await;
        match (reason, ended) {
            (StopReason::Canceled, _) => Err(ActivityError::cancelled()),
            (_, Ok(WorkerExit::HasResult)) => Ok(ResultRef { label, node, is_refused: false }),
            (reason, _) => Err(fail_attempt(&node, reason.describe())),
        }
    }
}

impl FleetNode {
    /// Renews the lease on a job until it has ended.
    async fn keep_lease(
        &self,
        context: &ActivityContext,
        progress: &Mutex<JobProgress>,
    ) -> StopReason {
        // Not the heartbeats of the worker library: it sends them later than asked, and does not
        // report that they are not answered.
        let token = context.info().task_token.clone().into();
        let lease_holder =
            self.client.get_async_activity_handle(ActivityIdentifier::from_task_token(token));
        let mut lease = JobLease::new(context.info().heartbeat_timeout, Instant::now());
        loop {
            let details = progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let sent = Instant::now();
            let renewal = lease_holder.heartbeat(Some(details), build_renewal_options(&lease));
            match time::timeout_at(lease.end().into(), renewal).await {
                Ok(Ok(answer)) if answer.cancel_requested => return StopReason::Canceled,
                Ok(Ok(_)) => lease.update_to(sent),
                Ok(Err(AsyncActivityError::NotFound(_))) => return StopReason::Superseded,
                // It may answer again before the end of the lease.
                Ok(Err(_)) | Err(_) => {}
            }
            if lease.has_ended(Instant::now()) {
                return StopReason::Unreachable;
            }
            time::sleep(lease.interval()).await;
        }
    }
}

/// A renewal that is not answered is sent again soon.
fn build_renewal_options(lease: &JobLease) -> temporalio_client::RpcOptions {
    let shortest = Duration::from_millis(500);
    temporalio_client::RpcOptions::builder().timeout(lease.interval().max(shortest)).build()
}

/// Returns the label of an attempt, which no other attempt at the job has: the service counts
/// from 1 again if the same job is submitted a second time, but its token for the attempt differs.
fn build_label(attempt: &str, number: u32, token: &[u8]) -> String {
    let print = Fingerprint::from_texts([format!("{token:?}").as_str()]).0;
    format!("{attempt}.{number}-{}", &print[..6])
}

/// Whether a job from the queue names what may be passed to `ralph` and git.
fn is_job_ref(job: &JobRef) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "-_.+/".contains(it);
    job.job.starts_with("refs/")
        && !job.job.contains("..")
        && job.job.chars().all(is_plain)
        && !job.attempt.is_empty()
        && !job.attempt.starts_with('-')
        && job.attempt.chars().all(|it| is_plain(it) && it != '/')
}

/// Returns a failure that no other attempt cures.
fn refuse_job(reason: &str) -> ActivityError {
    ActivityError::application(ApplicationFailure::non_retryable(reason.to_owned()))
}

/// Returns a failure after which another attempt makes sense. What the worker printed stays on
/// the node.
fn fail_attempt(node: &str, reason: &str) -> ActivityError {
    ActivityError::application(ApplicationFailure::new(format!("{node}: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_differ_between_attempts_and_between_submissions() {
        let label = build_label("a1", 2, b"one");
        assert!(label.starts_with("a1.2-") && label.len() == 11, "{label}");
        assert_ne!(label, build_label("a1", 2, b"other"));
        assert_ne!(build_label("a1", 1, b"one"), build_label("a2", 1, b"one"));
    }

    #[test]
    fn only_plain_names_of_refs_are_jobs() {
        let check = |job: &str, attempt: &str| {
            is_job_ref(&JobRef { job: job.to_owned(), attempt: attempt.to_owned() })
        };
        assert!(check("refs/ralph/jobs/20261118-101500-k3f9-T3.1_ä+b-r1", "a1"));
        for (job, attempt) in [
            ("--upload-pack=touch x", "a1"),
            ("refs/ralph/../x", "a1"),
            ("refs/ralph/jobs/a b", "a1"),
            ("refs/ralph/jobs/a;b", "a1"),
            ("refs/ralph/jobs/x", ""),
            ("refs/ralph/jobs/x", "--json"),
            ("refs/ralph/jobs/x", "a/1"),
        ] {
            assert!(!check(job, attempt), "{job} {attempt}");
        }
    }
}
