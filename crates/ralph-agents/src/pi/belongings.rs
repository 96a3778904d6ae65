//! The environment of pi on a user's machine.
//!
//! Providers that the user adds are in its configuration.

use crate::belongings::{Belongings, Credential, PROVIDER_KEYS, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of pi.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: PROVIDER_KEYS,
    variables: &["PI_*"],
    place: Place { variable: "PI_CODING_AGENT_DIR", default: ".pi/agent", inside: "" },
    credentials: &[Credential::tokens("auth.json")],
    configuration: &[
        ConfigFile {
            without: &["packages", "extensions"],
            unused: &["theme", "themes"],
            ..ConfigFile::whole("settings.json", Form::Json)
        },
        ConfigFile::whole("models.json", Form::Json),
        ConfigFile::whole("AGENTS.md", Form::Text),
        ConfigFile::whole("SYSTEM.md", Form::Text),
        ConfigFile::whole("APPEND_SYSTEM.md", Form::Text),
    ],
    programs: &[],
    apart: &[],
    chosen_by: None,
    needed: None,
};
