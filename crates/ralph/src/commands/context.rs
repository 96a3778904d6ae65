//! `ralph context`: shows the next prompt of this project and its token counts, and the compaction
//! that would run first, if any.
//!
//! Nothing is started and nothing is changed. Not here: how the prompts are made.

use ralph_core::asking::prompt::compact::CompactParts;
use ralph_core::asking::request::BuiltRequest;
use ralph_core::ports::{AgentRequest, Vcs};
use ralph_core::run_loop::foresee::{Foreseen, ForeseenAct, foresee_task};
use ralph_core::tasks::next_work::find_compaction_trigger;
use ralph_io::git::GitVcs;
use ralph_io::process::Watch;
use ralph_io::store::{ProjectLayout, runs};
use ralph_model::budget::Budget;
use ralph_model::context::SectionCost;
use ralph_model::ids::{Role, RunId};
use ralph_model::memory::CompactionTrigger;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::{PlanPart, Retry, Work};
use ralph_model::run::{PromptSize, RunState};
use ralph_model::units::Tokens;
use serde_json::{Value, json};

use super::build;
use crate::cli::{CommonArgs, ContextArgs};
use crate::cli_error::CliError;
use crate::preview::{self, PreviewInputs, read_moment, skip_compaction};
use crate::project::Project;
use crate::recipe::{self, PLAN_FILE};
use crate::settings::LoadedSettings;
use crate::workflow::WorkflowBasis;
use crate::{screen, session, task_file};

/// Prints the next prompt.
pub(crate) fn main(common: &CommonArgs, args: &ContextArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(&loaded, repository.as_ref())?;
    let only = args.task.as_deref();
    let resumed = find_resumable_state(&project, &loaded, &layout)?;
    let run = resumed.as_ref().map(|state| state.run.clone());
    let state = match resumed {
        Some(state) => limit_to_task(state, only)?,
        None => build_first_state(&project, &loaded, &layout, only)?,
    };
    let mut git =
        repository.map(|repository| GitVcs::new(repository, layout.run_dir(&state.run).path()));
    let vcs = git.as_mut().map(|git| -> &mut dyn Vcs { git });
    let mut inputs = PreviewInputs::for_project(&project, &loaded, vcs);
    let preview = match preview_call(&mut inputs, state)? {
        NextCall::Call(preview) => *preview,
        NextCall::Nothing { why } => {
            screen::print_foreign_text(&if args.json {
                format!("{:#}\n", json!({ "run": run, "nothingToDo": why }))
            } else {
                format!("There is nothing to do: {why}\n")
            });
            return Ok(ExitStatus::Complete);
        }
    };
    let (first, preview) = match find_compaction(&preview) {
        Some(first) => match preview_call(&mut inputs, skip_compaction(&preview.state))? {
            NextCall::Call(next) => (Some(first), *next),
            NextCall::Nothing { .. } => (None, preview),
        },
        None => (None, preview),
    };
    let warnings = first.iter().flat_map(|first| &first.call.warnings);
    for warning in warnings.chain(&preview.call.warnings) {
        screen::print_warning(warning);
    }
    let run = run.as_ref();
    screen::print_foreign_text(&if args.json {
        let mut facts = convert_preview_to_json(&preview, run);
        facts["compaction"] = first.as_ref().map_or(Value::Null, convert_compaction_to_json);
        format!("{facts:#}\n")
    } else {
        let first = first.as_ref().map(format_compaction).unwrap_or_default();
        format_preview(&preview, run) + &first
    });
    Ok(ExitStatus::Complete)
}

/// What comes next.
enum NextCall {
    Call(Box<PreviewedCall>),
    /// The work is done, or nothing of it can be done.
    Nothing {
        why: String,
    },
}

/// An agent call, and the state in which it is made.
struct PreviewedCall {
    state: RunState,
    call: BuiltRequest,
}

/// A compaction that runs before the next task.
struct CompactionPreview {
    call: BuiltRequest,
    trigger: CompactionTrigger,
    /// Tokens per part.
    parts: Vec<(&'static str, Tokens)>,
}

/// Returns the next call of a run, also of one that has used up its limits or that is limited to a
/// task which cannot begin.
fn preview_call(inputs: &mut PreviewInputs<'_>, mut state: RunState) -> Result<NextCall, CliError> {
    // More is allowed to a run that is resumed with `-m` or `--max-cost`.
    state.recipe.limits.budget = Budget::default();
    if state.current.is_none() && state.iterations >= state.last_iteration() {
        state.recipe.limits.iterations += 1;
    }
    let moment = read_moment(&state);
    let preview = inputs.preview_next(state.clone())?;
    let only = state.recipe.task_work().and_then(|work| work.only.clone());
    let preview = match (&preview.foreseen.next, only) {
        (ForeseenAct::Finish(_), Some(task)) => {
            let foreseen = foresee_task(preview.foreseen.state, moment, task)
                .map_err(CliError::from_input_error)?;
            inputs.preview_foreseen(foreseen)?
        }
        (_, _) => preview,
    };
    match (preview.call, preview.foreseen) {
        (Some(call), Foreseen { state, .. }) => {
            Ok(NextCall::Call(Box::new(PreviewedCall { state, call })))
        }
        (None, Foreseen { next: ForeseenAct::Open(_), state, .. }) => {
            Err(CliError::for_input(format!(
                "the agent of iteration {} has answered, and the next prompt depends on its gate results",
                state.iterations
            ))
            .with_hint("`ralph resume --dry-run` shows the next step"))
        }
        (None, Foreseen { next: ForeseenAct::Finish(outcome), .. }) => {
            Ok(NextCall::Nothing { why: outcome.to_string() })
        }
        (None, Foreseen { next: ForeseenAct::Call(_), .. }) => {
            Err(CliError::for_input("there is nothing to do"))
        }
    }
}

/// Returns the compaction, if the call is one.
fn find_compaction(preview: &PreviewedCall) -> Option<CompactionPreview> {
    let PreviewedCall { state, call } = preview;
    if call.request.role != Role::Compact {
        return None;
    }
    let sections = CompactParts::from_state(state, PromptSize::Full).sections();
    let chars = sections.map(|(name, text)| (name, text.chars().count()));
    let whole = call.request.prompt.chars().count();
    let rest = whole.saturating_sub(chars.iter().map(|(_, chars)| chars).sum());
    let parts = chars.into_iter().chain([("the rest", rest)]).filter(|(_, chars)| *chars > 0);
    let parts = parts.map(|(name, chars)| (name, state.calibration.estimate_tokens(chars)));
    let (call, trigger) = (call.clone(), find_compaction_trigger(state));
    Some(CompactionPreview { call, trigger, parts: parts.collect() })
}

/// Returns the state that the last run would be resumed with, if it can be resumed.
fn find_resumable_state(
    project: &Project,
    loaded: &LoadedSettings,
    layout: &ProjectLayout,
) -> Result<Option<RunState>, CliError> {
    let last = runs::find_last_run(layout.state());
    let is_resumable =
        |outcome: &Option<Outcome>| outcome.as_ref().is_none_or(Outcome::is_resumable);
    let Some(last) = last.filter(|run| is_resumable(&run.outcome)) else { return Ok(None) };
    let state = session::read_stopped_run(project, loaded, layout, &last.id)?;
    preview::build_resumed_state(project, layout, &state, None).map(Some)
}

/// Returns the state limited to one task.
fn limit_to_task(mut state: RunState, name: Option<&str>) -> Result<RunState, CliError> {
    let Some(name) = name else { return Ok(state) };
    let none = || CliError::for_input("--task is about a task list, and the last run has none");
    let task_state = state.tasks.as_ref().ok_or_else(none)?;
    let task = build::find_task_id(&task_state.list, name)?;
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
    layout: &ProjectLayout,
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
    preview::build_first_state(project, layout, recipe, list)
}

fn format_preview(preview: &PreviewedCall, run: Option<&RunId>) -> String {
    let BuiltRequest { request, budget, .. } = &preview.call;
    let about = match (&request.task, run) {
        (Some(task), Some(run)) => format!("{} {task}, in run {run}", request.role),
        (None, Some(run)) => format!("{}, in run {run}", request.role),
        (Some(task), None) => format!("{} {task}, in a first run", request.role),
        (None, None) => format!("{}, in a first run", request.role),
    };
    let mut text = format!("{}\n", request.prompt.trim_end());
    text.push_str(&format!("\n---\nIteration {}: {about}\n", request.iteration));
    let chars = request.prompt.chars().count();
    if budget.is_empty() {
        text.push_str(&format!("{chars} characters; its sections are not counted\n"));
    } else {
        let table = ralph_ui::budget::format_table(budget, &preview.state.recipe.prompt.context);
        text.push_str(&format!("{chars} characters, in tokens:\n{}\n", table.join("\n")));
    }
    text
}

/// Describes a compaction that runs first: its token counts, and what is not known yet.
fn format_compaction(first: &CompactionPreview) -> String {
    let AgentRequest { iteration, prompt, .. } = &first.call.request;
    let chars = prompt.chars().count();
    let mut text = format!(
        "\nBefore that, iteration {iteration} compacts the handoffs: {}.\n\
         The prompt above has the memory as it is now, with what is carried over automatically; what\n\
         the compaction will write is not known yet. Its own prompt has {chars} characters, in tokens:\n",
        first.trigger.reason()
    );
    let total = first.parts.iter().fold(Tokens(0), |sum, (_, tokens)| sum.saturating_add(*tokens));
    for (name, tokens) in first.parts.iter().chain([&("total", total)]) {
        text.push_str(&format!("{name:<9} {:>7}\n", tokens.0));
    }
    text
}

fn convert_compaction_to_json(first: &CompactionPreview) -> Value {
    let BuiltRequest { request, warnings, .. } = &first.call;
    let parts = first.parts.iter();
    json!({
        "iteration": request.iteration,
        "trigger": first.trigger,
        "agent": request.agent.kind,
        "promptChars": request.prompt.chars().count(),
        "parts": parts.map(|(name, tokens)| json!({ "name": name, "tokens": tokens })).collect::<Vec<_>>(),
        "warnings": warnings,
        "prompt": request.prompt,
    })
}

fn convert_preview_to_json(preview: &PreviewedCall, run: Option<&RunId>) -> Value {
    let BuiltRequest { request, budget, warnings, .. } = &preview.call;
    let plan = &preview.state.recipe.prompt.context;
    let sections = budget.iter().map(|cost| {
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
        "iteration": request.iteration,
        "role": request.role,
        "task": request.task,
        "agent": request.agent.kind,
        "promptChars": request.prompt.chars().count(),
        "tokens": SectionCost::sum_counted(budget),
        "budgetTokens": plan.budget,
        "sections": sections.collect::<Vec<_>>(),
        "warnings": warnings,
        "prompt": request.prompt,
    })
}
