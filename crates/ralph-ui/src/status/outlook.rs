//! What a run will do next: whether it is paused or waits, pending control requests, and the
//! estimated time left.
//!
//! Not here: what it has done so far.

use ralph_core::reporting::current_action::CurrentAction;
use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_model::control::{Control, Pause, SkipRequest, UserNote};
use ralph_model::event::WaitReason;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};
use serde_json::{Value, json};

use super::format_line;
use super::workers::format_parallel;
use crate::action_line::{format_action, format_figures};
use crate::task_lines;
use crate::time::{WallClock, format_countdown};

/// Derives what a run will do next from its state, which must include all recorded requests.
pub struct RunOutlook<'a> {
    pub state: &'a RunState,
    pub clock: &'a WallClock,
    /// What the run is doing right now, if it is active.
    pub action: Option<&'a CurrentAction>,
}

/// Pending requests and remaining time of a run, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunForecast {
    /// Pending control requests, one line each.
    pub pending: Vec<String>,
    /// The remaining time at the run's pace, if it can be estimated.
    pub rest: Option<Millis>,
    /// The current action with its figures.
    pub action: Option<String>,
    /// The workers and the merge queue of a parallel run.
    pub workers: String,
}

impl RunOutlook<'_> {
    /// Returns pending requests and remaining time.
    pub fn forecast(&self) -> RunForecast {
        let action = self.action.map(|current| {
            let ran = (self.clock.now)().elapsed_since(current.since);
            format!("{} ({})", format_action(current), format_figures(current, ran))
        });
        // The workers of a run that has ended are in the report.
        let parallel = ParallelStatus::from_state(self.state);
        let parallel = parallel.filter(|it| self.state.outcome.is_none() || it.has_open_work());
        let workers = parallel.map(|it| format_parallel(&it, self.clock)).unwrap_or_default();
        let (pending, rest) = (self.pending_requests(), self.remaining_time());
        RunForecast { pending, rest, action, workers }
    }

    /// Returns why an active run is idle (paused or waiting), as the end of a sentence.
    pub fn idle_reason(&self) -> Option<String> {
        let now = (self.clock.now)();
        if let Pause::Since { at } = self.state.control.pause {
            let (since, long) =
                (self.clock.format_minutes(at, now), format_countdown(now.elapsed_since(at)));
            return Some(format!("paused since {since} ({long}); `ralph resume` resumes"));
        }
        let (until, left) = self.wait_end()?;
        let at = self.clock.format_minutes(until, now);
        let reason = self.describe_wait_reason();
        Some(format!("{reason}waiting until {at} (in {})", format_countdown(left)))
    }

    /// Returns why the run waits, as the beginning of a sentence.
    fn describe_wait_reason(&self) -> String {
        let agent = self.state.current.as_ref().and_then(|it| it.open_call()?.agent);
        match (self.state.wait.map(|wait| wait.reason), agent) {
            (Some(WaitReason::UsageLimit), Some(agent)) => {
                format!("usage limit of {}, ", agent.name())
            }
            (Some(WaitReason::UsageLimit), None) => "usage limit, ".to_owned(),
            (Some(WaitReason::Retry), _) => "the call failed and is repeated, ".to_owned(),
            (Some(WaitReason::Delay) | None, _) => String::new(),
        }
    }

    /// Returns until when the run waits before the next agent call, and how long that is.
    fn wait_end(&self) -> Option<(Timestamp, Millis)> {
        let current = self.state.current.as_ref()?;
        let asking =
            current.open_call().filter(|call| call.end.is_none() && call.pending.is_none())?;
        let until = asking.not_before?;
        let left = until.elapsed_since((self.clock.now)());
        (left > Millis::ZERO).then_some((until, left))
    }

    /// Returns the remaining time; `None` for a run that has ended.
    fn remaining_time(&self) -> Option<Millis> {
        self.state
            .outcome
            .as_ref()
            .map_or_else(|| task_lines::estimate_remaining_time(self.state), |_| None)
    }

    fn pending_requests(&self) -> Vec<String> {
        let now = (self.clock.now)();
        let at = |moment| self.clock.format_minutes(moment, now);
        let Control { pause, stop, stops_now, skips, notes, .. } = &self.state.control;
        let mut asked = Vec::new();
        let outcome = self.state.outcome.as_ref();
        let unread = self.state.unread_notes();
        if !unread.is_empty() || outcome.is_some_and(|it| !it.is_resumable()) {
            let lines =
                unread.iter().map(|note| format!("a note that no agent read: {}", note.text));
            return lines.map(|line| format_line(&line)).collect();
        }
        // Resuming a run drops these.
        let (pause, stop) = if outcome.is_none() { (pause, stop) } else { (&Pause::No, &None) };
        if let Pause::Asked { at: moment } = pause {
            asked.push(format!("pause asked at {}, after the current step", at(*moment)));
        }
        if let Some(moment) = stop {
            let when = if *stops_now { "at once" } else { "after the current step" };
            asked.push(format!("stop asked at {}, {when}", at(*moment)));
        }
        for SkipRequest { task, at: moment, by } in skips {
            let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            asked.push(format!("skip of task {task} asked at {}{by}", at(*moment)));
        }
        for UserNote { at: moment, by, text } in notes {
            let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            asked.push(format!("note of {}{by}, for the next prompt: {text}", at(*moment)));
        }
        asked.iter().map(|asked| format_line(asked)).collect()
    }

    /// Returns the same as JSON.
    pub fn to_json(&self) -> Value {
        let Control { pause, stop, skips, notes, .. } = &self.state.control;
        let (asked, since) = match pause {
            Pause::No => (None, None),
            Pause::Asked { at } => (Some(at), None),
            Pause::Since { at } => (None, Some(at)),
        };
        json!({
            "pausedSince": since,
            "pauseAsked": asked,
            "stopAsked": stop,
            "skipsAsked": skips,
            "notes": notes,
            "waitingUntil": self.wait_end().map(|(until, _)| until),
            "restMs": self.remaining_time(),
        })
    }
}
