//! Agent calls: builds the prompt, makes the call, and recovers the reply of a call that
//! a crash cut off.

use super::{Engine, Trouble};
use crate::active::Active;
use crate::answer;
use crate::asking::WrongAnswer;
use crate::attempt::{self, AttemptLog};
use crate::capability::{SchemaOutput, Support};
use crate::context::SectionCost;
use crate::control::held;
use crate::control::{Note, takes_notes};
use crate::event::{Checkpoint, Event, Purpose, TreeId};
use crate::failure::FailureClass;
use crate::gate::{Check, Gate, GateKind};
use crate::handoff::{Handoff, read};
use crate::ids::{AskNumber, IterationNumber, Role};
use crate::memory;
use crate::ports::{Look, Moment, Request, View};
use crate::prompt::attempt::{self as attempt_prompt, Gathered};
use crate::prompt::follow_up::{WantedAnswer, follow_up};
use crate::prompt::role::{Frame, RolePrompt};
use crate::prompt::run::{self, RunFrame};
use crate::prompt::task::{self as task_prompt, Focus, ReviewParts};
use crate::prompt::{self, Parts};
use crate::reading::Reply;
use crate::recipe::{AgentChoice, PROGRESS, PromptSource, Template, TemplatePlace, Work};
use crate::review;
use crate::run::PromptSize;
use crate::scm;
use crate::stuck::Escalation;
use crate::task::Task;
use crate::text;
use crate::units::Millis;

impl Engine<'_> {
    /// Calls an agent, and records the call before and the reply after it.
    pub(super) fn ask(
        &mut self,
        ask: AskNumber,
        purpose: Purpose,
        size: PromptSize,
        moment: Moment,
    ) -> Result<(), Trouble> {
        if purpose == Purpose::Work {
            self.plan_is_there()?;
            // The agent of the previous call did not finish, so its edits of the list are
            // discarded.
            let is_again = self.current(|current| current.asks > 0) == Some(true);
            if is_again && self.state.recipe.is_kept_by_agent() {
                self.leave_list_right()?;
            }
        }
        // Instructions that every prompt of this agent carries take some of the room.
        let token = self.make_token(ask, moment);
        let bare = self.request(ask, purpose.clone(), String::new(), Some(&token), moment);
        let notes = self.notes(&purpose);
        let reserved = self.with_instructions(bare)?.prompt.chars().count();
        let reserved = reserved + held::length(&notes);
        let (prompt, budget) = self.prompt(&purpose, size, reserved, moment)?;
        let prompt = held::with_notes(prompt, &notes);
        let request = self.request(ask, purpose.clone(), prompt, Some(&token), moment);
        let request = self.with_instructions(request)?;
        let token = request.schema.as_ref().and_then(|schema| answer::token_of(schema));
        if let Some(before) = self.to_go_back_to(&purpose) {
            self.ports.vcs.hold(&self.mark(), &before);
        }
        self.record(Event::Asked {
            ask,
            role: request.role,
            purpose,
            agent: request.agent.kind,
            command: self.ports.agent.command_line(&request),
            prompt_chars: request.prompt.chars().count(),
            prompt_start: text::glance(&request.prompt, 200),
            budget,
            token: token.map(str::to_owned),
        })?;
        let active = Active::asking(&self.state, &request, moment.now);
        let published = self.ports.store.publish(&View::Active(&active));
        self.told(published)?;
        self.look = Look::Content;
        let ui = &mut *self.ports.ui;
        let reply = self.ports.agent.ask(&request, &mut |event| ui.hear(event));
        self.replied(ask, reply)
    }

    /// Returns the user's notes for the agent: those that an earlier call of the
    /// iteration got, and those that have arrived since.
    fn notes(&self, purpose: &Purpose) -> Vec<Note> {
        let Some(current) = self.state.current.as_ref().filter(|_| *purpose == Purpose::Work)
        else {
            return Vec::new();
        };
        if current.work.wrong.is_some() {
            return Vec::new();
        }
        let new = if takes_notes(current.role) { &self.state.control.notes[..] } else { &[] };
        current.notes.iter().chain(new).cloned().collect()
    }

    /// Records a reply and its warnings.
    fn replied(&mut self, ask: AskNumber, mut reply: Reply) -> Result<(), Trouble> {
        let mut warnings = std::mem::take(&mut reply.warnings);
        if reply.failure.as_ref().is_some_and(|it| it.class == FailureClass::SchemaRefused) {
            warnings.push(
                "the model's API refuses the JSON Schema of the answer; ralph asks for it in the \
                 prompt instead"
                    .to_owned(),
            );
        }
        self.record(Event::Replied { ask, reply: Box::new(reply) })?;
        for warning in warnings {
            self.warn_once(warning)?;
        }
        Ok(())
    }

    /// Looks for the reply to a call that was started before a crash. Calls the agent
    /// again only if the reply was not received completely.
    pub(super) fn recover(
        &mut self,
        ask: AskNumber,
        purpose: Purpose,
        moment: Moment,
    ) -> Result<(), Trouble> {
        let token = self.current(|current| current.asking(&purpose).token.clone()).flatten();
        let request = self.request(ask, purpose.clone(), String::new(), token.as_deref(), moment);
        if let Some(reply) = self.ports.agent.recover(&request) {
            return self.replied(ask, reply);
        }
        let size = self.current(|current| current.asking(&purpose).size).unwrap_or_default();
        self.ask(AskNumber(ask.0 + 1), purpose, size, moment)
    }

    /// Returns a token that cannot occur in work done before this moment.
    fn make_token(&self, ask: AskNumber, moment: Moment) -> String {
        let Moment { now, ran, .. } = moment;
        let (run, iteration) = (&self.state.run, self.state.iterations);
        answer::make_token(&format!("{run} {iteration} {} {} {}", ask.0, now.0, ran.0))
    }

    fn request(
        &self,
        ask: AskNumber,
        purpose: Purpose,
        prompt: String,
        token: Option<&str>,
        moment: Moment,
    ) -> Request {
        let limits = &self.state.recipe.limits;
        let gate = self.gate_of(&purpose);
        let role = match &purpose {
            Purpose::Work => self.current(|current| current.role).unwrap_or(Role::Prompt),
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
        let mut agent = self.agent_for(role, gate);
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
            Some(token) => review::schema().with_token(token),
            None => review::schema(),
        };
        Request {
            run: self.state.run.clone(),
            iteration: IterationNumber(self.state.iterations),
            ask,
            role,
            task: self.current(|current| current.task.clone()).flatten(),
            agent,
            prompt,
            schema: match (&purpose, role) {
                // An agent that owns the list reports in the list and in its notes. With
                // a schema the agent would end before its hooks have run.
                (Purpose::Work, Role::Compact) => Some(memory::schema()),
                (Purpose::Work, _) if self.state.recipe.is_kept_by_agent() => None,
                (Purpose::Gate(_), _) | (Purpose::Work, Role::Review) => Some(verdict()),
                (Purpose::Work, Role::Implement | Role::Fix) => Some(read::schema()),
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
    fn with_instructions(&mut self, mut request: Request) -> Result<Request, Trouble> {
        match (&request.agent.system_prompt, request.agent.capabilities.system_prompt) {
            (Some(file), Support::No) => {
                let instructions = self.ports.store.read_prompt(file)?;
                request.prompt = format!("{}\n\n{}", instructions.trim_end(), request.prompt);
            }
            (Some(_), Support::Yes) | (None, _) => {}
        }
        Ok(match request.schema.take() {
            Some(schema) => request.wanting(schema),
            None => request,
        })
    }

    fn gate_of(&self, purpose: &Purpose) -> Option<&Gate> {
        match purpose {
            Purpose::Gate(name) => self.state.recipe.gates.iter().find(|gate| gate.name == *name),
            Purpose::Work | Purpose::Message => None,
        }
    }

    fn agent_for(&self, role: Role, gate: Option<&Gate>) -> AgentChoice {
        let recipe = &self.state.recipe;
        if let Some(Check::Agent(agent)) = gate.map(|gate| &gate.check) {
            return (**agent).clone();
        }
        if role == Role::Compact {
            return self.compacting_agent();
        }
        let is_attempt = matches!(role, Role::Implement | Role::Fix);
        let agent = match (&recipe.escalate, self.log().escalation) {
            (Some(agent), Escalation::StrategyShift | Escalation::ContextExpansion)
                if is_attempt =>
            {
                agent
            }
            (_, _) => recipe.agent_for(role),
        };
        let turns = self.task().filter(|_| is_attempt).and_then(|task| task.max_turns);
        AgentChoice { max_turns: turns.or(agent.max_turns), ..agent.clone() }
    }

    /// Returns the time left for the current task.
    fn task_time_left(&self) -> Option<Millis> {
        let limit = self.state.recipe.task_work()?.hard_limit;
        self.task()?;
        let used = self.log().spent.plus(self.state.ran_in_iteration());
        Some(Millis(limit.0.saturating_sub(used.0)))
    }

    /// Returns the task of the open iteration.
    pub(super) fn task(&self) -> Option<&Task> {
        let id = self.state.current.as_ref()?.task.as_ref()?;
        self.state.board.as_ref()?.list.task(id)
    }

    /// Returns the attempt log of the task of the open iteration.
    pub(super) fn log(&self) -> AttemptLog {
        match (&self.state.board, self.task()) {
            (Some(tasks), Some(task)) => tasks.log(&task.id),
            (_, _) => AttemptLog::default(),
        }
    }

    fn prompt(
        &mut self,
        purpose: &Purpose,
        size: PromptSize,
        reserved: usize,
        moment: Moment,
    ) -> Result<(String, Vec<SectionCost>), Trouble> {
        let role = self.current(|current| current.role);
        let uncounted = |text: String| (text, Vec::new());
        let wrong = self.current(|current| current.asking(purpose).wrong.clone()).flatten();
        if let Some(wrong) = wrong {
            return Ok(uncounted(self.follow_up_prompt(purpose, &wrong)));
        }
        let (base, mut budget) = match (purpose, role) {
            (Purpose::Message, _) => return Ok(uncounted(scm::MESSAGE_PROMPT.to_owned())),
            (Purpose::Gate(name), _) => return self.gate_prompt(name).map(uncounted),
            (Purpose::Work, Some(Role::Review)) if self.state.recipe.is_kept_by_agent() => {
                uncounted(self.review_prompt()?)
            }
            (Purpose::Work, Some(Role::Review)) => return self.review_prompt().map(uncounted),
            (Purpose::Work, Some(Role::Compact)) => {
                return self.compact_prompt(size).map(uncounted);
            }
            (Purpose::Work, Some(Role::Implement)) => {
                self.task_prompt(RolePrompt::Implement, size, reserved, moment)?
            }
            (Purpose::Work, Some(Role::Fix)) => {
                self.task_prompt(RolePrompt::Fix, size, reserved, moment)?
            }
            (Purpose::Work, _) => {
                let text = self.base_text()?;
                uncounted(prompt::with_finish_note(&self.state.recipe, text))
            }
        };
        let parts = Parts {
            base: &base,
            feedback: &self.state.feedback,
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            size,
        };
        let prompt = prompt::assemble(&self.state.recipe.prompt, parts);
        prompt::count_feedback(&mut budget, &base, &prompt, self.state.calibration);
        Ok((prompt, budget))
    }

    /// Returns the prompt that asks for what an answer lacked.
    fn follow_up_prompt(&self, purpose: &Purpose, wrong: &WrongAnswer) -> String {
        let role = self.current(|current| current.role);
        let range = match purpose {
            Purpose::Gate(_) => self.range_under_check(),
            Purpose::Work => self.range_of_task(),
            Purpose::Message => None,
        };
        let range = range.as_ref().map(|(from, to)| (from, to));
        let wanted = match (purpose, role) {
            (Purpose::Message, _) => WantedAnswer::Message,
            (Purpose::Gate(_), _) | (Purpose::Work, Some(Role::Review)) => {
                WantedAnswer::Verdict { task: self.task(), range }
            }
            (Purpose::Work, _) => WantedAnswer::Handoff,
        };
        follow_up(&wrong.texts, &wrong.fault, wanted)
    }

    /// Returns the trees before and after the work that has not landed yet.
    fn range_under_check(&self) -> Option<(TreeId, TreeId)> {
        let tree = self.current(|current| current.observed_tree().cloned()).flatten();
        match (&self.state.base, tree) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(tree)) => {
                Some((base.clone(), tree))
            }
            (_, _) => None,
        }
    }

    /// Returns the trees before and after the work on a task that awaits review.
    fn range_of_task(&self) -> Option<(TreeId, TreeId)> {
        let (task, tasks) = (self.task()?, self.state.board.as_ref()?);
        tasks.work.get(&task.id).cloned()
    }

    /// Returns the base text of a prompt; empty for a task list.
    fn base_text(&mut self) -> Result<String, Trouble> {
        match &self.state.recipe.work {
            Work::Prompt(PromptSource::Text(text)) => Ok(text.clone()),
            Work::Prompt(PromptSource::File(path)) => Ok(self.ports.store.read_prompt(path)?),
            Work::Prompt(PromptSource::Template(template)) => self.filled_in(&template.clone()),
            Work::Tasks(_) => Ok(String::new()),
        }
    }

    /// Reads a template again and fills it in.
    fn filled_in(&mut self, template: &Template) -> Result<String, Trouble> {
        let text = match &template.place {
            TemplatePlace::Named(prompt) => self.template_of(*prompt)?,
            TemplatePlace::File(path) => self.ports.store.read_prompt(path)?,
        };
        let gates = self.state.recipe.commands();
        let signal = self.state.recipe.signal();
        let iteration = IterationNumber(self.state.iterations);
        let frame = RunFrame::new(&self.state.recipe, template, &text, &signal, &gates);
        let rendered = run::fill(&RunFrame { iteration, ..frame });
        Ok(self.said(rendered)?)
    }

    fn task_prompt(
        &mut self,
        prompt: RolePrompt,
        size: PromptSize,
        reserved: usize,
        moment: Moment,
    ) -> Result<(String, Vec<SectionCost>), Trouble> {
        let nothing = || Ok((String::new(), Vec::new()));
        let Some(task) = self.task().cloned() else { return nothing() };
        let inputs = self.surroundings(prompt)?;
        let log = self.log();
        let skills = self.skills(&task)?;
        let patch = if attempt_prompt::wants_patch(&log) {
            self.patch_of_last_attempt(&log)
        } else {
            String::new()
        };
        let files = if attempt_prompt::wants_files(&log) { self.context(&log) } else { Vec::new() };
        let gathered = Gathered { skills, patch, files, size, reserved };
        let frame = self.frame(&inputs);
        let rendered =
            attempt_prompt::prompt(&self.state, &task, prompt, &frame, &gathered, moment.now);
        let Some(mut rendered) = rendered else { return nothing() };
        let budget = std::mem::take(&mut rendered.budget);
        Ok((self.said(rendered)?, budget))
    }

    /// Returns the patch of the last failed attempt. If git cannot produce it, returns an
    /// empty string.
    fn patch_of_last_attempt(&mut self, log: &AttemptLog) -> String {
        let last = log.recent.last().and_then(|attempt| attempt.tree.clone());
        match (&self.state.base, last) {
            (Some(Checkpoint::Git { tree: Some(base), .. }), Some(last)) => {
                self.ports.vcs.diff(base, &last, attempt_prompt::FAILED_PATCH).unwrap_or_default()
            }
            (_, _) => String::new(),
        }
    }

    /// Reads the files that the last failure names.
    fn context(&mut self, log: &AttemptLog) -> Vec<(String, String)> {
        let store = &mut *self.ports.store;
        attempt::named_paths(&log.outputs)
            .into_iter()
            .filter_map(|path| {
                let content = store.read_file(&path, attempt_prompt::CONTEXT_CHARS)?;
                Some((path, content))
            })
            .take(attempt_prompt::CONTEXT_FILES)
            .collect()
    }

    fn without_list(&self, patch: String) -> String {
        match self.state.recipe.task_work() {
            Some(work) => {
                let patch = task_prompt::without_file(&patch, &work.file);
                task_prompt::without_file(&patch, &work.file.with_file_name(PROGRESS))
            }
            None => patch,
        }
    }

    /// Returns the prompt for a review gate on work that has not landed yet.
    fn gate_prompt(&mut self, name: &str) -> Result<String, Trouble> {
        let asked = self.base_text()?;
        let gate = self.state.recipe.gates.iter().find(|gate| gate.name == name);
        let (focus, prompt) = match gate.map(|gate| gate.kind) {
            Some(GateKind::Quality) => (Focus::Quality, RolePrompt::Quality),
            Some(GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Custom) | None => {
                (Focus::Criteria, RolePrompt::Review)
            }
        };
        let hint = gate.and_then(|gate| gate.hint.clone());
        let inputs = self.surroundings(prompt)?;
        let range = self.range_under_check();
        let patch = self.reviewed(range.as_ref())?;
        let parts = ReviewParts {
            task: self.task(),
            asked: &asked,
            focus,
            patch: &patch,
            range: range.as_ref().map(|(from, to)| (from, to)),
            account: None,
            last_feedback: "",
            hint: hint.as_deref(),
            keeping: None,
        };
        // Not all commands have run when an agent is asked for a gate's verdict.
        let frame = Frame { gates: &[], ..self.frame(&inputs) };
        let rendered = task_prompt::review(&parts, &frame);
        Ok(self.said(rendered)?)
    }

    /// Returns the prompt for the review of a task that awaits it.
    fn review_prompt(&mut self) -> Result<String, Trouble> {
        let task = self.task().cloned();
        let inputs = self.surroundings(RolePrompt::Review)?;
        let range = self.range_of_task();
        let patch = self.reviewed(range.as_ref())?;
        let tasks = self.state.board.as_ref();
        let wanted = task.as_ref().and_then(|task| tasks?.wanted.get(&task.id));
        let wanted = wanted.cloned().unwrap_or_default();
        let account: Option<&Handoff> = self.state.handoffs.iter().rev().find(|handoff| {
            task.as_ref().is_some_and(|task| task.id == handoff.task_completed.task_id)
        });
        let parts = ReviewParts {
            task: task.as_ref(),
            asked: "",
            focus: Focus::Criteria,
            patch: &patch,
            range: range.as_ref().map(|(from, to)| (from, to)),
            account,
            last_feedback: &wanted,
            hint: None,
            keeping: self.keeping(&inputs),
        };
        let rendered = task_prompt::review(&parts, &self.frame(&inputs));
        Ok(self.said(rendered)?)
    }

    /// Returns the change between two trees as the reviewer sees it.
    fn reviewed(&mut self, range: Option<&(TreeId, TreeId)>) -> Result<String, Trouble> {
        let Some((from, to)) = range else { return Ok(String::new()) };
        let patch = self.ports.vcs.diff(from, to, task_prompt::REVIEWED_PATCH)?;
        Ok(self.without_list(patch))
    }
}
