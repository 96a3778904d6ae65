//! The signature of a webhook, as in Standard Webhooks: HMAC-SHA256 over id, time and body, so that
//! every language has a library to verify it.
//!
//! Not here: where the secret comes from.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ralph_model::units::Timestamp;
use ring::hmac;

/// The prefix of secrets in base64.
const PREFIX: &str = "whsec_";

/// The secret that sender and receiver share.
pub struct WebhookSecret(hmac::Key);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl WebhookSecret {
    /// Parses a secret: `whsec_` and base64, or any other text as it is. `None` if the base64 is
    /// invalid or the secret is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).ok()?,
            None => text.as_bytes().to_vec(),
        };
        (!bytes.is_empty()).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Returns the headers that authenticate a body and its time.
    pub(super) fn sign(&self, id: &str, at: Timestamp, body: &str) -> Vec<(String, String)> {
        let seconds = at.0.div_euclid(1000);
        let tag = hmac::sign(&self.0, format!("{id}.{seconds}.{body}").as_bytes());
        let headers = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", format!("v1,{}", STANDARD.encode(tag.as_ref()))),
        ];
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_signature_is_the_one_of_the_specification() {
        let secret =
            WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let headers = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            Timestamp::from_seconds(1_614_265_330),
            r#"{"test": 2432232314}"#,
        );
        let signature = headers.iter().find(|(name, _)| name == "webhook-signature");
        assert_eq!(
            signature.map(|(_, value)| value.as_str()),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    #[test]
    fn a_secret_is_base64_where_it_says_so_and_never_empty() {
        for (text, is_one) in [
            ("whsec_AAAA", true),
            ("plain", true),
            ("", false),
            ("whsec_", false),
            ("whsec_*", false),
        ] {
            assert_eq!(WebhookSecret::parse(text).is_some(), is_one, "{text}");
        }
    }
}
