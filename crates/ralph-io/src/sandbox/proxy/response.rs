//! The proxy's own responses to a client, in words that an agent can act on.
//!
//! Not here: when each is sent.

use ralph_core::sandbox::allowlist::RefusalReason;

/// Returns the response that a tunnel is open.
pub(super) fn build_established() -> Vec<u8> {
    b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec()
}

/// Returns the response to a connection that is not allowed.
pub(super) fn build_refused(host: &str, port: u16, reason: &RefusalReason) -> Vec<u8> {
    let mut body = format!("ralph's sandbox refused a connection to {host}:{port}: {reason}.\n");
    match reason.remedy(host, port) {
        Some(remedy) => {
            body.push_str(&format!("The user can allow it in the settings of ralph: {remedy}.\n"));
        }
        None => body.push_str("No setting allows it.\n"),
    }
    body.push_str(
        "Trying again or another way does not help. If the work needs it, say so in your answer.\n",
    );
    let error = format!("{} {host}:{port}", reason.code());
    build_response("403 Refused by the sandbox of ralph", &error, &body)
}

/// Returns the response for a host that is allowed and cannot be reached.
pub(super) fn build_unreachable(host: &str, port: u16, why: &str) -> Vec<u8> {
    let body = format!("{host}:{port} is allowed, but cannot be reached: {why}.\n");
    build_response("502 Bad Gateway", "unreachable", &body)
}

/// Returns the response to a request that cannot be parsed.
pub(super) fn build_bad_request(why: &str) -> Vec<u8> {
    build_response(
        "400 Bad Request",
        "bad-request",
        &format!("The request cannot be read: {why}.\n"),
    )
}

/// Returns the response to a request that is not complete in time.
pub(super) fn build_too_slow() -> Vec<u8> {
    build_response("408 Request Timeout", "too-slow", "The request was not complete in time.\n")
}

/// Returns the response to a request whose head is too long.
pub(super) fn build_too_long(most: usize) -> Vec<u8> {
    let body = format!("The head of the request is longer than {most} bytes.\n");
    build_response("431 Request Header Fields Too Large", "too-long", &body)
}

/// Returns the response if too many connections are open.
pub(super) fn build_too_many(most: usize) -> Vec<u8> {
    let body = format!("{most} connections are open, and more are not served at once.\n");
    build_response("503 Service Unavailable", "too-many-connections", &body)
}

fn build_response(status: &str, error: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nX-Proxy-Error: {error}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_refusal_names_the_host_the_reason_and_the_setting() {
        let answer = build_refused("evil.example", 8443, &RefusalReason::NotListed);
        let answer = String::from_utf8(answer).expect("text");
        expect![[r#"
            HTTP/1.1 403 Refused by the sandbox of ralph
            X-Proxy-Error: host-not-allowed evil.example:8443
            Content-Type: text/plain; charset=utf-8
            Content-Length: 287
            Connection: close

            ralph's sandbox refused a connection to evil.example:8443: it is not on the list of allowed hosts.
            The user can allow it in the settings of ralph: add "evil.example:8443" to `sandbox.network.allow`.
            Trying again or another way does not help. If the work needs it, say so in your answer.
        "#]]
        .assert_eq(&answer.replace('\r', ""));
        let page = include_str!("../../../../../docs/network.md");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(page.contains(body), "docs/network.md should hold\n{body}");
    }
}
