//! Tables of the conformance tests: rows of text, with streams in words that all agents share.
//!
//! A row is a line with cells between `|`; a line with `#` explains the rows after it. A stream is
//! a list such as `begin; text Fine.; end Fine.`, whose words each agent's suite spells.

use ralph_model::child::{Ending, Force, Limit};
use ralph_model::failure::FailureClass;

use super::conformance::SUITES;
use super::recorded::{IDLE, NOW, exit, signal};
use super::suite::AgentSuite;

/// What `TAG` stands for: the completion signal, which is also in the prompt.
pub(crate) const TAG: &str = "<promise>COMPLETE</promise>";

/// Returns the cells of each row; cells at the end may be left out.
pub(crate) fn read_rows<const CELLS: usize>(table: &str) -> Vec<[&str; CELLS]> {
    let lines = table.lines();
    let rows = lines.filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" |").map(str::trim).collect();
        assert!(cells.len() <= CELLS, "too many cells: {row}");
        std::array::from_fn(|at| cells.get(at).copied().unwrap_or_default())
    })
    .collect()
}

/// Returns the agents that a shared row is for: those that have all of its words.
pub(crate) fn select_suites(words: &str) -> Vec<&'static AgentSuite> {
    let suites = SUITES.iter().copied().filter(|suite| suite.has_words(words));
    let suites: Vec<_> = suites.collect();
    assert!(suites.len() > 1, "a misspelled word, or a row of a single agent: {words}");
    suites
}

/// Returns the ending of a cell: an exit code, a signal such as `s9`, or what ralph did.
pub(crate) fn read_ending(cell: &str) -> Ending {
    let force = Force::Terminated;
    match cell {
        "idle" => IDLE,
        "hard" => Ending::TimedOut { limit: Limit::Hard, force },
        "lingered" => Ending::Lingered { force },
        "interrupted" => Ending::Interrupted { force },
        _ => match cell.strip_prefix('s') {
            Some(number) => signal(number.parse().expect("a signal")),
            None => exit(cell.parse().expect("an exit code")),
        },
    }
}

/// Shows a class as the tables have it: `-` for success, a reset time as seconds from now.
pub(crate) fn show_class(class: Option<&FailureClass>) -> String {
    match class {
        None => "-".to_owned(),
        Some(FailureClass::RateLimited { resets_at: Some(at) }) => {
            format!("RateLimited+{}s", (at.0 - NOW.0) / 1000)
        }
        Some(FailureClass::RateLimited { resets_at: None }) => "RateLimited".to_owned(),
        Some(class) => format!("{class:?}"),
    }
}
