//! The environment of Gemini CLI on a user's machine.
//!
//! It reads a Google login file only if a variable or its settings select it.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of Gemini CLI.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
    variables: &[
        "GEMINI_MODEL",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_GCA",
    ],
    place: Place { variable: "GEMINI_CLI_HOME", default: "", inside: ".gemini" },
    credentials: &[
        Credential::tokens("oauth_creds.json"),
        Credential::settings("google_accounts.json"),
    ],
    configuration: &[
        ConfigFile {
            without: WITHOUT,
            unused: &["telemetry"],
            ..ConfigFile::whole("settings.json", Form::Json)
        },
        ConfigFile::whole(".env", Form::Variables),
        ConfigFile::whole("GEMINI.md", Form::Text),
    ],
    programs: &[],
    apart: &[],
    chosen_by: Some(("GOOGLE_GENAI_USE_GCA", "true")),
    needed: None,
};

/// Keys that start programs. Older versions have no sections.
const WITHOUT: &[&str] = &[
    "hooks",
    "mcpServers",
    "mcp/serverCommand",
    "tools/sandbox",
    "tools/discoveryCommand",
    "tools/callCommand",
    "sandbox",
    "toolDiscoveryCommand",
    "toolCallCommand",
];
