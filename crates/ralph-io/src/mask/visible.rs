//! Text as people see it: without escape sequences of terminals, control characters and characters
//! of no width, which would hide a secret from a search but not from a reader.
//!
//! Zero bytes are such control characters, so that text in UTF-16 is found as well. Not here: what
//! a secret is.

use std::borrow::Cow;

use ralph_core::checking::secret::shapes::FollowingText;

/// A longer sequence is no escape sequence, or hides nothing but itself.
const LONGEST_SEQUENCE: usize = 256;

/// Characters of no width, in UTF-8 and as JSON writers escape them.
const INVISIBLE: [&[u8]; 26] = [
    b"\xc2\xad",
    b"\xcd\x8f",
    b"\xe1\xa0\x8e",
    b"\xe2\x80\x8b",
    b"\xe2\x80\x8c",
    b"\xe2\x80\x8d",
    b"\xe2\x80\x8e",
    b"\xe2\x80\x8f",
    b"\xe2\x80\xaa",
    b"\xe2\x80\xab",
    b"\xe2\x80\xac",
    b"\xe2\x80\xad",
    b"\xe2\x80\xae",
    b"\xe2\x81\xa0",
    b"\xe2\x81\xa2",
    b"\xe2\x81\xa3",
    b"\xe2\x81\xa6",
    b"\xe2\x81\xa9",
    b"\xef\xbb\xbf",
    b"\\u00ad",
    b"\\u200b",
    b"\\u200c",
    b"\\u200d",
    b"\\u2060",
    b"\\ufeff",
    b"\\ufe0f",
];

/// How an escape sequence begins, also in JSON.
const ESCAPES: [&[u8]; 3] = [b"\x1b", b"\\u001b", b"\\x1b"];

/// The visible bytes of a text, and where they are in it.
#[derive(Debug)]
pub(super) struct VisibleBytes<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// Where parts begin: in `bytes`, and in the text.
    parts: Vec<(usize, usize)>,
    /// The end of what is known: at the end of a piece, a sequence may not be complete.
    end: usize,
}

/// What is at an offset.
enum SequenceMatch {
    Visible,
    Invisible(usize),
    /// The next bytes decide.
    Cut,
}

impl<'a> VisibleBytes<'a> {
    /// Returns the visible part of a text.
    pub(super) fn from_text(text: &'a [u8], after: FollowingText) -> Self {
        let mut parts = vec![(0, 0)];
        let (mut bytes, mut done, mut at) = (Vec::new(), 0, 0);
        let mut end = text.len();
        while let Some(place) = text[at..].iter().position(|byte| may_begin(*byte)) {
            at += place;
            match parse_sequence(&text[at..]) {
                SequenceMatch::Invisible(length) => {
                    bytes.extend_from_slice(&text[done..at]);
                    at += length;
                    // Binary files have long runs of such bytes.
                    at += text[at..].iter().take_while(|byte| is_plain_control(**byte)).count();
                    done = at;
                    parts.push((bytes.len(), done));
                }
                SequenceMatch::Cut if after == FollowingText::MoreMayCome => {
                    end = at;
                    break;
                }
                SequenceMatch::Visible | SequenceMatch::Cut => at += 1,
            }
        }
        let bytes = if parts.len() == 1 {
            Cow::Borrowed(&text[..end])
        } else {
            bytes.extend_from_slice(&text[done..end]);
            Cow::Owned(bytes)
        };
        Self { bytes, parts, end }
    }

    /// Returns whether all of the known text is visible.
    pub(super) fn is_all(&self) -> bool {
        self.parts.len() == 1
    }

    /// Returns where a visible byte is in the text. The end is where the known text ends.
    pub(super) fn locate_start(&self, place: usize) -> usize {
        if place >= self.bytes.len() {
            return self.end;
        }
        let part = self.parts.partition_point(|(start, _)| *start <= place);
        let (start, offset) = self.parts[part.saturating_sub(1)];
        offset + place - start
    }

    /// Returns how many visible bytes are before an offset of the text.
    pub(super) fn count_before(&self, offset: usize) -> usize {
        let part = self.parts.partition_point(|(_, start)| *start <= offset);
        let (start, begin) = self.parts[part.saturating_sub(1)];
        let next = self.parts.get(part).map_or(self.bytes.len(), |(start, _)| *start);
        (start + offset - begin).min(next)
    }

    /// Returns where the text ends that ends before a visible byte.
    pub(super) fn locate_end(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |last| self.locate_start(last) + 1)
    }
}

/// Returns how long an invisible sequence at the beginning of a text is.
pub(super) fn measure_invisible(text: &[u8]) -> Option<usize> {
    match parse_sequence(text) {
        SequenceMatch::Invisible(length) => Some(length),
        SequenceMatch::Visible | SequenceMatch::Cut => None,
    }
}

/// Returns whether something invisible may begin with a byte.
fn may_begin(byte: u8) -> bool {
    static STARTS: [bool; 256] = {
        let mut starts = [false; 256];
        let mut byte = 0;
        while byte < 0x20 {
            // Tabs and the ends of lines can be seen.
            starts[byte] = !matches!(byte, 9 | 10 | 13);
            byte += 1;
        }
        starts[0x7f] = true;
        starts[b'\\' as usize] = true;
        let mut place = 0;
        while place < INVISIBLE.len() {
            starts[INVISIBLE[place][0] as usize] = true;
            place += 1;
        }
        starts
    };
    STARTS[usize::from(byte)]
}

/// Returns whether a byte is a control character that no sequence begins with.
fn is_plain_control(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, 9 | 10 | 13 | 0x1b)) || byte == 0x7f
}

fn parse_sequence(text: &[u8]) -> SequenceMatch {
    if is_plain_control(text[0]) {
        return SequenceMatch::Invisible(1);
    }
    let is_cut = |known: &[u8]| text.len() < known.len() && has_start(known, text);
    if text[0] == b'\\' && !matches!(text.get(1), None | Some(b'u' | b'x')) {
        return SequenceMatch::Visible;
    }
    for escape in ESCAPES {
        if has_start(text, escape) {
            return parse_escape(&text[escape.len()..], escape.len());
        }
    }
    if let Some(known) = INVISIBLE.iter().find(|known| has_start(text, known)) {
        return SequenceMatch::Invisible(known.len());
    }
    if INVISIBLE.iter().chain(&ESCAPES).any(|known| is_cut(known)) {
        SequenceMatch::Cut
    } else {
        SequenceMatch::Visible
    }
}

/// Returns whether a text starts with another one, whatever the case of its letters.
fn has_start(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
}

/// Parses the rest of an escape sequence, which no line break is part of.
fn parse_escape(rest: &[u8], escape: usize) -> SequenceMatch {
    let whole = |length: usize| SequenceMatch::Invisible(escape + length);
    let within = &rest[..rest.len().min(LONGEST_SEQUENCE)];
    let line = within.iter().position(|byte| *byte == b'\n');
    let ended = match within.first() {
        None => return SequenceMatch::Cut,
        Some(b'[') => within[1..].iter().position(|it| (0x40..=0x7e).contains(it)).map(|it| it + 2),
        // It ends with a bell, or with an escape and a backslash.
        Some(b']' | b'P' | b'_' | b'^') => {
            let is_end =
                |place: &usize| within[*place] == 7 || within[..*place].ends_with(b"\x1b\\");
            (1..within.len()).find(is_end).map(|it| if within[it] == 7 { it + 1 } else { it })
        }
        Some(b'(' | b')') => (within.len() > 1).then_some(2),
        Some(_) => Some(1),
    };
    match (ended, line) {
        (Some(ended), Some(line)) if line < ended => whole(0),
        (Some(ended), _) => whole(ended),
        (None, Some(_)) => whole(0),
        (None, None) if within.len() == LONGEST_SEQUENCE => whole(0),
        (None, None) => SequenceMatch::Cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_see_is_left_and_can_be_located() {
        for (text, expect) in [
            (&b"plain \\n text\n"[..], "plain \\n text\n"),
            (b"a\x1b[0mb\x1b[38;5;1mc", "abc"),
            (b"a\\u001b[0mb\\u200Bc", "abc"),
            (b"a\x1b]8;;http://x\x1b\\b\x1b]0;t\x07c", "abc"),
            ("a\u{200b}b\u{2060}\u{feff}c\u{ad}".as_bytes(), "abc"),
            (b"a\0b\0c\0", "abc"),
            (b"a\0\x01\x7f\0\tb\0\0\x1b[0m\0c", "a\tbc"),
            (b"a\x1b[\nb", "a[\nb"),
            ("a \u{2014} b".as_bytes(), "a \u{2014} b"),
            (b"a\x1b", "a\u{1b}"),
        ] {
            let visible = VisibleBytes::from_text(text, FollowingText::Ended);
            assert_eq!(String::from_utf8_lossy(&visible.bytes), expect);
            for (place, byte) in visible.bytes.iter().enumerate() {
                assert_eq!(text[visible.locate_start(place)], *byte, "{text:?} at {place}");
            }
        }
    }

    #[test]
    fn a_sequence_at_the_end_of_a_piece_is_left_for_the_next() {
        for (text, known) in [
            (&b"ab\x1b[3"[..], 2),
            (b"ab\x1b", 2),
            (b"ab\\u00", 2),
            (b"ab\xe2\x80", 2),
            (b"ab\x1b[3m", 6),
            (b"ab\x1b[3\n", 6),
            (b"ab\\n", 4),
        ] {
            let visible = VisibleBytes::from_text(text, FollowingText::MoreMayCome);
            assert_eq!(visible.locate_start(visible.bytes.len()), known, "{text:?}");
        }
    }
}
