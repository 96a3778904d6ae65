//! The commands that package managers and `npm-run-all` run for a script of `package.json`, also in the
//! packages of a workspace.
//!
//! Not here: what the commands run in turn.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_guard::StartedProgram;
use ralph_io::bounded_read;

use super::named_commands::{MOST_BYTES, NamedCommands, read_option};

/// How deep packages of a workspace are looked for.
const DEEPEST: usize = 3;

/// Most packages of a workspace.
const MOST_PACKAGES: usize = 64;

/// Programs that run scripts of `package.json` one after the other, or at once.
const SCRIPT_LISTS: [&str; 3] = ["npm-run-all", "run-s", "run-p"];

/// Programs that run a script in every package of a workspace.
const WORKSPACE_RUNNERS: [&str; 4] = ["turbo", "nx", "lerna", "wsrun"];

/// Words for all packages of a workspace.
const ALL_PACKAGES: [&str; 8] =
    ["-r", "--recursive", "recursive", "-ws", "--workspaces", "workspaces", "--filter", "-F"];

/// Scripts that an installation runs.
const INSTALL_SCRIPTS: [&str; 4] = ["preinstall", "install", "postinstall", "prepare"];

/// Returns the scripts that a program runs, with the directory of each package.
pub(crate) fn find_package_scripts(
    program: &StartedProgram,
    directory: &Path,
) -> Vec<NamedCommands> {
    let name = program.name.as_str();
    let call = match name {
        "npm" | "pnpm" | "yarn" | "bun" => read_call(program, directory),
        _ if SCRIPT_LISTS.contains(&name) => ScriptCall {
            directory: directory.to_owned(),
            names: program.arguments.clone(),
            is_recursive: false,
        },
        _ if WORKSPACE_RUNNERS.contains(&name) => ScriptCall {
            directory: directory.to_owned(),
            names: list_targets(program),
            is_recursive: true,
        },
        _ => return Vec::new(),
    };
    let nearest = call.directory.ancestors().find(|it| it.join("package.json").is_file());
    let mut packages: BTreeSet<PathBuf> = nearest.map(Path::to_owned).into_iter().collect();
    if call.is_recursive {
        add_packages(directory, 0, &mut packages);
    }
    packages.iter().filter_map(|package| read_scripts(package, &call.names)).collect()
}

/// What a package manager is asked to run.
struct ScriptCall {
    directory: PathBuf,
    names: Vec<String>,
    /// Whether it runs in several packages of a workspace.
    is_recursive: bool,
}

fn read_call(program: &StartedProgram, directory: &Path) -> ScriptCall {
    let mut call = ScriptCall {
        directory: directory.to_owned(),
        names: Vec::new(),
        is_recursive: program
            .arguments
            .iter()
            .any(|word| ALL_PACKAGES.contains(&word.split('=').next().unwrap_or_default())),
    };
    let mut words = program.arguments.iter().map(String::as_str);
    // With pnpm it is an option without a value.
    let workspace: &[&str] = if program.name == "pnpm" { &[] } else { &["-w", "--workspace"] };
    let common: &[&str] = &["-C", "--prefix", "--cwd", "--dir", "-F", "--filter"];
    let places = [common, workspace].concat();
    while let Some(word) = words.next() {
        match read_option(&places, word, &mut words) {
            _ if word == "-ws" => {}
            Some(place) => call.directory.push(place),
            None if word == "workspace" => call.directory.extend(words.next()),
            None if word == "--" => break,
            None if word.starts_with('-') => {}
            None => call.names.push(word.to_owned()),
        }
    }
    // A name of a package is no directory.
    call.is_recursive |= call.directory != directory && !call.directory.is_dir();
    let is_verb = |it: &String| {
        matches!(it.as_str(), "run" | "run-script" | "workspaces" | "foreach" | "recursive")
    };
    let skipped = call.names.iter().take_while(|it| is_verb(it)).count();
    call.names.drain(..skipped);
    call.names.truncate(1);
    match call.names.first().map(String::as_str) {
        Some("t" | "tst") => call.names = vec!["test".to_owned()],
        Some("install" | "i" | "ci") => call.names = INSTALL_SCRIPTS.map(str::to_owned).to_vec(),
        _ => {}
    }
    call
}

/// Returns the words that may name scripts of packages; `web:test` is one of `web`.
fn list_targets(program: &StartedProgram) -> Vec<String> {
    let words = program.arguments.iter().flat_map(|word| word.split(['=', ',']));
    let words = words.filter(|word| !word.starts_with('-') && !word.is_empty());
    words
        .flat_map(|word| [Some(word), word.rsplit_once(':').map(|it| it.1)])
        .flatten()
        .map(str::to_owned)
        .collect()
}

/// Adds the directories with a `package.json`, except installed ones.
fn add_packages(directory: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_skipped = name == "node_modules" || name.to_string_lossy().starts_with('.');
        let is_directory = entry.file_type().is_ok_and(|it| it.is_dir());
        if found.len() >= MOST_PACKAGES || is_skipped || !is_directory {
            continue;
        }
        let path = entry.path();
        if path.join("package.json").is_file() {
            found.insert(path.clone());
        }
        if depth + 1 < DEEPEST {
            add_packages(&path, depth + 1, found);
        }
    }
}

/// Returns the scripts of a package, each with those that run before and after it. A `*` at the end of a
/// name stands for anything.
fn read_scripts(package: &Path, names: &[String]) -> Option<NamedCommands> {
    let file = package.join("package.json");
    let manifest = bounded_read::read_file(&file, MOST_BYTES).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    let scripts = manifest["scripts"].as_object()?;
    let is_named = |script: &str| {
        names.iter().any(|name| match name.trim_end_matches('*') {
            front if front.len() < name.len() => script.starts_with(front),
            _ => script == name,
        })
    };
    let mut texts: Vec<String> = Vec::new();
    for name in scripts.keys().filter(|name| is_named(name)) {
        let all = [format!("pre{name}"), name.clone(), format!("post{name}")];
        texts.extend(all.iter().filter_map(|name| Some(scripts.get(name)?.as_str()?.to_owned())));
    }
    let directory = package.to_owned();
    (!texts.is_empty()).then_some(NamedCommands { files: vec![file], directory, texts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate_files::named_commands::parse_program;

    #[test]
    fn scripts_lead_to_their_commands() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        let write = |path: &str, text: &str| {
            let path = project.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(
            "package.json",
            r#"{"scripts":{"pretest":"sh pre.sh","test":"jest","lint:js":"eslint .","lint:css":"stylelint a.css","prepare":"husky"}}"#,
        );
        write("sub/package.json", r#"{"scripts":{"test":"jest --sub"}}"#);
        write("packages/one/package.json", r#"{"name":"@x/one","scripts":{"test":"jest --one"}}"#);
        write("node_modules/a/package.json", r#"{"scripts":{"test":"jest --a"}}"#);
        let all = &["sh pre.sh\njest", "jest --one", "jest --sub"] as &[&str];
        for (command, expect) in [
            ("npm test", &["sh pre.sh\njest"] as &[&str]),
            ("npm t -- --watch=false", &["sh pre.sh\njest"]),
            ("yarn lint:js", &["eslint ."]),
            ("pnpm run --silent lint:js", &["eslint ."]),
            ("npm --prefix sub test", &["jest --sub"]),
            ("npm test --workspace=sub", &["jest --sub"]),
            ("yarn workspace sub test", &["jest --sub"]),
            ("pnpm -w --dir sub run test", &["jest --sub"]),
            ("pnpm -r test", all),
            ("npm test -ws", all),
            ("yarn workspaces foreach run test", all),
            ("pnpm --filter @x/one test", all),
            ("yarn workspace @x/one test", all),
            ("turbo run test", all),
            ("nx run one:test", all),
            ("run-s lint:*", &["eslint .\nstylelint a.css"]),
            ("npm-run-all test lint:js", &["sh pre.sh\njest\neslint ."]),
            ("npm ci", &["husky"]),
            ("npm audit", &[]),
            ("cargo test", &[]),
        ] {
            let program = parse_program(command);
            let found = find_package_scripts(&program, project);
            let texts: Vec<String> = found.iter().map(|it| it.texts.join("\n")).collect();
            assert_eq!(texts, expect, "{command}");
        }
    }
}
