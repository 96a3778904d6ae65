//! The files to write, as a list of steps that can be shown first.
//!
//! Not here: the text of the documents.

use std::path::Path;

use crate::cli::InitArgs;
use crate::cli_error::CliError;
use crate::documents;
use crate::project::Project;
use crate::scaffold::{self, Existing, ScaffoldResult};
use crate::settings::LoadedSettings;

/// All steps, in order.
#[derive(Debug, Default)]
pub(super) struct InitSteps(Vec<InitStep>);

#[derive(Debug)]
enum InitStep {
    /// A directory in the project, with its parents.
    Directory(String),
    File {
        path: String,
        text: String,
        existing: Existing,
        shown: FilePreview,
    },
    /// A file that is not changed.
    Stays(String),
    /// A line of `.gitignore`.
    Ignored(String),
}

/// How much of a file is shown before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePreview {
    /// All of it.
    Whole,
    /// Its name only, for a template or a copy.
    Name,
}

/// The results.
#[derive(Debug, Default)]
pub(super) struct StepResults {
    /// One line each.
    pub(super) lines: Vec<String>,
    /// Whether a document was kept that `--force` would overwrite.
    pub(super) has_kept: bool,
}

impl InitSteps {
    pub(super) fn add_directory(&mut self, path: impl Into<String>) {
        self.0.push(InitStep::Directory(path.into()));
    }

    pub(super) fn add_file(
        &mut self,
        path: &str,
        text: String,
        existing: Existing,
        shown: FilePreview,
    ) {
        self.0.push(InitStep::File { path: path.to_owned(), text, existing, shown });
    }

    pub(super) fn add_kept(&mut self, path: impl Into<String>) {
        self.0.push(InitStep::Stays(path.into()));
    }

    pub(super) fn add_gitignore_line(&mut self, line: impl Into<String>) {
        self.0.push(InitStep::Ignored(line.into()));
    }

    /// Runs all steps.
    pub(super) fn run_steps(
        &self,
        project: &Project,
        loaded: &LoadedSettings,
    ) -> Result<StepResults, CliError> {
        let layout = project.find_layout(loaded)?;
        layout.prepare_project().map_err(CliError::from_input_error)?;
        let mut done = StepResults::default();
        for step in &self.0 {
            match step {
                InitStep::Directory(path) => {
                    let mut place = project.directory.clone();
                    for part in Path::new(path) {
                        place.push(part);
                        scaffold::create_directory(&place)?;
                    }
                }
                InitStep::File { path, text, existing, .. } => {
                    let written =
                        scaffold::write_file(&project.directory.join(path), text, *existing)?;
                    done.record_file(project, path, &written);
                }
                InitStep::Stays(path) => done.lines.push(format!("kept    {path}")),
                InitStep::Ignored(line) => {
                    let file = project.directory.join(".gitignore");
                    if scaffold::add_line(&file, line)? == ScaffoldResult::New {
                        done.lines.push(format!("added   {line} to .gitignore"));
                    }
                }
            }
        }
        Ok(done)
    }

    /// Describes what would be done.
    pub(super) fn format_preview(&self, project: &Project) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                InitStep::Directory(_) => {}
                InitStep::File { path, existing, text: content, shown } => {
                    let is_there = project.directory.join(path).symlink_metadata().is_ok();
                    let line = match (is_there, existing) {
                        (true, Existing::Keep) => format!("would keep   {path}\n"),
                        (true, Existing::BackUp) => {
                            format!("would write  {path}, and keep the old one as a backup\n")
                        }
                        (true, Existing::Replace) | (false, _) => format!("would write  {path}\n"),
                    };
                    text.push_str(&line);
                    if *shown == FilePreview::Whole && !(is_there && *existing == Existing::Keep) {
                        let lines = content.lines().map(|line| format!("    {line}\n"));
                        text.extend(lines);
                    }
                }
                InitStep::Stays(path) => text.push_str(&format!("would keep   {path}\n")),
                InitStep::Ignored(line) => {
                    let file = project.directory.join(".gitignore");
                    if !scaffold::has_line(&file, line) {
                        text.push_str(&format!("would add    {line} to .gitignore\n"));
                    }
                }
            }
        }
        text
    }
}

impl StepResults {
    fn record_file(&mut self, project: &Project, path: &str, written: &ScaffoldResult) {
        self.lines.push(match written {
            ScaffoldResult::New => format!("wrote   {path}"),
            ScaffoldResult::Kept => {
                self.has_kept = true;
                format!("kept    {path}")
            }
            ScaffoldResult::BackedUp(backup) => {
                let backup = backup.strip_prefix(&project.directory).unwrap_or(backup);
                format!("wrote   {path}; the old one is {}", backup.display())
            }
        });
    }
}

/// Returns what to do with a document that may exist already.
pub(super) fn choose_treatment(place: &Path, args: &InitArgs) -> Existing {
    match (args.force, documents::is_fresh(place)) {
        // A fresh document of `ralph archive` gets the name of the next feature.
        (false, true) if args.name.is_some() && documents::is_unnamed(place) => Existing::Replace,
        (false, _) => Existing::Keep,
        (true, true) => Existing::Replace,
        (true, false) => Existing::BackUp,
    }
}
