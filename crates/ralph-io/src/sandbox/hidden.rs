//! The hidden commands of the binary that belong to the sandbox.
//!
//! They are found before the command line is read properly: every child starts through them. Not
//! here: what they do.

use std::ffi::OsString;
use std::process::ExitCode;

pub use super::trouble::Trouble;
use super::{CELL_COMMAND, INSIDE_COMMAND, TRIAL_COMMAND, TRY_COMMAND, trial};

/// Runs a hidden command, if the words of the command line, without the program's own name, are one.
///
/// What went wrong is to be said on stderr, behind [`WALL_PREFIX`](super::WALL_PREFIX), with the exit
/// code [`WALL_CODE`](super::WALL_CODE).
pub fn hidden(words: &[OsString]) -> Option<Result<ExitCode, Trouble>> {
    let (command, words) = words.split_first()?;
    match command.to_str()? {
        CELL_COMMAND => Some(cell(words)),
        INSIDE_COMMAND => Some(inside(words)),
        TRY_COMMAND => Some(namespaces()),
        TRIAL_COMMAND => Some(Ok(trial::main(words))),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
use super::stage::{main as cell, main_inside as inside};

#[cfg(target_os = "linux")]
fn namespaces() -> Result<ExitCode, Trouble> {
    super::stage::try_namespaces().map(|()| ExitCode::SUCCESS)
}

/// Makes the walls that a plan file asks for, where they are macOS's or a VM's.
#[cfg(not(target_os = "linux"))]
fn cell(words: &[OsString]) -> Result<ExitCode, Trouble> {
    use super::{Wall, around, plan::Plan};
    let [file, program @ ..] = words else { return Err(Trouble::new("nothing to run")) };
    let file = std::path::Path::new(file);
    let plan = Plan::take(file).map_err(Trouble::at("read the plan", file))?;
    match &plan.wall {
        Wall::Native => around::run_behind_profile(&plan, program),
        Wall::Sbx(vm) => around::run_in_vm(vm, &plan, file, program),
        Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {
            Err(around::foreign(plan.wall.backend()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn inside(_words: &[OsString]) -> Result<ExitCode, Trouble> {
    Err(super::around::foreign(ralph_core::sandbox::Backend::Native))
}

#[cfg(not(target_os = "linux"))]
fn namespaces() -> Result<ExitCode, Trouble> {
    Err(super::around::foreign(ralph_core::sandbox::Backend::Native))
}
