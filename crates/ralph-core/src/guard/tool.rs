//! What a tool is called for, as far as the guard has a say in it.

use serde_json::Value;

use super::access::{Access, Mode};
use super::lower::Word;

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCall {
    /// A shell command.
    Shell(String),
    /// Files that are read or written.
    Files(Vec<Access>),
    /// Something else.
    Other,
}

/// The names of arguments that hold a path.
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

/// Words in the name of a tool that changes files.
const CHANGES: [&str; 15] = [
    "write", "edit", "create", "delete", "remove", "move", "rename", "append", "replace", "insert",
    "patch", "save", "update", "mkdir", "copy",
];

impl ToolCall {
    /// Reads a call.
    pub fn new(tool: &str, input: &Value) -> Self {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        match tool {
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Self::files(input, Mode::Write),
            "Read" | "NotebookRead" => Self::files(input, Mode::Read),
            "Grep" => Self::files(input, Mode::ReadAll),
            _ => match text("command").or_else(|| text("cmd")) {
                Some(command) => Self::Shell(command.to_owned()),
                None if tool.starts_with("mcp__") => {
                    let name = tool.to_ascii_lowercase();
                    let changes = CHANGES.iter().any(|word| name.contains(word));
                    Self::files(input, if changes { Mode::Write } else { Mode::Use })
                }
                None => Self::Other,
            },
        }
    }

    fn files(input: &Value, mode: Mode) -> Self {
        let mut accesses = Vec::new();
        let mut add = |path: &str| {
            let path = path.strip_prefix("file://").unwrap_or(path);
            if !path.is_empty() && !path.contains("://") {
                accesses.push(Access { path: Word::new(path), mode });
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
