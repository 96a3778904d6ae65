//! The environment of Amp on a user's machine.
//!
//! No variable moves its directory, so ralph changes HOME for it.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of Amp.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["AMP_API_KEY"],
    variables: &["AMP_URL"],
    place: Place { variable: "HOME", default: "", inside: ".local/share/amp" },
    credentials: &[Credential::tokens("secrets.json")],
    configuration: &[ConfigFile {
        place: Some(Place { variable: "XDG_CONFIG_HOME", default: ".config", inside: "amp" }),
        without: &["amp.mcpServers", "amp.hooks"],
        ..ConfigFile::whole("settings.json", Form::Json)
    }],
    programs: &[],
    apart: &[],
    chosen_by: None,
    // Without a key Amp prompts on its terminal, which has no reader, and waits.
    needed: Some("set AMP_API_KEY, or run `amp login`"),
};
