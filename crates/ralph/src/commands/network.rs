//! The hidden command that runs inside a sandbox to connect through the proxy.
//!
//! Not here: the proxy itself, which runs outside, in the process of the run.

use ralph_io::sandbox::proxy::connect;
use ralph_model::outcome::ExitStatus;

use crate::cli_error::CliError;

/// Connects standard input and output to a host, through the proxy.
pub(super) fn connect_through_proxy(host: &str, port: u16) -> Result<ExitStatus, CliError> {
    let proxy = std::env::var("HTTPS_PROXY").ok();
    match connect::connect_stdio(host, port, proxy.as_deref()) {
        Ok(()) => Ok(ExitStatus::Complete),
        Err(error) => Err(CliError::for_input(error.to_string())),
    }
}
