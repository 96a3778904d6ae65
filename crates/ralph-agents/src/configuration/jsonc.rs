//! JSON with comments and trailing commas, as agents accept it in their settings.

use serde_json::Value;

/// Parses a document. Returns `None` if it is not valid.
pub(super) fn parse_jsonc(text: &str) -> Option<Value> {
    serde_json::from_str(&strip_comments(text.strip_prefix('\u{feff}').unwrap_or(text))).ok()
}

/// Returns the same document as plain JSON.
fn strip_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => {
                let length = measure_string(rest);
                plain.push_str(&rest[..length]);
                length
            }
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            ']' | '}' => {
                let kept = plain.trim_end().len();
                if plain[..kept].ends_with(',') {
                    plain.truncate(kept - 1);
                }
                plain.push(character);
                1
            }
            _ => {
                plain.push(character);
                character.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    plain
}

/// Returns the length of the string that a text begins with, quotes included.
fn measure_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_removed() {
        let text =
            "\u{feff}{ // one\n \"a\": \"// no \\\" comment ,]\", /* two\n */ \"b\": [1, 2, ], }";
        assert_eq!(parse_jsonc(text), Some(json!({ "a": "// no \" comment ,]", "b": [1, 2] })));
        assert_eq!(parse_jsonc("{ /* no end"), None);
        assert_eq!(parse_jsonc("\"no end"), None);
    }

    proptest! {
        #[test]
        fn parser_never_panics(text in any::<String>()) {
            parse_jsonc(&text);
        }
    }
}
