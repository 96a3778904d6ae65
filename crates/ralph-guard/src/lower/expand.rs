//! Word expansion: quotes, variables, substitutions and splitting.

use brush_parser::ast;
use brush_parser::word::{
    Parameter, ParameterExpr, SpecialParameter, TildeExpr, WordPiece, WordPieceWithSource,
};

use super::walk::{Walker, count_work};
use super::{braces, parse};
use crate::codec;
use crate::word::{UNKNOWN, Word, mark_globs};

/// The longest text that a word may expand to; a longer one counts as unknown.
const LONGEST_WORD: usize = 64 * 1024;

/// Whether a part of a word is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    Unquoted,
    Quoted,
}

/// The words that a word expands to: the finished ones and the current one.
#[derive(Default)]
struct WordFields {
    done: Vec<String>,
    current: Option<String>,
}

impl WordFields {
    fn push_text(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    fn end_field(&mut self) {
        self.done.extend(self.current.take());
    }

    /// Adds text, split at separators.
    fn push_split(&mut self, text: &str, separators: &str) {
        for it in text.chars() {
            if separators.contains(it) {
                self.end_field();
            } else {
                self.current.get_or_insert_default().push(it);
            }
        }
    }
}

impl Walker {
    /// Returns the words that a word expands to.
    pub(super) fn expand_word(&mut self, word: &str) -> Vec<Word> {
        let Some(alternatives) = braces::expand_braces(word) else {
            return vec![Word::new_unknown()];
        };
        let mut words = Vec::new();
        for alternative in alternatives {
            if !self.spend_work(count_work(&alternative)) {
                break;
            }
            let mut fields = WordFields::default();
            match parse::parse_pieces(&alternative) {
                Ok(pieces) => self.expand_pieces(&pieces, QuoteState::Unquoted, &mut fields),
                Err(error) => {
                    self.record_error(error);
                    fields.push_text(&UNKNOWN.to_string());
                }
            }
            fields.end_field();
            words.extend(fields.done.into_iter().map(limit_word));
        }
        words
    }

    /// Expands a word without splitting, as in an assignment.
    pub(super) fn expand_unsplit(&mut self, word: &str) -> Word {
        if !self.spend_work(count_work(word)) {
            return Word::new_unknown();
        }
        match parse::parse_pieces(word) {
            Ok(pieces) => self.join_pieces(&pieces),
            Err(error) => {
                self.record_error(error);
                Word::new_unknown()
            }
        }
    }

    /// Returns the text of a here-document.
    pub(super) fn expand_document(&mut self, document: &ast::IoHereDocument) -> Word {
        if !self.spend_work(count_work(&document.doc.value)) {
            return Word::new_unknown();
        }
        if !document.requires_expansion {
            return Word::new(&document.doc.value);
        }
        match parse::parse_document(&document.doc.value) {
            Ok(pieces) => self.join_pieces(&pieces),
            Err(error) => {
                self.record_error(error);
                Word::new_unknown()
            }
        }
    }

    fn join_pieces(&mut self, pieces: &[WordPieceWithSource]) -> Word {
        let mut fields = WordFields::default();
        self.expand_pieces(pieces, QuoteState::Quoted, &mut fields);
        fields.end_field();
        limit_word(fields.done.join(" "))
    }

    fn expand_pieces(
        &mut self,
        pieces: &[WordPieceWithSource],
        quotes: QuoteState,
        fields: &mut WordFields,
    ) {
        for piece in pieces {
            match (&piece.piece, quotes) {
                (WordPiece::Text(text), QuoteState::Unquoted) => {
                    fields.push_text(&mark_globs(text));
                }
                (WordPiece::Text(text), QuoteState::Quoted)
                | (WordPiece::SingleQuotedText(text), _) => {
                    fields.push_text(text);
                }
                (WordPiece::AnsiCQuotedText(text), _) => {
                    fields.push_text(&codec::decode_escapes(text));
                }
                (
                    WordPiece::DoubleQuotedSequence(inner)
                    | WordPiece::GettextDoubleQuotedSequence(inner),
                    _,
                ) => {
                    fields.push_text("");
                    self.expand_pieces(inner, QuoteState::Quoted, fields);
                }
                (WordPiece::EscapeSequence(text), _) => {
                    let text = text.strip_prefix('\\').unwrap_or(text);
                    fields.push_text(if text == "\n" { "" } else { text });
                }
                (WordPiece::TildeExpansion(tilde), _) => {
                    fields.push_text(&self.expand_tilde(tilde));
                }
                (WordPiece::ArithmeticExpression(_), _) => fields.push_text(&UNKNOWN.to_string()),
                (WordPiece::ParameterExpansion(expression), _) => {
                    self.expand_parameter_piece(expression, quotes, fields);
                }
                (
                    WordPiece::CommandSubstitution(code)
                    | WordPiece::BackquotedCommandSubstitution(code),
                    _,
                ) => {
                    let printed = self.walk_substitution(code);
                    self.push_value(&printed, quotes, fields);
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only lists are of interest")]
    fn expand_parameter_piece(
        &mut self,
        expression: &ParameterExpr,
        quotes: QuoteState,
        fields: &mut WordFields,
    ) {
        // `$@`, `${array[@]}` and parts of them expand to several words even in quotes.
        let list = match expression {
            ParameterExpr::Parameter { parameter, indirect: false } => {
                self.find_list(parameter).map(|(_, list)| list)
            }
            ParameterExpr::Substring { parameter, indirect: false, offset, length } => {
                let list = self.find_list(parameter);
                list.and_then(|(first, list)| {
                    take_part(
                        list,
                        first,
                        &offset.value,
                        length.as_ref().map(|it| it.value.as_str()),
                    )
                })
            }
            _ => None,
        };
        let Some(list) = list else {
            let value = self.expand_parameter(expression);
            return self.push_value(&value, quotes, fields);
        };
        for (position, word) in list.iter().enumerate() {
            if position > 0 {
                fields.end_field();
            }
            self.push_value(word, quotes, fields);
        }
    }

    /// Returns the words that a parameter stands for, and the number of the first one.
    fn find_list(&self, parameter: &Parameter) -> Option<(usize, Vec<Word>)> {
        match parameter {
            Parameter::Special(SpecialParameter::AllPositionalParameters { .. }) => {
                Some((1, self.positional.clone()))
            }
            Parameter::NamedWithAllIndices { name, .. } => {
                Some((0, self.arrays.get(self.follow_reference(name))?.clone()))
            }
            Parameter::Positional(_)
            | Parameter::Special(_)
            | Parameter::Named(_)
            | Parameter::NamedWithIndex { .. } => None,
        }
    }

    /// Adds a value: as a whole within quotes, otherwise split, with active globs.
    fn push_value(&mut self, value: &Word, quotes: QuoteState, fields: &mut WordFields) {
        if !self.spend_work(count_work(value.raw())) {
            return fields.push_text(&UNKNOWN.to_string());
        }
        match quotes {
            QuoteState::Quoted => fields.push_text(value.raw()),
            QuoteState::Unquoted => {
                let separators = match self.variables.get("IFS").map(Vec::as_slice) {
                    Some([separators]) => separators.to_quoted(),
                    Some(_) | None => " \t\n".to_owned(),
                };
                fields.push_split(&mark_globs(value.raw()), &separators);
            }
        }
    }

    /// Walks a command substitution and returns what it prints.
    pub(super) fn walk_substitution(&mut self, code: &str) -> Word {
        let from = self.commands.len();
        let (stdin, fed_by) = (self.stdin.take(), std::mem::take(&mut self.fed_by));
        let (choice, choices) = (self.value_choice, self.value_choices);
        self.walk_subshell(|walker| walker.walk_nested_text(code));
        (self.stdin, self.fed_by) = (stdin, fed_by);
        (self.value_choice, self.value_choices) = (choice, choices);
        let printed = self.collect_output(from);
        Word::from_marked(printed.raw().trim_end_matches('\n').to_owned())
    }

    fn expand_tilde(&self, tilde: &TildeExpr) -> String {
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

fn limit_word(text: String) -> Word {
    if text.len() > LONGEST_WORD { Word::new_unknown() } else { Word::from_marked(text) }
}

/// Returns the words of `${list[@]:OFFSET:LENGTH}`, for plain numbers.
fn take_part(
    mut list: Vec<Word>,
    first: usize,
    offset: &str,
    length: Option<&str>,
) -> Option<Vec<Word>> {
    let begin = offset.trim().parse::<usize>().ok()?.saturating_sub(first).min(list.len());
    list.drain(..begin);
    if let Some(length) = length {
        list.truncate(length.trim().parse().ok()?);
    }
    Some(list)
}
