//! Escapes foreign text for a Markdown page: one line, sanitized, without Markdown syntax.

use crate::sanitize;

/// More than any title or error line needs.
const LONGEST: usize = 400;

/// Returns a text with its Markdown escaped.
///
/// The text never begins a line, so headings and list markers need no escaping; only what is
/// syntax in the middle of a line does.
pub(super) fn escape_markdown(text: &str) -> String {
    let line = sanitize::sanitize_line(text, LONGEST, "…");
    let letters: Vec<char> = line.chars().collect();
    let mut escaped = String::with_capacity(line.len());
    for (at, character) in letters.iter().enumerate() {
        let is_inside_word = || {
            let is_letter = |it: Option<&char>| it.is_some_and(|it| it.is_alphanumeric());
            is_letter(at.checked_sub(1).and_then(|at| letters.get(at)))
                && is_letter(letters.get(at + 1))
        };
        let means = match character {
            '\\' | '`' | '*' | '<' | '|' => true,
            // Brackets alone make no link, because the page defines no link references.
            ']' => matches!(letters.get(at + 1), Some('(' | '[')),
            '~' => letters.get(at + 1) == Some(&'~'),
            // `snake_case` is no emphasis in Markdown, and stays readable.
            '_' => !is_inside_word(),
            '&' => letters.get(at + 1).is_some_and(|it| it.is_alphanumeric() || *it == '#'),
            _ => false,
        };
        if means {
            escaped.push('\\');
        }
        escaped.push(*character);
    }
    escaped
}

/// Returns a text as inline code. Escapes `|`, which would end a table cell.
pub(super) fn format_code(text: &str) -> String {
    let line = sanitize::sanitize_line(text, LONGEST, "…").replace('|', "\\|");
    let (mut longest, mut run) = (0, 0);
    for character in line.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    let gap = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    if line.is_empty() { String::new() } else { format!("{fence}{gap}{line}{gap}{fence}") }
}

/// Adds a table. The names of its columns are separated by `|`; cells must be escaped already.
pub(super) fn add_table(page: &mut String, head: &str, rows: &[Vec<String>]) {
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        page.push('|');
        for cell in cells {
            page.push_str(&format!(" {cell} |"));
        }
        page.push('\n');
    };
    line(&mut head.split('|'));
    line(&mut head.split('|').map(|_| "---"));
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
}
