//! Reads an agent's tool call into the parts that the guard checks.

use serde_json::Value;

use super::access::{AccessMode, PathAccess};
use super::word::Word;

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardedToolCall {
    Shell(String),
    /// Reads or writes of files.
    Files(Vec<PathAccess>),
    /// A call that the guard does not check.
    Other,
}

/// Names of arguments that contain a path.
const PATHS: [&str; 14] = [
    "file_path",
    "notebook_path",
    "path",
    "filepath",
    "filePath",
    "file",
    "filename",
    "file_name",
    "destination",
    "target",
    "source",
    "target_file",
    "relative_path",
    "uri",
];

/// Parts of the names of tools that change files.
const CHANGES: [&str; 15] = [
    "write", "edit", "create", "delete", "remove", "move", "rename", "append", "replace", "insert",
    "patch", "save", "update", "mkdir", "copy",
];

impl GuardedToolCall {
    /// Reads a call from the tool's name and its input.
    pub fn new(tool: &str, input: &Value) -> Self {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match tool {
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => {
                Self::from_file_input(input, AccessMode::Write)
            }
            "Read" | "NotebookRead" => Self::from_file_input(input, AccessMode::Read),
            "Grep" => Self::from_file_input(input, AccessMode::ReadAll),
            _ => match text("command").or_else(|| text("cmd")) {
                Some(command) => Self::Shell(command.to_owned()),
                None if tool.starts_with("mcp__") => {
                    let name = tool.to_ascii_lowercase();
                    let changes = CHANGES.iter().any(|word| name.contains(word));
                    Self::from_file_input(
                        input,
                        if changes { AccessMode::Write } else { AccessMode::Use },
                    )
                }
                None => Self::Other,
            },
        }
    }

    fn from_file_input(input: &Value, mode: AccessMode) -> Self {
        let mut accesses = Vec::new();
        let mut add = |path: &str| {
            let path = path.strip_prefix("file://").unwrap_or(path);
            if !path.is_empty() && !path.contains("://") {
                accesses.push(PathAccess { path: Word::new(path), mode });
            }
        };
        for name in PATHS {
            if let Some(path) = input.get(name).and_then(Value::as_str) {
                add(path);
            }
        }
        for path in input.get("paths").and_then(Value::as_array).into_iter().flatten() {
            path.as_str().into_iter().for_each(&mut add);
        }
        if accesses.is_empty() { Self::Other } else { Self::Files(accesses) }
    }
}
