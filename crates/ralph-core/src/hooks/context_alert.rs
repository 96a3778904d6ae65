//! Alerts about the context window: when one is due in a session, and its text.
//!
//! There are five thresholds, each reported once; if several are crossed at a time, only the
//! highest. Not here: measuring the usage, and remembering what was reported.

use ralph_model::hook_state::HookState;
use ralph_model::task::ListOwner;
use ralph_model::units::Tokens;

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertUrgency {
    Notice,
    /// Time to finish soon.
    Warning,
    /// Time to finish now.
    Critical,
}

impl AlertUrgency {
    /// Returns the word an alert begins with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

/// The thresholds in percent of the window.
const THRESHOLDS: [(u8, AlertUrgency); 5] = [
    (50, AlertUrgency::Notice),
    (60, AlertUrgency::Notice),
    (70, AlertUrgency::Warning),
    (80, AlertUrgency::Warning),
    (90, AlertUrgency::Critical),
];

/// How much of the window is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowUsage {
    pub used: Tokens,
    /// Never zero.
    pub window: Tokens,
}

impl WindowUsage {
    /// Returns the used part in whole percent.
    pub fn percent(self) -> u64 {
        let window = u128::from(self.window.0.max(1));
        u64::try_from(u128::from(self.used.0) * 100 / window).unwrap_or(u64::MAX)
    }
}

/// An alert that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextAlert {
    /// The threshold that was crossed, in percent.
    pub threshold: u8,
    pub urgency: AlertUrgency,
    pub usage: WindowUsage,
}

/// Returns the alert that is due; `last` is the highest threshold reported so far (0 if none).
pub fn find_due_alert(fill: WindowUsage, last: u8) -> Option<ContextAlert> {
    let percent = fill.percent();
    let crossed = THRESHOLDS.iter().rfind(|(threshold, _)| u64::from(*threshold) <= percent);
    let (threshold, urgency) = *crossed?;
    (threshold > last).then_some(ContextAlert { threshold, urgency, usage: fill })
}

/// Where an agent writes down what is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverDestination {
    /// A session that ralph did not start.
    Nowhere,
    /// A loop over a prompt: only the work tree survives.
    WorkTree,
    Handoff,
    /// The task list and `progress.txt`, which the agent writes.
    TaskList,
}

impl LeftoverDestination {
    /// Returns the destination in a session that ralph started.
    pub fn for_session<S>(active: &HookState<S>) -> Self {
        match active.keeper {
            None => Self::WorkTree,
            Some(ListOwner::Ralph) => Self::Handoff,
            Some(ListOwner::Agent) => Self::TaskList,
        }
    }
}

impl ContextAlert {
    /// Returns the alert for the agent.
    pub fn format_for(&self, destination: LeftoverDestination) -> String {
        let advice = match self.urgency {
            AlertUrgency::Notice => describe_notice(destination),
            AlertUrgency::Warning => describe_warning(destination),
            AlertUrgency::Critical => describe_critical(destination),
        };
        format!(
            "{}: {} % of the context window is used ({} of {} tokens). {advice}",
            self.urgency.name(),
            self.usage.percent(),
            self.usage.used,
            self.usage.window,
        )
    }
}

fn describe_notice(destination: LeftoverDestination) -> &'static str {
    match destination {
        LeftoverDestination::Nowhere => {
            "Watch the remaining space: aim to finish the current piece of work in this session."
        }
        LeftoverDestination::WorkTree => {
            "Watch the remaining space: aim to finish the current piece of work in this session. \
             The next iteration starts with an empty context."
        }
        LeftoverDestination::Handoff => {
            "Watch the remaining space: aim to finish this task in this session. Name follow-up \
             work in your handoff; a later iteration does it."
        }
        LeftoverDestination::TaskList => {
            "Watch the remaining space: aim to finish this story in this session. Follow-up \
             work becomes a new story in the task file; a later iteration does it."
        }
    }
}

fn describe_warning(destination: LeftoverDestination) -> &'static str {
    match destination {
        LeftoverDestination::Nowhere => "Finish the current piece of work and start nothing new.",
        LeftoverDestination::WorkTree => {
            "Finish the current piece of work and start nothing new. Leave the work tree \
             in a state that the next iteration can continue from."
        }
        LeftoverDestination::Handoff => {
            "Finish this task and start nothing new. Put what is left, and what you \
             learned about it, into your handoff."
        }
        LeftoverDestination::TaskList => {
            "Finish this story, commit soon, and start nothing new. Put what is left \
             into new stories in the task file, and what you learned into progress.txt."
        }
    }
}

fn describe_critical(destination: LeftoverDestination) -> &'static str {
    match destination {
        LeftoverDestination::Nowhere => {
            "Stop working now: save what matters, say what is left to do, and end."
        }
        LeftoverDestination::WorkTree => {
            "Stop working now: leave the files in a state that works, say what is left to do, and \
             end. The next iteration continues from there."
        }
        LeftoverDestination::Handoff => {
            "Stop working now: leave the files in a state that works, answer with your handoff, \
             with everything that is left and everything the next iteration must know, and end."
        }
        LeftoverDestination::TaskList => {
            "Stop working now: (1) add stories for what is left to the task file, (2) write what \
             the next iteration must know into progress.txt, (3) commit everything, (4) end."
        }
    }
}

/// The window of unknown and of most current models.
const LARGE_WINDOW: Tokens = Tokens(1_000_000);

/// The window of older and smaller models, and if no model is known at all.
const SMALL_WINDOW: Tokens = Tokens(200_000);

/// Names of models with the small window. Models newer than this list have the large one.
const SMALL_MODELS: [&str; 8] =
    ["claude-3", "haiku-4", "sonnet-4", "opus-4-0", "opus-4-1", "opus-4-2", "opus-4-5", "opus-4-6"];

/// Whether windows of a million tokens are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LargeWindows {
    Allowed,
    /// The user has switched them off.
    Off,
}

/// Returns the window of a model by its name.
pub fn find_window(model: Option<&str>, large: LargeWindows) -> Tokens {
    match (model, large) {
        (_, LargeWindows::Off) | (None, LargeWindows::Allowed) => SMALL_WINDOW,
        (Some(model), LargeWindows::Allowed) => {
            let is_small = SMALL_MODELS.iter().any(|small| model.contains(small));
            if is_small && !model.ends_with("[1m]") { SMALL_WINDOW } else { LARGE_WINDOW }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn fill(percent: u64) -> WindowUsage {
        WindowUsage { used: Tokens(percent * 2_000), window: Tokens(200_000) }
    }

    #[track_caller]
    fn check(percents: &[u64], expect: &[u8]) {
        let mut last = 0;
        let mut alerts = Vec::new();
        for percent in percents {
            if let Some(alert) = find_due_alert(fill(*percent), last) {
                last = alert.threshold;
                alerts.push(alert.threshold);
            }
        }
        assert_eq!(alerts, expect, "{percents:?}");
    }

    #[test]
    fn each_threshold_is_reported_once_and_only_the_highest() {
        check(&[0, 10, 49], &[]);
        check(&[49, 50, 50, 59, 60, 69, 70, 79, 80, 89, 90, 99, 100, 120], &[50, 60, 70, 80, 90]);
        check(&[10, 75, 76], &[70]);
        check(&[95, 96], &[90]);
        check(&[65, 30, 55, 70], &[60, 70]);
    }

    #[test]
    fn an_empty_window_does_not_panic() {
        let fill = WindowUsage { used: Tokens(u64::MAX), window: Tokens(0) };
        assert_eq!(find_due_alert(fill, 0).map(|alert| alert.threshold), Some(90));
    }

    #[test]
    fn windows_follow_the_model() {
        use LargeWindows::{Allowed, Off};
        for (model, large, expect) in [
            (Some("claude-opus-5-5"), Allowed, LARGE_WINDOW),
            (Some("claude-opus-4-8"), Allowed, LARGE_WINDOW),
            (Some("something-else"), Allowed, LARGE_WINDOW),
            (Some("claude-opus-4-6"), Allowed, SMALL_WINDOW),
            (Some("claude-sonnet-4-5-20250929"), Allowed, SMALL_WINDOW),
            (Some("claude-sonnet-4-6"), Allowed, SMALL_WINDOW),
            (Some("claude-sonnet-4-6[1m]"), Allowed, LARGE_WINDOW),
            (Some("claude-opus-5-5"), Off, SMALL_WINDOW),
            (None, Allowed, SMALL_WINDOW),
        ] {
            assert_eq!(find_window(model, large), expect, "{model:?}");
        }
    }

    #[test]
    fn the_advice_fits_the_session() {
        let mut text = String::new();
        for percent in [52, 74, 93] {
            for destination in [
                LeftoverDestination::Nowhere,
                LeftoverDestination::WorkTree,
                LeftoverDestination::Handoff,
                LeftoverDestination::TaskList,
            ] {
                let alert = find_due_alert(fill(percent), 0).expect("due");
                text.push_str(&format!("{}\n", alert.format_for(destination)));
            }
        }
        expect![[r"
            NOTICE: 52 % of the context window is used (104K of 200K tokens). Watch the remaining space: aim to finish the current piece of work in this session.
            NOTICE: 52 % of the context window is used (104K of 200K tokens). Watch the remaining space: aim to finish the current piece of work in this session. The next iteration starts with an empty context.
            NOTICE: 52 % of the context window is used (104K of 200K tokens). Watch the remaining space: aim to finish this task in this session. Name follow-up work in your handoff; a later iteration does it.
            NOTICE: 52 % of the context window is used (104K of 200K tokens). Watch the remaining space: aim to finish this story in this session. Follow-up work becomes a new story in the task file; a later iteration does it.
            WARNING: 74 % of the context window is used (148K of 200K tokens). Finish the current piece of work and start nothing new.
            WARNING: 74 % of the context window is used (148K of 200K tokens). Finish the current piece of work and start nothing new. Leave the work tree in a state that the next iteration can continue from.
            WARNING: 74 % of the context window is used (148K of 200K tokens). Finish this task and start nothing new. Put what is left, and what you learned about it, into your handoff.
            WARNING: 74 % of the context window is used (148K of 200K tokens). Finish this story, commit soon, and start nothing new. Put what is left into new stories in the task file, and what you learned into progress.txt.
            CRITICAL: 93 % of the context window is used (186K of 200K tokens). Stop working now: save what matters, say what is left to do, and end.
            CRITICAL: 93 % of the context window is used (186K of 200K tokens). Stop working now: leave the files in a state that works, say what is left to do, and end. The next iteration continues from there.
            CRITICAL: 93 % of the context window is used (186K of 200K tokens). Stop working now: leave the files in a state that works, answer with your handoff, with everything that is left and everything the next iteration must know, and end.
            CRITICAL: 93 % of the context window is used (186K of 200K tokens). Stop working now: (1) add stories for what is left to the task file, (2) write what the next iteration must know into progress.txt, (3) commit everything, (4) end.
        "]].assert_eq(&text);
    }
}
