//! The terminal and the streams: the one place that knows what stdout and stderr are.
//!
//! Not here: what is said, which is `ralph-ui`'s.

use std::env;
use std::io::{self, Write as _};

use ralph_ui::problem::Problem;
use ralph_ui::style::{Choice, Sink, Style, Surroundings, Timestamps, Wishes};
use ralph_ui::view::Verbosity;

use crate::cli::{ColorChoice, CommonArgs};
use crate::complaint::Complaint;
use crate::settings::types::sections::{Emoji, Ui};

/// Asks the user a question whose usual answer is no. Where there is nobody, that is the answer.
pub(crate) fn ask(question: &str) -> bool {
    if !can_ask() {
        return false;
    }
    let mut stderr = io::stderr();
    if write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).is_err() {
        return false;
    }
    let mut answer = String::new();
    // A closed terminal has not said yes.
    let _ = io::stdin().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Returns whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns whether what is said on stderr is seen on a terminal.
pub(crate) fn is_terminal() -> bool {
    use std::io::IsTerminal as _;
    io::stderr().is_terminal()
}

/// Returns whether data that is printed is seen on a terminal.
pub(crate) fn is_data_seen() -> bool {
    use std::io::IsTerminal as _;
    io::stdout().is_terminal()
}

/// Asks a question on stdout, and returns the line that is typed; nothing at the end of input.
pub(crate) fn ask_for_line(question: &str) -> Option<String> {
    use std::io::BufRead as _;
    print_data(question);
    let mut line = Vec::new();
    // A terminal that is gone is the end of input too, and so is a line that never ended.
    let _ = io::stdin().lock().read_until(b'\n', &mut line);
    let line = line.strip_suffix(b"\n")?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// Returns whether somebody types at a terminal.
pub(crate) fn is_typed() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal()
}

/// How this process talks to people.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    /// How stderr looks.
    pub(crate) style: Style,
    /// How much is said.
    pub(crate) verbosity: Verbosity,
}

impl Screen {
    /// Returns the screen before any settings are known.
    pub(crate) fn plain(common: &CommonArgs) -> Self {
        Self::new(common, &Ui::default())
    }

    /// Returns the screen as flags and settings want it.
    pub(crate) fn new(common: &CommonArgs, ui: &Ui) -> Self {
        Self::on(common, ui, sink(io::stderr()))
    }

    /// Returns the same for what goes to stdout.
    pub(crate) fn for_stdout(common: &CommonArgs, ui: &Ui) -> Self {
        Self::on(common, ui, sink(io::stdout()))
    }

    fn on(common: &CommonArgs, ui: &Ui, sink: Sink) -> Self {
        let wishes = Wishes {
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
            style: Style::choose(&wishes, &surroundings(sink)),
            verbosity: match (common.quiet, common.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, true) => Verbosity::Verbose,
                (false, false) => Verbosity::Normal,
            },
        }
    }

    /// Says what is wrong and what to do about it.
    pub(crate) fn complain(&self, complaint: &Complaint) {
        let problem = Problem {
            message: complaint.message.clone(),
            causes: complaint.causes.clone(),
            hints: complaint.hints.clone(),
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

/// Says a line on stderr, where no run is under way that would say it.
pub(crate) fn say(line: &str) {
    // Who cannot hear it is told elsewhere.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints data on stdout. A reader that has gone away is no error.
pub(crate) fn print_data(text: &str) {
    let _ = try_printing(text);
}

/// Prints data on stdout, for those who go on only as long as somebody reads it.
pub(crate) fn try_printing(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Returns how many lines the terminal behind stdout has.
pub(crate) fn rows() -> usize {
    /// As terminals have always been.
    const USUAL: usize = 24;
    ralph_io::terminal::rows(io::stdout()).filter(|rows| *rows > 0).unwrap_or(USUAL)
}

/// Warns on stderr.
pub(crate) fn warn(text: &str) {
    let text = ralph_ui::safe::harmless(text);
    let _ = writeln!(io::stderr().lock(), "warning: {text}");
}

/// Returns stdout for a view of its own.
pub(crate) fn stdout() -> io::Stdout {
    io::stdout()
}

/// Returns stderr for a view of its own.
pub(crate) fn stderr() -> io::Stderr {
    io::stderr()
}
