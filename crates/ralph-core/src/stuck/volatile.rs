//! Removes what changes between runs of the same failure, before hashing.
//!
//! A line is processed word by word. Only a word with a digit or a slash can be volatile, so most
//! of the text is copied as it is. Irrelevant lines are removed by `noise`.

mod paths;
mod shapes;

/// Removes from lines what changes between runs.
#[derive(Debug, Clone)]
pub(super) struct VolatileScrubber {
    /// The project directory; empty if unknown.
    directory: String,
    scrubbed: String,
}

impl VolatileScrubber {
    pub(super) fn new(directory: &str) -> Self {
        // A short one, such as `/`, would match unrelated text.
        let directory = directory.trim_end_matches('/');
        let directory = if directory.len() > 3 { directory } else { "" };
        Self { directory: directory.to_owned(), scrubbed: String::new() }
    }

    /// Returns a line without its volatile parts.
    pub(super) fn scrub_line(&mut self, line: &str) -> &str {
        self.scrubbed.clear();
        let relative;
        let line = if self.directory.is_empty()
            || !line.contains('/')
            || !line.contains(&self.directory)
        {
            line
        } else {
            relative = paths::strip_directory(line, &self.directory);
            &relative
        };
        let mut pass = ScrubPass {
            line,
            at: 0,
            words: 0,
            key: NumberRole::Plain,
            previous: "",
            is_after_clock: false,
            is_in_place: false,
            compares: None,
            scrubbed: &mut self.scrubbed,
        };
        pass.scrub_all();
        let length = self.scrubbed.trim_end().len();
        self.scrubbed.truncate(length);
        &self.scrubbed
    }
}

/// Replaces what was removed.
const GAP: char = '#';

/// How the words before a number classify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberRole {
    Plain,
    /// A seed, a process id, a port or similar.
    Volatile,
    /// A position in a file, unless the line compares values.
    Position,
}

/// The state of one pass over a line.
struct ScrubPass<'a> {
    line: &'a str,
    at: usize,
    words: usize,
    key: NumberRole,
    previous: &'a str,
    /// Whether a time of day was found; a year and a time zone may follow.
    is_after_clock: bool,
    /// Whether a parenthesis follows a file name, as in `main.ts(3,7)`.
    is_in_place: bool,
    /// Whether the line compares values; computed on first use.
    compares: Option<bool>,
    scrubbed: &'a mut String,
}

impl<'a> ScrubPass<'a> {
    fn scrub_all(&mut self) {
        let bytes = self.line.as_bytes();
        while self.at < bytes.len() {
            let start = self.at;
            if is_word(bytes[start]) {
                let mut has_mark = false;
                while self.at < bytes.len() && is_word(bytes[self.at]) {
                    has_mark |= bytes[self.at].is_ascii_digit() || bytes[self.at] == b'/';
                    self.at += 1;
                }
                let word = &self.line[start..self.at];
                self.words += 1;
                if has_mark {
                    self.take_marked(word, start);
                } else {
                    self.take_plain(word);
                }
                self.previous = word;
            } else {
                self.take_separators(bytes, start);
            }
        }
    }

    /// Processes the characters between words. Ruler lines are as long as the line is wide, so four
    /// or more equal characters count as one.
    fn take_separators(&mut self, bytes: &[u8], start: usize) {
        let byte = bytes[start];
        self.at += 1;
        if byte == b' ' || byte == b'\t' {
            if !self.scrubbed.is_empty() && !self.scrubbed.ends_with(' ') {
                self.scrubbed.push(' ');
            }
            return;
        }
        while bytes.get(self.at) == Some(&byte) {
            self.at += 1;
        }
        match byte {
            b'(' => {
                self.is_in_place =
                    shapes::is_file(self.previous) && shapes::is_position(self.rest_of_line());
            }
            b')' => self.is_in_place = false,
            b',' | b';' => self.key = NumberRole::Plain,
            _ => {}
        }
        let count = self.at - start;
        for _ in 0..if count >= 4 { 1 } else { count } {
            self.scrubbed.push(char::from(byte));
        }
    }

    fn take_plain(&mut self, word: &'a str) {
        if self.is_calendar(word) {
            self.key = NumberRole::Volatile;
            return;
        }
        if self.is_after_clock && matches!(word, "AM" | "PM" | "UTC" | "GMT") {
            return;
        }
        self.key = match classify_key(word) {
            NumberRole::Plain if is_filler(word) => self.key,
            key @ (NumberRole::Plain | NumberRole::Volatile | NumberRole::Position) => key,
        };
        let first = word.chars().next().unwrap_or_default();
        let is_rule = word.len() >= 4 * first.len_utf8()
            && word[first.len_utf8()..].starts_with(first)
            && word.chars().all(|other| other == first);
        if is_rule {
            self.scrubbed.push(first);
        } else {
            self.scrubbed.push_str(word);
        }
    }

    /// Returns whether a word is the name of a day or a month followed by a number.
    fn is_calendar(&self, word: &str) -> bool {
        if word.len() != 3 || !(shapes::is_weekday(word) || shapes::is_month(word)) {
            return false;
        }
        let rest = self.rest_of_line().trim_start_matches([' ', ',']);
        let next = rest.split(|character: char| !character.is_ascii_alphanumeric()).next();
        next.is_some_and(|next| {
            shapes::is_month(next) || (next.len() <= 4 && shapes::is_number(next))
        })
    }

    fn rest_of_line(&self) -> &'a str {
        &self.line[self.at..]
    }

    /// Processes a word with a digit or a slash.
    fn take_marked(&mut self, word: &'a str, start: usize) {
        let end = word.trim_end_matches(['.', ':']).len();
        let (core, tail) = word.split_at(end);
        let key = std::mem::replace(&mut self.key, NumberRole::Plain);
        if !self.is_volatile_word(core, start, key) {
            self.keep_word(core);
        } else if !self.scrubbed.ends_with(GAP) {
            self.scrubbed.push(GAP);
        }
        self.scrubbed.push_str(tail);
    }

    /// Copies a word without its volatile parts.
    fn keep_word(&mut self, core: &str) {
        if paths::scrub_path(core, self.scrubbed) || shapes::scrub_parts(core, self.scrubbed) {
            return;
        }
        self.key = classify_key(core);
        self.scrubbed.push_str(core);
    }

    /// Returns whether the whole word is removed.
    fn is_volatile_word(&mut self, core: &str, start: usize, key: NumberRole) -> bool {
        let before = self.line[..start].bytes().next_back();
        let after = self.rest_of_line().bytes().next();
        let is_enclosed = matches!(before, Some(b'(' | b'[')) && matches!(after, Some(b')' | b']'));
        let unsigned = core.trim_start_matches(['-', '+']);
        if shapes::is_number(unsigned) {
            return self.is_volatile_number(core, start, key, is_enclosed);
        }
        if shapes::is_clock(core) {
            self.is_after_clock = true;
            return true;
        }
        if let Some(decimals) = shapes::count_duration_decimals(unsigned) {
            return is_enclosed || decimals > 1 || !self.is_comparison();
        }
        // An argument that Go is not sure about: a leftover register value.
        if core.starts_with("0x") && after == Some(b'?') {
            return true;
        }
        match shapes::classify_word(core) {
            shapes::WordShape::Always => true,
            shapes::WordShape::Unstable => !self.is_comparison(),
            shapes::WordShape::Fraction => is_enclosed || self.rest_of_line().starts_with(" Test "),
            shapes::WordShape::Percent => matches!(after, Some(b']')),
            // The time zone after a time of day, and the monotonic clock of Go.
            shapes::WordShape::Other => {
                (self.previous == "m" && core.starts_with('+'))
                    || (key == NumberRole::Volatile && shapes::is_number(unsigned))
            }
        }
    }

    /// Returns whether a number is removed.
    fn is_volatile_number(
        &mut self,
        core: &str,
        start: usize,
        key: NumberRole,
        is_enclosed: bool,
    ) -> bool {
        let rest = self.rest_of_line();
        match key {
            NumberRole::Volatile => return true,
            NumberRole::Position if !self.is_comparison() => return true,
            NumberRole::Position | NumberRole::Plain => {}
        }
        if self.is_after_clock && (core.starts_with(['+', '-']) || shapes::is_year(core)) {
            return true;
        }
        if let Some(unit) = shapes::measure_unit(rest) {
            let decimals = core.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            if is_opened(self.line, start) || decimals > 1 || !self.is_comparison() {
                self.at += unit;
                return true;
            }
            return false;
        }
        if self.is_in_place {
            return true;
        }
        if self.words == 1 {
            // The number of a line, of a failure in a list, or of a frame in a trace.
            let next = rest.trim_start();
            let is_numbering = next.starts_with(['|', ')', ':']);
            if is_numbering {
                return true;
            }
        }
        // `not ok 3` in TAP, `Test #3` of ctest, `name[1234]:` of system logs, `==1234==`.
        let is_test_number = (self.words <= 3 && self.previous == "ok")
            || (self.previous == "Test" && self.scrubbed.ends_with('#'));
        let is_process = core.len() >= 3
            && ((is_enclosed && (rest.starts_with("]:") || self.line.contains("panicked")))
                || (self.scrubbed.ends_with("==") && rest.starts_with("==")));
        is_test_number
            || is_process
            || ((shapes::is_moment(core) || shapes::is_counted(rest)) && !self.is_comparison())
    }

    /// Returns whether the line compares values: these are the failure itself.
    fn is_comparison(&mut self) -> bool {
        *self.compares.get_or_insert_with(|| compares_values(self.line))
    }
}

/// Returns whether `start` follows a parenthesis.
fn is_opened(line: &str, start: usize) -> bool {
    line[..start].trim_end().ends_with(['(', '['])
}

const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte: u8 = 0;
    loop {
        table[byte as usize] = byte >= 0x80
            || byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'.' | b'/' | b':' | b'@' | b'+' | b'-' | b'%' | b'~' | b'\\');
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

fn is_word(byte: u8) -> bool {
    WORD[usize::from(byte)]
}

/// Returns how a word classifies a number after it.
fn classify_key(word: &str) -> NumberRole {
    let bytes = word.trim_end_matches([':', '.']).as_bytes();
    let start = bytes.iter().rposition(|byte| !byte.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let last = &bytes[start..];
    let is = |name: &str| last.eq_ignore_ascii_case(name.as_bytes());
    let (volatile, places): (&[&str], &[&str]) = match last.len() {
        2 if bytes.ends_with(b"duration_ms") => return NumberRole::Volatile,
        3 => (&["pid", "tid"], &["col"]),
        4 => (&["seed", "port", "took", "ppid"], &["line"]),
        6 => (&["thread", "worker"], &["column"]),
        7 => (&["shuffle", "process", "elapsed"], &[]),
        8 => (&["threadid", "duration"], &[]),
        9 => (&["goroutine"], &[]),
        _ => return NumberRole::Plain,
    };
    if volatile.iter().any(|name| is(name)) {
        NumberRole::Volatile
    } else if places.iter().any(|name| is(name)) {
        NumberRole::Position
    } else {
        NumberRole::Plain
    }
}

fn is_filler(word: &str) -> bool {
    matches!(word, "is" | "was" | "of" | "number" | "id" | "no" | "on" | ":")
}

/// Returns whether a line compares values: these are the failure itself.
fn compares_values(line: &str) -> bool {
    let trimmed = line.trim_start();
    let is_result = ["×", "✕", "✗", "✖", "✘", "FAIL", "not ok", "--- ", "test "]
        .iter()
        .any(|mark| trimmed.starts_with(mark));
    if is_result {
        return false;
    }
    trimmed.starts_with("E ")
        || trimmed.starts_with("+ ")
        || trimmed.starts_with("- ")
        || [" == ", " != ", " === ", " !== "].iter().any(|sign| trimmed.contains(sign))
        || trimmed
            .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .any(is_comparing)
}

fn is_comparing(word: &str) -> bool {
    let words: &[&str] = match word.len() {
        3 => &["got", "but"],
        4 => &["left", "want"],
        5 => &["right", "equal"],
        6 => &["actual", "assert", "expect", "should", "wanted", "equals"],
        8 => &["expected", "received"],
        9 => &["assertion"],
        14 => &["assertionerror"],
        _ => &[],
    };
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests;
