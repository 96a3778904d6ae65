//! Finds the file of a program, so that std can use the fast way to spawn.
//!
//! std looks up a bare name in the child's own `PATH` only after a fork, whose cost grows with our
//! memory; with a path it uses `posix_spawn`. The lookup here also distinguishes "not found" from
//! "not executable" and from a missing interpreter, which are one error to the system.
//!
//! Not here: deciding what to run.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use ralph_model::child::NotStarted;
use rustix::fs::{Access, access};

use super::spawn::Spawn;

/// The search path if the child's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the file that `spawn.program` names.
pub fn find_program(spawn: &Spawn) -> Result<PathBuf, NotStarted> {
    let program = spawn.program.to_string_lossy().into_owned();
    let default = OsStr::new(DEFAULT_PATH);
    let path = spawn
        .env
        .iter()
        .rev()
        .find_map(|(name, value)| (name == "PATH").then_some(value.as_os_str()));
    let candidates: Vec<PathBuf> = if spawn.program.as_encoded_bytes().contains(&b'/') {
        vec![spawn.cwd.join(&spawn.program)]
    } else {
        // An empty or relative entry would run files of the project directory.
        std::env::split_paths(path.unwrap_or(default))
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(&spawn.program))
            .collect()
    };
    let mut refused = false;
    for candidate in candidates {
        match check_executable(&candidate) {
            Executability::Executable => return Ok(candidate),
            Executability::NotExecutable => refused = true,
            Executability::Absent => {}
        }
    }
    Err(if refused { NotStarted::NotAllowed { program } } else { NotStarted::NotFound { program } })
}

/// Converts the error of starting a program that [`find_program`] had found.
pub(super) fn convert_start_error(spawn: &Spawn, error: &io::Error) -> NotStarted {
    let program = spawn.program.to_string_lossy().into_owned();
    if !spawn.cwd.is_dir() {
        let error = format!("there is no directory `{}`", spawn.cwd.display());
        return NotStarted::Refused { program, error };
    }
    if error.kind() == io::ErrorKind::PermissionDenied {
        return NotStarted::NotAllowed { program };
    }
    let error = if error.kind() == io::ErrorKind::NotFound {
        "the interpreter it names was not found".to_owned()
    } else {
        error.to_string()
    };
    NotStarted::Refused { program, error }
}

enum Executability {
    Executable,
    NotExecutable,
    Absent,
}

fn check_executable(file: &Path) -> Executability {
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() && access(file, Access::EXEC_OK).is_ok() => {
            Executability::Executable
        }
        Ok(_) => Executability::NotExecutable,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Executability::NotExecutable
        }
        Err(_) => Executability::Absent,
    }
}
