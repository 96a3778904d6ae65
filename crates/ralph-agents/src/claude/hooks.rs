//! Whether ralph's own hooks ran, as far as the stream tells.
//!
//! Hooks fail open: one that is not loaded, switched off or cannot start lets everything pass
//! without a word. So the answer of the hook at the start of the session is waited for; it names
//! the run, which no hook of the user's does. Not here: what the hooks decide.

use ralph_core::text::glance;

use super::wire;

/// The plugin's name in the stream.
const PLUGIN: &str = "ralph";

/// How much of a reason is worth a line.
const REASON_CHARS: usize = 300;

/// What is known of ralph's hooks in one call.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    /// The id that ralph's own hook names.
    run: String,
    /// Whether that hook has answered.
    has_answered: bool,
    /// Whether a session has begun; hooks of its start come before that.
    has_begun: bool,
    /// Why there may be no answer.
    trouble: Option<String>,
}

impl Hooks {
    /// Returns what is known before the first line of a call in a run.
    pub(super) fn of(run: &str) -> Self {
        Self { run: run.to_owned(), ..Self::default() }
    }

    /// Notes that a session has begun, and with which plugins.
    pub(super) fn begin(&mut self, line: &wire::System) {
        self.has_begun = true;
        let is_ours = |name: &Option<String>| name.as_deref() == Some(PLUGIN);
        let error = line.plugin_errors.iter().flatten().find(|error| is_ours(&error.plugin));
        let is_loaded =
            line.plugins.as_ref().is_none_or(|all| all.iter().any(|it| is_ours(&it.name)));
        if let Some(error) = error {
            let why = error.message.as_deref().unwrap_or("it does not say why");
            self.trouble =
                Some(format!("it cannot load the plugin: {}", glance(why, REASON_CHARS)));
        } else if !is_loaded {
            self.trouble = Some("it has not loaded the plugin".to_owned());
        }
    }

    /// Reads what a hook answered. What it refused is not told here: a tool that was denied and an
    /// agent that may not stop are told why, and that is shown.
    pub(super) fn answered(&mut self, line: &wire::System) {
        if line.hook_event.as_deref() != Some("SessionStart") {
            return;
        }
        let said = line.stdout.as_deref().unwrap_or_default();
        self.has_answered |= !self.run.is_empty() && said.contains(&self.run);
        if let Some(code) = line.exit_code.filter(|code| *code != 0) {
            let words = glance(line.stderr.as_deref().unwrap_or_default(), REASON_CHARS);
            self.trouble.get_or_insert(format!("exit code {code} of a hook: {words}"));
        }
    }

    /// Returns why ralph's hooks did not run, if they should have and a session began without
    /// them.
    pub(super) fn missing(&self) -> Option<&str> {
        if self.has_answered || !self.has_begun {
            return None;
        }
        Some(self.trouble.as_deref().unwrap_or(
            "none answered at the start of the session; are they switched off (`disableAllHooks`)?",
        ))
    }
}

#[cfg(test)]
mod tests;
