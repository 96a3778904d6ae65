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
use super::problem::{Position, ProblemLocation, SettingOrigin, SettingProblem};

/// Parses JSON text. Fails with every problem.
pub(crate) fn read_json(
    path: &Path,
    text: &str,
) -> Result<(Value, EntryPositions), Vec<SettingProblem>> {
    if text.trim().is_empty() {
        return Err(vec![SettingProblem {
            place: ProblemLocation::WholeFile { path: path.into() },
            path: JsonPath::default(),
            message: "the file is empty".into(),
            hint: Some("write `{}` for no settings, or remove it".into()),
        }]);
    }
    let document = serde_json::from_str(text).map_err(|error| {
        let error = json_text::explain_error(text, &error);
        vec![SettingProblem {
            place: build_problem_location(path, error.position),
            path: JsonPath::default(),
            message: format!("not valid JSON: {}", error.message),
            hint: error.hint.map(Into::into),
        }]
    })?;
    let (located, duplicates) = locate_entries(text);
    if duplicates.is_empty() {
        return Ok((document, located));
    }
    Err(duplicates
        .into_iter()
        .map(|duplicate| SettingProblem {
            place: build_problem_location(path, duplicate.again),
            message: format!(
                "`{}` is set twice, on line {} and on line {}",
                duplicate.path, duplicate.first.line, duplicate.again.line
            ),
            path: duplicate.path,
            hint: Some("remove one of them".into()),
        })
        .collect())
}

fn build_problem_location(path: &Path, position: Position) -> ProblemLocation {
    ProblemLocation::Value(SettingOrigin::File { path: path.into(), position })
}

/// The positions of a document's entries in its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryPositions {
    spots: BTreeMap<JsonPath, EntryPosition>,
}

/// The position of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryPosition {
    /// The first character of its key; of the value if there is no key.
    pub(crate) key: Position,
    /// The first character of its value.
    pub(crate) value: Position,
}

impl EntryPositions {
    /// Records the position of an entry.
    pub(crate) fn insert(&mut self, path: JsonPath, spot: EntryPosition) {
        self.spots.insert(path, spot);
    }

    /// Returns the position of an entry, or else of the nearest entry around it.
    pub(crate) fn find(&self, path: &JsonPath) -> EntryPosition {
        path.self_and_parents()
            .find_map(|path| self.spots.get(&path).copied())
            .unwrap_or(EntryPosition { key: Position::START, value: Position::START })
    }

    /// Returns all positions.
    #[cfg(test)]
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&JsonPath, &EntryPosition)> {
        self.spots.iter()
    }
}

/// A key that an object has twice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DuplicateKey {
    path: JsonPath,
    first: Position,
    again: Position,
}

/// Locates everything in text that `serde_json` accepted.
fn locate_entries(text: &str) -> (EntryPositions, Vec<DuplicateKey>) {
    let mut scanner = Scanner {
        rest: text.chars().peekable(),
        position: Position::START,
        located: EntryPositions::default(),
        duplicates: Vec::new(),
    };
    // `None` is the end of the text in the middle of something, which was ruled out before.
    let _ = scanner.scan_value(&JsonPath::default(), None);
    (scanner.located, scanner.duplicates)
}

/// Walks over the text. Its depth is limited by the recursion limit of `serde_json`.
struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
    located: EntryPositions,
    duplicates: Vec<DuplicateKey>,
}

impl Scanner<'_> {
    fn scan_value(&mut self, path: &JsonPath, key: Option<Position>) -> Option<()> {
        let first = self.peek_after_space()?;
        let value = self.position;
        self.located.insert(path.clone(), EntryPosition { key: key.unwrap_or(value), value });
        match first {
            '{' => self.scan_object(path),
            '[' => self.scan_list(path),
            '"' => self.scan_string().map(|_| ()),
            _ => {
                while self.rest.peek().is_some_and(|c| !matches!(c, ',' | ']' | '}')) {
                    self.next_char()?;
                }
                Some(())
            }
        }
    }

    fn scan_object(&mut self, path: &JsonPath) -> Option<()> {
        let mut seen: BTreeMap<String, Position> = BTreeMap::new();
        self.next_char()?;
        while self.peek_after_space()? != '}' {
            if self.peek_after_space()? == ',' {
                self.next_char()?;
                self.peek_after_space()?;
            }
            let position = self.position;
            let key: String = serde_json::from_str(&self.scan_string()?).ok()?;
            let entry = path.join_key(&key);
            if let Some(first) = seen.insert(key, position) {
                let path = entry.clone();
                self.duplicates.push(DuplicateKey { path, first, again: position });
            }
            self.peek_after_space()?;
            self.next_char()?;
            self.scan_value(&entry, Some(position))?;
        }
        self.next_char().map(|_| ())
    }

    fn scan_list(&mut self, path: &JsonPath) -> Option<()> {
        let mut index = 0;
        self.next_char()?;
        while self.peek_after_space()? != ']' {
            if self.peek_after_space()? == ',' {
                self.next_char()?;
            }
            self.scan_value(&path.join_index(index), None)?;
            index += 1;
        }
        self.next_char().map(|_| ())
    }

    /// Returns a string as it is written, with its quotes.
    fn scan_string(&mut self) -> Option<String> {
        let mut raw = String::from(self.next_char()?);
        loop {
            let c = self.next_char()?;
            raw.push(c);
            match c {
                '\\' => raw.push(self.next_char()?),
                '"' => return Some(raw),
                _ => {}
            }
        }
    }

    fn peek_after_space(&mut self) -> Option<char> {
        while self.rest.peek()?.is_ascii_whitespace() {
            self.next_char()?;
        }
        self.rest.peek().copied()
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.position = self.position.advance_past(c);
        Some(c)
    }
}

#[cfg(test)]
mod tests;
