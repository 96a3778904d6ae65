//! Notifications on the terminal that shows the run: the bell, and escape sequences that terminals
//! turn into desktop notifications.
//!
//! Not here: writing to the terminal. The caller passes a function for it, because only the view
//! prints.

use std::fmt;

use ralph_core::reporting::notification::Notification;

/// How a terminal is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalSignal {
    /// With the bell alone.
    Bell,
    /// With the bell and OSC 9, which iTerm2, kitty and Windows Terminal support.
    Osc9,
    /// With the bell and OSC 777, which urxvt, foot and Ghostty support.
    Osc777,
}

/// A terminal.
pub struct TerminalChannel {
    pub ring: TerminalSignal,
    pub write: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for TerminalChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl TerminalChannel {
    pub(super) fn deliver(&self, notice: &Notification) -> String {
        (self.write)(&build_sequence(self.ring, notice));
        "written".to_owned()
    }
}

fn build_sequence(ring: TerminalSignal, notice: &Notification) -> String {
    let (title, message) = (strip_controls(&notice.title), strip_controls(&notice.message));
    match ring {
        TerminalSignal::Bell => "\x07".to_owned(),
        // A text that begins with a number and a semicolon means something else to some terminals.
        TerminalSignal::Osc9 => format!("\x07\x1b]9;{title}: {message}\x1b\\"),
        TerminalSignal::Osc777 => format!("\x07\x1b]777;notify;{title};{message}\x1b\\"),
    }
}

/// Returns a text that cannot end an escape sequence or a field of one.
fn strip_controls(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            ';' => ',',
            other if other.is_control() => ' ',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ralph_core::reporting::notification::build_test_notification;
    use ralph_model::units::Timestamp;

    use super::*;

    #[test]
    fn no_text_ends_a_sequence_early() {
        let notice = Notification {
            title: "a;b\x07\x1b]0;owned".into(),
            message: "c\u{9c}\nd".into(),
            ..build_test_notification("/p", Timestamp(0))
        };
        assert_eq!(build_sequence(TerminalSignal::Bell, &notice), "\x07");
        assert_eq!(
            build_sequence(TerminalSignal::Osc9, &notice),
            "\x07\x1b]9;a,b  ]0,owned: c  d\x1b\\"
        );
        assert_eq!(
            build_sequence(TerminalSignal::Osc777, &notice),
            "\x07\x1b]777;notify;a,b  ]0,owned;c  d\x1b\\"
        );
    }
}
