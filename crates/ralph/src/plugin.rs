//! The Claude Code plugin that ships inside the binary: its files, and where they are written.
//!
//! Not here: what its hooks decide, and how it is passed to Claude Code, which its adapter knows.

pub(crate) mod check;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_io::store::embedded::{EmbeddedDirectory, EmbeddedFile};

/// The version of the plugin, which is that of the binary.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Embeds the files of the plugin twice: alone, for runs, and in a marketplace, for installing.
macro_rules! embed {
    ($($path:literal,)*) => {
        /// The plugin.
        const PLUGIN: &[EmbeddedFile] = &[
            $(EmbeddedFile { path: $path, text: include_str!(concat!("../plugin/", $path)) },)*
        ];
        /// A marketplace that offers the plugin and nothing else.
        const MARKETPLACE: &[EmbeddedFile] = &[
            EmbeddedFile {
                path: ".claude-plugin/marketplace.json",
                text: include_str!("../marketplace/marketplace.json"),
            },
            $(EmbeddedFile {
                path: concat!("plugin/", $path),
                text: include_str!(concat!("../plugin/", $path)),
            },)*
        ];
    };
}

embed! {
    ".claude-plugin/plugin.json",
    "LICENSE",
    "README.md",
    "hooks/hooks.json",
    "skills/ralph-plan/SKILL.md",
}

/// Returns the plugin for runs, below the directory with the state of all projects.
pub(crate) fn for_runs(state_root: &Path) -> EmbeddedDirectory {
    EmbeddedDirectory::from_content(&state_root.join("plugin"), VERSION, PLUGIN)
}

/// Returns the shell command with which the plugin calls the guard.
pub(crate) fn find_guard_command() -> Option<String> {
    let file = PLUGIN.iter().find(|file| file.path == "hooks/hooks.json")?;
    let hooks: serde_json::Value = serde_json::from_str(file.text).ok()?;
    hooks["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().map(str::to_owned)
}

/// Returns the marketplace that Claude Code installs the plugin from, below ralph's data directory.
pub(crate) fn for_installation(data: &Path) -> EmbeddedDirectory {
    EmbeddedDirectory::from_content(&data.join("claude-marketplace"), VERSION, MARKETPLACE)
}

/// Returns ralph's data directory: `$XDG_DATA_HOME/ralph`, else `~/.local/share/ralph`.
pub(crate) fn find_data_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|directory| directory.join("ralph"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_file_of_the_plugin_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin");
        let mut found: Vec<String> = Vec::new();
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("a directory").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let path = path.strip_prefix(&root).expect("below the root");
                    found.push(path.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        let mut embedded: Vec<&str> = PLUGIN.iter().map(|file| file.path).collect();
        embedded.sort_unstable();
        assert_eq!(found, embedded);
    }

    #[test]
    fn the_versions_are_those_of_the_crate() {
        let json = |path: &str| -> Value {
            let file = MARKETPLACE.iter().find(|file| file.path == path).expect("embedded");
            serde_json::from_str(file.text).expect("JSON")
        };
        let manifest = json("plugin/.claude-plugin/plugin.json");
        assert_eq!(manifest["version"], VERSION);
        let offered = &json(".claude-plugin/marketplace.json")["plugins"][0];
        assert_eq!((&offered["version"], &offered["name"]), (&VERSION.into(), &manifest["name"]));
        assert_eq!(offered["source"], "./plugin");
    }

    #[test]
    fn embedded_plugin_has_no_mistakes() {
        let directory = tempfile::tempdir().expect("a directory");
        let plugin = for_runs(directory.path());
        plugin.ensure_intact().expect("written");
        assert_eq!(check::find_problems(plugin.path()), [""; 0]);
    }

    #[test]
    fn data_directory_follows_the_variables() {
        for (home, xdg, expect) in [
            (Some("/home/u"), None, Some("/home/u/.local/share/ralph")),
            (Some("/home/u"), Some("/x"), Some("/x/ralph")),
            (Some("/home/u"), Some("relative"), Some("/home/u/.local/share/ralph")),
            (None, None, None),
        ] {
            let variable = |name: &str| if name == "HOME" { home } else { xdg }.map(Into::into);
            assert_eq!(
                find_data_directory(variable),
                expect.map(PathBuf::from),
                "{home:?} {xdg:?}"
            );
        }
    }
}
