//! A client's request to the proxy: finds the host in its head, and rewrites it for the server.
//!
//! Not here: parsing the head (`ralph_core::http_head`), bodies, which are passed on unchanged, and
//! checking hosts.

use ralph_core::http_head::{HttpHead, HttpHeadError};
use ralph_core::sandbox::hosts::{Host, parse_authority};

/// A request whose host can be checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProxyRequest {
    /// `CONNECT`: bytes both ways.
    Tunnel { host: Host, port: u16 },
    /// Plain HTTP, with the head for the server.
    Plain { host: Host, port: u16, head: Vec<u8> },
}

/// Why a head is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRequest {
    #[error(transparent)]
    Head(#[from] HttpHeadError),
    #[error("this is a proxy: ask for `http://HOST/...`, or use CONNECT")]
    NoProxyRequest,
    #[error("encrypted connections go through CONNECT")]
    Encrypted,
    #[error("the host cannot be read")]
    Host {
        /// The text in its place.
        text: String,
    },
}

/// The port of plain HTTP.
const PLAIN_PORT: u16 = 80;

/// Headers that are for the proxy alone.
const PROXY_HEADERS: [&str; 7] = [
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "upgrade",
    "host",
];

impl ProxyRequest {
    /// Parses a head, from its first byte to the empty line that ends it.
    pub(super) fn parse(head: &[u8]) -> Result<Self, BadRequest> {
        let head = HttpHead::parse(head)?;
        if head.method == "CONNECT" {
            let bad = || BadRequest::Host { text: head.target.to_owned() };
            let (host, port) = parse_authority(head.target).ok_or_else(bad)?;
            return Ok(Self::Tunnel { host, port });
        }
        let (authority, path) = split_target(head.target)?;
        let bad = || BadRequest::Host { text: authority.to_owned() };
        let (host, port) = parse_authority(authority)
            .or_else(|| parse_authority(&format!("{authority}:{PLAIN_PORT}")))
            .ok_or_else(bad)?;
        let head = rewrite_head(&head, path, &host, port);
        Ok(Self::Plain { host, port, head })
    }
}

/// Splits `http://authority/path`.
fn split_target(target: &str) -> Result<(&str, &str), BadRequest> {
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(BadRequest::NoProxyRequest);
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(BadRequest::Encrypted);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Ok(rest.split_at(end))
}

/// Returns the head for the server.
///
/// One request per connection: the server closes it after its response, so that the next request is
/// checked again. `Host` names the host that was checked, whatever the client wrote there.
fn rewrite_head(original: &HttpHead<'_>, path: &str, host: &Host, port: u16) -> Vec<u8> {
    let HttpHead { method, version, headers, .. } = original;
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let authority = if port == PLAIN_PORT { host.to_string() } else { format!("{host}:{port}") };
    let mut head = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\n");
    let named: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(',').map(|it| it.trim().to_ascii_lowercase()))
        .collect();
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        // Headers that frame the body stay, whatever `Connection` says.
        let frames = matches!(lower.as_str(), "content-length" | "transfer-encoding");
        if !PROXY_HEADERS.contains(&lower.as_str()) && (frames || !named.contains(&lower)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn rewritten_request(head: &str) -> String {
        match ProxyRequest::parse(head.as_bytes()) {
            Ok(ProxyRequest::Tunnel { host, port }) => format!("tunnel {host} {port}\n"),
            Ok(ProxyRequest::Plain { host, port, head }) => {
                format!("plain {host} {port}\n{}", String::from_utf8_lossy(&head))
            }
            Err(BadRequest::Host { text }) => format!("host {text}\n"),
            Err(bad) => format!("{bad}\n"),
        }
    }

    #[test]
    fn requests_are_read_strictly() {
        for (head, expect) in [
            ("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", "tunnel example.com 443\n"),
            ("CONNECT [::1]:22 HTTP/1.0\r\n\r\n", "tunnel [::1] 22\n"),
            ("CONNECT example.com HTTP/1.1\r\n\r\n", "host example.com\n"),
            ("CONNECT http://example.com:443/ HTTP/1.1\r\n\r\n", "host http://example.com:443/\n"),
            ("CONNECT a@example.com:443 HTTP/1.1\r\n\r\n", "host a@example.com:443\n"),
            ("GET http://a@example.com/ HTTP/1.1\r\n\r\n", "host a@example.com\n"),
            ("GET http:///x HTTP/1.1\r\n\r\n", "host \n"),
            (
                "GET / HTTP/1.1\r\n\r\n",
                "this is a proxy: ask for `http://HOST/...`, or use CONNECT\n",
            ),
            (
                "GET https://example.com/ HTTP/1.1\r\n\r\n",
                "encrypted connections go through CONNECT\n",
            ),
            ("GET http://a.example/ HTTP/2\r\n\r\n", "this is not HTTP/1\n"),
            ("GET  http://a.example/ HTTP/1.1\r\n\r\n", "this is not HTTP/1\n"),
            ("GET http://a.example/ b HTTP/1.1\r\n\r\n", "this is not HTTP/1\n"),
            ("\x16\x03\x01\x02\r\n\r\n", "this is not HTTP/1\n"),
            ("GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n", "a header cannot be read\n"),
            ("GET http://a.example/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "a header cannot be read\n"),
            ("GET http://a.example/ HTTP/1.1\r\nA: b\nX: c\r\n\r\n", "a header cannot be read\n"),
            ("GET http://a.example/\n HTTP/1.1\r\n\r\n", "a header cannot be read\n"),
            ("GET http://a.example/ HTTP/1.1\r\nA\r\n\r\n", "a header cannot be read\n"),
        ] {
            assert_eq!(rewritten_request(head), expect, "{head:?}");
        }
    }

    #[test]
    fn the_server_gets_a_request_of_its_own() {
        let rewritten_request = rewritten_request(
            "POST http://Example.com:8080/a?b=http://c#d HTTP/1.1\r\nHost: other.example\r\n\
             Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n\
             Connection: x-hop, content-length\r\nX-Hop: 1\r\nContent-Length: 3\r\nAccept:*/*\r\n\r\n",
        );
        expect![[r"
            plain example.com 8080
            POST /a?b=http://c HTTP/1.1
            Host: example.com:8080
            Content-Length: 3
            Accept: */*
            Connection: close

        "]]
        .assert_eq(&rewritten_request.replace('\r', ""));
        let root = self::rewritten_request("GET HTTP://example.com?q HTTP/1.1\r\n\r\n");
        assert!(
            root.starts_with("plain example.com 80\nGET /?q HTTP/1.1\r\nHost: example.com\r\n"),
            "{root}"
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_in_one_request_goes_out(
            head in "(GET|CONNECT) (http://)?(a\\.b|\\[::1\\]|:80|[ -~]){0,10} HTTP/1.1\r\n((Host: |a.b|:80|[ -~\r\n]){0,15}\r\n)?\r\n"
        ) {
            if let Ok(ProxyRequest::Plain { host, port, head }) = ProxyRequest::parse(head.as_bytes()) {
                let head = String::from_utf8(head).expect("what was text is text");
                assert_eq!(head.find("\r\n\r\n"), Some(head.len() - 4), "one head: {head:?}");
                let rest = head.replace("\r\n", "");
                assert!(!rest.contains(['\r', '\n', '\0']), "nothing else ends a line: {head:?}");
                let hosts = || head.lines().filter(|line| line.to_ascii_lowercase().starts_with("host:"));
                assert_eq!(hosts().count(), 1, "one host: {head:?}");
                let named =
                    hosts().next().and_then(|line| line.split_once(':')).map(|(_, host)| host.trim());
                let named = named.and_then(|text| {
                    parse_authority(text).or_else(|| parse_authority(&format!("{text}:{PLAIN_PORT}")))
                });
                assert_eq!(named, Some((host, port)), "the host that was checked: {head:?}");
            }
        }
    }
}
