//! What belongs to pi on a user's machine.
//!
//! Not here: providers of the user's own, which are configuration.

use crate::belongings::{Belongings, Credential, PROVIDER_KEYS, Place};

/// What belongs to pi.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: PROVIDER_KEYS,
    variables: &["PI_*"],
    place: Place { variable: "PI_CODING_AGENT_DIR", default: ".pi/agent", inside: "" },
    credentials: &[Credential::tokens("auth.json")],
    apart: &[],
    chosen_by: None,
    needed: None,
};
