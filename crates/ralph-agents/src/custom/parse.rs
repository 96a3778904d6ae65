//! The notation of filters: a small part of jq's.
//!
//! What is not part of it is refused with the place and what was expected, so that a filter that
//! was written for jq either means the same here or is not taken. Not here: what filters select
//! (`filter`).

use serde_json::Value;

use super::filter::{Filter, Part, Step};

/// A filter that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {place}: {message}")]
pub struct FilterError {
    /// The place of the mistake, counted in characters from 1.
    pub place: usize,
    /// What is wrong there.
    pub message: String,
}

/// A longer filter is no selection but a program.
const MOST_BYTES: usize = 4_096;

/// Filters within filters within filters: nobody reads more.
const DEEPEST: usize = 32;

/// The words with a meaning, for a name that is none of them.
const KNOWN: &str = "known are select(), map(), join(), tostring, not, empty";

/// Reads a filter.
pub(super) fn parse(text: &str) -> Result<Filter, FilterError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > MOST_BYTES {
        return Err(parser.error(format!("the filter is longer than {MOST_BYTES} bytes")));
    }
    let filter = parser.pipe()?;
    match parser.peek() {
        None => Ok(filter),
        Some(_) => Err(parser.expected("the end of the filter, or an operator such as `|`")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns the next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    /// Takes a sign if it is the next one.
    fn takes(&mut self, sign: &str) -> bool {
        self.skip_space();
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), FilterError> {
        if self.takes(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    /// Returns the word that comes next, without taking it.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        if rest.starts_with(|it: char| it.is_ascii_digit()) { "" } else { &rest[..end] }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.word() == word;
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn error(&self, message: String) -> FilterError {
        FilterError { place: self.text[..self.at].chars().count() + 1, message }
    }

    fn expected(&mut self, what: &str) -> FilterError {
        let found = match (self.word(), self.peek()) {
            (_, None) => "the end".to_owned(),
            ("", Some(sign)) => format!("`{sign}`"),
            (word, Some(_)) => format!("`{word}`"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// Reads something within something else, but not without end.
    fn within<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("more than {DEEPEST} filters within each other")));
        }
        self.depth += 1;
        let result = read(self)?;
        self.depth -= 1;
        Ok(result)
    }

    fn pipe(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes("|"), Self::each, Filter::Pipe)
    }

    fn each(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes(","), Self::otherwise, Filter::Each)
    }

    fn otherwise(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes("//"), Self::any, Filter::Otherwise)
    }

    fn any(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes_word("or"), Self::all, Filter::Any)
    }

    fn all(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes_word("and"), Self::comparison, Filter::All)
    }

    fn chain(
        &mut self,
        mut goes_on: impl FnMut(&mut Self) -> bool,
        mut operand: impl FnMut(&mut Self) -> Result<Filter, FilterError>,
        join: fn(Vec<Filter>) -> Filter,
    ) -> Result<Filter, FilterError> {
        let first = operand(self)?;
        if !goes_on(self) {
            return Ok(first);
        }
        let mut all = vec![first, operand(self)?];
        while goes_on(self) {
            all.push(operand(self)?);
        }
        Ok(join(all))
    }

    fn comparison(&mut self) -> Result<Filter, FilterError> {
        let left = self.sum()?;
        if self.takes("==") {
            return Ok(Filter::Equal(Box::new(left), Box::new(self.sum()?)));
        }
        if self.takes("!=") {
            return Ok(Filter::Unequal(Box::new(left), Box::new(self.sum()?)));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Filter, FilterError> {
        self.chain(|it| it.takes("+"), Self::path, Filter::Sum)
    }

    /// Reads a term and the steps down from it.
    fn path(&mut self) -> Result<Filter, FilterError> {
        let (from, mut steps) = self.term()?;
        loop {
            // A space ends a path: `.a .b` is a mistake, not `.a.b`.
            let rest = self.rest();
            if rest.starts_with("?//") {
                return Err(self.error("`?//` is not part of this language".to_owned()));
            } else if rest.starts_with('?') {
                // Selecting never fails, so there is nothing to catch.
                self.at += 1;
            } else if rest.starts_with('[') {
                steps.push(self.bracket()?);
            } else if let Some(name) = rest.strip_prefix('.') {
                self.at += 1;
                if name.starts_with('[') {
                    continue;
                }
                steps.push(self.field()?);
            } else {
                break;
            }
        }
        Ok(if steps.is_empty() { from } else { Filter::Path(Box::new(from), steps) })
    }

    fn field(&mut self) -> Result<Step, FilterError> {
        if self.rest().starts_with('"') {
            let Filter::Literal(Value::String(name)) = self.text()? else {
                return Err(self.error("a field's name has no gaps".to_owned()));
            };
            return Ok(Step::Field(name));
        }
        if self.rest().starts_with('.') {
            return Err(self.error("`..` is not part of this language".to_owned()));
        }
        let before = self.at;
        let name = self.word();
        if name.is_empty() || self.at != before {
            self.at = before;
            return Err(self.expected("the name of a field right behind the dot"));
        }
        self.at += name.len();
        Ok(Step::Field(name.to_owned()))
    }

    fn bracket(&mut self) -> Result<Step, FilterError> {
        self.expect("[")?;
        let step = match self.peek() {
            Some(']') => Step::Every,
            Some('"') => self.field()?,
            Some(_) | None => {
                let rest = self.rest();
                let is_part = |it: char| it.is_ascii_digit() || it == '-';
                let digits = &rest[..rest.find(|it| !is_part(it)).unwrap_or(rest.len())];
                let Ok(place) = digits.parse() else {
                    return Err(self.expected("`]`, a number or a name in quotation marks"));
                };
                self.at += digits.len();
                Step::At(place)
            }
        };
        self.expect("]")?;
        Ok(step)
    }

    /// Reads what a path may start from, and its first step where that is the same thing.
    fn term(&mut self) -> Result<(Filter, Vec<Step>), FilterError> {
        let filter = match self.peek() {
            Some('.') => {
                self.at += 1;
                let is_field = |it: char| it.is_ascii_alphabetic() || "_\".".contains(it);
                if self.rest().starts_with(is_field) {
                    return Ok((Filter::Here, vec![self.field()?]));
                }
                Filter::Here
            }
            Some('(') => {
                self.at += 1;
                let filter = self.within(Self::pipe)?;
                self.expect(")")?;
                filter
            }
            Some('[') => {
                self.at += 1;
                if self.takes("]") {
                    return Ok((Filter::List(Box::new(Filter::Nothing)), Vec::new()));
                }
                let filter = self.within(Self::pipe)?;
                self.expect("]")?;
                Filter::List(Box::new(filter))
            }
            Some('"') => self.text()?,
            Some('-' | '0'..='9') => self.number()?,
            Some(_) | None => self.named()?,
        };
        Ok((filter, Vec::new()))
    }

    fn number(&mut self) -> Result<Filter, FilterError> {
        let rest = self.rest();
        let is_part = |it: char| it.is_ascii_digit() || "-.eE".contains(it);
        let digits = &rest[..rest.find(|it| !is_part(it)).unwrap_or(rest.len())];
        match serde_json::from_str(digits) {
            Ok(number) => {
                self.at += digits.len();
                Ok(Filter::Literal(number))
            }
            Err(_) => Err(self.expected("a number")),
        }
    }

    fn named(&mut self) -> Result<Filter, FilterError> {
        let word = self.word();
        let filter = match word {
            "true" => Filter::Literal(Value::Bool(true)),
            "false" => Filter::Literal(Value::Bool(false)),
            "null" => Filter::Literal(Value::Null),
            "not" => Filter::Not,
            "tostring" => Filter::ToText,
            "empty" => Filter::Nothing,
            "select" => return Ok(Filter::Select(Box::new(self.argument(word)?))),
            "join" => return Ok(Filter::Join(Box::new(self.argument(word)?))),
            "map" => {
                let every = Filter::Path(Box::new(Filter::Here), vec![Step::Every]);
                let stages = vec![every, self.argument(word)?];
                return Ok(Filter::List(Box::new(Filter::Pipe(stages))));
            }
            "if" => {
                self.at += word.len();
                return self.within(Self::condition);
            }
            "" | "then" | "elif" | "else" | "end" | "and" | "or" => {
                return Err(self.expected("a filter such as `.text`"));
            }
            _ => return Err(self.error(format!("there is no `{word}`; {KNOWN}"))),
        };
        self.at += word.len();
        Ok(filter)
    }

    fn argument(&mut self, word: &str) -> Result<Filter, FilterError> {
        self.at += word.len();
        self.expect("(")?;
        let filter = self.within(Self::pipe)?;
        self.expect(")")?;
        Ok(filter)
    }

    /// Reads what follows `if` or `elif`.
    fn condition(&mut self) -> Result<Filter, FilterError> {
        let condition = self.pipe()?;
        if !self.takes_word("then") {
            return Err(self.expected("`then`"));
        }
        let then = self.pipe()?;
        let other = if self.takes_word("elif") {
            self.within(Self::condition)?
        } else if self.takes_word("else") {
            let other = self.pipe()?;
            self.end()?;
            other
        } else {
            self.end()?;
            Filter::Here
        };
        Ok(Filter::If(Box::new(condition), Box::new(then), Box::new(other)))
    }

    fn end(&mut self) -> Result<(), FilterError> {
        if self.takes_word("end") { Ok(()) } else { Err(self.expected("`end`")) }
    }

    /// Reads a text in quotation marks, with the escapes of JSON and with gaps: `"\(.name)"`.
    fn text(&mut self) -> Result<Filter, FilterError> {
        let begin = self.at;
        self.expect("\"")?;
        let mut parts = Vec::new();
        let mut plain = self.at;
        loop {
            let rest = self.rest();
            let Some(next) = rest.chars().next() else {
                self.at = begin;
                return Err(self.error("a text without its closing quotation mark".to_owned()));
            };
            match next {
                '"' => {
                    parts.push(Part::Plain(self.unescaped(plain)?));
                    self.at += 1;
                    break;
                }
                '\\' if rest.starts_with("\\(") => {
                    parts.push(Part::Plain(self.unescaped(plain)?));
                    self.at += 2;
                    parts.push(Part::Gap(self.within(Self::pipe)?));
                    self.expect(")")?;
                    plain = self.at;
                }
                // What is escaped may be a quotation mark.
                '\\' => self.at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                _ => self.at += next.len_utf8(),
            }
        }
        parts.retain(|part| *part != Part::Plain(String::new()));
        Ok(match parts.as_slice() {
            [] => Filter::Literal(Value::String(String::new())),
            [Part::Plain(text)] => Filter::Literal(Value::String(text.clone())),
            _ => Filter::Text(parts),
        })
    }

    /// Returns the text from a place up to here, with its escapes undone.
    fn unescaped(&self, from: usize) -> Result<String, FilterError> {
        let raw = &self.text[from..self.at];
        // Line breaks within quotation marks are fine in a filter, if not in JSON.
        let json = raw.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
        serde_json::from_str(&format!("\"{json}\""))
            .map_err(|_| self.error(format!("`{raw}` has an escape that JSON does not know")))
    }
}
