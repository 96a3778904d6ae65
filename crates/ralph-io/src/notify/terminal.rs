//! Notifications on the terminal that shows the run: the bell, and escape sequences that terminals
//! turn into desktop notifications.
//!
//! Not here: writing to the terminal. The caller passes a function for it, because only the view
//! prints.

use std::fmt;

use ralph_core::notice::Notice;

/// How a terminal is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    /// With the bell alone.
    Bell,
    /// With the bell and OSC 9, which iTerm2, kitty and Windows Terminal support.
    Osc9,
    /// With the bell and OSC 777, which urxvt, foot and Ghostty support.
    Osc777,
}

/// A terminal.
pub struct Terminal {
    pub ring: Ring,
    pub write: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl Terminal {
    pub(super) fn deliver(&self, notice: &Notice) -> String {
        (self.write)(&sequence(self.ring, notice));
        "written".to_owned()
    }
}

fn sequence(ring: Ring, notice: &Notice) -> String {
    let (title, message) = (harmless(&notice.title), harmless(&notice.message));
    match ring {
        Ring::Bell => "\x07".to_owned(),
        // A text that begins with a number and a semicolon means something else to some terminals.
        Ring::Osc9 => format!("\x07\x1b]9;{title}: {message}\x1b\\"),
        Ring::Osc777 => format!("\x07\x1b]777;notify;{title};{message}\x1b\\"),
    }
}

/// Returns a text that cannot end an escape sequence or a field of one.
fn harmless(text: &str) -> String {
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
    use ralph_core::notice::trial;
    use ralph_core::units::Timestamp;

    use super::*;

    #[test]
    fn no_text_ends_a_sequence_early() {
        let notice = Notice {
            title: "a;b\x07\x1b]0;owned".into(),
            message: "c\u{9c}\nd".into(),
            ..trial("/p", Timestamp(0))
        };
        assert_eq!(sequence(Ring::Bell, &notice), "\x07");
        assert_eq!(sequence(Ring::Osc9, &notice), "\x07\x1b]9;a,b  ]0,owned: c  d\x1b\\");
        assert_eq!(sequence(Ring::Osc777, &notice), "\x07\x1b]777;notify;a,b  ]0,owned;c  d\x1b\\");
    }
}
