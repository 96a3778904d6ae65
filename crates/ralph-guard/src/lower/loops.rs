//! Loops: whether they end, and whether they wait.
//!
//! Only the text itself counts: `while [ 1 ]` is infinite, `while [ "$x" ]` may end. The values of
//! a `for` loop are not handled here; they are walked one by one.

use brush_parser::ast::{self, AndOr, CompoundCommand, CompoundList, ExtendedTestExpr};

use super::walk::Walker;
use crate::command::{CommandExecution, Copies, ShellCommand};
use crate::word::Word;

/// How often a loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopBound {
    /// A limited number of times.
    Bounded,
    /// Until it is stopped.
    Endless,
}

/// The shortest sleep in seconds that counts as waiting.
const SHORTEST_SLEEP: f64 = 0.5;

impl Walker {
    /// Walks the body of a loop. A loop that waits for something, or that can be left, does not
    /// count as infinite: it starts no more processes than a user would by hand.
    pub(super) fn walk_loop_body(&mut self, rounds: LoopBound, walk: impl FnOnce(&mut Self)) {
        let from = self.commands.len();
        let around = self.execution;
        self.conditions += 1;
        walk(self);
        self.conditions -= 1;
        let within = self.commands.get_mut(from..).unwrap_or_default();
        let is_held_up = within.iter().any(|command| delays_loop(command, around));
        if rounds == LoopBound::Endless && !is_held_up {
            for command in within {
                command.execution.copies = Copies::Endless;
            }
        }
    }
}

/// Returns whether a command in a loop's body makes the loop wait, or leaves it.
fn delays_loop(command: &ShellCommand, around: CommandExecution) -> bool {
    if command.execution.background && !around.background {
        return false;
    }
    match command.name() {
        "wait" | "read" | "break" | "exit" | "return" | "inotifywait" | "flock" => true,
        "sleep" => is_long_sleep(command.arguments().first().map(Word::raw).unwrap_or_default()),
        _ => false,
    }
}

/// Returns whether an argument of `sleep` is long enough to count. A unit such as `m` always is.
fn is_long_sleep(time: &str) -> bool {
    let seconds = time.trim_end_matches('s').parse::<f64>();
    seconds.map_or(true, |seconds| seconds >= SHORTEST_SLEEP)
}

/// Returns the constant value of a condition, by its text and the commands that it was lowered to.
pub(super) fn find_constant_condition(
    condition: &CompoundList,
    commands: &[ShellCommand],
) -> Option<bool> {
    let ast::CompoundListItem(list, _) = condition.0.last()?;
    let pipeline = match list.additional.last() {
        None => &list.first,
        // `x || true` is always true; `x && true` is not.
        Some(AndOr::Or(pipeline)) => pipeline,
        Some(AndOr::And(_)) => return None,
    };
    let [command] = pipeline.seq.as_slice() else { return None };
    let truth = match command {
        ast::Command::Simple(_) => find_constant_status(commands.last()?)?,
        ast::Command::Compound(CompoundCommand::Arithmetic(arithmetic), _) => {
            parse_arithmetic_truth(&arithmetic.expr.value)?
        }
        ast::Command::ExtendedTest(test, _) => match &test.expr {
            ExtendedTestExpr::UnaryTest(ast::UnaryPredicate::StringHasNonZeroLength, word) => {
                parse_word_truth(&word.value)?
            }
            ExtendedTestExpr::UnaryTest(_, _)
            | ExtendedTestExpr::BinaryTest(_, _, _)
            | ExtendedTestExpr::And(_, _)
            | ExtendedTestExpr::Or(_, _)
            | ExtendedTestExpr::Not(_)
            | ExtendedTestExpr::Parenthesized(_) => return None,
        },
        ast::Command::Compound(_, _) | ast::Command::Function(_) => return None,
    };
    Some(truth != pipeline.bang)
}

/// Returns the constant exit status of a command, as true for success.
fn find_constant_status(command: &ShellCommand) -> Option<bool> {
    let words: Vec<&str> = command.arguments().iter().filter_map(Word::as_known).collect();
    if words.len() != command.arguments().len() {
        return None;
    }
    // The name of `[` is a glob mark in resolved words.
    let name = command.argv.first().map(ToString::to_string).unwrap_or_default();
    match (name.rsplit('/').next().unwrap_or_default(), words.as_slice()) {
        ("true" | ":", _) => Some(true),
        ("false", _) => Some(false),
        ("[", [word, "]"]) | ("test", [word]) => Some(!word.is_empty()),
        ("[", [left, "=" | "==" | "-eq", right, "]"]) | ("test", [left, "=" | "-eq", right]) => {
            Some(left == right)
        }
        ("let", [expression]) => parse_arithmetic_truth(expression),
        ("sleep", [time]) if !is_long_sleep(time) => Some(true),
        _ => None,
    }
}

/// Returns whether an arithmetic constant is true.
pub(super) fn parse_arithmetic_truth(expression: &str) -> Option<bool> {
    expression.trim().parse::<i64>().ok().map(|number| number != 0)
}

/// Returns whether a plain word is not empty.
fn parse_word_truth(word: &str) -> Option<bool> {
    (!word.contains(['$', '`', '*', '?'])).then(|| !word.trim_matches(['"', '\'']).is_empty())
}
