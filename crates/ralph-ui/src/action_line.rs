//! The current action of a run in one line, for the live line, `status` and pages.
//!
//! Not here: deriving the action.

use ralph_core::reporting::current_action::CurrentAction;
use ralph_model::units::Millis;

use crate::sanitize;
use crate::time::format_countdown;

/// About two lines of a terminal.
const LONGEST: usize = 200;

/// Returns the action without anything that could change a terminal.
pub(crate) fn format_action(current: &CurrentAction) -> String {
    sanitize::sanitize_line(&current.action, LONGEST, "…")
}

/// Returns how long it takes so far, and the tokens and the money of the run as far as known.
pub(crate) fn format_figures(current: &CurrentAction, ran: Millis) -> String {
    // A clock that counts up does not round.
    let mut figures = vec![format_countdown(Millis(ran.0 / 1000 * 1000))];
    if current.tokens.0 > 0 {
        figures.push(format!("{} tokens", current.tokens));
    }
    figures.extend(current.cost.map(|cost| cost.to_string()));
    figures.join(", ")
}

#[cfg(test)]
mod tests {
    use ralph_model::units::{Timestamp, Tokens, UsdMicros};

    use super::*;

    #[test]
    fn figures_are_shown_as_far_as_they_are_known() {
        let mut current = CurrentAction {
            action: "Bash: ls \u{1b}[2J".to_owned(),
            since: Timestamp(0),
            tools: 0,
            tokens: Tokens(0),
            cost: None,
        };
        assert_eq!(format_figures(&current, Millis(12_900)), "0:12");
        (current.tokens, current.cost) = (Tokens(45_000), Some(UsdMicros(120_000)));
        assert_eq!(format_figures(&current, Millis(72_000)), "1:12, 45K tokens, $0.12");
        assert!(!format_action(&current).contains('\u{1b}'));
    }
}
