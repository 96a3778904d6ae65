//! Redraws a text repeatedly: in place on a terminal, otherwise only when it changed.
//!
//! Not here: the text itself.

use crate::sanitize;

/// Remembers the text drawn last.
#[derive(Debug, Default)]
pub struct LiveRegion {
    lines: usize,
    last: String,
}

impl LiveRegion {
    /// Returns the output that replaces the last text with this one. Cuts what does not fit the
    /// terminal: a line that wraps, or that has left the screen, cannot be erased.
    pub fn draw_text(&mut self, text: &str, columns: usize, rows: usize) -> String {
        let back = match self.lines {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        };
        let mut drawn = back;
        self.lines = 0;
        for line in text.lines().take(rows.saturating_sub(1)) {
            // Cutting a line may remove its color reset.
            drawn.push_str(&format!("{}\u{1b}[0m\n", cut_to_columns(line, columns)));
            self.lines += 1;
        }
        drawn
    }

    /// Returns the text if it differs from the last one, else an empty string.
    pub fn take_if_changed<'a>(&mut self, text: &'a str) -> &'a str {
        if self.last == text {
            return "";
        }
        text.clone_into(&mut self.last);
        text
    }
}

/// Returns as much of a line as fits; color codes take no columns.
fn cut_to_columns(line: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut is_code = false;
    for (at, character) in line.char_indices() {
        match (is_code, character) {
            (false, '\u{1b}') => is_code = true,
            (true, character) => is_code = !character.is_ascii_alphabetic(),
            (false, character) => {
                used += sanitize::count_columns(character.encode_utf8(&mut [0; 4]));
                if used > columns {
                    return &line[..at];
                }
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_over_the_one_before() {
        let mut canvas = LiveRegion::default();
        assert_eq!(canvas.draw_text("one\ntwo\nthree\n", 9, 3), "one\u{1b}[0m\ntwo\u{1b}[0m\n");
        assert_eq!(
            canvas.draw_text("\u{1b}[32m日本語\u{1b}[0m", 5, 9),
            "\u{1b}[2A\r\u{1b}[J\u{1b}[32m日本\u{1b}[0m\n"
        );
        assert_eq!(
            (canvas.take_if_changed("x"), canvas.take_if_changed("x"), canvas.take_if_changed("y")),
            ("x", "", "y")
        );
    }
}
