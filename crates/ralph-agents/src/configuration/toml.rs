//! A reader for the parts of TOML that configuration files of agents use.
//!
//! Splits a document into statements, so that some can be removed and the rest kept verbatim, and
//! reads their values as JSON. Not here: dates (read as text), and error messages for documents
//! that the agent itself would reject.

use serde_json::{Map, Value};

/// A statement of a document: a key with its value, or the header of a table.
#[derive(Debug, PartialEq)]
pub(super) struct TomlStatement<'a> {
    /// The full path of the key or of the table.
    pub(super) path: Vec<String>,
    /// The value; `None` for a header.
    pub(super) value: Option<Value>,
    /// The text, with the comments and empty lines before it.
    pub(super) text: &'a str,
}

/// Parses a document. Returns `None` if it is not TOML that this reader supports.
pub(super) fn parse_statements(document: &str) -> Option<Vec<TomlStatement<'_>>> {
    let mut reader = TomlReader { text: document, at: 0 };
    let mut statements = Vec::new();
    let mut table: Vec<String> = Vec::new();
    loop {
        let start = reader.at;
        reader.skip_blank();
        let Some(next) = reader.peek() else { return Some(statements) };
        let value = if next == '[' {
            let is_array = reader.skip_token("[[");
            if !is_array {
                reader.skip_token("[");
            }
            table = reader.parse_path()?;
            reader.skip_token(if is_array { "]]" } else { "]" }).then_some(())?;
            None
        } else {
            let key = reader.parse_path()?;
            reader.skip_token("=").then_some(())?;
            let value = reader.parse_value(0)?;
            Some((key, value))
        };
        reader.skip_line_end()?;
        let text = &document[start..reader.at];
        statements.push(match value {
            None => TomlStatement { path: table.clone(), value: None, text },
            Some((key, value)) => {
                TomlStatement { path: [table.as_slice(), &key].concat(), value: Some(value), text }
            }
        });
    }
}

/// Returns a document as JSON. Tables of an array are merged, which is enough to look for values.
pub(super) fn build_document(statements: &[TomlStatement<'_>]) -> Value {
    let mut root = Map::new();
    for statement in statements {
        let Some((value, (last, above))) =
            statement.value.as_ref().zip(statement.path.split_last())
        else {
            continue;
        };
        if let Some(table) = above.iter().try_fold(&mut root, |table, key| {
            table.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
        }) {
            table.insert(last.clone(), value.clone());
        }
    }
    Value::Object(root)
}

/// Deeper nesting than any configuration has.
const DEEPEST: usize = 64;

struct TomlReader<'a> {
    text: &'a str,
    at: usize,
}

impl TomlReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_token(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Skips white space, line ends and comments.
    fn skip_blank(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if self.peek() != Some('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips to the next line; fails if more than a comment remains on this one.
    fn skip_line_end(&mut self) -> Option<()> {
        self.skip_spaces();
        let line = self.rest().split('\n').next().unwrap_or_default();
        if !(line.trim().is_empty() || line.starts_with('#')) {
            return None;
        }
        self.at = (self.at + line.len() + 1).min(self.text.len());
        Some(())
    }

    /// Reads a key with dots.
    fn parse_path(&mut self) -> Option<Vec<String>> {
        let mut path = Vec::new();
        loop {
            self.skip_spaces();
            let key = match self.peek()? {
                '"' | '\'' => self.parse_string()?,
                _ => {
                    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
                    let rest = self.rest();
                    let length = rest.len() - rest.trim_start_matches(is_plain).len();
                    let key = rest[..length].to_owned();
                    self.at += length;
                    (!key.is_empty()).then_some(key)?
                }
            };
            path.push(key);
            if !self.skip_token(".") {
                return Some(path);
            }
        }
    }

    fn parse_value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        self.skip_spaces();
        match self.peek()? {
            '"' | '\'' => self.parse_string().map(Value::String),
            '[' => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    self.skip_blank();
                    if self.skip_token("]") {
                        return Some(Value::Array(items));
                    }
                    items.push(self.parse_value(depth + 1)?);
                    self.skip_blank();
                    if !self.skip_token(",") {
                        self.skip_blank();
                        return self.skip_token("]").then_some(Value::Array(items));
                    }
                }
            }
            '{' => {
                self.at += 1;
                let mut table = Map::new();
                loop {
                    self.skip_blank();
                    if self.skip_token("}") {
                        return Some(Value::Object(table));
                    }
                    let key = self.parse_path()?.join(".");
                    self.skip_token("=").then_some(())?;
                    table.insert(key, self.parse_value(depth + 1)?);
                    self.skip_blank();
                    if !self.skip_token(",") {
                        self.skip_blank();
                        return self.skip_token("}").then_some(Value::Object(table));
                    }
                }
            }
            _ => {
                let rest = self.rest();
                let end = rest.find([',', ']', '}', '#', '\n', '\r']).unwrap_or(rest.len());
                let word = rest[..end].trim_end().to_owned();
                self.at += end;
                let plain = serde_json::from_str(&word.replace('_', ""));
                (!word.is_empty()).then(|| plain.unwrap_or(Value::String(word)))
            }
        }
    }

    fn parse_string(&mut self) -> Option<String> {
        for (quote, is_literal) in [("\"\"\"", false), ("'''", true), ("\"", false), ("'", true)] {
            if !self.rest().starts_with(quote) {
                continue;
            }
            self.at += quote.len();
            let mut text = String::new();
            while !self.rest().starts_with(quote) {
                let character = self.peek()?;
                if character == '\n' && quote.len() == 1 {
                    return None;
                }
                self.at += character.len_utf8();
                if character == '\\' && !is_literal {
                    text.push_str(&self.parse_escape()?);
                } else {
                    text.push(character);
                }
            }
            self.at += quote.len();
            return Some(text);
        }
        None
    }

    /// Reads the characters after a backslash; empty if it joins two lines.
    fn parse_escape(&mut self) -> Option<String> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        let digits = match character {
            'n' => return Some("\n".to_owned()),
            't' => return Some("\t".to_owned()),
            'r' => return Some("\r".to_owned()),
            'b' => return Some("\u{8}".to_owned()),
            'f' => return Some("\u{c}".to_owned()),
            '\\' | '"' => return Some(character.to_string()),
            'u' => 4,
            'U' => 8,
            ' ' | '\t' | '\r' | '\n' => {
                self.at += self.rest().len() - self.rest().trim_start().len();
                return Some(String::new());
            }
            _ => return None,
        };
        let code = u32::from_str_radix(self.rest().get(..digits)?, 16).ok()?;
        self.at += digits;
        char::from_u32(code).map(String::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn statements_are_parsed_and_kept_verbatim() {
        let text = "# mine\nmodel = \"gpt\" # here\nnotify = [\n  \"sh\", # why\n  '-c',\n]\n\n\
                    [model_providers.corp]\nbase_url = 'https://a/v1'\nn = 1_000\nok = true\n\
                    headers = { \"X-Y\" = \"z\", when = 2026-01-01 }\n\
                    [profiles.\"a b\"]\nm.x = \"\"\"\\\n  long\ntext\"\"\"\n[[skills]]\na = \"\\u0041\"\n";
        let statements = parse_statements(text).expect("TOML");
        let all: String = statements.iter().map(|statement| statement.text).collect();
        assert_eq!(all, text);
        assert_eq!(
            build_document(&statements),
            json!({
                "model": "gpt",
                "notify": ["sh", "-c"],
                "model_providers": { "corp": {
                    "base_url": "https://a/v1", "n": 1000, "ok": true,
                    "headers": { "X-Y": "z", "when": "2026-01-01" },
                } },
                "profiles": { "a b": { "m": { "x": "long\ntext" } } },
                "skills": { "a": "A" },
            })
        );
    }

    #[test]
    fn invalid_toml_is_rejected() {
        for text in
            ["a", "a =", "a = \"", "a = 'x\n'", "[a", "= 1", "a = [1", "a = {b = 1", "a = 'b' c"]
        {
            assert_eq!(parse_statements(text), None, "{text}");
        }
        assert_eq!(parse_statements(""), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn parser_never_panics(text in "[\\[\\]{}=.\"'#,\\\\a-c \n\u{e9}]{0,40}") {
            if let Some(statements) = parse_statements(&text) {
                build_document(&statements);
            }
        }
    }
}
