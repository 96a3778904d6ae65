//! Finds the files of another loop in a project.
//!
//! Not here: what is done with them.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::project::import_loops::loop_script::{self, LoopScript};
use serde_json::Value;

use super::is_agent;
use crate::cli_error::CliError;
use crate::project::Project;

/// Plans and prompts are some kilobytes; larger files are skipped.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Where loops keep their files, relative to the named directory.
const PLACES: [&str; 6] = ["", "scripts/ralph", "scripts", "ralph", ".ralph", ".agent"];

const STORIES: [&str; 3] = ["prd.json", "plan.json", "tasks.json"];
const PLANS: [&str; 5] = [
    "fix_plan.md",
    "@fix_plan.md",
    "FIX_PLAN.md",
    "IMPLEMENTATION_PLAN.md",
    "implementation_plan.md",
];
const PROMPTS: [&str; 8] = [
    "PROMPT.md",
    "prompt.md",
    "AGENT.md",
    "@AGENT.md",
    "PROMPT_build.md",
    "prompts/PROMPT.md",
    "prompts/build.md",
    "prompts/prompt.md",
];
/// Files of `KEY=VALUE` lines.
const CONFIGS: [&str; 4] = ["ralph.conf", "config/ralph.conf", "config", "ralph.config"];
const SCRIPTS: [&str; 9] = [
    "ralph.sh",
    "loop.sh",
    "ralph_loop.sh",
    "ralph-loop.sh",
    "afk-ralph.sh",
    "afk.sh",
    "run.sh",
    "ralph",
    "loop",
];

/// A file that was read.
#[derive(Debug, Clone)]
pub(super) struct LoopFile {
    pub(super) path: PathBuf,
    /// Path relative to the project directory.
    pub(super) shown: String,
    pub(super) text: String,
}

/// A loop in a script.
#[derive(Debug, Clone)]
pub(super) struct FoundScript {
    pub(super) document: LoopFile,
    pub(super) found: LoopScript,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub(super) struct LoopFiles {
    /// A list of stories.
    pub(super) stories: Option<LoopFile>,
    /// A plan with check boxes.
    pub(super) plan: Option<LoopFile>,
    /// A loop around an agent.
    pub(super) script: Option<FoundScript>,
    /// The prompt that the loop gives its agent.
    pub(super) loop_prompt: Option<LoopFile>,
    /// Other prompts.
    pub(super) prompts: Vec<LoopFile>,
    /// The notes of former iterations.
    pub(super) progress: Option<LoopFile>,
    pub(super) specs: Option<String>,
    /// The settings of the loop, as `KEY=VALUE` lines.
    pub(super) config: Option<LoopFile>,
}

impl LoopFiles {
    /// Searches next to a file, or in a directory.
    pub(super) fn find(project: &Project, from: &Path) -> Result<Self, CliError> {
        let named = project.directory.join(from);
        let metadata = fs::metadata(&named).map_err(|error| {
            CliError::for_input(format!("cannot read `{}`: {error}", from.display())).with_hint(
                "--from names the directory, prd.json, fix_plan.md or script of another loop",
            )
        })?;
        let look = LoopFinder { project };
        let mut sources = Self::default();
        let places: Vec<PathBuf> = if metadata.is_dir() {
            PLACES.iter().map(|place| named.join(place)).collect()
        } else {
            look.classify_file(&named, &mut sources)?;
            named.parent().map(Path::to_owned).into_iter().collect()
        };
        let first = |names: &[&str]| {
            let mut paths =
                places.iter().flat_map(|it| names.iter().map(move |name| it.join(name)));
            paths.find_map(|path| look.read_file(&path))
        };
        if metadata.is_dir() {
            sources.stories = first(&STORIES).filter(|it| is_stories(&it.text));
            sources.plan = first(&PLANS);
        }
        if sources.script.is_none() {
            let mut paths =
                places.iter().flat_map(|it| SCRIPTS.iter().map(move |name| it.join(name)));
            sources.script = paths.find_map(|path| look.read_file(&path).and_then(parse_script));
        }
        sources.progress = first(&["progress.txt"]);
        sources.config = first(&CONFIGS);
        let all = places.iter().flat_map(|it| PROMPTS.iter().map(move |name| it.join(name)));
        sources.prompts = all.filter_map(|path| look.read_file(&path)).collect();
        // Some file systems have one file for names that differ in case only.
        sources.prompts.dedup_by(|one, other| one.text == other.text);
        sources.loop_prompt = look.find_loop_prompt(sources.script.as_ref());
        let specs = places.iter().map(|it| it.join("specs")).find(|it| it.is_dir());
        sources.specs = specs.map(|it| look.format_path(&it));
        Ok(sources)
    }
}

/// Reads files of a project.
struct LoopFinder<'a> {
    project: &'a Project,
}

impl LoopFinder<'_> {
    /// Classifies a file by its content.
    fn classify_file(&self, path: &Path, sources: &mut LoopFiles) -> Result<(), CliError> {
        let Some(document) = self.read_file(path) else {
            return Err(CliError::for_input(format!(
                "cannot read `{}` as text",
                self.format_path(path)
            )));
        };
        let is_markdown = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("md"));
        if is_stories(&document.text) {
            sources.stories = Some(document);
        } else if is_markdown {
            sources.plan = Some(document);
        } else {
            sources.script = parse_script(document);
        }
        Ok(())
    }

    /// Reads a text file; `None` for a missing file, a pipe or a device.
    fn read_file(&self, path: &Path) -> Option<LoopFile> {
        let metadata = fs::metadata(path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        Some(LoopFile { path: path.to_owned(), shown: self.format_path(path), text })
    }

    fn format_path(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.project.directory).unwrap_or(path);
        path.components().collect::<PathBuf>().display().to_string()
    }

    /// Returns the prompt of a script: in the project, or next to the script.
    fn find_loop_prompt(&self, script: Option<&FoundScript>) -> Option<LoopFile> {
        let script = script?;
        let name = script.found.prompt.as_ref()?;
        let sibling = script.document.path.with_file_name(name);
        self.read_file(&self.project.directory.join(name)).or_else(|| self.read_file(&sibling))
    }
}

fn parse_script(document: LoopFile) -> Option<FoundScript> {
    let is_loop = loop_script::is_loop(&document.text, is_agent);
    is_loop.then(|| FoundScript {
        found: loop_script::parse_loop_script(&document.text, is_agent),
        document,
    })
}

fn is_stories(text: &str) -> bool {
    let list = serde_json::from_str::<Value>(text).unwrap_or_default();
    list["userStories"].is_array() || list["tasks"].is_array()
}

/// Returns the error for a directory without a loop.
pub(super) fn build_no_loop_error(from: &Path) -> CliError {
    CliError::for_input(format!("there is nothing of another loop in `{}`", from.display()))
        .with_hint(
            "ralph knows prd.json, plan.json and tasks.json, fix_plan.md and implementation_plan.md, and a shell loop around an agent",
        )
        .with_hint("`ralph init` starts without it")
}
