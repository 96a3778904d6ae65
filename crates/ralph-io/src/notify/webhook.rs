//! Notifications to a URL, as JSON: `text` for chats, `title` and `message` for ntfy, and all
//! facts.
//!
//! Not here: the connection (`http`) and how the signature is computed.

use ralph_core::reporting::notification::Notification;
use serde_json::{Value, json};

use super::signature::WebhookSecret;
use crate::clock;
use crate::http::{PauseEnd, PostTerms, Poster};

/// A URL that is notified.
#[derive(Debug)]
pub struct WebhookChannel {
    poster: Poster,
    secret: Option<WebhookSecret>,
    topic: Option<String>,
}

impl WebhookChannel {
    /// Returns a webhook for a URL. ntfy requires a topic in JSON requests.
    pub fn new(
        url: impl Into<String>,
        terms: PostTerms,
        secret: Option<WebhookSecret>,
        topic: Option<String>,
    ) -> Self {
        Self { poster: Poster::new(url, terms), secret, topic }
    }

    pub(super) fn deliver(
        &self,
        notice: &Notification,
        pause: &mut dyn FnMut(std::time::Duration) -> PauseEnd,
    ) -> Result<String, String> {
        let body = build_payload(notice, self.topic.as_deref()).to_string();
        let run = notice.facts.run.as_ref().map_or("test", |run| run.0.as_str());
        let id = format!("{run}.{}", notice.id);
        let headers = || match &self.secret {
            Some(secret) => secret.sign(&id, clock::now(), &body),
            None => Vec::new(),
        };
        match self.poster.post(body.as_bytes(), &headers, pause) {
            Ok(answer) => Ok(format!("{} answered {}", self.poster.host(), answer.status)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the body of the request.
fn build_payload(notice: &Notification, topic: Option<&str>) -> Value {
    let mut payload = json!({
        "text": format!("{}\n{}", notice.title, notice.message),
        "title": notice.title,
        "message": notice.message,
        "ralph": build_facts(notice),
    });
    if let Some(topic) = topic {
        payload["topic"] = json!(topic);
    }
    payload
}

/// Returns everything that is known about a notification, as one flat object.
pub(super) fn build_facts(notice: &Notification) -> Value {
    let mut facts = json!({
        "id": notice.id,
        "occasion": notice.occasion,
        "title": notice.title,
        "message": notice.message,
    });
    if let (Some(facts), Ok(Value::Object(more))) =
        (facts.as_object_mut(), serde_json::to_value(&notice.facts))
    {
        facts.extend(more);
    }
    facts
}

#[cfg(test)]
mod tests {
    use ralph_core::reporting::notification::build_test_notification;
    use ralph_model::units::Timestamp;

    use super::*;

    #[test]
    fn chats_ntfy_and_programs_find_what_they_read() {
        let payload =
            build_payload(&build_test_notification("/projects/shop", Timestamp(7)), Some("mine"));
        expect_test::expect![[r#"
            {
              "text": "ralph: shop: a test\nThis is what a notice of ralph looks like.",
              "title": "ralph: shop: a test",
              "message": "This is what a notice of ralph looks like.",
              "ralph": {
                "id": "test-7",
                "occasion": "test",
                "title": "ralph: shop: a test",
                "message": "This is what a notice of ralph looks like.",
                "version": 1,
                "project": "/projects/shop",
                "at": 7,
                "ran": 0,
                "iterations": 0,
                "usage": {
                  "input": 0,
                  "output": 0,
                  "cache_read": 0,
                  "cache_write": 0,
                  "cost": null
                }
              },
              "topic": "mine"
            }"#]]
        .assert_eq(&format!("{payload:#}"));
    }
}
