//! Filters: jq programs that select values in a line, interpreted by jaq.
//!
//! A program cannot read anything but its line, and its work is bounded: before it is compiled,
//! every part of it is wrapped in native filters that count steps and bytes ([`meter`]), and a
//! program that uses up its budget is stopped. Definitions are refused, because recursion would
//! need the stack before it needs the budget. Not here: what selected values mean (`translate`).

use std::cell::Cell;

use jaq_core::box_iter::box_once;
use jaq_core::data::HasLut;
use jaq_core::load::lex::{StrPart, Tok, Token};
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::load::{Arena, File, Lexer, Loader, Parser, span};
use jaq_core::native::{Fun, bome, v};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};
use jaq_core::{Compiler, Ctx, DataT, Error, Exn, Lut, Native, ValXs, Vars};
use jaq_json::{Num, Val};
use jaq_std::ValT as _;

/// A filter that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {place}: {message}")]
pub struct FilterError {
    /// The position of the mistake, counted in characters from 1.
    pub place: usize,
    /// What is wrong there.
    pub message: String,
}

/// A longer filter is a program, not a selection; parsing and running it needs more stack.
const MAX_FILTER_BYTES: usize = 4_096;

/// Nested brackets in a filter, which the lexer reads recursively.
const MAX_BRACKET_DEPTH: usize = 32;

/// Tokens such as `try` from the outermost to the innermost bracket: the parser reads what follows
/// them recursively.
const MAX_PREFIXES: usize = 48;

/// Filters within filters, which are compiled and run recursively. A level takes up to 30 KB of stack
/// in a debug build, and a thread has 2 MB.
const MAX_TERM_DEPTH: usize = 48;

/// Values that one line may select: far more than any filter needs.
const MAX_VALUES: usize = 10_000;

/// Steps that one line may take.
const MAX_STEPS: usize = 1 << 18;

/// Assignments to a part of a value that one line may make: those to what `recurse` and its like
/// select are nested in each other.
const MAX_UPDATES: usize = 500;

/// Bytes that one line may build: several times the longest line.
const MAX_BYTES: usize = 64 << 20;

/// Nesting of a value, whose size and end are found recursively. JSON is read up to 128.
const MAX_VALUE_DEPTH: usize = 256;

/// A compiled filter.
pub(super) struct Filter {
    text: String,
    compiled: jaq_core::Filter<Metered>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Filter").field(&self.text).finish()
    }
}

/// What a filter selects in a line.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) values: Vec<Val>,
    /// Whether the filter stopped with an error or at its budget, after these values.
    pub(super) has_failed: bool,
}

impl Filter {
    /// Compiles a filter.
    pub(super) fn compile(text: &str) -> Result<Self, FilterError> {
        let main = Def { name: MAIN, args: Vec::new(), body: meter(parse(text)?, text, 0)? };
        let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let library = library.filter(|def| is_available(def.name, def.args.len()));
        let mut definitions: Vec<Def<&str>> = library.collect();
        definitions.push(main);
        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code: MAIN, path: () })
            .map_err(|_| build_error_at(text, text, "cannot be loaded".to_owned()))?;
        match Compiler::default().with_funs(list_native_filters()).compile(modules) {
            Ok(compiled) => Ok(Self { text: text.to_owned(), compiled }),
            Err(errors) => Err(match errors.iter().flat_map(|(_, errors)| errors).next() {
                Some((name, kind)) => {
                    build_error_at(text, name, format!("there is no {} `{name}`", kind.as_str()))
                }
                None => build_error_at(text, text, "cannot be compiled".to_owned()),
            }),
        }
    }

    /// Returns what is selected in a line, up to the first error.
    pub(super) fn select(&self, line: &Val) -> Selection {
        let budget = FilterBudget {
            steps: Cell::new(MAX_STEPS),
            bytes: Cell::new(MAX_BYTES),
            updates: Cell::new(MAX_UPDATES),
        };
        let data = MeterData { lut: &self.compiled.lut, budget: &budget };
        let ctx = Ctx::<Metered>::new(data, Vars::new([]));
        let mut selection = Selection::default();
        for value in self.compiled.id.run((ctx, line.clone())) {
            match value {
                Ok(value) if selection.values.len() < MAX_VALUES && budget.pay(&value) => {
                    selection.values.push(value);
                }
                Ok(_) | Err(_) => {
                    selection.has_failed = true;
                    break;
                }
            }
        }
        selection
    }
}

impl Selection {
    /// Returns the values as text for people: strings as they are, others as JSON; `null` is skipped.
    pub(super) fn texts(&self) -> Vec<String> {
        let texts = self.values.iter().filter_map(|value| match value {
            Val::Null => None,
            Val::TStr(text) | Val::BStr(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Val::Bool(_) | Val::Num(_) | Val::Arr(_) | Val::Obj(_) => Some(value.to_string()),
        });
        texts.collect()
    }

    /// Returns the first number.
    pub(super) fn number(&self) -> Option<f64> {
        self.values.iter().find_map(Val::as_f64)
    }
}

/// Name of the user's filter among the definitions. A filter cannot call names that begin like this.
const MAIN: &str = "__filter";

/// Counts a step.
const STEP: &str = "__step";

/// Counts a step and the bytes of a value.
const PAY: &str = "__pay";

/// Multiplies numbers. `*` of jq also repeats a string any number of times in one step.
const MULTIPLY: &str = "__multiply";

/// What is left for one line.
struct FilterBudget {
    steps: Cell<usize>,
    bytes: Cell<usize>,
    updates: Cell<usize>,
}

impl FilterBudget {
    /// Counts a step; returns whether it can be paid for.
    fn step(&self) -> bool {
        take(&self.steps, 1)
    }

    fn pay(&self, value: &Val) -> bool {
        self.step() && self.pay_nested(value, 0)
    }

    /// Pays for a whole value, without looking at more of it than can be paid for.
    fn pay_nested(&self, value: &Val, depth: usize) -> bool {
        /// Bytes that a value takes besides its text.
        const SLOT: usize = 16;
        depth < MAX_VALUE_DEPTH
            && match value {
                Val::Null | Val::Bool(_) | Val::Num(_) => take(&self.bytes, SLOT),
                Val::TStr(text) | Val::BStr(text) => take(&self.bytes, SLOT + text.len()),
                Val::Arr(items) => {
                    take(&self.bytes, SLOT)
                        && items.iter().all(|item| self.pay_nested(item, depth + 1))
                }
                Val::Obj(fields) => {
                    take(&self.bytes, SLOT)
                        && fields.iter().all(|(key, value)| {
                            self.pay_nested(key, depth + 1) && self.pay_nested(value, depth + 1)
                        })
                }
            }
    }
}

/// Takes from a budget; what was too expensive once leaves nothing for later.
fn take(left: &Cell<usize>, amount: usize) -> bool {
    let rest = left.get().checked_sub(amount);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}

/// Values and data of a filter at work.
struct Metered;

impl DataT for Metered {
    type V<'a> = Val;
    type Data<'a> = MeterData<'a>;
}

#[derive(Clone)]
struct MeterData<'a> {
    lut: &'a Lut<Metered>,
    budget: &'a FilterBudget,
}

impl<'a> HasLut<'a, Metered> for MeterData<'a> {
    fn lut(&self) -> &'a Lut<Metered> {
        self.lut
    }
}

/// Returns the native filters: those of jaq that only compute, and those that count.
fn list_native_filters() -> impl Iterator<Item = Fun<Metered>> {
    // `try` and `?` catch errors, but not this.
    fn stop<'a>() -> Exn<'a, Val> {
        Exn::halt(0)
    }
    fn update<'a>(
        budget: &FilterBudget,
        value: Val,
        update: impl FnOnce(Val) -> ValXs<'a, Val>,
    ) -> ValXs<'a, Val> {
        if take(&budget.updates, 1) { update(value) } else { box_once(Err(stop())) }
    }
    let step = Native::<Metered>::new(|cv| {
        let is_paid = cv.0.data().budget.step();
        box_once(if is_paid { Ok(cv.1) } else { Err(stop()) })
    })
    .with_paths(|cv| {
        let is_paid = cv.0.data().budget.step();
        box_once(if is_paid { Ok(cv.1) } else { Err(stop()) })
    })
    .with_update(|cv, change| update(cv.0.data().budget, cv.1, &*change));
    let pay = Native::<Metered>::new(|cv| {
        let is_paid = cv.0.data().budget.pay(&cv.1);
        box_once(if is_paid { Ok(cv.1) } else { Err(stop()) })
    })
    .with_paths(|cv| {
        let is_paid = cv.0.data().budget.pay(&cv.1.0);
        box_once(if is_paid { Ok(cv.1) } else { Err(stop()) })
    })
    .with_update(|cv, change| update(cv.0.data().budget, cv.1, &*change));
    let multiply = Native::<Metered>::new(|mut cv| {
        let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
        bome(multiply(left, right))
    });
    let from_json = Native::new(|cv| bome(read_json(&cv.1)));
    let library = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    library.filter(|(name, _, _)| !["halt", "fromjson"].contains(name)).chain([
        (STEP, v(0), step),
        (PAY, v(0), pay),
        (MULTIPLY, v(2), multiply),
        ("fromjson", v(0), from_json),
    ])
}

/// Multiplies numbers in the machine's size; big integers would grow without end.
fn multiply(left: Val, right: Val) -> Result<Val, Error<Val>> {
    if let (Some(one), Some(two)) = (left.as_isize(), right.as_isize())
        && let Some(product) = one.checked_mul(two)
    {
        return Ok(Val::from(product));
    }
    match (left.as_f64(), right.as_f64()) {
        (Some(one), Some(two)) => Ok(Val::Num(Num::Float(one * two))),
        (_, _) => Err(Error::math(left, Math::Mul, right)),
    }
}

/// Reads JSON with a bounded depth, which jaq's own reader does not have.
fn read_json(text: &Val) -> Result<Val, Error<Val>> {
    serde_json::from_slice(text.try_as_utf8_bytes()?).map_err(Error::str)
}

/// Returns whether a definition of jaq's library is available. The others need native filters for
/// regular expressions, dates, mathematics or output that are not linked; `combinations` repeats
/// without counting.
fn is_available(name: &str, arity: usize) -> bool {
    const MISSING: [&str; 28] = [
        "stderr",
        "debug",
        "halt",
        "halt_error",
        "logb",
        "significand",
        "pow10",
        "drem",
        "nexttoward",
        "scalb",
        "gamma",
        "test",
        "scan_",
        "match",
        "capture",
        "splits",
        "sub",
        "gsub",
        "scan",
        "todate",
        "fromdate",
        "@html",
        "@htmld",
        "@uri",
        "@urid",
        "@base64",
        "@base64d",
        "combinations",
    ];
    !MISSING.contains(&name) && (name, arity) != ("split", 2)
}

fn build_error_at(text: &str, part: &str, message: String) -> FilterError {
    let place = text.get(..span(text, part).start).map_or(1, |before| before.chars().count() + 1);
    FilterError { place, message }
}

fn parse(text: &str) -> Result<Term<&str>, FilterError> {
    if text.len() > MAX_FILTER_BYTES {
        let message = format!("the filter is longer than {MAX_FILTER_BYTES} bytes");
        return Err(build_error_at(text, text, message));
    }
    check_brackets(text)?;
    let expected = |expected: &str, found: &str| {
        let expected = match expected {
            "nothing" => "the end of the filter, or an operator such as `|`",
            "term" => "a filter such as `.text`",
            other => other,
        };
        let shown = found.chars().next().map_or("the end".to_owned(), |it| format!("`{it}`"));
        build_error_at(text, found, format!("expected {expected}, found {shown}"))
    };
    let tokens = Lexer::new(text).lex().map_err(|errors| match errors.first() {
        Some((expect, found)) => expected(expect.as_str(), found),
        None => build_error_at(text, text, "cannot be read".to_owned()),
    })?;
    if count_prefixes(&tokens) > MAX_PREFIXES {
        return Err(build_error_at(text, text, build_depth_error()));
    }
    Parser::new(&tokens).parse(Parser::term).map_err(|errors| match errors.first() {
        Some((expect, found)) => expected(expect.as_str(), Token::opt_as_str(*found, text)),
        None => build_error_at(text, text, "cannot be parsed".to_owned()),
    })
}

fn check_brackets(text: &str) -> Result<(), FilterError> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_BRACKET_DEPTH {
            let message = format!("more than {MAX_BRACKET_DEPTH} nested brackets");
            return Err(build_error_at(text, &text[at..], message));
        }
    }
    Ok(())
}

fn build_depth_error() -> String {
    format!("more than {MAX_TERM_DEPTH} nested filters")
}

fn count_prefixes(tokens: &[Token<&str>]) -> usize {
    let is_prefix = |token: &&Token<&str>| {
        ["-", "try", "catch", "if", "reduce", "foreach", "label", "def"].contains(&token.as_str())
    };
    let count_within = |token: &Token<&str>| match &token.1 {
        Tok::Block(tokens) => count_prefixes(tokens),
        Tok::Str(parts) => {
            let counts = parts.iter().map(|part| match part {
                StrPart::Term(token) => count_prefixes(std::slice::from_ref(token)),
                StrPart::Str(_) | StrPart::Char(_) => 0,
            });
            counts.max().unwrap_or(0)
        }
        Tok::Word | Tok::Var | Tok::Fmt | Tok::Num | Tok::Sym => 0,
    };
    tokens.iter().filter(is_prefix).count() + tokens.iter().map(count_within).max().unwrap_or(0)
}

/// Wraps every part of a filter that can loop or grow in the filters that count.
///
/// Whatever calls a part again and again, such as `until`, runs into the steps; what it builds, into
/// the bytes. Parts that only choose between others, such as `|` and `if`, need no counting.
fn meter<'s>(term: Term<&'s str>, text: &str, depth: usize) -> Result<Term<&'s str>, FilterError> {
    if depth > MAX_TERM_DEPTH {
        return Err(build_error_at(text, text, build_depth_error()));
    }
    let call = |name| Term::Call(name, Vec::new());
    let pipe = |left: Term<&'s str>, right: Term<&'s str>| {
        Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
    };
    let counted = |term| pipe(call(STEP), pipe(term, call(PAY)));
    let one = |term: Box<Term<&'s str>>| meter(*term, text, depth + 1).map(Box::new);
    let many = |terms: Vec<Term<&'s str>>| -> Result<Vec<_>, FilterError> {
        terms.into_iter().map(|term| meter(term, text, depth + 1)).collect()
    };
    let maybe =
        |term: Option<Term<&'s str>>| term.map(|term| meter(term, text, depth + 1)).transpose();
    Ok(match term {
        Term::Id => call(STEP),
        Term::Num(_) | Term::Var(_) | Term::Break(_) => pipe(call(STEP), term),
        Term::Recurse => counted(term),
        Term::Str(format, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(term) => meter(term, text, depth + 1).map(StrPart::Term),
                StrPart::Str(_) | StrPart::Char(_) => Ok(part),
            });
            counted(Term::Str(format, parts.collect::<Result<_, _>>()?))
        }
        Term::Arr(items) => counted(Term::Arr(items.map(one).transpose()?)),
        Term::Obj(fields) => {
            let fields = fields.into_iter().map(|(key, value)| match (key, value) {
                // `{$x}` and `{a}` take their value from their key.
                (key, None) => Ok((key, None)),
                (key, value) => Ok((meter(key, text, depth + 1)?, maybe(value)?)),
            });
            counted(Term::Obj(fields.collect::<Result<_, FilterError>>()?))
        }
        Term::Neg(term) => Term::Neg(one(term)?),
        Term::BinOp(left, op, right) => {
            let (left, right) = (one(left)?, one(right)?);
            match op {
                BinaryOp::Math(Math::Mul) => counted(Term::Call(MULTIPLY, vec![*left, *right])),
                BinaryOp::UpdateMath(Math::Mul) => {
                    return Err(build_error_at(text, text, "`*=` is not available".to_owned()));
                }
                BinaryOp::Pipe(pattern) => {
                    let pattern = pattern
                        .map(|pattern| meter_pattern(pattern, text, depth + 1))
                        .transpose()?;
                    Term::BinOp(left, BinaryOp::Pipe(pattern), right)
                }
                // jq passes over errors on the left, jaq does not.
                BinaryOp::Alt => {
                    let left = Term::TryCatch(left, None);
                    Term::BinOp(Box::new(left), op, right)
                }
                BinaryOp::Comma | BinaryOp::Or | BinaryOp::And => Term::BinOp(left, op, right),
                _ => counted(Term::BinOp(left, op, right)),
            }
        }
        Term::Label(name, term) => Term::Label(name, one(term)?),
        Term::Fold(name, source, pattern, terms) => {
            let pattern = meter_pattern(pattern, text, depth + 1)?;
            counted(Term::Fold(name, one(source)?, pattern, many(terms)?))
        }
        Term::TryCatch(term, catch) => Term::TryCatch(one(term)?, catch.map(one).transpose()?),
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.into_iter().map(|(condition, then)| {
                Ok((meter(condition, text, depth + 1)?, meter(then, text, depth + 1)?))
            });
            let branches = branches.collect::<Result<_, FilterError>>()?;
            Term::IfThenElse(branches, otherwise.map(one).transpose()?)
        }
        Term::Def(defs, _) => {
            let name = defs.first().map_or(text, |def| def.name);
            return Err(build_error_at(text, name, "`def` is not available".to_owned()));
        }
        Term::Call(name, _) if name.starts_with("__") => {
            return Err(build_error_at(text, name, format!("there is no filter `{name}`")));
        }
        Term::Call(name, terms) => counted(Term::Call(name, many(terms)?)),
        Term::Path(_, Path(parts)) if parts.len() > MAX_TERM_DEPTH => {
            return Err(build_error_at(text, text, build_depth_error()));
        }
        Term::Path(term, Path(parts)) => {
            let parts = parts.into_iter().map(|(part, optional)| {
                let part = match part {
                    Part::Index(index) => Part::Index(meter(index, text, depth + 1)?),
                    Part::Range(from, to) => Part::Range(maybe(from)?, maybe(to)?),
                };
                Ok((part, optional))
            });
            Term::Path(one(term)?, Path(parts.collect::<Result<_, FilterError>>()?))
        }
    })
}

fn meter_pattern<'s>(
    pattern: Pattern<&'s str>,
    text: &str,
    depth: usize,
) -> Result<Pattern<&'s str>, FilterError> {
    Ok(match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(patterns) => {
            let patterns =
                patterns.into_iter().map(|pattern| meter_pattern(pattern, text, depth + 1));
            Pattern::Arr(patterns.collect::<Result<_, _>>()?)
        }
        Pattern::Obj(fields) => {
            let fields = fields.into_iter().map(|(key, pattern)| {
                Ok((meter(key, text, depth + 1)?, meter_pattern(pattern, text, depth + 1)?))
            });
            Pattern::Obj(fields.collect::<Result<_, FilterError>>()?)
        }
    })
}
