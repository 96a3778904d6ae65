//! Shows the pages of `ralph help` on a terminal: headings in bold, code indented, links as text.
//!
//! The pages are Markdown with hard line breaks. Not here: their text.

use crate::style::{Paint, Style};

/// Returns a Markdown page formatted for a terminal.
pub fn format_page(page: &str, style: &Style) -> String {
    let mut shown = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            shown.push_str(format!("    {line}").trim_end());
            shown.push('\n');
        } else if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim();
            shown.push_str(&format!("{}\n", style.paint(Paint::Strong, heading)));
        } else {
            shown.push_str(&format!("{}\n", strip_links(line)));
        }
    }
    shown
}

/// Returns a line with each `[text](target)` replaced by its text.
fn strip_links(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let found = after.split_once("](").and_then(|(label, after)| {
            let (_, after) = after.split_once(')')?;
            Some((label, after)).filter(|(label, _)| !label.contains('['))
        });
        text.push_str(before);
        rest = if let Some((label, after)) = found {
            text.push_str(label);
            after
        } else {
            text.push('[');
            after
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_text() {
        for (line, expect) in [
            ("See [gates](../gates.md) and [runs](run.md).", "See gates and runs."),
            ("`gates: []` or [y/N] (yes)", "`gates: []` or [y/N] (yes)"),
            ("[a [b](c)", "[a b"),
            ("", ""),
        ] {
            assert_eq!(strip_links(line), expect, "{line}");
        }
    }
}
