//! Masks secrets in settings and command lines as `***`. Known secrets in the output of agents and
//! gates are masked by `ralph-io`'s `mask`.

pub mod known_secrets;
pub mod leak;
pub mod shapes;

use ralph_model::recipe::Recipe;
use serde_json::{Map, Value};

/// Replaces a secret.
pub const MASK: &str = "***";

/// Returns whether the name of a key or an environment variable suggests a secret.
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 20] = [
        "token",
        "key",
        "keys",
        "apikey",
        "secret",
        "secrets",
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "pat",
        "credential",
        "credentials",
        "auth",
        "oauth",
        "authorization",
        "bearer",
        "cookie",
    ];
    // Names without separators, such as `GITHUBTOKEN`. Not `key`, which would match `monkey`.
    const ENDS: [&str; 7] =
        ["token", "secret", "password", "passwd", "apikey", "accesskey", "credentials"];
    split_name(name)
        .iter()
        .any(|word| WORDS.contains(&word.as_str()) || ENDS.iter().any(|end| word.ends_with(end)))
}

/// Splits `agentApiKey`, `AGENT_API_KEY` and `agent-api-key` into lower-case words.
fn split_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let starts_word = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if starts_word {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Masks everything in a document that may be secret, and drops null entries.
pub fn mask_document(document: &Value) -> Value {
    mask_value("", document)
}

fn mask_value(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), mask_value(key, value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => mask_list(name, items),
        Value::String(text) if !text.is_empty() && is_secret_name(name) => MASK.into(),
        Value::String(text) if name == "url" => mask_webhook(text).into(),
        Value::String(text) => mask_text(text).0.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Masks everything in a command line that may be secret.
pub fn mask_command_line(words: &[String]) -> Vec<String> {
    let mut next = NextWord::Plain;
    let mut shown = Vec::with_capacity(words.len());
    for word in words {
        let (text, after) = mask_item(word, next);
        shown.push(text);
        next = after;
    }
    shown
}

/// Masks a list; after a bare `--token` the next item is the secret.
fn mask_list(name: &str, items: &[Value]) -> Value {
    let mut next = NextWord::Plain;
    let mut shown = Vec::new();
    for item in items {
        let Value::String(text) = item else {
            shown.push(mask_value(name, item));
            continue;
        };
        let (text, after) = mask_item(text, next);
        shown.push(text.into());
        next = after;
    }
    shown.into()
}

fn mask_item(text: &str, next: NextWord) -> (String, NextWord) {
    if next == NextWord::Secret && !text.starts_with('-') {
        (MASK.to_owned(), NextWord::Plain)
    } else {
        mask_text(text)
    }
}

/// Whether the next word is the value of a secret option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextWord {
    Plain,
    Secret,
}

/// Masks words such as `--token=x`, `API_KEY=x`, `--token x`, `Authorization: x`, and keys with a
/// well-known prefix.
fn mask_text(text: &str) -> (String, NextWord) {
    let mut shown = String::with_capacity(text.len());
    let mut next = NextWord::Plain;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = &piece[word.len()..];
        if word.is_empty() {
            shown.push_str(space);
            continue;
        }
        if next == NextWord::Secret && !word.starts_with("--") {
            shown.push_str(MASK);
            // In `Authorization: Bearer x` the secret is the second word.
            next = if is_secret_name(word) { NextWord::Secret } else { NextWord::Plain };
        } else {
            let (word, after) = mask_word(word);
            shown.push_str(&word);
            next = after;
        }
        shown.push_str(space);
    }
    (shown, next)
}

fn mask_word(word: &str) -> (String, NextWord) {
    let quoted = |c| matches!(c, '"' | '\'');
    let bare = word.trim_matches(quoted);
    if is_known_key(bare) {
        return (MASK.into(), NextWord::Plain);
    }
    if bare.contains("://") {
        return (mask_url(word), NextWord::Plain);
    }
    if let Some((name, value)) = word.split_once('=') {
        if !value.is_empty() && (is_secret_name(name) || is_known_key(value.trim_matches(quoted))) {
            return (format!("{name}={MASK}"), NextWord::Plain);
        }
        return (word.into(), NextWord::Plain);
    }
    let announces = (bare.starts_with('-') || bare.ends_with(':')) && is_secret_name(bare);
    (word.into(), if announces { NextWord::Secret } else { NextWord::Plain })
}

/// Returns whether a word looks like a key of a well-known service.
fn is_known_key(word: &str) -> bool {
    shapes::SHAPES.iter().any(|shape| shape.fits_word(word))
}

/// Masks user and password of a URL, and every value of its query.
fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let tail = match tail.split_once('?') {
        Some((path, query)) => {
            let parts: Vec<String> = query
                .split('&')
                .map(|part| match part.split_once('=') {
                    Some((name, _)) => format!("{name}={MASK}"),
                    None => MASK.into(),
                })
                .collect();
            format!("{path}?{}", parts.join("&"))
        }
        None => tail.to_owned(),
    };
    format!("{scheme}://{authority}{tail}")
}

/// Masks everything but the host of a webhook: with many services the path is the secret.
fn mask_webhook(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return MASK.into();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let tail = if rest[end..].len() > 1 { "/***" } else { "" };
    format!("{scheme}://{host}{tail}")
}

/// Returns the recipe as it is stored: without the secrets in the agents'
/// environments.
#[must_use]
pub fn strip_recipe_secrets(recipe: &Recipe) -> Recipe {
    let mut shown = recipe.clone();
    for choice in shown.list_agents_mut() {
        let secrets = choice
            .env
            .iter_mut()
            .filter(|(name, value)| is_secret_name(name) && known_secrets::is_worth_hiding(value));
        secrets.for_each(|(_, value)| MASK.clone_into(value));
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_names_are_recognized() {
        for name in [
            "token",
            "API_KEY",
            "apiKey",
            "GITHUBTOKEN",
            "ANTHROPIC_AUTH_TOKEN",
            "dbPassword",
            "DB_PASS",
            "aws-secret-access-key",
            "CREDENTIALS",
            "Authorization",
            "GITHUB_PAT",
            "--api-key",
            "X-Auth-Token",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "maxTokens",
            "budgetTokens",
            "keeper",
            "monkey",
            "author",
            "PATH",
            "passes",
            "compact",
            "keyboard",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_masked_wherever_they_hide() {
        let shown = mask_document(&json!({
            "agent": {
                "command": "claude",
                "model": null,
                "env": {"ANTHROPIC_API_KEY": "sk-ant-1234567890abcdef", "CI": "1", "EMPTY_TOKEN": ""},
                "flags": ["--api-key", "abc", "--token=abc", "API_KEY=abc", "--model opus", "--auth-token xyz --v",
                          "-H", "Authorization: Bearer abc", "sk-ant-1234567890abcdef"],
            },
            "vars": {"DATABASE_URL": "postgres://me:pw@db/x?sslkey=1", "NAME": "ralph"},
            "notify": {"webhook": {"url": "https://u:p@hooks.example.org/services/T0/B0/XYZ?x=1"}},
            "budget": {"maxTokens": 5},
        }));
        assert_eq!(
            shown,
            json!({
                "agent": {
                    "command": "claude",
                    "env": {"ANTHROPIC_API_KEY": "***", "CI": "1", "EMPTY_TOKEN": ""},
                    "flags": ["--api-key", "***", "--token=***", "API_KEY=***", "--model opus",
                              "--auth-token *** --v", "-H", "Authorization: *** ***", "***"],
                },
                "vars": {"DATABASE_URL": "postgres://***@db/x?sslkey=***", "NAME": "ralph"},
                "notify": {"webhook": {"url": "https://hooks.example.org/***"}},
                "budget": {"maxTokens": 5},
            })
        );
    }

    #[test]
    fn command_lines_show_no_secrets() {
        let words =
            ["tool", "--api-key", "abc", "--token=abc", "--model", "opus", "Say token please"];
        let shown = mask_command_line(&words.map(str::to_owned));
        assert_eq!(
            shown,
            ["tool", "--api-key", "***", "--token=***", "--model", "opus", "Say token please"]
        );
    }

    #[test]
    fn keys_of_well_known_services_are_masked_as_words() {
        let tail = "a1b2c3d4e5f6g7h8i9j0";
        let starts = ["hf_", "npm_", "sk_live_", "sk-", "sk-ant-", "ghr_", "ya29.", "xapp-"];
        let mut words = starts.map(|it| format!("{it}{tail}")).to_vec();
        words.push(format!("ASIA{}", tail.to_uppercase()));
        for word in words {
            for text in [word.clone(), format!("--x={word}"), format!("'{word}'")] {
                let shown = mask_command_line(std::slice::from_ref(&text)).concat();
                assert!(
                    shown.ends_with(MASK) && !shown.to_lowercase().contains("6g7"),
                    "{text}: {shown}"
                );
            }
        }
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyYWxwaCJ9.c2lnbmF0dXJlLW9mLXJhbHBo";
        assert_eq!(mask_command_line(&[token.to_owned()]), [MASK]);
        let names = ["npm_config_cache=/tmp/cache", "hf_hub_offline_mode", "ASIA-PACIFIC-SOUTH"];
        for word in names.into_iter().chain(["sk-", "eyJrYWxwaCI6MX0"]) {
            assert_eq!(mask_command_line(&[word.to_owned()]), [word]);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_masking_panic(text in "\\PC*|[a-z=:/@?& -]*") {
            let _ = mask_document(&json!({"url": &text, "flags": [&text], "x": &text, text.clone(): &text}));
        }
    }
}
