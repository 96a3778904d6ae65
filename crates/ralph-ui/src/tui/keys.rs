//! Parses the bytes of a terminal into keys.
//!
//! Understands the sequences common to current terminals and ignores the rest. Not here: what a
//! key does (`key_actions`), and Ctrl-C and Ctrl-Z, which the terminal turns into signals.

/// A key press or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
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
    held: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// Longer than a note may be; a clipboard may hold megabytes.
const LONGEST_PASTE: usize = 16 * 1024;
/// Longer sequences are ignored.
const LONGEST_SEQUENCE: usize = 32;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The result of parsing the first bytes.
enum Step {
    /// The number of bytes consumed, and their key, if any.
    Done(usize, Option<Key>),
    /// The sequence is incomplete.
    More,
}

impl Keyboard {
    /// Adds bytes, and returns the complete keys.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.held.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.read_paste() {
                    Some(text) => keys.push(Key::Paste(text)),
                    None => return keys,
                }
            } else if self.held.starts_with(PASTE_BEGINS) {
                self.held.drain(..PASTE_BEGINS.len());
                self.paste = Some(Vec::new());
            } else {
                match first(&self.held) {
                    Step::Done(0, _) | Step::More => return keys,
                    Step::Done(count, key) => {
                        self.held.drain(..count);
                        keys.extend(key);
                    }
                }
            }
        }
    }

    /// Returns the key in the buffered bytes when no more bytes follow: a lone ESC is a key.
    pub(crate) fn settle(&mut self) -> Vec<Key> {
        if self.paste.is_some() || self.held.is_empty() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        if held == b"\x1b" { vec![Key::Escape] } else { Vec::new() }
    }

    /// Reads more of a paste; returns the text once it is complete.
    fn read_paste(&mut self) -> Option<String> {
        let paste = self.paste.as_mut()?;
        let end = self.held.windows(PASTE_ENDS.len()).position(|it| it == PASTE_ENDS);
        // The end marker may be split between reads.
        let kept = PASTE_ENDS.len() - 1;
        let upto = end.unwrap_or(self.held.len().saturating_sub(kept));
        let room = LONGEST_PASTE.saturating_sub(paste.len());
        paste.extend(self.held[..upto].iter().take(room));
        self.held.drain(..upto);
        end?;
        self.held.drain(..PASTE_ENDS.len());
        let bytes = self.paste.take()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn first(bytes: &[u8]) -> Step {
    let Some(byte) = bytes.first() else { return Step::More };
    let one = |key| Step::Done(1, Some(key));
    match byte {
        0x1b => escape(bytes),
        b'\r' | b'\n' => one(Key::Enter),
        b'\t' => one(Key::Tab),
        0x08 | 0x7f => one(Key::Backspace),
        0x01 => one(Key::Home),
        0x05 => one(Key::End),
        0x0c => one(Key::Redraw),
        0x15 => one(Key::Clear),
        0x17 => one(Key::WordBack),
        0..=0x1f => Step::Done(1, None),
        _ => character(bytes),
    }
}

fn character(bytes: &[u8]) -> Step {
    let start = &bytes[..bytes.len().min(4)];
    match std::str::from_utf8(start) {
        Ok(text) => whole(text),
        Err(error) if error.valid_up_to() > 0 => {
            whole(std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default())
        }
        Err(error) => match error.error_len() {
            Some(count) => Step::Done(count, None),
            None => Step::More,
        },
    }
}

fn whole(text: &str) -> Step {
    match text.chars().next() {
        Some(it) if it.is_control() => Step::Done(it.len_utf8(), None),
        Some(it) => Step::Done(it.len_utf8(), Some(Key::Char(it))),
        None => Step::More,
    }
}

fn escape(bytes: &[u8]) -> Step {
    match bytes.get(1) {
        None => Step::More,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Step::More,
            Some(last) => Step::Done(3, named(*last, b"")),
        },
        // The user typed ESC followed by another key, or held Alt.
        Some(_) => Step::Done(1, Some(Key::Escape)),
    }
}

fn sequence(bytes: &[u8]) -> Step {
    // Reads no further than this, so that the result does not depend on how the bytes are split.
    let parameters = &bytes[2..bytes.len().min(LONGEST_SEQUENCE)];
    match parameters.iter().position(|it| !matches!(it, 0x20..=0x3f)) {
        Some(end) if matches!(parameters[end], 0x40..=0x7e) => {
            Step::Done(end + 3, named(parameters[end], &parameters[..end]))
        }
        // A byte that cannot be part of a sequence ends it, and is parsed separately.
        Some(end) => Step::Done(end + 2, None),
        None if bytes.len() >= LONGEST_SEQUENCE => Step::Done(LONGEST_SEQUENCE, None),
        None => Step::More,
    }
}

/// Returns the key of a sequence by its final byte and parameters.
fn named(last: u8, parameters: &[u8]) -> Option<Key> {
    let number = parameters.split(|it| *it == b';').next().unwrap_or_default();
    Some(match (last, number) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'M', b"") => Key::Enter,
        (b'~', b"3") => Key::Delete,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        (_, _) => return None,
    })
}

/// Checks, for fuzzing, that splitting the bytes does not change the keys and little is buffered.
pub(super) fn fuzz(bytes: &[u8]) {
    let read = |size: usize| {
        let mut keyboard = Keyboard::default();
        let mut keys = Vec::new();
        for piece in bytes.chunks(size) {
            keys.extend(keyboard.feed(piece));
            assert!(keyboard.held.len() <= LONGEST_SEQUENCE + size, "little is buffered");
        }
        keys.extend(keyboard.settle());
        keys
    };
    let whole = read(bytes.len().max(1));
    assert_eq!(whole, read(1), "however it is split");
    assert_eq!(whole, read(3), "however it is split");
    for key in whole {
        if let Key::Paste(text) = &key {
            assert!(text.len() <= LONGEST_PASTE * 3, "a paste is bounded");
        }
        if let Key::Char(character) = key {
            assert!(!character.is_control(), "{character:?} is not a key");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expect: &[Key]) {
        let mut keyboard = Keyboard::default();
        let mut whole = keyboard.feed(bytes);
        whole.extend(keyboard.settle());
        assert_eq!(whole, expect, "{bytes:?}");
        // One byte at a time gives the same keys.
        let mut keyboard = Keyboard::default();
        let mut single: Vec<Key> = bytes.iter().flat_map(|it| keyboard.feed(&[*it])).collect();
        single.extend(keyboard.settle());
        assert_eq!(single, expect, "byte by byte: {bytes:?}");
    }

    #[test]
    fn terminal_sequences_become_keys() {
        check(b"q", &[Key::Char('q')]);
        check("ü日👍".as_bytes(), &[Key::Char('ü'), Key::Char('日'), Key::Char('👍')]);
        check(b"\x1b", &[Key::Escape]);
        check(
            b"\r\x7f\t\x15\x17\x0c",
            &[Key::Enter, Key::Backspace, Key::Tab, Key::Clear, Key::WordBack, Key::Redraw],
        );
        check(b"\x1b[A\x1b[B\x1bOC\x1b[1;5D", &[Key::Up, Key::Down, Key::Right, Key::Left]);
        check(
            b"\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[3~",
            &[Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Delete],
        );
        check(b"\x1b[15~x\x00\xff\xc3y", &[Key::Char('x'), Key::Char('y')]);
        check(b"\x1bq", &[Key::Escape, Key::Char('q')]);
        // A byte that cannot be part of a sequence ends it; a long sequence is not waited for.
        check(b"\x1b[2\x1b[A\x1b[1\rx", &[Key::Up, Key::Enter, Key::Char('x')]);
        let long = [b"\x1b[".as_slice(), &[b'1'; LONGEST_SEQUENCE - 2], b"C"].concat();
        check(&long, &[Key::Char('C')]);
    }

    #[test]
    fn pasted_text_is_no_command() {
        let text = "stop\nnow \u{1b}[A ü".to_owned();
        let bytes = [PASTE_BEGINS, text.as_bytes(), PASTE_ENDS, b"q"].concat();
        check(&bytes, &[Key::Paste(text), Key::Char('q')]);
        let long = [PASTE_BEGINS, "x".repeat(100_000).as_bytes(), PASTE_ENDS].concat();
        let keys = Keyboard::default().feed(&long);
        assert_eq!(keys, [Key::Paste("x".repeat(LONGEST_PASTE))]);
    }

    proptest! {
        #[test]
        fn no_bytes_are_held_for_good(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut keyboard = Keyboard::default();
            keyboard.feed(&bytes);
            keyboard.settle();
            prop_assert!(keyboard.held.len() <= LONGEST_SEQUENCE.max(PASTE_ENDS.len()));
        }
    }
}
