//! Versions of toolchains that a project names and that are not the ones here: gates would fail
//! with errors that no agent can fix.
//!
//! Not here: whether the programs of gates exist.

use std::fs;
use std::path::PathBuf;

use ralph_io::bounded_read;
use ralph_io::process::Watch;
use ralph_io::versions::{ProgramContext, Versions};

use crate::project::Project;

/// More than such a file holds.
const LARGEST: u64 = 1 << 16;

/// A toolchain that is missing, or has another version than the project names.
pub(crate) struct ToolchainMismatch {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// What to do about it.
    pub(crate) hint: String,
}

/// Returns the toolchains that do not match.
pub(crate) fn find_mismatches(project: &Project) -> Vec<ToolchainMismatch> {
    let checks = [check_rust_toolchain, check_node, check_virtualenv];
    checks.into_iter().filter_map(|check| check(project)).collect()
}

/// Returns a warning for each of them, for the start of a run.
pub(crate) fn list_warnings(project: &Project) -> Vec<String> {
    find_mismatches(project).into_iter().map(|it| format!("{}; {}", it.title, it.hint)).collect()
}

fn read_text(project: &Project, file: &str) -> Option<String> {
    let text = bounded_read::read_file(&project.directory.join(file), LARGEST).ok()?;
    String::from_utf8(text).ok()
}

/// rustup would fetch a missing toolchain in each gate, and cannot in a sandbox.
fn check_rust_toolchain(project: &Project) -> Option<ToolchainMismatch> {
    let mut files = ["rust-toolchain.toml", "rust-toolchain"].into_iter();
    let (file, text) = files.find_map(|file| Some((file, read_text(project, file)?)))?;
    let channel = find_toolchain_channel(&text)?;
    let variable = |name: &str| {
        let value = project.env.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        value.map(PathBuf::from)
    };
    let home = variable("RUSTUP_HOME").or_else(|| Some(variable("HOME")?.join(".rustup")))?;
    // Without rustup the file has no effect.
    let mut installed = fs::read_dir(home.join("toolchains")).ok()?.flatten();
    let is_installed = installed.any(|it| {
        let name = it.file_name();
        name.to_str()
            .and_then(|name| name.strip_prefix(channel))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    (!is_installed).then(|| ToolchainMismatch {
        name: "rust toolchain",
        title: format!("the Rust toolchain {channel} of {file} is not installed"),
        hint: format!("rustup toolchain install {channel}"),
    })
}

/// Returns the toolchain that a file for rustup names, in either of its forms.
fn find_toolchain_channel(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    let value = if text.contains('[') {
        lines.find_map(|line| line.strip_prefix("channel")?.trim_start().strip_prefix('='))?
    } else {
        lines.find(|line| !line.is_empty())?
    };
    let value = value.trim().trim_matches(['"', '\'']);
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    (!value.is_empty() && value.chars().all(is_plain)).then_some(value)
}

fn check_node(project: &Project) -> Option<ToolchainMismatch> {
    let mut files = [".nvmrc", ".node-version"].into_iter();
    let (file, wanted) = files.find_map(|file| Some((file, read_text(project, file)?)))?;
    let wanted = wanted.trim().trim_start_matches('v');
    let watch = Watch::new_detached();
    let place = ProgramContext { directory: &project.directory, env: &project.env, watch: &watch };
    let found = Versions::open(None).find_version("node", place)?.to_string();
    is_other_version(wanted, &found).then(|| ToolchainMismatch {
        name: "node",
        title: format!("{file} asks for Node {wanted}, and `node` is {found}"),
        hint: format!("start ralph with Node {wanted} on the PATH, for example after `nvm use`"),
    })
}

fn check_virtualenv(project: &Project) -> Option<ToolchainMismatch> {
    let directory = [".venv", "venv"]
        .into_iter()
        .find(|it| project.directory.join(it).join("pyvenv.cfg").is_file())?;
    let mismatch = |title| {
        let hint = format!(
            "make it again: `rm -r {directory}`, then `python3 -m venv {directory}` and install"
        );
        Some(ToolchainMismatch { name: "virtualenv", title, hint })
    };
    let program = format!("{directory}/bin/python");
    if !project.directory.join(&program).exists() {
        return mismatch(format!(
            "the virtualenv {directory} has no Python: {program} leads nowhere"
        ));
    }
    let settings = read_text(project, &format!("{directory}/pyvenv.cfg"))?;
    let found = settings.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "version" | "version_info").then(|| value.trim())
    })?;
    let wanted = read_text(project, ".python-version")?;
    let wanted = wanted.trim();
    if !is_other_version(wanted, found) {
        return None;
    }
    mismatch(format!(
        ".python-version asks for {wanted}, and the virtualenv {directory} has Python {found}"
    ))
}

/// Returns whether a version of plain numbers, of which some may be missing, is another one. Names
/// such as `lts/*` and ranges are not compared.
fn is_other_version(wanted: &str, found: &str) -> bool {
    let is_plain = wanted.split('.').all(|it| it.parse::<u32>().is_ok());
    is_plain && !wanted.split('.').zip(found.split('.')).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_far_as_they_are_named() {
        for (wanted, found, expect) in [
            ("20", "20.11.0", false),
            ("20.11", "20.12.0", true),
            ("3.12", "3.12.3.final.0", false),
            ("3.1", "3.12.3", true),
            ("lts/*", "20.11.0", false),
            ("", "20.11.0", false),
            (">=3.8", "3.12.3", false),
        ] {
            assert_eq!(is_other_version(wanted, found), expect, "{wanted} {found}");
        }
    }
}
