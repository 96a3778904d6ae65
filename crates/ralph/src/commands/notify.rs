//! `ralph notify`: shows the notification channels, and tests them.
//!
//! Not here: the channels (`ralph_io::notify`).

use std::thread;

use ralph_core::notice::trial;
use ralph_core::outcome::ExitStatus;
use ralph_io::clock;
use ralph_io::http::Patience;
use ralph_io::notify::Channel;
use ralph_io::process::Watch;
use ralph_ui::writer::NonBlocking;
use serde_json::{Value, json};

use crate::cli::CommonArgs;
use crate::cli::notify::NotifyArgs;
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;
use crate::telling::{Plan, Site};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &NotifyArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings(args.config.as_deref(), Vec::new())?;
    let cannot = |what: &str, error: std::io::Error| {
        Complaint::new(ExitStatus::Incomplete, format!("cannot {what}: {error}"))
    };
    let watch = Watch::install(|_| {}).map_err(|error| cannot("watch for signals", error))?;
    let out =
        NonBlocking::start(screen::stderr()).map_err(|error| cannot("start a thread", error))?;
    let channels = Plan::of(&project.env, &loaded)?.channels(&Site {
        project: project.directory.clone(),
        watch: &watch,
        env: &project.env,
        terminal: screen::is_terminal().then(|| out.clone()),
    });
    if channels.is_empty() {
        return Err(Complaint::input("no notification channel is set")
            .hint("set `notify.desktop`, `notify.webhook.url` or `notify.command`, best in your own settings"));
    }
    let results: Vec<Tried> = if args.test {
        let notice = trial(&project.directory.to_string_lossy(), clock::now());
        let mut pause = |span| {
            thread::sleep(span);
            Patience::Left
        };
        let tried = |channel: &Channel| Tried {
            channel: channel.name(),
            result: Some(channel.deliver(&notice, &mut pause)),
        };
        channels.iter().map(tried).collect()
    } else {
        channels.iter().map(|channel| Tried { channel: channel.name(), result: None }).collect()
    };
    out.finish(std::time::Duration::from_secs(2));
    if args.json {
        let all: Vec<Value> = results.iter().map(Tried::json).collect();
        screen::print_data(&format!("{:#}\n", json!({ "channels": all })));
    } else {
        let lines: Vec<String> = results.iter().map(Tried::line).collect();
        screen::print_data(&lines.concat());
    }
    let is_broken = results.iter().any(|tried| matches!(tried.result, Some(Err(_))));
    Ok(if is_broken { ExitStatus::Incomplete } else { ExitStatus::Complete })
}

/// A channel, and the result of its test, if there was one.
struct Tried {
    channel: &'static str,
    result: Option<Result<String, String>>,
}

impl Tried {
    fn line(&self) -> String {
        let text = match &self.result {
            None => "set".to_owned(),
            Some(Ok(response)) => format!("delivered: {response}"),
            Some(Err(why)) => format!("failed: {why}"),
        };
        format!("{:<10}{}\n", self.channel, ralph_ui::safe::harmless(&text))
    }

    fn json(&self) -> Value {
        match &self.result {
            None => json!({ "channel": self.channel }),
            Some(Ok(response)) => {
                json!({ "channel": self.channel, "delivered": true, "words": response })
            }
            Some(Err(why)) => json!({ "channel": self.channel, "delivered": false, "words": why }),
        }
    }
}
