//! The files to write, as a list of steps that can be shown first.
//!
//! Not here: the text of the documents.

use std::path::Path;

use crate::cli::InitArgs;
use crate::complaint::Complaint;
use crate::documents;
use crate::project::{Project, complain_of_layout};
use crate::scaffold::{self, Existing, Written};
use crate::settings::Loaded;

/// All steps, in order.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Step>);

#[derive(Debug)]
enum Step {
    /// A directory in the project, with its parents.
    Directory(String),
    File {
        path: String,
        text: String,
        existing: Existing,
        shown: Shown,
    },
    /// A file that is not changed.
    Stays(String),
    /// A line of `.gitignore`.
    Ignored(String),
}

/// How much of a file is shown before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// Its name only, for a template or a copy.
    Name,
}

/// The results.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// One line each.
    pub(super) lines: Vec<String>,
    /// Whether a document was kept that `--force` would overwrite.
    pub(super) has_kept: bool,
}

impl Steps {
    pub(super) fn directory(&mut self, path: impl Into<String>) {
        self.0.push(Step::Directory(path.into()));
    }

    pub(super) fn file(&mut self, path: &str, text: String, existing: Existing, shown: Shown) {
        self.0.push(Step::File { path: path.to_owned(), text, existing, shown });
    }

    pub(super) fn stays(&mut self, path: impl Into<String>) {
        self.0.push(Step::Stays(path.into()));
    }

    pub(super) fn ignored(&mut self, line: impl Into<String>) {
        self.0.push(Step::Ignored(line.into()));
    }

    /// Runs all steps.
    pub(super) fn apply(&self, project: &Project, loaded: &Loaded) -> Result<Done, Complaint> {
        let layout = project.layout(loaded)?;
        layout.prepare_project().map_err(|error| complain_of_layout(&error))?;
        let mut done = Done::default();
        for step in &self.0 {
            match step {
                Step::Directory(path) => {
                    let mut place = project.directory.clone();
                    for part in Path::new(path) {
                        place.push(part);
                        scaffold::directory(&place)?;
                    }
                }
                Step::File { path, text, existing, .. } => {
                    let written = scaffold::write(&project.directory.join(path), text, *existing)?;
                    done.note(project, path, &written);
                }
                Step::Stays(path) => done.lines.push(format!("kept    {path}")),
                Step::Ignored(line) => {
                    let file = project.directory.join(".gitignore");
                    if scaffold::add_line(&file, line)? == Written::New {
                        done.lines.push(format!("added   {line} to .gitignore"));
                    }
                }
            }
        }
        Ok(done)
    }

    /// Describes what would be done.
    pub(super) fn preview(&self, project: &Project) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                Step::Directory(_) => {}
                Step::File { path, existing, text: content, shown } => {
                    let is_there = project.directory.join(path).symlink_metadata().is_ok();
                    let line = match (is_there, existing) {
                        (true, Existing::Keep) => format!("would keep   {path}\n"),
                        (true, Existing::KeepBeside) => {
                            format!("would write  {path}, and keep the old one as a backup\n")
                        }
                        (true, Existing::Replace) | (false, _) => format!("would write  {path}\n"),
                    };
                    text.push_str(&line);
                    if *shown == Shown::Whole && !(is_there && *existing == Existing::Keep) {
                        let lines = content.lines().map(|line| format!("    {line}\n"));
                        text.extend(lines);
                    }
                }
                Step::Stays(path) => text.push_str(&format!("would keep   {path}\n")),
                Step::Ignored(line) => {
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

impl Done {
    fn note(&mut self, project: &Project, path: &str, written: &Written) {
        self.lines.push(match written {
            Written::New => format!("wrote   {path}"),
            Written::Kept => {
                self.has_kept = true;
                format!("kept    {path}")
            }
            Written::Beside(backup) => {
                let backup = backup.strip_prefix(&project.directory).unwrap_or(backup);
                format!("wrote   {path}; the old one is {}", backup.display())
            }
        });
    }
}

/// Returns what to do with a document that may exist already.
pub(super) fn existing(place: &Path, args: &InitArgs) -> Existing {
    match (args.force, documents::is_fresh(place)) {
        // A fresh document of `ralph archive` gets the name of the next feature.
        (false, true) if args.name.is_some() && documents::is_unnamed(place) => Existing::Replace,
        (false, _) => Existing::Keep,
        (true, true) => Existing::Replace,
        (true, false) => Existing::KeepBeside,
    }
}
