//! Notifications on the desktop, by the system's program for it.
//!
//! Not here: terminals.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::reporting::notification::Notification;
use ralph_model::occasion::Occasion;

use super::command::run_program;
use crate::environment::Variables;
use crate::process::{ProcessLimits, Spawn, StdinSource, Watch};

/// A notification daemon answers at once; starting one takes a few seconds.
const LIMIT: Duration = Duration::from_secs(10);

/// The desktop of this machine.
#[derive(Debug)]
pub struct DesktopChannel {
    pub watch: Watch,
    pub cwd: PathBuf,
    /// Its environment, which locates the desktop.
    pub env: Variables,
}

impl DesktopChannel {
    pub(super) fn deliver(&self, notice: &Notification) -> Result<String, String> {
        let (program, args) = if cfg!(target_os = "macos") {
            build_mac_command(notice)
        } else {
            build_freedesktop_command(notice)
        };
        let spawn = Spawn {
            program: program.into(),
            args: args.into_iter().map(OsString::from).collect(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            stdin: StdinSource::Null,
            limits: ProcessLimits {
                hard: Some(LIMIT),
                grace: Duration::from_secs(1),
                ..ProcessLimits::default()
            },
        };
        run_program(&spawn, &self.watch).map(|()| format!("{program} took it"))
    }
}

/// Returns the program that shows a notification on macOS, with its arguments. The texts are
/// arguments, never part of the script.
fn build_mac_command(notice: &Notification) -> (&'static str, Vec<String>) {
    let script = [
        "on run argv",
        "display notification (item 2 of argv) with title (item 1 of argv)",
        "end run",
    ];
    let mut args: Vec<String> =
        script.iter().flat_map(|line| ["-e".to_owned(), (*line).to_owned()]).collect();
    args.extend([notice.title.clone(), notice.message.clone()]);
    ("osascript", args)
}

/// Returns the program that shows a notification on other systems, with its arguments.
fn build_freedesktop_command(notice: &Notification) -> (&'static str, Vec<String>) {
    let is_calm = matches!(notice.occasion, Occasion::Finish | Occasion::Waiting | Occasion::Test);
    let args = vec![
        "--app-name=ralph".to_owned(),
        format!("--urgency={}", if is_calm { "normal" } else { "critical" }),
        "--".to_owned(),
        notice.title.clone(),
        escape_markup(&notice.message),
    ];
    ("notify-send", args)
}

/// Escapes markup: desktops interpret it in the body of a notification.
fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use ralph_core::reporting::notification::build_test_notification;
    use ralph_model::units::Timestamp;

    use super::*;

    #[test]
    fn texts_are_arguments_and_no_markup() {
        let notice = Notification {
            title: "\" & do shell script \"id".into(),
            message: "<b>a & b</b>".into(),
            ..build_test_notification("/p", Timestamp(0))
        };
        let (name, args) = build_freedesktop_command(&notice);
        assert_eq!(name, "notify-send");
        assert_eq!(args[2..], ["--", "\" & do shell script \"id", "&lt;b&gt;a &amp; b&lt;/b&gt;"]);
        let (name, args) = build_mac_command(&notice);
        assert_eq!(name, "osascript");
        assert_eq!(args[6..], ["\" & do shell script \"id", "<b>a & b</b>"]);
    }
}
