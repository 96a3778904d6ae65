//! Opens a page in the user's browser.

use ralph_io::process::{Companion, ProcessLimits, Spawn, StdinSource};

use crate::project::Project;
use crate::screen;

/// Opens an address or a file; if that fails, the user has what was printed.
pub(crate) fn open_page(project: &Project, url: &str) -> Option<Companion> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let spawn = Spawn {
        program: program.into(),
        args: vec![url.into()],
        cwd: project.directory.clone(),
        env: project.env.clone(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    };
    Companion::start(&spawn)
        .map_err(|reason| screen::print_warning(&format!("no browser could be opened: {reason}")))
        .ok()
}
