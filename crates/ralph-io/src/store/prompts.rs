//! The project files that prompts are made of: templates, skills, and files next to the task file.
//! One of these is written too: the progress log.
//!
//! Agents can write them, so only regular files of limited size count, and links must not lead out
//! of the project. Not here: what they say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::asking::prompt::role::RolePrompt;
use ralph_core::ports::{ProjectText, PromptError, StoreError};

use super::files::read_prompt;
use super::tasks::read_project_excerpt;
use crate::{atomic_file, bounded_read};

/// A template is a page or two.
const LARGEST_TEMPLATE: u64 = 256 * 1024;

/// A log of years; people do not read a longer one.
const LARGEST_COMPANION: u64 = 4 * 1024 * 1024;

/// Where the texts of a project are.
#[derive(Debug, Clone)]
pub struct TextPlaces {
    pub project: PathBuf,
    /// The project's skills.
    pub skills: PathBuf,
    /// The project's own prompt templates.
    pub prompts: PathBuf,
}

impl TextPlaces {
    /// Reads a text that a request needs.
    pub fn read_text(&self, text: &ProjectText) -> Result<Option<String>, PromptError> {
        let project = &self.project;
        match text {
            ProjectText::PromptFile(path) => read_prompt(project, path).map(Some),
            ProjectText::Template(name) => read_template(project, &self.prompts, name),
            ProjectText::Companion { tasks, name } => read_companion(project, tasks, name),
            ProjectText::Skill(name) => read_skill(project, &self.skills, name),
            ProjectText::Excerpt { path, chars } => Ok(read_project_excerpt(project, path, *chars)),
        }
    }
}

/// The prompt templates as they were last read.
#[derive(Debug, Default)]
pub(super) struct TemplateCache {
    known: BTreeMap<&'static str, Option<String>>,
    /// Templates that were read with another text than before.
    pub(super) changed: Vec<&'static str>,
}

impl TemplateCache {
    /// Notes the text of a template. With the first one all others are read too, before an agent
    /// could change one that is needed later.
    pub(super) fn note_read(
        &mut self,
        places: &TextPlaces,
        name: &'static str,
        text: Option<&str>,
    ) {
        if self.known.is_empty() {
            let read = |name| places.read_text(&ProjectText::Template(name)).unwrap_or_default();
            let all = RolePrompt::ALL.map(RolePrompt::name);
            self.known.extend(all.map(|name| (name, read(name))));
        }
        let before = self.known.insert(name, text.map(str::to_owned));
        if before.is_some_and(|before| before.as_deref() != text) {
            self.changed.push(name);
        }
    }
}

/// Reads the project's own template of a prompt from `directory`.
pub fn read_template(
    project: &Path,
    directory: &Path,
    name: &str,
) -> Result<Option<String>, PromptError> {
    let directory = project.join(directory);
    let path = directory.join(format!("{name}.md"));
    let wrong = |what: &str| build_unusable_error(project, &path, what);
    match read_text_within(&path, choose_allowed_root(project, &directory), LARGEST_TEMPLATE)
        .map_err(|what| wrong(&what))?
    {
        Some(text) if text.trim().is_empty() => Err(wrong("it is empty")),
        text => Ok(text),
    }
}

/// Reads a skill of the project by its name from `directory`. A name that could lead elsewhere is
/// not found.
pub fn read_skill(
    project: &Path,
    directory: &Path,
    name: &str,
) -> Result<Option<String>, PromptError> {
    let is_name = !name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.');
    if is_name { read_template(project, directory, name) } else { Ok(None) }
}

/// Reads a text file in the directory of the task file.
pub fn read_companion(
    project: &Path,
    tasks: &Path,
    name: &str,
) -> Result<Option<String>, PromptError> {
    let path = project.join(tasks).with_file_name(name);
    let directory = path.parent().unwrap_or(project);
    read_text_within(&path, choose_allowed_root(project, directory), LARGEST_COMPANION)
        .map_err(|what| build_unusable_error(project, &path, &what))
}

/// Replaces an existing file in the directory of the task file, by way of `scratch`. A link stays a
/// link.
pub(super) fn replace_companion(
    scratch: &Path,
    project: &Path,
    tasks: &Path,
    name: &str,
    text: &str,
) -> Result<(), StoreError> {
    let path = project.join(tasks).with_file_name(name);
    let replace = || -> io::Result<()> {
        bounded_read::check_inside_project(project, &path)?;
        let real = path.canonicalize()?;
        let permissions = fs::metadata(&real)?.permissions();
        atomic_file::replace_via_scratch(scratch, &real, text.as_bytes(), permissions)
    };
    replace().map_err(|error| StoreError {
        message: format!("cannot write `{}`: {error}", path.display()),
    })
}

fn build_unusable_error(project: &Path, path: &Path, what: &str) -> PromptError {
    let shown = path.strip_prefix(project).unwrap_or(path).display();
    PromptError { message: format!("`{shown}` cannot be used: {what}") }
}

/// Returns the directory that files must be in: the project, unless the user chose a directory
/// elsewhere.
fn choose_allowed_root<'a>(project: &'a Path, directory: &'a Path) -> &'a Path {
    if bounded_read::is_below(directory, project) { project } else { directory }
}

/// Reads a regular text file within a directory. Does not wait for a pipe.
pub(super) fn read_text_within(
    path: &Path,
    within: &Path,
    largest: u64,
) -> Result<Option<String>, String> {
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let bytes = match bounded_read::read_within(within, path, largest + 1) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) && fs::symlink_metadata(path).is_err() => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err("it is not a regular file".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    if bytes.len() as u64 > largest {
        return Err(format!("it is larger than {} KiB", largest / 1024));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        format!("it is not valid UTF-8 (byte {})", error.utf8_error().valid_up_to() + 1)
    })?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[track_caller]
    fn check(read: Result<Option<String>, PromptError>, expect: Result<Option<&str>, &str>) {
        let read = read.map_err(|error| error.message);
        assert_eq!(read.as_ref().map(Option::as_deref).map_err(String::as_str), expect);
    }

    #[test]
    fn only_ordinary_text_is_a_template() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().join("project");
        let prompts = project.join(".ralph/prompts");
        fs::create_dir_all(&prompts).expect("a directory");
        let check = |name: &str, expect: Result<Option<&str>, &str>| {
            check(read_template(&project, Path::new(".ralph/prompts"), name), expect);
        };
        let write = |name: &str, bytes: &[u8]| {
            fs::write(prompts.join(name), bytes).expect("written");
        };
        write("implement.md", b"Do ${TASK}.\n");
        write("empty.md", b" \n");
        write("latin.md", b"ab\xff");
        write("large.md", &vec![b'x'; 256 * 1024 + 1]);
        write("full.md", &vec![b'x'; 256 * 1024]);
        fs::create_dir(prompts.join("folder.md")).expect("a directory");
        fs::write(directory.path().join("secret"), "s").expect("written");
        symlink("../../../secret", prompts.join("out.md")).expect("a link");
        symlink("nowhere", prompts.join("dangling.md")).expect("a link");
        symlink("implement.md", prompts.join("linked.md")).expect("a link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            prompts.join("pipe.md"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        check("implement", Ok(Some("Do ${TASK}.\n")));
        check("linked", Ok(Some("Do ${TASK}.\n")));
        check("missing", Ok(None));
        let bad = |name: &str, what: &str| {
            let expect = format!("`.ralph/prompts/{name}.md` cannot be used: {what}");
            check(name, Err(&expect));
        };
        bad("empty", "it is empty");
        bad("latin", "it is not valid UTF-8 (byte 3)");
        bad("large", "it is larger than 256 KiB");
        bad("folder", "it is not a regular file");
        bad("pipe", "it is not a regular file");
        bad("out", "it leads out of the project");
        bad("dangling", "No such file or directory (os error 2)");
        assert!(read_template(&project, Path::new(".ralph/prompts"), "full").is_ok());
        for name in ["", "../prompts/implement", ".hidden", "a\\b", "a\0b"] {
            super::tests::check(read_skill(&project, Path::new(".ralph/prompts"), name), Ok(None));
        }
        let known = read_skill(&project, Path::new(".ralph/prompts"), "implement");
        super::tests::check(known, Ok(Some("Do ${TASK}.\n")));
        // A directory chosen by the user may be anywhere.
        let elsewhere = read_template(&project, directory.path(), "x");
        super::tests::check(elsewhere, Ok(None));
    }

    #[test]
    fn a_file_next_to_the_list_is_replaced_in_place() {
        let project = tempfile::tempdir().expect("a directory");
        let (project, tasks) = (project.path(), Path::new("ralph/tasks.json"));
        fs::create_dir(project.join("ralph")).expect("a directory");
        check(read_companion(project, tasks, "progress.txt"), Ok(None));
        replace_companion(project, project, tasks, "progress.txt", "x")
            .expect_err("it is not there");
        let log = project.join("ralph/progress.txt");
        fs::write(project.join("real.txt"), "old").expect("written");
        fs::set_permissions(project.join("real.txt"), fs::Permissions::from_mode(0o640))
            .expect("a mode");
        symlink("../real.txt", &log).expect("a link");
        let list = project.join(tasks);
        replace_companion(project, project, &list, "progress.txt", "new").expect("replaced");
        check(read_companion(project, tasks, "progress.txt"), Ok(Some("new")));
        assert!(fs::symlink_metadata(&log).expect("there").is_symlink());
        let mode = fs::metadata(&log).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
