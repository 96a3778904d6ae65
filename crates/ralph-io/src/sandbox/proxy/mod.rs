//! The proxy: runs on the host, and lets sandboxed children reach the hosts that are allowed, and
//! nothing else.
//!
//! A child in an empty network namespace, including a container's, has one listener on its
//! loopback, which was handed over to ralph ([`Handover`]); a child without a namespace of its own
//! is confined to one port of the host's loopback ([`Proxy::listen_on_loopback`]). Both apply the same rules:
//! the name is checked, resolved once, each address is checked, and only an address that passed is
//! dialed.
//!
//! Encrypted connections are not decrypted: the rules apply to the name that the client asks for.
//!
//! Not here: the rules themselves, which are in the core, and creating namespaces.

pub mod connect;
mod dial;
mod handover;
mod refusals;
mod request;
mod response;
mod server;
mod socket;
mod tunnel;
mod variables;

pub use dial::{Resolve, create_system_resolver};
#[cfg(target_os = "linux")]
pub(super) use handover::listen_at;
pub use handover::{Handover, ListenerPurpose, connect_to_proxy, hand_over_listener};
pub use server::{Proxy, ProxyLimits, ProxyService};
pub use variables::{PORT_INSIDE, list_proxy_variables};

#[cfg(test)]
mod tests;
