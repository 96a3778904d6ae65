//! Where the files of a fleet are: below `ralph`'s state directory.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::error::FleetError;

/// The directory of everything that belongs to fleets on this machine.
pub(crate) fn find_home() -> Result<PathBuf, FleetError> {
    // As `ralph` finds it: a relative path is ignored.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or(FleetError::NoVariable { name: "HOME" })?;
    let home = root.join("ralph/fleet");
    fs::create_dir_all(&home).map_err(FleetError::for_io("create the state directory"))?;
    Ok(home)
}

/// Returns the address that the last `ralph-fleet up` of this user listened on.
pub(crate) fn read_server_address() -> Option<String> {
    let text = fs::read_to_string(find_home().ok()?.join("address")).ok()?;
    Some(text.trim().to_owned())
}

/// Records the address of the server for the other commands.
pub(crate) fn record_server_address(address: &str) -> Result<(), FleetError> {
    fs::write(find_home()?.join("address"), address)
        .map_err(FleetError::for_io("record the server's address"))
}
