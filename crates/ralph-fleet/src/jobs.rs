//! Jobs in the service: how one is started, waited for, canceled and listed.
//!
//! A job is a standalone activity, or a workflow with one activity where the server has no
//! standalone activities. Nodes run the same activity in both forms and do not ask which it is.

mod standalone;
pub(crate) mod workflow;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use temporalio_client::errors::ClientError;
use temporalio_client::tonic::{Code, Status};
use temporalio_client::{ActivityCountOptions, Client, RetryPolicy};
use temporalio_common::ActivityDefinition;
use tokio::time::{self, Instant};

use crate::error::FleetError;
use crate::service::{JobProgress, JobRef, ResultRef, ServiceTarget};

/// How long a job may take in all. Its own limits are in the job; this only ends what nothing else
/// ends.
const LONGEST_JOB: Duration = Duration::from_hours(7 * 24);

/// How often a job is given to a node, and the pause in between. A node whose network is cut can
/// cost two: the service may answer its open request for jobs before it notices.
const MOST_ATTEMPTS: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The pause before a server that did not answer is asked again.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// The most jobs that are listed, newest first.
const MOST_JOBS: usize = 50;

/// The status of a job that a node has.
pub(crate) const RUNNING: &str = "running";

/// Why a canceled job has no result.
const CANCELED: &str = "the job was canceled";

/// Why a job that the server does not know has no result.
const FORGOTTEN: &str = "the server lost the job";

/// The activity that does a job. Nodes implement it.
pub(crate) struct JobActivity;

impl ActivityDefinition for JobActivity {
    type Input = JobRef;
    type Output = ResultRef;

    fn name(&self) -> &'static str {
        "run_job"
    }
}

/// What a server can run jobs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobForm {
    /// Standalone activities.
    Standalone,
    /// Workflows with one activity each.
    Workflow,
}

impl JobForm {
    /// Returns a description for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Standalone => "standalone activities",
            Self::Workflow => "workflows, as the server has no standalone activities",
        }
    }
}

/// A job for the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobOrder {
    /// Its name in the service. A name that runs, or has a result, does not run again.
    pub(crate) id: String,
    pub(crate) job: JobRef,
    /// Without a sign of life for this long, the next attempt begins.
    pub(crate) heartbeat: Duration,
}

/// A job as `status` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct JobRow {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) attempt: u32,
    pub(crate) node: String,
    pub(crate) place: String,
    pub(crate) doing: String,
    pub(crate) iterations: u32,
}

/// How a job ended.
enum JobOutcome {
    HasResult(ResultRef),
    Lost(String),
}

/// Why the service did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{0}")]
    Status(Box<Status>),
    #[error("{0}")]
    Other(String),
}

impl CallError {
    fn for_status(status: Status) -> Self {
        Self::Status(Box::new(status))
    }

    fn for_other(error: impl fmt::Display) -> Self {
        Self::Other(error.to_string())
    }

    /// Whether the service may answer if it is asked again.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Status(status) if is_passing(status.code()))
    }
}

/// The jobs of a service.
pub(crate) struct JobService {
    pub(crate) client: Client,
    pub(crate) form: JobForm,
}

impl JobService {
    /// Connects. Tries again for a while if the service does not answer.
    pub(crate) async fn connect(
        target: &ServiceTarget,
        patience: Duration,
    ) -> Result<Self, FleetError> {
        let begun = Instant::now();
        let client = target.connect(patience).await?;
        loop {
            match find_form(&client).await {
                Ok(form) => return Ok(Self { client, form }),
                Err(error) if error.is_passing() && begun.elapsed() < patience => {
                    time::sleep(ASK_PAUSE).await;
                }
                Err(error) => {
                    let reason = error.to_string();
                    return Err(FleetError::NoServer { target: target.describe(), reason });
                }
            }
        }
    }

    /// Starts a job, or attaches to the one of this name. Returns its run.
    pub(crate) async fn start(
        &self,
        queue: &str,
        order: &JobOrder,
    ) -> Result<Option<String>, FleetError> {
        loop {
            let started = match self.form {
                JobForm::Standalone => standalone::start(&self.client, queue, order).await,
                JobForm::Workflow => workflow::start(&self.client, queue, order).await,
            };
            match started {
                Ok(run) => return Ok(run),
                Err(error) if error.is_passing() => time::sleep(ASK_PAUSE).await,
                Err(error) => return Err(refuse("the job", &error)),
            }
        }
    }

    /// Waits for the result of a job.
    pub(crate) async fn wait(
        &self,
        id: &str,
        run: Option<String>,
    ) -> Result<ResultRef, FleetError> {
        loop {
            let ended = match self.form {
                JobForm::Standalone => standalone::wait(&self.client, id, run.clone()).await,
                JobForm::Workflow => workflow::wait(&self.client, id, run.clone()).await,
            };
            let reason = match ended {
                Ok(JobOutcome::HasResult(result)) => return Ok(result),
                Ok(JobOutcome::Lost(reason)) => reason,
                Err(error) if error.is_passing() => {
                    time::sleep(ASK_PAUSE).await;
                    continue;
                }
                Err(error) => error.to_string(),
            };
            return Err(FleetError::JobLost { reason });
        }
    }

    /// Cancels a job. One that has ended stays as it is.
    pub(crate) async fn cancel(&self, id: &str) -> Result<(), FleetError> {
        let canceled = match self.form {
            JobForm::Standalone => standalone::cancel(&self.client, id).await,
            JobForm::Workflow => workflow::cancel(&self.client, id).await,
        };
        canceled.map_err(|error| refuse("to cancel the job", &error))
    }

    /// Lists the newest jobs of a queue.
    pub(crate) async fn list(&self, queue: &str) -> Result<Vec<JobRow>, FleetError> {
        let jobs = match self.form {
            JobForm::Standalone => standalone::list(&self.client, queue).await,
            JobForm::Workflow => workflow::list(&self.client, queue).await,
        };
        jobs.map_err(|error| refuse("the list of jobs", &error))
    }
}

/// Asks a service what it can run jobs as.
async fn find_form(client: &Client) -> Result<JobForm, CallError> {
    match client.count_activities("", ActivityCountOptions::default()).await {
        // Server 1.31 has them switched off, and earlier ones do not know the call.
        Err(ClientError::Rpc(status)) if status.code() == Code::Unimplemented => {
            Ok(JobForm::Workflow)
        }
        Err(ClientError::Rpc(status)) if is_passing(status.code()) => {
            Err(CallError::for_status(status))
        }
        // A refusal is for the command to report.
        Ok(_) | Err(_) => Ok(JobForm::Standalone),
    }
}

/// Whether the service may answer again: it restarts, or the network is away.
fn is_passing(code: Code) -> bool {
    !matches!(
        code,
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::FailedPrecondition
            | Code::NotFound
    )
}

fn build_retries() -> RetryPolicy {
    RetryPolicy::builder()
        .initial_interval(RETRY_PAUSE)
        .backoff_coefficient(1.0)
        .maximum_attempts(MOST_ATTEMPTS)
        .build()
}

/// Returns the status of a job that has not ended.
fn describe_open(node: &str) -> String {
    if node.is_empty() { "waits for a node" } else { RUNNING }.to_owned()
}

fn refuse(what: &'static str, error: &CallError) -> FleetError {
    FleetError::Refused { what, reason: error.to_string() }
}

/// Returns a row of `status`.
fn build_row(id: &str, status: String, attempt: u32, node: String, at: JobProgress) -> JobRow {
    let JobProgress { node: _, place, doing, iterations } = at;
    JobRow { id: id.to_owned(), status, attempt, node, place, doing, iterations }
}
