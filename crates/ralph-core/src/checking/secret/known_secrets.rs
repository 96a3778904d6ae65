//! Collects known secret values: those of variables and credential files with telling names. Other
//! encodings and the search for secrets are elsewhere.

use std::collections::BTreeSet;

use serde_json::Value;

use super::is_secret_name;

/// Shorter values occur in ordinary text by chance.
pub const SHORTEST: usize = 8;

/// Returns the secrets among variables: values with a telling name, and passwords in URLs.
pub fn collect_from_variables<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (name, value) in variables {
        let value = value.trim();
        if is_secret_name(name) && is_worth_hiding(value) {
            known.insert(value.to_owned());
        }
        if let Some(password) = find_url_password(value).filter(|word| is_worth_hiding(word)) {
            known.insert(password.to_owned());
        }
    }
    known
}

/// Returns the secrets in a credential file: strings under telling keys.
pub fn collect_from_credentials(document: &Value) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    collect_values(document, KeyKind::Plain, &mut known);
    known
}

/// What the parent key says about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Plain,
    Secret,
}

fn collect_values(value: &Value, under: KeyKind, known: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                // `tokens` or `auth` may contain anything; the keys below decide.
                let is_secret = !value.is_object() && is_secret_name(key);
                let under = if is_secret { KeyKind::Secret } else { KeyKind::Plain };
                collect_values(value, under, known);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_values(item, under, known)),
        Value::String(text) if under == KeyKind::Secret && is_worth_hiding(text) => {
            known.insert(text.clone());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether a value cannot be confused with ordinary text: it is long enough, and not a
/// number, a word, a URL or a path.
pub fn is_worth_hiding(value: &str) -> bool {
    value.len() >= SHORTEST && !is_number(value) && !is_word(value) && !is_location(value)
}

fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || b".,:-+_ /".contains(&byte))
}

/// Matches a single word of letters, such as `undefined` or `development`.
fn is_word(value: &str) -> bool {
    const LONGEST_WORD: usize = 11;
    value.len() <= LONGEST_WORD && value.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_location(value: &str) -> bool {
    // Keys in base64 may begin with a slash, so a slash alone is not enough.
    const STARTS: [&str; 24] = [
        "http://",
        "https://",
        "file://",
        "unix:",
        "./",
        "../",
        "~/",
        "~\\",
        "C:\\",
        "$HOME/",
        "/home/",
        "/root/",
        "/tmp/",
        "/var/",
        "/usr/",
        "/etc/",
        "/run/",
        "/opt/",
        "/mnt/",
        "/srv/",
        "/dev/",
        "/nix/",
        "/Users/",
        "/private/",
    ];
    STARTS.iter().any(|start| value.starts_with(start))
}

/// Returns the password of a URL, as in `postgres://me:password@host/x`.
fn find_url_password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_values_with_telling_names_that_no_text_holds_by_chance() {
        for (name, value, expect) in [
            ("API_KEY", "k3y-of-mine", Some("k3y-of-mine")),
            ("API_KEY", " k3y-of-mine\n", Some("k3y-of-mine")),
            ("DB_PASSWORD", "correcthorsebattery", Some("correcthorsebattery")),
            (
                "AWS_SECRET_ACCESS_KEY",
                "/wJalrXUtnFEMI/K7MDENG+bPx",
                Some("/wJalrXUtnFEMI/K7MDENG+bPx"),
            ),
            ("API_KEY", "short", None),
            ("API_KEY", "disabled", None),
            ("API_KEY", "20261114-2315", None),
            ("SSH_AUTH_SOCK", "/tmp/ssh-XyZ1/agent.42", None),
            ("AUTH_URL", "https://auth.example.org/x1", None),
            ("EDITOR", "k3y-of-mine", None),
            ("DATABASE_URL", "postgres://me:pa55word@db/x?y", Some("pa55word")),
            ("DATABASE_URL", "postgres://me@db/x?y", None),
        ] {
            let expect: BTreeSet<String> = expect.into_iter().map(str::to_owned).collect();
            assert_eq!(collect_from_variables([(name, value)]), expect, "{name}={value}");
        }
    }

    #[test]
    fn credential_files_have_their_secrets_below_telling_keys() {
        let document = json!({
            "OPENAI_API_KEY": null,
            "oauth": {"accessToken": "token-number-1", "scopes": ["user:profile"], "expiresAt": 1},
            "tokens": {"account_id": "me-myself-and-1", "refresh_token": "token-number-2"},
            "keys": ["token-number-3"],
        });
        let found: Vec<String> = collect_from_credentials(&document).into_iter().collect();
        assert_eq!(found, ["token-number-1", "token-number-2", "token-number-3"]);
    }
}
