//! The environment of `OpenCode` on a user's machine.
//!
//! Its directories follow the XDG variables.

use crate::belongings::{Belongings, Credential, PROVIDER_KEYS, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of `OpenCode`.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: PROVIDER_KEYS,
    variables: &["OPENCODE_*"],
    place: Place { variable: "XDG_DATA_HOME", default: ".local/share", inside: "opencode" },
    credentials: &[Credential::tokens("auth.json")],
    configuration: &[
        ConfigFile { named_by: Some("OPENCODE_CONFIG"), ..config_file("opencode.json") },
        ConfigFile { named_by: Some("OPENCODE_CONFIG"), ..config_file("opencode.jsonc") },
    ],
    // The `rg` program that its tools `grep`, `glob` and `skill` run.
    programs: &[(
        Place { variable: "XDG_CACHE_HOME", default: ".cache", inside: "opencode/bin" },
        "cache/opencode/bin",
    )],
    apart: &[("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")],
    chosen_by: None,
    needed: None,
};

const fn config_file(file: &'static str) -> ConfigFile {
    ConfigFile {
        place: Some(Place { variable: "XDG_CONFIG_HOME", default: ".config", inside: "opencode" }),
        without: &["mcp", "plugin"],
        unused: &["theme", "keybinds", "tui"],
        ..ConfigFile::whole(file, Form::Json)
    }
}
