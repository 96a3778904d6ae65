//! The templates of the roles: the built-in ones, the variables they may use, and filling them
//! in.
//!
//! A project may replace a template. Not here: where the project's template is, and the text of
//! the sections.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_model::context::SectionCost;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::recipe::PROGRESS;
use ralph_model::task::REQUIREMENTS_FILE;
use ralph_model::text;

use crate::nearest::find_nearest;
use crate::ports::PromptError;
use crate::tasks::progress;
use crate::template;

/// A prompt that is made from a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolePrompt {
    /// For a first attempt at a task.
    Implement,
    /// For fixing what a review found.
    Fix,
    /// For judging whether the work meets the task.
    Review,
    /// For judging the quality of the work.
    Quality,
    /// For compacting handoffs into the memory.
    Compact,
}

impl RolePrompt {
    pub const ALL: [Self; 5] =
        [Self::Implement, Self::Fix, Self::Review, Self::Quality, Self::Compact];

    /// Returns the name; a project's own template is the file of this name with `.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Implement => "implement",
            Self::Fix => "fix",
            Self::Review => "review",
            Self::Quality => "quality",
            Self::Compact => "compact",
        }
    }

    /// Returns the built-in template.
    pub fn template(self) -> &'static str {
        match self {
            Self::Implement => include_str!("../../../prompts/implement.md"),
            Self::Fix => include_str!("../../../prompts/fix.md"),
            Self::Review => include_str!("../../../prompts/review.md"),
            Self::Quality => include_str!("../../../prompts/quality.md"),
            Self::Compact => include_str!("../../../prompts/compact.md"),
        }
    }

    /// Returns the role of the agent that gets this prompt.
    pub fn role(self) -> Role {
        match self {
            Self::Implement => Role::Implement,
            Self::Fix => Role::Fix,
            Self::Review | Self::Quality => Role::Review,
            Self::Compact => Role::Compact,
        }
    }

    /// Returns the variables that are appended if a project's own template does not use them.
    fn required_variables(self) -> &'static [&'static str] {
        match self {
            Self::Implement | Self::Fix => &["TASK", "FAILURE", "FEEDBACK", "KEEPING", "ANSWER"],
            Self::Review | Self::Quality => &["TASK", "HINT", "FEEDBACK", "KEEPING", "ANSWER"],
            Self::Compact => &["MEMORY", "HANDOFFS", "LIBRARIES", "ANSWER"],
        }
    }
}

/// Every built-in variable, with its meaning. Those from `TASK` on are sections: they include
/// their heading, and are empty if there is nothing to show.
pub(crate) const VARIABLES: [(&str, &str); 26] = [
    ("ROLE", "`implement`, `fix`, `review` or `compact`"),
    ("MODE", "the same as `ROLE`"),
    ("ITERATION", "the number of the iteration"),
    ("MAX_ITERATIONS", "how many iterations the run may take"),
    ("RALPH_ITERATION", "the same as `ITERATION`"),
    ("RALPH_MAX_ITERATIONS", "the same as `MAX_ITERATIONS`"),
    ("TASK_ID", "the id of the task"),
    ("TASK_TITLE", "its title"),
    ("TASK_FILE", "the task file, as seen from the project directory"),
    ("TASK", "the task with its criteria and notes; in `ralph run`, the prompt"),
    ("FEEDBACK", "what the last review wants fixed"),
    (
        "FAILURE",
        "what failed last, and how earlier attempts ended; when stuck, the request to find the cause",
    ),
    ("BROKEN", "the gates that failed before any work began"),
    (
        "HINT",
        "what a review looks at first: changed files that define checks, and the `hint` of a gate",
    ),
    ("MEMORY", "the memory compacted from older handoffs"),
    (
        "HANDOFFS",
        "handoffs of earlier iterations; in a review, the author's handoff; in a compaction, all that are not in the memory yet",
    ),
    ("LIBRARIES", "the documentation that a compaction looks up for the next task"),
    ("SKILLS", "the skills that the task names"),
    ("SURROUNDINGS", "the other tasks with their state, and the last five commits"),
    ("PRD", "the path of `prd.md`, which is read-only"),
    ("PROJECT_PROMPT", "the text of `prompt.md`"),
    ("PATTERNS", "the `## Codebase Patterns` of `progress.txt`"),
    ("DIFF", "the change that is reviewed, and how to see it in git"),
    ("GATES", "the commands that are run after the agent, and the protected paths"),
    ("KEEPING", "who writes the task file and `progress.txt`, and who commits"),
    ("ANSWER", "how to answer"),
];

/// The project's standing instructions, a file next to the task file.
pub const PROJECT_PROMPT: &str = "prompt.md";

/// How many characters of the patterns are added to a prompt.
const PATTERNS_CHARS: usize = 4_000;

/// The inputs that the prompts of all roles share.
#[derive(Debug, Clone, Copy)]
pub struct RoleFrame<'a> {
    /// The project's own template, where it has one.
    pub template: Option<&'a str>,
    pub iteration: IterationNumber,
    pub limit: u32,
    pub vars: &'a BTreeMap<String, String>,
    /// Files next to the task file.
    pub companions: &'a CompanionFiles,
    /// The commands that are run after the agent, or were run before a review.
    pub gates: &'a [String],
    /// The section about the other tasks and the last commits.
    pub surroundings: &'a str,
}

/// Files next to the task file that are added to prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompanionFiles {
    /// The task file, as a path that agents can open; empty if the work is not a list.
    pub tasks: String,
    pub prompt: String,
    /// Where `prd.md` is, if it is there.
    pub prd: Option<String>,
    /// Where `progress.txt` is, if it is there.
    pub progress: Option<String>,
    pub log: String,
}

impl CompanionFiles {
    /// Reads the files next to a task file; also returns the errors of the unreadable ones.
    pub fn read_files(
        tasks: &Path,
        project: &Path,
        mut read: impl FnMut(&'static str) -> Result<Option<String>, PromptError>,
    ) -> (Self, Vec<PromptError>) {
        let relative =
            |path: &Path| path.strip_prefix(project).unwrap_or(path).to_string_lossy().into_owned();
        let path_of = |name: &str| relative(&tasks.with_file_name(name));
        let mut unusable = Vec::new();
        let mut text = |name: &'static str| {
            read(name).unwrap_or_else(|error| {
                unusable.push(error);
                None
            })
        };
        let (prompt, log) = (text(PROJECT_PROMPT), text(PROGRESS));
        // Agents read the requirements themselves, so an unreadable `prd.md` counts as present.
        let has_prd = !matches!(read(REQUIREMENTS_FILE), Ok(None));
        let beside = Self {
            tasks: relative(tasks),
            prompt: prompt.unwrap_or_default(),
            prd: has_prd.then(|| path_of(REQUIREMENTS_FILE)),
            progress: log.is_some().then(|| path_of(PROGRESS)),
            log: log.unwrap_or_default(),
        };
        (beside, unusable)
    }
}

/// A prompt, and warnings about its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub text: String,
    pub warnings: Vec<String>,
    /// Cost of each section, if counted.
    pub budget: Vec<SectionCost>,
}

impl RenderedPrompt {
    /// Wraps a text that was not made from a template.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), warnings: Vec::new(), budget: Vec::new() }
    }
}

/// The values of the variables that depend on the role.
pub(super) type TemplateValues = BTreeMap<&'static str, String>;

/// Fills in the template of a role.
pub(super) fn render_role_prompt(
    prompt: RolePrompt,
    frame: &RoleFrame<'_>,
    mut values: TemplateValues,
) -> RenderedPrompt {
    let mut warnings = Vec::new();
    add_common_values(prompt, frame, &mut values, &mut warnings);
    let name = format!("{}.md", prompt.name());
    let template = frame.template.unwrap_or(prompt.template());
    let mut text = fill_role_template(template, &name, frame, &values, &mut warnings);
    for lost in prompt.required_variables() {
        let value = values.get(*lost).map(String::as_str).unwrap_or_default();
        if !value.is_empty() && !template::find_names(template).any(|name| name == *lost) {
            text = format!("{}\n\n{value}", text.trim_end());
        }
    }
    let text = format!("{}\n", text.trim());
    RenderedPrompt { text, warnings, budget: Vec::new() }
}

/// Returns how often the prompt of a role includes a variable.
pub(super) fn count_uses(prompt: RolePrompt, frame: &RoleFrame<'_>, variable: &str) -> usize {
    let count = |template: &str, sought: &str| {
        template::find_names(template).filter(|name| *name == sought).count()
    };
    let template = frame.template.unwrap_or(prompt.template());
    let own = text::strip_comments(&frame.companions.prompt);
    let named =
        count(template, variable) + count(template, "PROJECT_PROMPT") * count(&own, variable);
    if prompt.required_variables().contains(&variable) { named.max(1) } else { named }
}

/// Adds the variables that every role has.
pub(super) fn add_common_values(
    prompt: RolePrompt,
    frame: &RoleFrame<'_>,
    values: &mut TemplateValues,
    warnings: &mut Vec<String>,
) {
    for name in ["ROLE", "MODE"] {
        values.insert(name, prompt.role().name().to_owned());
    }
    for name in ["ITERATION", "RALPH_ITERATION"] {
        values.insert(name, frame.iteration.to_string());
    }
    for name in ["MAX_ITERATIONS", "RALPH_MAX_ITERATIONS"] {
        values.insert(name, frame.limit.to_string());
    }
    values.insert("TASK_FILE", frame.companions.tasks.clone());
    values.insert("SURROUNDINGS", frame.surroundings.to_owned());
    values.insert("PRD", format_prd(frame.companions));
    values.insert("PATTERNS", format_patterns(frame.companions));
    let own = text::strip_comments(&frame.companions.prompt);
    let instructions = fill_role_template(&own, PROJECT_PROMPT, frame, values, warnings);
    values.insert("PROJECT_PROMPT", format_section("Project instructions", &instructions));
}

/// Returns a section with its heading, or an empty string if the text is empty.
pub(super) fn format_section(title: &str, text: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        text => format!("## {title}\n{text}"),
    }
}

fn format_prd(beside: &CompanionFiles) -> String {
    let path = beside.prd.as_ref();
    path.map(|path| {
        let what = "It states the purpose of the project, its non-goals and its invariants. It is read-only: never change it.";
        format_section("Requirements", &format!("Read `{path}` before you begin. {what}"))
    })
    .unwrap_or_default()
}

fn format_patterns(beside: &CompanionFiles) -> String {
    let found = progress::extract_patterns(&beside.log);
    let mut text: String = found.chars().take(PATTERNS_CHARS).collect();
    if text.len() < found.len() {
        let place = beside.progress.as_deref().unwrap_or(PROGRESS);
        text.push_str(&format!("…\n(This was cut; `{place}` has all of it.)"));
    }
    format_section("Codebase patterns", &text)
}

/// Fills in a template and warns about unknown variables.
fn fill_role_template(
    template: &str,
    file: &str,
    frame: &RoleFrame<'_>,
    values: &TemplateValues,
    warnings: &mut Vec<String>,
) -> String {
    let known = |name: &str| VARIABLES.iter().any(|(known, _)| *known == name);
    let expanded = template::expand_template(template, |name| match values.get(name) {
        Some(value) => Some(value.as_str()),
        None if known(name) => Some(""),
        None => frame.vars.get(name).map(String::as_str),
    });
    for name in &expanded.unknown {
        let own = frame.vars.keys().map(String::as_str);
        let names = VARIABLES.iter().map(|(name, _)| *name).chain(own);
        let meant = find_nearest(name, names)
            .map(|meant| format!("; did you mean `${{{meant}}}`?"))
            .unwrap_or_default();
        warnings.push(format!("unknown variable `${{{name}}}` in {file}{meant}"));
    }
    if expanded.is_cut {
        warnings.push(format!("{file} is too long with its variables filled in; some are not"));
    }
    expanded.text
}

#[cfg(test)]
mod tests;
