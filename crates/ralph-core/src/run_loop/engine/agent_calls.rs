//! Agent calls: builds the prompt, makes the call, and recovers the reply of a call that
//! a crash cut off.

use ralph_model::agent::AgentChoice;
use ralph_model::agent_call_state::WrongAnswer;
use ralph_model::agent_output::Reply;
use ralph_model::attempt::AttemptLog;
use ralph_model::capability::{SchemaOutput, Support};
use ralph_model::context::SectionCost;
use ralph_model::control::{UserNote, count_note_chars, takes_notes, with_notes};
use ralph_model::event::{Event, Purpose};
use ralph_model::failure::FailureClass;
use ralph_model::gate::{Gate, GateCheck, GateKind};
use ralph_model::handoff::Handoff;
use ralph_model::ids::{AskNumber, IterationNumber, Role};
use ralph_model::recipe::{PROGRESS, PromptSource, Template, TemplatePlace, Work};
use ralph_model::run::PromptSize;
use ralph_model::stuck::Escalation;
use ralph_model::task::Task;
use ralph_model::text;
use ralph_model::units::Millis;
use ralph_model::worktree::{Checkpoint, TreeId};

use super::{Engine, StepError};
use crate::answers::structured_output;
use crate::asking::prompt::attempt::GatheredInputs;
use crate::asking::prompt::follow_up::{WantedAnswer, render_follow_up};
use crate::asking::prompt::role::{RoleFrame, RolePrompt};
use crate::asking::prompt::run::{self, RunFrame};
use crate::asking::prompt::task::{ReviewFocus, ReviewParts};
use crate::asking::prompt::{self, PromptParts, attempt as attempt_prompt, task as task_prompt};
use crate::checking::review;
use crate::hooks::call_state::build_call_state;
use crate::landing::scm;
use crate::memory::{self, handoff_reading as read};
use crate::ports::{AgentRequest, Moment, View};
use crate::tasks::attempt;

impl Engine<'_> {
    /// Calls an agent, and records the call before and the reply after it.
    pub(super) fn call_agent(
        &mut self,
        ask: AskNumber,
        purpose: Purpose,
        size: PromptSize,
        moment: Moment,
    ) -> Result<(), StepError> {
        if purpose == Purpose::Work {
            self.ensure_plan()?;
            // The agent of the previous call did not finish, so its edits of the list are
            // discarded.
            let is_again = self.map_current(|current| current.asks > 0) == Some(true);
            if is_again && self.state.recipe.is_list_owned_by_agent() {
                self.restore_task_file()?;
            }
        }
        // Instructions that every prompt of this agent carries take some of the room.
        let token = self.make_token(ask, moment);
        let bare = self.build_request(ask, purpose.clone(), String::new(), Some(&token), moment);
        let notes = self.collect_notes(&purpose);
        let reserved = self.add_instructions(bare)?.prompt.chars().count();
        let reserved = reserved + count_note_chars(&notes);
        let (prompt, budget) = self.build_prompt(&purpose, size, reserved, moment)?;
        let prompt = with_notes(prompt, &notes);
        let request = self.build_request(ask, purpose.clone(), prompt, Some(&token), moment);
        let request = self.add_instructions(request)?;
        let token =
            request.schema.as_ref().and_then(|schema| structured_output::find_token(schema));
        if let Some(before) = self.state_to_restore(&purpose) {
            self.ports.vcs.keep_reachable(&self.git_mark(), &before);
        }
        self.record_event(Event::Asked {
            ask,
            role: request.role,
            purpose,
            agent: request.agent.kind,
            command: self.ports.agent.command_line(&request),
            prompt_chars: request.prompt.chars().count(),
            prompt_start: text::shorten_to_line(&request.prompt, 200),
            budget,
            token: token.map(str::to_owned),
        })?;
        let active = build_call_state(&self.state, &request, moment.now);
        let published = self.ports.store.publish_view(&View::HookState(&active));
        self.warn_on_error(published)?;
        let ui = &mut *self.ports.ui;
        let reply = self.ports.agent.ask(&request, &mut |event| ui.show_agent_event(event));
        self.record_reply(ask, reply)
    }

    /// Returns the user's notes for the agent: those that an earlier call of the
    /// iteration got, and those that have arrived since.
    fn collect_notes(&self, purpose: &Purpose) -> Vec<UserNote> {
        let Some(current) = self.state.current.as_ref().filter(|_| *purpose == Purpose::Work)
        else {
            return Vec::new();
        };
        if current.work().is_some_and(|call| call.wrong.is_some()) {
            return Vec::new();
        }
        let new = if takes_notes(current.role) { &self.state.control.notes[..] } else { &[] };
        current.notes.iter().chain(new).cloned().collect()
    }

    /// Records a reply and its warnings.
    fn record_reply(&mut self, ask: AskNumber, mut reply: Reply) -> Result<(), StepError> {
        let mut warnings = std::mem::take(&mut reply.warnings);
        if reply.failure.as_ref().is_some_and(|it| it.class == FailureClass::SchemaRefused) {
            warnings.push(
                "the model's API refuses the JSON Schema of the answer; ralph asks for it in the \
                 prompt instead"
                    .to_owned(),
            );
        }
        self.record_event(Event::Replied { ask, reply: Box::new(reply) })?;
        for warning in warnings {
            self.warn_once(warning)?;
        }
        Ok(())
    }

    /// Looks for the reply to a call that was started before a crash. Calls the agent
    /// again only if the reply was not received completely.
    pub(super) fn recover_call(
        &mut self,
        ask: AskNumber,
        purpose: Purpose,
        moment: Moment,
    ) -> Result<(), StepError> {
        let token =
            self.map_current(|current| current.call_state(&purpose)?.token.clone()).flatten();
        let request =
            self.build_request(ask, purpose.clone(), String::new(), token.as_deref(), moment);
        if let Some(reply) = self.ports.agent.recover(&request) {
            return self.record_reply(ask, reply);
        }
        let size = self.map_current(|current| Some(current.call_state(&purpose)?.size)).flatten();
        let size = size.unwrap_or_default();
        self.call_agent(AskNumber(ask.0 + 1), purpose, size, moment)
    }

    /// Returns a token that cannot occur in work done before this moment.
    fn make_token(&self, ask: AskNumber, moment: Moment) -> String {
        let Moment { now, ran, .. } = moment;
        let (run, iteration) = (&self.state.run, self.state.iterations);
        structured_output::make_token(&format!("{run} {iteration} {} {} {}", ask.0, now.0, ran.0))
    }

    fn build_request(
        &self,
        ask: AskNumber,
        purpose: Purpose,
        prompt: String,
        token: Option<&str>,
        moment: Moment,
    ) -> AgentRequest {
        let limits = &self.state.recipe.limits;
        let gate = self.find_gate(&purpose);
        let role = match &purpose {
            Purpose::Work => self.map_current(|current| current.role).unwrap_or(Role::Prompt),
            Purpose::Gate(_) => Role::Review,
            Purpose::Message => Role::Message,
        };
        let (soft_limit, hard_limit) = match gate {
            Some(gate) => (gate.soft_limit, gate.hard_limit),
            None => (limits.ask_soft, limits.ask_hard),
        };
        // An agent may not run past the time limit of the run or of its task.
        let left = [limits.budget.time_left(moment.ran), self.task_time_left()];
        let hard_limit = left.into_iter().flatten().fold(hard_limit, Ord::min).max(Millis(1));
        let mut agent = self.select_agent(role, gate);
        if self.state.schema_refused_by.contains(&agent.kind) {
            agent.capabilities.schema = SchemaOutput::None;
        }
        let cost_left = match agent.capabilities.cost_limit {
            Support::Yes => limits.budget.cost_left(self.state.totals.usage),
            Support::No => None,
        };
        // A structured answer arrives separately from text that the agent quotes, so it
        // needs no token.
        let token = match agent.capabilities.schema {
            SchemaOutput::None => token,
            SchemaOutput::Unchecked | SchemaOutput::Enforced => None,
        };
        let verdict = || match token {
            Some(token) => review::build_verdict_schema().with_token(token),
            None => review::build_verdict_schema(),
        };
        AgentRequest {
            run: self.state.run.clone(),
            iteration: IterationNumber(self.state.iterations),
            ask,
            role,
            task: self.map_current(|current| current.task.clone()).flatten(),
            agent,
            prompt,
            schema: match (&purpose, role) {
                // An agent that owns the list reports in the list and in its notes. With
                // a schema the agent would end before its hooks have run.
                (Purpose::Work, Role::Compact) => Some(memory::build_memory_schema()),
                (Purpose::Work, _) if self.state.recipe.is_list_owned_by_agent() => None,
                (Purpose::Gate(_), _) | (Purpose::Work, Role::Review) => Some(verdict()),
                (Purpose::Work, Role::Implement | Role::Fix) => Some(read::build_handoff_schema()),
                (Purpose::Work | Purpose::Message, _) => None,
            },
            purpose,
            soft_limit,
            hard_limit,
            idle_limit: limits.ask_idle,
            cost_left,
        }
    }

    /// Puts the system prompt file in front of the prompt for an agent that has no option
    /// for it.
    fn add_instructions(&mut self, mut request: AgentRequest) -> Result<AgentRequest, StepError> {
        match (&request.agent.system_prompt, request.agent.capabilities.system_prompt) {
            (Some(file), Support::No) => {
                let instructions = self.ports.store.read_prompt(file)?;
                request.prompt = format!("{}\n\n{}", instructions.trim_end(), request.prompt);
            }
            (Some(_), Support::Yes) | (None, _) => {}
        }
        Ok(match request.schema.take() {
            Some(schema) => request.with_schema(schema),
            None => request,
        })
    }

    fn find_gate(&self, purpose: &Purpose) -> Option<&Gate> {
        match purpose {
            Purpose::Gate(name) => self.state.recipe.gates.iter().find(|gate| gate.name == *name),
            Purpose::Work | Purpose::Message => None,
        }
    }

    fn select_agent(&self, role: Role, gate: Option<&Gate>) -> AgentChoice {
        let recipe = &self.state.recipe;
        if let Some(GateCheck::Agent(agent)) = gate.map(|gate| &gate.check) {
            return (**agent).clone();
        }
        if role == Role::Compact {
            return self.compaction_agent();
        }
        let is_attempt = matches!(role, Role::Implement | Role::Fix);
        let agent = match (&recipe.escalate, self.attempt_log().escalation) {
            (Some(agent), Escalation::StrategyShift | Escalation::ContextExpansion)
                if is_attempt =>
            {
                agent
            }
            (_, _) => recipe.agent_for(role),
        };
        let turns = self.current_task().filter(|_| is_attempt).and_then(|task| task.max_turns);
        AgentChoice { max_turns: turns.or(agent.max_turns), ..agent.clone() }
    }

    /// Returns the time left for the current task.
    fn task_time_left(&self) -> Option<Millis> {
        let limit = self.state.recipe.task_work()?.hard_limit;
        self.current_task()?;
        let used = self.attempt_log().spent.saturating_add(self.state.ran_in_iteration());
        Some(Millis(limit.0.saturating_sub(used.0)))
    }

    /// Returns the task of the open iteration.
    pub(super) fn current_task(&self) -> Option<&Task> {
        let id = self.state.current.as_ref()?.task.as_ref()?;
        self.state.tasks.as_ref()?.list.find_task(id)
    }

    /// Returns the attempt log of the task of the open iteration.
    pub(super) fn attempt_log(&self) -> AttemptLog {
        match (&self.state.tasks, self.current_task()) {
            (Some(tasks), Some(task)) => tasks.attempt_log(&task.id),
            (_, _) => AttemptLog::default(),
        }
    }

    fn build_prompt(
        &mut self,
        purpose: &Purpose,
        size: PromptSize,
        reserved: usize,
        moment: Moment,
    ) -> Result<(String, Vec<SectionCost>), StepError> {
        let role = self.map_current(|current| current.role);
        let uncounted = |text: String| (text, Vec::new());
        let wrong =
            self.map_current(|current| current.call_state(purpose)?.wrong.clone()).flatten();
        if let Some(wrong) = wrong {
            return Ok(uncounted(self.build_follow_up_prompt(purpose, &wrong)));
        }
        let (base, mut budget) = match (purpose, role) {
            (Purpose::Message, _) => return Ok(uncounted(scm::MESSAGE_PROMPT.to_owned())),
            (Purpose::Gate(name), _) => return self.build_gate_prompt(name).map(uncounted),
            (Purpose::Work, Some(Role::Review)) if self.state.recipe.is_list_owned_by_agent() => {
                uncounted(self.build_review_prompt()?)
            }
            (Purpose::Work, Some(Role::Review)) => {
                return self.build_review_prompt().map(uncounted);
            }
            (Purpose::Work, Some(Role::Compact)) => {
                return self.build_compaction_prompt(size).map(uncounted);
            }
            (Purpose::Work, Some(Role::Implement)) => {
                self.build_task_prompt(RolePrompt::Implement, size, reserved, moment)?
            }
            (Purpose::Work, Some(Role::Fix)) => {
                self.build_task_prompt(RolePrompt::Fix, size, reserved, moment)?
            }
            (Purpose::Work, _) => {
                let text = self.read_base_text()?;
                uncounted(prompt::with_finish_note(&self.state.recipe, text))
            }
        };
        let parts = PromptParts {
            base: &base,
            feedback: &self.state.feedback,
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            size,
        };
        let prompt = prompt::assemble_prompt(&self.state.recipe.prompt, parts);
        prompt::count_feedback(&mut budget, &base, &prompt, self.state.calibration);
        Ok((prompt, budget))
    }

    /// Returns the prompt that asks for what an answer lacked.
    fn build_follow_up_prompt(&self, purpose: &Purpose, wrong: &WrongAnswer) -> String {
        let role = self.map_current(|current| current.role);
        let range = match purpose {
            Purpose::Gate(_) => self.range_under_check(),
            Purpose::Work => self.task_range(),
            Purpose::Message => None,
        };
        let range = range.as_ref().map(|(from, to)| (from, to));
        let wanted = match (purpose, role) {
            (Purpose::Message, _) => WantedAnswer::Message,
            (Purpose::Gate(_), _) | (Purpose::Work, Some(Role::Review)) => {
                WantedAnswer::Verdict { task: self.current_task(), range }
            }
            (Purpose::Work, _) => WantedAnswer::Handoff,
        };
        render_follow_up(&wrong.texts, &wrong.fault, wanted)
    }

    /// Returns the trees before and after the work that has not landed yet.
    fn range_under_check(&self) -> Option<(TreeId, TreeId)> {
        let tree = self.map_current(|current| current.observed_tree().cloned()).flatten();
        match (&self.state.base, tree) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(tree)) => {
                Some((base.clone(), tree))
            }
            (_, _) => None,
        }
    }

    /// Returns the trees before and after the work on a task that awaits review.
    fn task_range(&self) -> Option<(TreeId, TreeId)> {
        let (task, tasks) = (self.current_task()?, self.state.tasks.as_ref()?);
        tasks.review_ranges.get(&task.id).cloned()
    }

    /// Returns the base text of a prompt; empty for a task list.
    fn read_base_text(&mut self) -> Result<String, StepError> {
        match &self.state.recipe.work {
            Work::Prompt(PromptSource::Text(text)) => Ok(text.clone()),
            Work::Prompt(PromptSource::File(path)) => Ok(self.ports.store.read_prompt(path)?),
            Work::Prompt(PromptSource::Template(template)) => self.fill_template(&template.clone()),
            Work::Tasks(_) => Ok(String::new()),
        }
    }

    /// Reads a template again and fills it in.
    fn fill_template(&mut self, template: &Template) -> Result<String, StepError> {
        let text = match &template.place {
            TemplatePlace::Named(prompt) => self.read_run_template(*prompt)?,
            TemplatePlace::File(path) => self.ports.store.read_prompt(path)?,
        };
        let gates = self.state.recipe.gate_commands();
        let signal = self.state.recipe.completion_signal();
        let iteration = IterationNumber(self.state.iterations);
        let frame = RunFrame::new(&self.state.recipe, template, &text, &signal, &gates);
        let rendered = run::fill_run_template(&RunFrame { iteration, ..frame });
        Ok(self.record_prompt_warnings(rendered)?)
    }

    fn build_task_prompt(
        &mut self,
        prompt: RolePrompt,
        size: PromptSize,
        reserved: usize,
        moment: Moment,
    ) -> Result<(String, Vec<SectionCost>), StepError> {
        let nothing = || Ok((String::new(), Vec::new()));
        let Some(task) = self.current_task().cloned() else { return nothing() };
        let inputs = self.read_prompt_inputs(prompt)?;
        let log = self.attempt_log();
        let skills = self.read_skills(&task)?;
        let patch = if attempt_prompt::needs_patch(&log) {
            self.read_last_patch(&log)
        } else {
            String::new()
        };
        let files = if attempt_prompt::needs_files(&log) {
            self.read_context_files(&log)
        } else {
            Vec::new()
        };
        let gathered = GatheredInputs { skills, patch, files, size, reserved };
        let frame = self.prompt_frame(&inputs);
        let rendered = attempt_prompt::render_attempt_prompt(
            &self.state,
            &task,
            prompt,
            &frame,
            &gathered,
            moment.now,
        );
        let Some(mut rendered) = rendered else { return nothing() };
        let budget = std::mem::take(&mut rendered.budget);
        Ok((self.record_prompt_warnings(rendered)?, budget))
    }

    /// Returns the patch of the last failed attempt. If git cannot produce it, returns an
    /// empty string.
    fn read_last_patch(&mut self, log: &AttemptLog) -> String {
        let last = log.recent.last().and_then(|attempt| attempt.tree.clone());
        match (&self.state.base, last) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(last)) => self
                .ports
                .vcs
                .diff_trees(base, &last, attempt_prompt::FAILED_PATCH)
                .unwrap_or_default(),
            (_, _) => String::new(),
        }
    }

    /// Reads the files that the last failure names.
    fn read_context_files(&mut self, log: &AttemptLog) -> Vec<(String, String)> {
        let store = &mut *self.ports.store;
        attempt::find_named_paths(&log.outputs)
            .into_iter()
            .filter_map(|path| {
                let content = store.read_file(&path, attempt_prompt::CONTEXT_CHARS)?;
                Some((path, content))
            })
            .take(attempt_prompt::CONTEXT_FILES)
            .collect()
    }

    fn strip_list_files(&self, patch: String) -> String {
        match self.state.recipe.task_work() {
            Some(work) => {
                let patch = task_prompt::remove_file_from_patch(&patch, &work.file);
                task_prompt::remove_file_from_patch(&patch, &work.file.with_file_name(PROGRESS))
            }
            None => patch,
        }
    }

    /// Returns the prompt for a review gate on work that has not landed yet.
    fn build_gate_prompt(&mut self, name: &str) -> Result<String, StepError> {
        let asked = self.read_base_text()?;
        let gate = self.state.recipe.gates.iter().find(|gate| gate.name == name);
        let (focus, prompt) = match gate.map(|gate| gate.kind) {
            Some(GateKind::Quality) => (ReviewFocus::Quality, RolePrompt::Quality),
            Some(GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Custom) | None => {
                (ReviewFocus::Criteria, RolePrompt::Review)
            }
        };
        let hint = gate.and_then(|gate| gate.hint.clone());
        let inputs = self.read_prompt_inputs(prompt)?;
        let range = self.range_under_check();
        let patch = self.read_reviewed_patch(range.as_ref())?;
        let parts = ReviewParts {
            task: self.current_task(),
            asked: &asked,
            focus,
            patch: &patch,
            range: range.as_ref().map(|(from, to)| (from, to)),
            handoff: None,
            last_feedback: "",
            hint: hint.as_deref(),
            keeping: None,
        };
        // Not all commands have run when an agent is asked for a gate's verdict.
        let frame = RoleFrame { gates: &[], ..self.prompt_frame(&inputs) };
        let rendered = task_prompt::render_review(&parts, &frame);
        Ok(self.record_prompt_warnings(rendered)?)
    }

    /// Returns the prompt for the review of a task that awaits it.
    fn build_review_prompt(&mut self) -> Result<String, StepError> {
        let task = self.current_task().cloned();
        let inputs = self.read_prompt_inputs(RolePrompt::Review)?;
        let range = self.task_range();
        let patch = self.read_reviewed_patch(range.as_ref())?;
        let tasks = self.state.tasks.as_ref();
        let wanted = task.as_ref().and_then(|task| tasks?.requested_changes.get(&task.id));
        let wanted = wanted.cloned().unwrap_or_default();
        let account: Option<&Handoff> = self.state.handoffs.iter().rev().find(|handoff| {
            task.as_ref().is_some_and(|task| task.id == handoff.task_completed.task_id)
        });
        let parts = ReviewParts {
            task: task.as_ref(),
            asked: "",
            focus: ReviewFocus::Criteria,
            patch: &patch,
            range: range.as_ref().map(|(from, to)| (from, to)),
            handoff: account,
            last_feedback: &wanted,
            hint: None,
            keeping: self.list_ownership(&inputs),
        };
        let rendered = task_prompt::render_review(&parts, &self.prompt_frame(&inputs));
        Ok(self.record_prompt_warnings(rendered)?)
    }

    /// Returns the change between two trees as the reviewer sees it.
    fn read_reviewed_patch(
        &mut self,
        range: Option<&(TreeId, TreeId)>,
    ) -> Result<String, StepError> {
        let Some((from, to)) = range else { return Ok(String::new()) };
        let patch = self.ports.vcs.diff_trees(from, to, task_prompt::REVIEWED_PATCH)?;
        Ok(self.strip_list_files(patch))
    }
}
