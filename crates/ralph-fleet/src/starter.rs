//! The commands that `ralph`'s git worker host starts for a job: submit it and wait, or cancel it.

use std::env;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use temporalio_client::errors::{
    ActivityInteractionError, ActivityResultError, StartActivityError,
};
use temporalio_client::tonic::Code;
use temporalio_client::{
    ActivityCancelOptions, ActivityIdReusePolicy, ActivityStartOptions, Client, RetryPolicy,
};

use crate::error::FleetError;
use crate::node::FleetNode;
use crate::repository::FleetRepository;
use crate::service::{JobRef, ResultRef, ServiceTarget};
use crate::status::has_node;

/// How long a job may take in all. Its own limits are in the job; this only ends what nothing else
/// ends.
const LONGEST_JOB: Duration = Duration::from_hours(7 * 24);

/// How often a job is given to a node, and the pause in between. A node whose network is cut can
/// cost two: the service may answer its open request for jobs before it notices.
const MOST_ATTEMPTS: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long a server that restarts may take until it answers.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// The pause before a server that did not answer is asked again.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// How long the start of a worker host may wait for the server: `ralph` waits ten seconds for it.
const HOST_PATIENCE: Duration = Duration::from_secs(6);

/// How long a node may take until the server lists it, after it has joined.
const NODE_PATIENCE: Duration = Duration::from_secs(2);

/// Fails if jobs could not run: there is no server, or no node.
pub(crate) async fn check_fleet() -> Result<(), FleetError> {
    let queue = FleetRepository::find(None)?.name_queue();
    let client = ServiceTarget::find(None)?.connect_for_jobs(HOST_PATIENCE).await?;
    let begun = Instant::now();
    while !has_node(&client, &queue).await? {
        if begun.elapsed() >= NODE_PATIENCE {
            return Err(FleetError::NoNode { queue });
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
    Ok(())
}

/// Replaces this process by `ralph`'s git worker host, which starts [`run_job`] for each job.
pub(crate) fn become_host(heartbeat: Duration, further: &[String]) -> Result<(), FleetError> {
    let this = env::current_exe().map_err(FleetError::for_io("find this program"))?;
    let this = format!("'{}'", this.to_string_lossy().replace('\'', r"'\''"));
    let start = format!("{this} run {{}} --heartbeat-timeout {}", heartbeat.as_secs_f64());
    let error = Command::new("ralph")
        .args(["__workers", "--git", "--attached", "--start", &start])
        .args(["--cancel", &format!("{this} cancel {{}}")])
        .args(further)
        .exec();
    Err(FleetError::Io { doing: "start `ralph`".to_owned(), source: error })
}

/// Gives a job to the service, or attaches to it, and waits for its end. Prints `result LABEL`.
pub(crate) async fn run_job(job: String, heartbeat: Duration) -> Result<(), FleetError> {
    let attempt = read_variable("RALPH_ATTEMPT")?;
    let id = build_activity_id(&read_variable("RALPH_WORKER")?, &attempt);
    let queue = FleetRepository::find(None)?.name_queue();
    let target = ServiceTarget::find(None)?;
    let client = target.connect(CONNECT_PATIENCE).await?;
    let retries = RetryPolicy::builder()
        .initial_interval(RETRY_PAUSE)
        .backoff_coefficient(1.0)
        .maximum_attempts(MOST_ATTEMPTS)
        .build();
    let job = JobRef { job, attempt };
    let run = loop {
        // A job that ran to its end is not run again: its result counts.
        let options =
            ActivityStartOptions::with_start_to_close_timeout(queue.as_str(), &id, LONGEST_JOB)
                .heartbeat_timeout(heartbeat)
                .retry_policy(retries.clone())
                .id_reuse_policy(ActivityIdReusePolicy::AllowDuplicateFailedOnly)
                .build();
        match client.start_activity(FleetNode::run_job, job.clone(), options).await {
            Ok(handle) => break handle.run_id().map(str::to_owned),
            Err(StartActivityError::AlreadyStarted { run_id, .. }) => break Some(run_id),
            Err(StartActivityError::Rpc(status)) if status.code() == Code::Unimplemented => {
                return Err(FleetError::TooOld { target: target.describe() });
            }
            Err(StartActivityError::Rpc(status)) if is_passing(status.code()) => {
                tokio::time::sleep(ASK_PAUSE).await;
            }
            Err(error) => {
                return Err(FleetError::Refused { what: "the job", reason: error.to_string() });
            }
        }
    };
    eprintln!("job {id} accepted");
    let result = wait_for_result(&client, &id, run).await?;
    if result.is_refused {
        // The reason that `ralph` prints if there is no result on a ref.
        eprintln!("{} refused the job; see the log there", result.node);
    }
    println!("result {}", result.label);
    std::io::stdout().flush().map_err(FleetError::for_io("print the result"))
}

async fn wait_for_result(
    client: &Client,
    id: &str,
    run: Option<String>,
) -> Result<ResultRef, FleetError> {
    let handle = client.get_activity_handle(FleetNode::run_job, id, run);
    loop {
        let reason = match handle.result().await {
            Ok(result) => return Ok(result),
            Err(ActivityResultError::Rpc(status)) if is_passing(status.code()) => {
                tokio::time::sleep(ASK_PAUSE).await;
                continue;
            }
            Err(ActivityResultError::Cancelled { .. }) => "the job was canceled".to_owned(),
            Err(ActivityResultError::NotFound(_)) => "the server lost the job".to_owned(),
            Err(ActivityResultError::ActivityFailed(error)) => error.failure().message.clone(),
            Err(error) => error.to_string(),
        };
        return Err(FleetError::JobLost { reason });
    }
}

/// Cancels a job. One that has ended stays as it is.
pub(crate) async fn cancel_job() -> Result<(), FleetError> {
    let id = build_activity_id(&read_variable("RALPH_WORKER")?, &read_variable("RALPH_ATTEMPT")?);
    let client = ServiceTarget::find(None)?.connect(CONNECT_PATIENCE).await?;
    let handle = client.get_activity_handle(FleetNode::run_job, &id, None);
    match handle.cancel(ActivityCancelOptions::default()).await {
        Ok(()) | Err(ActivityInteractionError::NotFound(_)) => Ok(()),
        Err(ActivityInteractionError::Rpc(status)) if status.code() == Code::FailedPrecondition => {
            Ok(())
        }
        Err(error) => {
            Err(FleetError::Refused { what: "to cancel the job", reason: error.to_string() })
        }
    }
}

/// Returns the name of a job in the service: one for each attempt of the run.
fn build_activity_id(worker: &str, attempt: &str) -> String {
    format!("{worker}.{attempt}")
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

fn read_variable(name: &'static str) -> Result<String, FleetError> {
    env::var(name).ok().filter(|it| !it.is_empty()).ok_or(FleetError::NoVariable { name })
}
