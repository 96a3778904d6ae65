//! What belongs to Codex on a user's machine.
//!
//! Its configuration is not among the credentials: an agent in a sandbox starts from the defaults.

use crate::belongings::{Belongings, Credential, Place};

/// What belongs to Codex.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["CODEX_API_KEY"],
    variables: &[
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_ORGANIZATION",
        "OPENAI_PROJECT",
        "CODEX_CA_CERTIFICATE",
    ],
    place: Place { variable: "CODEX_HOME", default: ".codex", inside: "" },
    credentials: &[Credential::tokens("auth.json")],
    apart: &[],
    chosen_by: None,
    needed: None,
};
