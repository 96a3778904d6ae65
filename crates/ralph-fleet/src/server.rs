//! `ralph-fleet up`: the development server of Temporal on this machine, or the user's cluster.

use std::env;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{self, Instant};

use crate::end_signal::EndSignal;
use crate::error::FleetError;
use crate::home;
use crate::installer::find_server_program;
use crate::jobs::JobService;
use crate::repository::FleetRepository;
use crate::service::{DEFAULT_ADDRESS, ServiceTarget};

/// How long a server may take until it answers.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a server has to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that ends is started again, unless it ended this often, each time soon.
const MOST_STARTS: u32 = 5;
const SOON: Duration = Duration::from_secs(10);

/// What `up` is asked for.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) trusts_network: bool,
    pub(crate) has_page: bool,
    pub(crate) installs: bool,
    pub(crate) repository: Option<String>,
}

/// Starts the server and keeps it running until the user ends it.
pub(crate) async fn serve_fleet(settings: &ServerSettings) -> Result<(), FleetError> {
    let configured = ServiceTarget::find(None)?;
    if configured.is_configured {
        let jobs = JobService::connect(&configured, Duration::ZERO).await?;
        println!("your Temporal cluster at {} answers", configured.describe());
        println!("jobs are {}", jobs.form.describe());
        print_join("with the same TEMPORAL_* settings, ", "", settings);
        return Ok(());
    }
    let address = settings.listen;
    if !address.ip().is_loopback() && !settings.trusts_network {
        return Err(FleetError::OpenNetwork { address });
    }
    let target = ServiceTarget::find(Some(&address.to_string()))?;
    if target.connect(Duration::ZERO).await.is_ok() {
        home::record_server_address(&address.to_string())?;
        println!("a server already runs at {address}");
        print_join("", &describe_place(address), settings);
        return Ok(());
    }
    let program = find_server_program(settings.installs).await?;
    let mut end = EndSignal::watch()?;
    let mut ended = 0;
    loop {
        let begun = Instant::now();
        let mut server = start_server(&program, settings)?;
        let outcome = tokio::select! {
            result = wait_until_serving(&target, &mut server) => result.map(|()| true),
            () = end.wait() => Ok(false),
        };
        if !matches!(outcome, Ok(true)) {
            end_server(&mut server).await;
            return outcome.map(|_| ());
        }
        home::record_server_address(&address.to_string())?;
        println!("the server runs at {address}");
        if settings.has_page {
            let page = SocketAddr::new(address.ip(), choose_page_port(address));
            println!("its page: http://{page}");
        }
        print_join("", &describe_place(address), settings);
        let status = tokio::select! {
            status = server.wait() => status,
            () = end.wait() => {
                end_server(&mut server).await;
                return Ok(());
            }
        };
        ended = if begun.elapsed() < SOON { ended + 1 } else { 0 };
        let reason = status.as_ref().map_or_else(ToString::to_string, ExitStatus::to_string);
        if ended == MOST_STARTS {
            return Err(FleetError::ServerEnded { times: ended, reason });
        }
        eprintln!("the server ended ({reason}); starting it again");
    }
}

/// The port of the page of a server.
fn choose_page_port(address: SocketAddr) -> u16 {
    address.port().checked_add(1000).unwrap_or(8233)
}

/// Returns where others find the server.
fn describe_place(address: SocketAddr) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let port = address.port();
    if address.ip().is_loopback() {
        let user = env::var("USER").map(|user| user + "@").unwrap_or_default();
        let is_usual = address.to_string() == DEFAULT_ADDRESS;
        let option = if is_usual { String::new() } else { format!(" --port {port}") };
        format!(" ssh://{user}{name}{option}")
    } else if address.ip().is_unspecified() {
        format!(" {name}:{port}")
    } else {
        format!(" {address}")
    }
}

fn print_join(how: &str, place: &str, settings: &ServerSettings) {
    let found = FleetRepository::find(settings.repository.clone());
    let url = found.map_or_else(|_| "URL".to_owned(), |it| it.url);
    println!("on each machine {how}run:\n  ralph-fleet join{place} --repository {url}");
    println!("then here:\n  ralph build --jobs 4 --worker-host fleet");
}

fn start_server(program: &Path, settings: &ServerSettings) -> Result<Child, FleetError> {
    let home = home::find_home()?;
    let log = File::options()
        .create(true)
        .append(true)
        .open(home.join("server.log"))
        .map_err(FleetError::for_io("open the server's log"))?;
    // On one address that is not loopback, parts of the development server do not find each other.
    let ip = settings.listen.ip();
    let ip = if ip.is_loopback() { ip } else { Ipv4Addr::UNSPECIFIED.into() };
    let mut command = Command::new(program);
    command
        .args(["server", "start-dev", "--log-level", "error", "--ip"])
        .arg(ip.to_string())
        .args(["--port", &settings.listen.port().to_string(), "--db-filename"])
        .arg(home.join("temporal.db"));
    if settings.has_page {
        command.args(["--ui-port", &choose_page_port(settings.listen).to_string()]);
    } else {
        command.arg("--headless");
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .map_err(FleetError::for_io("start the server"))
}

async fn wait_until_serving(target: &ServiceTarget, server: &mut Child) -> Result<(), FleetError> {
    tokio::select! {
        connected = target.connect(START_TIMEOUT) => connected.map(|_| ()),
        status = server.wait() => {
            let reason = status.map_or_else(|it| it.to_string(), |it| it.to_string());
            let log = home::find_home()?.join("server.log");
            Err(FleetError::ServerEnded { times: 1, reason: format!("{reason}; see {}", log.display()) })
        }
    }
}

/// Ends the server. It closes its file in an orderly way if it can.
async fn end_server(server: &mut Child) {
    let pid = server.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
    if time::timeout(STOP_TIMEOUT, server.wait()).await.is_err() {
        let _ = server.kill().await;
    }
}
