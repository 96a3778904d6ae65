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
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Of the name.
    pub(crate) position: Position,
    pub(crate) value: Assigned,
}

/// The value of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Assigned {
    /// One text.
    Text(String, Position),
    /// `( "a" "b" )`.
    List(Vec<(String, Position)>),
}

/// A line that is not an assignment, or would do more than assign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) position: Position,
    pub(crate) message: String,
}

/// Reads all assignments and all mistakes, in the order of the file.
pub(crate) fn parse(text: &str) -> (Vec<Entry>, Vec<Mistake>) {
    let text = text.replace("\r\n", "\n");
    let mut parser = Parser { rest: text.chars().peekable(), position: Position::START };
    let mut entries = Vec::new();
    let mut mistakes = Vec::new();
    while parser.skip_to_statement() {
        match parser.statement() {
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
enum Around {
    Assignment,
    List,
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
}

impl Parser<'_> {
    /// Skips blank lines and comments; returns whether any text is left.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            match self.peek() {
                None => return false,
                Some('#') => self.skip_line(),
                Some(c) if c.is_whitespace() => {
                    self.next();
                }
                Some(_) => return true,
            }
        }
    }

    fn statement(&mut self) -> Result<Entry, Mistake> {
        let mut position = self.position;
        let mut name = self.name();
        if name == "export" && self.peek().is_some_and(is_blank) {
            self.skip_blanks();
            position = self.position;
            name = self.name();
        }
        let is_name = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        match self.peek() {
            Some('=') if is_name => self.next(),
            Some('+') if is_name => {
                return Err(mistake(position, "`+=` is not supported; write the whole value"));
            }
            Some(c) if is_name && is_blank(c) && self.is_spaced_assignment() => {
                return Err(mistake(position, "no spaces are allowed around the `=`"));
            }
            _ => {
                let message = "not a `NAME=value` line; this file is read, never executed";
                return Err(mistake(position, message));
            }
        };
        let value = if self.peek() == Some('(') {
            Assigned::List(self.list()?)
        } else {
            let at = self.position;
            Assigned::Text(self.word(Around::Assignment)?, at)
        };
        self.skip_blanks();
        match self.peek() {
            None | Some('\n') => {}
            Some('#') => self.skip_line(),
            Some(c) if is_operator(c) => return Err(self.operator(c)),
            Some(_) => {
                let message = "more text after the value; put the whole value in quotes";
                return Err(mistake(self.position, message));
            }
        }
        Ok(Entry { name, position, value })
    }

    fn is_spaced_assignment(&mut self) -> bool {
        self.skip_blanks();
        self.peek() == Some('=')
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.next();
        }
        name
    }

    fn list(&mut self) -> Result<Vec<(String, Position)>, Mistake> {
        let opening = self.position;
        self.next();
        let mut items = Vec::new();
        loop {
            match self.peek() {
                None => return Err(mistake(opening, "the closing `)` of this list is missing")),
                Some(')') => {
                    self.next();
                    return Ok(items);
                }
                Some('#') => self.skip_line(),
                Some(c) if c.is_whitespace() => {
                    self.next();
                }
                Some(_) => {
                    let at = self.position;
                    match self.word(Around::List) {
                        Ok(word) => items.push((word, at)),
                        Err(mistake) => {
                            // Skip the rest of the list, which would cause follow-up errors.
                            while self.peek().is_some_and(|c| c != ')') {
                                self.next();
                            }
                            return Err(mistake);
                        }
                    }
                }
            }
        }
    }

    fn word(&mut self, context: Around) -> Result<String, Mistake> {
        let mut word = String::new();
        // A shell expands a tilde at the beginning of an assignment and after each colon.
        let mut is_tilde_special = true;
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace()) {
            match c {
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '$' => self.dollar(&mut word, &['\'', '"'])?,
                '\\' => {
                    self.next();
                    word.extend(self.next().filter(|c| *c != '\n'));
                }
                ')' if context == Around::List => break,
                '~' if is_tilde_special => {
                    let message = "`~` is not expanded; write the whole path";
                    return Err(mistake(self.position, message));
                }
                '*' | '?' | '[' | '{' if context == Around::List => {
                    let message = format!("`{c}` is not expanded; put the text in quotes");
                    return Err(mistake(self.position, message));
                }
                c if is_operator(c) => return Err(self.operator(c)),
                c => {
                    word.push(c);
                    self.next();
                }
            }
            is_tilde_special = c == ':' && context == Around::Assignment;
        }
        Ok(word)
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), Mistake> {
        let opening = self.position;
        self.next();
        loop {
            match self.next() {
                None => return Err(mistake(opening, "the closing ' is missing")),
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), Mistake> {
        let opening = self.position;
        self.next();
        loop {
            match self.peek() {
                None => return Err(mistake(opening, "the closing \" is missing")),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.dollar(word, &[])?,
                Some('`') => return Err(self.operator('`')),
                Some('\\') => {
                    self.next();
                    match self.next() {
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
                    self.next();
                }
            }
        }
    }

    /// Accepts a dollar sign that a shell would not expand; `also` lists further characters after which
    /// it would.
    fn dollar(&mut self, word: &mut String, also: &[char]) -> Result<(), Mistake> {
        let position = self.position;
        self.next();
        match self.peek() {
            Some('(') => {
                self.next();
                let message = if self.peek() == Some('(') {
                    "`$((...))` would be computed; this file is read, never executed"
                } else {
                    "`$(...)` would run a command; this file is read, never executed"
                };
                Err(mistake(position, message))
            }
            Some(c)
                if c.is_ascii_alphanumeric() || "_{[?$!@*#-".contains(c) || also.contains(&c) =>
            {
                Err(mistake(
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

    fn operator(&self, c: char) -> Mistake {
        let message = match c {
            '`' => "a backtick would run a command; this file is read, never executed".into(),
            _ => format!(
                "`{c}` is shell syntax; this file is read, never executed: put the value in quotes"
            ),
        };
        mistake(self.position, message)
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.next();
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.position = self.position.behind(c);
        Some(c)
    }
}

fn is_blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

fn is_operator(c: char) -> bool {
    matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`')
}

fn mistake(position: Position, message: impl Into<String>) -> Mistake {
    Mistake { position, message: message.into() }
}

#[cfg(test)]
mod tests;
