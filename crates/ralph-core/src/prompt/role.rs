//! The templates of the roles: the ones that ship with ralph, the variables they may use, and
//! filling them in.
//!
//! A project may replace a template. Not here: where its own lies, and what the sections say.

use std::collections::BTreeMap;
use std::path::Path;

use crate::context::SectionCost;
use crate::ids::{IterationNumber, Role};
use crate::nearest::nearest;
use crate::ports::PromptError;
use crate::progress;
use crate::recipe::PROGRESS;
use crate::template;
use crate::text;

/// A prompt that is made from a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolePrompt {
    /// For a first attempt at a task.
    Implement,
    /// For mending what a review found.
    Fix,
    /// For judging whether work does what was asked.
    Review,
    /// For judging whether work is good.
    Quality,
    /// For making a memory of handoffs.
    Compact,
}

impl RolePrompt {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Implement, Self::Fix, Self::Review, Self::Quality, Self::Compact];

    /// Returns its name; a project's own template is in a file of this name with `.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Implement => "implement",
            Self::Fix => "fix",
            Self::Review => "review",
            Self::Quality => "quality",
            Self::Compact => "compact",
        }
    }

    /// Returns the template that ships with ralph.
    pub fn template(self) -> &'static str {
        match self {
            Self::Implement => include_str!("../../prompts/implement.md"),
            Self::Fix => include_str!("../../prompts/fix.md"),
            Self::Review => include_str!("../../prompts/review.md"),
            Self::Quality => include_str!("../../prompts/quality.md"),
            Self::Compact => include_str!("../../prompts/compact.md"),
        }
    }

    /// Returns the role of the agent that gets it.
    pub fn role(self) -> Role {
        match self {
            Self::Implement => Role::Implement,
            Self::Fix => Role::Fix,
            Self::Review | Self::Quality => Role::Review,
            Self::Compact => Role::Compact,
        }
    }

    /// Returns what a template of the project's own cannot leave out: it is added at the end.
    fn never_lost(self) -> [&'static str; 4] {
        match self {
            Self::Implement | Self::Fix | Self::Review | Self::Quality => {
                ["TASK", "FEEDBACK", "KEEPING", "ANSWER"]
            }
            Self::Compact => ["MEMORY", "HANDOFFS", "LIBRARIES", "ANSWER"],
        }
    }
}

/// Every variable of ralph's own, with its meaning. Those from `TASK` on are sections: they
/// bring their heading, and are nothing at all where there is nothing to say.
pub(crate) const VARIABLES: [(&str, &str); 25] = [
    ("ROLE", "`implement`, `fix`, `review` or `compact`"),
    ("MODE", "the same as `ROLE`"),
    ("ITERATION", "the number of the iteration"),
    ("MAX_ITERATIONS", "how many iterations the run may take"),
    ("RALPH_ITERATION", "the same as `ITERATION`"),
    ("RALPH_MAX_ITERATIONS", "the same as `MAX_ITERATIONS`"),
    ("TASK_ID", "the id of the task"),
    ("TASK_TITLE", "its title"),
    ("TASK_FILE", "the task file, as seen from the project directory"),
    ("TASK", "the task with its criteria; in `ralph run`, the prompt"),
    ("FEEDBACK", "what the last review wants to be mended"),
    (
        "FAILURE",
        "earlier attempts and what they failed at; when stuck, the call for another approach",
    ),
    ("BROKEN", "the gates that failed before any work began"),
    ("HINT", "the `hint` of a gate that asks an agent"),
    ("MEMORY", "what compaction has made of older handoffs"),
    (
        "HANDOFFS",
        "what the iterations before handed over; in a review, what the author says; in a compaction, all that no memory holds yet",
    ),
    ("LIBRARIES", "what a compaction is to look up for the next task"),
    ("SKILLS", "the skills that the task names"),
    ("PRD", "where `prd.md` is, and that it is only to be read"),
    ("PROJECT_PROMPT", "the text of `prompt.md`"),
    ("PATTERNS", "the `## Codebase Patterns` of `progress.txt`"),
    ("DIFF", "the change that is reviewed, and how to see it in git"),
    ("GATES", "the commands that are run after the agent"),
    ("KEEPING", "who writes the task file and `progress.txt`, and who commits"),
    ("ANSWER", "how to answer"),
];

/// The project's standing orders, beside the task file.
pub const PROJECT_PROMPT: &str = "prompt.md";

/// The requirements, beside the task file.
pub const PRD: &str = "prd.md";

/// How much of the patterns joins a prompt.
const PATTERNS_CHARS: usize = 4_000;

/// What every prompt of a role is set in.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The project's own template, where it has one.
    pub template: Option<&'a str>,
    /// The iteration.
    pub iteration: IterationNumber,
    /// The limit of iterations.
    pub limit: u32,
    /// Variables of the user's.
    pub vars: &'a BTreeMap<String, String>,
    /// What lies beside the task file.
    pub beside: &'a Beside,
    /// The commands that are run after the agent, or were run before a review.
    pub gates: &'a [String],
}

/// What lies beside a task file and joins the prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beside {
    /// The task file, as agents find it; empty where the work is no list.
    pub tasks: String,
    /// The text of `prompt.md`.
    pub prompt: String,
    /// Where `prd.md` is, if it is there.
    pub prd: Option<String>,
    /// Where `progress.txt` is, if it is there.
    pub progress: Option<String>,
    /// Its text.
    pub log: String,
}

impl Beside {
    /// Gathers what lies beside a task file, and what is wrong with it.
    pub fn gather(
        tasks: &Path,
        project: &Path,
        mut read: impl FnMut(&str) -> Result<Option<String>, PromptError>,
    ) -> (Self, Vec<PromptError>) {
        let shown =
            |path: &Path| path.strip_prefix(project).unwrap_or(path).to_string_lossy().into_owned();
        let place = |name: &str| shown(&tasks.with_file_name(name));
        let mut unusable = Vec::new();
        let mut text = |name: &str| {
            read(name).unwrap_or_else(|error| {
                unusable.push(error);
                None
            })
        };
        let (prompt, log) = (text(PROJECT_PROMPT), text(PROGRESS));
        // Agents read the requirements themselves, whatever form they are in.
        let has_prd = !matches!(read(PRD), Ok(None));
        let beside = Self {
            tasks: shown(tasks),
            prompt: prompt.unwrap_or_default(),
            prd: has_prd.then(|| place(PRD)),
            progress: log.is_some().then(|| place(PROGRESS)),
            log: log.unwrap_or_default(),
        };
        (beside, unusable)
    }
}

/// A prompt, and what a person should know about its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The prompt.
    pub text: String,
    /// The warnings.
    pub warnings: Vec<String>,
    /// What its sections cost, where they are counted.
    pub budget: Vec<SectionCost>,
}

impl Rendered {
    /// Returns a text that was made from no template.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), warnings: Vec::new(), budget: Vec::new() }
    }
}

/// The values of the variables that depend on the role.
pub(super) type Values = BTreeMap<&'static str, String>;

/// Fills in the template of a role.
pub(super) fn render(prompt: RolePrompt, frame: &Frame<'_>, mut values: Values) -> Rendered {
    let mut warnings = Vec::new();
    complete(prompt, frame, &mut values, &mut warnings);
    let name = format!("{}.md", prompt.name());
    let template = frame.template.unwrap_or(prompt.template());
    let mut text = fill(template, &name, frame, &values, &mut warnings);
    for lost in prompt.never_lost() {
        let value = values.get(lost).map(String::as_str).unwrap_or_default();
        if !value.is_empty() && !template::names(template).any(|name| name == lost) {
            text = format!("{}\n\n{value}", text.trim_end());
        }
    }
    let text = format!("{}\n", text.trim());
    Rendered { text, warnings, budget: Vec::new() }
}

/// Returns how often the prompt of a role says what a variable holds.
pub(super) fn uses(prompt: RolePrompt, frame: &Frame<'_>, variable: &str) -> usize {
    let count = |template: &str, sought: &str| {
        template::names(template).filter(|name| *name == sought).count()
    };
    let template = frame.template.unwrap_or(prompt.template());
    let own = text::without_comments(&frame.beside.prompt);
    let named =
        count(template, variable) + count(template, "PROJECT_PROMPT") * count(&own, variable);
    if prompt.never_lost().contains(&variable) { named.max(1) } else { named }
}

/// Adds the variables that every role has.
pub(super) fn complete(
    prompt: RolePrompt,
    frame: &Frame<'_>,
    values: &mut Values,
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
    values.insert("TASK_FILE", frame.beside.tasks.clone());
    values.insert("PRD", prd(frame.beside));
    values.insert("PATTERNS", patterns(frame.beside));
    let own = text::without_comments(&frame.beside.prompt);
    let instructions = fill(&own, PROJECT_PROMPT, frame, values, warnings);
    values.insert("PROJECT_PROMPT", section("Project instructions", &instructions));
}

/// Returns a section, or nothing where there is nothing to say.
pub(super) fn section(title: &str, text: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        text => format!("## {title}\n{text}"),
    }
}

fn prd(beside: &Beside) -> String {
    let path = beside.prd.as_ref();
    path.map(|path| {
        let what = "It says what the whole is for, what it is not, and what always holds. It is only to be read: never change it.";
        section("Requirements", &format!("Read `{path}` before you begin. {what}"))
    })
    .unwrap_or_default()
}

fn patterns(beside: &Beside) -> String {
    let found = progress::patterns(&beside.log);
    let mut text: String = found.chars().take(PATTERNS_CHARS).collect();
    if text.len() < found.len() {
        let place = beside.progress.as_deref().unwrap_or(PROGRESS);
        text.push_str(&format!("…\n(This was cut; `{place}` has all of it.)"));
    }
    section("Codebase patterns", &text)
}

/// Fills in a template, and warns of variables that nobody knows.
fn fill(
    template: &str,
    file: &str,
    frame: &Frame<'_>,
    values: &Values,
    warnings: &mut Vec<String>,
) -> String {
    let known = |name: &str| VARIABLES.iter().any(|(known, _)| *known == name);
    let expanded = template::expand(template, |name| match values.get(name) {
        Some(value) => Some(value.as_str()),
        None if known(name) => Some(""),
        None => frame.vars.get(name).map(String::as_str),
    });
    for name in &expanded.unknown {
        let own = frame.vars.keys().map(String::as_str);
        let names = VARIABLES.iter().map(|(name, _)| *name).chain(own);
        let meant = nearest(name, names)
            .map(|meant| format!("; did you mean `${{{meant}}}`?"))
            .unwrap_or_default();
        warnings.push(format!("nobody knows the variable `${{{name}}}` in {file}{meant}"));
    }
    if expanded.is_cut {
        warnings.push(format!("{file} is too long with its variables filled in; some are not"));
    }
    expanded.text
}

#[cfg(test)]
mod tests;
