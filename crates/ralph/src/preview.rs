//! Builds the next agent call of a run without making it: nothing is started, nothing changed.
//!
//! The prompt is built from the state of a run by the same functions that a run uses. Before the
//! first run that is the state of a run which has only read its list. Not here: how it is shown.

use ralph_core::answers::structured_output::Schema;
use ralph_core::asking::prompt::attempt::GatheredInputs;
use ralph_core::asking::prompt::compact::{self, CompactParts};
use ralph_core::asking::prompt::list_ownership::ListOwnership;
use ralph_core::asking::prompt::role::{CompanionFiles, RenderedPrompt, RoleFrame, RolePrompt};
use ralph_core::asking::prompt::run::{RunFrame, find_run_template};
use ralph_core::asking::prompt::task::ReviewParts;
use ralph_core::asking::prompt::{
    self, PromptError, PromptParts, attempt as attempt_prompt, task as task_prompt,
};
use ralph_core::checking::review;
use ralph_core::memory::{self, handoff_reading as read};
use ralph_core::ports::{AgentRequest, Vcs};
use ralph_core::run_loop::fold::fold_events;
use ralph_core::tasks::next_work::{WorkChoice, choose_work, compaction_due, compaction_trigger};
use ralph_core::tasks::{attempt, skill};
use ralph_io::clock;
use ralph_io::store::files::read_prompt;
use ralph_io::store::{prompts, read_project_excerpt};
use ralph_model::agent::AgentChoice;
use ralph_model::capability::Support;
use ralph_model::context::SectionCost;
use ralph_model::event::{Event, JOURNAL_VERSION, Recorded};
use ralph_model::handoff::Handoff;
use ralph_model::ids::{IterationNumber, Role, RunId};
use ralph_model::memory::{CompactionTrigger, SinceCompaction};
use ralph_model::recipe::{PROGRESS, PromptSource, Recipe, TaskWork, TemplatePlace, Work};
use ralph_model::run::{PromptSize, RunState};
use ralph_model::task::{Task, TaskList};
use ralph_model::units::{Millis, Tokens};
use ralph_model::worktree::{Checkpoint, TreeId};

use crate::call_preview;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::LoadedSettings;

/// A call that would be made.
pub(crate) struct RequestPreview {
    /// With the prompt as the agent would get it.
    pub(crate) request: AgentRequest,
    pub(crate) iteration: IterationNumber,
    /// Tokens per section, where they are counted.
    pub(crate) budget: Vec<SectionCost>,
    pub(crate) warnings: Vec<String>,
}

/// A compaction that would run before the next task.
pub(crate) struct CompactionPreview {
    pub(crate) preview: RequestPreview,
    pub(crate) trigger: CompactionTrigger,
    /// Tokens per part.
    pub(crate) parts: Vec<(&'static str, Tokens)>,
    /// The state after the compaction, as far as it is known.
    pub(crate) after: RunState,
}

/// The inputs of a prompt.
pub(crate) struct PreviewInputs<'a> {
    pub(crate) project: &'a Project,
    pub(crate) loaded: &'a LoadedSettings,
    pub(crate) vcs: Option<&'a mut dyn Vcs>,
}

/// Role, task and answer schema of a call.
struct PreviewedCall<'a> {
    role: Role,
    task: Option<&'a Task>,
    schema: Option<Schema>,
}

/// Returns the state of a run that has only started and read its task list, if it has one.
pub(crate) fn build_first_state(
    project: &Project,
    recipe: &Recipe,
    list: Option<TaskList>,
) -> RunState {
    let recorded = |seq, event| Recorded { seq, at: clock::now(), ran: Millis::ZERO, event };
    let started = Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: String::new(),
        run: RunId("<run>".to_owned()),
        project: project.directory.clone(),
        recipe: Box::new(recipe.clone()),
    };
    let read = list.map(|list| Event::TasksRead { list: Box::new(list), remarks: Vec::new() });
    let events: Vec<Recorded> = (1..)
        .zip(std::iter::once(started).chain(read))
        .map(|(seq, event)| recorded(seq, event))
        .collect();
    fold_events(&events).expect("a run may begin and read its list")
}

/// Returns the next agent call of a run in this state.
pub(crate) fn preview_next(
    state: &RunState,
    mut places: PreviewInputs<'_>,
) -> Result<RequestPreview, CliError> {
    match &state.recipe.work {
        Work::Prompt(source) => {
            let rendered = render_prompt(state, source, &places)?;
            let call = PreviewedCall { role: state.recipe.role, task: None, schema: None };
            places.finish_preview(state, &call, rendered)
        }
        Work::Tasks(work) => {
            let nothing = || CliError::for_input("there is nothing to do: no task can begin");
            let (role, task) = choose_next_work(state, work).ok_or_else(nothing)?;
            places.preview_task(state, work, role, &task)
        }
    }
}

/// Returns the compaction that would run first, if one is due.
pub(crate) fn preview_compaction(
    state: &RunState,
    places: &PreviewInputs<'_>,
) -> Result<Option<CompactionPreview>, CliError> {
    let is_due = match &state.current {
        Some(current) => current.role == Role::Compact,
        None => compaction_due(&state).is_some(),
    };
    let Some(work) = state.recipe.task_work().filter(|_| is_due) else { return Ok(None) };
    let trigger = compaction_trigger(&state);
    // The state afterwards counts it as done, and holds at least what is carried over by rule.
    let number = find_current_iteration(state);
    let mut after = state.clone();
    after.memory =
        memory::build_final_memory(state.memory.as_deref(), &state.since_compaction).map(Box::new);
    after.since_compaction = SinceCompaction {
        compactions: state.since_compaction.compactions + 1,
        ..SinceCompaction::default()
    };
    after.iterations = number.0;
    after.current = None;
    let surplus = after.handoffs.len().saturating_sub(1);
    after.handoffs.drain(..surplus);

    let (companions, template, unusable) = places.read_companions(work, RolePrompt::Compact);
    let gates = state.recipe.gate_commands();
    let frame = RoleFrame {
        template: template.as_deref(),
        iteration: number,
        limit: after.last_iteration(),
        vars: &state.recipe.prompt.vars,
        companions: &companions,
        gates: &gates,
    };
    let parts = CompactParts::from_state(state, PromptSize::Full);
    let rendered = compact::render_compact_prompt(&parts, &frame);
    let call = PreviewedCall {
        role: Role::Compact,
        task: None,
        schema: Some(memory::build_memory_schema()),
    };
    let request = places.build_request(state, &call, &rendered.text)?;
    let mut warnings = rendered.warnings;
    warnings.extend(unusable.into_iter().map(|error| error.message));
    let chars: Vec<_> =
        parts.sections().map(|(name, text)| (name, text.chars().count())).into_iter().collect();
    let whole = request.prompt.chars().count();
    let rest = whole.saturating_sub(chars.iter().map(|(_, chars)| chars).sum());
    let parts = chars.into_iter().chain([("the rest", rest)]).filter(|(_, chars)| *chars > 0);
    let parts =
        parts.map(|(name, chars)| (name, state.calibration.estimate_tokens(chars))).collect();
    let request = AgentRequest { iteration: number, ..request };
    let preview = RequestPreview { request, iteration: number, budget: Vec::new(), warnings };
    Ok(Some(CompactionPreview { preview, trigger, parts, after }))
}

/// Returns the number of the open iteration, or of the next one.
fn find_current_iteration(state: &RunState) -> IterationNumber {
    let is_open = state.current.is_some();
    IterationNumber(state.iterations + u32::from(!is_open))
}

/// Returns the next role and task. A task that the user named is returned even if it cannot begin.
fn choose_next_work(state: &RunState, work: &TaskWork) -> Option<(Role, Task)> {
    let board = state.tasks.as_ref()?;
    let only = work.only.as_ref();
    let open = state.current.as_ref().and_then(|current| {
        let task = board.list.find_task(current.task.as_ref()?)?;
        only.is_none_or(|only| *only == task.id).then(|| (current.role, task.clone()))
    });
    if open.is_some() {
        return open;
    }
    match choose_work(&board, work) {
        WorkChoice::Next(next) => next.role_and_task().map(|(role, task)| (role, task.clone())),
        WorkChoice::OnlyDone | WorkChoice::OnlyWaits(_) | WorkChoice::OnlyFailed => {
            Some((Role::Implement, board.list.find_task(only?)?.clone()))
        }
    }
}

/// Returns the text of a prompt workflow; empty for a task list.
pub(crate) fn render_first_prompt(
    project: &Project,
    loaded: &LoadedSettings,
    recipe: &Recipe,
) -> Result<RenderedPrompt, CliError> {
    match &recipe.work {
        Work::Prompt(source) => {
            let places = PreviewInputs { project, loaded, vcs: None };
            render_prompt(&build_first_state(project, recipe, None), source, &places)
        }
        Work::Tasks(_) => Ok(RenderedPrompt::from_text("")),
    }
}

fn render_prompt(
    state: &RunState,
    source: &PromptSource,
    places: &PreviewInputs<'_>,
) -> Result<RenderedPrompt, CliError> {
    let read = |path| {
        read_prompt(&state.project, path).map_err(|error| CliError::for_input(error.message))
    };
    let plain = |text| RenderedPrompt::from_text(prompt::with_finish_note(&state.recipe, text));
    let template = match source {
        PromptSource::Text(text) => return Ok(plain(text.clone())),
        PromptSource::File(path) => return Ok(plain(read(path)?)),
        PromptSource::Template(template) => template,
    };
    let (text, unusable) = match &template.place {
        TemplatePlace::File(path) => (read(path)?, None),
        TemplatePlace::Named(prompt) => {
            let own = places.loaded.settings.prompts_dir.as_ref();
            let ours = || find_run_template(*prompt).to_owned();
            match prompts::read_template(&places.project.directory, own, prompt.name()) {
                Ok(text) => (text.unwrap_or_else(ours), None),
                Err(error) => (ours(), Some(error.message)),
            }
        }
    };
    let recipe = &state.recipe;
    let (gates, signal) = (recipe.gate_commands(), recipe.completion_signal());
    let frame = RunFrame::new(recipe, template, &text, &signal, &gates);
    let mut rendered = prompt::run::fill_run_template(&RunFrame {
        iteration: find_current_iteration(state),
        ..frame
    });
    rendered.warnings.extend(unusable);
    Ok(rendered)
}

impl PreviewInputs<'_> {
    /// Returns the prompt for work on a task.
    fn preview_task(
        &mut self,
        state: &RunState,
        work: &TaskWork,
        role: Role,
        task: &Task,
    ) -> Result<RequestPreview, CliError> {
        let (prompt, schema) = match role {
            Role::Review => (RolePrompt::Review, review::build_verdict_schema()),
            Role::Fix => (RolePrompt::Fix, read::build_handoff_schema()),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Compact
            | Role::Message => (RolePrompt::Implement, read::build_handoff_schema()),
        };
        // An agent that owns the list writes its result there.
        let schema = (!state.recipe.is_list_owned_by_agent()).then_some(schema);
        let call = PreviewedCall { role, task: Some(task), schema };
        let (companions, template, mut unusable) = self.read_companions(work, prompt);
        let gates = state.recipe.gate_commands();
        let frame = RoleFrame {
            template: template.as_deref(),
            iteration: find_current_iteration(state),
            limit: state.last_iteration(),
            vars: &state.recipe.prompt.vars,
            companions: &companions,
            gates: &gates,
        };
        let mut rendered = match prompt {
            RolePrompt::Review | RolePrompt::Quality => {
                self.render_review(state, work, task, &frame)
            }
            RolePrompt::Implement | RolePrompt::Fix | RolePrompt::Compact => {
                let reserved = self.build_request(state, &call, "")?.prompt.chars().count();
                let (gathered, missing) = self.gather_attempt(state, task, reserved);
                unusable.extend(missing);
                attempt_prompt::render_attempt_prompt(
                    state,
                    task,
                    prompt,
                    &frame,
                    &gathered,
                    clock::now(),
                )
                .unwrap_or_else(|| RenderedPrompt::from_text(""))
            }
        };
        rendered.warnings.extend(unusable.into_iter().map(|error| error.message));
        self.finish_preview(state, &call, rendered)
    }

    /// Reads the companion files of a prompt and the project's own template for it.
    fn read_companions(
        &self,
        work: &TaskWork,
        prompt: RolePrompt,
    ) -> (CompanionFiles, Option<String>, Vec<PromptError>) {
        let (directory, settings) = (&self.project.directory, &self.loaded.settings);
        let (companions, mut unusable) =
            CompanionFiles::read_files(&work.file, directory, |name| {
                prompts::read_companion(directory, &work.file, name)
            });
        let own = prompts::read_template(directory, settings.prompts_dir.as_ref(), prompt.name());
        let template = own.unwrap_or_else(|error| {
            unusable.push(error);
            None
        });
        (companions, template, unusable)
    }

    fn render_review(
        &mut self,
        state: &RunState,
        work: &TaskWork,
        task: &Task,
        frame: &RoleFrame<'_>,
    ) -> RenderedPrompt {
        let board = state.tasks.as_ref();
        let range = board.and_then(|board| board.review_ranges.get(&task.id));
        let patch = range.map(|(from, to)| self.make_patch(from, to, task_prompt::REVIEWED_PATCH));
        let patch = task_prompt::remove_file_from_patch(&patch.unwrap_or_default(), &work.file);
        let patch =
            task_prompt::remove_file_from_patch(&patch, &work.file.with_file_name(PROGRESS));
        let wanted = board.and_then(|board| board.requested_changes.get(&task.id));
        let is_of_task = |handoff: &&Handoff| handoff.task_completed.task_id == task.id;
        let parts = ReviewParts {
            patch: &patch,
            range: range.map(|(from, to)| (from, to)),
            handoff: state.handoffs.iter().rev().find(is_of_task),
            last_feedback: wanted.map(String::as_str).unwrap_or_default(),
            keeping: ListOwnership::for_recipe(&state.recipe, &frame.companions.tasks),
            ..ReviewParts::for_task(Some(task))
        };
        task_prompt::render_review(&parts, frame)
    }

    /// Reads what the prompt for an attempt needs in addition to the state.
    fn gather_attempt(
        &mut self,
        state: &RunState,
        task: &Task,
        reserved: usize,
    ) -> (GatheredInputs, Vec<PromptError>) {
        let mut unusable = Vec::new();
        let directory = self.loaded.settings.skills_dir.as_ref();
        let mut skills = Vec::new();
        for name in &task.skills {
            let own = prompts::read_skill(&self.project.directory, directory, name);
            match own.map(|own| own.or_else(|| skill::find_shipped(name).map(str::to_owned))) {
                Ok(Some(text)) => skills.push((name.clone(), text)),
                Ok(None) => unusable.push(PromptError { message: skill::describe_missing(name) }),
                Err(error) => unusable.push(error),
            }
        }
        let log = attempt_prompt::find_attempt_log(state, task);
        let last = log.recent.last().and_then(|attempt| attempt.tree.as_ref());
        let patch = match (&state.base, last) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(last))
                if attempt_prompt::needs_patch(&log) =>
            {
                self.make_patch(base, last, attempt_prompt::FAILED_PATCH)
            }
            (_, _) => String::new(),
        };
        let files = if attempt_prompt::needs_files(&log) {
            attempt::find_named_paths(&log.outputs)
        } else {
            Vec::new()
        };
        let read = |path: String| {
            let text = read_project_excerpt(
                &self.project.directory,
                &path,
                attempt_prompt::CONTEXT_CHARS,
            )?;
            Some((path, text))
        };
        let files =
            files.into_iter().filter_map(read).take(attempt_prompt::CONTEXT_FILES).collect();
        (GatheredInputs { skills, patch, files, size: PromptSize::Full, reserved }, unusable)
    }

    /// Returns a patch; empty if git cannot make it.
    fn make_patch(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> String {
        let vcs = self.vcs.as_mut();
        vcs.and_then(|vcs| vcs.diff_trees(from, to, chars).ok()).unwrap_or_default()
    }

    /// Adds what every prompt contains.
    fn finish_preview(
        &self,
        state: &RunState,
        call: &PreviewedCall<'_>,
        rendered: RenderedPrompt,
    ) -> Result<RequestPreview, CliError> {
        let RenderedPrompt { text: base, warnings, mut budget } = rendered;
        let iteration = find_current_iteration(state);
        let limit = state.last_iteration();
        let feedback = &state.feedback;
        let parts = PromptParts { base: &base, feedback, iteration, limit, size: PromptSize::Full };
        let prompt = match (call.role, &call.schema) {
            // A review that returns its verdict to ralph gets nothing but what it reviews.
            (Role::Review, Some(_)) => base.clone(),
            (_, _) => prompt::assemble_prompt(&state.recipe.prompt, parts),
        };
        prompt::count_feedback(&mut budget, &base, &prompt, state.calibration);
        let request = self.build_request(state, call, &prompt)?;
        Ok(RequestPreview {
            request: AgentRequest { iteration, ..request },
            iteration,
            budget,
            warnings,
        })
    }

    /// Returns the request. A system prompt that the agent cannot take separately precedes the prompt.
    fn build_request(
        &self,
        state: &RunState,
        call: &PreviewedCall<'_>,
        prompt: &str,
    ) -> Result<AgentRequest, CliError> {
        let recipe = &state.recipe;
        let is_stuck = call.task.is_some_and(|task| {
            call.role != Role::Review
                && attempt_prompt::needs_patch(&attempt_prompt::find_attempt_log(state, task))
        });
        let agent = match &recipe.escalate {
            Some(agent) if is_stuck => agent,
            Some(_) | None => recipe.agent_for(call.role),
        };
        let is_attempt = matches!(call.role, Role::Implement | Role::Fix);
        let turns = call.task.filter(|_| is_attempt).and_then(|task| task.max_turns);
        let agent = &AgentChoice { max_turns: turns.or(agent.max_turns), ..agent.clone() };
        let mut request =
            call_preview::build_first_request(agent, call.role, prompt, &recipe.limits);
        if let (Some(file), Support::No) = (&agent.system_prompt, agent.capabilities.system_prompt)
        {
            let system_prompt = read_prompt(&self.project.directory, file)
                .map_err(|error| CliError::for_input(error.message))?;
            request.prompt = format!("{}\n\n{}", system_prompt.trim_end(), request.prompt);
        }
        request.task = call.task.map(|task| task.id.clone());
        Ok(match &call.schema {
            Some(schema) => request.with_schema(schema.clone()),
            None => request,
        })
    }
}
