//! The environment of GitHub Copilot CLI on a user's machine.
//!
//! It keeps its login in its settings. The cache holds its own program, 200 MB of it.

use crate::belongings::{Belongings, Credential, Place};
use crate::configuration::{ConfigFile, Form};

/// Variables, directories and files of GitHub Copilot CLI.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"],
    variables: &["COPILOT_*", "GH_HOST"],
    place: Place { variable: "COPILOT_HOME", default: ".copilot", inside: "" },
    credentials: &[Credential::settings("config.json")],
    configuration: &[ConfigFile::whole("copilot-instructions.md", Form::Text)],
    programs: &[],
    apart: &[("COPILOT_CACHE_HOME", "cache")],
    chosen_by: None,
    needed: None,
};
