//! Converts the color codes of the streaming view into styles of the screen.
//!
//! The screen shows the lines of the streaming view, so it must parse the few codes in them. Not
//! here: other escape sequences, which these lines never contain.

use ratatui_core::style::{Color as Ink, Modifier, Style as CellStyle};

use crate::style::{Color, Paint};

/// Returns the style of a cell.
pub(crate) fn to_cell_style(color: Color, paint: Paint) -> CellStyle {
    let style = CellStyle::new();
    let inked = |ink| match color {
        Color::Ansi => style.fg(ink),
        Color::Plain => style,
    };
    match paint {
        Paint::None => style,
        Paint::Dim => style.add_modifier(Modifier::DIM),
        Paint::Strong => style.add_modifier(Modifier::BOLD),
        Paint::Good => inked(Ink::Green),
        Paint::Bad => inked(Ink::Red),
        Paint::Warn => inked(Ink::Yellow),
        Paint::Act => inked(Ink::Cyan),
    }
}

/// Splits a piece of a line into spans of one color. Starts with the color in `paint`, and stores
/// the last color there for the next piece.
pub(crate) fn split_spans(piece: &str, paint: &mut Paint) -> Vec<(Paint, String)> {
    let mut spans: Vec<(Paint, String)> = Vec::new();
    let mut parts = piece.split('\u{1b}');
    let mut add = |paint: Paint, text: &str| {
        if text.is_empty() {
            return;
        }
        match spans.last_mut() {
            Some((last, sum)) if *last == paint => sum.push_str(text),
            Some(_) | None => spans.push((paint, text.to_owned())),
        }
    };
    add(*paint, parts.next().unwrap_or_default());
    for part in parts {
        let code = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        match code.and_then(|(code, rest)| Some((parse_paint(code)?, rest))) {
            Some((new, rest)) => {
                *paint = new;
                add(new, rest);
            }
            None => add(*paint, part),
        }
    }
    spans
}

fn parse_paint(code: &str) -> Option<Paint> {
    Some(match code {
        "0" => Paint::None,
        "1" => Paint::Strong,
        "2" => Paint::Dim,
        "31" => Paint::Bad,
        "32" => Paint::Good,
        "33" => Paint::Warn,
        "36" => Paint::Act,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::tests::terminal;
    use crate::style::{Style, StylePreferences};

    #[test]
    fn every_color_is_parsed_back() {
        let style = Style::choose_style(&StylePreferences::default(), &terminal());
        let all = [
            Paint::None,
            Paint::Dim,
            Paint::Strong,
            Paint::Good,
            Paint::Bad,
            Paint::Warn,
            Paint::Act,
        ];
        for paint in all {
            let line = format!("a{}b", style.paint(paint, "x"));
            let expect: Vec<(Paint, String)> = if paint == Paint::None {
                vec![(Paint::None, "axb".into())]
            } else {
                [(Paint::None, "a"), (paint, "x"), (Paint::None, "b")]
                    .map(|(paint, text)| (paint, text.to_owned()))
                    .to_vec()
            };
            assert_eq!(split_spans(&line, &mut Paint::None.clone()), expect, "{paint:?}");
        }
        let mut paint = Paint::None;
        assert_eq!(split_spans("\u{1b}[31mred", &mut paint), [(Paint::Bad, "red".to_owned())]);
        assert_eq!(split_spans("on\u{1b}[0m", &mut paint), [(Paint::Bad, "on".to_owned())]);
        assert_eq!(split_spans("\u{1b}[2Jx", &mut paint), [(Paint::None, "[2Jx".to_owned())]);
    }
}
