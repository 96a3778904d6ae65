//! `ralph-fleet status`: nodes, jobs and attempts.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use temporalio_client::grpc::WorkflowService as _;
use temporalio_client::tonic::IntoRequest as _;
use temporalio_client::{Client, NamespacedClient as _};
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeTaskQueueRequest;

use crate::error::FleetError;
use crate::jobs::{JobForm, JobRow, JobService, RUNNING};

/// A node that asked for jobs in the last minutes, or runs one.
#[derive(Debug, Serialize)]
struct NodeRow {
    name: String,
    /// Seconds since it last asked.
    seen: Option<u64>,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct FleetStatus {
    queue: String,
    /// What jobs are on this server.
    form: JobForm,
    nodes: Vec<NodeRow>,
    jobs: Vec<JobRow>,
}

/// Returns whether a node takes jobs of a queue.
pub(crate) async fn has_node(jobs: &JobService, queue: &str) -> Result<bool, FleetError> {
    Ok(!read_status(jobs, queue.to_owned()).await?.nodes.is_empty())
}

async fn read_status(service: &JobService, queue: String) -> Result<FleetStatus, FleetError> {
    let mut nodes = list_nodes(&service.client, &queue).await?;
    let jobs = service.list(&queue).await?;
    // A node without a free slot does not ask for jobs.
    for job in jobs.iter().filter(|it| it.status == RUNNING) {
        if nodes.iter().all(|it| it.name != job.node) {
            nodes.push(NodeRow { name: job.node.clone(), seen: None });
        }
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(FleetStatus { queue, form: service.form, nodes, jobs })
}

/// Prints the status of a queue.
pub(crate) async fn print_status(
    jobs: &JobService,
    queue: String,
    as_json: bool,
) -> Result<(), FleetError> {
    let status = read_status(jobs, queue).await?;
    if as_json {
        let text = serde_json::to_string_pretty(&status);
        println!("{}", text.map_err(|error| refuse("the status", &error))?);
    } else {
        print!("{}", format_status(&status));
    }
    Ok(())
}

fn format_status(status: &FleetStatus) -> String {
    let FleetStatus { queue, form, .. } = status;
    let mut text = format!("queue  {queue}\njobs are {}\n", form.describe());
    if status.nodes.is_empty() {
        text += "no node: jobs wait until a machine joins (`ralph-fleet join`)\n";
    }
    for node in &status.nodes {
        let seen = node.seen.map(|it| format!("  {it}s ago")).unwrap_or_default();
        text += &format!("node   {}{seen}\n", node.name);
    }
    for job in &status.jobs {
        let JobRow { id, status, attempt, node, place, doing, iterations } = job;
        text += &format!("job    {id}  {status}, attempt {attempt}");
        for part in [node, place, doing].into_iter().filter(|it| !it.is_empty()) {
            text += &format!("  {part}");
        }
        if *iterations > 0 {
            text += &format!("  {iterations} iterations");
        }
        text.push('\n');
    }
    text
}

async fn list_nodes(client: &Client, queue: &str) -> Result<Vec<NodeRow>, FleetError> {
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue { name: queue.to_owned(), ..TaskQueue::default() }),
        task_queue_type: TaskQueueType::Activity.into(),
        ..DescribeTaskQueueRequest::default()
    };
    let answer = client.clone().describe_task_queue(request.into_request()).await;
    let pollers = answer.map_err(|error| refuse("the list of nodes", &error))?.into_inner().pollers;
    Ok(pollers
        .into_iter()
        .map(|poller| {
            let at = poller.last_access_time.and_then(|it| u64::try_from(it.seconds).ok());
            let at = at.map(|it| SystemTime::UNIX_EPOCH + Duration::from_secs(it));
            let seen = at.and_then(|it| it.elapsed().ok()).map(|it| it.as_secs());
            NodeRow { name: poller.identity, seen }
        })
        .collect())
}

fn refuse(what: &'static str, error: &dyn std::error::Error) -> FleetError {
    FleetError::Refused { what, reason: error.to_string() }
}
