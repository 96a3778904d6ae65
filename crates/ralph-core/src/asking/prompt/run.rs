//! The templates of whole runs: the prompt is the same for every iteration, except for its
//! variables.
//!
//! A project may replace a built-in template or use its own file. Not here: reading files, and
//! the templates for work on tasks.

use std::collections::BTreeMap;

use ralph_model::ids::{IterationNumber, Role};
use ralph_model::recipe::{
    CommitOwner, CommitPolicy, Completion, PromptSource, Recipe, RunPrompt, Template,
    TemplatePlace, Work,
};

use super::orientation::describe_surroundings;
use super::role::{RenderedPrompt, format_section};
use super::task;
use crate::answers::completion;
use crate::nearest::find_nearest;
use crate::template;

/// Every built-in variable in the templates of whole runs, with its meaning.
pub const RUN_VARIABLES: [(&str, &str); 14] = [
    ("MODE", "`plan`, `build` or `prompt`"),
    ("ITERATION", "the number of the iteration"),
    ("MAX_ITERATIONS", "how many iterations the run may take"),
    ("RALPH_ITERATION", "the same as `ITERATION`"),
    ("RALPH_MAX_ITERATIONS", "the same as `MAX_ITERATIONS`"),
    ("SPECS_DIR", "`specsDir` of the settings"),
    ("PLAN_FILE", "the plan, as seen from the project directory"),
    ("SIGNAL", "the tag that says the work is complete"),
    ("COMMITTING", "who commits, and what"),
    ("GATES", "the commands that are run after the agent and the protected paths, with a heading"),
    ("SURROUNDINGS", "the last five commits, with a heading; empty in `plan` and `prompt`"),
    ("PRD_FILE", "the requirements document; only where a task list is planned"),
    ("TASKS_FILE", "the task file; only where a task list is planned"),
    ("FOUND", "the check commands found in the project; only where a task list is planned"),
];

/// The inputs that fill in a template of a whole run.
#[derive(Debug, Clone)]
pub struct RunFrame<'a> {
    pub template: &'a str,
    /// The template's name, for warnings.
    pub name: &'a str,
    pub role: Role,
    pub iteration: IterationNumber,
    pub limit: u32,
    pub vars: &'a BTreeMap<String, String>,
    /// Built-in variables with a fixed value for the whole run.
    pub values: &'a BTreeMap<String, String>,
    /// The commands that are run after the agent.
    pub gates: &'a [String],
    /// Protected paths.
    pub protected: Vec<String>,
    /// Paths that were uncommitted before the run began.
    pub uncommitted: &'a [String],
    /// Subjects of the last commits.
    pub commits: &'a [String],
    pub signal: CompletionSignal<'a>,
}

impl<'a> RunFrame<'a> {
    /// Returns the frame of the first iteration of a recipe.
    pub fn new(
        recipe: &'a Recipe,
        source: &'a Template,
        text: &'a str,
        signal: &'a str,
        gates: &'a [String],
    ) -> Self {
        let (name, signal) = match (&source.place, recipe.completion) {
            (TemplatePlace::Named(prompt), Completion::Signal) => {
                (prompt.file_name(), CompletionSignal::Append(signal))
            }
            (TemplatePlace::Named(prompt), Completion::Gates) => {
                (prompt.file_name(), CompletionSignal::NotNeeded)
            }
            (TemplatePlace::File(_), _) => ("the prompt file", CompletionSignal::Warn(signal)),
        };
        Self {
            template: text,
            name,
            role: recipe.role,
            iteration: IterationNumber(1),
            limit: recipe.limits.iterations,
            vars: &recipe.prompt.vars,
            values: &source.values,
            gates,
            protected: recipe.protected_names(),
            uncommitted: match recipe.ownership().commits {
                CommitOwner::Agent => &recipe.uncommitted_before,
                CommitOwner::Ralph | CommitOwner::AgentAtWill | CommitOwner::NoOne => &[],
            },
            commits: &[],
            signal,
        }
    }
}

/// What to do if a prompt does not name the completion signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionSignal<'a> {
    NotNeeded,
    /// Append it: without it the agent cannot end the run.
    Append(&'a str),
    /// Warn: the text is the user's own.
    Warn(&'a str),
}

/// Fills in a template of a whole run.
pub fn fill_run_template(frame: &RunFrame<'_>) -> RenderedPrompt {
    let values = collect_values(frame);
    let value = |name: &str| values.get(name).or(frame.vars.get(name)).map(String::as_str);
    let expanded = template::expand_template(frame.template, value);
    let mut warnings = Vec::new();
    for name in &expanded.unknown {
        let names = values.keys().chain(frame.vars.keys()).map(String::as_str);
        let meant = find_nearest(name, names)
            .map(|meant| format!("; did you mean `${{{meant}}}`?"))
            .unwrap_or_default();
        warnings.push(format!("unknown variable `${{{name}}}` in {}{meant}", frame.name));
    }
    if expanded.is_cut {
        let name = frame.name;
        warnings.push(format!("{name} is too long with its variables filled in; some are not"));
    }
    let mut text = expanded.text;
    match frame.signal {
        CompletionSignal::Append(signal) if !has_signal(&text, signal) => {
            text = format!("{}\n\n{}", text.trim_end(), describe_signal(signal));
        }
        CompletionSignal::Warn(signal) if !has_signal(&text, signal) => warnings.push(format!(
            "{} does not name the completion signal `{signal}`: the agent cannot know how to end the run",
            frame.name
        )),
        CompletionSignal::NotNeeded | CompletionSignal::Append(_) | CompletionSignal::Warn(_) => {}
    }
    RenderedPrompt { text, warnings, budget: Vec::new() }
}

fn collect_values(frame: &RunFrame<'_>) -> BTreeMap<String, String> {
    let mut values = frame.values.clone();
    // A plan run without gates gets no section about checks.
    let gates = match (frame.role, frame.gates) {
        (Role::Plan, []) => String::new(),
        (Role::Plan, gates) => task::describe_gates(gates, &[]),
        (_, gates) => task::describe_gates(gates, &frame.protected),
    };
    let surroundings = describe_surroundings(None, None, frame.commits);
    let (iteration, limit) = (frame.iteration.to_string(), frame.limit.to_string());
    for (name, value) in [
        ("MODE", frame.role.name()),
        ("ITERATION", &iteration),
        ("RALPH_ITERATION", &iteration),
        ("MAX_ITERATIONS", &limit),
        ("RALPH_MAX_ITERATIONS", &limit),
        ("GATES", &gates),
        ("SURROUNDINGS", &surroundings),
    ] {
        values.insert(name.to_owned(), value.to_owned());
    }
    if let (Role::Build, IterationNumber(1), Some(committing)) =
        (frame.role, frame.iteration, values.get_mut("COMMITTING"))
    {
        committing.push_str(&describe_uncommitted(frame.uncommitted));
    }
    match frame.signal {
        CompletionSignal::Append(signal) | CompletionSignal::Warn(signal) => {
            values.insert("SIGNAL".to_owned(), signal.to_owned());
        }
        CompletionSignal::NotNeeded => {}
    }
    values
}

/// Names the files that were uncommitted before the run; empty if there are none.
fn describe_uncommitted(paths: &[String]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let named: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    format!(
        " Uncommitted before you began; take them into your first commit: {}.",
        named.join(", ")
    )
}

/// Returns whether a template names the completion signal of a recipe, once it is filled in.
pub fn names_signal(recipe: &Recipe, text: &str) -> bool {
    let Work::Prompt(PromptSource::Template(template)) = &recipe.work else { return false };
    let (gates, signal) = (recipe.gate_commands(), recipe.completion_signal());
    let frame = RunFrame::new(recipe, template, text, &signal, &gates);
    has_signal(&fill_run_template(&frame).text, &signal)
}

/// Returns whether a prompt names a completion signal, in either of its tags.
fn has_signal(text: &str, signal: &str) -> bool {
    let wanted = completion::find_signal(signal).unwrap_or_default();
    completion::find_signals(text).any(|found| completion::is_match(found, &wanted))
}

fn describe_signal(signal: &str) -> String {
    let text = format!(
        "When all of the work is complete, and only then, end your answer with `{signal}` on a line of its own."
    );
    format_section("Completion", &text)
}

/// Returns the built-in template.
pub fn find_run_template(prompt: RunPrompt) -> &'static str {
    match prompt {
        RunPrompt::PlanTasks => include_str!("../../../prompts/plan-tasks.md"),
        RunPrompt::PlanSpecs => include_str!("../../../prompts/plan-specs.md"),
        RunPrompt::Build => include_str!("../../../prompts/build.md"),
    }
}

/// Returns the instruction about commits; `file` is the file that the run maintains.
pub fn describe_commits(prompt: RunPrompt, commit: &CommitPolicy, file: &str) -> String {
    match (commit, prompt) {
        (CommitPolicy::Agent, RunPrompt::PlanTasks | RunPrompt::PlanSpecs) => {
            format!("When you are done, commit `{file}` alone.")
        }
        (CommitPolicy::Agent, RunPrompt::Build) => format!(
            "Commit everything that belongs to the item, `{file}` included, with a message that says what was done. Leave nothing uncommitted."
        ),
        (CommitPolicy::Ralph | CommitPolicy::Scm(_), RunPrompt::Build) => {
            "Do not commit: that is done for you once the checks have passed.".to_owned()
        }
        (
            CommitPolicy::Ralph | CommitPolicy::Scm(_),
            RunPrompt::PlanTasks | RunPrompt::PlanSpecs,
        )
        | (CommitPolicy::NoCommit, _) => "Do not commit.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn frame<'a>(template: &'a str, vars: &'a BTreeMap<String, String>) -> RunFrame<'a> {
        RunFrame {
            template,
            name: "x.md",
            role: Role::Build,
            iteration: IterationNumber(3),
            limit: 50,
            vars,
            values: vars,
            gates: &[],
            protected: Vec::new(),
            uncommitted: &[],
            commits: &[],
            signal: CompletionSignal::NotNeeded,
        }
    }

    #[test]
    fn the_templates_use_every_variable_and_nothing_unknown() {
        let known: BTreeSet<&str> = RUN_VARIABLES.iter().map(|(name, _)| *name).collect();
        let used: BTreeSet<&str> = RunPrompt::ALL
            .iter()
            .flat_map(|prompt| template::find_names(find_run_template(*prompt)))
            .collect();
        let for_others =
            ["MODE", "ITERATION", "MAX_ITERATIONS", "RALPH_ITERATION", "RALPH_MAX_ITERATIONS"];
        assert_eq!(known, used.into_iter().chain(for_others).collect());
    }

    #[test]
    fn variables_are_filled_in_once() {
        let vars = BTreeMap::from([
            ("TOPIC".to_owned(), "${MODE} and $$".to_owned()),
            ("MODE".to_owned(), "not this".to_owned()),
        ]);
        let values = BTreeMap::new();
        let text = "${MODE} ${TOPIC} $$${ITERATION}/${MAX_ITERATIONS} ${TOPICS} ${TOPICS} $X $(x)";
        let rendered = fill_run_template(&RunFrame { values: &values, ..frame(text, &vars) });
        assert_eq!(rendered.text, "build ${MODE} and $$ $3/50 ${TOPICS} ${TOPICS} $X $(x)");
        assert_eq!(
            rendered.warnings,
            ["unknown variable `${TOPICS}` in x.md; did you mean `${TOPIC}`?"]
        );
    }

    #[test]
    fn the_signal_is_added_or_missed() {
        let none = BTreeMap::new();
        let signal = "<promise>COMPLETE</promise>";
        for (text, is_there) in [
            ("Say ${SIGNAL}.", true),
            ("Say <Response> complete </response>.", true),
            ("Not <promise>NO</promise>, but <promise>complete</promise>", true),
            ("Say COMPLETE.", false),
            ("Say <promise>DONE</promise>.", false),
        ] {
            let added = fill_run_template(&RunFrame {
                signal: CompletionSignal::Append(signal),
                ..frame(text, &none)
            });
            assert_eq!(added.text.contains("## Completion"), !is_there, "{text}");
            assert!(has_signal(&added.text, signal), "{text}");
            let missed = fill_run_template(&RunFrame {
                signal: CompletionSignal::Warn(signal),
                ..frame(text, &none)
            });
            assert_eq!(missed.warnings.is_empty(), is_there, "{text}");
        }
    }

    #[test]
    fn nothing_is_left_open() {
        for prompt in RunPrompt::ALL {
            for commit in [CommitPolicy::Agent, CommitPolicy::Ralph, CommitPolicy::NoCommit] {
                let names = ["SPECS_DIR", "PLAN_FILE", "PRD_FILE", "TASKS_FILE", "FOUND"];
                let mut values: BTreeMap<String, String> =
                    names.map(|name| (name.to_owned(), name.to_lowercase())).into();
                values.insert("COMMITTING".to_owned(), describe_commits(prompt, &commit, "x"));
                let vars = BTreeMap::new();
                let rendered = fill_run_template(&RunFrame {
                    values: &values,
                    signal: CompletionSignal::Append("<promise>COMPLETE</promise>"),
                    ..frame(find_run_template(prompt), &vars)
                });
                assert!(!rendered.text.contains("${"), "{}", rendered.text);
                assert_eq!(rendered.warnings, [""; 0]);
            }
        }
    }
}
