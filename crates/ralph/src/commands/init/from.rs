//! `ralph init --from`: migrates the project of another loop.
//!
//! Its files are read and copied, never changed; files that are not migrated are reported. Not here:
//! finding them (`sources`), and parsing plans and scripts.

mod sources;

use std::path::Path;

use ralph_agents as agents;
use ralph_core::checklist::Mark;
use ralph_core::foreign::{directs_a_loop, fix_plan};
use ralph_core::recipe::AgentKind;
use ralph_io::formats::TaskFile;
use serde_json::{Value, json};

use super::draft::Draft;
use super::steps::{Shown, Steps, existing};
use super::tasks::ignore_backups;
use super::{Outline, Setup};
use crate::cli::WorkflowChoice;
use crate::complaint::Complaint;
use crate::documents::{self, DIRECTORY, PROGRESS, PROMPT, TASKS};
use crate::scaffold::Existing;
use crate::task_file;
use crate::templates;
use sources::{Document, Script, Sources};

const USAGE: &str = "ralph init --from FILE --name FEATURE";

/// A prompt that contains this can be run by `ralph prompt`.
const SIGNAL: &str = "<promise>COMPLETE</promise>";

/// Plans the migration of a project from another loop.
pub(super) fn outline(setup: &Setup<'_>, from: &Path) -> Result<Outline, Complaint> {
    let sources = Sources::find(setup.project, from)?;
    let mut notes = Told::default();
    match (&sources.stories, &sources.plan) {
        (Some(stories), plan) => {
            if let Some(plan) = plan {
                notes.left(&plan.shown, "the stories are taken instead");
            }
            let text = from_stories(setup, stories, &mut notes)?;
            list(setup, &sources, &text, notes)
        }
        (None, Some(plan)) => {
            let text = from_plan(setup, plan, &mut notes)?;
            list(setup, &sources, &text, notes)
        }
        (None, None) => match &sources.script {
            Some(script) => Ok(prompt(setup, &sources, script, notes)),
            None => Err(sources::nothing(from)),
        },
    }
}

/// Lines of the migration report.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
}

impl Told {
    fn found(&mut self, what: &str, why: &str) {
        self.lines.push(format!("found   {what}: {why}"));
    }

    fn left(&mut self, what: &str, why: &str) {
        self.lines.push(format!("left    {what}: {why}"));
    }
}

/// Returns a task list from a list of stories: the same, with the checks of the project.
fn from_stories(
    setup: &Setup<'_>,
    stories: &Document,
    notes: &mut Told,
) -> Result<String, Complaint> {
    let file = TaskFile::from_text(&stories.path, stories.text.clone())
        .map_err(|problems| task_file::complain(setup.project, &problems))?;
    let tasks = &file.list().tasks;
    let done = tasks.iter().filter(|task| task.status.is_done()).count();
    let branch = file.list().branch.as_ref();
    let branch = branch.map(|it| format!(", for the branch {it}")).unwrap_or_default();
    let count = counted(tasks.len(), "story", "stories");
    notes.found(&stories.shown, &format!("{count}, {done} of them done{branch}"));
    let mut list: Value = serde_json::from_str(&stories.text).unwrap_or_default();
    if file.list().verify_commands.is_empty()
        && let Some(list) = list.as_object_mut()
    {
        list.insert("verifyCommands".to_owned(), json!(commands(setup)));
    }
    Ok(format!("{list:#}\n"))
}

/// Returns a task list from a plan with check boxes.
fn from_plan(setup: &Setup<'_>, plan: &Document, notes: &mut Told) -> Result<String, Complaint> {
    let items = fix_plan::read(&plan.text);
    if items.is_empty() {
        return Err(Complaint::input(format!("there is no list in `{}`", plan.shown))
            .hint("a plan has items such as `- [ ] Read dates`"));
    }
    let done = items.iter().filter(|item| item.mark == Mark::Done).count();
    let count = counted(items.len(), "item", "items");
    notes.found(&plan.shown, &format!("{count}, {done} of them done; each becomes a story"));
    let feature = setup.feature(USAGE)?;
    let stories: Vec<Value> = (1..)
        .zip(&items)
        .map(|(number, item)| {
            json!({
                "id": format!("FIX-{number:03}"),
                "title": item.title,
                "description": item.description,
                "acceptanceCriteria": item.criteria,
                "priority": number,
                "passes": item.mark == Mark::Done,
                "notes": "",
            })
        })
        .collect();
    let list = json!({
        "project": feature.name,
        "branchName": feature.branch(),
        "description": format!("Taken over from {}", plan.shown),
        "verifyCommands": commands(setup),
        "userStories": stories,
    });
    Ok(format!("{list:#}\n"))
}

fn commands<'a>(setup: &'a Setup<'_>) -> Vec<&'a str> {
    setup.found.iter().map(|it| it.command.as_str()).collect()
}

/// Plans a project with a task list.
fn list(
    setup: &Setup<'_>,
    sources: &Sources,
    tasks: &str,
    mut notes: Told,
) -> Result<Outline, Complaint> {
    let path = format!("{DIRECTORY}/{TASKS}");
    let place = setup.project.directory.join(&path);
    let is_there = place.symlink_metadata().is_ok() && !documents::is_fresh(&place);
    if is_there && !setup.args.force {
        return Err(Complaint::input(format!("there is a task list already: {path}"))
            .hint("--force overwrites it and keeps the old one as .bak")
            .hint("`ralph archive` archives it"));
    }
    let mut steps = Steps::default();
    steps.directory(DIRECTORY);
    let treatment = if is_there { Existing::KeepBeside } else { Existing::Replace };
    steps.file(&path, tasks.to_owned(), treatment, Shown::Whole);
    let progress = format!("{DIRECTORY}/{PROGRESS}");
    let text = match &sources.progress {
        Some(theirs) => {
            notes.found(&theirs.shown, &format!("is continued as {progress}"));
            theirs.text.clone()
        }
        None => templates::progress(&setup.feature(USAGE)?.name, &documents::today()),
    };
    let write = |steps: &mut Steps, path: &str, text: String| {
        let place = setup.project.directory.join(path);
        steps.file(path, text, existing(&place, setup.args), Shown::Name);
    };
    write(&mut steps, &progress, text);
    let orders = orders(sources, &mut notes);
    write(&mut steps, &format!("{DIRECTORY}/{PROMPT}"), orders);
    let mut draft = Draft::new(WorkflowChoice::Tasks);
    name_agent(setup, sources.script.as_ref(), &mut draft, &mut notes);
    if let Some(script) = &sources.script {
        for_iterations(script, &mut draft, &mut notes);
    }
    setup.write_settings(&draft, &mut steps);
    ignore_backups(setup, &mut steps)?;
    notes.lines.extend(setup.found_checks());
    let commands = commands(setup);
    let checks = if commands.is_empty() {
        format!(
            "Nothing says how this project is checked: name its commands as\n`verifyCommands` in {path}."
        )
    } else {
        format!("After every story these must succeed: {}", commands.join(", "))
    };
    let mut next = vec![format!("ralph tasks    shows what was taken over into {path}")];
    next.extend(setup.name_the_agent(&draft));
    next.push(format!("git add {DIRECTORY} .ralph && git commit -m \"Let ralph continue\""));
    next.push("ralph build    does the stories, one verified commit at a time".to_owned());
    Ok(Outline { workflow: WorkflowChoice::Tasks, found: notes.lines, steps, checks, next })
}

/// Returns the project instructions, without instructions for looping.
fn orders(sources: &Sources, notes: &mut Told) -> String {
    let mut orders = templates::PROMPT.to_owned();
    if let Some(specs) = &sources.specs {
        notes.found(specs, "every agent is asked to read it");
        orders.push_str(&format!(
            "\nThe specifications are in `{specs}`: read what your task is about.\n"
        ));
    }
    for prompt in &sources.prompts {
        if directs_a_loop(&prompt.text) {
            let why = format!(
                "it tells the agent how to loop, which ralph does; copy what is about the project into {DIRECTORY}/{PROMPT}"
            );
            notes.left(&prompt.shown, &why);
        } else {
            notes.found(
                &prompt.shown,
                &format!("becomes project instructions in {DIRECTORY}/{PROMPT}"),
            );
            orders.push_str(&format!("\n{}\n", prompt.text.trim_end()));
        }
    }
    orders
}

/// Plans a project of the prompt workflow.
fn prompt(setup: &Setup<'_>, sources: &Sources, script: &Script, mut notes: Told) -> Outline {
    let mut draft = Draft::new(WorkflowChoice::Prompt);
    for_iterations(script, &mut draft, &mut notes);
    name_agent(setup, Some(script), &mut draft, &mut notes);
    draft.gates(&setup.found);
    notes.lines.extend(setup.found_checks());
    let mut next: Vec<String> = setup.name_the_agent(&draft).into_iter().collect();
    match (&script.found.prompt, &sources.loop_prompt) {
        (_, Some(prompt)) if prompt.text.contains(SIGNAL) => {
            notes.found(&prompt.shown, &format!("stays, and says {SIGNAL} when all is done"));
            next.push(format!("ralph prompt {}", prompt.shown));
        }
        (_, Some(prompt)) => {
            notes.found(&prompt.shown, "stays, and is read again for each iteration");
            next.push(format!(
                "Add to {}: When all is done, answer <response>DONE</response>.",
                prompt.shown
            ));
            next.push(format!("ralph run -f {}", prompt.shown));
        }
        (Some(name), None) => {
            notes.left(name, "the script reads it, but it is not there");
            next.push("ralph run -f FILE    with the file of your prompt".to_owned());
        }
        (None, None) => {
            notes.left(&script.document.shown, "which prompt it gives its agent is not clear");
            next.push("ralph run -f FILE    with the file of your prompt".to_owned());
        }
    }
    let mut steps = Steps::default();
    setup.write_settings(&draft, &mut steps);
    let checks = setup.gates_in_words(&draft);
    Outline { workflow: WorkflowChoice::Prompt, found: notes.lines, steps, checks, next }
}

/// Adds the agent of a script, or else the first installed one.
fn name_agent(setup: &Setup<'_>, script: Option<&Script>, draft: &mut Draft, notes: &mut Told) {
    let Some((script, words)) = script.and_then(|it| Some((it, it.found.agent.as_ref()?))) else {
        notes.lines.extend(setup.agent().map(|it| format!("found   {} as the agent", it.told())));
        if let Some(agent) = setup.agent() {
            draft.agent(agent.command, &[]);
        }
        return;
    };
    let Some((command, arguments)) = words.split_first() else { return };
    let kind = agents::kind_of(command);
    let (flags, own) = agents::told_apart(kind, arguments);
    let with = if flags.is_empty() { String::new() } else { format!(" with {}", flags.join(" ")) };
    notes.found(&script.document.shown, &format!("the agent is {command}{with}"));
    if !own.is_empty() {
        notes.left(&own.join(" "), "ralph passes it itself");
    }
    draft.agent(command, &flags);
}

/// Migrates the number of iterations and the delay of a script, and reports unknown lines.
fn for_iterations(script: &Script, draft: &mut Draft, notes: &mut Told) {
    let shown = &script.document.shown;
    if let Some(iterations) = script.found.iterations {
        notes.found(
            shown,
            &format!("at most {}", counted(iterations as usize, "iteration", "iterations")),
        );
        draft.set("maximumIterations", &json!(iterations));
    }
    if let Some(delay) = script.found.delay.filter(|it| *it > 0) {
        notes.found(
            shown,
            &format!("{} between iterations", counted(delay as usize, "second", "seconds")),
        );
        draft.set("delaySeconds", &json!(delay));
    }
    for (line, text) in &script.found.unknown {
        notes.left(&format!("{shown}, line {line}"), text);
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns whether a program is that of an agent.
fn is_agent(name: &str) -> bool {
    const OTHERS: [&str; 5] = ["aider", "goose", "cursor-agent", "droid", "crush"];
    agents::kind_of(name) != AgentKind::Text || OTHERS.contains(&name)
}
