//! `ralph-fleet` against the real server, on loopback.
//!
//! `RALPH_TEST_TEMPORAL` is the program of the server (`scripts/install-temporal` prints it),
//! `RALPH_TEST_RALPH` a built `ralph`. `service` has a stand-in for the worker and so tests what
//! the service and the nodes do; `setup` tests `up` and `join`, `builds` runs whole builds. Most scenes
//! run twice: with standalone activities, and on a server without them.

mod builds;
mod records;
mod service;
mod setting;
mod setup;
