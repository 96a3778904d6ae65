//! `ralph context`: shows the next prompt of this project and its token counts, and the compaction
//! that would run first, if any.
//!
//! Nothing is started and nothing is changed. Not here: how the prompts are made.

use std::path::Path;

use ralph_core::ports::Vcs;
use ralph_core::run_loop::fold::apply_event;
use ralph_io::git::GitVcs;
use ralph_io::process::Watch;
use ralph_io::store::{ProjectLayout, journal, runs};
use ralph_model::context::SectionCost;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{Role, RunId};
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::{PlanPart, Recipe, Retry, Work};
use ralph_model::run::RunState;
use ralph_model::units::Tokens;
use serde_json::{Value, json};

use super::build;
use crate::agent_versions::{VersionSource, with_agent_versions};
use crate::cli::{CommonArgs, ContextArgs};
use crate::cli_error::CliError;
use crate::preview::{self, CompactionPreview, PreviewInputs, RequestPreview};
use crate::project::Project;
use crate::recipe::{self, PLAN_FILE};
use crate::settings::LoadedSettings;
use crate::workflow::WorkflowBasis;
use crate::{memory_setup, screen, task_file};

/// Prints the next prompt.
pub(crate) fn main(common: &CommonArgs, args: &ContextArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(&loaded, repository.as_ref())?;
    let resumed = find_resumable_state(&layout)?;
    let run = resumed.as_ref().map(|state| state.run.clone());
    let state = match resumed {
        Some(state) => limit_to_task(state, args.task.as_deref())?,
        None => build_first_state(&project, &loaded, args.task.as_deref())?,
    };
    let mut git =
        repository.map(|repository| GitVcs::new(repository, layout.run_dir(&state.run).path()));
    let vcs = git.as_mut().map(|git| -> &mut dyn Vcs { git });
    let places = PreviewInputs { project: &project, loaded: &loaded, vcs };
    let first = preview::preview_compaction(&state, &places)?;
    let preview =
        preview::preview_next(first.as_ref().map_or(&state, |first| &first.after), places)?;
    let warnings = first.iter().flat_map(|first| &first.preview.warnings);
    for warning in warnings.chain(&preview.warnings) {
        screen::print_warning(warning);
    }
    let run = run.as_ref();
    screen::print_data(&if args.json {
        let mut facts = convert_preview_to_json(&preview, &state.recipe, run);
        facts["compaction"] = first.as_ref().map_or(Value::Null, convert_compaction_to_json);
        format!("{facts:#}\n")
    } else {
        let first = first.as_ref().map(format_compaction).unwrap_or_default();
        format_preview(&preview, &state.recipe, run) + &first
    });
    Ok(ExitStatus::Complete)
}

/// Returns the state of the last run before its next prompt, if the run can be resumed.
fn find_resumable_state(layout: &ProjectLayout) -> Result<Option<RunState>, CliError> {
    let last = runs::list_runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let is_resumable =
        |outcome: &Option<Outcome>| outcome.as_ref().is_none_or(Outcome::is_resumable);
    let Some(last) = last.filter(|run| is_resumable(&run.outcome)) else { return Ok(None) };
    let mut state = journal::fold_journal(&layout.run_dir(&last.id).journal_path())
        .map_err(CliError::from_input_error)?;
    // An iteration with a judgement sends no more prompts; the next one does.
    let decided = state.current.as_ref().filter(|current| current.judgement().is_some());
    if let Some(iteration) = decided.map(|current| current.number) {
        let (seq, at, ran) = (state.seq + 1, state.started, state.ran);
        let event = Event::IterationEnded { iteration };
        apply_event(&mut state, &Recorded { seq, at, ran, event })
            .map_err(CliError::from_input_error)?;
    }
    Ok(Some(state))
}

/// Returns the state limited to one task.
fn limit_to_task(mut state: RunState, name: Option<&str>) -> Result<RunState, CliError> {
    let Some(name) = name else { return Ok(state) };
    let none = || CliError::for_input("--task is about a task list, and the last run has none");
    let board = state.tasks.as_ref().ok_or_else(none)?;
    let task = build::find_task_id(&board.list, name)?;
    if let Work::Tasks(work) = &mut state.recipe.work {
        work.only = Some(task.clone());
    }
    if state.current.as_ref().is_some_and(|current| current.task.as_ref() != Some(&task)) {
        state.current = None;
    }
    Ok(state)
}

/// Returns the initial state of a first run.
fn build_first_state(
    project: &Project,
    loaded: &LoadedSettings,
    task: Option<&str>,
) -> Result<RunState, CliError> {
    let (recipe, list) = match (WorkflowBasis::detect(project, loaded), task) {
        (WorkflowBasis::Tasks, _) => {
            let file = task_file::read_task_file(project, &loaded.settings, None)?;
            let only = task.map(|name| build::find_task_id(file.list(), name)).transpose()?;
            let place = (file.path().to_owned(), file.dialect().list_form());
            let list = file.list();
            let recipe = recipe::for_tasks(loaded, place, list, only, Retry::Nothing)?;
            (recipe, Some(list.clone()))
        }
        (WorkflowBasis::Specs | WorkflowBasis::Unknown, Some(_)) => {
            return Err(CliError::for_input("--task needs a task list, and there is no task list"));
        }
        (WorkflowBasis::Specs, None) => {
            let has_plan = project.directory.join(PLAN_FILE).exists();
            let part = if has_plan { PlanPart::Follows } else { PlanPart::Makes };
            (recipe::for_specs(loaded, part)?, None)
        }
        (WorkflowBasis::Unknown, None) => {
            return Err(CliError::for_input(
                "there is no run to resume, no task list and no specifications",
            )
            .with_hint("`ralph run --dry-run` shows the prompt of a run"));
        }
    };
    let mut recipe = with_agent_versions(project, recipe, VersionSource::Cache);
    let agent = recipe.agent_for(Role::Compact).clone();
    if let Some(policy) = &mut recipe.memory {
        // The prompt says only whether there is documentation, so the path does not matter.
        policy.documentation = memory_setup::find_documentation(project, &agent, Path::new(""));
    }
    Ok(preview::build_first_state(project, &recipe, list))
}

fn format_preview(preview: &RequestPreview, recipe: &Recipe, run: Option<&RunId>) -> String {
    let request = &preview.request;
    let about = match (&request.task, run) {
        (Some(task), Some(run)) => format!("{} {task}, in run {run}", request.role),
        (None, Some(run)) => format!("{}, in run {run}", request.role),
        (Some(task), None) => format!("{} {task}, in a first run", request.role),
        (None, None) => format!("{}, in a first run", request.role),
    };
    let mut text = format!("{}\n", request.prompt.trim_end());
    text.push_str(&format!("\n---\nIteration {}: {about}\n", preview.iteration));
    let chars = request.prompt.chars().count();
    if preview.budget.is_empty() {
        text.push_str(&format!("{chars} characters; its sections are not counted\n"));
    } else {
        let table = ralph_ui::budget::format_table(&preview.budget, &recipe.prompt.context);
        text.push_str(&format!("{chars} characters, in tokens:\n{}\n", table.join("\n")));
    }
    text
}

/// Describes a compaction that runs first: its token counts, and what is not known yet.
fn format_compaction(first: &CompactionPreview) -> String {
    let RequestPreview { request, iteration, .. } = &first.preview;
    let chars = request.prompt.chars().count();
    let mut text = format!(
        "\nBefore that, iteration {iteration} compacts what was handed over: {}.\n\
         The prompt above has the memory as it is now, with what is carried over by rule; what the\n\
         compaction will say is not known yet. Its own prompt has {chars} characters, in tokens:\n",
        first.trigger.reason()
    );
    let total = first.parts.iter().fold(Tokens(0), |sum, (_, tokens)| sum.saturating_add(*tokens));
    for (name, tokens) in first.parts.iter().chain([&("total", total)]) {
        text.push_str(&format!("{name:<9} {:>7}\n", tokens.0));
    }
    text
}

fn convert_compaction_to_json(first: &CompactionPreview) -> Value {
    let RequestPreview { request, iteration, warnings, .. } = &first.preview;
    let parts = first.parts.iter();
    json!({
        "iteration": iteration,
        "trigger": first.trigger,
        "agent": request.agent.kind,
        "promptChars": request.prompt.chars().count(),
        "parts": parts.map(|(name, tokens)| json!({ "name": name, "tokens": tokens })).collect::<Vec<_>>(),
        "warnings": warnings,
        "prompt": request.prompt,
    })
}

fn convert_preview_to_json(
    preview: &RequestPreview,
    recipe: &Recipe,
    run: Option<&RunId>,
) -> Value {
    let request = &preview.request;
    let plan = &recipe.prompt.context;
    let sections = preview.budget.iter().map(|cost| {
        json!({
            "name": cost.name,
            "tokens": cost.tokens,
            "limit": plan.cap(cost.name),
            "counted": cost.name.is_counted(),
            "cut": !cost.left_out.is_empty(),
            "leftOut": cost.left_out,
        })
    });
    json!({
        "run": run,
        "iteration": preview.iteration,
        "role": request.role,
        "task": request.task,
        "agent": request.agent.kind,
        "promptChars": request.prompt.chars().count(),
        "tokens": SectionCost::sum_counted(&preview.budget),
        "budgetTokens": plan.budget,
        "sections": sections.collect::<Vec<_>>(),
        "warnings": preview.warnings,
        "prompt": request.prompt,
    })
}
