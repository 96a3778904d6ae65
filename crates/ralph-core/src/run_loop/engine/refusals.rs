//! Refusals: protected paths, secrets and changes of `.git` fail an attempt without a gate.
//!
//! Not here: which paths are protected (the recipe).

use ralph_model::event::Event;
use ralph_model::worktree::{Checkpoint, describe_git_tampering};

use super::checking::describe_kept_ref;
use super::{Engine, StepError, ViewKind};
use crate::checking::secret::leak;
use crate::run_loop::choose;

impl Engine<'_> {
    /// Refuses work that changed protected or out-of-scope paths. Out-of-scope files are
    /// restored at once, because the agent cannot fix them.
    pub(super) fn refuse_paths(&mut self, paths: &[String]) -> Result<(), StepError> {
        let list = |paths: Vec<&str>| format!("\n- {}", paths.join("\n- "));
        let changed = list(paths.iter().map(String::as_str).collect());
        let scope = self.state.recipe.scope.clone();
        let output = if scope.is_empty() {
            let recipe = &self.state.recipe;
            let can_be_lifted =
                |path: &&String| recipe.gate_scripts.contains(path) || !recipe.is_locked(path);
            let remedy = paths.iter().find(can_be_lifted).map(|path| {
                format!("\nOnly the user can allow it: `\"protect\": [\"!{path}\"]` in the settings. If the task cannot be done otherwise, report that as a blocker.")
            });
            format!(
                "These paths are protected and were changed. Restore them, and do the task without touching them:{changed}{}",
                remedy.unwrap_or_default()
            )
        } else {
            let base = self.state.base.clone().unwrap_or(Checkpoint::None);
            let kept = self.ports.vcs.restore_outside_scope(&self.git_mark(), &base, &scope)?;
            let place = describe_kept_ref(kept.as_deref());
            let text = format!("the agent changed files outside its scope; restored{place}");
            self.record_event(Event::Warned { text })?;
            // Patterns of single files start with `/`, the project directory.
            let allowed = scope.iter().map(|it| it.as_str().trim_start_matches('/'));
            let allowed = list(allowed.collect());
            format!(
                "Only these paths may be changed:{allowed}\nThese were changed too, and have been restored. Do not touch them:{changed}"
            )
        };
        let result = choose::build_refusal_result(choose::PROTECTED_PATHS, output);
        self.record_event(Event::GateChecked { result })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Refuses work that contains secrets: once committed they are hard to remove.
    pub(super) fn refuse_leaks(&mut self) -> Result<(), StepError> {
        let leaks =
            self.map_current(|current| current.observation().map(|seen| seen.leaks.clone()));
        let output = leak::format_leak_feedback(&leaks.flatten().unwrap_or_default());
        self.record_event(Event::GateChecked {
            result: choose::build_refusal_result(choose::SECRETS, output),
        })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Refuses work that came with changes to git's own files. The files have been
    /// restored.
    pub(super) fn refuse_git_tampering(&mut self) -> Result<(), StepError> {
        let paths = self
            .map_current(|current| current.observation().map(|seen| seen.git_tampering.clone()));
        let output = describe_git_tampering(&paths.flatten().unwrap_or_default());
        self.record_event(Event::GateChecked {
            result: choose::build_refusal_result(choose::GIT_TAMPERING, output),
        })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }
}
