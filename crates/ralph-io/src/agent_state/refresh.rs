//! Whether a changed login is the old one refreshed. Pure.
//!
//! Tokens and times change; what kind of login it is does not, and least of all where it is used:
//! a server in the user's login that an agent chose would be given the user's tokens. Not here:
//! whether the tokens are any good, which only their server knows.

use std::collections::BTreeMap;
use std::mem::discriminant;

use serde_json::Value;

/// Why a changed login is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It is no JSON object.
    NotJson,
    /// Its keys are others, or hold something else.
    OtherKeys,
    /// It names another server or command.
    OtherServer {
        /// The key.
        key: String,
    },
}

/// Checks that `new` is `old` refreshed.
pub(super) fn check(old: &[u8], new: &[u8]) -> Result<(), Doubt> {
    let read = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Value::Object(entries)) => Ok(entries),
        Ok(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_),
        )
        | Err(_) => Err(Doubt::NotJson),
    };
    let (old, new) = (read(old)?, read(new)?);
    let is_alike = |key: &String, value: &Value| {
        // A token may come where there was none.
        new.get(key).is_some_and(|other| {
            discriminant(value) == discriminant(other) || value.is_null() || other.is_null()
        })
    };
    if old.len() != new.len() || !old.iter().all(|(key, value)| is_alike(key, value)) {
        return Err(Doubt::OtherKeys);
    }
    let (before, after) = (servers(&Value::Object(old)), servers(&Value::Object(new)));
    let changed = before.iter().chain(&after).find(|(key, _)| before.get(*key) != after.get(*key));
    match changed {
        Some((key, _)) => Err(Doubt::OtherServer { key: key.clone() }),
        None => Ok(()),
    }
}

/// What a key is called that says where tokens go, or what is run.
const POINTING: [&str; 8] =
    ["url", "uri", "host", "endpoint", "issuer", "audience", "command", "helper"];

/// Returns every value that says where tokens go, with the way there.
fn servers(document: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(entries) => {
                for (key, entry) in entries {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let lower = key.to_ascii_lowercase();
                    if POINTING.iter().any(|word| lower.contains(word)) {
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
            // Whatever the key is called.
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

    #[track_caller]
    fn checked(old: &str, new: &str, expect: &Result<(), Doubt>) {
        assert_eq!(&check(old.as_bytes(), new.as_bytes()), expect, "{old} -> {new}");
    }

    #[test]
    fn tokens_and_times_may_change() {
        let claude = |token: &str, at: u64| {
            format!(
                r#"{{"claudeAiOauth": {{"accessToken": "{token}", "refreshToken": "r{token}",
                "expiresAt": {at}, "scopes": ["a"], "subscriptionType": "max"}}}}"#
            )
        };
        checked(&claude("one", 1), &claude("two", 2), &Ok(()));
        checked(
            r#"{"OPENAI_API_KEY": null, "tokens": {"id_token": "a"}, "last_refresh": "x"}"#,
            r#"{"last_refresh": "y", "tokens": {"id_token": "b", "new": 1}, "OPENAI_API_KEY": "k"}"#,
            &Ok(()),
        );
    }

    #[test]
    fn another_kind_of_login_is_none() {
        let old = r#"{"access_token": "a", "expiry_date": 1}"#;
        for new in ["", "{", "[]", "\"text\"", "null", "\u{feff}{}"] {
            checked(old, new, &Err(Doubt::NotJson));
        }
        for new in [
            "{}",
            r#"{"access_token": "a"}"#,
            r#"{"access_token": "a", "expiry_date": 1, "more": 1}"#,
            r#"{"access_token": {}, "expiry_date": 1}"#,
            r#"{"other": "a", "expiry_date": 1}"#,
        ] {
            checked(old, new, &Err(Doubt::OtherKeys));
        }
        checked("not JSON", old, &Err(Doubt::NotJson));
    }

    #[test]
    fn tokens_go_where_they_went() {
        let other = |key: &str| Err(Doubt::OtherServer { key: key.to_owned() });
        let qwen = |host: &str| format!(r#"{{"access_token": "a", "resource_url": "{host}"}}"#);
        checked(&qwen("good.example"), &qwen("evil.example"), &other("resource_url"));
        checked(&qwen("good.example"), &qwen("good.example"), &Ok(()));
        checked(
            r#"{"github": {"type": "oauth", "access": "a"}}"#,
            r#"{"github": {"type": "oauth", "access": "b", "enterpriseUrl": "evil.example"}}"#,
            &other("github.enterpriseUrl"),
        );
        checked(
            r#"{"a": {"b": [{"c": "x"}]}}"#,
            r#"{"a": {"b": [{"c": "http://evil.example"}]}}"#,
            &other("a.b[0].c"),
        );
        checked(
            r#"{"a": {"tokenHelper": "x"}}"#,
            r#"{"a": {"tokenHelper": "y"}}"#,
            &other("a.tokenHelper"),
        );
        checked(r#"{"a": {"baseUri": "x"}}"#, r#"{"a": {}}"#, &other("a.baseUri"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(old in any::<Vec<u8>>(), new in any::<Vec<u8>>()) {
            let _ = check(&old, &new);
        }
    }
}
