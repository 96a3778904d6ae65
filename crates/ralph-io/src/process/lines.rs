//! Splits a stream of bytes into lines, in bounded memory.
//!
//! Not here: what a line means.

use std::borrow::Cow;
use std::io::BufRead as _;

/// The longest line that is kept whole. Agents send whole files and images in one line of JSON; the
/// largest seen is a few MiB.
const CAP: usize = 16 * 1024 * 1024;

/// How much of a line that is too long is kept.
const START: usize = 4 * 1024;

/// A buffer that a long line has enlarged is shrunk to this size.
const KEPT_BUFFER: usize = 1024 * 1024;

/// Splits bytes, fed in pieces of any size, into lines.
///
/// A line ends with `\n` or `\r\n`. Bytes that are not UTF-8 become U+FFFD; NUL is kept.
#[derive(Debug)]
pub struct OutputLines {
    cap: usize,
    /// The incomplete line, or its start once it is too long.
    held: Vec<u8>,
    length: LineLength,
}

/// The length of the incomplete line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineLength {
    /// As long as the buffer.
    Held,
    /// Longer than the cap.
    Over { bytes: u64, last: u8 },
}

/// One line, without its line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputLine<'a> {
    /// A line within the cap.
    Whole(Cow<'a, str>),
    /// A line beyond the cap.
    TooLong {
        start: String,
        /// Its whole length in bytes.
        bytes: u64,
    },
}

impl Default for OutputLines {
    fn default() -> Self {
        Self::with_cap(CAP)
    }
}

impl OutputLines {
    /// Returns a splitter that keeps lines of up to `cap` bytes whole.
    pub fn with_cap(cap: usize) -> Self {
        Self { cap: cap.max(1), held: Vec::new(), length: LineLength::Held }
    }

    /// Takes the next bytes and passes on every line that they complete.
    pub fn push_bytes(&mut self, mut bytes: &[u8], mut each: impl FnMut(OutputLine<'_>)) {
        while let Some((line, rest)) = split_line(bytes) {
            bytes = rest;
            let whole = self.held.is_empty() && line.len() <= self.cap;
            if whole && self.length == LineLength::Held {
                each(OutputLine::Whole(decode_line(strip_return(line))));
            } else {
                self.buffer_bytes(line);
                self.pass_on(&mut each);
            }
        }
        self.buffer_bytes(bytes);
    }

    /// Passes on a last line without a newline, if there is one.
    pub fn finish(&mut self, mut each: impl FnMut(OutputLine<'_>)) {
        if !self.held.is_empty() {
            self.pass_on(&mut each);
        }
    }

    fn buffer_bytes(&mut self, bytes: &[u8]) {
        let Some(&last) = bytes.last() else { return };
        match &mut self.length {
            LineLength::Held => {
                self.held.extend_from_slice(bytes);
                // One byte more may be the `\r` of the line break.
                let over = strip_return(&self.held).len() > self.cap;
                if over {
                    self.length = LineLength::Over { bytes: self.held.len() as u64, last };
                    self.held.truncate(START.min(self.cap));
                    self.held.shrink_to_fit();
                }
            }
            LineLength::Over { bytes: total, last: previous } => {
                *total += bytes.len() as u64;
                *previous = last;
            }
        }
    }

    fn pass_on(&mut self, each: &mut impl FnMut(OutputLine<'_>)) {
        match std::mem::replace(&mut self.length, LineLength::Held) {
            LineLength::Held => {
                each(OutputLine::Whole(decode_line(strip_return(&self.held))));
            }
            LineLength::Over { bytes, last } => each(OutputLine::TooLong {
                start: String::from_utf8_lossy(drop_cut_character(&self.held)).into_owned(),
                bytes: bytes - u64::from(last == b'\r'),
            }),
        }
        self.held.clear();
        self.held.shrink_to(KEPT_BUFFER);
    }
}

/// Splits off the first line, without its newline, if it has one.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    // The standard library's fastest search for a byte; a slice in memory cannot fail.
    let length = rest.skip_until(b'\n').unwrap_or(0);
    let line = bytes[..length].strip_suffix(b"\n")?;
    Some((line, rest))
}

/// Decodes a line. Most are valid, and validating is much faster than replacing.
fn decode_line(line: &[u8]) -> Cow<'_, str> {
    str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

fn strip_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Drops an incomplete character at the end.
fn drop_cut_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]], cap: usize) -> Vec<OutputLine<'static>> {
        let mut lines = OutputLines::with_cap(cap);
        let mut found = Vec::new();
        let mut keep = |line: OutputLine<'_>| {
            found.push(match line {
                OutputLine::Whole(text) => OutputLine::Whole(Cow::Owned(text.into_owned())),
                OutputLine::TooLong { start, bytes } => OutputLine::TooLong { start, bytes },
            });
        };
        for piece in pieces {
            lines.push_bytes(piece, &mut keep);
        }
        lines.finish(&mut keep);
        found
    }

    fn whole(text: &'static str) -> OutputLine<'static> {
        OutputLine::Whole(Cow::Borrowed(text))
    }

    fn too_long(start: &str, bytes: u64) -> OutputLine<'static> {
        OutputLine::TooLong { start: start.to_owned(), bytes }
    }

    #[test]
    fn lines_end_with_a_newline_of_either_kind() {
        let cases: [(&[u8], Vec<OutputLine<'_>>); 8] = [
            (b"", vec![]),
            (b"\n", vec![whole("")]),
            (b"one\ntwo\r\n", vec![whole("one"), whole("two")]),
            (b"one\n\nlast", vec![whole("one"), whole(""), whole("last")]),
            (b"a\rb\r\r\n", vec![whole("a\rb\r")]),
            (b"nul\0inside\n", vec![whole("nul\0inside")]),
            (b"bad \xff\xfe bytes\n", vec![whole("bad \u{fffd}\u{fffd} bytes")]),
            (b"gr\xc3\xbc\xc3\x9fe", vec![whole("grüße")]),
        ];
        for (input, expected) in cases {
            assert_eq!(split(&[input], 64), expected, "{input:?}");
        }
    }

    #[test]
    fn a_line_beyond_the_cap_is_counted_and_the_next_one_is_whole() {
        let cases: [(&[u8], Vec<OutputLine<'_>>); 6] = [
            (b"1234\n", vec![whole("1234")]),
            (b"1234\r\n", vec![whole("1234")]),
            (b"12345\n", vec![too_long("1234", 5)]),
            (b"12345\r\nok\n", vec![too_long("1234", 5), whole("ok")]),
            (b"1234\rx", vec![too_long("1234", 6)]),
            ("123ü\nok".as_bytes(), vec![too_long("123", 5), whole("ok")]),
        ];
        for (input, expected) in cases {
            assert_eq!(split(&[input], 4), expected, "{input:?}");
        }
    }

    #[test]
    fn a_flood_without_newline_does_not_grow_the_buffer() {
        let mut lines = OutputLines::with_cap(100_000);
        for _ in 0..1000 {
            lines.push_bytes(&[b'x'; 10_000], |_| {});
        }
        assert!(lines.held.capacity() <= START, "{}", lines.held.capacity());
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_where_the_pieces_are_cut(
            input in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'x'), Just(0xc3), Just(0xbc), any::<u8>()],
                0..60,
            ),
            cap in 1..12_usize,
        ) {
            let expected = split(&[&input], cap);
            for at in 0..=input.len() {
                let (before, after) = input.split_at(at);
                prop_assert_eq!(&split(&[before, after], cap), &expected);
            }
            let single: Vec<&[u8]> = input.chunks(1).collect();
            prop_assert_eq!(&split(&single, cap), &expected);
        }
    }
}
