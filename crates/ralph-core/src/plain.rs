//! Turns terminal output, byte by byte, into plain text for a prompt or a report.
//!
//! Not here: how much of it is kept.

use anstyle_parse::state::{Action, State, state_change};

/// Strips escape sequences and control characters from output that arrives in pieces.
///
/// A lone carriage return, as progress bars use it, becomes a newline. Bytes that are not UTF-8
/// become U+FFFD.
#[derive(Debug, Default)]
pub struct Plain {
    /// The first bytes of a character whose rest has not arrived yet.
    held: Vec<u8>,
    escapes: State,
    is_after_return: bool,
}

impl Plain {
    /// Takes the next bytes and appends their text to `plain`.
    pub fn feed(&mut self, bytes: &[u8], plain: &mut String) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut chunks = held.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.strip(chunk.valid(), plain);
            let is_cut = |it: std::str::Utf8Error| it.error_len().is_none();
            match chunk.invalid() {
                [] => {}
                // The rest of this character may be in the next piece.
                cut if chunks.peek().is_none() && std::str::from_utf8(cut).is_err_and(is_cut) => {
                    self.held = cut.to_vec();
                }
                _ => self.strip("\u{fffd}", plain),
            }
        }
    }

    /// Appends what the end of the output left open.
    pub fn finish(&mut self, plain: &mut String) {
        if !std::mem::take(&mut self.held).is_empty() {
            self.strip("\u{fffd}", plain);
        }
    }

    fn strip(&mut self, text: &str, plain: &mut String) {
        for character in text.chars() {
            let action = match u8::try_from(character) {
                // Also ends an unclosed sequence, which would swallow the rest of the output.
                Ok(b'\n') => {
                    self.escapes = State::Ground;
                    Action::Print
                }
                Ok(byte @ 0..=0x7f) => self.advance(byte),
                Ok(_) | Err(_) if self.escapes == State::Ground => Action::Print,
                Ok(_) | Err(_) => Action::Ignore,
            };
            if !matches!(action, Action::Print | Action::Execute) {
                continue;
            }
            if std::mem::take(&mut self.is_after_return) && character != '\n' {
                plain.push('\n');
            }
            match character {
                '\r' => self.is_after_return = true,
                '\n' | '\t' => plain.push(character),
                control if control.is_control() => {}
                visible => plain.push(visible),
            }
        }
    }

    fn advance(&mut self, byte: u8) -> Action {
        let (state, action) = state_change(self.escapes, byte);
        // The table's way to say that the state stays.
        if state != State::Anywhere {
            self.escapes = state;
        }
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(pieces: &[&[u8]]) -> String {
        let mut plain = String::new();
        let mut stripper = Plain::default();
        for piece in pieces {
            stripper.feed(piece, &mut plain);
        }
        stripper.finish(&mut plain);
        plain
    }

    #[test]
    fn only_text_is_left_wherever_the_pieces_are_cut() {
        let cases: [(&[u8], &str); 12] = [
            (b"plain\ttext\n", "plain\ttext\n"),
            (b"\x1b[31;1mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b]unclosed\nnext", "\nnext"),
            (b"\x1b(Bset\x1b7", "set"),
            (b"10%\r20%\r\ndone\r", "10%\n20%\ndone"),
            (b"a\x00b\x08c\x7fd", "abcd"),
            ("gr\u{fc}n \x1b[1m\u{1f980}".as_bytes(), "gr\u{fc}n \u{1f980}"),
            (b"bad\xff\xfebytes", "bad\u{fffd}\u{fffd}bytes"),
            (b"cut\xf0\x9f", "cut\u{fffd}"),
            (b"\x1b[\x1b[1mx", "x"),
        ];
        for (bytes, expect) in cases {
            assert_eq!(strip(&[bytes]), expect, "{bytes:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(strip(&single), expect, "{bytes:?} byte by byte");
        }
    }
}
