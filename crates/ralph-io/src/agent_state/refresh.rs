//! Checks whether a changed login is a refresh of the old one. Pure.
//!
//! It must belong to the same account, and the old one must have expired or be about to: an agent
//! that writes other tokens under the same keys would log the user in elsewhere. Tokens and times
//! may change; the kind of login may not, and neither may its servers: a server chosen by an agent
//! would get the user's tokens. Not here: whether the tokens are valid, which only their server
//! knows.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::NotReturnedReason;
use super::login_account::{find_account_values, find_expiry, parse_time};

/// Agents refresh a token some minutes before it expires.
const REFRESH_MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// Codex refreshes a token after eight days, whenever it expires.
const REFRESH_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Checks that `new` is `old` refreshed.
pub(super) fn check_refresh(
    old: &[u8],
    new: &[u8],
    now: Timestamp,
) -> Result<(), NotReturnedReason> {
    let read = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Value::Object(entries)) => Ok(entries),
        Ok(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_),
        )
        | Err(_) => Err(NotReturnedReason::NotJson),
    };
    let (old, new) = (read(old)?, read(new)?);
    let is_alike = |key: &String, value: &Value| {
        // A token may appear where there was `null`, and the other way round.
        new.get(key).is_some_and(|other| {
            discriminant(value) == discriminant(other) || value.is_null() || other.is_null()
        })
    };
    if old.len() != new.len() || !old.iter().all(|(key, value)| is_alike(key, value)) {
        return Err(NotReturnedReason::OtherKeys);
    }
    let servers = |login: &Map<String, Value>| find_servers(&Value::Object(login.clone()));
    let (before, after) = (servers(&old), servers(&new));
    let changed = before.iter().chain(&after).find(|(key, _)| before.get(*key) != after.get(*key));
    match changed {
        Some((key, _)) => Err(NotReturnedReason::OtherServer { key: key.clone() }),
        None => check_tokens(&old, &new, now),
    }
}

/// Checks every changed login in a file. A file is one login, or has one under each key.
fn check_tokens(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    now: Timestamp,
) -> Result<(), NotReturnedReason> {
    let is_one = find_expiry(old).is_some()
        || old
            .iter()
            .any(|(key, value)| value.is_string() && key.to_ascii_lowercase().contains("token"));
    if is_one {
        return check_login("", old, new, now, None);
    }
    let refreshed = old.get("last_refresh").and_then(parse_time);
    for (key, value) in old {
        let other = new.get(key).unwrap_or(&Value::Null);
        match (value, other) {
            (value, other) if value == other => {}
            (Value::Object(value), Value::Object(other)) => {
                check_login(key, value, other, now, refreshed)?;
            }
            _ if key == "last_refresh" => {}
            _ => return Err(NotReturnedReason::StillValid { key: key.clone() }),
        }
    }
    Ok(())
}

fn check_login(
    name: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    now: Timestamp,
    refreshed: Option<Timestamp>,
) -> Result<(), NotReturnedReason> {
    let before = find_account_values(&Value::Object(old.clone()));
    let after = find_account_values(&Value::Object(new.clone()));
    let other = before.iter().find(|(key, value)| after.get(*key) != Some(value));
    if let Some((key, _)) = other {
        return Err(NotReturnedReason::OtherAccount { key: format!("{name}{key}") });
    }
    let is_due = find_expiry(old).is_some_and(|at| at.duration_since(now) <= REFRESH_MARGIN);
    // Only if the account could be compared.
    let is_old =
        !before.is_empty() && refreshed.is_some_and(|at| now.duration_since(at) >= REFRESH_AGE);
    if is_due && before.is_empty() {
        check_unnamed_login(name, old, new, now)
    } else if is_due || is_old {
        Ok(())
    } else {
        Err(NotReturnedReason::StillValid { key: name.to_owned() })
    }
}

/// Checks a login that does not say whose it is: a refresh changes tokens and times, and nothing
/// else, such as the subscription, its scopes, or the kind of login.
fn check_unnamed_login(
    name: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    now: Timestamp,
) -> Result<(), NotReturnedReason> {
    let is_kept = |key: &str| {
        let key = key.to_ascii_lowercase();
        !key.ends_with("token") && !["access", "refresh", "exp"].iter().any(|it| key.contains(it))
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).filter(|key| is_kept(key)).collect();
    if let Some(key) = keys.iter().find(|key| old.get(**key) != new.get(**key)) {
        return Err(NotReturnedReason::OtherAccount { key: format!("{name}.{key}") });
    }
    if keys.is_empty() {
        return Err(NotReturnedReason::UnknownAccount);
    }
    match find_expiry(new) {
        Some(at) if at <= now => Err(NotReturnedReason::AlreadyExpired),
        Some(_) | None => Ok(()),
    }
}

/// Parts of keys that say where tokens are sent, or what is run.
const SERVER_KEY_PARTS: [&str; 8] =
    ["url", "uri", "host", "endpoint", "issuer", "audience", "command", "helper"];

/// Returns every value that says where tokens are sent, by the path of its key.
fn find_servers(document: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(entries) => {
                for (key, entry) in entries {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let lower = key.to_ascii_lowercase();
                    if SERVER_KEY_PARTS.iter().any(|word| lower.contains(word)) {
                        found.insert(path, entry.clone());
                    } else {
                        walk(entry, &path, found);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{path}[{index}]"), found);
                }
            }
            // An address counts under any key.
            Value::String(text) if text.contains("://") => {
                found.insert(path.to_owned(), value.clone());
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = BTreeMap::new();
    walk(document, "", &mut found);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An hour after the moment of the checks, in milliseconds.
    const LATER: u64 = 1_800_003_600_000;

    #[track_caller]
    fn checked(old: &str, new: &str, expect: &Result<(), NotReturnedReason>) {
        let now = Timestamp::from_second(1_800_000_000).expect("a moment");
        assert_eq!(&check_refresh(old.as_bytes(), new.as_bytes(), now), expect, "{old} -> {new}");
    }

    #[test]
    fn tokens_and_times_may_change() {
        let claude = |token: &str, at: u64| {
            format!(
                r#"{{"claudeAiOauth": {{"accessToken": "{token}", "refreshToken": "r{token}",
                "expiresAt": {at}, "scopes": ["a"], "subscriptionType": "max"}}}}"#
            )
        };
        checked(&claude("one", 1), &claude("two", LATER), &Ok(()));
        let other = |from: &str, to: &str| claude("two", LATER).replace(from, to);
        let refused = |key: &str| {
            Err(NotReturnedReason::OtherAccount { key: format!("claudeAiOauth.{key}") })
        };
        checked(&claude("one", 1), &other("max", "pro"), &refused("subscriptionType"));
        checked(&claude("one", 1), &other("[\"a\"]", "[]"), &refused("scopes"));
        checked(&claude("one", 1), &claude("two", 2), &Err(NotReturnedReason::AlreadyExpired));
        checked(
            r#"{"a": {"accessToken": "a", "expiresAt": 1}}"#,
            r#"{"a": {"accessToken": "b", "expiresAt": 1}}"#,
            &Err(NotReturnedReason::UnknownAccount),
        );
        checked(
            r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "a", "account_id": "me"}, "last_refresh": "2026-12-01T00:00:00Z"}"#,
            r#"{"last_refresh": "y", "tokens": {"access_token": "b", "account_id": "me"}, "OPENAI_API_KEY": null}"#,
            &Ok(()),
        );
    }

    #[test]
    fn a_login_that_has_not_expired_is_not_replaced() {
        let still = |key: &str| Err(NotReturnedReason::StillValid { key: key.to_owned() });
        let claude = |token: &str, at: u64| {
            format!(
                r#"{{"claudeAiOauth": {{"accessToken": "{token}", "expiresAt": {at}, "scopes": []}}}}"#
            )
        };
        // The moment of the checks is 1 800 000 000 s.
        checked(&claude("a", 1_800_003_600_000), &claude("evil", LATER), &still("claudeAiOauth"));
        checked(&claude("a", 1_800_000_300_000), &claude("b", 1_800_028_800_000), &Ok(()));
        // These have no known expiry.
        checked(r#"{"access_token": "a"}"#, r#"{"access_token": "b"}"#, &still(""));
        checked(
            r#"{"apiKey@https://x": "a"}"#,
            r#"{"apiKey@https://x": "b"}"#,
            &still("apiKey@https://x"),
        );
        checked(
            r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "a"}, "last_refresh": "2026-12-01T00:00:00Z"}"#,
            r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "b"}, "last_refresh": "z"}"#,
            &still("tokens"),
        );
        checked(
            r#"{"OPENAI_API_KEY": null, "tokens": {}, "last_refresh": "x"}"#,
            r#"{"OPENAI_API_KEY": "evil", "tokens": {}, "last_refresh": "x"}"#,
            &still("OPENAI_API_KEY"),
        );
        // One of several.
        checked(
            r#"{"a": {"access": "a", "expires": 1, "type": "oauth"}, "b": {"type": "api", "key": "k"}}"#,
            r#"{"a": {"access": "b", "expires": 1800003600, "type": "oauth"}, "b": {"type": "api", "key": "evil"}}"#,
            &still("b"),
        );
    }

    #[test]
    fn a_login_of_another_account_is_rejected() {
        let login = |account: &str| {
            format!(
                r#"{{"github": {{"access": "a{account}", "expires": 1, "accountId": "{account}"}}}}"#
            )
        };
        let other = Err(NotReturnedReason::OtherAccount { key: "github.accountId".to_owned() });
        checked(&login("me"), &login("evil"), &other);
        checked(&login("me"), r#"{"github": {"access": "b", "expires": 1}}"#, &other);
    }

    #[test]
    fn another_kind_of_login_is_rejected() {
        let old = r#"{"access_token": "a", "expiry_date": 1}"#;
        for new in ["", "{", "[]", "\"text\"", "null", "\u{feff}{}"] {
            checked(old, new, &Err(NotReturnedReason::NotJson));
        }
        for new in [
            "{}",
            r#"{"access_token": "a"}"#,
            r#"{"access_token": "a", "expiry_date": 1, "more": 1}"#,
            r#"{"access_token": {}, "expiry_date": 1}"#,
            r#"{"other": "a", "expiry_date": 1}"#,
        ] {
            checked(old, new, &Err(NotReturnedReason::OtherKeys));
        }
        checked("not JSON", old, &Err(NotReturnedReason::NotJson));
    }

    #[test]
    fn servers_must_not_change() {
        let other = |key: &str| Err(NotReturnedReason::OtherServer { key: key.to_owned() });
        let qwen = |host: &str| {
            format!(r#"{{"access_token": "a", "expiry_date": 1, "resource_url": "{host}"}}"#)
        };
        checked(&qwen("good.example"), &qwen("evil.example"), &other("resource_url"));
        let refreshed = qwen("good.example").replace(": 1,", ": 1800003600,");
        checked(&qwen("good.example"), &refreshed, &Ok(()));
        checked(
            r#"{"github": {"type": "oauth", "access": "a", "expires": 1}}"#,
            r#"{"github": {"type": "oauth", "access": "b", "expires": 1, "enterpriseUrl": "evil.example"}}"#,
            &other("github.enterpriseUrl"),
        );
        checked(
            r#"{"a": {"expires": 1, "b": [{"c": "x"}]}}"#,
            r#"{"a": {"expires": 1, "b": [{"c": "http://evil.example"}]}}"#,
            &other("a.b[0].c"),
        );
        checked(
            r#"{"a": {"expires": 1, "tokenHelper": "x"}}"#,
            r#"{"a": {"expires": 1, "tokenHelper": "y"}}"#,
            &other("a.tokenHelper"),
        );
        checked(
            r#"{"a": {"expires": 1, "baseUri": "x"}}"#,
            r#"{"a": {"expires": 1}}"#,
            &other("a.baseUri"),
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(old in any::<Vec<u8>>(), new in any::<Vec<u8>>()) {
            let _ = check_refresh(&old, &new, Timestamp::UNIX_EPOCH);
        }
    }
}
