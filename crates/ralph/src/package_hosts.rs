//! Reads from which servers the user's package managers fetch, for `sandbox.network.packages`.
//!
//! Not here: the package managers and their files, and the proxy that lets these servers through.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::sandbox::package_hosts::{
    PACKAGE_TOOLS, PackageTool, find_answer_hosts, has_login,
};
use ralph_io::bounded_read;
use ralph_io::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};
use ralph_io::sandbox::is_free_of_credentials;
use ralph_model::sandbox::SandboxPolicy;
use serde_json::json;

use crate::settings::problem::{Position, SettingOrigin};
use crate::settings::{Loosening, LooseningCause, Settings};

/// Configuration files are some kilobytes.
const LARGEST_FILE: u64 = 1 << 20;

/// `npm config get` takes half a second, on a busy machine several.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of an answer is kept.
const KEPT: usize = 4096;

/// Returns whether a project has packages that a package manager fetches.
pub(crate) fn has_packages(project: &Path) -> bool {
    PACKAGE_TOOLS.iter().any(|tool| is_used(tool, project))
}

/// Adds the servers of the project's package managers to a policy that wants them and has none yet,
/// and the variables and files that name them, without those with credentials. Returns warnings.
pub(crate) fn add_package_hosts(
    policy: &mut SandboxPolicy,
    project: &Path,
    env: &[(OsString, OsString)],
) -> Vec<String> {
    if policy.network.packages.as_ref().is_none_or(|known| !known.is_empty()) {
        return Vec::new();
    }
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for tool in PACKAGE_TOOLS.iter().filter(|tool| is_used(tool, project)) {
        let mut hosts = find_configured_hosts(tool, project, env);
        policy.env.extend(list_plain_variables(tool, env));
        policy.home.extend(list_plain_files(tool, env));
        if hosts.is_empty() {
            hosts = ask_tool(tool, env);
        }
        if hosts.is_empty() {
            warnings.push(format!(
                "`sandbox.network.packages`: it is not known from where {} fetches packages; name the host in `sandbox.network.allow`",
                tool.name
            ));
        }
        all.extend(hosts);
    }
    all.sort();
    all.dedup();
    policy.network.packages = Some(all);
    warnings
}

/// Returns what needs trust: the servers that the project's own files name.
pub(crate) fn find_project_hosts(settings: &Settings, project: &Path) -> Vec<Loosening> {
    if !settings.sandbox.network.packages {
        return Vec::new();
    }
    let files = PACKAGE_TOOLS.iter().filter(|tool| is_used(tool, project)).flat_map(|tool| {
        tool.project_files.iter().map(move |file| (*file, read_hosts(tool, &project.join(file))))
    });
    let demands = files.filter(|(_, hosts)| !hosts.is_empty()).map(|(file, hosts)| {
        let list = hosts.join(", ");
        Loosening {
            key: file.to_owned(),
            asks: json!(hosts),
            origin: SettingOrigin::File {
                path: project.join(file),
                position: Position { line: 1, column: 1 },
            },
            cause: LooseningCause::Demand {
                digest: bounded_read::compute_digest(&list, None),
                effect: format!("names {list}: agents and gates would fetch packages from there"),
            },
        }
    });
    demands.collect()
}

fn is_used(tool: &PackageTool, project: &Path) -> bool {
    tool.manifests.iter().any(|name| project.join(name).is_file())
}

fn find_configured_hosts(
    tool: &PackageTool,
    project: &Path,
    env: &[(OsString, OsString)],
) -> Vec<String> {
    let variable = |name: &str| find_variable(env, name);
    let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
    let in_home = tool.user_files.iter().map(|file| home.join(file));
    let files = tool.project_files.iter().map(|file| project.join(file)).chain(in_home);
    let values = tool.variables.iter().filter_map(|name| variable(name));
    files
        .flat_map(|file| read_hosts(tool, &file))
        .chain(values.flat_map(find_answer_hosts))
        .collect()
}

fn find_variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
    let found = env.iter().find(|(known, _)| known == name);
    found.and_then(|(_, value)| value.to_str())
}

/// Returns the files in the home that name servers and hold nothing that looks like a credential.
fn list_plain_files(tool: &PackageTool, env: &[(OsString, OsString)]) -> Vec<String> {
    let home = find_variable(env, "HOME").map(PathBuf::from).unwrap_or_default();
    let is_plain = |file: &&&str| {
        let content = bounded_read::read_file(&home.join(file), LARGEST_FILE).unwrap_or_default();
        let text = String::from_utf8_lossy(&content);
        !tool.find_hosts(&text).is_empty() && is_free_of_credentials(&text)
    };
    let in_home = tool.user_files.iter().filter(|file| !file.starts_with('/'));
    in_home.filter(is_plain).map(|file| (*file).to_owned()).collect()
}

fn read_hosts(tool: &PackageTool, file: &Path) -> Vec<String> {
    let content = bounded_read::read_file(file, LARGEST_FILE).unwrap_or_default();
    tool.find_hosts(&String::from_utf8_lossy(&content))
}

/// Returns the variables of a tool that are set and hold no login.
fn list_plain_variables(tool: &PackageTool, env: &[(OsString, OsString)]) -> Vec<String> {
    let is_plain = |name: &&&str| {
        env.iter().any(|(known, value)| known == **name && !has_login(&value.to_string_lossy()))
    };
    tool.variables.iter().filter(is_plain).map(|name| (*name).to_owned()).collect()
}

/// Asks a tool for its servers, outside of the project: its files do not count here.
fn ask_tool(tool: &PackageTool, env: &[(OsString, OsString)]) -> Vec<String> {
    let Some((program, args)) = tool.question.split_first() else { return Vec::new() };
    let spawn = Spawn {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: env.to_vec(),
        stdin: StdinSource::Null,
        limits: ProcessLimits { hard: Some(QUESTION_TIMEOUT), ..ProcessLimits::default() },
    };
    let answer = capture_output(&spawn, &Watch::new_detached(), KEPT);
    if !answer.end.ending.is_success() {
        return Vec::new();
    }
    find_answer_hosts(&String::from_utf8_lossy(&answer.stdout))
}
