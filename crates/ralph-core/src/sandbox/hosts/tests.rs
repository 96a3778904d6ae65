//! Tests of host names and patterns.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

#[test]
fn hosts_are_normalized() {
    for (text, expect) in [
        ("Example.COM", Ok("example.com")),
        ("example.com.", Ok("example.com")),
        ("xn--mnchen-3ya.example", Ok("xn--mnchen-3ya.example")),
        ("a_b.example", Ok("a_b.example")),
        ("10.1.2.3", Ok("10.1.2.3")),
        ("10.1.2.3.", Ok("10.1.2.3")),
        ("[::1]", Ok("[::1]")),
        ("::1", Ok("[::1]")),
        ("[::ffff:127.0.0.1]", Ok("127.0.0.1")),
        ("", Err(HostProblem::Empty)),
        (".", Err(HostProblem::Empty)),
        ("a..b", Err(HostProblem::EmptyLabel)),
        (".example.com", Err(HostProblem::EmptyLabel)),
        ("example.com..", Err(HostProblem::EmptyLabel)),
        ("münchen.example", Err(HostProblem::Character)),
        ("a b.example", Err(HostProblem::Character)),
        ("a@b.example", Err(HostProblem::Character)),
        ("a\0.example", Err(HostProblem::Character)),
        ("example.com%00", Err(HostProblem::Character)),
        ("[::1", Err(HostProblem::OpenBracket)),
        ("[fe80::1%eth0]", Err(HostProblem::NotAnAddress)),
        ("[10.0.0.1]", Err(HostProblem::NotAnAddress)),
        // What inet_aton and old resolvers read as 127.0.0.1.
        ("127.1", Err(HostProblem::NotAnAddress)),
        ("2130706433", Err(HostProblem::NotAnAddress)),
        ("017700000001", Err(HostProblem::NotAnAddress)),
        ("0x7f000001", Err(HostProblem::NotAnAddress)),
        ("0177.0.0.1", Err(HostProblem::NotAnAddress)),
        ("0x7f.1", Err(HostProblem::NotAnAddress)),
        ("127.0.0.0x1", Err(HostProblem::NotAnAddress)),
        ("1.2.3.4.5", Err(HostProblem::NotAnAddress)),
    ] {
        let read = Host::parse_host(text).map(|host| host.to_string());
        assert_eq!(read.as_deref(), expect.as_ref().copied(), "{text:?}");
    }
    assert_eq!(Host::parse_host(&"a".repeat(64)), Err(HostProblem::TooLong));
    assert_eq!(Host::parse_host(&"a.".repeat(128)), Err(HostProblem::TooLong));
}

#[test]
fn patterns_match_whole_names_and_their_own_ports() {
    for (pattern, host, port, allows, denies) in [
        ("example.com", "example.com", 443, true, true),
        ("example.com", "EXAMPLE.com.", 443, true, true),
        ("example.com", "example.com", 80, false, true),
        ("example.com", "www.example.com", 443, false, false),
        ("example.com", "notexample.com", 443, false, false),
        ("example.com", "example.com.evil.net", 443, false, false),
        ("example.com", "example.co", 443, false, false),
        ("Example.com:8443", "example.com", 8443, true, true),
        ("example.com:8443", "example.com", 443, false, false),
        ("*.example.com", "a.example.com", 443, true, true),
        ("*.example.com", "a.b.example.com", 443, true, true),
        ("*.example.com", "example.com", 443, false, false),
        ("*.example.com", "evilexample.com", 443, false, false),
        ("*.example.com", "a.example.com.evil.net", 443, false, false),
        ("*.example.com:80", "a.example.com", 80, true, true),
        ("10.0.0.1", "10.0.0.1", 443, true, true),
        ("10.0.0.1", "10.0.0.10", 443, false, false),
        ("10.0.0.1:22", "10.0.0.1", 22, true, true),
        ("::1", "[::1]", 443, true, true),
        ("[2001:4860::1]:853", "2001:4860::1", 853, true, true),
        ("[::ffff:10.0.0.1]", "10.0.0.1", 443, true, true),
        ("*.0.0.example", "10.0.0.1", 443, false, false),
    ] {
        let read = HostPattern::parse_pattern(pattern).expect(pattern);
        let host = Host::parse_host(host).expect(host);
        assert_eq!(read.allows_host(&host, port), allows, "{pattern} allows {host}:{port}");
        assert_eq!(read.denies_host(&host, port), denies, "{pattern} denies {host}:{port}");
    }
}

#[test]
fn invalid_patterns_are_refused_with_a_reason() {
    let mut messages = String::new();
    for pattern in [
        "",
        "*",
        "*.com",
        "*:443",
        "*.*.example.com",
        "api.*.example.com",
        "ex*mple.com",
        "*example.com",
        "*.10.0.0.1",
        "https://example.com",
        "example.com/path",
        "example.com:0",
        "example.com:70000",
        "example.com:+80",
        "example.com:",
        "exa mple.com",
        "127.1",
        "[::1",
    ] {
        let error = HostPattern::parse_pattern(pattern).expect_err(pattern);
        messages.push_str(&format!("{error}\n"));
    }
    expect![[r#"
        ``: there is no host in it
        `*`: it would allow every host; `sandbox.network.mode` "host" switches the proxy off
        `*.com`: it would allow every host; `sandbox.network.mode` "host" switches the proxy off
        `*:443`: it would allow every host; `sandbox.network.mode` "host" switches the proxy off
        `*.*.example.com`: `*` is only allowed in front, as in `*.example.com`
        `api.*.example.com`: `*` is only allowed in front, as in `*.example.com`
        `ex*mple.com`: `*` is only allowed in front, as in `*.example.com`
        `*example.com`: `*` is only allowed in front, as in `*.example.com`
        `*.10.0.0.1`: `*` is only allowed in front, as in `*.example.com`
        `https://example.com`: write the host alone, without `https://`
        `example.com/path`: write the host alone; paths are not visible in encrypted connections
        `example.com:0`: `0` is not a port between 1 and 65535
        `example.com:70000`: `70000` is not a port between 1 and 65535
        `example.com:+80`: `+80` is not a port between 1 and 65535
        `example.com:`: `` is not a port between 1 and 65535
        `exa mple.com`: names have letters, digits, `-`, `_` and `.` (international ones in their xn-- form)
        `127.1`: it looks like an address, but is not one
        `[::1`: `[` without `]`
    "#]]
    .assert_eq(&messages);
}

#[test]
fn authorities_have_a_host_and_a_port() {
    for (text, expect) in [
        ("example.com:443", Some(("example.com", 443))),
        ("[::1]:80", Some(("[::1]", 80))),
        ("example.com", None),
        ("[::1]", None),
        ("::1", None),
        (":443", None),
        ("a:b:443", None),
        ("user@example.com:443", None),
        ("example.com:443:443", None),
    ] {
        let read = parse_authority(text).map(|(host, port)| (host.to_string(), port));
        let read = read.as_ref().map(|(host, port)| (host.as_str(), *port));
        assert_eq!(read, expect, "{text}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics_and_round_trips(text in ".{0,40}") {
        if let Ok(host) = Host::parse_host(&text) {
            prop_assert_eq!(Host::parse_host(&host.to_string()), Ok(host));
        }
        if let Ok(pattern) = HostPattern::parse_pattern(&text) {
            prop_assert_eq!(HostPattern::parse_pattern(&pattern.to_string()), Ok(pattern));
        }
        let _ = parse_authority(&text);
    }

    #[test]
    fn a_pattern_below_a_name_matches_exactly_the_names_that_end_in_it(
        above in "[a-z]{1,3}\\.[a-z]{2,3}",
        name in "([a-z]{1,3}\\.){0,3}[a-z]{1,3}\\.[a-z]{2,3}",
    ) {
        let pattern = HostPattern::parse_pattern(&format!("*.{above}")).expect("a pattern");
        let host = Host::parse_host(&name).expect("a name");
        prop_assert_eq!(pattern.allows_host(&host, 443), name.ends_with(&format!(".{above}")));
    }
}

#[test]
fn the_host_of_an_address_is_found() {
    for (url, expect) in [
        ("https://api.example.com/v1", Some("api.example.com:443")),
        ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
        ("http://user:pass@gateway.example:81/x?y#z", Some("gateway.example:81")),
        ("https://[::1]:8443/", Some("[::1]:8443")),
        ("socks5://example.com", None),
        ("sk-not-a-url", None),
    ] {
        assert_eq!(format_url_pattern(url).as_deref(), expect, "{url}");
    }
}
