//! Jobs as standalone activities.

use futures::StreamExt as _;
use temporalio_client::errors::{
    ActivityInteractionError, ActivityResultError, ClientError, StartActivityError,
};
use temporalio_client::tonic::Code;
use temporalio_client::{
    ActivityCancelOptions, ActivityDescribeOptions, ActivityExecutionInfoLike as _,
    ActivityExecutionStatus, ActivityIdReusePolicy, ActivityListOptions, ActivityStartOptions,
    Client,
};

use super::{
    CANCELED, CallError, FORGOTTEN, JobActivity, JobOrder, JobOutcome, JobRow, LONGEST_JOB,
    MOST_JOBS, build_retries, build_row, describe_open,
};
use crate::service::JobProgress;

pub(super) async fn start(
    client: &Client,
    queue: &str,
    order: &JobOrder,
) -> Result<Option<String>, CallError> {
    // A job that ran to its end is not run again: its result counts.
    let options = ActivityStartOptions::with_start_to_close_timeout(queue, &order.id, LONGEST_JOB)
        .heartbeat_timeout(order.heartbeat)
        .retry_policy(build_retries())
        .id_reuse_policy(ActivityIdReusePolicy::AllowDuplicateFailedOnly)
        .build();
    match client.start_activity(JobActivity, order.job.clone(), options).await {
        Ok(handle) => Ok(handle.run_id().map(str::to_owned)),
        Err(StartActivityError::AlreadyStarted { run_id, .. }) => Ok(Some(run_id)),
        Err(StartActivityError::Rpc(status)) => Err(CallError::for_status(status)),
        Err(error) => Err(CallError::for_other(error)),
    }
}

pub(super) async fn wait(
    client: &Client,
    id: &str,
    run: Option<String>,
) -> Result<JobOutcome, CallError> {
    let handle = client.get_activity_handle(JobActivity, id, run);
    let reason = match handle.result().await {
        Ok(result) => return Ok(JobOutcome::HasResult(result)),
        Err(ActivityResultError::Rpc(status)) => return Err(CallError::for_status(status)),
        Err(ActivityResultError::Cancelled { .. }) => CANCELED.to_owned(),
        Err(ActivityResultError::NotFound(_)) => FORGOTTEN.to_owned(),
        Err(ActivityResultError::ActivityFailed(error)) => error.failure().message.clone(),
        Err(error) => error.to_string(),
    };
    Ok(JobOutcome::Lost(reason))
}

pub(super) async fn cancel(client: &Client, id: &str) -> Result<(), CallError> {
    let handle = client.get_activity_handle(JobActivity, id, None);
    match handle.cancel(ActivityCancelOptions::default()).await {
        Ok(()) | Err(ActivityInteractionError::NotFound(_)) => Ok(()),
        Err(ActivityInteractionError::Rpc(status)) if status.code() == Code::FailedPrecondition => {
            Ok(())
        }
        Err(error) => Err(CallError::for_other(error)),
    }
}

pub(super) async fn list(client: &Client, queue: &str) -> Result<Vec<JobRow>, CallError> {
    let query = format!("TaskQueue = '{queue}'");
    let mut found = client.list_activities(query, ActivityListOptions::default()).take(MOST_JOBS);
    let mut jobs = Vec::new();
    while let Some(job) = found.next().await {
        let job = job.map_err(|error: ClientError| CallError::for_other(error))?;
        let run = Some(job.activity_run_id().to_owned());
        let handle = client.get_activity_handle(JobActivity, job.activity_id(), run);
        let options = ActivityDescribeOptions::builder().include_heartbeat_details(true).build();
        let details = handle.describe(options).await.map_err(CallError::for_other)?;
        let progress: Option<JobProgress> = details.heartbeat_details().await.ok().flatten();
        let node = details.raw_info().last_worker_identity.clone();
        let status = match details.status() {
            ActivityExecutionStatus::Running => describe_open(&node),
            status => format!("{status:?}").to_lowercase(),
        };
        let progress = progress.unwrap_or_default();
        jobs.push(build_row(job.activity_id(), status, details.attempt(), node, progress));
    }
    Ok(jobs)
}
