//! The environment of Codex on a user's machine.
//!
//! Its state (sessions, history, logs) is not copied.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of Codex.
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
    configuration: &[
        ConfigFile {
            without: WITHOUT,
            unused: UNUSED,
            ..ConfigFile::whole("config.toml", Form::Toml)
        },
        // Profiles.
        ConfigFile {
            without: WITHOUT,
            unused: UNUSED,
            ..ConfigFile::whole("*.config.toml", Form::Toml)
        },
        ConfigFile::whole("AGENTS.md", Form::Text),
        ConfigFile::whole("AGENTS.override.md", Form::Text),
    ],
    programs: &[],
    apart: &[],
    chosen_by: None,
    needed: None,
};

/// Keys that start programs, or name files that the sandbox does not contain.
const WITHOUT: &[&str] = &[
    "mcp_servers",
    "hooks",
    "plugins",
    "otel",
    "model_instructions_file",
    "experimental_instructions_file",
    "model_catalog_json",
];

/// Keys for the terminal, and for where Codex keeps its files.
const UNUSED: &[&str] = &["notify", "tui", "log_dir", "sqlite_home", "file_opener"];
