//! Inputs of a prompt: the project's templates and the files next to the task file. They
//! are read again for each prompt, because users edit them during a run.
//!
//! A problem with one of them is reported once and does not stop the run. Also here: the
//! entry of an iteration in the progress log.

use std::collections::{BTreeMap, BTreeSet};

use super::{Engine, EngineError};
use crate::event::Event;
use crate::ids::IterationNumber;
use crate::ports::PromptError;
use crate::progress;
use crate::prompt::keeping::Keeping;
use crate::prompt::role::{Beside, Frame, Rendered, RolePrompt};
use crate::prompt::run::RunPrompt;
use crate::recipe::{PROGRESS, TaskWork};
use crate::settle::Settled;
use crate::skill;
use crate::task::{Keeper, Task};

/// What happens to an unusable file next to the task file.
const LEFT_OUT: &str = "it is skipped";

/// Warnings about prompts since ralph was started. Not part of the state: after a restart
/// they may be repeated.
#[derive(Debug, Default)]
pub(super) struct Heed {
    said: BTreeSet<String>,
    templates: BTreeMap<&'static str, Option<String>>,
}

/// The inputs of a prompt, as just read.
pub(super) struct Surroundings {
    template: Option<String>,
    beside: Beside,
    gates: Vec<String>,
}

impl Engine<'_> {
    /// Reads the inputs of a prompt.
    pub(super) fn surroundings(&mut self, prompt: RolePrompt) -> Result<Surroundings, EngineError> {
        if !self.heed.templates.contains_key(RolePrompt::Implement.name()) {
            // Read all templates before the first agent could change one that is needed
            // later.
            for prompt in RolePrompt::ALL {
                let template = self.ports.store.prompt_template(prompt.name());
                self.heed.templates.insert(prompt.name(), template.unwrap_or_default());
            }
        }
        let template = self.ports.store.prompt_template(prompt.name());
        let template = self.usable(template, "ralph's own template is used")?;
        let before = self.heed.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.template_was_changed(prompt.name())?;
        }
        let companion_files = match self.state.recipe.task_work().cloned() {
            Some(work) => self.beside(&work)?,
            None => Beside::default(),
        };
        Ok(Surroundings { template, beside: companion_files, gates: self.state.recipe.commands() })
    }

    /// Reads the template of a whole run: the project's own, or ralph's.
    pub(super) fn template_of(&mut self, prompt: RunPrompt) -> Result<String, EngineError> {
        let template = self.ports.store.prompt_template(prompt.name());
        let template = self.usable(template, "ralph's own template is used")?;
        let before = self.heed.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.template_was_changed(prompt.name())?;
        }
        Ok(template.unwrap_or_else(|| prompt.template().to_owned()))
    }

    /// Warns about a changed template. The user may edit one, but so may an agent that
    /// wants other instructions.
    fn template_was_changed(&mut self, name: &str) -> Result<(), EngineError> {
        self.warn_once(format!("the prompt template {name}.md was changed during the run"))
    }

    /// Returns the values that fill in a prompt template.
    pub(super) fn frame<'a>(&'a self, inputs: &'a Surroundings) -> Frame<'a> {
        Frame {
            template: inputs.template.as_deref(),
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            vars: &self.state.recipe.prompt.vars,
            beside: &inputs.beside,
            gates: &inputs.gates,
        }
    }

    /// Returns the prompt parts about list ownership, if there is a task list.
    pub(super) fn keeping<'a>(&'a self, inputs: &'a Surroundings) -> Option<Keeping<'a>> {
        Keeping::of(&self.state.recipe, &inputs.beside.tasks)
    }

    /// Reads the skills that a task names: the project's own, or ralph's.
    pub(super) fn skills(&mut self, task: &Task) -> Result<Vec<(String, String)>, EngineError> {
        let mut skills = Vec::new();
        for name in &task.skills {
            let own = self.ports.store.skill(name);
            let shipped = skill::shipped(name);
            let instead = if shipped.is_some() { "ralph's own is used" } else { LEFT_OUT };
            let is_known = own.is_err() || shipped.is_some();
            match self.usable(own, instead)?.or_else(|| shipped.map(str::to_owned)) {
                Some(text) => skills.push((name.clone(), text)),
                None if is_known => {}
                None => self.warn_once(format!("task {}: {}", task.id, skill::missing(name)))?,
            }
        }
        Ok(skills)
    }

    /// Returns the text of a rendered prompt, and records its warnings.
    pub(super) fn said(&mut self, rendered: Rendered) -> Result<String, EngineError> {
        for warning in rendered.warnings {
            self.warn_once(warning)?;
        }
        Ok(rendered.text)
    }

    /// Adds the entry of a landing iteration to the progress log, if there is a log.
    /// Removes it again if the landing was refused.
    pub(super) fn note_progress(
        &mut self,
        work: &TaskWork,
        settled: &Settled,
    ) -> Result<(), EngineError> {
        let Some((current, task)) = self.state.current.as_ref().zip(self.task()) else {
            return Ok(());
        };
        let (Keeper::Ralph, Some(entry)) =
            (work.keeper, progress::entry(&self.state.run, task, current))
        else {
            return Ok(());
        };
        let (number, handoff) = (current.number, current.judgement.as_ref());
        let handoff = handoff.and_then(|judgement| judgement.handoff.clone());
        let log = self.ports.store.read_beside(&work.file, PROGRESS);
        let Some(log) = self.usable(log, LEFT_OUT)? else { return Ok(()) };
        let updated = match (&settled.attempt, handoff) {
            (Some(_), _) => progress::without_entry(&log, &entry),
            (None, handoff) => {
                let log = handoff.map_or(log.clone(), |it| progress::with_patterns(&log, &it));
                progress::with_entry(&log, &self.state.run, number, &entry)
            }
        };
        if updated != log {
            let written = self.ports.store.write_beside(&work.file, PROGRESS, &updated);
            self.told(written)?;
        }
        Ok(())
    }

    fn beside(&mut self, work: &TaskWork) -> Result<Beside, EngineError> {
        let store = &mut *self.ports.store;
        let read = |name: &str| store.read_beside(&work.file, name);
        let (companion_files, unusable) = Beside::gather(&work.file, &self.state.project, read);
        for PromptError { message } in unusable {
            self.warn_once(format!("{message}; {LEFT_OUT}"))?;
        }
        Ok(companion_files)
    }

    /// Returns what was read, or warns once that it cannot be used.
    fn usable(
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
        if self.heed.said.insert(text.clone()) {
            self.record(Event::Warned { text })?;
        }
        Ok(())
    }
}
