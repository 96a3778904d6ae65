//! How things look: colors, marks, widths, and the rules that choose them.
//!
//! The choice is a pure function of the user's preferences and the environment. Not here: reading
//! the environment or the terminal, which the binary does.

use anstyle::{AnsiColor, Effects};

/// How a view looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    pub color: Color,
    pub marks: Marks,
    /// Whether lines may be rewritten in place: not in a pipe, a file or a dumb terminal.
    pub rewrites: bool,
    /// Whether lines begin with the time, as `[HH:MM:SS]`.
    pub timestamps: bool,
    /// How many lines of a tool's output are shown.
    pub max_output_lines: usize,
    /// How many characters of a tool's output are shown.
    pub max_output_chars: usize,
    /// Columns at which ralph wraps its own lines.
    pub width: usize,
}

/// Whether color codes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// No escape codes at all.
    Plain,
    /// The named ANSI colors, which follow the user's theme.
    Ansi,
}

/// How marks are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Emoji and other Unicode symbols.
    Emoji,
    /// ASCII only.
    Text,
}

/// An option with the values auto, always and never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StyleChoice {
    /// Depends on the environment.
    #[default]
    Auto,
    Always,
    Never,
}

/// The user's preferences: `--color` and the `ui` settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StylePreferences {
    pub color: StyleChoice,
    pub emoji: StyleChoice,
    pub timestamps: bool,
    /// How many lines of a tool's output are shown.
    pub max_output_lines: usize,
    /// How many characters of a tool's output are shown.
    pub max_output_chars: usize,
}

impl Default for StylePreferences {
    fn default() -> Self {
        Self {
            color: StyleChoice::Auto,
            emoji: StyleChoice::Auto,
            timestamps: false,
            max_output_lines: 3,
            max_output_chars: 400,
        }
    }
}

/// The environment of the stream that a view writes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamEnvironment {
    pub sink: Sink,
    pub no_color: Option<String>,
    pub clicolor: Option<String>,
    pub clicolor_force: Option<String>,
    pub term: Option<String>,
    /// The first of `LC_ALL`, `LC_CTYPE` and `LANG` that is not empty.
    pub locale: Option<String>,
}

/// Where a stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sink {
    Terminal {
        /// The width, if known.
        columns: Option<usize>,
    },
    /// A pipe or a file.
    #[default]
    Pipe,
}

/// Used where the width of the terminal is unknown.
const USUAL_WIDTH: usize = 80;
/// Longer lines are hard to read, however wide the screen is.
const GREATEST_WIDTH: usize = 100;
/// Below this, wrapping only makes things worse.
const LEAST_WIDTH: usize = 30;

impl Style {
    /// Chooses the style from preferences and environment.
    pub fn choose_style(preferences: &StylePreferences, around: &StreamEnvironment) -> Self {
        let is_dumb = around.term.as_deref().is_none_or(|term| term.is_empty() || term == "dumb");
        let (ability, columns) = match around.sink {
            Sink::Terminal { columns } if !is_dumb => (Color::Ansi, columns),
            Sink::Terminal { columns } => (Color::Plain, columns),
            Sink::Pipe => (Color::Plain, None),
        };
        // A terminal that does not know its width reports 0.
        let columns = columns.filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH);
        Self {
            color: choose_color(preferences.color, around, ability),
            marks: choose_marks(preferences.emoji, around),
            // A temporary line that wraps cannot be erased.
            rewrites: ability == Color::Ansi && columns >= LEAST_WIDTH,
            timestamps: preferences.timestamps,
            max_output_lines: preferences.max_output_lines,
            max_output_chars: preferences.max_output_chars,
            width: columns.clamp(LEAST_WIDTH, GREATEST_WIDTH),
        }
    }

    /// Returns this style for a log file: the same text, no escape codes, ASCII marks that are easy
    /// to search for, and the time on each line.
    #[must_use]
    pub fn for_log(&self) -> Self {
        Self {
            color: Color::Plain,
            marks: Marks::Text,
            rewrites: false,
            timestamps: true,
            width: USUAL_WIDTH,
            ..self.clone()
        }
    }

    /// Returns the text in a color, or unchanged if colors are off.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        match (self.color, paint) {
            (Color::Plain, _) | (Color::Ansi, Paint::None) => text.to_owned(),
            (Color::Ansi, _) if text.is_empty() => String::new(),
            (Color::Ansi, _) => {
                let style = paint.to_ansi();
                format!("{style}{text}{style:#}")
            }
        }
    }

    /// Returns how a mark is drawn.
    pub(crate) fn format_mark(&self, mark: LineMark) -> &'static str {
        let (emoji, text) = mark.forms();
        match self.marks {
            Marks::Emoji => emoji,
            Marks::Text => text,
        }
    }

    /// Returns how a mark is drawn, in its color.
    pub(crate) fn paint_mark(&self, mark: LineMark) -> String {
        self.paint(mark.color(), self.format_mark(mark))
    }
}

/// `NO_COLOR` wins over `CLICOLOR_FORCE`, because it may be an accessibility need.
fn choose_color(choice: StyleChoice, around: &StreamEnvironment, ability: Color) -> Color {
    let is_set = |value: &Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
    let is_on = |value: &Option<String>| is_set(value) && value.as_deref() != Some("0");
    match choice {
        StyleChoice::Always => Color::Ansi,
        StyleChoice::Never => Color::Plain,
        StyleChoice::Auto if is_set(&around.no_color) => Color::Plain,
        StyleChoice::Auto if is_on(&around.clicolor_force) => Color::Ansi,
        StyleChoice::Auto if around.clicolor.as_deref() == Some("0") => Color::Plain,
        StyleChoice::Auto => ability,
    }
}

/// The Linux console supports UTF-8 but has no emoji.
fn choose_marks(choice: StyleChoice, around: &StreamEnvironment) -> Marks {
    let locale = around.locale.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
    let has_no_emoji = matches!(around.term.as_deref(), Some("dumb" | "linux"));
    match choice {
        StyleChoice::Always => Marks::Emoji,
        StyleChoice::Auto if is_utf8 && !has_no_emoji => Marks::Emoji,
        StyleChoice::Never | StyleChoice::Auto => Marks::Text,
    }
}

/// What a color is for. Black and white are not used: each is invisible on some themes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// The terminal's own color.
    None,
    Dim,
    Strong,
    Good,
    Bad,
    Warn,
    /// An action of the agent.
    Act,
}

impl Paint {
    fn to_ansi(self) -> anstyle::Style {
        let style = anstyle::Style::new();
        match self {
            Self::None => style,
            Self::Dim => style.effects(Effects::DIMMED),
            Self::Strong => style.bold(),
            Self::Good => style.fg_color(Some(AnsiColor::Green.into())),
            Self::Bad => style.fg_color(Some(AnsiColor::Red.into())),
            Self::Warn => style.fg_color(Some(AnsiColor::Yellow.into())),
            Self::Act => style.fg_color(Some(AnsiColor::Cyan.into())),
        }
    }
}

/// The symbols that lines begin with or contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineMark {
    Tool,
    /// A tool call or a run that went well.
    Ok,
    /// A tool call or a run that failed.
    Error,
    /// Arrow from a result to its call.
    From,
    /// Before the output of a tool.
    Output,
    /// Something was cut.
    More,
    Todo,
    /// An entry that is done.
    TodoDone,
    /// An entry that is being worked on.
    TodoActive,
    /// An entry that is not begun.
    TodoPending,
    /// A task that is done. All marks of tasks are one column wide, because they are in a table.
    TaskDone,
    /// A task that is being worked on.
    TaskActive,
    /// A task that is not begun.
    TaskPending,
    TaskFailed,
    TaskSkipped,
    /// Progress of a to-do list.
    Progress,
    Notice,
    Thought,
    /// A file was changed.
    File,
    /// A run begins.
    Run,
    /// Something is running.
    Busy,
    /// The run waits for a usage limit.
    Limit,
    /// A gate or a step that went well.
    Pass,
    /// A gate or a step that failed.
    Fail,
    Warn,
    /// Something is tried again.
    Again,
    /// The tree was rolled back.
    Back,
    /// The iteration passed, but the work is not complete.
    Step,
    /// A review wants changes.
    Rework,
    /// Something is not installed, and not needed.
    Absent,
}

impl LineMark {
    fn forms(self) -> (&'static str, &'static str) {
        match self {
            Self::Tool => ("⏺", "*"),
            Self::Ok => ("✅", "[OK]"),
            Self::Error => ("❌", "[ERR]"),
            Self::From => ("←", "<-"),
            Self::Output => ("⎿", "|"),
            Self::More => ("…", "..."),
            Self::Todo => ("📋", "[LIST]"),
            Self::TodoDone => ("✅", "[x]"),
            Self::TodoActive => ("🔄", "[>]"),
            Self::TodoPending => ("⏸️", "[ ]"),
            Self::TaskDone => ("✔", "[x]"),
            Self::TaskActive => ("●", "[>]"),
            Self::TaskPending => ("○", "[ ]"),
            Self::TaskFailed => ("✘", "[!]"),
            Self::TaskSkipped => ("–", "[-]"),
            Self::Progress => ("📊", "[%]"),
            Self::Notice => ("💬", "[i]"),
            Self::Thought => ("💭", "[~]"),
            Self::File => ("📝", "[+]"),
            Self::Run => ("▶", ">"),
            Self::Busy | Self::Limit => ("⏳", "[..]"),
            Self::Pass => ("✔", "[OK]"),
            Self::Fail => ("✘", "[ERR]"),
            Self::Warn => ("⚠", "[WARN]"),
            Self::Again => ("↻", "[..]"),
            Self::Back => ("↩", "[<]"),
            Self::Step | Self::Rework | Self::Absent => ("●", "[--]"),
        }
    }

    /// Returns the color of the mark at the beginning of a line.
    fn color(self) -> Paint {
        match self {
            Self::Ok | Self::Pass | Self::TodoDone => Paint::Good,
            Self::Error | Self::Fail => Paint::Bad,
            Self::Warn | Self::Again | Self::Back | Self::Limit | Self::Rework => Paint::Warn,
            Self::Tool | Self::TodoActive | Self::Run | Self::Step => Paint::Act,
            Self::Busy | Self::Absent => Paint::Dim,
            _ => Paint::None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A terminal with color, emoji and UTF-8.
    pub(crate) fn terminal() -> StreamEnvironment {
        StreamEnvironment {
            sink: Sink::Terminal { columns: Some(80) },
            term: Some("xterm-256color".into()),
            locale: Some("en_US.UTF-8".into()),
            ..StreamEnvironment::default()
        }
    }

    pub(crate) fn pipe() -> StreamEnvironment {
        StreamEnvironment { sink: Sink::Pipe, ..terminal() }
    }

    #[test]
    fn color_follows_flag_then_variables_then_terminal() {
        use Color::{Ansi, Plain};
        use StyleChoice::{Always, Auto, Never};
        let text = |value: &str| Some(value.to_owned());
        let dumb = StreamEnvironment { term: text("dumb"), ..terminal() };
        let no_color = StreamEnvironment { no_color: text("1"), ..terminal() };
        let both = StreamEnvironment { clicolor_force: text("1"), ..no_color.clone() };
        let table = [
            ("terminal", Auto, terminal(), Ansi),
            ("pipe", Auto, pipe(), Plain),
            ("dumb", Auto, dumb.clone(), Plain),
            ("no TERM", Auto, StreamEnvironment { term: None, ..terminal() }, Plain),
            ("NO_COLOR=1", Auto, no_color.clone(), Plain),
            ("NO_COLOR=", Auto, StreamEnvironment { no_color: text(""), ..terminal() }, Ansi),
            ("CLICOLOR=0", Auto, StreamEnvironment { clicolor: text("0"), ..terminal() }, Plain),
            ("CLICOLOR=1 pipe", Auto, StreamEnvironment { clicolor: text("1"), ..pipe() }, Plain),
            ("FORCE pipe", Auto, StreamEnvironment { clicolor_force: text("1"), ..pipe() }, Ansi),
            (
                "FORCE=0 pipe",
                Auto,
                StreamEnvironment { clicolor_force: text("0"), ..pipe() },
                Plain,
            ),
            ("FORCE dumb", Auto, StreamEnvironment { clicolor_force: text("1"), ..dumb }, Ansi),
            ("NO_COLOR and FORCE", Auto, both, Plain),
            ("--color always", Always, no_color, Ansi),
            ("--color never", Never, terminal(), Plain),
        ];
        for (name, color, around, expect) in table {
            let style = Style::choose_style(
                &StylePreferences { color, ..StylePreferences::default() },
                &around,
            );
            assert_eq!(style.color, expect, "{name}");
        }
    }

    #[test]
    fn emoji_need_a_locale_and_a_terminal_that_have_them() {
        use StyleChoice::{Always, Auto, Never};
        let around = |locale: Option<&str>, term: &str| StreamEnvironment {
            locale: locale.map(str::to_owned),
            term: Some(term.into()),
            ..terminal()
        };
        for (emoji, locale, term, expect) in [
            (Auto, Some("de_DE.utf8"), "xterm", Marks::Emoji),
            (Auto, Some("C.UTF-8"), "screen", Marks::Emoji),
            (Auto, Some("C"), "xterm", Marks::Text),
            (Auto, None, "xterm", Marks::Text),
            (Auto, Some("en_US.UTF-8"), "linux", Marks::Text),
            (Auto, Some("en_US.UTF-8"), "dumb", Marks::Text),
            (Always, None, "dumb", Marks::Emoji),
            (Never, Some("en_US.UTF-8"), "xterm", Marks::Text),
        ] {
            let preferences = StylePreferences { emoji, ..StylePreferences::default() };
            let style = Style::choose_style(&preferences, &around(locale, term));
            assert_eq!(style.marks, expect, "{emoji:?} {locale:?} {term}");
        }
    }

    #[test]
    fn only_a_capable_terminal_is_rewritten_and_widths_stay_readable() {
        let wide = |columns| StreamEnvironment { sink: Sink::Terminal { columns }, ..terminal() };
        let dumb = StreamEnvironment { term: Some("dumb".into()), ..wide(Some(80)) };
        for (around, expect) in [
            (wide(Some(80)), (true, 80)),
            (wide(Some(400)), (true, 100)),
            (wide(Some(20)), (false, 30)),
            (wide(Some(0)), (true, 80)),
            (wide(None), (true, 80)),
            (dumb, (false, 80)),
            (pipe(), (false, 80)),
        ] {
            let style = Style::choose_style(&StylePreferences::default(), &around);
            assert_eq!((style.rewrites, style.width), expect, "{around:?}");
        }
    }

    #[test]
    fn text_marks_are_ascii() {
        let style = Style::choose_style(&StylePreferences::default(), &terminal()).for_log();
        for mark in [
            LineMark::Tool,
            LineMark::From,
            LineMark::Output,
            LineMark::More,
            LineMark::Back,
            LineMark::Todo,
        ] {
            assert!(style.format_mark(mark).is_ascii());
        }
    }
}
