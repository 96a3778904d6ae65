//! Tests of the allowlist: what passes, what is refused, and the messages.

use expect_test::expect;
use proptest::prelude::*;
use ralph_model::sandbox::NetworkMode;

use super::*;

fn policy(allow: &[&str], deny: &[&str], private: &[&str]) -> NetworkPolicy {
    let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
    NetworkPolicy {
        mode: NetworkMode::Proxy,
        allow: list(allow),
        deny: list(deny),
        allow_private: list(private),
        packages: None,
    }
}

fn reach() -> NetworkAllowlist {
    let policy = policy(
        &["example.com", "*.example.org", "old.example:80", "10.0.0.5", "127.0.0.1:8080"],
        &["bad.example.org", "example.com:8443"],
        &["192.168.0.0/16"],
    );
    NetworkAllowlist::from_policy(&policy, &["api.model.example"]).expect("rules")
}

#[test]
fn names_are_judged() {
    let denied = |pattern: &str| Err(RefusalReason::Denied { pattern: pattern.into() });
    for (host, port, expect) in [
        ("api.model.example", 443, Ok(AddressCheck::Public)),
        ("example.com", 443, Ok(AddressCheck::Public)),
        ("example.com", 80, Err(RefusalReason::Port)),
        ("example.com", 8443, denied("example.com:8443")),
        ("a.example.org", 443, Ok(AddressCheck::Public)),
        ("example.org", 443, Err(RefusalReason::NotListed)),
        ("bad.example.org", 443, denied("bad.example.org")),
        ("bad.example.org", 80, denied("bad.example.org")),
        ("worse.bad.example.org", 443, Ok(AddressCheck::Public)),
        ("old.example", 80, Ok(AddressCheck::Public)),
        ("old.example", 443, Err(RefusalReason::Port)),
        ("10.0.0.5", 443, Ok(AddressCheck::Public)),
        ("10.0.0.6", 443, Err(RefusalReason::NotListed)),
        ("127.0.0.1", 8080, Ok(AddressCheck::ThisMachine)),
        ("localhost", 8080, Ok(AddressCheck::ThisMachine)),
        ("127.0.0.1", 8081, Err(RefusalReason::Port)),
        ("localhost", 443, Err(RefusalReason::NotListed)),
    ] {
        let host = Host::parse_host(host).expect(host);
        assert_eq!(reach().judge_name(&host, port), expect, "{host}:{port}");
    }
}

#[test]
fn addresses_are_judged_after_the_name() {
    use AddressCheck::{Public, ThisMachine};
    let nearby = |address: &str, what| {
        Err(RefusalReason::Nearby { address: address.parse().expect(address), what })
    };
    for (passage, address, own, expect) in [
        (Public, "8.8.8.8", AddressOwner::Other, Ok(())),
        (Public, "8.8.8.8", AddressOwner::ThisMachine, nearby("8.8.8.8", AddressClass::Own)),
        (Public, "127.0.0.1", AddressOwner::Other, nearby("127.0.0.1", AddressClass::Loopback)),
        (
            Public,
            "::ffff:127.0.0.1",
            AddressOwner::Other,
            nearby("127.0.0.1", AddressClass::Loopback),
        ),
        (Public, "192.168.3.4", AddressOwner::Other, Ok(())),
        (Public, "192.168.3.4", AddressOwner::ThisMachine, Ok(())),
        (Public, "10.0.0.5", AddressOwner::Other, nearby("10.0.0.5", AddressClass::Private)),
        (ThisMachine, "127.0.0.1", AddressOwner::ThisMachine, Ok(())),
        (ThisMachine, "::1", AddressOwner::ThisMachine, Ok(())),
        (ThisMachine, "10.0.0.5", AddressOwner::Other, nearby("10.0.0.5", AddressClass::Private)),
    ] {
        let parsed = address.parse().expect(address);
        assert_eq!(reach().judge_address(passage, parsed, own), expect, "{passage:?} {address}");
    }
}

#[test]
fn only_ports_of_this_machine_that_are_named_are_forwarded() {
    for (allow, deny, expect) in [
        (
            ["localhost:9000", "127.0.0.1:8080", "[::1]:8080"].as_slice(),
            [].as_slice(),
            vec![8080, 9000],
        ),
        (&["localhost", "127.0.0.1", "10.0.0.1:80", "a.localhost:80"], &[], vec![]),
        (&["localhost:9000", "localhost:9001"], &["localhost:9000"], vec![9001]),
        (&["127.0.0.1:9000"], &["localhost"], vec![]),
    ] {
        let reach = NetworkAllowlist::from_policy(&policy(allow, deny, &[]), &[]).expect("rules");
        assert_eq!(reach.find_loopback_ports(), expect, "{allow:?} without {deny:?}");
    }
}

#[test]
fn all_errors_are_reported_with_their_positions() {
    let policy = policy(&["*", "good.example"], &["x y"], &["10.0.0.0/8", "10.0.0.0/99"]);
    let mistakes = NetworkAllowlist::from_policy(&policy, &[]).expect_err("mistakes");
    let messages: Vec<String> = mistakes
        .into_iter()
        .map(|NetworkSettingError { place, what }| format!("{place}: {what}\n"))
        .collect();
    expect![[r#"
        sandbox.network.allow[0]: `*`: it would allow every host; `sandbox.network.mode` "host" switches the proxy off
        sandbox.network.deny[0]: `x y`: names have letters, digits, `-`, `_` and `.` (international ones in their xn-- form)
        sandbox.network.allowPrivate[1]: `10.0.0.0/99`: after `/` there must be a number from 1 to 32
    "#]]
    .assert_eq(&messages.concat());
}

#[test]
fn a_refusal_names_its_reason_and_remedy() {
    let mut messages = String::new();
    for (port, times, reason) in [
        (443, 1, RefusalReason::NotListed),
        (8443, 3, RefusalReason::Port),
        (443, 1, RefusalReason::Denied { pattern: "*.example".into() }),
        (
            443,
            1,
            RefusalReason::Nearby { address: [127, 0, 0, 1].into(), what: AddressClass::Loopback },
        ),
        (
            443,
            2,
            RefusalReason::Nearby { address: [10, 0, 0, 1].into(), what: AddressClass::Private },
        ),
        (0, 1, RefusalReason::Malformed),
    ] {
        let refusal = ConnectionRefusal { host: "a.example".into(), port, reason, times };
        let remedy = refusal.reason.remedy("a.example", port);
        messages.push_str(&format!("{refusal}\n  {}: {remedy:?}\n", refusal.reason.code()));
    }
    expect![[r#"
        a.example:443 refused: it is not on the list of allowed hosts
          host-not-allowed: Some("add \"a.example\" to `sandbox.network.allow`")
        a.example:8443 refused: the host is allowed, but not this port (3 times)
          port-not-allowed: Some("add \"a.example:8443\" to `sandbox.network.allow`")
        a.example:443 refused: `*.example` is on the list of denied hosts
          host-denied: Some("take \"*.example\" out of `sandbox.network.deny`")
        a.example:443 refused: it resolves to 127.0.0.1, a loopback address
          address-not-allowed: Some("add \"localhost:443\" to `sandbox.network.allow`, and connect to that")
        a.example:443 refused: it resolves to 10.0.0.1, a private address (2 times)
          address-not-allowed: Some("add \"10.0.0.1\" to `sandbox.network.allowPrivate`")
        a.example:0 refused: the name cannot be read
          malformed-host: None
    "#]]
    .assert_eq(&messages);
}

proptest! {
    #[test]
    fn denied_and_unlisted_hosts_never_pass(
        name in "[a-c]\\.[a-c]\\.ex",
        allow in prop::collection::vec("(\\*\\.)?[a-c]\\.ex|[a-c]\\.[a-c]\\.ex", 0..4),
        deny in prop::collection::vec("(\\*\\.)?[a-c]\\.ex|[a-c]\\.[a-c]\\.ex", 0..3),
    ) {
        let policy = NetworkPolicy {
            mode: NetworkMode::Proxy,
            allow: allow.clone(),
            deny: deny.clone(),
            allow_private: Vec::new(),
            packages: None,
        };
        let reach = NetworkAllowlist::from_policy(&policy, &[]).expect("rules");
        let matches = |patterns: &[String]| {
            patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
                Some(suffix) => name.ends_with(suffix),
                None => *pattern == name,
            })
        };
        let passes = reach.judge_name(&Host::Name(name.clone()), 443).is_ok();
        prop_assert_eq!(passes, matches(&allow) && !matches(&deny));
    }
}

#[test]
fn endpoints_of_the_user_may_be_private() {
    let own = ["gateway.corp:8443", "127.0.0.1:9000", "nonsense:port"].map(str::to_owned);
    let reach = reach().with_user_endpoints(&own);
    let gateway = Host::parse_host("gateway.corp").expect("a host");
    let passage = reach.judge_name(&gateway, 8443).expect("allowed");
    assert_eq!(passage, AddressCheck::UserEndpoint);
    assert_eq!(reach.judge_name(&gateway, 443), Err(RefusalReason::Port));
    for (address, is_allowed) in [
        ("10.1.2.3", true),
        ("93.184.216.34", true),
        ("169.254.169.254", false),
        ("127.0.0.1", false),
        ("224.0.0.1", false),
    ] {
        let judged =
            reach.judge_address(passage, address.parse().expect("an address"), AddressOwner::Other);
        assert_eq!(judged.is_ok(), is_allowed, "{address}");
    }
    assert!(reach.find_loopback_ports().contains(&9000));
}
