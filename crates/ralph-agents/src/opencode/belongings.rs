//! What belongs to `OpenCode` on a user's machine.
//!
//! Its directories follow the usual variables. Not here: its configuration.

use crate::belongings::{Belongings, Credential, PROVIDER_KEYS, Place};

/// What belongs to `OpenCode`.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: PROVIDER_KEYS,
    variables: &["OPENCODE_*"],
    place: Place { variable: "XDG_DATA_HOME", default: ".local/share", inside: "opencode" },
    credentials: &[Credential::tokens("auth.json")],
    apart: &[("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")],
    chosen_by: None,
    needed: None,
};
