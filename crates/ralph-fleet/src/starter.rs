//! The commands that `ralph`'s git worker host starts for a job: submit it and wait, or cancel it.

use std::env;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::FleetError;
use crate::jobs::{JobOrder, JobService};
use crate::repository::FleetRepository;
use crate::service::{JobRef, ServiceTarget};
use crate::status::has_node;

/// How long a server that restarts may take until it answers.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// The pause before the server is asked again whether there is a node.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// How long the start of a worker host may wait for the server: `ralph` waits ten seconds for it.
const HOST_PATIENCE: Duration = Duration::from_secs(6);

/// How long a node may take until the server lists it, after it has joined.
const NODE_PATIENCE: Duration = Duration::from_secs(2);

/// Fails if jobs could not run: there is no server, or no node.
pub(crate) async fn check_fleet() -> Result<(), FleetError> {
    let queue = FleetRepository::find(None)?.name_queue();
    let jobs = JobService::connect(&ServiceTarget::find(None)?, HOST_PATIENCE).await?;
    let begun = Instant::now();
    while !has_node(&jobs, &queue).await? {
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
    let id = build_job_id(&read_variable("RALPH_WORKER")?, &attempt);
    let queue = FleetRepository::find(None)?.name_queue();
    let jobs = JobService::connect(&ServiceTarget::find(None)?, CONNECT_PATIENCE).await?;
    let order = JobOrder { id, job: JobRef { job, attempt }, heartbeat };
    let run = jobs.start(&queue, &order).await?;
    eprintln!("job {} accepted", order.id);
    let result = jobs.wait(&order.id, run).await?;
    if result.is_refused {
        // The reason that `ralph` prints if there is no result on a ref.
        eprintln!("{} refused the job; see the log there", result.node);
    }
    println!("result {}", result.label);
    std::io::stdout().flush().map_err(FleetError::for_io("print the result"))
}

/// Cancels a job. One that has ended stays as it is.
pub(crate) async fn cancel_job() -> Result<(), FleetError> {
    let id = build_job_id(&read_variable("RALPH_WORKER")?, &read_variable("RALPH_ATTEMPT")?);
    let jobs = JobService::connect(&ServiceTarget::find(None)?, CONNECT_PATIENCE).await?;
    jobs.cancel(&id).await
}

/// Returns the name of a job in the service: one for each attempt of the run.
fn build_job_id(worker: &str, attempt: &str) -> String {
    format!("{worker}.{attempt}")
}

fn read_variable(name: &'static str) -> Result<String, FleetError> {
    env::var(name).ok().filter(|it| !it.is_empty()).ok_or(FleetError::NoVariable { name })
}
