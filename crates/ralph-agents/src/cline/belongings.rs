//! The environment of Cline on a user's machine.
//!
//! Cline keeps its keys in its settings; none of the usual variables is read.

use crate::belongings::{Belongings, Credential, Place};

/// Variables, directories and files of Cline.
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
