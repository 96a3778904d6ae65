//! `ralph init --from`: migrates the project of another loop.
//!
//! Its files are read and copied, never changed; files that are not migrated are reported. Not here:
//! finding them (`sources`), and parsing plans and scripts.

mod sources;

use std::path::Path;

use ralph_agents as agents;
use ralph_core::project::import_loops::{fix_plan, is_loop_prompt};
use ralph_core::tasks::checklist::Mark;
use ralph_io::formats::TaskFile;
use ralph_model::agent::AgentKind;
use ralph_model::recipe::PROGRESS;
use serde_json::{Value, json};
use sources::{FoundScript, LoopFile, LoopFiles};

use super::draft::SettingsDraft;
use super::steps::{FilePreview, InitSteps, choose_treatment};
use super::tasks::ignore_backups;
use super::{InitPlan, InitSetup};
use crate::cli_error::CliError;
use crate::documents::{self, DIRECTORY, PROMPT, TASKS};
use crate::scaffold::Existing;
use crate::settings::types::sections::WorkflowSetting;
use crate::{settings, task_file, templates};

const USAGE: &str = "ralph init --from FILE --name FEATURE";

/// A prompt that contains this can be run by `ralph prompt`.
const SIGNAL: &str = "<promise>COMPLETE</promise>";

/// Plans the migration of a project from another loop.
pub(super) fn plan_migration(setup: &InitSetup<'_>, from: &Path) -> Result<InitPlan, CliError> {
    let sources = LoopFiles::find(setup.project, from)?;
    let mut notes = MigrationNotes::default();
    match (&sources.stories, &sources.plan) {
        (Some(stories), plan) => {
            if let Some(plan) = plan {
                notes.add_skipped(&plan.shown, "the stories are used instead");
            }
            let text = list_from_stories(setup, stories, &mut notes)?;
            let list = if USED_IN_PLACE.contains(&stories.shown.as_str()) {
                MigratedList::InPlace(&stories.shown)
            } else {
                MigratedList::Written(text)
            };
            plan_task_list(setup, &sources, &list, notes)
        }
        (None, Some(plan)) => {
            let text = list_from_plan(setup, plan, &mut notes)?;
            plan_task_list(setup, &sources, &MigratedList::Written(text), notes)
        }
        (None, None) => match &sources.script {
            Some(script) => Ok(plan_prompt(setup, &sources, script, notes)),
            None => Err(sources::build_no_loop_error(from)),
        },
    }
}

/// Task lists that `ralph build` finds by itself.
const USED_IN_PLACE: [&str; 2] = ["ralph/tasks.json", "plan.json"];

/// The list of a migrated project.
enum MigratedList<'a> {
    /// The file stays where it is.
    InPlace(&'a str),
    /// The text of a new file.
    Written(String),
}

/// Lines of the migration report.
#[derive(Default)]
struct MigrationNotes {
    lines: Vec<String>,
}

impl MigrationNotes {
    fn add_found(&mut self, what: &str, why: &str) {
        self.lines.push(format!("found   {what}: {why}"));
    }

    fn add_skipped(&mut self, what: &str, why: &str) {
        self.lines.push(format!("left    {what}: {why}"));
    }
}

/// Returns a task list from a list of stories: the same, with the checks of the project.
fn list_from_stories(
    setup: &InitSetup<'_>,
    stories: &LoopFile,
    notes: &mut MigrationNotes,
) -> Result<String, CliError> {
    let file = TaskFile::from_text(&stories.path, stories.text.clone())
        .map_err(|problems| task_file::to_problems_error(setup.project, &problems))?;
    let tasks = &file.list().tasks;
    let done = tasks.iter().filter(|task| task.status.is_done()).count();
    let branch = file.list().branch.as_ref();
    let branch = branch.map(|it| format!(", for the branch {it}")).unwrap_or_default();
    let count = format_count(tasks.len(), "story", "stories");
    notes.add_found(&stories.shown, &format!("{count}, {done} of them done{branch}"));
    let mut list: Value = serde_json::from_str(&stories.text).unwrap_or_default();
    if file.list().verify_commands.is_empty()
        && let Some(list) = list.as_object_mut()
    {
        list.insert("verifyCommands".to_owned(), json!(check_commands(setup)));
    }
    Ok(format!("{list:#}\n"))
}

/// Returns a task list from a plan with check boxes.
fn list_from_plan(
    setup: &InitSetup<'_>,
    plan: &LoopFile,
    notes: &mut MigrationNotes,
) -> Result<String, CliError> {
    let items = fix_plan::parse_fix_plan(&plan.text);
    if items.is_empty() {
        return Err(CliError::for_input(format!("there is no list in `{}`", plan.shown))
            .with_hint("a plan has items such as `- [ ] Read dates`"));
    }
    let done = items.iter().filter(|item| item.mark == Mark::Done).count();
    let count = format_count(items.len(), "item", "items");
    notes.add_found(&plan.shown, &format!("{count}, {done} of them done; each becomes a story"));
    let feature = setup.choose_feature(USAGE)?;
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
        "verifyCommands": check_commands(setup),
        "userStories": stories,
    });
    Ok(format!("{list:#}\n"))
}

fn check_commands<'a>(setup: &'a InitSetup<'_>) -> Vec<&'a str> {
    setup.found.iter().map(|it| it.command.as_str()).collect()
}

/// Plans a project with a task list.
fn plan_task_list(
    setup: &InitSetup<'_>,
    sources: &LoopFiles,
    list: &MigratedList<'_>,
    mut notes: MigrationNotes,
) -> Result<InitPlan, CliError> {
    let path = match list {
        MigratedList::InPlace(path) => (*path).to_owned(),
        MigratedList::Written(_) => format!("{DIRECTORY}/{TASKS}"),
    };
    let place = setup.project.directory.join(&path);
    let is_there = place.symlink_metadata().is_ok() && !documents::is_fresh(&place);
    let is_written = matches!(list, MigratedList::Written(_));
    if is_written && is_there && !setup.args.force {
        return Err(CliError::for_input(format!("there is a task list already: {path}"))
            .with_hint("--force overwrites it and keeps the old one as .bak")
            .with_hint("`ralph archive` archives it"));
    }
    let mut steps = InitSteps::default();
    steps.add_directory(DIRECTORY);
    let treatment = if is_there { Existing::BackUp } else { Existing::Replace };
    match list {
        MigratedList::InPlace(path) => steps.add_kept(*path),
        MigratedList::Written(text) => {
            steps.add_file(&path, text.clone(), treatment, FilePreview::Whole);
        }
    }
    let progress = format!("{DIRECTORY}/{PROGRESS}");
    let text = match &sources.progress {
        Some(theirs) => {
            notes.add_found(&theirs.shown, &format!("is continued as {progress}"));
            theirs.text.clone()
        }
        None => templates::render_progress(
            &setup.choose_feature(USAGE)?.name,
            &documents::format_today(),
        ),
    };
    let write = |steps: &mut InitSteps, path: &str, text: String| {
        let place = setup.project.directory.join(path);
        steps.add_file(path, text, choose_treatment(&place, setup.args), FilePreview::Name);
    };
    write(&mut steps, &progress, text);
    let orders = build_instructions(sources, &mut notes);
    write(&mut steps, &format!("{DIRECTORY}/{PROMPT}"), orders);
    let mut draft = SettingsDraft::new(WorkflowSetting::Tasks);
    add_config(sources, &mut draft, &mut notes);
    if !draft.has_agent {
        add_agent(setup, sources.script.as_ref(), &mut draft, &mut notes);
    }
    if let Some(script) = &sources.script {
        add_loop_settings(script, &mut draft, &mut notes);
    }
    setup.write_settings(&draft, &mut steps);
    ignore_backups(setup, &mut steps)?;
    notes.lines.extend(setup.describe_found_checks());
    let commands = check_commands(setup);
    let checks = if commands.is_empty() {
        setup.describe_missing_checks(&format!("as\n`verifyCommands` in {path}."))
    } else {
        format!("After every story these must succeed: {}", commands.join(", "))
    };
    let mut next = vec![format!("ralph tasks    shows what was taken over into {path}")];
    next.extend(setup.find_agent_hint(&draft));
    next.push(format!("git add {DIRECTORY} .ralph && git commit -m \"Let ralph continue\""));
    next.push("ralph build    does the stories, one verified commit at a time".to_owned());
    Ok(InitPlan { workflow: WorkflowSetting::Tasks, found: notes.lines, steps, checks, next })
}

/// Returns the project instructions, without instructions for looping.
fn build_instructions(sources: &LoopFiles, notes: &mut MigrationNotes) -> String {
    let mut orders = templates::PROMPT.to_owned();
    if let Some(specs) = &sources.specs {
        notes.add_found(specs, "every agent is asked to read it");
        orders.push_str(&format!(
            "\nThe specifications are in `{specs}`: read what your task is about.\n"
        ));
    }
    for prompt in &sources.prompts {
        if is_loop_prompt(&prompt.text) {
            let own = format!("{DIRECTORY}/{PROMPT}");
            let advice = if prompt.shown == own {
                "keep in it only what is about the project".to_owned()
            } else {
                format!("copy what is about the project into {own}")
            };
            let why = format!("it tells the agent how to loop, which ralph does; {advice}");
            notes.add_skipped(&prompt.shown, &why);
        } else {
            notes.add_found(
                &prompt.shown,
                &format!("becomes project instructions in {DIRECTORY}/{PROMPT}"),
            );
            orders.push_str(&format!("\n{}\n", prompt.text.trim_end()));
        }
    }
    orders
}

/// Plans a project of the prompt workflow.
fn plan_prompt(
    setup: &InitSetup<'_>,
    sources: &LoopFiles,
    script: &FoundScript,
    mut notes: MigrationNotes,
) -> InitPlan {
    let mut draft = SettingsDraft::new(WorkflowSetting::Prompt);
    add_loop_settings(script, &mut draft, &mut notes);
    add_agent(setup, Some(script), &mut draft, &mut notes);
    draft.add_gates(&setup.found, &setup.args.gates);
    notes.lines.extend(setup.describe_found_checks());
    let mut next: Vec<String> = setup.find_agent_hint(&draft).into_iter().collect();
    match (&script.found.prompt, &sources.loop_prompt) {
        (_, Some(prompt)) if prompt.text.contains(SIGNAL) => {
            notes.add_found(&prompt.shown, &format!("stays, and says {SIGNAL} when all is done"));
            next.push(format!("ralph prompt {}", prompt.shown));
        }
        (_, Some(prompt)) => {
            notes.add_found(&prompt.shown, "stays, and is read again for each iteration");
            next.push(format!(
                "Add to {}: When all is done, answer <response>DONE</response>.",
                prompt.shown
            ));
            next.push(format!("ralph run -f {}", prompt.shown));
        }
        (Some(name), None) => {
            notes.add_skipped(name, "the script reads it, but it is not there");
            next.push("ralph run -f FILE    with the file of your prompt".to_owned());
        }
        (None, None) => {
            notes.add_skipped(
                &script.document.shown,
                "which prompt it gives its agent is not clear",
            );
            next.push("ralph run -f FILE    with the file of your prompt".to_owned());
        }
    }
    let mut steps = InitSteps::default();
    setup.write_settings(&draft, &mut steps);
    let checks = setup.describe_gates(&draft);
    InitPlan { workflow: WorkflowSetting::Prompt, found: notes.lines, steps, checks, next }
}

/// Adds the values of a file of `KEY=VALUE` lines.
fn add_config(sources: &LoopFiles, draft: &mut SettingsDraft, notes: &mut MigrationNotes) {
    let Some(config) = &sources.config else { return };
    let document = settings::convert_key_value(&config.path, &config.text).unwrap_or_default();
    let Some(values) = document.as_object().filter(|it| !it.is_empty()) else {
        let why =
            format!("`ralph build --config {}` reports what it does not understand", config.shown);
        return notes.add_skipped(&config.shown, &why);
    };
    notes.add_found(&config.shown, "its values become settings");
    for (key, value) in values {
        draft.has_agent |= key == "agent";
        draft.add_value(key, value);
    }
}

/// Adds the agent of a script, or else the first installed one.
fn add_agent(
    setup: &InitSetup<'_>,
    script: Option<&FoundScript>,
    draft: &mut SettingsDraft,
    notes: &mut MigrationNotes,
) {
    let Some((script, words)) = script.and_then(|it| Some((it, it.found.agent.as_ref()?))) else {
        notes.lines.extend(
            setup
                .find_agent_to_name()
                .map(|it| format!("found   {} as the agent", it.name_and_version())),
        );
        if let Some(agent) = setup.find_agent_to_name() {
            draft.add_agent(agent.command, &[]);
        }
        return;
    };
    let Some((command, arguments)) = words.split_first() else { return };
    let kind = agents::infer_agent_kind(command);
    let (flags, own) = agents::split_adapter_args(kind, arguments);
    let with = if flags.is_empty() { String::new() } else { format!(" with {}", flags.join(" ")) };
    notes.add_found(&script.document.shown, &format!("the agent is {command}{with}"));
    if !own.is_empty() {
        notes.add_skipped(&own.join(" "), "ralph passes it itself");
    }
    draft.add_agent(command, &flags);
}

/// Migrates the number of iterations and the delay of a script, and reports unknown lines.
fn add_loop_settings(script: &FoundScript, draft: &mut SettingsDraft, notes: &mut MigrationNotes) {
    let shown = &script.document.shown;
    if let Some(iterations) = script.found.iterations {
        notes.add_found(
            shown,
            &format!("at most {}", format_count(iterations as usize, "iteration", "iterations")),
        );
        draft.add_value("maximumIterations", &json!(iterations));
    }
    if let Some(delay) = script.found.delay.filter(|it| *it > 0) {
        notes.add_found(
            shown,
            &format!("{} between iterations", format_count(delay as usize, "second", "seconds")),
        );
        draft.add_value("delaySeconds", &json!(delay));
    }
    for (line, text) in &script.found.unknown {
        notes.add_skipped(&format!("{shown}, line {line}"), text);
    }
}

fn format_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns whether a program is that of an agent.
fn is_agent(name: &str) -> bool {
    const OTHERS: [&str; 5] = ["aider", "goose", "cursor-agent", "droid", "crush"];
    agents::infer_agent_kind(name) != AgentKind::Text || OTHERS.contains(&name)
}
