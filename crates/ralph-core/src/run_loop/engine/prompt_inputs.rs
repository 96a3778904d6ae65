//! Inputs of a prompt: the project's templates and the files next to the task file. They
//! are read again for each prompt, because users edit them during a run.
//!
//! A problem with one of them is reported once and does not stop the run. Also here: the
//! entry of an iteration in the progress log.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::event::Event;
use ralph_model::ids::IterationNumber;
use ralph_model::recipe::{PROGRESS, RunPrompt, TaskWork};
use ralph_model::task::{ListOwner, Task};

use super::{Engine, EngineError};
use crate::asking::prompt::PromptError;
use crate::asking::prompt::list_ownership::ListOwnership;
use crate::asking::prompt::role::{CompanionFiles, RenderedPrompt, RoleFrame, RolePrompt};
use crate::asking::prompt::run::find_run_template;
use crate::run_loop::settle::Settled;
use crate::tasks::{progress, skill};

/// What happens to an unusable file next to the task file.
const SKIPPED: &str = "it is skipped";

/// Warnings about prompts since ralph was started. Not part of the state: after a restart
/// they may be repeated.
#[derive(Debug, Default)]
pub(super) struct PromptWarnings {
    reported: BTreeSet<String>,
    templates: BTreeMap<&'static str, Option<String>>,
}

/// The inputs of a prompt, as just read.
pub(super) struct PromptInputs {
    template: Option<String>,
    companion_files: CompanionFiles,
    gates: Vec<String>,
}

impl Engine<'_> {
    /// Reads the inputs of a prompt.
    pub(super) fn read_prompt_inputs(
        &mut self,
        prompt: RolePrompt,
    ) -> Result<PromptInputs, EngineError> {
        if !self.prompt_warnings.templates.contains_key(RolePrompt::Implement.name()) {
            // Read all templates before the first agent could change one that is needed
            // later.
            for prompt in RolePrompt::ALL {
                let template = self.ports.store.read_prompt_template(prompt.name());
                self.prompt_warnings.templates.insert(prompt.name(), template.unwrap_or_default());
            }
        }
        let template = self.ports.store.read_prompt_template(prompt.name());
        let template = self.warn_if_unusable(template, "ralph's own template is used")?;
        let before = self.prompt_warnings.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.warn_changed_template(prompt.name())?;
        }
        let companion_files = match self.state.recipe.task_work().cloned() {
            Some(work) => self.read_companion_files(&work)?,
            None => CompanionFiles::default(),
        };
        Ok(PromptInputs { template, companion_files, gates: self.state.recipe.gate_commands() })
    }

    /// Reads the template of a whole run: the project's own, or ralph's.
    pub(super) fn read_run_template(&mut self, prompt: RunPrompt) -> Result<String, EngineError> {
        let template = self.ports.store.read_prompt_template(prompt.name());
        let template = self.warn_if_unusable(template, "ralph's own template is used")?;
        let before = self.prompt_warnings.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.warn_changed_template(prompt.name())?;
        }
        Ok(template.unwrap_or_else(|| find_run_template(prompt).to_owned()))
    }

    /// Warns about a changed template. The user may edit one, but so may an agent that
    /// wants other instructions.
    fn warn_changed_template(&mut self, name: &str) -> Result<(), EngineError> {
        self.warn_once(format!("the prompt template {name}.md was changed during the run"))
    }

    /// Returns the values that fill in a prompt template.
    pub(super) fn prompt_frame<'a>(&'a self, inputs: &'a PromptInputs) -> RoleFrame<'a> {
        RoleFrame {
            template: inputs.template.as_deref(),
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            vars: &self.state.recipe.prompt.vars,
            companions: &inputs.companion_files,
            gates: &inputs.gates,
        }
    }

    /// Returns the prompt parts about list ownership, if there is a task list.
    pub(super) fn list_ownership<'a>(
        &'a self,
        inputs: &'a PromptInputs,
    ) -> Option<ListOwnership<'a>> {
        ListOwnership::for_recipe(&self.state.recipe, &inputs.companion_files.tasks)
    }

    /// Reads the skills that a task names: the project's own, or ralph's.
    pub(super) fn read_skills(
        &mut self,
        task: &Task,
    ) -> Result<Vec<(String, String)>, EngineError> {
        let mut skills = Vec::new();
        for name in &task.skills {
            let own = self.ports.store.read_skill(name);
            let shipped = skill::find_shipped(name);
            let instead = if shipped.is_some() { "ralph's own is used" } else { SKIPPED };
            let is_known = own.is_err() || shipped.is_some();
            match self.warn_if_unusable(own, instead)?.or_else(|| shipped.map(str::to_owned)) {
                Some(text) => skills.push((name.clone(), text)),
                None if is_known => {}
                None => {
                    self.warn_once(format!("task {}: {}", task.id, skill::describe_missing(name)))?;
                }
            }
        }
        Ok(skills)
    }

    /// Returns the text of a rendered prompt, and records its warnings.
    pub(super) fn record_prompt_warnings(
        &mut self,
        rendered: RenderedPrompt,
    ) -> Result<String, EngineError> {
        for warning in rendered.warnings {
            self.warn_once(warning)?;
        }
        Ok(rendered.text)
    }

    /// Adds the entry of a landing iteration to the progress log, if there is a log.
    /// Removes it again if the landing was refused.
    pub(super) fn update_progress_log(
        &mut self,
        work: &TaskWork,
        settled: &Settled,
    ) -> Result<(), EngineError> {
        let Some((current, task)) = self.state.current.as_ref().zip(self.current_task()) else {
            return Ok(());
        };
        let (ListOwner::Ralph, Some(entry)) =
            (work.keeper, progress::format_entry(&self.state.run, task, current))
        else {
            return Ok(());
        };
        let (number, handoff) = (current.number, current.judgement());
        let handoff = handoff.and_then(|judgement| judgement.handoff.clone());
        let log = self.ports.store.read_companion_file(&work.file, PROGRESS);
        let Some(log) = self.warn_if_unusable(log, SKIPPED)? else { return Ok(()) };
        let updated = match (&settled.attempt, handoff) {
            (Some(_), _) => progress::remove_entry(&log, &entry),
            (None, handoff) => {
                let log = handoff.map_or(log.clone(), |it| progress::with_patterns(&log, &it));
                progress::with_entry(&log, &self.state.run, number, &entry)
            }
        };
        if updated != log {
            let written = self.ports.store.write_companion_file(&work.file, PROGRESS, &updated);
            self.warn_on_error(written)?;
        }
        Ok(())
    }

    fn read_companion_files(&mut self, work: &TaskWork) -> Result<CompanionFiles, EngineError> {
        let store = &mut *self.ports.store;
        let read = |name: &str| store.read_companion_file(&work.file, name);
        let (companion_files, unusable) =
            CompanionFiles::read_files(&work.file, &self.state.project, read);
        for PromptError { message } in unusable {
            self.warn_once(format!("{message}; {SKIPPED}"))?;
        }
        Ok(companion_files)
    }

    /// Returns what was read, or warns once that it cannot be used.
    fn warn_if_unusable(
        &mut self,
        read: Result<Option<String>, PromptError>,
        instead: &str,
    ) -> Result<Option<String>, EngineError> {
        match read {
            Ok(text) => Ok(text),
            Err(PromptError { message }) => {
                self.warn_once(format!("{message}; {instead}"))?;
                Ok(None)
            }
        }
    }

    /// Records a warning, unless the same was recorded since ralph was started.
    pub(super) fn warn_once(&mut self, text: String) -> Result<(), EngineError> {
        if self.prompt_warnings.reported.insert(text.clone()) {
            self.record_event(Event::Warned { text })?;
        }
        Ok(())
    }
}
