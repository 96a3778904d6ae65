//! Refusals: protected paths, secrets and changes of `.git` fail an attempt without a gate.
//!
//! Not here: when work is refused, which `choose` decides.

use ralph_model::event::Event;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::refusal::{Refusal, RefusalKind};
use ralph_model::worktree::{Checkpoint, Observation, TreeId, describe_git_tampering};

use super::checking::describe_kept_ref;
use super::{Engine, EngineError, StepError, ViewKind};
use crate::checking::secret::leak;
use crate::checking::stuck::ErrorHasher;
use crate::run_loop::choose;

impl Engine<'_> {
    /// Refuses the observed work.
    pub(super) fn refuse_work(&mut self, kind: RefusalKind) -> Result<(), StepError> {
        let seen = self.map_current(|current| current.observation().cloned()).flatten();
        let Some(seen) = seen else { return Ok(()) };
        let output = match kind {
            RefusalKind::ProtectedPaths => self.refuse_paths(&seen)?,
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
        self.record_refusal(kind, output)?;
        Ok(())
    }

    /// Records a refusal.
    pub(super) fn record_refusal(
        &mut self,
        kind: RefusalKind,
        output: String,
    ) -> Result<(), EngineError> {
        let mut hasher = ErrorHasher::new(kind.name());
        hasher.feed_text(&output);
        let refusal = Refusal { kind, output, hash: hasher.finish_hash() };
        self.record_event(Event::Refused { refusal })?;
        self.publish_view(ViewKind::Gates)
    }

    /// Returns the feedback for work that changed protected or out-of-scope paths.
    /// Out-of-scope files are restored at once, because the agent cannot fix them.
    fn refuse_paths(&mut self, seen: &Observation) -> Result<String, StepError> {
        let paths = self
            .map_current(|current| choose::find_forbidden_paths(&self.state, current, seen))
            .unwrap_or_default();
        let list = |paths: Vec<&str>| format!("\n- {}", paths.join("\n- "));
        let changed = list(paths.iter().map(String::as_str).collect());
        let scope = self.state.recipe.scope.clone();
        Ok(if scope.is_empty() {
            let recipe = &self.state.recipe;
            let can_be_lifted = |path: &&String| {
                let is_gates =
                    [&recipe.gate_scripts, &recipe.gate_shadows].iter().any(|it| it.contains(path));
                is_gates || !recipe.is_locked(path)
            };
            let is_shadow = |path: &&String| recipe.gate_shadows.contains(path);
            let shadows: Vec<&str> = paths.iter().filter(is_shadow).map(String::as_str).collect();
            let shadows = if shadows.is_empty() {
                String::new()
            } else {
                format!(
                    "\nThis would change what the checks do, although no check names it: {}.",
                    shadows.join(", ")
                )
            };
            let remedy = paths.iter().find(can_be_lifted).map(|path| {
                format!("\nOnly the user can allow it: `\"protect\": [\"!{path}\"]` in the settings. If the task cannot be done otherwise, report that as a blocker.")
            });
            let restored = list_restoring_commands(&paths, seen, self.state.base.as_ref());
            format!(
                "These paths are protected and were changed. Restore them, and do the task without touching them:{restored}{shadows}{}",
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
        })
    }
}

/// Returns the changed paths as a list, each with how to restore it where git knows it.
fn list_restoring_commands(
    paths: &[String],
    seen: &Observation,
    base: Option<&Checkpoint>,
) -> String {
    // The tree, not the commit: it also has what the user had not committed.
    let tree = match base {
        Some(Checkpoint::Git { tree, .. }) => tree.as_ref().map(TreeId::short_id),
        Some(Checkpoint::None) | None => None,
    };
    let mut text = String::new();
    for path in paths {
        let is_new = |file: &FileTouched| file.path == *path && file.action == FileAction::Created;
        let how = match tree {
            Some(_) if seen.files.iter().any(is_new) => " (delete it)".to_owned(),
            Some(tree) => format!(" (`git checkout {tree} -- '{path}'`)"),
            None => String::new(),
        };
        text.push_str(&format!("\n- {path}{how}"));
    }
    text
}
