//! `KEY=VALUE` files: the part of shell syntax that only assigns. Parsed, never executed.
//!
//! Syntax that a shell would run or expand is an error, because a value that silently differs from
//! the shell's is worse than none. Not here: what the keys mean; see `mapping`.

mod jq;
pub(crate) mod mapping;
mod preset;

use std::iter::Peekable;
use std::str::Chars;

use super::problem::Position;

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyValueEntry {
    pub(crate) name: String,
    /// Of the name.
    pub(crate) position: Position,
    pub(crate) value: AssignedValue,
}

/// The value of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssignedValue {
    /// One text.
    Text(String, Position),
    /// `( "a" "b" )`.
    List(Vec<(String, Position)>),
}

/// A line that is not an assignment, or would do more than assign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyValueMistake {
    pub(crate) position: Position,
    pub(crate) message: String,
}

/// Reads all assignments and all mistakes, in the order of the file.
pub(crate) fn parse_key_value(text: &str) -> (Vec<KeyValueEntry>, Vec<KeyValueMistake>) {
    let text = text.replace("\r\n", "\n");
    let mut parser = KeyValueParser { rest: text.chars().peekable(), position: Position::START };
    let mut entries = Vec::new();
    let mut mistakes = Vec::new();
    while parser.skip_to_statement() {
        match parser.parse_statement() {
            Ok(entry) => entries.push(entry),
            Err(mistake) => {
                mistakes.push(mistake);
                parser.skip_line();
            }
        }
    }
    (entries, mistakes)
}

/// The context of a word; a shell expands more inside a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordContext {
    Assignment,
    List,
}

struct KeyValueParser<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
}

impl KeyValueParser<'_> {
    /// Skips blank lines and comments; returns whether any text is left.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            match self.peek_char() {
                None => return false,
                Some('#') => self.skip_line(),
                Some(c) if c.is_whitespace() => {
                    self.next_char();
                }
                Some(_) => return true,
            }
        }
    }

    fn parse_statement(&mut self) -> Result<KeyValueEntry, KeyValueMistake> {
        let mut position = self.position;
        let mut name = self.parse_name();
        if name == "export" && self.peek_char().is_some_and(is_blank) {
            self.skip_blanks();
            position = self.position;
            name = self.parse_name();
        }
        let is_name = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        match self.peek_char() {
            Some('=') if is_name => self.next_char(),
            Some('+') if is_name => {
                return Err(build_mistake(
                    position,
                    "`+=` is not supported; write the whole value",
                ));
            }
            Some(c) if is_name && is_blank(c) && self.is_spaced_assignment() => {
                return Err(build_mistake(position, "no spaces are allowed around the `=`"));
            }
            _ => {
                let message = "not a `NAME=value` line; this file is read, never executed";
                return Err(build_mistake(position, message));
            }
        };
        let value = if self.peek_char() == Some('(') {
            AssignedValue::List(self.parse_list()?)
        } else {
            let at = self.position;
            AssignedValue::Text(self.parse_word(WordContext::Assignment)?, at)
        };
        self.skip_blanks();
        match self.peek_char() {
            None | Some('\n') => {}
            Some('#') => self.skip_line(),
            Some(c) if is_operator(c) => return Err(self.refuse_operator(c)),
            Some(_) => {
                let message = "more text after the value; put the whole value in quotes";
                return Err(build_mistake(self.position, message));
            }
        }
        Ok(KeyValueEntry { name, position, value })
    }

    fn is_spaced_assignment(&mut self) -> bool {
        self.skip_blanks();
        self.peek_char() == Some('=')
    }

    fn parse_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek_char().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.next_char();
        }
        name
    }

    fn parse_list(&mut self) -> Result<Vec<(String, Position)>, KeyValueMistake> {
        let opening = self.position;
        self.next_char();
        let mut items = Vec::new();
        loop {
            match self.peek_char() {
                None => {
                    return Err(build_mistake(opening, "the closing `)` of this list is missing"));
                }
                Some(')') => {
                    self.next_char();
                    return Ok(items);
                }
                Some('#') => self.skip_line(),
                Some(c) if c.is_whitespace() => {
                    self.next_char();
                }
                Some(_) => {
                    let at = self.position;
                    match self.parse_word(WordContext::List) {
                        Ok(word) => items.push((word, at)),
                        Err(mistake) => {
                            // Skip the rest of the list, which would cause follow-up errors.
                            while self.peek_char().is_some_and(|c| c != ')') {
                                self.next_char();
                            }
                            return Err(mistake);
                        }
                    }
                }
            }
        }
    }

    fn parse_word(&mut self, context: WordContext) -> Result<String, KeyValueMistake> {
        let mut word = String::new();
        // A shell expands a tilde at the beginning of an assignment and after each colon.
        let mut is_tilde_special = true;
        while let Some(c) = self.peek_char().filter(|c| !c.is_whitespace()) {
            match c {
                '\'' => self.parse_single_quoted(&mut word)?,
                '"' => self.parse_double_quoted(&mut word)?,
                '$' => self.parse_dollar(&mut word, &['\'', '"'])?,
                '\\' => {
                    self.next_char();
                    word.extend(self.next_char().filter(|c| *c != '\n'));
                }
                ')' if context == WordContext::List => break,
                '~' if is_tilde_special => {
                    let message = "`~` is not expanded; write the whole path";
                    return Err(build_mistake(self.position, message));
                }
                '*' | '?' | '[' | '{' if context == WordContext::List => {
                    let message = format!("`{c}` is not expanded; put the text in quotes");
                    return Err(build_mistake(self.position, message));
                }
                c if is_operator(c) => return Err(self.refuse_operator(c)),
                c => {
                    word.push(c);
                    self.next_char();
                }
            }
            is_tilde_special = c == ':' && context == WordContext::Assignment;
        }
        Ok(word)
    }

    fn parse_single_quoted(&mut self, word: &mut String) -> Result<(), KeyValueMistake> {
        let opening = self.position;
        self.next_char();
        loop {
            match self.next_char() {
                None => return Err(build_mistake(opening, "the closing ' is missing")),
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
            }
        }
    }

    fn parse_double_quoted(&mut self, word: &mut String) -> Result<(), KeyValueMistake> {
        let opening = self.position;
        self.next_char();
        loop {
            match self.peek_char() {
                None => return Err(build_mistake(opening, "the closing \" is missing")),
                Some('"') => {
                    self.next_char();
                    return Ok(());
                }
                Some('$') => self.parse_dollar(word, &[])?,
                Some('`') => return Err(self.refuse_operator('`')),
                Some('\\') => {
                    self.next_char();
                    match self.next_char() {
                        Some('\n') => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                        other => {
                            word.push('\\');
                            word.extend(other);
                        }
                    }
                }
                Some(c) => {
                    word.push(c);
                    self.next_char();
                }
            }
        }
    }

    /// Accepts a dollar sign that a shell would not expand; `also` lists further characters after which
    /// it would.
    fn parse_dollar(&mut self, word: &mut String, also: &[char]) -> Result<(), KeyValueMistake> {
        let position = self.position;
        self.next_char();
        match self.peek_char() {
            Some('(') => {
                self.next_char();
                let message = if self.peek_char() == Some('(') {
                    "`$((...))` would be computed; this file is read, never executed"
                } else {
                    "`$(...)` would run a command; this file is read, never executed"
                };
                Err(build_mistake(position, message))
            }
            Some(c)
                if c.is_ascii_alphanumeric() || "_{[?$!@*#-".contains(c) || also.contains(&c) =>
            {
                Err(build_mistake(
                    position,
                    "`$` is not expanded; write the value itself, or put a literal `$` in single quotes",
                ))
            }
            _ => {
                word.push('$');
                Ok(())
            }
        }
    }

    fn refuse_operator(&self, c: char) -> KeyValueMistake {
        let message = match c {
            '`' => "a backtick would run a command; this file is read, never executed".into(),
            _ => format!(
                "`{c}` is shell syntax; this file is read, never executed: put the value in quotes"
            ),
        };
        build_mistake(self.position, message)
    }

    fn skip_blanks(&mut self) {
        while self.peek_char().is_some_and(is_blank) {
            self.next_char();
        }
    }

    fn skip_line(&mut self) {
        while self.peek_char().is_some_and(|c| c != '\n') {
            self.next_char();
        }
    }

    fn peek_char(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.position = self.position.advance_past(c);
        Some(c)
    }
}

fn is_blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

fn is_operator(c: char) -> bool {
    matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`')
}

fn build_mistake(position: Position, message: impl Into<String>) -> KeyValueMistake {
    KeyValueMistake { position, message: message.into() }
}

#[cfg(test)]
mod tests;
