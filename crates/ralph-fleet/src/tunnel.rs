//! A tunnel to the server of a fleet over ssh, so that it needs no open port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{self, Instant};

use crate::error::FleetError;

/// How long ssh may take to open the tunnel.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause before a tunnel that broke is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(2);

/// Where a tunnel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshHost {
    /// `host` or `user@host`.
    host: String,
    /// The port of ssh, if it is not the usual one.
    ssh_port: Option<u16>,
}

impl SshHost {
    /// Parses `ssh://[user@]host[:port]`; none if it does not begin like that.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("ssh://")?.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (rest, None),
        };
        // A name that begins with a dash would be an option of ssh.
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._@".contains(it);
        let is_host = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_plain);
        is_host.then(|| Self { host: host.to_owned(), ssh_port: port })
    }
}

/// An open tunnel. It ends with this process.
pub(crate) struct SshTunnel {
    host: SshHost,
    local: SocketAddr,
    server_port: u16,
    ssh: Child,
    /// The input of ssh, apart from it: waiting for a child closes the input that it has.
    lifeline: Option<ChildStdin>,
}

impl SshTunnel {
    /// Opens a tunnel to a port of the loopback interface of a host.
    pub(crate) async fn open(host: SshHost, server_port: u16) -> Result<Self, FleetError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(FleetError::for_io("find a free port"))?;
        let local = listener.local_addr().map_err(FleetError::for_io("find a free port"))?;
        drop(listener);
        let mut ssh = start_ssh(&host, local, server_port)?;
        let lifeline = ssh.stdin.take();
        let mut tunnel = Self { host, local, server_port, ssh, lifeline };
        tunnel.wait_until_open().await?;
        Ok(tunnel)
    }

    /// Returns the address of the server on this side.
    pub(crate) fn address(&self) -> String {
        self.local.to_string()
    }

    /// Opens the tunnel again whenever it breaks.
    pub(crate) async fn keep_open(mut self) {
        loop {
            let _ = self.ssh.wait().await;
            eprintln!("the tunnel to {} broke; opening it again", self.host.host);
            time::sleep(REOPEN_PAUSE).await;
            if let Ok(mut ssh) = start_ssh(&self.host, self.local, self.server_port) {
                self.lifeline = ssh.stdin.take();
                self.ssh = ssh;
            }
        }
    }

    async fn wait_until_open(&mut self) -> Result<(), FleetError> {
        let begun = Instant::now();
        loop {
            if TcpStream::connect(self.local).await.is_ok() {
                return Ok(());
            }
            let ended = self.ssh.try_wait().ok().flatten().is_some();
            if ended || begun.elapsed() > OPEN_TIMEOUT {
                let _ = self.ssh.start_kill();
                let reason = read_last_line(&mut self.ssh).await;
                let host = self.host.host.clone();
                return Err(FleetError::NoTunnel { host, reason });
            }
            time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Starts ssh. Its remote command ends with its input, and so with this process, even if that is
/// killed.
fn start_ssh(host: &SshHost, local: SocketAddr, server_port: u16) -> Result<Child, FleetError> {
    let mut command = Command::new("ssh");
    command.args(["-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
    command.args(["-L", &format!("{local}:127.0.0.1:{server_port}")]);
    if let Some(port) = host.ssh_port {
        command.args(["-p", &port.to_string()]);
    }
    command
        .args([&host.host, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(FleetError::for_io("start `ssh`"))
}

async fn read_last_line(ssh: &mut Child) -> String {
    let mut last = "it does not answer".to_owned();
    let Some(errors) = ssh.stderr.take() else { return last };
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Ok(Some(line))) = time::timeout(Duration::from_secs(1), lines.next_line()).await {
        if !line.trim().is_empty() {
            last = line;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_tunnels_are_read_and_options_are_not() {
        let host = |host: &str, ssh_port| Some(SshHost { host: host.to_owned(), ssh_port });
        for (text, expected) in [
            ("ssh://build1", host("build1", None)),
            ("ssh://me@build1.lan:2222/", host("me@build1.lan", Some(2222))),
            ("ssh://-oProxyCommand=x", None),
            ("ssh://a b", None),
            ("ssh://host:no", None),
            ("127.0.0.1:7233", None),
        ] {
            assert_eq!(SshHost::parse(text), expected, "{text}");
        }
    }
}
