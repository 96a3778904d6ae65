//! Recognizes volatile words by their shape: times, durations, addresses, ids.

/// What the shape of a word says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordShape {
    /// Never the same twice.
    Always,
    /// Volatile, unless it is a value that a test compares.
    Unstable,
    /// `3/10`.
    Fraction,
    Percent,
    Other,
}

/// Classifies a word by its shape.
pub(super) fn classify_word(word: &str) -> WordShape {
    if let Some(digits) = word.trim_start_matches('+').strip_prefix("0x") {
        return match digits.len() {
            _ if !is_hex(digits) => WordShape::Other,
            // Offsets into functions, as in the traces of Go.
            _ if word.starts_with('+') => WordShape::Always,
            // Addresses of 64 bits; values of 32 bits have at most 8 digits.
            9.. => WordShape::Always,
            6..=8 => WordShape::Unstable,
            _ => WordShape::Other,
        };
    }
    if is_uuid(word) || is_worker(word) {
        return WordShape::Always;
    }
    if is_date(word) || (word.len() >= 16 && is_hex(word)) {
        return WordShape::Unstable;
    }
    if let Some((part, whole)) = word.split_once('/')
        && is_number(part)
        && is_number(whole)
    {
        return WordShape::Fraction;
    }
    if word.strip_suffix('%').is_some_and(is_number) {
        return WordShape::Percent;
    }
    WordShape::Other
}

/// Writes the stable part of a partly volatile word and returns true, if it is one.
pub(super) fn scrub_parts(word: &str, out: &mut String) -> bool {
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
        && (name == "node" || super::classify_key(name) == super::NumberRole::Volatile)
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
pub(super) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
        || word.split_once('.').is_some_and(|(whole, part)| {
            !whole.is_empty()
                && !part.is_empty()
                && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit())
        })
}

/// Returns whether a word consists of hexadecimal digits only.
pub(super) fn is_hex(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && word.split('-').all(is_hex)
}

/// Matches the workers of pytest-xdist.
fn is_worker(word: &str) -> bool {
    word.strip_prefix("gw").is_some_and(is_number)
}

/// Returns whether a word contains a time of day, with or without a date before it.
pub(super) fn is_clock(word: &str) -> bool {
    let word =
        word.split_once('T').filter(|(date, _)| is_date(date)).map_or(word, |(_, time)| time);
    let bytes = word.as_bytes();
    let two = |at: usize| bytes[at].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
    if bytes.len() >= 8 && two(0) && bytes[2] == b':' && two(3) && bytes[5] == b':' && two(6) {
        return bytes[8..]
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'Z' | b'+' | b'-' | b':'));
    }
    // The date and time format of web servers: `15/Nov/2026:05:45:26`.
    bytes.len() >= 20 && bytes[2] == b'/' && is_month(word.get(3..6).unwrap_or_default())
}

fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_separator = |byte: u8| byte == b'-' || byte == b'/' || byte == b'.';
    bytes.len() == 10
        && is_separator(bytes[4])
        && bytes[4] == bytes[7]
        && bytes.iter().enumerate().all(|(at, byte)| at == 4 || at == 7 || byte.is_ascii_digit())
}

pub(super) fn is_month(word: &str) -> bool {
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .contains(&word)
}

pub(super) fn is_weekday(word: &str) -> bool {
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&word)
}

pub(super) fn is_year(number: &str) -> bool {
    number.len() == 4
        && (number.starts_with("19") || number.starts_with("20"))
        && !number.contains('.')
}

/// Returns whether a position in a file follows, as in `main.ts(3,7): error`.
pub(super) fn is_position(rest: &str) -> bool {
    let end = rest.find(|next: char| !(next.is_ascii_digit() || next == ',')).unwrap_or(0);
    end > 0 && rest[end..].starts_with("):")
}

/// Returns whether a number is a timestamp or an id: too large for a count.
pub(super) fn is_moment(number: &str) -> bool {
    number.len() >= 12 && !number.contains('.')
        || (number.len() == 10 && number.starts_with('1') && number.as_bytes()[1] >= b'6')
}

/// Time units, as runners write them.
const UNITS: [&str; 15] = [
    "ns", "us", "µs", "μs", "ms", "s", "m", "h", "sec", "secs", "second", "seconds", "min", "mins",
    "minutes",
];

/// Returns the number of decimals of a duration such as `1.25s` or `1m3s`; `None` otherwise.
pub(super) fn count_duration_decimals(word: &str) -> Option<usize> {
    let mut decimals = 0;
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.find(|next: char| !(next.is_ascii_digit() || next == '.'))?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|next: char| next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if !is_number(number) || !UNITS.contains(&unit) {
            return None;
        }
        decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        rest = after;
    }
    (!word.is_empty()).then_some(decimals)
}

/// Returns the length of the unit after a number, with the space before it.
pub(super) fn measure_unit(rest: &str) -> Option<usize> {
    let unit = rest.strip_prefix(' ')?;
    let end = unit.find(|next: char| !next.is_alphabetic()).unwrap_or(unit.len());
    // A single letter is a unit only if no word can follow.
    let is_unit =
        UNITS.contains(&&unit[..end]) || ["microseconds", "milliseconds"].contains(&&unit[..end]);
    is_unit.then_some(end + 1)
}

/// Returns whether the number before this text counts something that grows with every new test.
pub(super) fn is_counted(rest: &str) -> bool {
    let rest = rest.trim_start();
    let end = rest.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(rest.len());
    matches!(
        &rest[..end],
        "passed"
            | "passing"
            | "pass"
            | "tests"
            | "test"
            | "total"
            | "examples"
            | "example"
            | "items"
            | "filtered"
            | "ignored"
            | "skipped"
            | "measured"
            | "pending"
            | "assertions"
            | "successful"
            | "successes"
            | "completed"
            | "deselected"
            | "specs"
            | "suites"
    )
}

/// Returns whether a word is a file name: with an extension that contains a letter.
pub(super) fn is_file(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=12).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}
