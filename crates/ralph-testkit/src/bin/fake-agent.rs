//! The scripted agent as a program of its own, for tests that need an agent on `PATH`.
//!
//! The scenario is `FAKE_AGENT_SCENARIO`, else the first argument, so that it can also replace an
//! agent that is called with its own arguments. Not here: the agent itself.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let scenario = std::env::var_os("FAKE_AGENT_SCENARIO").or_else(|| std::env::args_os().nth(1));
    ralph_io::sim::play_scenario(Path::new(&scenario.unwrap_or_default()), std::io::stdin(), &env)
}
