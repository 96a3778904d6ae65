//! The environment of Qwen Code on a user's machine.
//!
//! A setting or a flag may select the kind of login.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of Qwen Code.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
    variables: &["OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL"],
    place: Place { variable: "QWEN_HOME", default: ".qwen", inside: "" },
    credentials: &[Credential::tokens("oauth_creds.json")],
    configuration: &[
        ConfigFile {
            without: WITHOUT,
            unused: &["telemetry"],
            ..ConfigFile::whole("settings.json", Form::Json)
        },
        ConfigFile::whole(".env", Form::Variables),
        ConfigFile::whole("QWEN.md", Form::Text),
    ],
    programs: &[],
    apart: &[],
    chosen_by: None,
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
