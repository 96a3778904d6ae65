//! A file that names MCP servers, in the form that most agents share: `{"mcpServers": {...}}`.
//!
//! Not here: how each agent takes servers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A server that an agent can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// As a process that the agent starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables it gets.
        env: BTreeMap<String, String>,
    },
    /// Over the network.
    Remote {
        /// Where it is.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
}

/// A file that names no servers an agent could use.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// It is not what agents read.
    #[error("it is not a JSON object with `mcpServers`")]
    NotServers(#[from] serde_json::Error),
    /// A server can neither be started nor reached.
    #[error("the server `{name}` has neither a `command` nor a `url`")]
    NoTransport {
        /// The server.
        name: String,
    },
}

/// Reads the text of a file that names MCP servers.
pub fn mcp_servers(text: &str) -> Result<Vec<McpServer>, McpError> {
    let file: File = serde_json::from_str(text)?;
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
            Ok(McpServer { name, transport })
        })
        .collect()
}

#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
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
            McpServer {
                name: "docs".into(),
                transport: McpTransport::Remote {
                    url: "https://example.invalid/mcp".into(),
                    headers: BTreeMap::from([("X".into(), "y".into())]),
                },
            },
            McpServer {
                name: "memory".into(),
                transport: McpTransport::Stdio {
                    command: "ralph".into(),
                    args: vec!["mcp".into(), "memory".into()],
                    env: BTreeMap::from([("A".into(), "1".into())]),
                },
            },
        ];
        assert_eq!(mcp_servers(text).expect("servers"), expect);
        assert_eq!(mcp_servers(r#"{"mcpServers": {}}"#).expect("none"), []);
    }

    #[test]
    fn what_agents_would_refuse_is_refused_before_them() {
        for (text, expect) in [
            ("{}", "`mcpServers`"),
            ("not json", "`mcpServers`"),
            ("[]", "`mcpServers`"),
            (r#"{"mcpServers": {"x": {}}}"#, "`x` has neither"),
            (r#"{"mcpServers": {"x": {"command": 7}}}"#, "`mcpServers`"),
        ] {
            let error = mcp_servers(text).expect_err(text);
            assert!(error.to_string().contains(expect), "{text}: {error}");
        }
    }
}
