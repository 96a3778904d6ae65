//! What belongs to Gemini CLI on a user's machine.
//!
//! A login with Google is a file that it only looks at where a variable or its settings say so.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// What belongs to Gemini CLI.
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

/// What starts programs. Older versions have no sections.
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
