//! Scripts of a `package.json`, run by the package manager whose lock file is nearest. Deno is in
//! `toolchains`.

use serde_json::Value;

use super::{ProjectCheck, ProjectDirectory};

/// A package manager: its lock files, and how it runs scripts and programs.
struct PackageManager {
    name: &'static str,
    locks: &'static [&'static str],
    /// Runs a program of the project.
    exec: &'static str,
    /// Runs a script in all packages of a workspace that have it.
    everywhere: &'static str,
}

const MANAGERS: [PackageManager; 4] = [
    PackageManager {
        name: "pnpm",
        locks: &["pnpm-lock.yaml", "pnpm-workspace.yaml"],
        exec: "pnpm exec",
        everywhere: "pnpm --recursive --if-present run ",
    },
    PackageManager {
        name: "yarn",
        locks: &["yarn.lock"],
        exec: "yarn run",
        everywhere: "yarn workspaces foreach --all run ",
    },
    PackageManager {
        name: "bun",
        locks: &["bun.lock", "bun.lockb"],
        exec: "bunx",
        everywhere: "bun run --filter '*' ",
    },
    PackageManager {
        name: "npm",
        locks: &["package-lock.json", "npm-shrinkwrap.json"],
        exec: "npx",
        everywhere: "npm run --workspaces --if-present ",
    },
];

const MANIFEST: &str = "package.json";

/// One of each: tests, style, types.
const SCRIPTS: [&[&str]; 3] = [
    &["test", "test:ci"],
    &["lint"],
    &["typecheck", "type-check", "check-types", "types:check", "tsc"],
];

/// Returns the checks of a package or a workspace of packages.
pub(super) fn detect_node(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let Some(manifest) = read_manifest(directory) else { return Vec::new() };
    let manager = find_manager(directory, &manifest);
    let is_workspace =
        !manifest["workspaces"].is_null() || directory.has_file("pnpm-workspace.yaml");
    let packages = if is_workspace { find_packages(directory) } else { Vec::new() };
    let mut found = Vec::new();
    for names in SCRIPTS {
        let own = names.iter().find(|it| is_real(&manifest, it));
        let theirs = || names.iter().find(|it| packages.iter().any(|one| is_real(one, it)));
        if let Some(script) = own {
            let command = format!("{} run {script}", manager.name);
            found.push(directory.new_named(script, command, MANIFEST));
        } else if let Some(script) = find_turbo_task(directory, names) {
            let command = format!("{} turbo run {script}", manager.exec);
            found.push(directory.new_named(script, command, "turbo.json"));
        } else if let Some(script) = theirs() {
            let command = format!("{}{script}", manager.everywhere);
            found.push(directory.new_named(script, command, MANIFEST));
        }
    }
    let has_types =
        |it: &ProjectCheck| SCRIPTS[2].iter().any(|script| it.command.ends_with(script));
    if directory.has_file("tsconfig.json")
        && uses_typescript(&manifest)
        && !found.iter().any(has_types)
    {
        let command = format!("{} tsc --noEmit", manager.exec);
        found.push(directory.new_lint(command, "tsconfig.json"));
    }
    found
}

fn read_manifest(directory: &ProjectDirectory<'_>) -> Option<Value> {
    directory.read_text(MANIFEST).and_then(|text| serde_json::from_str(text).ok())
}

/// Returns the package manager: the one in the manifest, else the one whose lock file is nearest.
fn find_manager(directory: &ProjectDirectory<'_>, manifest: &Value) -> &'static PackageManager {
    let [.., npm] = &MANAGERS;
    let named = manifest["packageManager"].as_str().and_then(|it| it.split('@').next());
    let by_name = MANAGERS.iter().find(|it| Some(it.name) == named);
    let here = || MANAGERS.iter().find(|it| directory.find_first(it.locks).is_some());
    let above =
        || MANAGERS.iter().find(|it| it.locks.iter().any(|lock| directory.has_here_or_above(lock)));
    by_name.or_else(here).or_else(above).unwrap_or(npm)
}

/// Returns the manifests below.
fn find_packages(directory: &ProjectDirectory<'_>) -> Vec<Value> {
    let prefix = directory.join_path("");
    let below = directory.tree.files.iter().filter(|(path, _)| {
        path.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with("/package.json"))
    });
    below.filter_map(|(_, text)| serde_json::from_str(text).ok()).collect()
}

/// Returns whether a script checks something and terminates.
fn is_real(manifest: &Value, script: &str) -> bool {
    let command = manifest["scripts"][script].as_str().unwrap_or_default();
    // npm writes this script itself if there are no tests.
    let is_placeholder = command.contains("no test specified");
    let watches = command.split_whitespace().any(|word| word.starts_with("--watch"));
    !command.trim().is_empty() && !is_placeholder && !watches
}

fn find_turbo_task<'a>(directory: &ProjectDirectory<'_>, names: &[&'a str]) -> Option<&'a str> {
    let turbo: Value = serde_json::from_str(directory.read_text("turbo.json")?).ok()?;
    let has = |name: &str| ["tasks", "pipeline"].iter().any(|key| !turbo[key][name].is_null());
    names.iter().copied().find(|name| has(name))
}

fn uses_typescript(manifest: &Value) -> bool {
    ["dependencies", "devDependencies"].iter().any(|key| !manifest[key]["typescript"].is_null())
}
