//! `--dry-run`: what a run would do, without doing it.

use ralph_core::board::{Board, Turn};
use ralph_core::capability;
use ralph_core::choose::{self, Step};
use ralph_core::gate::{Check, Severity};
use ralph_core::handoff::read;
use ralph_core::ids::{IterationNumber, Role, RunId};
use ralph_core::outcome::ExitStatus;
use ralph_core::ports::{Moment, StopWish};
use ralph_core::prompt::keeping::Keeping;
use ralph_core::prompt::role::{Beside, Frame, Rendered, RolePrompt};
use ralph_core::prompt::run::RunFrame;
use ralph_core::prompt::task::{self as task_prompt, ReviewParts, TaskParts};
use ralph_core::prompt::{self, Parts};
use ralph_core::recipe::{
    CommitPolicy, Completion, OnFailure, PromptSource, Recipe, ScmTask, TaskWork, TemplatePlace,
    Work,
};
use ralph_core::review;
use ralph_core::run::PromptSize;
use ralph_core::scm;
use ralph_core::task::Task;
use ralph_io::agents;
use ralph_io::clock;
use ralph_io::formats::TaskFile;
use ralph_io::store::files::read_prompt;
use ralph_io::store::{Layout, journal, prompts};

use crate::calls::{self, Calls, quoted};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;
use crate::settings::Loaded;
use crate::task_file;

/// Prints what a run would do.
pub(crate) fn main(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
) -> Result<ExitStatus, Complaint> {
    let Opening { until, role, prompt, schema, warnings } = opening(project, loaded, recipe)?;
    let calls = Calls::of(project, loaded)?;
    let mut text = String::from("Dry run: no agent is started and nothing is changed.\n");
    for path in &loaded.files {
        text.push_str(&format!("\nSettings from {}\n", path.display()));
    }
    text.push_str(&format!("\nUp to {} iterations, until {until}.\n", recipe.limits.iterations));
    let request = calls::request(recipe.agent_for(role), role, &prompt, &recipe.limits);
    let request = match schema {
        Some(schema) => request.wanting(schema),
        None => request,
    };
    let command = quoted(&calls.words_of(&request));
    text.push_str(&format!("\nEach iteration asks\n  {command}\n"));
    text.push_str(&format!("with the prompt\n{}\n", indented(&request.prompt)));
    text.push_str(&gates(recipe));
    text.push_str(&landing(recipe, &calls));
    text.push_str(&memory(recipe));
    let old = recipe.asked().into_iter().flat_map(agents::version_warnings);
    for warning in warnings.into_iter().chain(capability::concerns(recipe)).chain(old) {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
}

/// How a run would begin.
struct Opening {
    until: String,
    role: Role,
    prompt: String,
    schema: Option<serde_json::Value>,
    warnings: Vec<String>,
}

fn opening(project: &Project, loaded: &Loaded, recipe: &Recipe) -> Result<Opening, Complaint> {
    let source = match &recipe.work {
        Work::Prompt(source) => source,
        Work::Tasks(work) => return task_opening(project, loaded, recipe, work),
    };
    let Rendered { text: base, warnings } = text_of(project, loaded, recipe, source)?;
    let until = match recipe.completion {
        Completion::Signal => {
            let said = &recipe.completion_response;
            let tag = match source {
                PromptSource::Text(_) | PromptSource::File(_) => "response",
                PromptSource::Template(_) => "promise",
            };
            format!("the agent answers <{tag}>{said}</{tag}> and the gates pass")
        }
        Completion::Gates => "the gates pass".to_owned(),
    };
    let prompt = assembled(recipe, &base);
    Ok(Opening { until, role: recipe.role, prompt, schema: None, warnings })
}

/// Returns the text of work that is a prompt, as its first iteration has it; nothing where it is
/// a task list.
pub(super) fn first_text(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
) -> Result<Rendered, Complaint> {
    match &recipe.work {
        Work::Prompt(source) => text_of(project, loaded, recipe, source),
        Work::Tasks(_) => Ok(Rendered { text: String::new(), warnings: Vec::new() }),
    }
}

fn text_of(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
    source: &PromptSource,
) -> Result<Rendered, Complaint> {
    let read = |path| read_prompt(path).map_err(|error| Complaint::input(error.message));
    let template = match source {
        PromptSource::Text(text) => {
            return Ok(Rendered { text: text.clone(), warnings: Vec::new() });
        }
        PromptSource::File(path) => {
            return Ok(Rendered { text: read(path)?, warnings: Vec::new() });
        }
        PromptSource::Template(template) => template,
    };
    let (text, unusable) = match &template.place {
        TemplatePlace::File(path) => (read(path)?, None),
        TemplatePlace::Named(prompt) => {
            let own = loaded.settings.prompts_dir.as_ref();
            let ours = || prompt.template().to_owned();
            match prompts::template(&project.directory, own, prompt.name()) {
                Ok(text) => (text.unwrap_or_else(ours), None),
                Err(error) => (ours(), Some(error.message)),
            }
        }
    };
    let (gates, signal) = (recipe.commands(), recipe.signal());
    let frame = RunFrame::new(recipe, template, &text, &signal, &gates);
    let mut rendered = prompt::run::fill(&frame);
    rendered.warnings.extend(unusable);
    Ok(rendered)
}

fn assembled(recipe: &Recipe, base: &str) -> String {
    let parts = Parts {
        base,
        feedback: &[],
        iteration: IterationNumber(1),
        limit: recipe.limits.iterations,
        size: PromptSize::Full,
    };
    prompt::assemble(&recipe.prompt, parts)
}

fn task_opening(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
    work: &TaskWork,
) -> Result<Opening, Complaint> {
    let file =
        TaskFile::read(&work.file).map_err(|problems| task_file::complain(project, &problems))?;
    let board = Board::new(file.list().clone());
    let nothing = || Complaint::input("there is nothing to do: no task can begin");
    let Turn::Next(next) = board.turn(work) else { return Err(nothing()) };
    let (role, task) = next.work().ok_or_else(nothing)?;
    let rendered = first_prompt(project, loaded, recipe, work, role, task);
    let is_wanted = !recipe.is_kept_by_agent();
    let (prompt, schema) = match role {
        Role::Review => (rendered.text, review::schema()),
        Role::Prompt
        | Role::Plan
        | Role::Build
        | Role::Implement
        | Role::Fix
        | Role::Compact
        | Role::Message => (assembled(recipe, &rendered.text), read::schema()),
    };
    Ok(Opening {
        until: format!("the {} tasks of the list are done", board.list.tasks.len()),
        role,
        prompt,
        // An agent that keeps the list says there what came of its work.
        schema: is_wanted.then_some(schema),
        warnings: rendered.warnings,
    })
}

/// Returns the first prompt of work on a list, as far as it is known before.
fn first_prompt(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
    work: &TaskWork,
    role: Role,
    task: &Task,
) -> Rendered {
    let prompt = match role {
        Role::Review => RolePrompt::Review,
        Role::Fix => RolePrompt::Fix,
        Role::Prompt
        | Role::Plan
        | Role::Build
        | Role::Implement
        | Role::Compact
        | Role::Message => RolePrompt::Implement,
    };
    let (place, own) = (&project.directory, loaded.settings.prompts_dir.as_ref());
    let (beside, mut unusable) =
        Beside::gather(&work.file, place, |name| prompts::beside(place, &work.file, name));
    let template = prompts::template(place, own, prompt.name()).unwrap_or_else(|error| {
        unusable.push(error);
        None
    });
    let gates = recipe.commands();
    let frame = Frame {
        template: template.as_deref(),
        iteration: IterationNumber(1),
        limit: recipe.limits.iterations,
        vars: &recipe.prompt.vars,
        beside: &beside,
        gates: &gates,
    };
    let mut rendered = match (prompt, Keeping::of(recipe, &beside.tasks)) {
        (RolePrompt::Review | RolePrompt::Quality, keeping) => {
            let parts = ReviewParts { keeping, ..ReviewParts::of(Some(task)) };
            task_prompt::review(&parts, &frame)
        }
        (RolePrompt::Implement | RolePrompt::Fix | RolePrompt::Compact, None) => {
            Rendered { text: String::new(), warnings: Vec::new() }
        }
        (RolePrompt::Implement | RolePrompt::Compact, Some(keeping)) => {
            task_prompt::implement(&TaskParts::first(task, keeping), &frame)
        }
        (RolePrompt::Fix, Some(keeping)) => {
            let feedback = &task.review.feedback;
            let parts = TaskParts { review_feedback: feedback, ..TaskParts::first(task, keeping) };
            task_prompt::fix(&parts, &frame)
        }
    };
    rendered.warnings.extend(unusable.into_iter().map(|error| error.message));
    rendered
}

/// Prints what `ralph resume` would do next.
pub(crate) fn resume(layout: &Layout, run: &RunId) -> Result<ExitStatus, Complaint> {
    let state = journal::fold(&layout.run(run).journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let moment = Moment { now: clock::now(), ran: state.ran, stop: StopWish::GoOn };
    let next = match choose::next(&state, moment) {
        Step::Begin { iteration, .. } => format!("begin iteration {iteration}"),
        Step::Checkpoint(_) => "note the state that the iteration starts from".to_owned(),
        Step::Recover { .. } => {
            "look for the answer that was on its way, and ask again only if it is not whole"
                .to_owned()
        }
        Step::Ask { .. } => "ask the agent".to_owned(),
        Step::Wait { .. } => "wait until the agent may be asked again".to_owned(),
        Step::SeePlan
        | Step::Observe
        | Step::Check { .. }
        | Step::Hear { .. }
        | Step::Reuse { .. }
        | Step::Refuse { .. } => "run the gates".to_owned(),
        Step::ReadTasks => "read the task list".to_owned(),
        Step::WriteTasks | Step::WriteList => "write the task list".to_owned(),
        Step::BeginBaseline | Step::Baseline { .. } => "run the gates before any work".to_owned(),
        Step::Shelve => "put the work on a branch of its own".to_owned(),
        Step::Judge => "decide what follows from the iteration".to_owned(),
        Step::Survey | Step::Commit { .. } => "commit the work that passed".to_owned(),
        Step::Scm { command, words } => format!("run `{command} {}`", words.join(" ")),
        Step::Rollback => "go back to the checkpoint".to_owned(),
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

fn gates(recipe: &Recipe) -> String {
    if recipe.gates.is_empty() {
        return "\nThere are no gates: the agent's word alone completes the work.\n".to_owned();
    }
    let mut text = String::from("\nThen it runs the gates\n");
    for gate in &recipe.gates {
        let severity = match recipe.strategy.severity(gate) {
            Some(Severity::Hard) => "hard",
            Some(Severity::Soft) => "soft",
            None => "left out by the validation strategy",
        };
        let what = match &gate.check {
            Check::Command(command) => command.clone(),
            Check::Agent(agent) => format!("{}: a verdict of {}", gate.name, agent.command),
        };
        text.push_str(&format!(
            "  {what}\n    {severity}, at most {}, on failure {} to the prompt\n",
            gate.hard_limit,
            gate.fail_action.name()
        ));
    }
    text
}

fn landing(recipe: &Recipe, calls: &Calls) -> String {
    let failure = match recipe.landing.on_failure {
        OnFailure::Keep => "Work that fails stays in the tree for the next iteration.\n",
        OnFailure::Rollback => {
            "Work that fails is kept on refs/ralph/kept/ and the tree goes back to where it was.\n"
        }
    };
    let success = match &recipe.landing.commit {
        CommitPolicy::Nobody => {
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
                        quoted(&calls.words(
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

fn memory(recipe: &Recipe) -> String {
    let Some(policy) = &recipe.memory else { return String::new() };
    format!(
        "\nWhat was handed over is compacted by `{}` after {} attempts, beyond {} bytes, or when a\ntask wants documentation. That does not count as an iteration.\n",
        recipe.agent_for(Role::Compact).command,
        policy.every_iterations,
        policy.threshold_bytes
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}
