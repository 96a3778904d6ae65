//! The terminal and the standard streams: the only place that uses stdout and stderr.
//!
//! Not here: the texts, which are in `ralph-ui`.

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use ralph_io::terminal::is_redirected_to;
use ralph_ui::error_report::ErrorReport;
use ralph_ui::sanitize::sanitize_text;
use ralph_ui::style::{Sink, StreamEnvironment, Style, StyleChoice, StylePreferences};
use ralph_ui::view::Verbosity;

use crate::cli::{ColorChoice, CommonArgs};
use crate::cli_error::CliError;
use crate::settings::types::sections::{EmojiSetting, UiSettings};

/// Asks the user a yes/no question; the default, also without a terminal, is no.
pub(crate) fn ask_yes_no(question: &str) -> bool {
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
pub(crate) fn is_stderr_terminal() -> bool {
    use std::io::IsTerminal as _;
    io::stderr().is_terminal()
}

/// Returns whether stdout is a terminal.
pub(crate) fn is_stdout_terminal() -> bool {
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
pub(crate) fn is_stdin_terminal() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal()
}

/// How this process prints to a stream.
#[derive(Debug, Clone)]
pub(crate) struct OutputStyle {
    pub(crate) style: Style,
    pub(crate) verbosity: Verbosity,
}

impl OutputStyle {
    /// Returns the output style before any settings are known.
    pub(crate) fn without_settings(common: &CommonArgs) -> Self {
        Self::for_stderr(common, &UiSettings::default())
    }

    /// Returns the output style for stderr, from flags and settings.
    pub(crate) fn for_stderr(common: &CommonArgs, ui: &UiSettings) -> Self {
        Self::for_sink(common, ui, detect_sink(io::stderr()))
    }

    /// Returns the output style for stdout, from flags and settings.
    pub(crate) fn for_stdout(common: &CommonArgs, ui: &UiSettings) -> Self {
        Self::for_sink(common, ui, detect_sink(io::stdout()))
    }

    fn for_sink(common: &CommonArgs, ui: &UiSettings, sink: Sink) -> Self {
        let options = StylePreferences {
            color: match common.color {
                ColorChoice::Auto => StyleChoice::Auto,
                ColorChoice::Always => StyleChoice::Always,
                ColorChoice::Never => StyleChoice::Never,
            },
            emoji: match ui.emoji {
                EmojiSetting::Auto => StyleChoice::Auto,
                EmojiSetting::Always => StyleChoice::Always,
                EmojiSetting::Never => StyleChoice::Never,
            },
            timestamps: ui.timestamps,
            max_output_lines: ui.max_output_lines as usize,
            max_output_chars: ui.max_output_chars as usize,
        };
        Self {
            style: Style::choose_style(&options, &read_style_environment(sink)),
            verbosity: match (common.quiet, common.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, true) => Verbosity::Verbose,
                (false, false) => Verbosity::Normal,
            },
        }
    }

    /// Prints an error with its causes and hints.
    pub(crate) fn print_error(&self, error: &CliError) {
        let problem = ErrorReport {
            message: error.message.clone(),
            causes: error.causes.clone(),
            hints: error.hints.clone(),
        };
        problem.print(&self.style, &mut io::stderr().lock());
    }
}

fn detect_sink(stream: impl io::IsTerminal + std::os::fd::AsFd) -> Sink {
    if stream.is_terminal() {
        Sink::Terminal { columns: ralph_io::terminal::count_columns(stream) }
    } else {
        Sink::Pipe
    }
}

fn read_style_environment(sink: Sink) -> StreamEnvironment {
    let variable = |name: &str| env::var(name).ok();
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| variable(name))
        .find(|value| !value.is_empty());
    StreamEnvironment {
        sink,
        no_color: variable("NO_COLOR"),
        clicolor: variable("CLICOLOR"),
        clicolor_force: variable("CLICOLOR_FORCE"),
        term: variable("TERM"),
        locale,
    }
}

/// Prints a line on stderr, for commands without a run view.
pub(crate) fn print_line(line: &str) {
    // A closed stderr is no error.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The first error of stdout that a user has to know of.
static STDOUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Prints data on stdout. A closed pipe is no error; other errors make the command fail at its end.
pub(crate) fn print_data(text: &str) {
    let _ = try_print_data(text);
}

/// Returns the first error of stdout, such as a full disk, if data that the command printed is lost.
pub(crate) fn find_stdout_error() -> Option<&'static io::Error> {
    STDOUT_ERROR.get()
}

/// Remembers an error of stdout. A closed pipe is none: its reader has seen what it wanted.
pub(crate) fn record_stdout_error(error: &io::Error) {
    // An interrupted write is tried again.
    if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted) {
        let copy =
            error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        let _ = STDOUT_ERROR.set(copy);
    }
}

/// Stdout for data; it remembers errors for the end of the command.
#[derive(Debug)]
pub(crate) struct DataOutput(io::Stdout);

impl Write for DataOutput {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.write(piece).inspect_err(record_stdout_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(record_stdout_error)
    }
}

/// Prints text that others wrote, such as a prompt, on stdout; on a terminal without its control
/// sequences.
pub(crate) fn print_foreign_text(text: &str) {
    if is_stdout_terminal() {
        print_data(&sanitize_text(text));
    } else {
        print_data(text);
    }
}

/// Prints data on stdout. Fails once the reader has closed the pipe.
pub(crate) fn try_print_data(text: &str) -> io::Result<()> {
    let mut out = open_data_output();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Prints a line on stdout for the program that started ralph; work continues without a reader.
pub(crate) fn print_event(line: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Returns how many lines the terminal behind stdout has.
pub(crate) fn count_terminal_rows() -> usize {
    /// The traditional height of a terminal.
    const USUAL: usize = 24;
    ralph_io::terminal::count_rows(io::stdout()).filter(|rows| *rows > 0).unwrap_or(USUAL)
}

/// Returns how many columns the terminal behind stderr has now.
pub(crate) fn count_terminal_columns() -> Option<usize> {
    ralph_io::terminal::count_columns(io::stderr()).filter(|columns| *columns > 0)
}

/// Prints a warning on stderr.
pub(crate) fn print_warning(text: &str) {
    let text = ralph_ui::sanitize::sanitize_text(text);
    let _ = writeln!(io::stderr().lock(), "warning: {text}");
}

/// Returns whether stdout or stderr of this process is redirected to a file.
pub(crate) fn is_output_file(path: &Path) -> bool {
    is_redirected_to(io::stdout(), path) || is_redirected_to(io::stderr(), path)
}

/// Returns stdout, for a view that writes to it.
pub(crate) fn open_stdout() -> io::Stdout {
    io::stdout()
}

/// Returns stdout, for data that is not printed in one piece.
pub(crate) fn open_data_output() -> DataOutput {
    DataOutput(io::stdout())
}

/// Returns stderr, for a view that writes to it.
pub(crate) fn open_stderr() -> io::Stderr {
    io::stderr()
}
