//! Which project a directory belongs to that has no settings of its own.

use std::path::{Path, PathBuf};

use crate::cli::{Cli, CliCommand};
use crate::screen;

/// Files whose directory has settings that apply to the directories below.
pub(crate) const SETTINGS_FILES: [&str; 3] =
    [".ralph/settings.json", ".ralph/settings.local.json", "ralph/tasks.json"];

/// A file that every run writes.
pub(crate) const STATE_FILE: &str = ".ralph/state.json";

/// Lets work that is started below a project be work on that project, as if `-C` named it: its
/// settings and gates apply. Files that the command line names stay those that the user means.
pub(crate) fn start_in_project_above(cli: &mut Cli) {
    let Some(command) = &mut cli.command else { return };
    let files = if let CliCommand::Run(args) = command {
        [args.prompt_file.as_mut(), args.start.config.as_mut()]
    } else if let CliCommand::Prompt(args) = command {
        [Some(&mut args.file), args.start.config.as_mut()]
    } else if let CliCommand::Build(args) = command {
        [args.plan.as_mut(), args.start.config.as_mut()]
    } else if let CliCommand::Plan(args) = command {
        [None, args.start.config.as_mut()]
    } else if let CliCommand::Archive(_) = command {
        [None, None]
    } else {
        return;
    };
    if cli.common.project_dir.is_some() {
        return;
    }
    let Ok(directory) = Path::new(".").canonicalize() else { return };
    let Some(steps) = find_project_above(&directory, &[&SETTINGS_FILES]) else { return };
    let above: PathBuf = vec![".."; steps].iter().collect();
    let project = directory.ancestors().nth(steps).unwrap_or(&directory);
    let below = directory.strip_prefix(project).unwrap_or(Path::new(""));
    for file in files.into_iter().flatten() {
        *file = below.join(&*file);
    }
    screen::print_line(&format!(
        "This directory belongs to the project in `{}`: working there.",
        above.display()
    ));
    cli.common.project_dir = Some(above);
}

/// Returns how many levels up the enclosing project is, if it is not the directory itself.
pub(crate) fn find_project_above(directory: &Path, marks: &[&[&str]]) -> Option<usize> {
    let is_project =
        |place: &Path| marks.iter().copied().flatten().any(|mark| place.join(mark).is_file());
    let top = directory.ancestors().position(|it| it.join(".git").exists())?;
    let found = directory.ancestors().take(top + 1).position(is_project)?;
    (found > 0).then_some(found)
}
