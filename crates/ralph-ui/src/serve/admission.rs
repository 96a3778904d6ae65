//! Decides which requests are allowed, from the request alone, before any run is read.
//!
//! The token is part of every path. It is not a cookie, because cookies are sent to every port of
//! an address. The Host header reveals DNS rebinding; Origin and `Sec-Fetch-Site` reveal requests
//! from other sites. A control request needs the token also in a header, which no form and no
//! simple request of another site can set.

use ralph_core::run_loop::control::MAX_NOTE_CHARS;
use ralph_model::control::ControlRequest;

use super::http::{ServeMethod, ServeRequest, ServeResponse};

/// Longer than any key of a run.
const LONGEST_KEY: usize = 120;

/// The target of an allowed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServeRoute {
    List,
    Stats,
    Style,
    Script,
    Open { ticket: String },
    Run { key: String },
    Events { key: String, since: Option<String> },
    Control { key: String, request: ControlRequest },
}

/// Returns the route of an allowed request, or the refusal.
pub(super) fn admit_request(
    request: &ServeRequest,
    port: u16,
    token: &str,
) -> Result<ServeRoute, ServeResponse> {
    let host = request.header("host").unwrap_or_default();
    let known = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !known.iter().any(|known| known == host) {
        return Err(ServeResponse::from_message(421, "This is not the address that ralph serves."));
    }
    let own = format!("http://{host}");
    let is_foreign = request.header("origin").is_some_and(|origin| origin != own)
        || matches!(request.header("sec-fetch-site"), Some("cross-site" | "same-site"));
    if is_foreign {
        return Err(ServeResponse::from_message(403, "Requests from other sites are not allowed."));
    }
    let mut segments = request.path.split('/').skip(1);
    let first = segments.next().unwrap_or_default();
    let rest: Vec<&str> = segments.collect();
    if first == "open" {
        return match (request.method, rest.as_slice()) {
            (ServeMethod::Get, [ticket]) => Ok(ServeRoute::Open { ticket: (*ticket).to_owned() }),
            _ => Err(respond_not_found()),
        };
    }
    if !is_equal_constant_time(first, token) {
        let message = "The address is not complete. Use the one that `ralph serve` printed.";
        return Err(ServeResponse::from_message(403, message));
    }
    match (request.method, rest.as_slice()) {
        (ServeMethod::Get, [""]) => Ok(ServeRoute::List),
        (ServeMethod::Get, ["stats", ""]) => Ok(ServeRoute::Stats),
        (ServeMethod::Get, ["style.css"]) => Ok(ServeRoute::Style),
        (ServeMethod::Get, ["live.js"]) => Ok(ServeRoute::Script),
        (ServeMethod::Get, ["run", run, ""]) => Ok(ServeRoute::Run { key: parse_key(run)? }),
        (ServeMethod::Get, ["run", run, "events"]) => {
            let given = request.query.as_deref().and_then(|query| query.strip_prefix("since="));
            // A browser that reconnects by itself sends the id of the last event.
            let since = request.header("last-event-id").or(given).map(str::to_owned);
            Ok(ServeRoute::Events { key: parse_key(run)?, since })
        }
        (ServeMethod::Post, ["run", run, "request"]) => Ok(ServeRoute::Control {
            key: parse_key(run)?,
            request: parse_control_request(request, &own, token)?,
        }),
        (ServeMethod::Get, _) => Err(respond_not_found()),
        (ServeMethod::Post | ServeMethod::Other, _) => {
            Err(ServeResponse::from_message(405, "This page is read-only."))
        }
    }
}

fn parse_control_request(
    request: &ServeRequest,
    own: &str,
    token: &str,
) -> Result<ControlRequest, ServeResponse> {
    let is_own = request.header("origin") == Some(own)
        && is_equal_constant_time(request.header("x-ralph-token").unwrap_or_default(), token);
    if !is_own {
        return Err(ServeResponse::from_message(
            403,
            "A control request must come from the page itself.",
        ));
    }
    let kind = request.header("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(ServeResponse::from_message(415, "A control request must be JSON."));
    }
    let control: ControlRequest = serde_json::from_slice(&request.body)
        .map_err(|_| ServeResponse::from_message(400, "Unknown control request."))?;
    if let Some(text) = control.note()
        && (text.trim().is_empty() || text.chars().count() > MAX_NOTE_CHARS)
    {
        return Err(ServeResponse::from_message(400, "A note has between 1 and 4000 characters."));
    }
    Ok(control)
}

/// Returns a syntactically valid key, which is never a path.
fn parse_key(text: &str) -> Result<String, ServeResponse> {
    let is_ours = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
    if !text.is_empty() && text.len() <= LONGEST_KEY && text.bytes().all(is_ours) {
        Ok(text.to_owned())
    } else {
        Err(respond_not_found())
    }
}

fn respond_not_found() -> ServeResponse {
    ServeResponse::from_message(404, "Not found.")
}

/// Compares two texts in constant time.
pub(super) fn is_equal_constant_time(one: &str, other: &str) -> bool {
    let differences =
        one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    !other.is_empty() && one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::TaskId;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn request(
        method: ServeMethod,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ServeRequest {
        let (path, query) =
            path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        ServeRequest {
            method,
            path: path.replace("TOKEN", TOKEN),
            query: query.map(str::to_owned),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.replace("TOKEN", TOKEN)))
                .collect(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// Returns the status of a refusal, or the route.
    fn decide(request: &ServeRequest) -> Result<ServeRoute, u16> {
        admit_request(request, 7777, TOKEN).map_err(|response| response.status)
    }

    #[test]
    fn only_the_complete_address_is_routed() {
        let get = |path: &str| {
            decide(&request(ServeMethod::Get, path, &[("host", "127.0.0.1:7777")], ""))
        };
        assert_eq!(get("/TOKEN/"), Ok(ServeRoute::List));
        assert_eq!(get("/TOKEN/stats/"), Ok(ServeRoute::Stats));
        assert_eq!(get("/TOKEN/run/ab-1/"), Ok(ServeRoute::Run { key: "ab-1".into() }));
        assert_eq!(
            get("/TOKEN/run/ab-1/events?since=3-4"),
            Ok(ServeRoute::Events { key: "ab-1".into(), since: Some("3-4".into()) })
        );
        for (path, status) in [
            ("/", 403),
            ("/TOKE/", 403),
            ("/TOKENx/", 403),
            ("//", 403),
            ("/favicon.ico", 403),
            ("/TOKEN", 404),
            ("/TOKEN/run/", 404),
            ("/TOKEN/run/../", 404),
            ("/TOKEN/run/..%2f../", 404),
            ("/TOKEN/run/ab-1/request", 404),
            ("/open", 404),
        ] {
            assert_eq!(get(path), Err(status), "{path}");
        }
    }

    #[test]
    fn other_hosts_and_other_sites_are_rejected() {
        for (headers, status) in [
            (vec![], 421),
            (vec![("host", "evil.example")], 421),
            (vec![("host", "evil.example:7777")], 421),
            (vec![("host", "127.0.0.1")], 421),
            (vec![("host", "127.0.0.1:7778")], 421),
            (vec![("host", "127.0.0.1:7777"), ("origin", "http://evil.example")], 403),
            (vec![("host", "127.0.0.1:7777"), ("origin", "null")], 403),
            (vec![("host", "127.0.0.1:7777"), ("origin", "http://127.0.0.1:8888")], 403),
            (vec![("host", "127.0.0.1:7777"), ("sec-fetch-site", "cross-site")], 403),
            (vec![("host", "localhost:7777"), ("sec-fetch-site", "same-site")], 403),
        ] {
            assert_eq!(
                decide(&request(ServeMethod::Get, "/TOKEN/", &headers, "")),
                Err(status),
                "{headers:?}"
            );
        }
        let fine = [("host", "localhost:7777"), ("sec-fetch-site", "none")];
        assert_eq!(decide(&request(ServeMethod::Get, "/TOKEN/", &fine, "")), Ok(ServeRoute::List));
    }

    #[test]
    fn a_control_request_must_come_from_the_page() {
        let host = ("host", "127.0.0.1:7777");
        let origin = ("origin", "http://127.0.0.1:7777");
        let token = ("x-ralph-token", "TOKEN");
        let kind = ("content-type", "application/json");
        let skip = r#"{"wish":"skip","task":"T1"}"#;
        let post = |headers: &[(&str, &str)], body: &str| {
            decide(&request(ServeMethod::Post, "/TOKEN/run/a/request", headers, body))
        };
        let all = [host, origin, token, kind];
        let control = ControlRequest::Skip { task: TaskId("T1".into()) };
        assert_eq!(post(&all, skip), Ok(ServeRoute::Control { key: "a".into(), request: control }));
        let long = format!(r#"{{"wish":"note","text":"{}"}}"#, "x".repeat(4_001));
        for (headers, body, status) in [
            (vec![host, token, kind], skip, 403),
            (vec![host, origin, kind], skip, 403),
            (vec![host, origin, ("x-ralph-token", "wrong"), kind], skip, 403),
            (vec![host, origin, token], skip, 415),
            (vec![host, origin, token, ("content-type", "text/plain")], skip, 415),
            (all.to_vec(), "", 400),
            (all.to_vec(), r#"{"wish":"format disk"}"#, 400),
            (all.to_vec(), r#"{"wish":"note","text":" "}"#, 400),
            (all.to_vec(), long.as_str(), 400),
        ] {
            assert_eq!(post(&headers, body), Err(status), "{headers:?} {body:.40}");
        }
        assert_eq!(decide(&request(ServeMethod::Other, "/TOKEN/", &[host], "")), Err(405));
    }

    #[test]
    fn an_empty_token_opens_nothing() {
        assert!(is_equal_constant_time("ab", "ab"));
        for (one, other) in [("", ""), ("a", ""), ("", "a"), ("ab", "aa"), ("a", "ab")] {
            assert!(!is_equal_constant_time(one, other), "{one} {other}");
        }
    }
}
