//! Finds mistakes in `notify` and `otel`: URLs, names of variables, and endless waits.
//!
//! Not here: whether a variable is set or a host answers.

use super::super::check::SettingFinding;
use super::super::path::JsonPath;
use super::super::types::Settings;
use super::super::types::quantity::DurationSetting;
use super::{build_finding, check_positive};

/// A run must end; it does not wait longer than this for a notification.
const MAX_WAIT: DurationSetting = DurationSetting::from_mins(10);

/// Returns every mistake in `notify` and `otel`.
pub(super) fn check_notify_and_otel(settings: &Settings) -> Vec<SettingFinding> {
    let mut findings = Vec::new();
    let (notify, webhook) = (JsonPath::parse("notify"), JsonPath::parse("notify.webhook"));
    let otel = JsonPath::parse("otel");
    let hook = &settings.notify.webhook;
    findings.extend(hook.url.as_deref().and_then(|url| {
        let message = find_url_mistake(url)?;
        Some(build_finding(webhook.join_key("url"), message))
    }));
    if hook.url.as_deref().is_some_and(|url| url.starts_with("http://")) && !hook.allow_private {
        findings.push(SettingFinding {
            hint: Some(
                "use https://, or set `notify.webhook.allowPrivate` for a private one".into(),
            ),
            ..build_finding(
                webhook.join_key("url"),
                "http:// is not encrypted: others could read the notification",
            )
        });
    }
    if hook.url.is_none() {
        let alone = [("topic", hook.topic.is_some()), ("secretEnv", hook.secret_env.is_some())];
        for (key, _) in alone.into_iter().filter(|(_, is_set)| *is_set) {
            findings.push(build_finding(webhook.join_key(key), "needs `notify.webhook.url`"));
        }
    }
    if settings.notify.command.as_ref().is_some_and(|command| command.trim().is_empty()) {
        findings.push(build_finding(notify.join_key("command"), "must not be blank"));
    }
    for (path, span) in [
        (notify.join_key("commandTimeout"), settings.notify.command_timeout),
        (notify.join_key("patience"), settings.notify.patience),
        (webhook.join_key("timeout"), hook.timeout),
        (webhook.join_key("backoff"), hook.backoff),
    ] {
        check_positive(Some(span), path.clone(), &mut findings);
        if span > MAX_WAIT {
            findings.push(build_finding(path, format!("must not be longer than {MAX_WAIT}")));
        }
    }
    findings.extend(settings.otel.endpoint.as_deref().and_then(|url| {
        let message = find_url_mistake(url)?;
        Some(build_finding(otel.join_key("endpoint"), message))
    }));
    for (path, name) in [
        (webhook.join_key("secretEnv"), &hook.secret_env),
        (otel.join_key("headersEnv"), &settings.otel.headers_env),
    ] {
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        if name.as_deref().is_some_and(|name| !is_name(name)) {
            let hint = "it names a variable that holds the secret, and is not the secret itself";
            let message = "is not a name for an environment variable";
            findings
                .push(SettingFinding { hint: Some(hint.into()), ..build_finding(path, message) });
        }
    }
    findings
}

fn find_url_mistake(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match rest {
        None => Some("must begin with https:// or http://"),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', ':', '?']) => Some("names no host"),
        Some(rest) if rest.contains(char::is_whitespace) => Some("must not contain spaces"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn notify_and_otel_mistakes_are_found_together() {
        let found = |settings| -> String {
            let settings: Settings = serde_json::from_value(settings).expect("well typed");
            let shown = check_notify_and_otel(&settings).into_iter().map(|it| {
                let hint = it.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("{}: {:?}{hint}", it.path, it.fault)
            });
            shown.collect::<Vec<_>>().join("\n")
        };
        expect![[r#"
            notify.webhook.url: Value("must begin with https:// or http://")
            notify.command: Value("must not be blank")
            notify.commandTimeout: Value("must be longer than 0")
            notify.patience: Value("must not be longer than 10m")
            otel.endpoint: Value("names no host")
            notify.webhook.secretEnv: Value("is not a name for an environment variable") (it names a variable that holds the secret, and is not the secret itself)
            otel.headersEnv: Value("is not a name for an environment variable") (it names a variable that holds the secret, and is not the secret itself)"#]]
        .assert_eq(&found(json!({
            "notify": {
                "command": " ", "commandTimeout": 0, "patience": "11m",
                "webhook": {"url": "ftp://example.org", "secretEnv": "whsec_AAA="},
            },
            "otel": {"endpoint": "http:///v1", "headersEnv": "a=b"},
        })));
        expect![[r#"
            notify.webhook.url: Value("http:// is not encrypted: others could read the notification") (use https://, or set `notify.webhook.allowPrivate` for a private one)"#]]
        .assert_eq(&found(json!({"notify": {"webhook": {"url": "http://ntfy.lan"}}})));
        expect![[r#"
            notify.webhook.topic: Value("needs `notify.webhook.url`")
            notify.webhook.secretEnv: Value("needs `notify.webhook.url`")"#]]
        .assert_eq(&found(json!({"notify": {"webhook": {"topic": "t", "secretEnv": "S"}}})));
        for fine in [
            json!({"notify": {"webhook": {"url": "http://ntfy.lan", "allowPrivate": true}}}),
            json!({"notify": {"webhook": {"url": "https://ntfy.sh", "topic": "mine"}}}),
            json!({"otel": {"endpoint": "http://localhost:4318", "headersEnv": "H_1"}}),
        ] {
            assert_eq!(found(fine), "");
        }
    }
}
