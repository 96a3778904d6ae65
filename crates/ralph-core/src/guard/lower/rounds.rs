//! Loops: how often they go round, and whether anything holds them up on the way.
//!
//! Only what the text itself says counts: `while [ 1 ]` is without an end, `while [ "$x" ]` may
//! have one. Not here: the lists that a `for` goes through, which are walked round by round.

use brush_parser::ast::{self, AndOr, CompoundCommand, CompoundList, ExtendedTestExpr};

use super::command::{Command, Copies, Setting};
use super::walk::Walker;
use super::word::Word;

/// How often a loop goes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounds {
    /// As often as there is something.
    Bounded,
    /// Until it is ended.
    Endless,
}

/// A loop that sleeps for less than this, in seconds, is as good as one that does not.
const SHORTEST_SLEEP: f64 = 0.5;

impl Walker {
    /// Walks the body of a loop. A loop that waits for something, or that can be left, is not
    /// taken for one without an end: it starts no more than somebody would by hand.
    pub(super) fn in_loop(&mut self, rounds: Rounds, walk: impl FnOnce(&mut Self)) {
        let from = self.commands.len();
        let around = self.setting;
        self.conditions += 1;
        walk(self);
        self.conditions -= 1;
        let within = self.commands.get_mut(from..).unwrap_or_default();
        let is_held_up = within.iter().any(|command| holds_up(command, around));
        if rounds == Rounds::Endless && !is_held_up {
            for command in within {
                command.setting.copies = Copies::Endless;
            }
        }
    }
}

/// Returns whether a command of a loop's body makes the loop wait, or leaves it.
fn holds_up(command: &Command, around: Setting) -> bool {
    if command.setting.background && !around.background {
        return false;
    }
    match command.name() {
        "wait" | "read" | "break" | "exit" | "return" | "inotifywait" | "flock" => true,
        "sleep" => is_long(command.arguments().first().map(Word::raw).unwrap_or_default()),
        _ => false,
    }
}

/// Returns whether a time that `sleep` is given holds anything up. A unit such as `m` does.
fn is_long(time: &str) -> bool {
    let seconds = time.trim_end_matches('s').parse::<f64>();
    seconds.map_or(true, |seconds| seconds >= SHORTEST_SLEEP)
}

/// Returns whether a condition is always true or always false, by its text and the commands that
/// it came to.
pub(super) fn constant(condition: &CompoundList, commands: &[Command]) -> Option<bool> {
    let ast::CompoundListItem(list, _) = condition.0.last()?;
    let pipeline = match list.additional.last() {
        None => &list.first,
        // `x || true` always is; `x && true` is not.
        Some(AndOr::Or(pipeline)) => pipeline,
        Some(AndOr::And(_)) => return None,
    };
    let [command] = pipeline.seq.as_slice() else { return None };
    let truth = match command {
        ast::Command::Simple(_) => said(commands.last()?)?,
        ast::Command::Compound(CompoundCommand::Arithmetic(arithmetic), _) => {
            number(&arithmetic.expr.value)?
        }
        ast::Command::ExtendedTest(test, _) => match &test.expr {
            ExtendedTestExpr::UnaryTest(ast::UnaryPredicate::StringHasNonZeroLength, word) => {
                plain(&word.value)?
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

/// Returns what a command says that always says the same.
fn said(command: &Command) -> Option<bool> {
    let words: Vec<&str> = command.arguments().iter().filter_map(Word::known).collect();
    if words.len() != command.arguments().len() {
        return None;
    }
    // The name of `[` is a mark, as it stands for other names elsewhere.
    let name = command.argv.first().map(ToString::to_string).unwrap_or_default();
    match (name.rsplit('/').next().unwrap_or_default(), words.as_slice()) {
        ("true" | ":", _) => Some(true),
        ("false", _) => Some(false),
        ("[", [word, "]"]) | ("test", [word]) => Some(!word.is_empty()),
        ("[", [left, "=" | "==" | "-eq", right, "]"]) | ("test", [left, "=" | "-eq", right]) => {
            Some(left == right)
        }
        ("let", [expression]) => number(expression),
        ("sleep", [time]) if !is_long(time) => Some(true),
        _ => None,
    }
}

/// Returns whether a number is true, as arithmetic has it.
pub(super) fn number(expression: &str) -> Option<bool> {
    expression.trim().parse::<i64>().ok().map(|number| number != 0)
}

/// Returns whether a word of plain letters is anything.
fn plain(word: &str) -> Option<bool> {
    (!word.contains(['$', '`', '*', '?'])).then(|| !word.trim_matches(['"', '\'']).is_empty())
}
