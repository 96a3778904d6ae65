//! Finds out from a project's own files how it is checked: tests, lint, types.
//!
//! What it finds is a proposal, so it reads little and guesses nothing. Not here: whether the
//! commands succeed.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::settings::types::gate::GateKind;

/// Build files are some kilobytes; of a larger one the beginning is enough.
const LARGEST: u64 = 1 << 20;

/// A command that checks a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// What it checks.
    pub(crate) kind: GateKind,
    /// The command.
    pub(crate) command: String,
}

/// Returns the commands that check a project, in the words alone.
pub(crate) fn verify_commands(project: &Path) -> Vec<String> {
    gates(project).into_iter().map(|found| found.command).collect()
}

/// Returns the commands that check a project. Its Makefile is its own word on that; without one,
/// the usual commands of its tools are taken.
pub(crate) fn gates(project: &Path) -> Vec<Found> {
    let by_make = make(project);
    if !by_make.is_empty() {
        return by_make;
    }
    [cargo(project), node(project), go(project), python(project)].concat()
}

fn test(command: String) -> Found {
    Found { kind: GateKind::Test, command }
}

fn lint(command: String) -> Found {
    Found { kind: GateKind::Lint, command }
}

/// Returns a command that runs a script or target of this name.
fn named(name: &str, command: String) -> Found {
    match name {
        "test" | "check" => test(command),
        _ => lint(command),
    }
}

fn make(project: &Path) -> Vec<Found> {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let Some(text) = names.iter().find_map(|name| read(project, name)) else { return Vec::new() };
    let has = |target: &str| {
        text.lines().any(|line| {
            let rest = line.strip_prefix(target).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
        })
    };
    // `check` is what runs everything, by an old custom.
    let targets: &[&str] = if has("check") { &["check"] } else { &["test", "lint", "typecheck"] };
    let targets = targets.iter().filter(|it| has(it));
    targets.map(|target| named(target, format!("make {target}"))).collect()
}

fn cargo(project: &Path) -> Vec<Found> {
    let Some(manifest) = read(project, "Cargo.toml") else { return Vec::new() };
    let is_workspace = manifest.lines().any(|line| line.trim() == "[workspace]");
    let all = if is_workspace { " --workspace" } else { "" };
    let mut commands = vec![test(format!("cargo test{all}"))];
    let has_lints = manifest.contains("lints]") || manifest.contains("lints.clippy]");
    if has_lints || read(project, "clippy.toml").is_some() {
        commands.push(lint(format!("cargo clippy{all} --all-targets")));
    }
    commands
}

fn node(project: &Path) -> Vec<Found> {
    let manifest: Option<Value> =
        read(project, "package.json").and_then(|text| serde_json::from_str(&text).ok());
    let Some(manifest) = manifest else { return Vec::new() };
    let locks = [
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
    ];
    let runner = locks.iter().find(|(lock, _)| project.join(lock).is_file());
    let runner = runner.map_or("npm", |(_, runner)| runner);
    let is_real = |script: &&str| {
        let command = manifest["scripts"][*script].as_str().unwrap_or_default();
        // npm writes this one itself where there are no tests.
        !command.trim().is_empty() && !command.contains("no test specified")
    };
    let scripts = ["test", "lint", "typecheck", "type-check", "check-types"];
    let scripts = scripts.iter().filter(|it| is_real(it));
    scripts.map(|script| named(script, format!("{runner} run {script}"))).collect()
}

fn go(project: &Path) -> Vec<Found> {
    match read(project, "go.mod") {
        Some(_) => vec![test("go test ./...".to_owned()), lint("go vet ./...".to_owned())],
        None => Vec::new(),
    }
}

fn python(project: &Path) -> Vec<Found> {
    let Some(manifest) = read(project, "pyproject.toml") else { return Vec::new() };
    let prefix = if project.join("uv.lock").is_file() {
        "uv run "
    } else if project.join("poetry.lock").is_file() {
        "poetry run "
    } else {
        ""
    };
    let command = |command: &str| format!("{prefix}{command}");
    let tools = [
        ("pytest", test(command("pytest"))),
        ("[tool.ruff", lint(command("ruff check ."))),
        ("[tool.mypy", lint(command("mypy ."))),
    ];
    tools.into_iter().filter(|(sign, _)| manifest.contains(sign)).map(|(_, found)| found).collect()
}

/// Reads the beginning of an ordinary file of the project.
fn read(project: &Path, name: &str) -> Option<String> {
    let path = project.join(name);
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        let project = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(project.path().join(name), text).expect("written");
        }
        assert_eq!(verify_commands(project.path()), expect, "{files:?}");
    }

    #[test]
    fn projects_say_how_they_are_checked() {
        check(&[], &[]);
        check(&[("Cargo.toml", "[package]\nname = \"a\"\n")], &["cargo test"]);
        check(
            &[("Cargo.toml", "[workspace]\n[workspace.lints.clippy]\n")],
            &["cargo test --workspace", "cargo clippy --workspace --all-targets"],
        );
        let scripts = r#"{"scripts": {"test": "vitest", "lint": "eslint .", "build": "x"}}"#;
        check(&[("package.json", scripts)], &["npm run test", "npm run lint"]);
        check(
            &[("package.json", scripts), ("pnpm-lock.yaml", "")],
            &["pnpm run test", "pnpm run lint"],
        );
        let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        check(&[("package.json", fresh)], &[]);
        check(&[("package.json", "{ broken")], &[]);
        check(&[("go.mod", "module a\n")], &["go test ./...", "go vet ./..."]);
        let python = "[tool.pytest.ini_options]\n[tool.ruff]\n";
        check(&[("pyproject.toml", python)], &["pytest", "ruff check ."]);
        check(
            &[("pyproject.toml", python), ("uv.lock", "")],
            &["uv run pytest", "uv run ruff check ."],
        );
        check(
            &[("Cargo.toml", "[package]\n"), ("go.mod", "")],
            &["cargo test", "go test ./...", "go vet ./..."],
        );
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let project = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(project.path().join(name), text).expect("written");
        };
        let kinds = || gates(project.path()).iter().map(|it| it.kind).collect::<Vec<_>>();
        write("package.json", r#"{"scripts": {"test": "vitest", "check-types": "tsc"}}"#);
        write("go.mod", "module a\n");
        let (test, lint) = (GateKind::Test, GateKind::Lint);
        assert_eq!(kinds(), [test, lint, test, lint]);
        write("Makefile", "check:\n\tx\n");
        assert_eq!(kinds(), [test]);
    }

    #[test]
    fn a_makefile_is_the_projects_own_word() {
        let cargo = ("Cargo.toml", "[package]\n");
        check(
            &[cargo, ("Makefile", "test: build\n\tx\nlint :\n\ty\n")],
            &["make test", "make lint"],
        );
        check(&[cargo, ("Makefile", "test:\n\ncheck: test\n")], &["make check"]);
        check(&[cargo, ("Makefile", "test := 1\ntests:\n.PHONY: test\n")], &["cargo test"]);
    }
}
