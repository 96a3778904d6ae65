//! `ralph notify`: shows the notification channels, and tests them.
//!
//! Not here: the channels (`ralph_io::notify`).

use std::thread;

use ralph_core::reporting::notification::build_test_notification;
use ralph_io::clock;
use ralph_io::http::PauseEnd;
use ralph_io::notify::NotifyChannel;
use ralph_io::process::Watch;
use ralph_model::outcome::ExitStatus;
use ralph_ui::writer::NonBlocking;
use serde_json::{Value, json};

use crate::cli::CommonArgs;
use crate::cli::notify::NotifyArgs;
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::subscribers::{ChannelContext, SubscriberSettings};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &NotifyArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_trusted_settings(args.config.as_deref(), Vec::new())?;
    let cannot = |what: &str, error: std::io::Error| {
        CliError::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
    };
    let watch = Watch::install(|_| {}).map_err(|error| cannot("watch for signals", error))?;
    let out = NonBlocking::start(screen::open_stderr())
        .map_err(|error| cannot("start a thread", error))?;
    let channels =
        SubscriberSettings::from_settings(&project.env, &loaded)?.build_channels(&ChannelContext {
            project: project.directory.clone(),
            watch: &watch,
            env: &project.env,
            terminal: screen::is_stderr_terminal().then(|| out.clone()),
        });
    if channels.is_empty() {
        return Err(CliError::for_input("no notification channel is set")
            .with_hint("set `notify.desktop`, `notify.webhook.url` or `notify.command`, best in your own settings"));
    }
    let results: Vec<ChannelTest> = if args.test {
        let notice = build_test_notification(&project.directory.to_string_lossy(), clock::now());
        let mut pause = |span| {
            thread::sleep(span);
            PauseEnd::Elapsed
        };
        let tried = |channel: &NotifyChannel| ChannelTest {
            channel: channel.name(),
            result: Some(channel.deliver(&notice, &mut pause)),
        };
        channels.iter().map(tried).collect()
    } else {
        channels
            .iter()
            .map(|channel| ChannelTest { channel: channel.name(), result: None })
            .collect()
    };
    out.wait_until_written(std::time::Duration::from_secs(2));
    if args.json {
        let all: Vec<Value> = results.iter().map(ChannelTest::to_json).collect();
        screen::print_data(&format!("{:#}\n", json!({ "channels": all })));
    } else {
        let lines: Vec<String> = results.iter().map(ChannelTest::format_line).collect();
        screen::print_data(&lines.concat());
    }
    let is_broken = results.iter().any(|tried| matches!(tried.result, Some(Err(_))));
    Ok(if is_broken { ExitStatus::Incomplete } else { ExitStatus::Complete })
}

/// A channel, and the result of its test, if there was one.
struct ChannelTest {
    channel: &'static str,
    result: Option<Result<String, String>>,
}

impl ChannelTest {
    fn format_line(&self) -> String {
        let text = match &self.result {
            None => "set".to_owned(),
            Some(Ok(response)) => format!("delivered: {response}"),
            Some(Err(why)) => format!("failed: {why}"),
        };
        format!("{:<10}{}\n", self.channel, ralph_ui::sanitize::sanitize_text(&text))
    }

    fn to_json(&self) -> Value {
        match &self.result {
            None => json!({ "channel": self.channel }),
            Some(Ok(response)) => {
                json!({ "channel": self.channel, "delivered": true, "words": response })
            }
            Some(Err(why)) => json!({ "channel": self.channel, "delivered": false, "words": why }),
        }
    }
}
