//! Pages of a guide on a terminal: headings stand out, code stands in, links are their words.
//!
//! The pages are Markdown that reads well as it is, broken into lines by hand. Not here: their
//! words.

use crate::style::{Paint, Style};

/// Returns a page as a terminal shows it.
pub fn shown(page: &str, style: &Style) -> String {
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
            shown.push_str(&format!("{}\n", without_links(line)));
        }
    }
    shown
}

/// Returns a line with `[words](target)` as the words.
fn without_links(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let found = after.split_once("](").and_then(|(words, after)| {
            let (_, after) = after.split_once(')')?;
            Some((words, after)).filter(|(words, _)| !words.contains('['))
        });
        text.push_str(before);
        rest = if let Some((words, after)) = found {
            text.push_str(words);
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
    fn links_become_words() {
        for (line, expect) in [
            ("See [gates](../gates.md) and [runs](run.md).", "See gates and runs."),
            ("`gates: []` or [y/N] (yes)", "`gates: []` or [y/N] (yes)"),
            ("[a [b](c)", "[a b"),
            ("", ""),
        ] {
            assert_eq!(without_links(line), expect, "{line}");
        }
    }
}
