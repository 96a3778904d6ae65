//! Detects that a call failed because the sandbox keeps the agent from its model.
//!
//! Agents then report a "connection error", or that they are not logged in; only the sandbox's
//! refusals show the cause.

use ralph_model::failure::{Failure, FailureClass};

use super::allowlist::ConnectionRefusal;
use super::hosts::parse_authority;
use super::model_hosts::is_model_host;

/// Returns the failure that the sandbox caused, in place of the failure that the agent reported.
///
/// `refusals` are those of the call. `endpoints` are the hosts and ports in the agent's variables
/// and arguments, and `ports` the ports of this machine that can be reached.
pub fn find_blocked_failure(
    failure: &Failure,
    refusals: &[ConnectionRefusal],
    endpoints: &[String],
    ports: &[u16],
) -> Option<Failure> {
    let may_be_any_model = match failure.class {
        FailureClass::Unreachable | FailureClass::NotLoggedIn => true,
        // Something else may have failed, and the refusal may concern a command.
        FailureClass::Overloaded | FailureClass::Crashed => false,
        FailureClass::Malformed
        | FailureClass::Empty
        | FailureClass::HardTimeout
        | FailureClass::Overran
        | FailureClass::IdleTimeout
        | FailureClass::TurnLimit
        | FailureClass::RateLimited { .. }
        | FailureClass::Blocked
        | FailureClass::NotInstalled
        | FailureClass::BadCall
        | FailureClass::ContextExceeded
        | FailureClass::SchemaRefused
        | FailureClass::Interrupted => return None,
    };
    let is_named = |refusal: &&ConnectionRefusal| {
        failure.message.contains(&refusal.host)
            || endpoints.contains(&format!("{}:{}", refusal.host, refusal.port))
    };
    let is_model = |refusal: &&ConnectionRefusal| may_be_any_model && is_model_host(&refusal.host);
    let refused = refusals.iter().find(is_named).or_else(|| refusals.iter().find(is_model));
    if let Some(ConnectionRefusal { host, port, reason, .. }) = refused {
        let message = format!("the sandbox does not let it connect to {host}:{port}: {reason}");
        let failure = Failure::new(FailureClass::Blocked, message);
        return Some(match reason.remedy(host, *port) {
            Some(remedy) => failure.with_hint(remedy),
            None => failure,
        });
    }
    // Loopback ports are not reached through the proxy, so it has no refusal for them.
    let is_closed = |address: &&String| {
        let known = parse_authority(address);
        known.is_some_and(|(host, port)| host.is_loopback() && !ports.contains(&port))
    };
    let closed = endpoints.iter().find(is_closed)?;
    (failure.class == FailureClass::Unreachable).then(|| {
        let message = format!("the sandbox does not let it connect to {closed} of this machine");
        Failure::new(FailureClass::Blocked, message)
            .with_hint(format!("add \"{closed}\" to `sandbox.network.allow`"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::allowlist::RefusalReason;
    use super::*;

    #[test]
    fn only_the_actual_cause_is_reported() {
        let refusal = |host: &str| ConnectionRefusal {
            host: host.to_owned(),
            port: 443,
            reason: RefusalReason::NotListed,
            times: 1,
        };
        let endpoints = ["gw.example:443".to_owned(), "127.0.0.1:9000".to_owned()];
        let (unreachable, overloaded) = (FailureClass::Unreachable, FailureClass::Overloaded);
        for (class, text, host, ports, expect) in [
            (
                unreachable.clone(),
                "Connection error.",
                "api.openai.com",
                &[9000][..],
                Some("api.openai.com:443"),
            ),
            (
                unreachable.clone(),
                "Connection error.",
                "gw.example",
                &[9000],
                Some("gw.example:443"),
            ),
            (
                unreachable.clone(),
                "to my.example failed",
                "my.example",
                &[9000],
                Some("my.example:443"),
            ),
            (unreachable.clone(), "Connection error.", "telemetry.example", &[9000], None),
            (unreachable, "Connection error.", "telemetry.example", &[], Some("127.0.0.1:9000")),
            (overloaded.clone(), "500", "api.github.com", &[], None),
            (overloaded, "500", "gw.example", &[], Some("gw.example:443")),
            (FailureClass::NotLoggedIn, "403", "api.openai.com", &[], Some("api.openai.com:443")),
            (FailureClass::IdleTimeout, "gw.example", "gw.example", &[], None),
        ] {
            let failure = Failure::new(class.clone(), text);
            let found = find_blocked_failure(&failure, &[refusal(host)], &endpoints, ports);
            assert_eq!(found.is_some(), expect.is_some(), "{class:?} {text} {host}");
            if let (Some(found), Some(expect)) = (found, expect) {
                assert_eq!(found.class, FailureClass::Blocked);
                assert!(found.message.contains(expect), "{}", found.message);
                assert!(found.hint.is_some_and(|hint| hint.contains("sandbox.network.allow")));
            }
        }
    }
}
