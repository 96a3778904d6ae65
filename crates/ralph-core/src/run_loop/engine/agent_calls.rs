//! Agent calls: reads what the request needs, makes the call, and recovers the reply of a call that
//! a crash cut off.
//!
//! Not here: the request, which is a pure function in `asking::request`.

use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::attempt::AttemptLog;
use ralph_model::event::{Event, Purpose};
use ralph_model::failure::FailureClass;
use ralph_model::fingerprint::Fingerprint;
use ralph_model::ids::AskNumber;
use ralph_model::task::Task;
use ralph_model::text;

use super::{Engine, EngineError, StepError, record_with};
use crate::asking::materials::Materials;
use crate::asking::prompt::attempt::find_attempt_log;
use crate::asking::request::{
    BuiltRequest, CallOrder, build_request, build_request_without_prompt, list_materials,
};
use crate::hooks::call_state::build_call_state;
use crate::ports::{Moment, Ports, View};

impl Engine<'_> {
    /// Calls an agent, and records the call before and the reply after it.
    pub(super) fn call_agent(
        &mut self,
        order: &CallOrder,
        moment: Moment,
    ) -> Result<(), StepError> {
        if order.purpose == Purpose::Work {
            self.ensure_plan()?;
            // The agent of the previous call did not finish, so its edits of the list are
            // discarded.
            let is_again = self.map_current(|current| current.asks > 0) == Some(true);
            if is_again && self.state.recipe.is_list_owned_by_agent() {
                self.restore_task_file()?;
            }
        }
        let materials = self.read_materials(&order.purpose)?;
        let BuiltRequest { request, token, instructions, budget, warnings } =
            build_request(&self.state, order, moment, &materials)?;
        for warning in warnings {
            self.warn_once(warning)?;
        }
        if let Some(before) = self.state_to_restore(&order.purpose) {
            // After a power cut an earlier call may have to be undone, whose tree this lets go.
            self.ports.store.sync_events().map_err(EngineError::from)?;
            self.ports.vcs.keep_reachable(&self.git_mark(), &before);
        }
        self.ports.vcs.ensure_git_files_recorded();
        self.record_event(Event::Asked {
            ask: order.ask,
            role: request.role,
            purpose: order.purpose.clone(),
            agent: request.agent.kind,
            command: self.ports.agent.command_line(&request),
            prompt_chars: request.prompt.chars().count(),
            prompt_start: text::shorten_to_line(&request.prompt, 200),
            budget,
            token,
            session: request.session.as_ref().map(|session| session.id.clone()),
            instructions,
        })?;
        let active = build_call_state(&self.state, &request, moment.now);
        let published = self.ports.store.publish_view(&View::HookState(&active));
        self.warn_on_error(published)?;
        self.show_base_instructions(&order.purpose)?;
        let Ports { agent, store, clock, ui, .. } = &mut self.ports;
        let mut warned = Ok(());
        let reply = agent.ask(&request, &mut |event| {
            if !matches!(event, AgentEvent::SoftLimitPassed) {
                return ui.show_agent_event(event);
            }
            let (soft, hard) = (request.soft_limit, request.hard_limit);
            let text = format!("the agent passed its soft limit of {soft}; it is ended at {hard}");
            let event = Event::Warned { text };
            warned = record_with(&mut self.state, *store, *clock, *ui, event);
        });
        warned?;
        self.restore_instructions(&order.purpose)?;
        self.record_reply(order.ask, reply)
    }

    /// Reads what a request needs. Warns about templates that changed: the user may edit one, but
    /// so may an agent that wants other instructions.
    fn read_materials(&mut self, purpose: &Purpose) -> Result<Materials, StepError> {
        let needed = list_materials(&self.state, purpose);
        let Ports { store, vcs, .. } = &mut self.ports;
        let commits = vcs.list_last_subjects(needed.commits);
        let materials = Materials::read_needed(
            needed,
            commits,
            |text| store.read_text(text),
            |range| vcs.diff_trees(&range.from, &range.to, range.chars),
        )?;
        for name in self.ports.store.take_changed_templates() {
            self.warn_once(format!("the prompt template {name}.md was changed during the run"))?;
        }
        Ok(materials)
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
        self.restore_instructions(&purpose)?;
        let call = self.map_current(|current| current.call_state(&purpose).cloned()).flatten();
        let call = call.unwrap_or_default();
        let order = CallOrder { ask, purpose, size: call.size };
        let request =
            build_request_without_prompt(&self.state, &order, call.token.as_deref(), moment);
        match self.ports.agent.recover(&request) {
            Some(reply) => self.record_reply(ask, reply),
            None => self.call_agent(&CallOrder { ask: AskNumber(ask.0 + 1), ..order }, moment),
        }
    }

    /// Returns the task of the open iteration.
    pub(super) fn current_task(&self) -> Option<&Task> {
        self.state.current_task()
    }

    /// Returns the attempt log of the task of the open iteration.
    pub(super) fn attempt_log(&self) -> AttemptLog {
        let log = self.current_task().map(|task| find_attempt_log(&self.state, task));
        log.unwrap_or_default()
    }

    /// Records a warning, unless the journal has it already.
    pub(super) fn warn_once(&mut self, text: String) -> Result<(), EngineError> {
        // The journal has warnings as they are after masking.
        let event = self.ports.store.mask_secrets(Event::Warned { text });
        if let Event::Warned { text } = &event
            && self.state.warned.contains(&Fingerprint::from_texts([text.as_str()]))
        {
            return Ok(());
        }
        self.record_event(event)
    }
}
