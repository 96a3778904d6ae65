//! The account and the expiry of a login, as far as its file contains them. Pure.
//!
//! Signatures are not checked: a forged token grants nothing, and the old login is kept. Not here:
//! whether a login may be replaced.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Keys that name an account, in lower case, without separators.
const ACCOUNT: [&str; 9] = [
    "accountid",
    "accountuuid",
    "organizationuuid",
    "organizationid",
    "userid",
    "useruuid",
    "email",
    "emailaddress",
    "sub",
];

/// Keys of the expiry time of a token.
const EXPIRY: [&str; 5] = ["expiresat", "expirydate", "expiry", "expires", "exp"];

/// Smaller numbers are seconds: as milliseconds they would be a date in 1973 or earlier.
const LEAST_MILLISECONDS: f64 = 1e11;

/// Returns everything in a login that names its account, by the path of its key, including the
/// claims inside tokens.
pub(super) fn find_account_values(login: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(entries) => {
                for (key, entry) in entries {
                    let path = format!("{path}.{key}");
                    let name = normalize_key(key);
                    match entry {
                        Value::String(text) if ACCOUNT.iter().any(|it| name.ends_with(it)) => {
                            found.insert(path, text.clone());
                        }
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::String(_)
                        | Value::Array(_)
                        | Value::Object(_) => walk(entry, &path, found),
                    }
                }
            }
            Value::String(text) => {
                if let Some(claims) = decode_claims(text) {
                    walk(&Value::Object(claims), path, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
    }
    let mut found = BTreeMap::new();
    walk(login, "", &mut found);
    found
}

/// Returns when the tokens of a login expire, if it contains that: in a key of its own, or in the
/// access token.
pub(super) fn find_expiry(login: &Map<String, Value>) -> Option<Timestamp> {
    let named = login.iter().find(|(key, _)| EXPIRY.contains(&normalize_key(key).as_str()));
    if let Some((_, value)) = named {
        return parse_time(value);
    }
    let access = login.iter().find(|(key, _)| key.to_ascii_lowercase().contains("access"));
    parse_time(decode_claims(access?.1.as_str()?)?.get("exp")?)
}

/// Parses a time: seconds or milliseconds since 1970, or a date.
pub(super) fn parse_time(value: &Value) -> Option<Timestamp> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) => number,
            Err(_) => return text.parse().ok(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let seconds = if number < LEAST_MILLISECONDS { number } else { number / 1000.0 };
    let span = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    Timestamp::from_duration(span).ok()
}

fn normalize_key(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Returns the claims of a JSON web token.
fn decode_claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A token with the claims `{"sub":"me","email":"me@example.org","exp":1800000000}`.
    const TOKEN: &str =
        "e30.eyJzdWIiOiJtZSIsImVtYWlsIjoibWVAZXhhbXBsZS5vcmciLCJleHAiOjE4MDAwMDAwMDB9.x";

    #[test]
    fn an_account_is_found_in_keys_and_tokens() {
        let login = json!({ "tokens": { "account_id": "a", "id_token": TOKEN }, "n": 1 });
        let found: Vec<(String, String)> = find_account_values(&login).into_iter().collect();
        let expect = [
            (".tokens.account_id", "a"),
            (".tokens.id_token.email", "me@example.org"),
            (".tokens.id_token.sub", "me"),
        ];
        assert_eq!(found, expect.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn an_expiry_is_read_in_every_form() {
        let at = Timestamp::from_second(1_800_000_000).ok();
        for (login, expect) in [
            (json!({ "expiresAt": 1_800_000_000_000_u64 }), at),
            (json!({ "expiry_date": "1800000000" }), at),
            (json!({ "expires": "2027-01-15T08:00:00Z" }), at),
            (json!({ "access_token": TOKEN, "id_token": "x" }), at),
            (json!({ "access_token": "opaque" }), None),
            (json!({ "expires": true }), None),
            (json!({}), None),
        ] {
            assert_eq!(find_expiry(login.as_object().expect("an object")), expect, "{login}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-zA-Z0-9._=-]{0,60}", number in any::<f64>()) {
            let login = json!({ "access": text, "expires": number });
            find_account_values(&login);
            login.as_object().and_then(find_expiry);
            decode_claims(&text);
        }
    }
}
