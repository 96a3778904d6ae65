//! Workers as processes.
//!
//! A parallel run talks to a worker host ([`HostedWorkers`]), which starts one process for each
//! job ([`serve_jobs`]); a worker reports through [`WorkerOutput`] and is stopped through its
//! [`Lifeline`]. Lines go over stdin and stdout, so when a process is killed, those that it
//! started see the end of their input and stop. Another host ([`serve_jobs_over_git`]) passes jobs
//! to other machines, where a [`RemoteWorker`] does them. Not here: what a worker does, and clones.

mod git_host;
mod host;
mod host_client;
mod lifeline;
mod progress;
mod remote_worker;
mod unfinished_work;

pub use git_host::{GitWorkerHost, StartKind, serve_jobs_over_git};
pub use host::{WorkerHost, serve_jobs};
pub use host_client::{HostOwner, HostedWorkers};
pub use lifeline::{Lifeline, read_job};
pub use progress::{ProgressView, WorkerOutput};
pub use remote_worker::{
    FetchedJob, RemoteEnd, RemoteWorker, WantedJob, check_job_name, fetch_job, find_machine_name,
};
pub use unfinished_work::fetch_earlier_work;
