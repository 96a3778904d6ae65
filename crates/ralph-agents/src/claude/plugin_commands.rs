//! The commands that install ralph's plugin for all sessions of Claude Code, and the list of
//! marketplaces that it prints.
//!
//! Arguments and formats only. Not here: running anything, and the plugin itself.

use ralph_model::agent::AgentKind;
use serde::Deserialize;

use crate::lenient_json::read_scalar;

/// The agent whose plugin it is.
pub const KIND: AgentKind = AgentKind::Claude;

/// The plugin and its marketplace have the same name, so that it cannot be installed twice.
const PLUGIN: &str = "ralph@ralph";

/// Name of the marketplace.
pub const MARKETPLACE: &str = "ralph";

/// Who a plugin is installed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginScope {
    /// The user, in all projects.
    User,
    /// All users of the project: its settings name the plugin.
    Project,
}

impl PluginScope {
    /// Returns the value for `--scope`.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A marketplace that Claude Code knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marketplace {
    pub name: String,
    /// The directory it is read from, if it is one.
    #[serde(default, deserialize_with = "read_scalar")]
    pub path: Option<String>,
    /// The repository it is fetched from, if it is one.
    #[serde(default, deserialize_with = "read_scalar")]
    pub repo: Option<String>,
    /// The URL it is fetched from, if it has one.
    #[serde(default, deserialize_with = "read_scalar")]
    pub url: Option<String>,
}

impl Marketplace {
    /// Returns where it comes from, for people.
    pub fn origin(&self) -> &str {
        let known = [&self.path, &self.repo, &self.url];
        let mut known = known.into_iter().flatten().filter(|place| !place.is_empty());
        known.next().map_or("somewhere else", String::as_str)
    }
}

/// Returns the arguments that list the marketplaces.
pub fn build_list_args() -> Vec<String> {
    ["plugin", "marketplace", "list", "--json"].map(str::to_owned).to_vec()
}

/// Parses the list of marketplaces. Returns `None` if it cannot be read.
pub fn parse_marketplaces(printed: &str) -> Option<Vec<Marketplace>> {
    serde_json::from_str(printed.trim()).ok()
}

/// Returns the arguments that add a directory as a marketplace of the user. In the project's
/// settings, the path of one machine would break it for other users.
pub fn build_add_args(directory: &str) -> Vec<String> {
    ["plugin", "marketplace", "add", directory].map(str::to_owned).to_vec()
}

/// Returns the arguments that install the plugin.
pub fn build_install_args(scope: PluginScope) -> Vec<String> {
    ["plugin", "install", PLUGIN, "--scope", scope.name()].map(str::to_owned).to_vec()
}

/// Returns the arguments that update an installed plugin to the version of its marketplace.
/// Versions that read it in place do not need this, and print so.
pub fn build_update_args(scope: PluginScope) -> Vec<String> {
    ["plugin", "update", PLUGIN, "--scope", scope.name()].map(str::to_owned).to_vec()
}

/// Returns the arguments that validate a plugin or a marketplace.
pub fn build_validate_args(directory: &str) -> Vec<String> {
    ["plugin", "validate", directory].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marketplace_origin_is_path_repo_or_url() {
        let printed = r#"[
            {"name": "ralph", "source": "directory", "path": "/a", "installLocation": "/a"},
            {"name": "other", "source": "github", "repo": "who/what", "new": [1]},
            {"name": "third", "source": "git", "url": "https://example.invalid/x.git"},
            {"name": "odd", "path": 7}
        ]"#;
        let found = parse_marketplaces(printed).expect("readable");
        let shown: Vec<(&str, &str)> =
            found.iter().map(|it| (it.name.as_str(), it.origin())).collect();
        assert_eq!(
            shown,
            [
                ("ralph", "/a"),
                ("other", "who/what"),
                ("third", "https://example.invalid/x.git"),
                ("odd", "somewhere else"),
            ]
        );
        assert_eq!(parse_marketplaces("No marketplaces configured"), None);
    }
}
