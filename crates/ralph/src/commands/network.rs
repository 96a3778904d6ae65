//! The hidden command that runs inside a sandbox to connect through the proxy.
//!
//! Not here: the proxy itself, which runs outside, in the process of the run.

use ralph_core::outcome::ExitStatus;
use ralph_io::sandbox::proxy::connect;

use crate::complaint::Complaint;

/// Connects standard input and output to a host, through the proxy.
pub(super) fn connect(host: &str, port: u16) -> Result<ExitStatus, Complaint> {
    let proxy = std::env::var("HTTPS_PROXY").ok();
    match connect::run(host, port, proxy.as_deref()) {
        Ok(()) => Ok(ExitStatus::Complete),
        Err(error) => Err(Complaint::input(error.to_string())),
    }
}
