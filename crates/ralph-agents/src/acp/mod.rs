//! Any command that supports the Agent Client Protocol: JSON-RPC on stdin and stdout.
//!
//! ralph is the client: it initializes the connection, opens one session, sends the prompt,
//! answers requests, and closes stdin when the turn is over. It offers neither files nor
//! terminals: agents then do their work themselves, where the gates and the sandbox see it. Not
//! here: the flag that makes a command use the protocol, which belongs in `agent.flags`, and
//! anything that all agents share.

mod adapter;
mod conversation;
mod failure;
mod messages;
mod tools;
mod updates;
mod usage;
mod wire;

pub(super) use adapter::ADAPTER;

#[cfg(test)]
pub(super) mod tests;
