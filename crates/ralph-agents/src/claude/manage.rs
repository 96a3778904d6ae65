//! How Claude Code is told of a plugin for all its sessions, and what it says of the
//! marketplaces that it knows.
//!
//! Words and formats only. Not here: running anything, and the plugin itself.

use serde::Deserialize;

use crate::fields::scalar;

/// The plugin in its marketplace; both are called the same, so that nobody has it twice.
const PLUGIN: &str = "ralph@ralph";

/// The marketplace's name.
pub const MARKETPLACE: &str = "ralph";

/// For whom a plugin is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For the user, in all projects.
    User,
    /// For everybody who works in the project: its settings name the plugin.
    Project,
}

impl Scope {
    /// Returns the word for it.
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
    /// Its name.
    pub name: String,
    /// The directory it is read from, where it is one.
    #[serde(default, deserialize_with = "scalar")]
    pub path: Option<String>,
    /// The repository it is fetched from, where it is one.
    #[serde(default, deserialize_with = "scalar")]
    pub repo: Option<String>,
    /// The address it is fetched from, where it has one.
    #[serde(default, deserialize_with = "scalar")]
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

/// Returns the words that list the marketplaces.
pub fn list_marketplaces() -> Vec<String> {
    ["plugin", "marketplace", "list", "--json"].map(str::to_owned).to_vec()
}

/// Reads what listing the marketplaces printed; none if it cannot be read.
pub fn marketplaces(printed: &str) -> Option<Vec<Marketplace>> {
    serde_json::from_str(printed.trim()).ok()
}

/// Returns the words that make a directory a marketplace of the user's. In the settings of a
/// project the path of one machine would be in everybody's way.
pub fn add_marketplace(directory: &str) -> Vec<String> {
    ["plugin", "marketplace", "add", directory].map(str::to_owned).to_vec()
}

/// Returns the words that install the plugin.
pub fn install(scope: Scope) -> Vec<String> {
    ["plugin", "install", PLUGIN, "--scope", scope.name()].map(str::to_owned).to_vec()
}

/// Returns the words that bring an installed plugin to the version of its marketplace. Versions
/// that read it where it lies need no such thing, and say so.
pub fn update(scope: Scope) -> Vec<String> {
    ["plugin", "update", PLUGIN, "--scope", scope.name()].map(str::to_owned).to_vec()
}

/// Returns the words that check a plugin or a marketplace.
pub fn validate(directory: &str) -> Vec<String> {
    ["plugin", "validate", directory].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marketplaces_say_where_they_come_from() {
        let printed = r#"[
            {"name": "ralph", "source": "directory", "path": "/a", "installLocation": "/a"},
            {"name": "other", "source": "github", "repo": "who/what", "new": [1]},
            {"name": "third", "source": "git", "url": "https://example.invalid/x.git"},
            {"name": "odd", "path": 7}
        ]"#;
        let found = marketplaces(printed).expect("readable");
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
        assert_eq!(marketplaces("No marketplaces configured"), None);
    }
}
