//! Whether ralph's own hooks ran, as far as the stream reports it.
//!
//! Hooks fail open: if one is not loaded, disabled or cannot start, everything passes without a
//! message. So ralph expects an answer of its hook at the start of the session; it contains the
//! run id, which no hook of the user does. Not here: what the hooks decide.

use ralph_model::text::shorten_to_line;

use super::wire;

/// The plugin's name in the stream.
const PLUGIN: &str = "ralph";

/// How much of a reason one line shows.
const REASON_CHARS: usize = 300;

/// What the stream has reported about ralph's hooks in one call.
#[derive(Debug, Default)]
pub(super) struct HookWatch {
    /// The run id that ralph's hook prints.
    run: String,
    has_answered: bool,
    /// Whether a session has begun; hooks of its start run before that.
    has_begun: bool,
    /// Why there may be no answer.
    problem: Option<String>,
}

impl HookWatch {
    /// Returns the state before the first line of a call in a run.
    pub(super) fn for_run(run: &str) -> Self {
        Self { run: run.to_owned(), ..Self::default() }
    }

    /// Records the start of a session and its plugins.
    pub(super) fn record_session(&mut self, line: &wire::System) {
        self.has_begun = true;
        let is_ours = |name: &Option<String>| name.as_deref() == Some(PLUGIN);
        let error = line.plugin_errors.iter().flatten().find(|error| is_ours(&error.plugin));
        let is_loaded =
            line.plugins.as_ref().is_none_or(|all| all.iter().any(|it| is_ours(&it.name)));
        if let Some(error) = error {
            let why = error.message.as_deref().unwrap_or("it does not say why");
            self.problem =
                Some(format!("it cannot load the plugin: {}", shorten_to_line(why, REASON_CHARS)));
        } else if !is_loaded {
            self.problem = Some("it has not loaded the plugin".to_owned());
        }
    }

    /// Reads the response of a hook. Refusals are not reported here: the agent gets the reason for
    /// a denied tool or stop, and that message is shown.
    pub(super) fn record_response(&mut self, line: &wire::System) {
        if line.hook_event.as_deref() != Some("SessionStart") {
            return;
        }
        let stdout = line.stdout.as_deref().unwrap_or_default();
        self.has_answered |= !self.run.is_empty() && stdout.contains(&self.run);
        if let Some(code) = line.exit_code.filter(|code| *code != 0) {
            let message = shorten_to_line(line.stderr.as_deref().unwrap_or_default(), REASON_CHARS);
            self.problem.get_or_insert(format!("exit code {code} of a hook: {message}"));
        }
    }

    /// Returns why ralph's hooks did not run, if a session began without them.
    pub(super) fn missing_reason(&self) -> Option<&str> {
        if self.has_answered || !self.has_begun {
            return None;
        }
        Some(self.problem.as_deref().unwrap_or(
            "none answered at the start of the session; are they switched off (`disableAllHooks`)?",
        ))
    }
}

#[cfg(test)]
mod tests;
