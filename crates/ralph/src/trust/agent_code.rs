//! Finds files of a project in which an agent finds programs to start, such as hooks and MCP
//! servers. They run next to the agent, with its login and keys, so they need the user's trust.
//!
//! Each adapter lists the files and their keys. Not here: settings of ralph itself (`demands`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_agents::configuration::{ConfigFile, ConfigFormat, import_config};
use ralph_agents::find_adapter;
use ralph_io::bounded_read;
use ralph_model::agent::AgentKind;
use serde_json::json;

use super::demands::{find_gate_agent, find_login};
use crate::settings::problem::{Position, SettingOrigin};

use crate::settings::{Loosening, LooseningCause, Settings, find_work_tree_top};

/// A configuration file of an agent is some kilobytes.
const LARGEST_FILE: u64 = 1 << 20;

/// How many files of a directory are asked about; a plugin has a few.
const MOST_FILES: usize = 200;

/// Returns the demands of the files that the agents of the settings would load.
pub(crate) fn find_agent_code(settings: &Settings, directory: &Path) -> Vec<Loosening> {
    let sections = settings.agents.sections().into_iter();
    let agents = sections.map(|(_, section)| section.with_defaults_from(&settings.agent));
    let gates = settings.gates.iter().filter_map(|gate| find_gate_agent(settings, gate));
    let kinds: BTreeSet<AgentKind> =
        agents.chain(gates).filter_map(|agent| find_login(&agent)).collect();
    find_code_for(kinds, directory)
}

/// Returns the demands of the files that any agent would load: a flag may choose another agent
/// than the settings.
pub(crate) fn find_code_for_any_agent(directory: &Path) -> Vec<Loosening> {
    find_code_for(AgentKind::ALL.iter().copied(), directory)
}

fn find_code_for(kinds: impl IntoIterator<Item = AgentKind>, directory: &Path) -> Vec<Loosening> {
    let mut demands = Vec::new();
    // Some agents also read the files of the directories above, up to the top of the work tree.
    let top = find_work_tree_top(directory);
    let places: Vec<&Path> =
        directory.ancestors().take_while(|place| place.starts_with(top)).collect();
    for kind in kinds {
        let code = find_adapter(kind).project_code.iter();
        let code = code.flat_map(|file| places.iter().enumerate().map(move |it| (file, it)));
        let files = code.flat_map(|(file, (above, place))| {
            let found = list_files(file, place).into_iter();
            found.map(move |(name, path)| (file, ("../".repeat(above) + &name, path)))
        });
        for (file, (key, path)) in files {
            let Ok(content) = bounded_read::read_beginning(&path, LARGEST_FILE) else { continue };
            let read = import_config(file, &content);
            let name = kind.name();
            let is_code = file.format == ConfigFormat::Text && file.removed_keys.is_empty();
            let effect = match read.removed_keys.as_slice() {
                [] if is_code => format!("is loaded by {name}, with your login and keys"),
                [] if read.is_understood => continue,
                [] => format!("cannot be read, and {name} may start what it names"),
                keys => {
                    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                    format!(
                        "has {}: {name} would use them, with your login and keys",
                        keys.join(", ")
                    )
                }
            };
            demands.push(Loosening {
                key,
                asks: json!(read.removed_keys),
                origin: SettingOrigin::File {
                    path: path.clone(),
                    position: Position { line: 1, column: 1 },
                },
                cause: LooseningCause::Demand {
                    effect,
                    // Of the content alone: several agents may read the same file.
                    digest: bounded_read::compute_digest("agent file", Some(&path)),
                },
            });
        }
    }
    demands
}

/// Returns the files that a row of an adapter is about, with their names.
fn list_files(file: &ConfigFile, place: &Path) -> Vec<(String, PathBuf)> {
    let Some(directory) = file.file.strip_suffix("/*") else {
        return vec![(file.file.to_owned(), place.join(file.file))];
    };
    let mut open = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(place.join(&directory)).into_iter().flatten().flatten();
        for entry in entries.take(MOST_FILES) {
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            if !path.is_dir() {
                found.push((name, path));
            } else if open.len() + found.len() < MOST_FILES {
                open.push(name);
            }
        }
    }
    found.sort();
    found.truncate(MOST_FILES);
    found
}

#[cfg(test)]
mod tests {

    use super::*;

    #[track_caller]
    fn check(command: &str, file: &str, text: &str, expect: &[&str]) {
        let project = tempfile::tempdir().expect("a directory");
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, text).expect("written");
        let mut settings = Settings::default();
        settings.agent.command = Some(command.to_owned());
        let found: Vec<String> = find_agent_code(&settings, project.path())
            .into_iter()
            .map(|it| match it.cause {
                LooseningCause::Demand { effect, .. } => format!("{} {effect}", it.key),
                LooseningCause::BeyondBound { .. } => String::new(),
            })
            .collect();
        assert_eq!(found, expect, "{command} {file} {text}");
    }

    #[test]
    fn programs_that_a_project_gives_to_an_agent_are_found() {
        let hooks = r#"{"hooks": {"Stop": []}, "model": "x"}"#;
        let uses = |kind: &str, keys: &str, file: &str| {
            format!("{file} has {keys}: {kind} would use them, with your login and keys")
        };
        let claude = ".claude/settings.json";
        check("claude", claude, hooks, &[&uses("claude", "`hooks`", claude)]);
        check("claude", claude, r#"{"model": "x"}"#, &[]);
        let servers = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
        check("claude", ".mcp.json", servers, &[&uses("claude", "`mcpServers`", ".mcp.json")]);
        let gemini = ".gemini/settings.json";
        check("gemini", gemini, servers, &[&uses("gemini", "`mcpServers`", gemini)]);
        let toml = "[mcp_servers.x]\ncommand = \"y\"\n";
        let codex = ".codex/config.toml";
        check("codex", codex, toml, &[&uses("codex", "`mcp_servers`", codex)]);
        check("codex", codex, "model = \"x\"\n", &[]);
        let local = r#"{"mcp": {}, /* why */ "plugin": []}"#;
        let keys = "`mcp`, `plugin`";
        check("opencode", "opencode.jsonc", local, &[&uses("opencode", keys, "opencode.jsonc")]);
    }

    #[test]
    fn every_agent_with_a_login_has_files_that_are_asked_about() {
        for kind in AgentKind::ALL.iter().copied() {
            let adapter = find_adapter(kind);
            assert_eq!(adapter.env.is_none(), adapter.project_code.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn code_that_an_agent_loads_from_the_project_is_found() {
        let loaded = |kind: &str, file: &str| {
            format!("{file} is loaded by {kind}, with your login and keys")
        };
        for (kind, file) in [
            ("opencode", ".opencode/plugin/a.ts"),
            ("opencode", ".opencode/plugins/a/b.js"),
            ("opencode", ".opencode/tool/a.ts"),
            ("codex", ".codex/hooks.json"),
            ("gemini", ".gemini/extensions/x/gemini-extension.json"),
            ("qwen", ".qwen/extensions/x/qwen-extension.json"),
            ("aider", ".aider.conf.yml"),
            ("pi", ".pi/extensions/x.ts"),
            ("amp", ".amp/plugins/x.ts"),
            ("cline", ".cline/hooks/PreToolUse"),
            ("copilot", ".github/hooks/x.json"),
        ] {
            check(kind, file, "x", &[&loaded(kind, file)]);
        }
        let uses = |kind: &str, file: &str, keys: &str| {
            format!("{file} has {keys}: {kind} would use them, with your login and keys")
        };
        for (kind, file, text, keys) in [
            (
                "gemini",
                ".gemini/.env",
                "GOOGLE_GEMINI_BASE_URL=http://x\n",
                "`*_BASE_URL`, `GOOGLE_*`",
            ),
            ("qwen", ".env", "export openai_base_url='http://x'\n", "`*_BASE_URL`"),
            ("aider", ".env", "AIDER_LINT_CMD=x\n", "`AIDER_*`"),
            ("claude", ".claude/agents/a.md", "---\nhooks:\n  Stop: x\n---\n", "`hooks`"),
            ("claude", ".claude/settings.json", r#"{"statusLine": {}}"#, "`statusLine`"),
            ("pi", ".pi/settings.json", r#"{"extensions": ["./x.ts"]}"#, "`extensions`"),
            ("amp", ".amp/settings.json", r#"{"amp.mcpServers": {}}"#, "`amp.mcpServers`"),
            ("copilot", ".vscode/mcp.json", r#"{"servers": {}}"#, "`servers`"),
        ] {
            check(kind, file, text, &[&uses(kind, file, keys)]);
        }
        check("gemini", ".env", "PORT=8080\nDATABASE_URL=x\n", &[]);
        check("claude", ".claude/agents/a.md", "---\nname: a\n---\nReview.\n", &[]);
    }

    #[test]
    fn files_of_other_agents_do_not_matter() {
        check("codex", ".mcp.json", r#"{"mcpServers": {"x": {}}}"#, &[]);
        check("./agent.sh", ".claude/settings.json", r#"{"hooks": {}}"#, &[]);
    }

    #[test]
    fn an_unreadable_file_is_not_harmless() {
        check(
            "claude",
            ".mcp.json",
            "{\"mcpServers\": ",
            &[".mcp.json cannot be read, and claude may start what it names"],
        );
    }
}
