//! Refusals: protected paths, secrets and changes of `.git` fail an attempt without a gate.
//!
//! Not here: when work is refused, which `choose` decides.

use ralph_model::event::Event;
use ralph_model::refusal::{Refusal, RefusalKind};
use ralph_model::worktree::{Checkpoint, describe_git_tampering};

use super::checking::describe_kept_ref;
use super::{Engine, StepError, ViewKind};
use crate::checking::secret::leak;
use crate::checking::stuck::ErrorHasher;
use crate::run_loop::choose;

impl Engine<'_> {
    /// Refuses the observed work.
    pub(super) fn refuse_work(&mut self, kind: RefusalKind) -> Result<(), StepError> {
        let seen = self.map_current(|current| current.observation().cloned()).flatten();
        let Some(seen) = seen else { return Ok(()) };
        let mut restored = Vec::new();
        let output = match kind {
            RefusalKind::ProtectedPaths => {
                restored = self
                    .map_current(|it| choose::find_forbidden_paths(&self.state, it, &seen))
                    .unwrap_or_default();
                self.refuse_paths(&restored)?
            }
            // Once committed, secrets are hard to remove.
            RefusalKind::Secrets => leak::format_leak_feedback(&seen.leaks),
            // The files have been restored.
            RefusalKind::GitTampering => describe_git_tampering(&seen.git_tampering),
            RefusalKind::ConflictMarkers => format!(
                "Conflict markers (`<<<<<<<`, `>>>>>>>`) are left in these files. Resolve the conflicts, so that the work of both sides is kept:\n- {}",
                seen.conflict_markers.join("\n- ")
            ),
            RefusalKind::UnstableFiles | RefusalKind::CommitHook => return Ok(()),
        };
        self.record_refusal(kind, output, restored)
    }

    /// Records a refusal, and the changed paths that were restored.
    pub(super) fn record_refusal(
        &mut self,
        kind: RefusalKind,
        output: String,
        restored: Vec<String>,
    ) -> Result<(), StepError> {
        let mut hasher = ErrorHasher::new(kind.name());
        hasher.feed_text(&output);
        let survey = if restored.is_empty() { None } else { self.ports.vcs.survey_tree()? };
        let refusal = Refusal { kind, output, hash: hasher.finish_hash(), restored };
        self.record_event(Event::Refused { refusal, survey: survey.map(Box::new) })?;
        Ok(self.publish_view(ViewKind::Gates)?)
    }

    /// Restores protected or out-of-scope paths, and returns the feedback for the agent: it may be
    /// unable to restore them, and the user may have changed them.
    fn refuse_paths(&mut self, paths: &[String]) -> Result<String, StepError> {
        let place = self.restore_forbidden_paths()?;
        let list = |paths: Vec<&str>| format!("\n- {}", paths.join("\n- "));
        let changed = list(paths.iter().map(String::as_str).collect());
        let scope = &self.state.recipe.scope;
        let (warning, feedback) = if scope.is_empty() {
            let named = paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
            (
                format!(
                    "protected paths were changed by the agent, or by you: {named}; restored{place}"
                ),
                format!(
                    "These paths are protected and were changed. They have been restored; do the task without touching them:{changed}{}",
                    self.describe_protection(paths)
                ),
            )
        } else {
            // Patterns of single files start with `/`, the project directory.
            let allowed = scope.iter().map(|it| it.as_str().trim_start_matches('/'));
            let allowed = list(allowed.collect());
            let reset =
                self.map_current(|current| current.checking()?.observed.as_ref()?.kept.clone());
            let reset = reset.flatten().map_or(String::new(), |kept| {
                format!("\nThey were in your commits, which have been reset and are kept on `{kept}`. Commit what belongs to your work again, without them.")
            });
            (
                format!("the agent changed files outside its scope; restored{place}"),
                format!(
                    "Only these paths may be changed:{allowed}\nThese were changed too, and have been restored. Do not touch them:{changed}{reset}"
                ),
            )
        };
        self.record_event(Event::Warned { text: warning })?;
        Ok(feedback)
    }

    /// Restores what this iteration may not change. Returns where the changes are kept, as the end
    /// of a sentence.
    pub(super) fn restore_forbidden_paths(&mut self) -> Result<String, StepError> {
        let base = self.state.base.clone().unwrap_or(Checkpoint::None);
        let Self { state, ports } = self;
        let is_forbidden = |path: &str| {
            let current = state.current.as_ref();
            current.is_some_and(|current| choose::is_forbidden_path(state, current, path))
        };
        let kept = ports.vcs.restore_paths(&state.git_mark(), &base, &is_forbidden)?;
        Ok(describe_kept_ref(kept.as_deref()))
    }

    /// Returns why paths are protected that no check names, and who can lift that.
    fn describe_protection(&self, paths: &[String]) -> String {
        let recipe = &self.state.recipe;
        let shadows: Vec<&str> = paths
            .iter()
            .filter(|path| recipe.gate_shadows.contains(*path))
            .map(String::as_str)
            .collect();
        let mut text = String::new();
        if !shadows.is_empty() {
            text.push_str(&format!(
                "\nThis would change what the checks do, although no check names it: {}.",
                shadows.join(", ")
            ));
        }
        let can_be_lifted = |path: &&String| {
            let is_gates =
                [&recipe.gate_scripts, &recipe.gate_shadows].iter().any(|it| it.contains(*path));
            is_gates || !recipe.is_locked(path)
        };
        if let Some(path) = paths.iter().find(can_be_lifted) {
            text.push_str(&format!(
                "\nOnly the user can allow it: `\"protect\": [\"!{path}\"]` in the settings. If the task cannot be done otherwise, report that as a blocker."
            ));
        }
        text
    }
}
