//! The terminal and the standard streams: the only place that uses stdout and stderr.
//!
//! Not here: the texts, which are in `ralph-ui`.

use std::env;
use std::io::{self, Write as _};

use ralph_ui::problem::Problem;
use ralph_ui::style::{Choice, Sink, Style, Surroundings, Timestamps, Wishes};
use ralph_ui::view::Verbosity;

use crate::cli::{ColorChoice, CommonArgs};
use crate::complaint::Complaint;
use crate::settings::types::sections::{Emoji, Ui};

/// Asks the user a yes/no question; the default, also without a terminal, is no.
pub(crate) fn ask(question: &str) -> bool {
    if !can_ask() {
        return false;
    }
    let mut stderr = io::stderr();
    if write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).is_err() {
        return false;
    }
    let mut answer = String::new();
    // A closed terminal counts as no.
    let _ = io::stdin().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Returns whether a user can be asked.
pub(crate) fn can_ask() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns whether stderr is a terminal.
pub(crate) fn is_terminal() -> bool {
    use std::io::IsTerminal as _;
    io::stderr().is_terminal()
}

/// Returns whether stdout is a terminal.
pub(crate) fn is_data_seen() -> bool {
    use std::io::IsTerminal as _;
    io::stdout().is_terminal()
}

/// Asks a question on stdout and returns the typed line; `None` at the end of input.
pub(crate) fn ask_for_line(question: &str) -> Option<String> {
    use std::io::BufRead as _;
    print_data(question);
    let mut line = Vec::new();
    // A closed terminal and an unfinished line count as end of input too.
    let _ = io::stdin().lock().read_until(b'\n', &mut line);
    let line = line.strip_suffix(b"\n")?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// Returns whether stdin is a terminal.
pub(crate) fn is_typed() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal()
}

/// How this process prints to a stream.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    pub(crate) style: Style,
    pub(crate) verbosity: Verbosity,
}

impl Screen {
    /// Returns the output style before any settings are known.
    pub(crate) fn plain(common: &CommonArgs) -> Self {
        Self::new(common, &Ui::default())
    }

    /// Returns the output style for stderr, from flags and settings.
    pub(crate) fn new(common: &CommonArgs, ui: &Ui) -> Self {
        Self::on(common, ui, sink(io::stderr()))
    }

    /// Returns the output style for stdout, from flags and settings.
    pub(crate) fn for_stdout(common: &CommonArgs, ui: &Ui) -> Self {
        Self::on(common, ui, sink(io::stdout()))
    }

    fn on(common: &CommonArgs, ui: &Ui, sink: Sink) -> Self {
        let options = Wishes {
            color: match common.color {
                ColorChoice::Auto => Choice::Auto,
                ColorChoice::Always => Choice::Always,
                ColorChoice::Never => Choice::Never,
            },
            emoji: match ui.emoji {
                Emoji::Auto => Choice::Auto,
                Emoji::Always => Choice::Always,
                Emoji::Never => Choice::Never,
            },
            timestamps: if ui.timestamps { Timestamps::Shown } else { Timestamps::Hidden },
            max_output_lines: ui.max_output_lines as usize,
            max_output_chars: ui.max_output_chars as usize,
        };
        Self {
            style: Style::choose(&options, &surroundings(sink)),
            verbosity: match (common.quiet, common.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, true) => Verbosity::Verbose,
                (false, false) => Verbosity::Normal,
            },
        }
    }

    /// Prints an error with its causes and hints.
    pub(crate) fn complain(&self, error: &Complaint) {
        let problem = Problem {
            message: error.message.clone(),
            causes: error.causes.clone(),
            hints: error.hints.clone(),
        };
        problem.print(&self.style, &mut io::stderr().lock());
    }
}

fn sink(stream: impl io::IsTerminal + std::os::fd::AsFd) -> Sink {
    if stream.is_terminal() {
        Sink::Terminal { columns: ralph_io::terminal::columns(stream) }
    } else {
        Sink::Pipe
    }
}

fn surroundings(sink: Sink) -> Surroundings {
    let variable = |name: &str| env::var(name).ok();
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| variable(name))
        .find(|value| !value.is_empty());
    Surroundings {
        sink,
        no_color: variable("NO_COLOR"),
        clicolor: variable("CLICOLOR"),
        clicolor_force: variable("CLICOLOR_FORCE"),
        term: variable("TERM"),
        locale,
    }
}

/// Prints a line on stderr, for commands without a run view.
pub(crate) fn say(line: &str) {
    // A closed stderr is no error.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints data on stdout. A closed pipe is no error.
pub(crate) fn print_data(text: &str) {
    let _ = try_printing(text);
}

/// Prints data on stdout. Fails once the reader has closed the pipe.
pub(crate) fn try_printing(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Returns how many lines the terminal behind stdout has.
pub(crate) fn rows() -> usize {
    /// The traditional height of a terminal.
    const USUAL: usize = 24;
    ralph_io::terminal::rows(io::stdout()).filter(|rows| *rows > 0).unwrap_or(USUAL)
}

/// Prints a warning on stderr.
pub(crate) fn warn(text: &str) {
    let text = ralph_ui::safe::harmless(text);
    let _ = writeln!(io::stderr().lock(), "warning: {text}");
}

/// Returns stdout, for a view that writes to it.
pub(crate) fn stdout() -> io::Stdout {
    io::stdout()
}

/// Returns stderr, for a view that writes to it.
pub(crate) fn stderr() -> io::Stderr {
    io::stderr()
}
