//! Builds the next agent call of a run without making it: nothing is started, nothing changed.
//!
//! The prompt is built from the state of a run by the same functions that a run uses. Before the
//! first run that is the state of a run which has only read its list. Not here: how it is shown.

use ralph_core::answer::Schema;
use ralph_core::board::Turn;
use ralph_core::capability::Support;
use ralph_core::context::SectionCost;
use ralph_core::event::{Checkpoint, Event, JOURNAL_VERSION, Recorded, TreeId};
use ralph_core::handoff::{Handoff, read};
use ralph_core::ids::{IterationNumber, Role, RunId};
use ralph_core::memory::{self, Since, Trigger};
use ralph_core::ports::{PromptError, Request, Vcs};
use ralph_core::prompt::attempt::{self as attempt_prompt, Gathered};
use ralph_core::prompt::compact::{self, CompactParts};
use ralph_core::prompt::keeping::Keeping;
use ralph_core::prompt::role::{Beside, Frame, Rendered, RolePrompt};
use ralph_core::prompt::run::RunFrame;
use ralph_core::prompt::task::{self as task_prompt, ReviewParts};
use ralph_core::prompt::{self, Parts};
use ralph_core::recipe::{
    AgentChoice, PROGRESS, PromptSource, Recipe, TaskWork, TemplatePlace, Work,
};
use ralph_core::run::{PromptSize, RunState};
use ralph_core::task::{Task, TaskList};
use ralph_core::units::{Millis, Tokens};
use ralph_core::{attempt, review, skill};
use ralph_io::clock;
use ralph_io::store::files::read_prompt;
use ralph_io::store::{project_file, prompts};

use crate::calls;
use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::Loaded;

/// A call that would be made.
pub(crate) struct Preview {
    /// With the prompt as the agent would get it.
    pub(crate) request: Request,
    pub(crate) iteration: IterationNumber,
    /// Tokens per section, where they are counted.
    pub(crate) budget: Vec<SectionCost>,
    pub(crate) warnings: Vec<String>,
}

/// A compaction that would run before the next task.
pub(crate) struct Compaction {
    pub(crate) preview: Preview,
    pub(crate) trigger: Trigger,
    /// Tokens per part.
    pub(crate) parts: Vec<(&'static str, Tokens)>,
    /// The state after the compaction, as far as it is known.
    pub(crate) after: RunState,
}

/// The inputs of a prompt.
pub(crate) struct Places<'a> {
    pub(crate) project: &'a Project,
    pub(crate) loaded: &'a Loaded,
    pub(crate) vcs: Option<&'a mut dyn Vcs>,
}

/// Role, task and answer schema of a call.
struct Call<'a> {
    role: Role,
    task: Option<&'a Task>,
    schema: Option<Schema>,
}

/// Returns the state of a run that has only started and read its task list, if it has one.
pub(crate) fn first_state(project: &Project, recipe: &Recipe, list: Option<TaskList>) -> RunState {
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
    RunState::fold(&events).expect("a run may begin and read its list")
}

/// Returns the next agent call of a run in this state.
pub(crate) fn next(state: &RunState, mut places: Places<'_>) -> Result<Preview, Complaint> {
    match &state.recipe.work {
        Work::Prompt(source) => {
            let rendered = text_of(state, source, &places)?;
            let call = Call { role: state.recipe.role, task: None, schema: None };
            places.finish(state, &call, rendered)
        }
        Work::Tasks(work) => {
            let nothing = || Complaint::input("there is nothing to do: no task can begin");
            let (role, task) = turn(state, work).ok_or_else(nothing)?;
            places.of_task(state, work, role, &task)
        }
    }
}

/// Returns the compaction that would run first, if one is due.
pub(crate) fn compaction(
    state: &RunState,
    places: &Places<'_>,
) -> Result<Option<Compaction>, Complaint> {
    let is_due = match &state.current {
        Some(current) => current.role == Role::Compact,
        None => state.compaction_due().is_some(),
    };
    let Some(work) = state.recipe.task_work().filter(|_| is_due) else { return Ok(None) };
    let trigger = state.trigger();
    // The state afterwards counts it as done, and holds at least what is carried over by rule.
    let number = iteration(state);
    let mut after = state.clone();
    after.memory = memory::left(state.memory.as_deref(), &state.since).map(Box::new);
    after.since = Since { compactions: state.since.compactions + 1, ..Since::default() };
    after.iterations = number.0;
    after.current = None;
    let surplus = after.handoffs.len().saturating_sub(1);
    after.handoffs.drain(..surplus);

    let (companions, template, unusable) = places.around(work, RolePrompt::Compact);
    let gates = state.recipe.commands();
    let frame = Frame {
        template: template.as_deref(),
        iteration: number,
        limit: after.last_iteration(),
        vars: &state.recipe.prompt.vars,
        beside: &companions,
        gates: &gates,
    };
    let parts = CompactParts::of(state, PromptSize::Full);
    let rendered = compact::compact(&parts, &frame);
    let call = Call { role: Role::Compact, task: None, schema: Some(memory::schema()) };
    let request = places.request(state, &call, &rendered.text)?;
    let mut warnings = rendered.warnings;
    warnings.extend(unusable.into_iter().map(|error| error.message));
    let chars: Vec<_> =
        parts.sections().map(|(name, text)| (name, text.chars().count())).into_iter().collect();
    let whole = request.prompt.chars().count();
    let rest = whole.saturating_sub(chars.iter().map(|(_, chars)| chars).sum());
    let parts = chars.into_iter().chain([("the rest", rest)]).filter(|(_, chars)| *chars > 0);
    let parts = parts.map(|(name, chars)| (name, state.calibration.tokens(chars))).collect();
    let request = Request { iteration: number, ..request };
    let preview = Preview { request, iteration: number, budget: Vec::new(), warnings };
    Ok(Some(Compaction { preview, trigger, parts, after }))
}

/// Returns the number of the open iteration, or of the next one.
fn iteration(state: &RunState) -> IterationNumber {
    let is_open = state.current.is_some();
    IterationNumber(state.iterations + u32::from(!is_open))
}

/// Returns the next role and task. A task that the user named is returned even if it cannot begin.
fn turn(state: &RunState, work: &TaskWork) -> Option<(Role, Task)> {
    let board = state.board.as_ref()?;
    let only = work.only.as_ref();
    let open = state.current.as_ref().and_then(|current| {
        let task = board.list.task(current.task.as_ref()?)?;
        only.is_none_or(|only| *only == task.id).then(|| (current.role, task.clone()))
    });
    if open.is_some() {
        return open;
    }
    match board.turn(work) {
        Turn::Next(next) => next.work().map(|(role, task)| (role, task.clone())),
        Turn::OnlyDone | Turn::OnlyWaits(_) | Turn::OnlyFailed => {
            Some((Role::Implement, board.list.task(only?)?.clone()))
        }
    }
}

/// Returns the text of a prompt workflow; empty for a task list.
pub(crate) fn first_text(
    project: &Project,
    loaded: &Loaded,
    recipe: &Recipe,
) -> Result<Rendered, Complaint> {
    match &recipe.work {
        Work::Prompt(source) => {
            let places = Places { project, loaded, vcs: None };
            text_of(&first_state(project, recipe, None), source, &places)
        }
        Work::Tasks(_) => Ok(Rendered::plain("")),
    }
}

fn text_of(
    state: &RunState,
    source: &PromptSource,
    places: &Places<'_>,
) -> Result<Rendered, Complaint> {
    let read =
        |path| read_prompt(&state.project, path).map_err(|error| Complaint::input(error.message));
    let plain = |text| Rendered::plain(prompt::with_finish_note(&state.recipe, text));
    let template = match source {
        PromptSource::Text(text) => return Ok(plain(text.clone())),
        PromptSource::File(path) => return Ok(plain(read(path)?)),
        PromptSource::Template(template) => template,
    };
    let (text, unusable) = match &template.place {
        TemplatePlace::File(path) => (read(path)?, None),
        TemplatePlace::Named(prompt) => {
            let own = places.loaded.settings.prompts_dir.as_ref();
            let ours = || prompt.template().to_owned();
            match prompts::template(&places.project.directory, own, prompt.name()) {
                Ok(text) => (text.unwrap_or_else(ours), None),
                Err(error) => (ours(), Some(error.message)),
            }
        }
    };
    let recipe = &state.recipe;
    let (gates, signal) = (recipe.commands(), recipe.signal());
    let frame = RunFrame::new(recipe, template, &text, &signal, &gates);
    let mut rendered = prompt::run::fill(&RunFrame { iteration: iteration(state), ..frame });
    rendered.warnings.extend(unusable);
    Ok(rendered)
}

impl Places<'_> {
    /// Returns the prompt for work on a task.
    fn of_task(
        &mut self,
        state: &RunState,
        work: &TaskWork,
        role: Role,
        task: &Task,
    ) -> Result<Preview, Complaint> {
        let (prompt, schema) = match role {
            Role::Review => (RolePrompt::Review, review::schema()),
            Role::Fix => (RolePrompt::Fix, read::schema()),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Compact
            | Role::Message => (RolePrompt::Implement, read::schema()),
        };
        // An agent that owns the list writes its result there.
        let schema = (!state.recipe.is_kept_by_agent()).then_some(schema);
        let call = Call { role, task: Some(task), schema };
        let (companions, template, mut unusable) = self.around(work, prompt);
        let gates = state.recipe.commands();
        let frame = Frame {
            template: template.as_deref(),
            iteration: iteration(state),
            limit: state.last_iteration(),
            vars: &state.recipe.prompt.vars,
            beside: &companions,
            gates: &gates,
        };
        let mut rendered = match prompt {
            RolePrompt::Review | RolePrompt::Quality => self.review(state, work, task, &frame),
            RolePrompt::Implement | RolePrompt::Fix | RolePrompt::Compact => {
                let reserved = self.request(state, &call, "")?.prompt.chars().count();
                let (gathered, missing) = self.gather(state, task, reserved);
                unusable.extend(missing);
                attempt_prompt::prompt(state, task, prompt, &frame, &gathered, clock::now())
                    .unwrap_or_else(|| Rendered::plain(""))
            }
        };
        rendered.warnings.extend(unusable.into_iter().map(|error| error.message));
        self.finish(state, &call, rendered)
    }

    /// Reads the companion files of a prompt and the project's own template for it.
    fn around(
        &self,
        work: &TaskWork,
        prompt: RolePrompt,
    ) -> (Beside, Option<String>, Vec<PromptError>) {
        let (directory, settings) = (&self.project.directory, &self.loaded.settings);
        let (companions, mut unusable) = Beside::gather(&work.file, directory, |name| {
            prompts::beside(directory, &work.file, name)
        });
        let own = prompts::template(directory, settings.prompts_dir.as_ref(), prompt.name());
        let template = own.unwrap_or_else(|error| {
            unusable.push(error);
            None
        });
        (companions, template, unusable)
    }

    fn review(
        &mut self,
        state: &RunState,
        work: &TaskWork,
        task: &Task,
        frame: &Frame<'_>,
    ) -> Rendered {
        let board = state.board.as_ref();
        let range = board.and_then(|board| board.work.get(&task.id));
        let patch = range.map(|(from, to)| self.diff(from, to, task_prompt::REVIEWED_PATCH));
        let patch = task_prompt::without_file(&patch.unwrap_or_default(), &work.file);
        let patch = task_prompt::without_file(&patch, &work.file.with_file_name(PROGRESS));
        let wanted = board.and_then(|board| board.wanted.get(&task.id));
        let is_of_task = |handoff: &&Handoff| handoff.task_completed.task_id == task.id;
        let parts = ReviewParts {
            patch: &patch,
            range: range.map(|(from, to)| (from, to)),
            account: state.handoffs.iter().rev().find(is_of_task),
            last_feedback: wanted.map(String::as_str).unwrap_or_default(),
            keeping: Keeping::of(&state.recipe, &frame.beside.tasks),
            ..ReviewParts::of(Some(task))
        };
        task_prompt::review(&parts, frame)
    }

    /// Reads what the prompt for an attempt needs in addition to the state.
    fn gather(
        &mut self,
        state: &RunState,
        task: &Task,
        reserved: usize,
    ) -> (Gathered, Vec<PromptError>) {
        let mut unusable = Vec::new();
        let directory = self.loaded.settings.skills_dir.as_ref();
        let mut skills = Vec::new();
        for name in &task.skills {
            let own = prompts::skill(&self.project.directory, directory, name);
            match own.map(|own| own.or_else(|| skill::shipped(name).map(str::to_owned))) {
                Ok(Some(text)) => skills.push((name.clone(), text)),
                Ok(None) => unusable.push(PromptError { message: skill::missing(name) }),
                Err(error) => unusable.push(error),
            }
        }
        let log = attempt_prompt::log_of(state, task);
        let last = log.recent.last().and_then(|attempt| attempt.tree.as_ref());
        let patch = match (&state.base, last) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(last))
                if attempt_prompt::wants_patch(&log) =>
            {
                self.diff(base, last, attempt_prompt::FAILED_PATCH)
            }
            (_, _) => String::new(),
        };
        let files = if attempt_prompt::wants_files(&log) {
            attempt::named_paths(&log.outputs)
        } else {
            Vec::new()
        };
        let read = |path: String| {
            let text = project_file(&self.project.directory, &path, attempt_prompt::CONTEXT_CHARS)?;
            Some((path, text))
        };
        let files =
            files.into_iter().filter_map(read).take(attempt_prompt::CONTEXT_FILES).collect();
        (Gathered { skills, patch, files, size: PromptSize::Full, reserved }, unusable)
    }

    /// Returns a patch; empty if git cannot make it.
    fn diff(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> String {
        let vcs = self.vcs.as_mut();
        vcs.and_then(|vcs| vcs.diff(from, to, chars).ok()).unwrap_or_default()
    }

    /// Adds what every prompt contains.
    fn finish(
        &self,
        state: &RunState,
        call: &Call<'_>,
        rendered: Rendered,
    ) -> Result<Preview, Complaint> {
        let Rendered { text: base, warnings, mut budget } = rendered;
        let iteration = iteration(state);
        let limit = state.last_iteration();
        let feedback = &state.feedback;
        let parts = Parts { base: &base, feedback, iteration, limit, size: PromptSize::Full };
        let prompt = match (call.role, &call.schema) {
            // A review that returns its verdict to ralph gets nothing but what it reviews.
            (Role::Review, Some(_)) => base.clone(),
            (_, _) => prompt::assemble(&state.recipe.prompt, parts),
        };
        prompt::count_feedback(&mut budget, &base, &prompt, state.calibration);
        let request = self.request(state, call, &prompt)?;
        Ok(Preview { request: Request { iteration, ..request }, iteration, budget, warnings })
    }

    /// Returns the request. A system prompt that the agent cannot take separately precedes the prompt.
    fn request(
        &self,
        state: &RunState,
        call: &Call<'_>,
        prompt: &str,
    ) -> Result<Request, Complaint> {
        let recipe = &state.recipe;
        let is_stuck = call.task.is_some_and(|task| {
            call.role != Role::Review
                && attempt_prompt::wants_patch(&attempt_prompt::log_of(state, task))
        });
        let agent = match &recipe.escalate {
            Some(agent) if is_stuck => agent,
            Some(_) | None => recipe.agent_for(call.role),
        };
        let is_attempt = matches!(call.role, Role::Implement | Role::Fix);
        let turns = call.task.filter(|_| is_attempt).and_then(|task| task.max_turns);
        let agent = &AgentChoice { max_turns: turns.or(agent.max_turns), ..agent.clone() };
        let mut request = calls::request(agent, call.role, prompt, &recipe.limits);
        if let (Some(file), Support::No) = (&agent.system_prompt, agent.capabilities.system_prompt)
        {
            let system_prompt = read_prompt(&self.project.directory, file)
                .map_err(|error| Complaint::input(error.message))?;
            request.prompt = format!("{}\n\n{}", system_prompt.trim_end(), request.prompt);
        }
        request.task = call.task.map(|task| task.id.clone());
        Ok(match &call.schema {
            Some(schema) => request.wanting(schema.clone()),
            None => request,
        })
    }
}
