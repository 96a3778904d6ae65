//! `--dry-run`: prints what a run would do, without doing it.

use ralph_core::asking::capability;
use ralph_core::asking::request::{CallOrder, build_request_without_prompt};
use ralph_core::landing::scm;
use ralph_core::ports::{AgentRequest, Vcs};
use ralph_core::run_loop::choose::Step;
use ralph_core::run_loop::foresee::{Foreseen, ForeseenAct};
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::git::GitVcs;
use ralph_io::process::Watch;
use ralph_model::event::{Purpose, WaitReason};
use ralph_model::gate::{GateCheck, Severity};
use ralph_model::ids::{AskNumber, Role, RunId};
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{
    CommitPolicy, Completion, OnFailure, PromptSource, Recipe, ScmTask, Work,
};
use ralph_model::review::ReviewPolicy;
use ralph_model::run::PromptSize;
use ralph_model::task::TaskList;
use ralph_model::text::quote_for_shell;

use crate::call_preview::CallPreview;
use crate::cli_error::CliError;
use crate::preview::{self, PreviewInputs, RunPreview};
use crate::project::Project;
use crate::run_context::register_own_files;
use crate::session::{PreflightInputs, StartOptions};
use crate::settings::LoadedSettings;
use crate::start_warnings::{StartPlace, collect_start_warnings};
use crate::{screen, session, task_file};

/// Prints what a new run would do.
pub(crate) fn print_start(
    project: &Project,
    loaded: &LoadedSettings,
    recipe: Recipe,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let list = read_list(project, &recipe)?;
    let until = describe_completion(&recipe, list.as_ref());
    let mut repository = project.find_repository_for_work(&Watch::new_detached())?;
    let layout = project.find_layout_in(loaded, repository.as_ref())?;
    if let Some(repository) = &mut repository {
        register_own_files(repository, layout.project(), &recipe);
    }
    let inputs = PreflightInputs {
        project,
        loaded,
        layout: &layout,
        repository: repository.as_ref(),
        recipe: &recipe,
        dirty: options.dirty,
        resumed: None,
    };
    let start = session::check_start(&inputs, None);
    let state = preview::build_first_state(project, &layout, recipe, list)?;
    let calls = CallPreview::for_run(project, loaded, &layout, &state)?;
    let mut text = String::from("Dry run: no agent is started and nothing is changed.\n");
    for path in &loaded.files {
        text.push_str(&format!("\nSettings from {}\n", path.display()));
    }
    let inputs = PreviewInputs::for_project(project, loaded, None);
    let preview = inputs.with_commits(repository.as_ref()).preview_next(state)?;
    let recipe = &preview.foreseen.state.recipe;
    text.push_str(&format!("\nUp to {} iterations, until {until}.\n", recipe.limits.iterations));
    text.push_str(&describe_next(&preview, &calls, options.incomplete));
    let (place, env) = (layout.project(), &project.env);
    let place = StartPlace { loaded, project: place, repository: repository.as_ref(), env };
    let mut warnings = collect_start_warnings(&place, recipe);
    if let Some(call) = &preview.call {
        text.push_str(&describe_gates(recipe));
        text.push_str(&describe_landing(&preview, &calls));
        text.push_str(&describe_memory(recipe));
        warnings.extend(call.warnings.clone());
    }
    warnings.extend(capability::find_unsupported(recipe));
    for warning in warnings {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    screen::print_foreign_text(&text);
    // A preview ends as the start would.
    start.map(|()| ExitStatus::Complete)
}

/// Describes the next agent call with what comes before it, or how the run ends.
fn describe_next(preview: &RunPreview, calls: &CallPreview, incomplete: ExitStatus) -> String {
    let Foreseen { state, before, next, .. } = &preview.foreseen;
    let mut text = String::new();
    let is_shown = |step: &&Step| {
        !matches!(
            step,
            Step::Begin { .. } | Step::Checkpoint(_) | Step::WriteTasks | Step::EndIteration(_)
        )
    };
    let mut steps: Vec<String> = before.iter().filter(is_shown).map(describe_step).collect();
    steps.dedup();
    for step in steps {
        text.push_str(&format!("\nBefore that: {step}.\n"));
    }
    let call = match (next, &preview.call) {
        (ForeseenAct::Finish(outcome), _) => {
            let status = outcome.exit_code();
            let status = if status == ExitStatus::Incomplete { incomplete } else { status };
            let code = status.code();
            return text
                + &format!("\nNo agent is asked. The run ends: {outcome} (exit code {code}).\n");
        }
        (ForeseenAct::Open(step), _) => {
            return text + &format!("\nThen: {}. The rest depends on it.\n", describe_step(step));
        }
        (ForeseenAct::Call(_), None) => return text,
        (ForeseenAct::Call(_), Some(call)) => call,
    };
    let request = &call.request;
    let about = match &request.task {
        Some(task) => format!("{} {task}", request.role),
        None => request.role.to_string(),
    };
    let command = quote_call(calls, request);
    text.push_str(&format!("\nIteration {} ({about}) asks\n  {command}\n", request.iteration));
    text.push_str(&format!("with the prompt\n{}\n", indent(&request.prompt)));
    if !call.budget.is_empty() {
        let table = ralph_ui::budget::format_table(&call.budget, &state.recipe.prompt.context);
        text.push_str(&format!("\nIts sections, in tokens:\n  {}\n", table.join("\n  ")));
    }
    text
}

/// Returns the command line of a call, with `{schema}` in place of the schema of its answer.
fn quote_call(calls: &CallPreview, request: &AgentRequest) -> String {
    let mut words = calls.build_command_line_for(request);
    if let Some(schema) = request.schema.as_ref().map(|schema| schema.to_string()) {
        for word in &mut words {
            *word = word.replace(&schema, "{schema}");
        }
    }
    quote_for_shell(&words)
}

fn read_list(project: &Project, recipe: &Recipe) -> Result<Option<TaskList>, CliError> {
    let Some(work) = recipe.task_work() else { return Ok(None) };
    let file = TaskFile::read(&work.file)
        .map_err(|problems| task_file::to_problems_error(project, &problems))?;
    Ok(Some(file.list().clone()))
}

/// Describes what ends the run.
fn describe_completion(recipe: &Recipe, list: Option<&TaskList>) -> String {
    let source = match (&recipe.work, list) {
        (Work::Prompt(source), _) => source,
        (Work::Tasks(_), list) => {
            let tasks = list.map_or(0, |list| list.tasks.len());
            return match tasks {
                1 => "the task of the list is done".to_owned(),
                _ => format!("the {tasks} tasks of the list are done"),
            };
        }
    };
    match recipe.completion {
        Completion::Signal => {
            let response = &recipe.completion_response;
            let tag = match source {
                PromptSource::Text(_) | PromptSource::File(_) => "response",
                PromptSource::Template(_) => "promise",
            };
            format!("the agent answers <{tag}>{response}</{tag}> and the gates pass")
        }
        Completion::Gates => "the gates pass".to_owned(),
    }
}

/// Prints what `ralph resume` would do next.
pub(crate) fn print_resume(
    project: &Project,
    loaded: &LoadedSettings,
    run: &RunId,
    change: impl FnOnce(&Recipe) -> Result<Option<Recipe>, CliError>,
    options: &StartOptions,
) -> Result<ExitStatus, CliError> {
    let mut repository = project.find_repository_for_work(&Watch::new_detached())?;
    let layout = project.find_layout_in(loaded, repository.as_ref())?;
    let state = session::read_stopped_run(project, loaded, &layout, run)?;
    let changed = change(&state.recipe)?;
    let recipe = changed.clone().unwrap_or_else(|| state.recipe.clone());
    if let Some(repository) = &mut repository {
        register_own_files(repository, layout.project(), &recipe);
    }
    let stopped = state.clone();
    let state = preview::build_resumed_state(project, &layout, &state, changed)?;
    let files = layout.run_dir(run);
    let mut git = repository.clone().map(|repository| GitVcs::new(repository, files.path()));
    let inputs = PreflightInputs {
        project,
        loaded,
        layout: &layout,
        repository: repository.as_ref(),
        recipe: &recipe,
        dirty: options.dirty,
        resumed: Some(&stopped),
    };
    let start = session::check_start(&inputs, git.as_mut().map(|git| -> &mut dyn Vcs { git }));
    let vcs = git.as_mut().map(|git| -> &mut dyn Vcs { git });
    let (iterations, last) = (state.iterations, state.last_iteration());
    let calls = CallPreview::for_run(project, loaded, &layout, &state)?;
    let preview = PreviewInputs::for_project(project, loaded, vcs).preview_next(state)?;
    let Foreseen { before, next, .. } = &preview.foreseen;
    let step = match (before.first(), next) {
        (Some(step), _) | (None, ForeseenAct::Open(step)) => describe_step(step),
        (None, ForeseenAct::Call(_)) => "ask the agent".to_owned(),
        (None, ForeseenAct::Finish(outcome)) => format!("end: {outcome}"),
    };
    screen::print_foreign_text(&format!(
        "Dry run: nothing is changed.\nRun {run} is in iteration {iterations} of {last}. The next step is to {step}.\n{}",
        describe_next(&preview, &calls, options.incomplete)
    ));
    start.map(|()| ExitStatus::Complete)
}

/// Describes a step in the imperative.
fn describe_step(step: &Step) -> String {
    match step {
        Step::Begin { iteration, .. } => format!("begin iteration {iteration}"),
        Step::Checkpoint(_) => "record the state that the iteration starts from".to_owned(),
        Step::Recover { .. } => {
            "look for the answer that was being written, and ask again only if it is incomplete"
                .to_owned()
        }
        Step::Ask { .. } => "ask the agent".to_owned(),
        Step::Wait { until, reason } => {
            let left = until.elapsed_since(clock::now());
            let why = match reason {
                WaitReason::Delay => "the delay between iterations",
                WaitReason::Retry => "the agent failed and is asked again later",
                WaitReason::UsageLimit => "a usage limit",
            };
            format!("wait for {left}: {why}")
        }
        Step::RecordPlanState
        | Step::Observe
        | Step::Check { .. }
        | Step::RecordVerdict { .. }
        | Step::Reuse { .. }
        | Step::Refuse(_)
        | Step::Recheck => "run the gates".to_owned(),
        Step::ReadTasks => "read the task list".to_owned(),
        Step::WriteTasks | Step::WriteList => "write the task list".to_owned(),
        Step::BeginBaseline | Step::Baseline { .. } => {
            "run the gates before any work; this is shown as if they pass".to_owned()
        }
        Step::SaveToFailureBranch => "put the work on a branch of its own".to_owned(),
        Step::Judge => "decide what follows from the iteration".to_owned(),
        Step::Survey | Step::DiscardMessageSideEffects | Step::Commit { .. } | Step::FindCommit => {
            "commit the work that passed".to_owned()
        }
        Step::Scm { command, args: words } => format!("run `{command} {}`", words.join(" ")),
        Step::Rollback => "go back to the checkpoint".to_owned(),
        Step::Skip { skip, .. } => format!("skip task {}", skip.task),
        Step::StartJob(job) => format!("start a worker on task {}", job.task),
        Step::PollWorkers { .. } => "wait for the workers".to_owned(),
        Step::CancelWorker { worker } => format!("end worker {worker}"),
        Step::MergeCandidate => "merge the work of a worker".to_owned(),
        Step::WaitWhilePaused => "wait until the user resumes the run".to_owned(),
        Step::EndIteration(iteration) => format!("close iteration {iteration}"),
        Step::Finish(outcome) => format!("end: {outcome}"),
    }
}

fn describe_gates(recipe: &Recipe) -> String {
    if recipe.gates.is_empty() {
        return "\nThere are no gates: only the agent decides whether the work is complete.\n"
            .to_owned();
    }
    let mut text = String::from("\nThen it runs the gates\n");
    for gate in &recipe.gates {
        let severity = match recipe.strategy.find_severity(gate) {
            Some(Severity::Hard) => "hard",
            Some(Severity::Soft) => "soft",
            None => "skipped by the validation strategy",
        };
        let what = match &gate.check {
            GateCheck::Command(command) => command.clone(),
            GateCheck::Agent(agent) => format!("{}: a verdict of {}", gate.name, agent.command),
        };
        text.push_str(&format!(
            "  {what}\n    {severity}, at most {}, on failure {} to the prompt\n",
            gate.hard_limit,
            gate.fail_action.name()
        ));
    }
    text
}

fn describe_landing(preview: &RunPreview, calls: &CallPreview) -> String {
    let Foreseen { state, moment, .. } = &preview.foreseen;
    let recipe = &state.recipe;
    let failure = match recipe.landing.on_failure {
        OnFailure::Keep => "Work that fails stays in the tree for the next iteration.\n",
        OnFailure::Rollback => {
            "Work that fails is kept on refs/ralph/kept/ and the tree goes back to where it was.\n"
        }
    };
    let success = match &recipe.landing.commit {
        CommitPolicy::NoCommit => {
            "Work that passes stays in the tree; nothing is committed.\n".to_owned()
        }
        CommitPolicy::Agent => "The agent commits its own work.\n".to_owned(),
        CommitPolicy::Ralph => "Work that passes is committed by ralph.\n".to_owned(),
        CommitPolicy::Scm(scm) => {
            let (ask, size) = (AskNumber(1), PromptSize::Full);
            let order = CallOrder { ask, purpose: Purpose::Message, size };
            let mut message = build_request_without_prompt(state, &order, None, *moment);
            message.prompt.push_str(scm::MESSAGE_PROMPT);
            let mut text = String::from("When they pass it runs\n");
            for task in &scm.tasks {
                match task {
                    ScmTask::Commit => text.push_str(&format!(
                        "  {} commit, with the message that\n    {}\n    answers to \"{}\"\n",
                        scm.command,
                        quote_call(calls, &message),
                        scm::MESSAGE_PROMPT
                    )),
                    ScmTask::Run(words) => {
                        text.push_str(&format!("  {} {}\n", scm.command, words.join(" ")));
                    }
                }
            }
            text
        }
    };
    let review = match recipe.task_work().map(|work| &work.review) {
        Some(ReviewPolicy::Fresh { cap }) => format!(
            "\nA task that passes is then reviewed by `{}`, at most {cap} times: it is done when the review approves.\n",
            recipe.agent_for(Role::Review).command
        ),
        Some(ReviewPolicy::Skip) | None => String::new(),
    };
    format!("{review}\n{success}{failure}")
}

fn describe_memory(recipe: &Recipe) -> String {
    let Some(policy) = &recipe.memory else { return String::new() };
    format!(
        "\nHandoffs are compacted by `{}` after {} attempts, beyond {} bytes, or when a\ntask wants documentation. That does not count as an iteration.\n",
        recipe.agent_for(Role::Compact).command,
        policy.every_iterations,
        policy.threshold_bytes
    )
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}
