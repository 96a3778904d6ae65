//! Parsing with limits.
//!
//! The parser backtracks, so unbalanced brackets need exponential time, and it recurses, so deep
//! nesting overflows the stack. Both are counted before parsing. It also fails on numbers that are
//! larger than it expects; a shell does not treat those as numbers.

use brush_parser::ast::{IoFd, Program};
use brush_parser::word::{self, WordPieceWithSource};
use brush_parser::{ParserOptions, Token, parse_tokens, uncached_tokenize_str};

use crate::command::LoweringError;
use crate::word::LONGEST;

/// The most words and operators; a debug build of the parser takes about 3 ms per thousand.
const MOST_TOKENS: usize = 20_000;

/// The deepest brackets; each unclosed level doubles the time.
const DEEPEST_BRACKETS: usize = 12;

/// The deepest compound commands; a debug build uses about 20 KiB of stack for each.
const DEEPEST_COMPOUNDS: usize = 40;

/// Returns the options of the parser.
pub(super) fn new_parser_options() -> ParserOptions {
    ParserOptions::default()
}

/// Parses a text, and returns its number of words and operators too.
pub(super) fn parse_program(text: &str) -> Result<(Program, usize), LoweringError> {
    check_size(text)?;
    let options = new_parser_options();
    let tokens = uncached_tokenize_str(text, &options.tokenizer_options())
        .map_err(|_error| LoweringError::Syntax)?;
    if tokens.len() > MOST_TOKENS {
        return Err(LoweringError::TooMuch);
    }
    check_nesting(&tokens)?;
    check_descriptors(&tokens)?;
    let program = parse_tokens(&tokens, &options).map_err(|_error| LoweringError::Syntax)?;
    Ok((program, tokens.len()))
}

/// Splits a word into its pieces.
pub(super) fn parse_pieces(text: &str) -> Result<Vec<WordPieceWithSource>, LoweringError> {
    check_size(text)?;
    check_directory_stack(text)?;
    word::parse(text, &new_parser_options()).map_err(|_error| LoweringError::Syntax)
}

/// Splits a here-document into its pieces.
pub(super) fn parse_document(text: &str) -> Result<Vec<WordPieceWithSource>, LoweringError> {
    check_size(text)?;
    check_directory_stack(text)?;
    word::parse_heredoc(text, &new_parser_options()).map_err(|_error| LoweringError::Syntax)
}

/// Rejects text that is too long, or that nests substitutions too deep.
fn check_size(text: &str) -> Result<(), LoweringError> {
    if text.len() > LONGEST {
        return Err(LoweringError::TooMuch);
    }
    let mut depth = 0_usize;
    let mut before = ' ';
    for it in text.chars() {
        match it {
            '(' | '{' if before == '$' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_COMPOUNDS {
            return Err(LoweringError::TooDeep);
        }
        before = it;
    }
    Ok(())
}

/// Rejects brackets and compound commands that are nested too deep.
fn check_nesting(tokens: &[Token]) -> Result<(), LoweringError> {
    let (mut brackets, mut compounds) = (0_usize, 0_usize);
    for token in tokens {
        match token {
            Token::Operator(text, _) => match text.as_str() {
                "(" => brackets += 1,
                ")" => brackets = brackets.saturating_sub(1),
                _ => {}
            },
            Token::Word(text, _) => match text.as_str() {
                "if" | "while" | "until" | "for" | "case" | "select" | "{" | "[[" | "!"
                | "coproc" | "function" | "time" => compounds += 1,
                "fi" | "done" | "esac" | "}" | "]]" => compounds = compounds.saturating_sub(1),
                _ => {}
            },
        }
        if brackets > DEEPEST_BRACKETS || compounds > DEEPEST_COMPOUNDS {
            return Err(LoweringError::TooDeep);
        }
    }
    Ok(())
}

/// Rejects a redirection of an impossibly large file descriptor.
fn check_descriptors(tokens: &[Token]) -> Result<(), LoweringError> {
    let is_beyond = |pair: &[Token]| match pair {
        [Token::Word(number, before), Token::Operator(operator, after)] => {
            operator.starts_with(['<', '>'])
                && before.end.index == after.start.index
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && number.parse::<IoFd>().is_err()
        }
        _ => false,
    };
    if tokens.windows(2).any(is_beyond) { Err(LoweringError::Syntax) } else { Ok(()) }
}

/// Rejects an impossibly large index into the directory stack, such as `~99999999999999999999`.
fn check_directory_stack(text: &str) -> Result<(), LoweringError> {
    let is_beyond = |after: &str| {
        let after = after.strip_prefix(['+', '-']).unwrap_or(after);
        let digits = after.len() - after.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        digits > 0 && after[..digits].parse::<usize>().is_err()
    };
    if text.split('~').skip(1).any(is_beyond) { Err(LoweringError::Syntax) } else { Ok(()) }
}
