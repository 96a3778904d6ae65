//! What belongs to Cline on a user's machine.
//!
//! It keeps its keys in its settings, and none of the usual variables is looked for.

use crate::belongings::{Belongings, Credential, Place};

/// What belongs to Cline.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &[],
    variables: &["CLINE_API_KEY", "CLINE_HUB_PORT", "CLINE_NO_AUTO_UPDATE"],
    place: Place { variable: "CLINE_DIR", default: ".cline", inside: "data" },
    credentials: &[
        Credential::settings("secrets.json"),
        Credential::settings("settings/providers.json"),
    ],
    configuration: &[],
    programs: &[],
    apart: &[],
    chosen_by: None,
    needed: None,
};
