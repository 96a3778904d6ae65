//! `ralph context`: shows the next prompt of this project and its token counts, and the compaction
//! that would run first, if any.
//!
//! Nothing is started and nothing is changed. Not here: how the prompts are made.

use std::path::Path;

use ralph_core::context::SectionCost;
use ralph_core::event::{Event, Recorded};
use ralph_core::ids::{Role, RunId};
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::ports::Vcs;
use ralph_core::recipe::{PlanPart, Recipe, Retry, Work};
use ralph_core::run::RunState;
use ralph_core::units::Tokens;
use ralph_io::git::Git;
use ralph_io::process::Watch;
use ralph_io::store::{Layout, journal, runs};
use serde_json::{Value, json};

use super::build;
use crate::cli::{CommonArgs, ContextArgs};
use crate::complaint::Complaint;
use crate::equip::{Asking, equipped};
use crate::preview::{self, Compaction, Places, Preview};
use crate::project::Project;
use crate::recipe::{self, PLAN_FILE};
use crate::remembering;
use crate::screen;
use crate::settings::Loaded;
use crate::task_file;
use crate::workflow::Basis;

/// Prints the next prompt.
pub(crate) fn main(common: &CommonArgs, args: &ContextArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open_for_work(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let repository = project.repository(&Watch::detached())?;
    let layout = project.layout_in(&loaded, repository.as_ref())?;
    let resumed = last_state(&layout)?;
    let run = resumed.as_ref().map(|state| state.run.clone());
    let state = match resumed {
        Some(state) => with_task(state, args.task.as_deref())?,
        None => first_state(&project, &loaded, args.task.as_deref())?,
    };
    let mut git = repository.map(|repository| Git::new(repository, layout.run(&state.run).path()));
    let vcs = git.as_mut().map(|git| -> &mut dyn Vcs { git });
    let places = Places { project: &project, loaded: &loaded, vcs };
    let first = preview::compaction(&state, &places)?;
    let preview = preview::next(first.as_ref().map_or(&state, |first| &first.after), places)?;
    let warnings = first.iter().flat_map(|first| &first.preview.warnings);
    for warning in warnings.chain(&preview.warnings) {
        screen::warn(warning);
    }
    let run = run.as_ref();
    screen::print_data(&if args.json {
        let mut facts = facts(&preview, &state.recipe, run);
        facts["compaction"] = first.as_ref().map_or(Value::Null, compaction_facts);
        format!("{facts:#}\n")
    } else {
        let first = first.as_ref().map(compaction_words).unwrap_or_default();
        words(&preview, &state.recipe, run) + &first
    });
    Ok(ExitStatus::Complete)
}

/// Returns the state of the last run before its next prompt, if the run can be resumed.
fn last_state(layout: &Layout) -> Result<Option<RunState>, Complaint> {
    let last = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let is_resumable =
        |outcome: &Option<Outcome>| outcome.as_ref().is_none_or(Outcome::is_resumable);
    let Some(last) = last.filter(|run| is_resumable(&run.outcome)) else { return Ok(None) };
    let mut state = journal::fold(&layout.run(&last.id).journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    // An iteration with a judgement sends no more prompts; the next one does.
    let decided = state.current.as_ref().filter(|current| current.judgement.is_some());
    if let Some(iteration) = decided.map(|current| current.number) {
        let (seq, at, ran) = (state.seq + 1, state.started, state.ran);
        let event = Event::IterationEnded { iteration };
        state
            .apply(&Recorded { seq, at, ran, event })
            .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    }
    Ok(Some(state))
}

/// Returns the state limited to one task.
fn with_task(mut state: RunState, name: Option<&str>) -> Result<RunState, Complaint> {
    let Some(name) = name else { return Ok(state) };
    let none = || Complaint::input("--task is about a task list, and the last run has none");
    let board = state.board.as_ref().ok_or_else(none)?;
    let task = build::known(&board.list, name)?;
    if let Work::Tasks(work) = &mut state.recipe.work {
        work.only = Some(task.clone());
    }
    if state.current.as_ref().is_some_and(|current| current.task.as_ref() != Some(&task)) {
        state.current = None;
    }
    Ok(state)
}

/// Returns the initial state of a first run.
fn first_state(
    project: &Project,
    loaded: &Loaded,
    task: Option<&str>,
) -> Result<RunState, Complaint> {
    let (recipe, list) = match (Basis::of(project, loaded), task) {
        (Basis::Tasks, _) => {
            let file = task_file::open(project, &loaded.settings, None)?;
            let only = task.map(|name| build::known(file.list(), name)).transpose()?;
            let place = (file.path().to_owned(), file.dialect().form());
            let list = file.list();
            let recipe = recipe::for_tasks(loaded, place, list, only, Retry::Nothing)?;
            (recipe, Some(list.clone()))
        }
        (Basis::Specs | Basis::Unknown, Some(_)) => {
            return Err(Complaint::input("--task needs a task list, and there is no task list"));
        }
        (Basis::Specs, None) => {
            let has_plan = project.directory.join(PLAN_FILE).exists();
            let part = if has_plan { PlanPart::Follows } else { PlanPart::Makes };
            (recipe::for_specs(loaded, part)?, None)
        }
        (Basis::Unknown, None) => {
            return Err(Complaint::input(
                "there is no run to resume, no task list and no specifications",
            )
            .hint("`ralph run --dry-run` shows the prompt of a run"));
        }
    };
    let mut recipe = equipped(project, recipe, Asking::Memory);
    let agent = recipe.agent_for(Role::Compact).clone();
    if let Some(policy) = &mut recipe.memory {
        // The prompt says only whether there is documentation, so the path does not matter.
        policy.documentation = remembering::documentation(project, &agent, Path::new(""));
    }
    Ok(preview::first_state(project, &recipe, list))
}

fn words(preview: &Preview, recipe: &Recipe, run: Option<&RunId>) -> String {
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
        let table = ralph_ui::budget::table(&preview.budget, &recipe.prompt.context);
        text.push_str(&format!("{chars} characters, in tokens:\n{}\n", table.join("\n")));
    }
    text
}

/// Describes a compaction that runs first: its token counts, and what is not known yet.
fn compaction_words(first: &Compaction) -> String {
    let Preview { request, iteration, .. } = &first.preview;
    let chars = request.prompt.chars().count();
    let mut text = format!(
        "\nBefore that, iteration {iteration} compacts what was handed over: {}.\n\
         The prompt above has the memory as it is now, with what is carried over by rule; what the\n\
         compaction will say is not known yet. Its own prompt has {chars} characters, in tokens:\n",
        first.trigger.words()
    );
    let total = first.parts.iter().fold(Tokens(0), |sum, (_, tokens)| sum.plus(*tokens));
    for (name, tokens) in first.parts.iter().chain([&("total", total)]) {
        text.push_str(&format!("{name:<9} {:>7}\n", tokens.0));
    }
    text
}

fn compaction_facts(first: &Compaction) -> Value {
    let Preview { request, iteration, warnings, .. } = &first.preview;
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

fn facts(preview: &Preview, recipe: &Recipe, run: Option<&RunId>) -> Value {
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
        "tokens": SectionCost::counted(&preview.budget),
        "budgetTokens": plan.budget,
        "sections": sections.collect::<Vec<_>>(),
        "warnings": preview.warnings,
        "prompt": request.prompt,
    })
}
