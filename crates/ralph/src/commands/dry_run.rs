//! `--dry-run`: prints what a run would do, without doing it.

use ralph_agents as agents;
use ralph_core::asking::capability;
use ralph_core::landing::scm;
use ralph_core::ports::{Moment, StopRequest};
use ralph_core::run_loop::choose::{self, Step};
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::store::{ProjectLayout, journal};
use ralph_model::gate::{GateCheck, Severity};
use ralph_model::ids::{Role, RunId};
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{
    CommitPolicy, Completion, OnFailure, PromptSource, Recipe, ScmTask, Work,
};
use ralph_model::task::TaskList;

use crate::agent_versions::{VersionSource, with_agent_versions};
use crate::call_preview::CallPreview;
use crate::cli_error::CliError;
use crate::preview::{self, PreviewInputs, RequestPreview};
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::shell_quote::quote_for_shell;
use crate::{screen, task_file};

/// Prints what a run would do.
pub(crate) fn main(
    project: &Project,
    loaded: &LoadedSettings,
    recipe: Recipe,
) -> Result<ExitStatus, CliError> {
    let recipe = &with_agent_versions(project, recipe, VersionSource::Cache);
    let list = read_list(project, recipe)?;
    let until = describe_completion(recipe, list.as_ref());
    let state = preview::build_first_state(project, recipe, list);
    let places = PreviewInputs { project, loaded, vcs: None };
    let RequestPreview { request, budget, warnings, .. } = preview::preview_next(&state, places)?;
    let calls = CallPreview::for_project(project, loaded)?;
    let mut text = String::from("Dry run: no agent is started and nothing is changed.\n");
    for path in &loaded.files {
        text.push_str(&format!("\nSettings from {}\n", path.display()));
    }
    text.push_str(&format!("\nUp to {} iterations, until {until}.\n", recipe.limits.iterations));
    let command = quote_for_shell(&calls.build_command_line_for(&request));
    text.push_str(&format!("\nEach iteration asks\n  {command}\n"));
    text.push_str(&format!("with the prompt\n{}\n", indent(&request.prompt)));
    if !budget.is_empty() {
        let table = ralph_ui::budget::format_table(&budget, &recipe.prompt.context);
        text.push_str(&format!("\nIts sections, in tokens:\n  {}\n", table.join("\n  ")));
    }
    text.push_str(&describe_gates(recipe));
    text.push_str(&describe_landing(recipe, &calls));
    text.push_str(&describe_memory(recipe));
    let old = recipe.callable_agents().into_iter().flat_map(agents::list_version_warnings);
    for warning in warnings.into_iter().chain(capability::find_unsupported(recipe)).chain(old) {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
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
            return format!("the {tasks} tasks of the list are done");
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
pub(crate) fn print_resume_step(
    layout: &ProjectLayout,
    run: &RunId,
) -> Result<ExitStatus, CliError> {
    let mut state = journal::fold_journal(&layout.run_dir(run).journal_path())
        .map_err(CliError::from_input_error)?;
    state.control.drop_pause_and_stop();
    let moment = Moment { now: clock::now(), ran: state.ran, stop: StopRequest::Continue };
    let next = match choose::choose_next_step(&state, moment) {
        Step::Begin { iteration, .. } => format!("begin iteration {iteration}"),
        Step::Checkpoint(_) => "record the state that the iteration starts from".to_owned(),
        Step::Recover { .. } => {
            "look for the answer that was being written, and ask again only if it is incomplete"
                .to_owned()
        }
        Step::Ask { .. } => "ask the agent".to_owned(),
        Step::Wait { .. } => "wait until the agent may be asked again".to_owned(),
        Step::RecordPlanState
        | Step::Observe
        | Step::Check { .. }
        | Step::RecordVerdict { .. }
        | Step::Reuse { .. }
        | Step::Refuse { .. }
        | Step::RefuseLeaks
        | Step::RefuseGitTampering => "run the gates".to_owned(),
        Step::ReadTasks => "read the task list".to_owned(),
        Step::WriteTasks | Step::WriteList => "write the task list".to_owned(),
        Step::BeginBaseline | Step::Baseline { .. } => "run the gates before any work".to_owned(),
        Step::SaveToFailureBranch => "put the work on a branch of its own".to_owned(),
        Step::Judge => "decide what follows from the iteration".to_owned(),
        Step::Survey | Step::DiscardMessageSideEffects | Step::Commit { .. } | Step::FindCommit => {
            "commit the work that passed".to_owned()
        }
        Step::Scm { command, args: words } => format!("run `{command} {}`", words.join(" ")),
        Step::Rollback => "go back to the checkpoint".to_owned(),
        Step::Skip { skip, .. } => format!("skip task {}", skip.task),
        Step::WaitWhilePaused => "wait until the user resumes the run".to_owned(),
        Step::EndIteration(iteration) => format!("close iteration {iteration}"),
        Step::Finish(outcome) => format!("end: {outcome}"),
    };
    screen::print_data(&format!(
        "Dry run: nothing is changed.\nRun {run} is in iteration {} of {}. The next step is to {next}.\n",
        state.iterations,
        state.last_iteration()
    ));
    Ok(ExitStatus::Complete)
}

fn describe_gates(recipe: &Recipe) -> String {
    if recipe.gates.is_empty() {
        return "\nThere are no gates: the agent's word alone completes the work.\n".to_owned();
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

fn describe_landing(recipe: &Recipe, calls: &CallPreview) -> String {
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
            let mut text = String::from("When they pass it runs\n");
            for task in &scm.tasks {
                match task {
                    ScmTask::Commit => text.push_str(&format!(
                        "  {} commit, with the message that\n    {}\n    answers to \"{}\"\n",
                        scm.command,
                        quote_for_shell(&calls.build_command_line(
                            recipe.agent_for(Role::Message),
                            Role::Message,
                            scm::MESSAGE_PROMPT,
                            &recipe.limits,
                        )),
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
    format!("\n{success}{failure}")
}

fn describe_memory(recipe: &Recipe) -> String {
    let Some(policy) = &recipe.memory else { return String::new() };
    format!(
        "\nWhat was handed over is compacted by `{}` after {} attempts, beyond {} bytes, or when a\ntask wants documentation. That does not count as an iteration.\n",
        recipe.agent_for(Role::Compact).command,
        policy.every_iterations,
        policy.threshold_bytes
    )
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}
