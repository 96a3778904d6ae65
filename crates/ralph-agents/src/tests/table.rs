//! Tables of the conformance tests: rows of text, with streams in words that all agents share.
//!
//! A row is a line with cells between `|`; a line with `#` explains the rows after it. A stream is
//! a list such as `begin; text Fine.; end Fine.`, whose words `lines.rs` spells for each agent.

use ralph_model::child::{Ending, Force, Limit};
use ralph_model::failure::FailureClass;

use super::conformance::AGENTS;
use super::recorded::{IDLE, NOW, Recorded, exit, signal};

/// What `TAG` stands for: the completion signal, which is also in the prompt.
pub(crate) const TAG: &str = "<promise>COMPLETE</promise>";

/// Returns the cells of each row; cells at the end may be left out.
pub(crate) fn read_rows<const CELLS: usize>(table: &str) -> Vec<[&str; CELLS]> {
    let lines = table.lines().map(str::trim);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" |").map(str::trim).collect();
        assert!(cells.len() <= CELLS, "too many cells: {row}");
        std::array::from_fn(|at| cells.get(at).copied().unwrap_or_default())
    })
    .collect()
}

/// Returns the agents of a cell: names, `all`, or `all but` names.
pub(crate) fn select_agents(cell: &str) -> Vec<Recorded> {
    let (is_all, names) = match cell.strip_prefix("all") {
        Some(rest) => (true, rest.trim().strip_prefix("but ").unwrap_or_default()),
        None => (false, cell),
    };
    let names: Vec<&str> = names.split_whitespace().collect();
    let is_known = |name: &&str| AGENTS.iter().any(|agent| agent.kind.name() == *name);
    assert!(names.iter().all(is_known), "an unknown agent: {cell}");
    let agents = AGENTS.into_iter();
    agents.filter(|agent| names.contains(&agent.kind.name()) != is_all).collect()
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

impl Recorded {
    /// Returns the lines of a stream in words.
    pub(crate) fn write_stream(self, words: &str) -> String {
        let items = words.split("; ").map(str::trim).filter(|item| !item.is_empty());
        let lines = items.enumerate().map(|(at, item)| self.write_item(at, item));
        lines.filter(|lines| !lines.is_empty()).collect::<Vec<String>>().join("\n")
    }

    /// Returns the lines of a word: JSON as it is, the lines of a recorded stream after `@`, or the
    /// agent's line with `%` filled in (`%1` is the first word, `%2` the rest, `#` a number).
    fn write_item(self, at: usize, item: &str) -> String {
        if item.starts_with('{') {
            return item.to_owned();
        }
        if let Some(name) = item.strip_prefix('@') {
            return self.stream(name);
        }
        let (word, text) = item.split_once(' ').unwrap_or((item, ""));
        let text = text.replace("TAG", TAG);
        let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let lines = self.lines.lines().map(str::trim_start);
        let mut found = lines.filter_map(|line| line.split_once(' ').filter(|(it, _)| *it == word));
        let Some((_, line)) = found.next() else { panic!("{:?} has no `{word}`", self.kind) };
        let line = line.trim().replace("%1", first).replace("%2", rest).replace('%', &text);
        match line.strip_prefix("= ") {
            Some(words) => self.write_stream(words),
            None if line == "-" => String::new(),
            None => line.replace('#', &at.to_string()),
        }
    }
}
