//! Removes what changes between runs of the same failure, before hashing: numbers that are no
//! values, hexadecimal ids, paths, times and durations.
//!
//! A line is processed word by word. Only a word with a digit or a slash can be volatile, so most
//! of the text is copied as it is. A line that compares values keeps its numbers: they are the
//! failure. Irrelevant lines are removed by `noise`.

mod paths;

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
        let line = if self.directory.is_empty() || !line.contains(&self.directory) {
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
    /// Whether a parenthesis follows a file name, as in `main.ts(3,7):`.
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
            if !is_word(bytes[start]) {
                self.take_separators(bytes, start);
                continue;
            }
            while self.at < bytes.len() && is_word(bytes[self.at]) {
                self.at += 1;
            }
            let word = &self.line[start..self.at];
            self.words += 1;
            if word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'/') {
                self.take_marked(word, start);
            } else {
                self.take_plain(word);
            }
            self.previous = word;
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
                let position = self.line[self.at..]
                    .trim_start_matches(|it: char| it.is_ascii_digit() || it == ',');
                self.is_in_place = paths::is_file(self.previous) && position.starts_with("):");
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
        self.key = match classify_key(word) {
            NumberRole::Plain if is_filler(word) => self.key,
            key @ (NumberRole::Plain | NumberRole::Volatile | NumberRole::Position) => key,
        };
        let first = word.chars().next().unwrap_or_default();
        let is_rule = word.len() >= 4 * first.len_utf8() && word.chars().all(|it| it == first);
        if is_rule {
            self.scrubbed.push(first);
        } else {
            self.scrubbed.push_str(word);
        }
    }

    /// Processes a word with a digit or a slash.
    fn take_marked(&mut self, word: &'a str, start: usize) {
        let end = word.trim_end_matches(['.', ':']).len();
        let (core, tail) = word.split_at(end);
        let key = std::mem::replace(&mut self.key, NumberRole::Plain);
        if self.is_volatile_word(core, start, key) {
            if !self.scrubbed.ends_with(GAP) {
                self.scrubbed.push(GAP);
            }
        } else if !paths::scrub_path(core, self.scrubbed) && !scrub_parts(core, self.scrubbed) {
            self.key = classify_key(core);
            self.scrubbed.push_str(core);
        }
        self.scrubbed.push_str(tail);
    }

    /// Returns whether the whole word is removed.
    fn is_volatile_word(&mut self, core: &str, start: usize, key: NumberRole) -> bool {
        let rest = &self.line[self.at..];
        let is_opened = self.line[..start].trim_end().ends_with(['(', '[']);
        let is_enclosed = is_opened && rest.starts_with([')', ']']);
        let unsigned = core.trim_start_matches(['-', '+']);
        if is_number(unsigned) {
            return self.is_volatile_number(unsigned, key, is_opened);
        }
        if let Some(decimals) = count_duration_decimals(unsigned) {
            return is_enclosed || decimals > 1 || !self.is_comparison();
        }
        if let Some(digits) =
            core.trim_start_matches('+').strip_prefix("0x").filter(|it| is_hex(it))
        {
            // Offsets, arguments that Go is not sure about, and addresses of 64 bits. Values of 32
            // bits have at most 8 digits.
            return core.starts_with('+')
                || rest.starts_with('?')
                || digits.len() > 8
                || (digits.len() > 5 && !self.is_comparison());
        }
        if is_clock(core) || is_uuid(core) || core.strip_prefix("gw").is_some_and(is_number) {
            return true;
        }
        if is_date(core) || (core.len() >= 16 && is_hex(core)) {
            return !self.is_comparison();
        }
        // `(1/6)`, `3/10 Test #3` and `[ 50%]` of progress.
        let is_fraction =
            core.split_once('/').is_some_and(|(part, whole)| is_number(part) && is_number(whole));
        (is_fraction && (is_enclosed || rest.starts_with(" Test ")))
            || (core.strip_suffix('%').is_some_and(is_number) && rest.starts_with(']'))
    }

    /// Returns whether a number is removed, with the unit behind it.
    fn is_volatile_number(&mut self, number: &str, key: NumberRole, is_opened: bool) -> bool {
        let rest = &self.line[self.at..];
        if key == NumberRole::Volatile {
            return true;
        }
        if let Some(unit) = measure_unit(rest) {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            let is_volatile = is_opened || decimals > 1 || !self.is_comparison();
            self.at += if is_volatile { unit } else { 0 };
            return is_volatile;
        }
        // The number of a line, of a failure in a list, or of a frame in a trace; `not ok 3` in TAP,
        // `Test #3` of ctest; the thread of a panic; `main.ts(3,7):`.
        let is_first = self.words == 1 && rest.trim_start().starts_with(['|', ')', ':']);
        let is_test = (self.words <= 3 && self.previous == "ok")
            || (self.previous == "Test" && self.scrubbed.ends_with('#'));
        let is_thread = is_opened && rest.starts_with(')') && self.line.contains("panicked");
        if is_first || is_test || is_thread || self.is_in_place {
            return true;
        }
        // Values have few digits; process ids, ports, years and moments have four or more.
        let is_large = number.split_once('.').map_or(number, |(_, decimals)| decimals).len() >= 4;
        (key == NumberRole::Position || is_large || is_counted(rest)) && !self.is_comparison()
    }

    /// Returns whether the line compares values: these are the failure itself.
    fn is_comparison(&mut self) -> bool {
        *self.compares.get_or_insert_with(|| compares_values(self.line))
    }
}

fn is_word(byte: u8) -> bool {
    byte >= 0x80
        || byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'.' | b'/' | b':' | b'@' | b'+' | b'-' | b'%' | b'~' | b'\\')
}

/// Returns how a word classifies a number after it.
fn classify_key(word: &str) -> NumberRole {
    const VOLATILE: &str = "pid tid ppid seed port took thread worker shuffle process elapsed threadid \
    duration goroutine";
    let word = word.trim_end_matches([':', '.']);
    let last = word.rsplit(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_one_of = |names: &str| names.split(' ').any(|name| last.eq_ignore_ascii_case(name));
    if word.ends_with("duration_ms") || is_one_of(VOLATILE) {
        NumberRole::Volatile
    } else if is_one_of("col line column") {
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
    const COMPARING: &str = "got but left want right equal actual assert expect should wanted equals \
    expected received assertion";
    let trimmed = line.trim_start();
    let is_result = ["×", "✕", "✗", "✖", "✘", "FAIL", "not ok", "--- ", "test "]
        .iter()
        .any(|mark| trimmed.starts_with(mark));
    if is_result {
        return false;
    }
    ["E ", "+ ", "- "].iter().any(|mark| trimmed.starts_with(mark))
        || [" == ", " != ", " === ", " !== "].iter().any(|sign| trimmed.contains(sign))
        || trimmed
            .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .any(|word| {
                word.eq_ignore_ascii_case("AssertionError")
                    || COMPARING.split(' ').any(|known| word.eq_ignore_ascii_case(known))
            })
}

/// Writes the stable part of a partly volatile word and returns true, if it is one.
fn scrub_parts(word: &str, out: &mut String) -> bool {
    // A Java object: its class and its address.
    if let Some((class, identity)) = word.rsplit_once('@')
        && (5..=8).contains(&identity.len())
        && is_hex(identity)
        && !class.is_empty()
    {
        out.push_str(class);
        out.push('@');
        return true;
    }
    // `node:12345` in its warnings, `seed:42`.
    if let Some((name, number)) = word.rsplit_once(':')
        && is_number(number)
        && (name == "node" || classify_key(name) == NumberRole::Volatile)
    {
        out.push_str(name);
        return true;
    }
    let lower = word.to_ascii_lowercase();
    if lower.contains("thread-") || lower.contains("worker-") || lower.starts_with("pool-") {
        out.extend(word.chars().filter(|character| !character.is_ascii_digit()));
        return true;
    }
    false
}

/// Returns whether a word is a number, with or without decimals.
fn is_number(word: &str) -> bool {
    let is_digits = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(word)
        || word.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part))
}

/// Returns whether a word consists of hexadecimal digits only.
fn is_hex(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    word.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && word.split('-').all(is_hex)
}

/// Returns whether a word is a time of day, with or without a date before it.
fn is_clock(word: &str) -> bool {
    let time =
        word.split_once('T').filter(|(date, _)| is_date(date)).map_or(word, |(_, time)| time);
    let bytes = time.as_bytes();
    bytes.len() >= 8
        && bytes[2] == b':'
        && bytes[5] == b':'
        && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'Z' | b'+' | b'-' | b':'))
}

fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 10
        && matches!(bytes[4], b'-' | b'/' | b'.')
        && bytes[4] == bytes[7]
        && bytes.iter().enumerate().all(|(at, byte)| at == 4 || at == 7 || byte.is_ascii_digit())
}

/// Time units, as runners write them.
const UNITS: &str = "ns us µs μs ms s m h sec secs second seconds min mins minutes microseconds \
    milliseconds";

/// Returns the number of decimals of a duration such as `1.25s` or `1m3s`; `None` otherwise.
fn count_duration_decimals(word: &str) -> Option<usize> {
    let mut decimals = 0;
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.find(|next: char| !(next.is_ascii_digit() || next == '.'))?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|next: char| next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if !is_number(number) || !UNITS.split(' ').any(|known| known == unit) {
            return None;
        }
        decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        rest = after;
    }
    (!word.is_empty()).then_some(decimals)
}

/// Returns the length of the unit after a number, with the space before it.
fn measure_unit(rest: &str) -> Option<usize> {
    let unit = rest.strip_prefix(' ')?;
    let end = unit.find(|next: char| !next.is_alphabetic()).unwrap_or(unit.len());
    UNITS.split(' ').any(|known| *known == unit[..end]).then_some(end + 1)
}

/// Returns whether the number before this text counts something that grows with every new test.
fn is_counted(rest: &str) -> bool {
    const COUNTED: &str = "passed passing pass tests test total examples example items filtered ignored \
    skipped measured pending assertions successful successes completed deselected \
    specs suites";
    let rest = rest.trim_start();
    let end = rest.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(rest.len());
    COUNTED.split(' ').any(|known| *known == rest[..end])
}

#[cfg(test)]
mod tests;
