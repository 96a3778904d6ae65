//! Renders a Markdown report for a terminal: headings stand out, tables are aligned, and escapes are
//! removed.
//!
//! Knows only the Markdown that reports consist of.

use crate::sanitize;
use crate::style::{Paint, Style};
use crate::tasks::pad_to;

/// Returns a report as it is shown on a terminal.
pub fn render_for_terminal(markdown: &str, style: &Style) -> String {
    let mut text = String::new();
    let mut table: Vec<Vec<String>> = Vec::new();
    for line in markdown.lines() {
        if let Some(row) = line.strip_prefix('|') {
            table.push(split_cells(row));
            continue;
        }
        add_rows(&mut text, &mut table, style);
        let title = line.trim_start_matches('#');
        if title.len() < line.len() && title.starts_with(' ') {
            text.push_str(&style.paint(Paint::Strong, &remove_escapes(title.trim())));
        } else {
            text.push_str(&remove_escapes(line));
        }
        text.push('\n');
    }
    add_rows(&mut text, &mut table, style);
    text
}

/// Returns the cells of a row, after its first `|`.
fn split_cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for character in row.trim_end().trim_end_matches('|').chars() {
        match (character, cells.last_mut()) {
            ('|', _) if !is_escaped => cells.push(String::new()),
            (_, Some(cell)) => cell.push(character),
            (_, None) => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    cells.iter().map(|cell| remove_escapes(cell.trim())).collect()
}

/// Adds the rows of a table that has ended, with aligned columns.
fn add_rows(text: &mut String, table: &mut Vec<Vec<String>>, style: &Style) {
    table
        .retain(|row| !row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|it| it == '-')));
    let columns = table.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|at| {
            let cells = table.iter().filter_map(|row| row.get(at));
            cells.map(|cell| sanitize::count_columns(cell)).max().unwrap_or_default()
        })
        .collect();
    for (at, row) in table.drain(..).enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad_to(cell, *width));
        let line = cells.collect::<Vec<_>>().join("  ");
        let paint = if at == 0 { Paint::Strong } else { Paint::None };
        text.push_str(&format!("{}\n", style.paint(paint, line.trim_end())));
    }
}

/// Removes backslashes before punctuation, and the marks of strong text.
fn remove_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match (letter, next) {
            ('\\', Some(next)) if next.is_ascii_punctuation() => {
                plain.push(next);
                letters.next();
            }
            ('*', Some('*')) => {
                letters.next();
            }
            _ => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{StreamEnvironment, StylePreferences};

    #[test]
    fn headings_tables_and_escapes_become_plain() {
        let style =
            Style::choose_style(&StylePreferences::default(), &StreamEnvironment::default());
        let page = "# Execution summary\n\n- **T1** (a \\*b\\*): c\n\n## Gates\n\n\
                    | Gate | Runs |\n| --- | --- |\n| tests\\|all | 10 |\n| x | 9 |\nend\n";
        expect_test::expect![[r"
            Execution summary

            - T1 (a *b*): c

            Gates

            Gate       Runs
            tests|all  10
            x          9
            end
        "]]
        .assert_eq(&render_for_terminal(page, &style));
    }
}
