//! What a prompt is set in: the project's own templates and what lies beside the task file, read
//! anew each time, because people mend them while a run is under way.
//!
//! Whatever is wrong with them is said once and is no reason to stop. Also here: the entry of an
//! iteration in the progress log.

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

/// What becomes of a file beside the task file that cannot be used.
const LEFT_OUT: &str = "it is left out";

/// What was noticed about prompts since ralph was started. No part of the state: after a restart
/// it may be said again.
#[derive(Debug, Default)]
pub(super) struct Heed {
    said: BTreeSet<String>,
    templates: BTreeMap<&'static str, Option<String>>,
}

/// What a prompt is set in, as it was just read.
pub(super) struct Surroundings {
    template: Option<String>,
    beside: Beside,
    gates: Vec<String>,
}

impl Engine<'_> {
    /// Reads what a prompt is set in.
    pub(super) fn surroundings(&mut self, prompt: RolePrompt) -> Result<Surroundings, EngineError> {
        if !self.heed.templates.contains_key(RolePrompt::Implement.name()) {
            // All of them, before the first agent could change one that is needed later.
            for prompt in RolePrompt::ALL {
                let template = self.ports.store.prompt_template(prompt.name());
                self.heed.templates.insert(prompt.name(), template.unwrap_or_default());
            }
        }
        let template = self.ports.store.prompt_template(prompt.name());
        let template = self.usable(template, "the template of ralph's own is used")?;
        let before = self.heed.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.template_was_changed(prompt.name())?;
        }
        let beside = match self.state.recipe.task_work().cloned() {
            Some(work) => self.beside(&work)?,
            None => Beside::default(),
        };
        Ok(Surroundings { template, beside, gates: self.state.recipe.commands() })
    }

    /// Reads the template of a whole run: the project's own, or ralph's.
    pub(super) fn template_of(&mut self, prompt: RunPrompt) -> Result<String, EngineError> {
        let template = self.ports.store.prompt_template(prompt.name());
        let template = self.usable(template, "the template of ralph's own is used")?;
        let before = self.heed.templates.insert(prompt.name(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.template_was_changed(prompt.name())?;
        }
        Ok(template.unwrap_or_else(|| prompt.template().to_owned()))
    }

    /// A person may do that, and so may an agent that does not like its orders.
    fn template_was_changed(&mut self, name: &str) -> Result<(), EngineError> {
        self.warn_once(format!("the prompt template {name}.md was changed during the run"))
    }

    /// Returns the frame of a prompt.
    pub(super) fn frame<'a>(&'a self, around: &'a Surroundings) -> Frame<'a> {
        Frame {
            template: around.template.as_deref(),
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            vars: &self.state.recipe.prompt.vars,
            beside: &around.beside,
            gates: &around.gates,
        }
    }

    /// Returns who keeps the list, where there is one.
    pub(super) fn keeping<'a>(&'a self, around: &'a Surroundings) -> Option<Keeping<'a>> {
        Keeping::of(&self.state.recipe, &around.beside.tasks)
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

    /// Returns a prompt, and says what is wrong with its template.
    pub(super) fn said(&mut self, rendered: Rendered) -> Result<String, EngineError> {
        for warning in rendered.warnings {
            self.warn_once(warning)?;
        }
        Ok(rendered.text)
    }

    /// Tells the progress log of an iteration that lands, if there is a log; or takes that back,
    /// if the landing was refused after all.
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
        let told = match (&settled.attempt, handoff) {
            (Some(_), _) => progress::without_entry(&log, &entry),
            (None, handoff) => {
                let log = handoff.map_or(log.clone(), |it| progress::with_patterns(&log, &it));
                progress::with_entry(&log, &self.state.run, number, &entry)
            }
        };
        if told != log {
            let written = self.ports.store.write_beside(&work.file, PROGRESS, &told);
            self.told(written)?;
        }
        Ok(())
    }

    fn beside(&mut self, work: &TaskWork) -> Result<Beside, EngineError> {
        let store = &mut *self.ports.store;
        let read = |name: &str| store.read_beside(&work.file, name);
        let (beside, unusable) = Beside::gather(&work.file, &self.state.project, read);
        for PromptError { message } in unusable {
            self.warn_once(format!("{message}; {LEFT_OUT}"))?;
        }
        Ok(beside)
    }

    /// Returns what was read, or says once why it cannot be used.
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

    /// Records something that a person should know, unless it was said since ralph was started.
    pub(super) fn warn_once(&mut self, text: String) -> Result<(), EngineError> {
        if self.heed.said.insert(text.clone()) {
            self.record(Event::Warned { text })?;
        }
        Ok(())
    }
}
