//! The hidden commands of the network side: what runs inside a sandbox to get out through the
//! proxy.
//!
//! Not here: the proxy itself, which is a part of a run outside.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use ralph_core::outcome::ExitStatus;
use ralph_io::process::run_beside;
use ralph_io::sandbox::proxy::{bridge, connect};

use crate::complaint::Complaint;

/// Connects standard input and output to a host, through the proxy.
pub(super) fn connect(host: &str, port: u16) -> Result<ExitStatus, Complaint> {
    let proxy = std::env::var("HTTPS_PROXY").ok();
    match connect::run(host, port, proxy.as_deref()) {
        Ok(()) => Ok(ExitStatus::Complete),
        Err(error) => Err(Complaint::input(error.to_string())),
    }
}

/// Opens the bridge in a container, or none, and runs a program beside it.
pub(super) fn bridge(directory: &Path, command: &[OsString]) -> Result<ExitCode, Complaint> {
    let (program, args) =
        command.split_first().ok_or_else(|| Complaint::input("there is no command to run"))?;
    // Without a network it is there for what else a first process has to do.
    let _bridge = if directory == Path::new("none") {
        None
    } else {
        let opened = bridge::open(directory).map_err(|error| {
            let directory = directory.display();
            Complaint::input(format!("cannot open the bridge to `{directory}`: {error}"))
        })?;
        Some(opened)
    };
    run_beside(program, args)
        .map_err(|error| Complaint::input(format!("cannot run `{}`: {error}", program.display())))
}
