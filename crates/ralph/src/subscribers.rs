//! Subscribers of a run besides the terminal: notifications for users, telemetry for a collector,
//! the current action for other processes.
//!
//! Turns settings into channels. Not here: the content (`ralph_core::notice`, `telemetry`) and the
//! delivery (`ralph_io::notify`, `telemetry`).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ralph_core::ports::Ui;
use ralph_core::reporting::notification::NotificationPolicy;
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_io::control::StopWatcher;
use ralph_io::environment::Variables;
use ralph_io::http::{HttpReach, PostTerms, Roots, SSL_CERT_FILE};
use ralph_io::mask::Masker;
use ralph_io::notify::{
    CommandChannel, DesktopChannel, Notifier, NotifyChannel, TerminalChannel, TerminalSignal,
    WebhookChannel, WebhookSecret,
};
use ralph_io::process::{StopStage, Watch};
use ralph_io::store::action_file::ActionFile;
use ralph_io::store::{RunDir, journal};
use ralph_io::telemetry::{Collector, Exporter};
use ralph_model::run::RunState;
use ralph_ui::writer::NonBlocking;

use crate::cli_error::CliError;
use crate::run_context::RunContext;
use crate::screen;
use crate::settings::LoadedSettings;
use crate::settings::types::notify::{NotifySettings, TerminalRingSetting};

/// A collector usually runs on this machine and answers at once.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Enough for a reachable server.
const HURRIED_TIMEOUT: Duration = Duration::from_millis(500);

/// The default endpoint of collectors.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// Settings of the subscribers, checked before a run begins.
#[derive(Debug)]
pub(crate) struct SubscriberSettings {
    notify: NotifySettings,
    secret: Option<WebhookSecret>,
    collector: Option<Collector>,
    roots: Roots,
}

impl SubscriberSettings {
    /// Reads the settings and the variables that they name.
    pub(crate) fn from_settings(
        env: &[(OsString, OsString)],
        loaded: &LoadedSettings,
    ) -> Result<Self, CliError> {
        let notify = loaded.settings.notify.clone();
        let named = notify.webhook.secret_env.as_deref();
        let secret = named.map(|name| read_webhook_secret(env, name, loaded)).transpose()?;
        let is_disabled = read_variable(env, "OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_on = loaded.settings.otel.is_on() && !is_disabled;
        let collector = is_on.then(|| build_collector(env, loaded)).transpose()?;
        let roots = Roots::from_env(env, &[SSL_CERT_FILE]);
        Ok(Self { notify, secret, collector, roots })
    }

    /// Builds the configured channels.
    pub(crate) fn build_channels(self, site: &ChannelContext<'_>) -> Vec<NotifyChannel> {
        let Self { notify, secret, roots, .. } = self;
        let mut channels = Vec::new();
        if notify.desktop {
            let (cwd, env) = (site.project.clone(), site.env.to_vec());
            channels.push(NotifyChannel::Desktop(DesktopChannel {
                watch: site.watch.clone(),
                cwd,
                env,
            }));
        }
        let ring = match notify.terminal {
            TerminalRingSetting::Off => None,
            TerminalRingSetting::Bell => Some(TerminalSignal::Bell),
            TerminalRingSetting::Osc9 => Some(TerminalSignal::Osc9),
            TerminalRingSetting::Osc777 => Some(TerminalSignal::Osc777),
        };
        if let (Some(ring), Some(out)) = (ring, &site.terminal) {
            let out = Mutex::new(out.clone());
            let write = Box::new(move |text: &str| {
                // A terminal that is gone is no error.
                let _ = out.lock().map(|mut out| out.write_all(text.as_bytes()));
            });
            channels.push(NotifyChannel::Terminal(TerminalChannel { ring, write }));
        }
        if let Some(url) = notify.webhook.url {
            let reach =
                if notify.webhook.allow_private { HttpReach::Private } else { HttpReach::Public };
            let terms = PostTerms {
                reach,
                timeout: notify.webhook.timeout.0.into(),
                retries: notify.webhook.retries,
                backoff: notify.webhook.backoff.0.into(),
                roots,
            };
            let webhook = WebhookChannel::new(url, terms, secret, notify.webhook.topic);
            channels.push(NotifyChannel::Webhook(Box::new(webhook)));
        }
        if let Some(command) = notify.command {
            channels.push(NotifyChannel::Command(CommandChannel {
                command,
                limit: notify.command_timeout.0.into(),
                watch: site.watch.clone(),
                cwd: site.project.clone(),
                env: site.env.to_vec(),
            }));
        }
        channels
    }
}

/// Where channels run.
pub(crate) struct ChannelContext<'a> {
    pub(crate) project: PathBuf,
    /// ralph's own signals.
    pub(crate) watch: &'a Watch,
    /// For programs that channels start.
    pub(crate) env: &'a [(OsString, OsString)],
    /// The terminal, if there is one.
    pub(crate) terminal: Option<NonBlocking>,
}

/// The subscribers of a run.
pub(crate) struct RunSubscribers {
    notifier: Option<Notifier>,
    exporter: Option<Exporter>,
    patience: Duration,
    watch: Watch,
    files: RunDir,
    masker: Masker,
    /// Reads requests to stop now.
    _stop_watcher: Option<StopWatcher>,
    /// Why a subscriber could not be started.
    start_errors: Vec<String>,
}

impl RunSubscribers {
    /// Starts the threads. If that fails the run continues, and warns at its end.
    pub(crate) fn start(
        plan: SubscriberSettings,
        context: &RunContext,
        env: &Variables,
        files: &RunDir,
        masker: &Masker,
    ) -> Self {
        let patience = plan.notify.patience.0.into();
        let policy = NotificationPolicy {
            on: plan.notify.on.iter().copied().collect(),
            long_wait: plan.notify.wait_over.0,
        };
        let mut start_errors = Vec::new();
        let exporter = plan.collector.as_ref().and_then(|collector| {
            Exporter::start(collector, context.layout.root())
                .inspect_err(|error| start_errors.push(format!("telemetry was not sent: {error}")))
                .ok()
        });
        let channels = plan.build_channels(&ChannelContext {
            project: context.layout.project().to_owned(),
            watch: &context.watch,
            env,
            terminal: screen::is_stderr_terminal().then(|| context.terminal()),
        });
        let ledger = files.path().join("notices.jsonl");
        let notifier = (!channels.is_empty()).then(|| {
            Notifier::start(policy, channels, &ledger, masker.clone())
                .inspect_err(|error| start_errors.push(format!("notices were not sent: {error}")))
                .ok()
        });
        Self {
            notifier: notifier.flatten(),
            exporter,
            patience,
            watch: context.watch.clone(),
            files: files.clone(),
            masker: masker.clone(),
            _stop_watcher: context.watch_for_stop(files),
            start_errors,
        }
    }

    /// Returns the views that receive the events of the run.
    pub(crate) fn views(&self) -> Vec<Box<dyn Ui>> {
        let notifier = self.notifier.clone().map(|it| Box::new(it) as Box<dyn Ui>);
        let exporter = self.exporter.clone().map(|it| Box::new(it) as Box<dyn Ui>);
        let action = Box::new(ActionFile::new(&self.files, self.masker.clone())) as Box<dyn Ui>;
        notifier.into_iter().chain(exporter).chain([action]).collect()
    }

    /// Replays the events of earlier processes of a resumed run to the exporter.
    pub(crate) fn replay_past_events(&self, path: &Path) {
        let Some(exporter) = &self.exporter else { return };
        // An unreadable journal has failed before, when the run was folded.
        let _ = replay_journal(path, |recorded, state| {
            exporter.replay_event(recorded, state);
            Ok::<(), String>(())
        });
    }

    /// Waits a limited time for deliveries. Returns warnings about the ones that failed.
    pub(crate) fn wait_for_delivery(&self) -> Vec<String> {
        let mut undelivered = self.start_errors.clone();
        // After a second signal the user does not want to wait for a server.
        let patience = match self.watch.stage() {
            StopStage::Running | StopStage::Finish => self.patience,
            StopStage::End | StopStage::Leave => self.patience.min(HURRIED_TIMEOUT),
        };
        std::thread::scope(|scope| {
            let exporting =
                self.exporter.as_ref().map(|exporter| scope.spawn(|| exporter.finish(patience)));
            if let Some(notifier) = &self.notifier {
                undelivered.extend(notifier.finish(patience));
            }
            undelivered.extend(exporting.and_then(|it| it.join().ok().flatten()));
        });
        undelivered
    }
}

/// Why the replay of a journal stopped early.
pub(crate) enum ReplayError {
    /// The journal cannot be read.
    Unreadable(String),
    Receiver(String),
}

/// Calls `visit` for every event in a journal, with the state after it. Returns the last state.
pub(crate) fn replay_journal(
    path: &Path,
    mut visit: impl FnMut(&ralph_model::event::Recorded, &RunState) -> Result<(), String>,
) -> Result<Option<RunState>, ReplayError> {
    let mut state: Option<RunState> = None;
    let unreadable = |error: &dyn std::error::Error| ReplayError::Unreadable(error.to_string());
    for recorded in journal::open_for_reading(path).map_err(|error| unreadable(&error))? {
        let recorded = recorded.map_err(|error| unreadable(&error))?;
        let state = match &mut state {
            Some(state) => {
                apply_event(state, &recorded).map_err(|error| unreadable(&error))?;
                state
            }
            None => state.insert(start_state(&recorded).map_err(|error| unreadable(&error))?),
        };
        visit(&recorded, state).map_err(ReplayError::Receiver)?;
    }
    Ok(state)
}

fn read_webhook_secret(
    env: &[(OsString, OsString)],
    name: &str,
    loaded: &LoadedSettings,
) -> Result<WebhookSecret, CliError> {
    let origin = loaded.find_origin("notify.webhook.secretEnv");
    let value = read_variable(env, name).ok_or_else(|| {
        let key = "`notify.webhook.secretEnv`";
        CliError::for_input(format!("{origin}: {key}: the variable `{name}` is not set"))
            .with_hint(format!("export {name}, or remove the key: then nothing is signed"))
    })?;
    WebhookSecret::parse(&value).ok_or_else(|| {
        CliError::for_input(format!("the variable `{name}` holds no secret to sign with"))
            .with_hint("use any text, or `whsec_` followed by base64")
    })
}

/// Returns the collector for spans and metrics. Must be called only if telemetry is on.
pub(crate) fn build_collector(
    env: &[(OsString, OsString)],
    loaded: &LoadedSettings,
) -> Result<Collector, CliError> {
    let otel = &loaded.settings.otel;
    let given = |name: &str| read_variable(env, name).filter(|value| !value.trim().is_empty());
    let endpoint = otel
        .endpoint
        .clone()
        .or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT"))
        .unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return Err(CliError::for_input(format!(
            "OTEL_EXPORTER_OTLP_ENDPOINT is `{endpoint}`, and must begin with http:// or https://"
        ))
        .with_hint("collectors take OTLP over HTTP on port 4318"));
    }
    let name = otel.headers_env.as_deref().unwrap_or("OTEL_EXPORTER_OTLP_HEADERS");
    let text = read_variable(env, name);
    if text.is_none() && otel.headers_env.is_some() {
        let origin = loaded.find_origin("otel.headersEnv");
        let message = format!("{origin}: `otel.headersEnv`: the variable `{name}` is not set");
        return Err(CliError::for_input(message)
            .with_hint(format!("export {name}=\"key=value,other=value\"")));
    }
    let headers = parse_headers(&text.unwrap_or_default()).ok_or_else(|| {
        CliError::for_input(format!("the variable `{name}` does not hold headers"))
            .with_hint("write key=value,other=value, and %2C for a comma in a value")
    })?;
    let service = otel.service_name.clone().or_else(|| given("OTEL_SERVICE_NAME"));
    Ok(Collector {
        endpoint,
        headers,
        service: service.unwrap_or_else(|| "ralph".to_owned()),
        timeout: COLLECTOR_TIMEOUT,
        roots: Roots::from_env(env, &["OTEL_EXPORTER_OTLP_CERTIFICATE", SSL_CERT_FILE]),
    })
}

fn read_variable(env: &[(OsString, OsString)], name: &str) -> Option<String> {
    let found = env.iter().find(|(own, _)| own == name)?;
    found.1.to_str().map(str::to_owned)
}

/// Parses `key=value,other=value`, the format of OpenTelemetry's variables.
fn parse_headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim(), decode_percent(value.trim())?);
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            let is_plain = value.chars().all(|character| !character.is_control());
            (is_name && is_plain).then(|| (name.to_owned(), value))
        })
        .collect()
}

/// Decodes percent-encoded characters such as `%20`.
fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_variables_of_opentelemetry_have_them() {
        for (text, expect) in [
            ("", Some(vec![])),
            ("a=b", Some(vec![("a", "b")])),
            (" x-key = v%20w%2C , b=c=d,", Some(vec![("x-key", "v w,"), ("b", "c=d")])),
            ("authorization=Bearer%20x", Some(vec![("authorization", "Bearer x")])),
            ("novalue", None),
            ("=x", None),
            ("a=%2", None),
            ("a=%zz", None),
            ("a=b%0d%0ac: d", None),
            ("a b=c", None),
        ] {
            let found = parse_headers(text);
            let shown = found.as_ref().map(|pairs| {
                pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
            });
            assert_eq!(shown, expect, "{text}");
        }
    }
}
