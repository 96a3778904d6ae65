//! Notifications on the desktop, by the system's program for it.
//!
//! Not here: terminals.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::reporting::notification::{Notification, Occasion};

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
        let (program, args) = build_command(cfg!(target_os = "macos"), notice);
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

/// Returns the program that shows a notification, with its arguments. The texts are arguments,
/// never part of a script, and cannot contain markup.
fn build_command(
    is_mac: impl Into<DesktopSystem>,
    notice: &Notification,
) -> (&'static str, Vec<String>) {
    match is_mac.into() {
        DesktopSystem::MacOs => {
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
        DesktopSystem::Other => {
            let urgency = match notice.occasion {
                Occasion::Finish | Occasion::Waiting | Occasion::Test => "normal",
                Occasion::Failure
                | Occasion::Blocked
                | Occasion::Stuck
                | Occasion::Budget
                | Occasion::Person => "critical",
            };
            let args = vec![
                "--app-name=ralph".to_owned(),
                format!("--urgency={urgency}"),
                "--".to_owned(),
                notice.title.clone(),
                escape_markup(&notice.message),
            ];
            ("notify-send", args)
        }
    }
}

/// The desktop system.
enum DesktopSystem {
    MacOs,
    Other,
}

impl From<bool> for DesktopSystem {
    fn from(is_mac: bool) -> Self {
        if is_mac { Self::MacOs } else { Self::Other }
    }
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
        let (name, args) = build_command(false, &notice);
        assert_eq!(name, "notify-send");
        assert_eq!(args[2..], ["--", "\" & do shell script \"id", "&lt;b&gt;a &amp; b&lt;/b&gt;"]);
        let (name, args) = build_command(true, &notice);
        assert_eq!(name, "osascript");
        assert_eq!(args[6..], ["\" & do shell script \"id", "<b>a & b</b>"]);
    }
}
