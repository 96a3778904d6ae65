//! Parses the bytes of a terminal into keys.
//!
//! Understands the sequences common to current terminals and ignores the rest. Not here: what a
//! key does (`key_actions`), and Ctrl-C and Ctrl-Z, which the terminal turns into signals.

/// A key press or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalKey {
    Char(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-U.
    Clear,
    /// Ctrl-W.
    WordBack,
    /// Ctrl-L.
    Redraw,
    /// Pasted text: never a command.
    Paste(String),
}

/// Turns bytes into keys, also if sequences are split between reads.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    buffered: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// Longer than a note may be; a clipboard may hold megabytes.
const LONGEST_PASTE: usize = 16 * 1024;
/// Longer sequences are ignored.
const LONGEST_SEQUENCE: usize = 32;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The result of parsing the first bytes.
enum KeyParse {
    /// The number of bytes consumed, and their key, if any.
    Done(usize, Option<TerminalKey>),
    /// The sequence is incomplete.
    More,
}

impl Keyboard {
    /// Adds bytes, and returns the complete keys.
    pub(crate) fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<TerminalKey> {
        self.buffered.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.read_paste() {
                    Some(text) => keys.push(TerminalKey::Paste(text)),
                    None => return keys,
                }
            } else if self.buffered.starts_with(PASTE_BEGINS) {
                self.buffered.drain(..PASTE_BEGINS.len());
                self.paste = Some(Vec::new());
            } else {
                match parse_first(&self.buffered) {
                    KeyParse::Done(0, _) | KeyParse::More => return keys,
                    KeyParse::Done(count, key) => {
                        self.buffered.drain(..count);
                        keys.extend(key);
                    }
                }
            }
        }
    }

    /// Returns the key in the buffered bytes when no more bytes follow: a lone ESC is a key.
    pub(crate) fn flush_escape(&mut self) -> Vec<TerminalKey> {
        if self.paste.is_some() || self.buffered.is_empty() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.buffered);
        if held == b"\x1b" { vec![TerminalKey::Escape] } else { Vec::new() }
    }

    /// Reads more of a paste; returns the text once it is complete.
    fn read_paste(&mut self) -> Option<String> {
        let paste = self.paste.as_mut()?;
        let end = self.buffered.windows(PASTE_ENDS.len()).position(|it| it == PASTE_ENDS);
        // The end marker may be split between reads.
        let kept = PASTE_ENDS.len() - 1;
        let upto = end.unwrap_or(self.buffered.len().saturating_sub(kept));
        let room = LONGEST_PASTE.saturating_sub(paste.len());
        paste.extend(self.buffered[..upto].iter().take(room));
        self.buffered.drain(..upto);
        end?;
        self.buffered.drain(..PASTE_ENDS.len());
        let bytes = self.paste.take()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn parse_first(bytes: &[u8]) -> KeyParse {
    let Some(byte) = bytes.first() else { return KeyParse::More };
    let one = |key| KeyParse::Done(1, Some(key));
    match byte {
        0x1b => parse_escape(bytes),
        b'\r' | b'\n' => one(TerminalKey::Enter),
        b'\t' => one(TerminalKey::Tab),
        0x08 | 0x7f => one(TerminalKey::Backspace),
        0x01 => one(TerminalKey::Home),
        0x05 => one(TerminalKey::End),
        0x0c => one(TerminalKey::Redraw),
        0x15 => one(TerminalKey::Clear),
        0x17 => one(TerminalKey::WordBack),
        0..=0x1f => KeyParse::Done(1, None),
        _ => parse_char(bytes),
    }
}

fn parse_char(bytes: &[u8]) -> KeyParse {
    let start = &bytes[..bytes.len().min(4)];
    match std::str::from_utf8(start) {
        Ok(text) => parse_whole_char(text),
        Err(error) if error.valid_up_to() > 0 => {
            parse_whole_char(std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default())
        }
        Err(error) => match error.error_len() {
            Some(count) => KeyParse::Done(count, None),
            None => KeyParse::More,
        },
    }
}

fn parse_whole_char(text: &str) -> KeyParse {
    match text.chars().next() {
        Some(it) if it.is_control() => KeyParse::Done(it.len_utf8(), None),
        Some(it) => KeyParse::Done(it.len_utf8(), Some(TerminalKey::Char(it))),
        None => KeyParse::More,
    }
}

fn parse_escape(bytes: &[u8]) -> KeyParse {
    match bytes.get(1) {
        None => KeyParse::More,
        Some(b'[') => parse_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => KeyParse::More,
            Some(last) => KeyParse::Done(3, lookup_key(*last, b"")),
        },
        // The user typed ESC followed by another key, or held Alt.
        Some(_) => KeyParse::Done(1, Some(TerminalKey::Escape)),
    }
}

fn parse_sequence(bytes: &[u8]) -> KeyParse {
    // Reads no further than this, so that the result does not depend on how the bytes are split.
    let parameters = &bytes[2..bytes.len().min(LONGEST_SEQUENCE)];
    match parameters.iter().position(|it| !matches!(it, 0x20..=0x3f)) {
        Some(end) if matches!(parameters[end], 0x40..=0x7e) => {
            KeyParse::Done(end + 3, lookup_key(parameters[end], &parameters[..end]))
        }
        // A byte that cannot be part of a sequence ends it, and is parsed separately.
        Some(end) => KeyParse::Done(end + 2, None),
        None if bytes.len() >= LONGEST_SEQUENCE => KeyParse::Done(LONGEST_SEQUENCE, None),
        None => KeyParse::More,
    }
}

/// Returns the key of a sequence by its final byte and parameters.
fn lookup_key(last: u8, parameters: &[u8]) -> Option<TerminalKey> {
    let number = parameters.split(|it| *it == b';').next().unwrap_or_default();
    Some(match (last, number) {
        (b'A', _) => TerminalKey::Up,
        (b'B', _) => TerminalKey::Down,
        (b'C', _) => TerminalKey::Right,
        (b'D', _) => TerminalKey::Left,
        (b'H', _) | (b'~', b"1" | b"7") => TerminalKey::Home,
        (b'F', _) | (b'~', b"4" | b"8") => TerminalKey::End,
        (b'M', b"") => TerminalKey::Enter,
        (b'~', b"3") => TerminalKey::Delete,
        (b'~', b"5") => TerminalKey::PageUp,
        (b'~', b"6") => TerminalKey::PageDown,
        (_, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expect: &[TerminalKey]) {
        let mut keyboard = Keyboard::default();
        let mut whole = keyboard.feed_bytes(bytes);
        whole.extend(keyboard.flush_escape());
        assert_eq!(whole, expect, "{bytes:?}");
        // One byte at a time gives the same keys.
        let mut keyboard = Keyboard::default();
        let mut single: Vec<TerminalKey> =
            bytes.iter().flat_map(|it| keyboard.feed_bytes(&[*it])).collect();
        single.extend(keyboard.flush_escape());
        assert_eq!(single, expect, "byte by byte: {bytes:?}");
    }

    #[test]
    fn terminal_sequences_become_keys() {
        check(b"q", &[TerminalKey::Char('q')]);
        check(
            "ü日👍".as_bytes(),
            &[TerminalKey::Char('ü'), TerminalKey::Char('日'), TerminalKey::Char('👍')],
        );
        check(b"\x1b", &[TerminalKey::Escape]);
        check(
            b"\r\x7f\t\x15\x17\x0c",
            &[
                TerminalKey::Enter,
                TerminalKey::Backspace,
                TerminalKey::Tab,
                TerminalKey::Clear,
                TerminalKey::WordBack,
                TerminalKey::Redraw,
            ],
        );
        check(
            b"\x1b[A\x1b[B\x1bOC\x1b[1;5D",
            &[TerminalKey::Up, TerminalKey::Down, TerminalKey::Right, TerminalKey::Left],
        );
        check(
            b"\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[3~",
            &[
                TerminalKey::PageUp,
                TerminalKey::PageDown,
                TerminalKey::Home,
                TerminalKey::End,
                TerminalKey::Delete,
            ],
        );
        check(b"\x1b[15~x\x00\xff\xc3y", &[TerminalKey::Char('x'), TerminalKey::Char('y')]);
        check(b"\x1bq", &[TerminalKey::Escape, TerminalKey::Char('q')]);
        // A byte that cannot be part of a sequence ends it; a long sequence is not waited for.
        check(
            b"\x1b[2\x1b[A\x1b[1\rx",
            &[TerminalKey::Up, TerminalKey::Enter, TerminalKey::Char('x')],
        );
        let long = [b"\x1b[".as_slice(), &[b'1'; LONGEST_SEQUENCE - 2], b"C"].concat();
        check(&long, &[TerminalKey::Char('C')]);
    }

    #[test]
    fn pasted_text_is_no_command() {
        let text = "stop\nnow \u{1b}[A ü".to_owned();
        let bytes = [PASTE_BEGINS, text.as_bytes(), PASTE_ENDS, b"q"].concat();
        check(&bytes, &[TerminalKey::Paste(text), TerminalKey::Char('q')]);
        let long = [PASTE_BEGINS, "x".repeat(100_000).as_bytes(), PASTE_ENDS].concat();
        let keys = Keyboard::default().feed_bytes(&long);
        assert_eq!(keys, [TerminalKey::Paste("x".repeat(LONGEST_PASTE))]);
    }

    proptest! {
        #[test]
        fn keys_are_the_same_however_the_bytes_are_split(
            bytes in "(\x1b|\x1b\\[|\x1bO|\x1b\\[20[01]~|\x1b\\[1;5C|[A-D~;0-9]|\\PC|\x7f|\r|\x15){0,60}"
        ) {
            let bytes = bytes.as_bytes();
            let read = |size: usize| {
                let mut keyboard = Keyboard::default();
                let mut keys = Vec::new();
                for piece in bytes.chunks(size) {
                    keys.extend(keyboard.feed_bytes(piece));
                    assert!(keyboard.buffered.len() <= LONGEST_SEQUENCE + size, "little is buffered");
                }
                keys.extend(keyboard.flush_escape());
                keys
            };
            let whole = read(bytes.len().max(1));
            assert_eq!(whole, read(1), "however it is split");
            assert_eq!(whole, read(3), "however it is split");
            for key in whole {
                if let TerminalKey::Paste(text) = &key {
                    assert!(text.len() <= LONGEST_PASTE * 3, "a paste is bounded");
                }
                if let TerminalKey::Char(character) = key {
                    assert!(!character.is_control(), "{character:?} is not a key");
                }
            }
        }
    }
}
