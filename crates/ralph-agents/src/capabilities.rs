//! Versions in the rows of adapters: what an agent can do depends on the one that is installed.
//!
//! Every line in a row was seen in a run of the agent, in its source or in its documentation. Not
//! here: the flags for it; each agent's `call` has those.

use ralph_model::capability::{SchemaOutput, Support};
use ralph_model::version::Version;

/// Returns whether a version has what came with `first`. An unknown version counts as the newest.
pub(crate) fn check_support_since(version: Option<Version>, first: Version) -> Support {
    if version.is_none_or(|version| version >= first) { Support::Yes } else { Support::No }
}

/// Returns the kind of structured output, if it is supported at all.
pub(crate) fn select_schema_output(support: Support, output: SchemaOutput) -> SchemaOutput {
    match support {
        Support::Yes => output,
        Support::No => SchemaOutput::None,
    }
}

#[cfg(test)]
mod tests;
