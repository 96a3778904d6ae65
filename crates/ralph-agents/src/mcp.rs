//! A file that lists MCP servers, in the format that most agents share: `{"mcpServers": {...}}`.
//!
//! Not here: how each agent takes servers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An MCP server that an agent can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerSpec {
    pub name: String,
    pub transport: McpTransport,
}

/// How the agent connects to an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A process that the agent starts.
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
    Remote {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// Why a file of MCP servers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("it is not a JSON object with `mcpServers`")]
    NotServers(#[from] serde_json::Error),
    #[error("the server `{name}` has neither a `command` nor a `url`")]
    NoTransport { name: String },
}

/// Parses the text of a file that lists MCP servers.
pub fn parse_mcp_servers(text: &str) -> Result<Vec<McpServerSpec>, McpError> {
    let file: McpConfigFile = serde_json::from_str(text)?;
    file.servers
        .into_iter()
        .map(|(name, entry)| {
            let transport = match (entry.command, entry.url.or(entry.http_url)) {
                (Some(command), _) => {
                    McpTransport::Stdio { command, args: entry.args, env: entry.env }
                }
                (None, Some(url)) => McpTransport::Remote { url, headers: entry.headers },
                (None, None) => return Err(McpError::NoTransport { name }),
            };
            Ok(McpServerSpec { name, transport })
        })
        .collect()
}

#[derive(Debug, Deserialize)]
struct McpConfigFile {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, McpServerEntry>,
}

#[derive(Debug, Deserialize)]
struct McpServerEntry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(rename = "httpUrl")]
    http_url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_processes_or_addresses() {
        let text = r#"{"mcpServers": {
            "memory": {"command": "ralph", "args": ["mcp", "memory"], "env": {"A": "1"}, "alwaysLoad": true},
            "docs": {"type": "http", "url": "https://example.invalid/mcp", "headers": {"X": "y"}}
        }, "other": 1}"#;
        let expect = [
            McpServerSpec {
                name: "docs".into(),
                transport: McpTransport::Remote {
                    url: "https://example.invalid/mcp".into(),
                    headers: BTreeMap::from([("X".into(), "y".into())]),
                },
            },
            McpServerSpec {
                name: "memory".into(),
                transport: McpTransport::Stdio {
                    command: "ralph".into(),
                    args: vec!["mcp".into(), "memory".into()],
                    env: BTreeMap::from([("A".into(), "1".into())]),
                },
            },
        ];
        assert_eq!(parse_mcp_servers(text).expect("servers"), expect);
        assert_eq!(parse_mcp_servers(r#"{"mcpServers": {}}"#).expect("none"), []);
    }

    #[test]
    fn invalid_server_files_are_rejected() {
        for (text, expect) in [
            ("{}", "`mcpServers`"),
            ("not json", "`mcpServers`"),
            ("[]", "`mcpServers`"),
            (r#"{"mcpServers": {"x": {}}}"#, "`x` has neither"),
            (r#"{"mcpServers": {"x": {"command": 7}}}"#, "`mcpServers`"),
        ] {
            let error = parse_mcp_servers(text).expect_err(text);
            assert!(error.to_string().contains(expect), "{text}: {error}");
        }
    }
}
