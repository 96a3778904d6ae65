//! Alerts about the context window: when one is due in a session, and its text.
//!
//! There are five thresholds, each reported once; if several are crossed at a time, only the
//! highest. Not here: measuring the usage, and remembering what was reported.

use crate::active::Active;
use crate::task::Keeper;
use crate::units::Tokens;

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    Notice,
    /// Time to finish soon.
    Warning,
    /// Time to finish now.
    Critical,
}

impl Urgency {
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
const THRESHOLDS: [(u8, Urgency); 5] = [
    (50, Urgency::Notice),
    (60, Urgency::Notice),
    (70, Urgency::Warning),
    (80, Urgency::Warning),
    (90, Urgency::Critical),
];

/// How much of the window is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub used: Tokens,
    /// Never zero.
    pub window: Tokens,
}

impl Fill {
    /// Returns the used part in whole percent.
    pub fn percent(self) -> u64 {
        let window = u128::from(self.window.0.max(1));
        u64::try_from(u128::from(self.used.0) * 100 / window).unwrap_or(u64::MAX)
    }
}

/// An alert that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// The threshold that was crossed, in percent.
    pub threshold: u8,
    pub urgency: Urgency,
    pub fill: Fill,
}

/// Returns the alert that is due; `last` is the highest threshold reported so far (0 if none).
pub fn due(fill: Fill, last: u8) -> Option<Alert> {
    let percent = fill.percent();
    let crossed = THRESHOLDS.iter().rfind(|(threshold, _)| u64::from(*threshold) <= percent);
    let (threshold, urgency) = *crossed?;
    (threshold > last).then_some(Alert { threshold, urgency, fill })
}

/// Where an agent writes down what is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A session that ralph did not start.
    Nowhere,
    /// A loop over a prompt: only the work tree survives.
    WorkTree,
    Handoff,
    /// The task list and `progress.txt`, which the agent writes.
    TaskList,
}

impl Destination {
    /// Returns the destination in a session that ralph started.
    pub fn of<S>(active: &Active<S>) -> Self {
        match active.keeper {
            None => Self::WorkTree,
            Some(Keeper::Ralph) => Self::Handoff,
            Some(Keeper::Agent) => Self::TaskList,
        }
    }
}

impl Alert {
    /// Returns the alert for the agent.
    pub fn text(&self, destination: Destination) -> String {
        let advice = match self.urgency {
            Urgency::Notice => notice(destination),
            Urgency::Warning => warning(destination),
            Urgency::Critical => critical(destination),
        };
        format!(
            "{}: {} % of the context window is used ({} of {} tokens). {advice}",
            self.urgency.name(),
            self.fill.percent(),
            self.fill.used,
            self.fill.window,
        )
    }
}

fn notice(destination: Destination) -> &'static str {
    match destination {
        Destination::Nowhere => {
            "Watch the remaining space: aim to finish the current piece of work in this session."
        }
        Destination::WorkTree => {
            "Watch the remaining space: aim to finish the current piece of work in this session. \
             The next iteration starts with an empty context."
        }
        Destination::Handoff => {
            "Watch the remaining space: aim to finish this task in this session. Name follow-up \
             work in your handoff; a later iteration does it."
        }
        Destination::TaskList => {
            "Watch the remaining space: aim to finish this story in this session. Follow-up \
             work becomes a new story in the task file; a later iteration does it."
        }
    }
}

fn warning(destination: Destination) -> &'static str {
    match destination {
        Destination::Nowhere => "Finish the current piece of work and start nothing new.",
        Destination::WorkTree => {
            "Finish the current piece of work and start nothing new. Leave the work tree \
             in a state that the next iteration can continue from."
        }
        Destination::Handoff => {
            "Finish this task and start nothing new. Put what is left, and what you \
             learned about it, into your handoff."
        }
        Destination::TaskList => {
            "Finish this story, commit soon, and start nothing new. Put what is left \
             into new stories in the task file, and what you learned into progress.txt."
        }
    }
}

fn critical(destination: Destination) -> &'static str {
    match destination {
        Destination::Nowhere => {
            "Stop working now: save what matters, say what is left to do, and end."
        }
        Destination::WorkTree => {
            "Stop working now: leave the files in a state that works, say what is left to do, and \
             end. The next iteration continues from there."
        }
        Destination::Handoff => {
            "Stop working now: leave the files in a state that works, answer with your handoff, \
             with everything that is left and everything the next iteration must know, and end."
        }
        Destination::TaskList => {
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
pub fn window(model: Option<&str>, large: LargeWindows) -> Tokens {
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

    fn fill(percent: u64) -> Fill {
        Fill { used: Tokens(percent * 2_000), window: Tokens(200_000) }
    }

    #[track_caller]
    fn check(percents: &[u64], expect: &[u8]) {
        let mut last = 0;
        let mut alerts = Vec::new();
        for percent in percents {
            if let Some(alert) = due(fill(*percent), last) {
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
        let fill = Fill { used: Tokens(u64::MAX), window: Tokens(0) };
        assert_eq!(due(fill, 0).map(|alert| alert.threshold), Some(90));
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
            assert_eq!(window(model, large), expect, "{model:?}");
        }
    }

    #[test]
    fn the_advice_fits_the_session() {
        let mut text = String::new();
        for percent in [52, 74, 93] {
            for destination in [
                Destination::Nowhere,
                Destination::WorkTree,
                Destination::Handoff,
                Destination::TaskList,
            ] {
                let alert = due(fill(percent), 0).expect("due");
                text.push_str(&format!("{}\n", alert.text(destination)));
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
