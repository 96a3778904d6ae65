//! JSON as text: what a syntax error means, and where values are.
//!
//! `serde_json` decides what is JSON; the scanner here only runs over text that it accepted. It
//! looks at one level at a time and never recurses, so that no nesting is too deep for it. Not
//! here: what values mean.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

/// A position in a text; both numbers count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Returns the position after a character at this one.
    #[must_use]
    pub fn advance_past(self, character: char) -> Self {
        match character {
            '\n' => Self { line: self.line + 1, column: 1 },
            _ => Self { column: self.column + 1, ..self },
        }
    }
}

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub position: Position,
    pub message: String,
    /// What to do about it, for common mistakes.
    pub hint: Option<&'static str>,
}

/// The kinds of JSON values, by their first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    Object,
    List,
    String,
    Number,
    Bool,
    Null,
}

impl JsonKind {
    /// Returns the name of the kind, with an article.
    pub fn name_with_article(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::List => "a list",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        }
    }
}

/// One entry of an object. Ranges are byte offsets in the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key; raw if it is not valid Unicode, such as half a surrogate pair.
    pub key: Cow<'a, str>,
    /// The range of the key, with its quotes.
    pub key_range: Range<usize>,
    pub value: Range<usize>,
}

/// Returns the range of the only value of a JSON text, or why it is not JSON.
pub fn find_root(text: &str, from: usize) -> Result<Range<usize>, SyntaxError> {
    serde_json::from_str::<IgnoredAny>(&text[from..])
        .map_err(|error| explain_error(&text[from..], &error))?;
    let start = skip_space(text.as_bytes(), from);
    Ok(start..find_value_end(text.as_bytes(), start))
}

/// Returns the kind of the value that begins here.
pub fn detect_kind(text: &str, at: usize) -> JsonKind {
    match text.as_bytes().get(at) {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::List,
        Some(b'"') => JsonKind::String,
        Some(b't' | b'f') => JsonKind::Bool,
        Some(b'n') => JsonKind::Null,
        Some(_) | None => JsonKind::Number,
    }
}

/// Returns the entries of an object.
pub fn find_members<'a>(text: &'a str, object: &Range<usize>) -> Vec<Member<'a>> {
    let bytes = text.as_bytes();
    let mut members = Vec::new();
    let mut at = skip_space(bytes, object.start + 1);
    while bytes.get(at) == Some(&b'"') {
        let key_range = at..find_value_end(bytes, at);
        let colon = skip_space(bytes, key_range.end);
        let value = skip_space(bytes, colon + 1).min(bytes.len());
        let value = value..find_value_end(bytes, value);
        at = skip_space(bytes, value.end);
        members.push(Member { key: decode_key(&text[key_range.clone()]), key_range, value });
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
    }
    members
}

/// Returns the ranges of the elements of a list.
pub(crate) fn find_elements(text: &str, list: &Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut elements = Vec::new();
    let mut at = skip_space(bytes, list.start + 1);
    while at < list.end && bytes.get(at) != Some(&b']') {
        let element = at..find_value_end(bytes, at);
        at = skip_space(bytes, element.end);
        elements.push(element);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
    }
    elements
}

/// Returns the text of a string value, unless it is not valid Unicode, such as half a surrogate
/// pair.
pub fn decode_string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Returns the positions of byte offsets, which must be sorted, in one pass over the text.
pub fn find_positions(text: &str, offsets: impl IntoIterator<Item = usize>) -> Vec<Position> {
    let mut at = 0;
    let mut here = Position::START;
    let mut positions = Vec::new();
    for offset in offsets {
        for character in text[at..offset].chars() {
            here = match character {
                '\u{feff}' if here == Position::START => here,
                other => here.advance_past(other),
            };
        }
        at = offset;
        positions.push(here);
    }
    positions
}

fn decode_key(raw: &str) -> Cow<'_, str> {
    decode_string(raw).unwrap_or(Cow::Borrowed(raw))
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Returns the end of the value that begins at `start`.
fn find_value_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        at = match bytes.get(at) {
            None => return at,
            Some(b'{' | b'[') => {
                depth += 1;
                at + 1
            }
            Some(b'}' | b']') => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            Some(b'"') => find_string_end(bytes, at),
            // Numbers, `true`, `false` and `null` at the top level; anything between brackets.
            Some(_) if depth == 0 => return find_literal_end(bytes, at),
            Some(_) => at + 1,
        };
        if depth == 0 {
            return at;
        }
    }
}

fn find_string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        at += match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => 2,
            Some(_) => 1,
        };
    }
}

fn find_literal_end(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &&u8| !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
    start + bytes[start..].iter().take_while(is_part).count()
}

/// Returns where a syntax error is, what it is, and a hint for common mistakes.
pub fn explain_error(text: &str, error: &serde_json::Error) -> SyntaxError {
    let line_text = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let bytes = error.column().saturating_sub(1).min(line_text.len());
    // Columns of `serde_json` count bytes, and may point into a character.
    let before = String::from_utf8_lossy(&line_text.as_bytes()[..bytes]);
    let mut column = before.chars().count() + 1;
    let full = error.to_string();
    let message = full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message);
    let found = line_text.chars().nth(column - 1);
    let mut hint = match found {
        Some('/' | '#') => Some("JSON has no comments; remove it"),
        Some('\'') => Some("JSON strings need double quotes"),
        Some('T' | 'F' | 'N') => Some("write `true`, `false` and `null` in lower case"),
        _ => None,
    };
    if hint.is_none() {
        let is_comma_last = message.contains("key must be") && matches!(found, Some('}'));
        hint = if message.contains("trailing comma") || is_comma_last {
            // serde reports the bracket; the comma is what must go.
            Some("remove the comma after the last entry")
        } else if message.contains("key must be a string") {
            Some("keys need double quotes")
        } else if message.contains("EOF") {
            Some("a closing bracket or quote is missing")
        } else if message.contains("control character") {
            Some("write a line break inside a string as `\\n`")
        } else if message.contains("expected `,`") {
            Some("is there a comma missing before this?")
        } else {
            None
        };
    }
    if text.ends_with('\n') && line_text.is_empty() {
        column = 1;
    }
    let position = Position { line: error.line().max(1), column };
    SyntaxError { position, message: message.into(), hint }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn entries_stand_where_they_are_found() {
        let text = " { \"a\\u0062\" : [1 , {\"x\":[]},\"]\\\"\" ] ,\"c\":-1.5e3}\n";
        let root = find_root(text, 0).expect("valid");
        assert_eq!(&text[root.clone()], text.trim());
        let found: Vec<_> = find_members(text, &root)
            .into_iter()
            .map(|member| (member.key.into_owned(), text[member.value].to_owned()))
            .collect();
        assert_eq!(
            found,
            [("ab".into(), "[1 , {\"x\":[]},\"]\\\"\" ]".into()), ("c".into(), "-1.5e3".into())]
        );
        let list = text.find('[').expect("there")..text.rfind(']').expect("there") + 1;
        let found: Vec<_> = find_elements(text, &list).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["1", "{\"x\":[]}", "\"]\\\"\""]);
    }

    #[test]
    fn no_nesting_is_too_deep() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let text = format!("{{\"a\": {deep}}}");
        let root = find_root(&text, 0).expect("valid");
        assert_eq!(text[find_members(&text, &root)[0].value.clone()], deep);
    }

    #[test]
    fn positions_count_characters() {
        let text = "\u{feff}ä\r\nxy";
        assert_eq!(
            find_positions(text, [3, 5, 7, 9]),
            [(1, 1), (1, 2), (2, 1), (2, 3)].map(|(line, column)| Position { line, column })
        );
    }

    fn same(text: &str, range: &Range<usize>, value: &Value) -> bool {
        match value {
            Value::Object(entries) => {
                let members = find_members(text, range);
                members.len() == entries.len()
                    && members.iter().zip(entries).all(|(member, (key, value))| {
                        member.key == key.as_str() && same(text, &member.value, value)
                    })
            }
            Value::Array(values) => {
                let elements = find_elements(text, range);
                elements.len() == values.len()
                    && elements.iter().zip(values).all(|(range, value)| same(text, range, value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                serde_json::from_str::<Value>(&text[range.clone()]).ok().as_ref() == Some(value)
            }
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\\\\"{},:\\[\\] a\u{e4}\n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[\\\\\"{a]{0,3}", inner, 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_scanner_sees_what_serde_sees(value in json()) {
            for text in [value.to_string(), format!("{value:#}\n")] {
                let root = find_root(&text, 0).expect("valid");
                prop_assert!(same(&text, &root, &value), "{text}");
            }
        }

        #[test]
        fn nothing_makes_it_panic(text in "[\\[\\]{}\",:a\\\\ ]{0,20}") {
            let whole = 0..text.len();
            let _ = find_root(&text, 0);
            let _ = find_elements(&text, &whole);
            let _ = find_members(&text, &whole);
        }
    }
}
