//! Turns terminal output, byte by byte, into plain text for a prompt or a report.
//!
//! Not here: how much of it is kept.

/// Strips escape sequences and control characters from output that comes in pieces.
///
/// A lone carriage return, as progress bars use it, becomes a newline. Bytes that are not UTF-8
/// become U+FFFD.
#[derive(Debug, Default)]
pub struct Plain {
    /// The first bytes of a character whose rest has not come yet.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// After a carriage return.
    Return,
    /// After ESC.
    Escape,
    /// In a control sequence: ESC `[` up to a letter.
    Control,
    /// In a string such as a title or a link, up to BEL or ESC `\`.
    Quoted,
    /// After ESC within such a string.
    StringEscape,
}

impl Plain {
    /// Takes in the next bytes and appends what is text to `plain`.
    pub fn feed(&mut self, bytes: &[u8], plain: &mut String) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.take(text, plain);
                    return;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.take(&String::from_utf8_lossy(good), plain);
                    let Some(length) = error.error_len() else {
                        self.held = bad.to_vec();
                        return;
                    };
                    self.take("\u{fffd}", plain);
                    rest = &bad[length..];
                }
            }
        }
    }

    /// Appends what the end of the output left open.
    pub fn finish(&mut self, plain: &mut String) {
        if !std::mem::take(&mut self.held).is_empty() {
            self.take("\u{fffd}", plain);
        }
    }

    fn take(&mut self, text: &str, plain: &mut String) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let run = match self.state {
                State::Text => rest.bytes().take_while(|byte| is_plain(*byte)).count(),
                State::Return
                | State::Escape
                | State::Control
                | State::Quoted
                | State::StringEscape => 0,
            };
            if run > 0 {
                // Almost all output is this, and character by character takes twice as long.
                plain.push_str(&rest[..run]);
                rest = &rest[run..];
            } else {
                self.state = self.step(character, plain);
                rest = &rest[character.len_utf8()..];
            }
        }
    }

    fn step(&self, character: char, plain: &mut String) -> State {
        if character == '\n' {
            // Also the end of a sequence that was never closed: it must not swallow the rest.
            plain.push('\n');
            return State::Text;
        }
        match self.state {
            State::Text => ground(character, plain),
            State::Return => {
                plain.push('\n');
                ground(character, plain)
            }
            State::Escape => match character {
                '[' => State::Control,
                ']' | 'P' | 'X' | '^' | '_' => State::Quoted,
                ' '..='/' => State::Escape,
                _ => State::Text,
            },
            State::Control => match character {
                '@'..='~' => State::Text,
                '\u{1b}' => State::Escape,
                _ => State::Control,
            },
            State::Quoted => match character {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::StringEscape,
                _ => State::Quoted,
            },
            State::StringEscape => match character {
                '\\' => State::Text,
                '[' => State::Control,
                _ => State::Quoted,
            },
        }
    }
}

/// Returns whether a byte is a character that stays as it is.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

fn ground(character: char, plain: &mut String) -> State {
    match character {
        '\u{1b}' => State::Escape,
        '\u{9b}' => State::Control,
        '\u{9d}' | '\u{90}' => State::Quoted,
        '\r' => State::Return,
        '\t' => {
            plain.push('\t');
            State::Text
        }
        control if control.is_control() => State::Text,
        text => {
            plain.push(text);
            State::Text
        }
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
            ("gr\u{fc}n \u{9b}1m\u{1f980}".as_bytes(), "gr\u{fc}n \u{1f980}"),
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
