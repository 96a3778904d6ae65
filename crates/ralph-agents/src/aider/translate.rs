//! Aider's text, line by line.
//!
//! A header ends with the line about the repository map; then come the files of the chat, the
//! answer, one line with tokens, and the edits. Errors are printed like the answer.

use ralph_model::agent_output::{AgentEvent, ResultStatus, Speaker, TextForm, Usage, UsageScope};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::{Tokens, UsdMicros};

use super::call::HINTS;
use crate::json_events::build_notice;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{ReportedFailure, TurnStatus};

/// Begins the last line of the header.
const HEADER_END: &str = "Repo-map: ";

/// Begins an error of a provider, which spans some lines.
const ERROR: &str = "litellm.";

/// Begins the line that ends an error which Aider tries again after.
const RETRY: &str = "Retrying in ";

/// The errors of the library that Aider calls models with.
const CLASSES: [(&str, FailureClass); 9] = [
    ("AuthenticationError", FailureClass::NotLoggedIn),
    ("PermissionDeniedError", FailureClass::NotLoggedIn),
    ("RateLimitError", FailureClass::RateLimited { resets_at: None }),
    ("ContextWindowExceededError", FailureClass::ContextExceeded),
    ("NotFoundError", FailureClass::BadCall),
    ("ServiceUnavailableError", FailureClass::Overloaded),
    ("InternalServerError", FailureClass::Overloaded),
    ("Timeout", FailureClass::Overloaded),
    ("APIConnectionError", FailureClass::Unreachable),
];

/// Begins the line that follows an answer.
const TOKENS: &str = "Tokens: ";

/// Begins a line about a changed file.
const EDIT: &str = "Applied edit to ";

/// Translates the text of one call.
#[derive(Debug, Default)]
pub(super) struct AiderTranslator {
    is_past_header: bool,
    turn: TurnStatus,
    /// The error that no answer has followed yet: Aider repeats some requests.
    error: Option<ReportedFailure>,
    /// Whether the next line belongs to that error.
    is_in_error: bool,
}

impl Translate for AiderTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        if !self.is_past_header {
            self.is_past_header = line.starts_with(HEADER_END);
            let notice = (!line.trim().is_empty()).then(|| build_notice(line));
            return ParsedLine::from_events(notice.into_iter().collect());
        }
        if let Some(usage) = line.strip_prefix(TOKENS).and_then(parse_usage) {
            self.error = None;
            self.is_in_error = false;
            self.turn = TurnStatus::Succeeded;
            let result =
                AgentEvent::Result { status: ResultStatus::Success, text: None, structured: None };
            let usage = AgentEvent::Usage { usage, scope: UsageScope::Step };
            return ParsedLine::from_events(vec![usage, result]);
        }
        if let Some(path) = line.strip_prefix(EDIT) {
            let path = path.trim().to_owned();
            return ParsedLine::from_events(vec![AgentEvent::FileChanged { path }]);
        }
        if line.starts_with(ERROR) {
            let class = CLASSES.iter().find(|(name, _)| line[ERROR.len()..].starts_with(name));
            let class = class.map(|(_, class)| class.clone());
            let message = line.to_owned();
            self.is_in_error = true;
            self.error = Some(ReportedFailure { message, class, ..ReportedFailure::default() });
            return ParsedLine::from_events(vec![build_notice(line)]);
        }
        if let (true, Some(error)) = (self.is_in_error, &mut self.error) {
            self.is_in_error = !line.starts_with(RETRY);
            error.message = format!("{} {}", error.message.trim_end(), line.trim());
            return ParsedLine::from_activity(LineActivity::Idle);
        }
        let text = format!("{line}\n");
        let form = TextForm::Delta;
        ParsedLine::from_events(vec![AgentEvent::Text { text, speaker: Speaker::Agent, form }])
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        match &self.error {
            Some(error) => TurnStatus::Failed(error.clone()).judge(Some(error), &HINTS, evidence),
            None => self.turn.judge(None, &HINTS, evidence),
        }
    }
}

/// Parses `1.2k sent, 300 received. Cost: $0.01 message, $0.02 session.`.
fn parse_usage(text: &str) -> Option<Usage> {
    let mut usage = Usage::default();
    let (tokens, cost) = text.split_once(". Cost: ").unwrap_or((text, ""));
    for part in tokens.trim_end_matches('.').split(", ") {
        let (count, what) = part.split_once(' ')?;
        let count = parse_count(count)?;
        match what {
            "sent" => usage.input = count,
            "received" => usage.output = count,
            "cache write" => usage.cache_write = count,
            "cache hit" => usage.cache_read = count,
            _ => return None,
        }
    }
    let message = cost.split_once(" message").and_then(|(cost, _)| cost.strip_prefix('$'));
    usage.cost = message.and_then(|cost| cost.parse().ok()).map(UsdMicros::from_dollars);
    Some(usage)
}

/// Parses `300`, `1.2k` or `3M`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating cast is what is wanted"
)]
fn parse_count(text: &str) -> Option<Tokens> {
    let (digits, factor) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000.0),
        None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1_000_000.0)),
    };
    let count: f64 = digits.replace(',', "").parse().ok()?;
    Some(Tokens((count * factor).round() as u64))
}
