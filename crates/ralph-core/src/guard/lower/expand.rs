//! Word expansion: quotes, variables, substitutions and splitting.

use brush_parser::ast;
use brush_parser::word::{
    Parameter, ParameterExpr, SpecialParameter, TildeExpr, WordPiece, WordPieceWithSource,
};

use super::walk::{Walker, work};
use super::word::{UNKNOWN, Word, marked};
use super::{braces, codec, parse};

/// The longest text that a word may expand to; a longer one counts as unknown.
const LONGEST_WORD: usize = 64 * 1024;

/// Whether a part of a word is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Around,
}

/// The words that a word expands to: the finished ones and the current one.
#[derive(Default)]
struct Fields {
    done: Vec<String>,
    current: Option<String>,
}

impl Fields {
    fn push(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    fn end(&mut self) {
        self.done.extend(self.current.take());
    }

    /// Adds text, split at separators.
    fn split(&mut self, text: &str, separators: &str) {
        for it in text.chars() {
            if separators.contains(it) {
                self.end();
            } else {
                self.current.get_or_insert_default().push(it);
            }
        }
    }
}

impl Walker {
    /// Returns the words that a word expands to.
    pub(super) fn words(&mut self, word: &str) -> Vec<Word> {
        let Some(alternatives) = braces::expand(word) else { return vec![Word::unknown()] };
        let mut words = Vec::new();
        for alternative in alternatives {
            if !self.spend(work(&alternative)) {
                break;
            }
            let mut fields = Fields::default();
            match parse::pieces(&alternative) {
                Ok(pieces) => self.pieces(&pieces, Quotes::None, &mut fields),
                Err(error) => {
                    self.fail(error);
                    fields.push(&UNKNOWN.to_string());
                }
            }
            fields.end();
            words.extend(fields.done.into_iter().map(bounded));
        }
        words
    }

    /// Expands a word without splitting, as in an assignment.
    pub(super) fn one_word(&mut self, word: &str) -> Word {
        if !self.spend(work(word)) {
            return Word::unknown();
        }
        match parse::pieces(word) {
            Ok(pieces) => self.joined(&pieces),
            Err(error) => {
                self.fail(error);
                Word::unknown()
            }
        }
    }

    /// Returns the text of a here-document.
    pub(super) fn document(&mut self, document: &ast::IoHereDocument) -> Word {
        if !self.spend(work(&document.doc.value)) {
            return Word::unknown();
        }
        if !document.requires_expansion {
            return Word::new(&document.doc.value);
        }
        match parse::document(&document.doc.value) {
            Ok(pieces) => self.joined(&pieces),
            Err(error) => {
                self.fail(error);
                Word::unknown()
            }
        }
    }

    fn joined(&mut self, pieces: &[WordPieceWithSource]) -> Word {
        let mut fields = Fields::default();
        self.pieces(pieces, Quotes::Around, &mut fields);
        fields.end();
        bounded(fields.done.join(" "))
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], quotes: Quotes, fields: &mut Fields) {
        for piece in pieces {
            match (&piece.piece, quotes) {
                (WordPiece::Text(text), Quotes::None) => fields.push(&marked(text)),
                (WordPiece::Text(text), Quotes::Around)
                | (WordPiece::SingleQuotedText(text), _) => {
                    fields.push(text);
                }
                (WordPiece::AnsiCQuotedText(text), _) => fields.push(&codec::escapes(text)),
                (
                    WordPiece::DoubleQuotedSequence(inner)
                    | WordPiece::GettextDoubleQuotedSequence(inner),
                    _,
                ) => {
                    fields.push("");
                    self.pieces(inner, Quotes::Around, fields);
                }
                (WordPiece::EscapeSequence(text), _) => {
                    let text = text.strip_prefix('\\').unwrap_or(text);
                    fields.push(if text == "\n" { "" } else { text });
                }
                (WordPiece::TildeExpansion(tilde), _) => fields.push(&self.tilde(tilde)),
                (WordPiece::ArithmeticExpression(_), _) => fields.push(&UNKNOWN.to_string()),
                (WordPiece::ParameterExpansion(expression), _) => {
                    self.parameter_piece(expression, quotes, fields);
                }
                (
                    WordPiece::CommandSubstitution(code)
                    | WordPiece::BackquotedCommandSubstitution(code),
                    _,
                ) => {
                    let printed = self.substitution(code);
                    self.value(&printed, quotes, fields);
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only lists are of interest")]
    fn parameter_piece(&mut self, expression: &ParameterExpr, quotes: Quotes, fields: &mut Fields) {
        // `$@` and `${array[@]}` expand to several words even in quotes.
        let list = match expression {
            ParameterExpr::Parameter { parameter, indirect: false } => match parameter {
                Parameter::Special(SpecialParameter::AllPositionalParameters { .. }) => {
                    Some(self.positional.clone())
                }
                Parameter::NamedWithAllIndices { name, .. } => self.arrays.get(name).cloned(),
                Parameter::Positional(_)
                | Parameter::Special(_)
                | Parameter::Named(_)
                | Parameter::NamedWithIndex { .. } => None,
            },
            _ => None,
        };
        let Some(list) = list else {
            let value = self.parameter(expression);
            return self.value(&value, quotes, fields);
        };
        for (position, word) in list.iter().enumerate() {
            if position > 0 {
                fields.end();
            }
            self.value(word, quotes, fields);
        }
    }

    /// Adds a value: as a whole within quotes, otherwise split, with active globs.
    fn value(&mut self, value: &Word, quotes: Quotes, fields: &mut Fields) {
        if !self.spend(work(value.raw())) {
            return fields.push(&UNKNOWN.to_string());
        }
        match quotes {
            Quotes::Around => fields.push(value.raw()),
            Quotes::None => {
                let separators = match self.variables.get("IFS").map(Vec::as_slice) {
                    Some([separators]) => separators.quoted(),
                    Some(_) | None => " \t\n".to_owned(),
                };
                fields.split(&marked(value.raw()), &separators);
            }
        }
    }

    /// Walks a command substitution and returns what it prints.
    pub(super) fn substitution(&mut self, code: &str) -> Word {
        let from = self.commands.len();
        let (stdin, fed_by) = (self.stdin.take(), std::mem::take(&mut self.fed_by));
        let (choice, choices) = (self.world, self.worlds);
        self.apart(|walker| walker.text(code));
        (self.stdin, self.fed_by) = (stdin, fed_by);
        (self.world, self.worlds) = (choice, choices);
        let printed = self.printed(from);
        Word::marked(printed.raw().trim_end_matches('\n').to_owned())
    }

    fn tilde(&self, tilde: &TildeExpr) -> String {
        let unknown = || UNKNOWN.to_string();
        match tilde {
            TildeExpr::Home => self.home.clone().unwrap_or_else(unknown),
            TildeExpr::UserHome(user) if user == "root" => "/root".to_owned(),
            TildeExpr::UserHome(user) => format!("/home/{user}"),
            TildeExpr::WorkingDir => self.cwd.clone().unwrap_or_else(unknown),
            TildeExpr::OldWorkingDir
            | TildeExpr::NthDirFromTopOfDirStack { .. }
            | TildeExpr::NthDirFromBottomOfDirStack { .. } => unknown(),
        }
    }
}

fn bounded(text: String) -> Word {
    if text.len() > LONGEST_WORD { Word::unknown() } else { Word::marked(text) }
}
