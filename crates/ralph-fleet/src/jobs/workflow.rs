//! Jobs as workflows, for servers without standalone activities: a workflow starts the activity of
//! the job and has its result.
//!
//! A service continues a workflow by running its code again, and stops one whose code differs from
//! what it recorded. So the code of [`RunJob`] does one thing, reads no clock, and never changes
//! under its name: another version takes another name, and this one stays for jobs that run.

use std::time::Duration;

use futures::StreamExt as _;
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowStartError,
};
use temporalio_client::{
    Client, NamespacedClient as _, WorkflowDescribeOptions, WorkflowExecutionInfo,
    WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowGetResultOptions, WorkflowHandle,
    WorkflowIdReusePolicy, WorkflowListOptions, WorkflowStartOptions, WorkflowTerminateOptions,
};
use temporalio_common::error::IncomingError;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{ActivityOptions, WorkflowContext, WorkflowResult};

use super::{
    CANCELED, CallError, FORGOTTEN, JobActivity, JobOrder, JobOutcome, JobRow, LONGEST_JOB,
    MOST_JOBS, build_retries, build_row, describe_open,
};
use crate::service::{JobProgress, ResultRef};

/// How long a node may take for a step of a workflow, which takes milliseconds. One that is lost in
/// between delays the start or the end of the job by so much.
const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// A job.
#[workflow]
#[derive(Default)]
pub(crate) struct RunJob;

#[workflow_methods]
impl RunJob {
    #[run(name = "run_job_1")]
    pub(crate) async fn run(
        context: &mut WorkflowContext<Self>,
        order: JobOrder,
    ) -> WorkflowResult<ResultRef> {
        let options = ActivityOptions::with_start_to_close_timeout(LONGEST_JOB)
            .activity_id(order.id)
            .heartbeat_timeout(order.heartbeat)
            .retry_policy(build_retries())
            // Any node may take it, not only the one that runs this.
            .do_not_eagerly_execute(true)
            .build();
        Ok(context.execute_activity(JobActivity, order.job, options).await?)
    }
}

pub(super) async fn start(
    client: &Client,
    queue: &str,
    order: &JobOrder,
) -> Result<Option<String>, CallError> {
    // A job that ran to its end is not run again: its result counts.
    let options = WorkflowStartOptions::new(queue, &order.id)
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicateFailedOnly)
        .task_timeout(STEP_TIMEOUT)
        .build();
    match client.start_workflow(RunJob::run, order.clone(), options).await {
        Ok(handle) => Ok(handle.run_id().map(str::to_owned)),
        Err(WorkflowStartError::AlreadyStarted { run_id, .. }) => Ok(run_id),
        Err(WorkflowStartError::Rpc(status)) => Err(CallError::for_status(status)),
        Err(error) => Err(CallError::for_other(error)),
    }
}

pub(super) async fn wait(
    client: &Client,
    id: &str,
    run: Option<String>,
) -> Result<JobOutcome, CallError> {
    let handle = find_job(client, id, run);
    let reason = match handle.get_result(WorkflowGetResultOptions::default()).await {
        Ok(result) => return Ok(JobOutcome::HasResult(result)),
        Err(WorkflowGetResultError::Rpc(status)) => return Err(CallError::for_status(status)),
        Err(
            WorkflowGetResultError::Terminated { .. } | WorkflowGetResultError::Cancelled { .. },
        ) => CANCELED.to_owned(),
        Err(WorkflowGetResultError::NotFound(_)) => FORGOTTEN.to_owned(),
        Err(WorkflowGetResultError::Failed(error)) => describe_failure(&error),
        Err(error) => error.to_string(),
    };
    Ok(JobOutcome::Lost(reason))
}

/// Cancels a job: its workflow is ended by the server, so that no node has to be there for it, and
/// the node that has the job learns of it when it renews its lease.
pub(super) async fn cancel(client: &Client, id: &str) -> Result<(), CallError> {
    let options = WorkflowTerminateOptions::builder().reason("canceled by the run").build();
    match find_job(client, id, None).terminate(options).await {
        Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => Ok(()),
        Err(error) => Err(CallError::for_other(error)),
    }
}

pub(super) async fn list(client: &Client, queue: &str) -> Result<Vec<JobRow>, CallError> {
    let query = format!("TaskQueue = '{queue}'");
    let mut found = client.list_workflows(query, WorkflowListOptions::default()).take(MOST_JOBS);
    let mut jobs = Vec::new();
    while let Some(job) = found.next().await {
        let job = job.map_err(CallError::for_other)?;
        let handle = find_job(client, job.id(), Some(job.run_id().to_owned()));
        let details = handle.describe(WorkflowDescribeOptions::default()).await;
        let details = details.map_err(CallError::for_other)?;
        let (attempt, node, progress) = match details.raw().pending_activities.first() {
            Some(activity) => read_activity(activity),
            None => read_last_attempt(&handle).await?,
        };
        let status = match details.status() {
            WorkflowExecutionStatus::Running => describe_open(&node),
            WorkflowExecutionStatus::Terminated => "canceled".to_owned(),
            status => format!("{status:?}").to_lowercase(),
        };
        jobs.push(build_row(job.id(), status, attempt, node, progress));
    }
    Ok(jobs)
}

fn find_job(client: &Client, id: &str, run: Option<String>) -> WorkflowHandle<Client, RunJob> {
    let namespace = client.namespace();
    let job = WorkflowExecutionInfo::builder().namespace(namespace).workflow_id(id);
    WorkflowHandle::new(client.clone(), job.maybe_run_id(run).build())
}

/// Returns what the node reported: a workflow fails with the failure of its activity, whose cause
/// is that of the node.
fn describe_failure(error: &IncomingError) -> String {
    error.cause().unwrap_or(error).failure().message.clone()
}

/// Returns attempt, node and progress of a job that has not ended.
fn read_activity(activity: &PendingActivityInfo) -> (u32, String, JobProgress) {
    let details = activity.heartbeat_details.iter().flat_map(|it| &it.payloads).next();
    let progress = details.and_then(|it| serde_json::from_slice(&it.data).ok());
    let attempt = activity.attempt.try_into().unwrap_or_default();
    (attempt, activity.last_worker_identity.clone(), progress.unwrap_or_default())
}

/// Returns attempt and node of a job that has ended, or has not begun.
async fn read_last_attempt(
    handle: &WorkflowHandle<Client, RunJob>,
) -> Result<(u32, String, JobProgress), CallError> {
    let history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    let events = history.into_events().await.map_err(CallError::for_other)?;
    let attempt = events.into_iter().rev().find_map(|event| match event.attributes {
        Some(Attributes::ActivityTaskStartedEventAttributes(attempt)) => Some(attempt),
        _ => None,
    });
    Ok(attempt.map_or((1, String::new(), JobProgress::default()), |it| {
        (it.attempt.try_into().unwrap_or_default(), it.identity, JobProgress::default())
    }))
}

#[cfg(test)]
mod tests {
    use temporalio_client::WorkflowHistory;
    use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

    use super::*;

    /// What a server recorded of a job: the `to_json` of its `WorkflowHistory`.
    const RECORDED: &str = include_str!("../../tests/data/run_job_1.json");

    #[tokio::test]
    async fn a_job_that_began_under_earlier_code_continues() {
        let options = WorkflowReplayerOptions::new().register_workflow::<RunJob>();
        let replayer = WorkflowReplayer::new(options.expect("a workflow").build());
        let replayer = replayer.expect("a replayer");
        let replay = async |text: &str| {
            let history = WorkflowHistory::from_json(text.as_bytes()).expect("a history");
            replayer.replay_workflow(history).await.map_err(|error| error.to_string())
        };
        replay(RECORDED).await.expect("it continues");
        // As if the code had changed since.
        let other = RECORDED.replace(r#""run_job""#, r#""other""#);
        let error = replay(&other).await.expect_err("it stops");
        assert!(error.contains("nondeterministic"), "{error}");
    }
}
