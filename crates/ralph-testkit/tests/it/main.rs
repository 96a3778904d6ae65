//! Tests that need real processes.

mod sim;
