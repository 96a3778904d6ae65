//! Parses the JSON text of a settings file and records the position of every entry.
//!
//! `serde_json` decides what is JSON; the scanner here only runs over text that it accepted.
//! Not here: reading files (`source`) and what the values mean (`check`).

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

use ralph_io::formats::json_text;
use serde_json::Value;

use super::path::JsonPath;
use super::problem::{Origin, Place, Position, Problem};

/// Parses JSON text. Fails with every problem.
pub(crate) fn read_json(path: &Path, text: &str) -> Result<(Value, Located), Vec<Problem>> {
    if text.trim().is_empty() {
        return Err(vec![Problem {
            place: Place::WholeFile { path: path.into() },
            path: JsonPath::default(),
            message: "the file is empty".into(),
            hint: Some("write `{}` for no settings, or remove it".into()),
        }]);
    }
    let document = serde_json::from_str(text).map_err(|error| {
        let error = json_text::explain(text, &error);
        vec![Problem {
            place: place(path, error.position),
            path: JsonPath::default(),
            message: format!("not valid JSON: {}", error.message),
            hint: error.hint.map(Into::into),
        }]
    })?;
    let (located, duplicates) = locate(text);
    if duplicates.is_empty() {
        return Ok((document, located));
    }
    Err(duplicates
        .into_iter()
        .map(|duplicate| Problem {
            place: place(path, duplicate.again),
            message: format!(
                "`{}` is set twice, on line {} and on line {}",
                duplicate.path, duplicate.first.line, duplicate.again.line
            ),
            path: duplicate.path,
            hint: Some("remove one of them".into()),
        })
        .collect())
}

fn place(path: &Path, position: Position) -> Place {
    Place::Value(Origin::File { path: path.into(), position })
}

/// The positions of a document's entries in its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Located {
    spots: BTreeMap<JsonPath, Spot>,
}

/// The position of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The first character of its key; of the value if there is no key.
    pub(crate) key: Position,
    /// The first character of its value.
    pub(crate) value: Position,
}

impl Located {
    /// Records the position of an entry.
    pub(crate) fn insert(&mut self, path: JsonPath, spot: Spot) {
        self.spots.insert(path, spot);
    }

    /// Returns the position of an entry, or else of the nearest entry around it.
    pub(crate) fn spot(&self, path: &JsonPath) -> Spot {
        path.upwards()
            .find_map(|path| self.spots.get(&path).copied())
            .unwrap_or(Spot { key: Position::START, value: Position::START })
    }

    /// Returns all positions.
    #[cfg(test)]
    pub(crate) fn spots(&self) -> impl Iterator<Item = (&JsonPath, &Spot)> {
        self.spots.iter()
    }
}

/// A key that an object has twice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Duplicate {
    path: JsonPath,
    first: Position,
    again: Position,
}

/// Locates everything in text that `serde_json` accepted.
fn locate(text: &str) -> (Located, Vec<Duplicate>) {
    let mut scanner = Scanner {
        rest: text.chars().peekable(),
        position: Position::START,
        located: Located::default(),
        duplicates: Vec::new(),
    };
    // `None` is the end of the text in the middle of something, which was ruled out before.
    let _ = scanner.value(&JsonPath::default(), None);
    (scanner.located, scanner.duplicates)
}

/// Walks over the text. Its depth is limited by the recursion limit of `serde_json`.
struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
    located: Located,
    duplicates: Vec<Duplicate>,
}

impl Scanner<'_> {
    fn value(&mut self, path: &JsonPath, key: Option<Position>) -> Option<()> {
        let first = self.peek_after_space()?;
        let value = self.position;
        self.located.insert(path.clone(), Spot { key: key.unwrap_or(value), value });
        match first {
            '{' => self.object(path),
            '[' => self.list(path),
            '"' => self.string().map(|_| ()),
            _ => {
                while self.rest.peek().is_some_and(|c| !matches!(c, ',' | ']' | '}')) {
                    self.next()?;
                }
                Some(())
            }
        }
    }

    fn object(&mut self, path: &JsonPath) -> Option<()> {
        let mut seen: BTreeMap<String, Position> = BTreeMap::new();
        self.next()?;
        while self.peek_after_space()? != '}' {
            if self.peek_after_space()? == ',' {
                self.next()?;
                self.peek_after_space()?;
            }
            let position = self.position;
            let key: String = serde_json::from_str(&self.string()?).ok()?;
            let entry = path.key(&key);
            if let Some(first) = seen.insert(key, position) {
                let path = entry.clone();
                self.duplicates.push(Duplicate { path, first, again: position });
            }
            self.peek_after_space()?;
            self.next()?;
            self.value(&entry, Some(position))?;
        }
        self.next().map(|_| ())
    }

    fn list(&mut self, path: &JsonPath) -> Option<()> {
        let mut index = 0;
        self.next()?;
        while self.peek_after_space()? != ']' {
            if self.peek_after_space()? == ',' {
                self.next()?;
            }
            self.value(&path.index(index), None)?;
            index += 1;
        }
        self.next().map(|_| ())
    }

    /// Returns a string as it is written, with its quotes.
    fn string(&mut self) -> Option<String> {
        let mut raw = String::from(self.next()?);
        loop {
            let c = self.next()?;
            raw.push(c);
            match c {
                '\\' => raw.push(self.next()?),
                '"' => return Some(raw),
                _ => {}
            }
        }
    }

    fn peek_after_space(&mut self) -> Option<char> {
        while self.rest.peek()?.is_ascii_whitespace() {
            self.next()?;
        }
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.position = self.position.behind(c);
        Some(c)
    }
}

#[cfg(test)]
mod tests;
