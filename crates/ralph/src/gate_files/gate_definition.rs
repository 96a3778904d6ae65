//! What defines the gates of a run: the scripts that they run, directly or through other scripts, the
//! files that say what they run, and names that would change what their programs do.
//!
//! Not here: what is protected of it (`locked_paths`), and which files one command runs
//! (`gate_scripts`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use ralph_guard::{
    ScriptLocation, ShellState, StartedProgram, find_scripts_in_file, is_interpreter,
    list_programs, normalize_lexically,
};
use ralph_io::bounded_read;

use super::gate_scripts::{self, is_generated};
use super::makefile_commands::find_target_commands;
use super::package_scripts::find_package_scripts;
use super::runner_files::{
    find_copied_file, is_python, list_modules, list_named_files, list_operands, list_runner_files,
    split_code,
};
use super::script_tables::find_table_commands;
use super::shadow_names::{list_imported_names, list_shadow_files};
use crate::project::Project;

/// How many scripts and recipes may call each other.
const DEEPEST: u32 = 4;

/// Most files that are followed.
const MOST_FILES: usize = 64;

/// Most commands that targets and names of scripts lead to.
const MOST_NAMED_COMMANDS: usize = 256;

/// Most files that are reported when they change.
const MOST_NAMED_FILES: usize = 256;

/// Larger scripts are not read.
const MOST_BYTES: u64 = 64 * 1024;

/// Directories of scripts that check the project. A shell script there that a gate runs through
/// another one is protected; elsewhere it may be the work itself.
const CHECK_FOLDERS: [&str; 9] =
    ["ci", ".ci", "check", "checks", "scripts", "script", "tools", "hack", "qa"];

/// Directories of tests and what these load.
const TEST_FOLDERS: [&str; 5] = ["test", "tests", "spec", "__tests__", "e2e"];

/// What defines the gates of a run. Paths are relative to the project directory.
#[derive(Debug, Default)]
pub(crate) struct GateDefinition {
    /// Scripts that gates run.
    pub(crate) scripts: BTreeSet<String>,
    /// Other files that say what gates check, which tasks may have to change.
    pub(crate) files: BTreeSet<String>,
    /// Files that do not exist and would change what the programs of gates do.
    pub(crate) shadows: BTreeSet<String>,
    /// The names of programs that gates start, and words that may name one.
    pub(crate) programs: BTreeSet<String>,
}

/// A text with commands that a gate runs.
struct CommandText {
    text: String,
    /// The directories that it may run in.
    directories: Vec<PathBuf>,
    depth: u32,
}

/// Reads what defines the gates with these commands.
pub(crate) fn read_gate_definition(project: &Project, commands: &[&str]) -> GateDefinition {
    let scripts = gate_scripts::find_protected_scripts(project, commands.iter().copied());
    let directories = vec![project.directory.clone()];
    let texts = commands.iter().map(|text| CommandText {
        text: (*text).to_owned(),
        directories: directories.clone(),
        depth: 0,
    });
    let mut reader = GateReader {
        project: &project.directory,
        found: GateDefinition::default(),
        open: texts.collect(),
        followed: 0,
        named: 0,
        opened: BTreeSet::new(),
    };
    for script in scripts {
        reader.open_script(&project.directory.join(&script), 1);
        reader.found.scripts.insert(script);
    }
    while let Some(text) = reader.open.pop_front() {
        reader.read_text(&text);
    }
    let GateDefinition { scripts, files, .. } = &mut reader.found;
    files.retain(|file| !scripts.contains(file));
    reader.found
}

/// Returns whether a directory on the way to a file has one of these names.
fn is_below(path: &str, folders: &[&str]) -> bool {
    let mut parts = Path::new(path).components().rev().skip(1);
    parts.any(|it| folders.iter().any(|name| it.as_os_str() == *name))
}

/// Returns whether a file begins with a line that names its interpreter.
fn is_script(file: &Path) -> bool {
    bounded_read::read_file(file, MOST_BYTES).is_ok_and(|text| text.starts_with(b"#!"))
}

struct GateReader<'a> {
    project: &'a Path,
    found: GateDefinition,
    open: VecDeque<CommandText>,
    followed: usize,
    named: usize,
    /// Files that were found to be run.
    opened: BTreeSet<String>,
}

impl GateReader<'_> {
    fn read_text(&mut self, text: &CommandText) {
        for directory in &text.directories {
            let start = ShellState {
                cwd: directory.to_string_lossy().into_owned(),
                home: std::env::var("HOME").ok(),
                variables: BTreeMap::new(),
            };
            let programs = list_programs(&text.text, &start);
            for program in &programs {
                let place = program.directory.clone().unwrap_or_else(|| directory.clone());
                self.add_program(program, &place, text.depth);
            }
            if text.depth > 0 {
                for place in find_scripts_in_file(&text.text, &start) {
                    match place {
                        ScriptLocation::File(file) => self.add_file(&file, text.depth),
                        // Too many files may match that are the work itself.
                        ScriptLocation::Matching { .. } => {}
                    }
                }
            }
            // Afterwards: what is found to be a script is protected.
            for program in &programs {
                let place = program.directory.as_ref().unwrap_or(directory);
                self.add_operands(program, place, &programs);
            }
        }
    }

    /// Adds scripts that a program may run because its arguments name them, or that it copies and
    /// another program runs, and files that would be sourced if they existed.
    fn add_operands(&mut self, program: &StartedProgram, place: &Path, all: &[StartedProgram]) {
        if matches!(program.name.as_str(), "." | "source") {
            let file = program.arguments.first().map(|it| normalize_lexically(&place.join(it)));
            let missing = file.filter(|it| it.symlink_metadata().is_err());
            let missing = missing.filter(|it| !is_generated(self.project, it));
            self.found.files.extend(missing.and_then(|it| self.name_file(&it)));
        }
        for (source, is_run) in find_copied_file(program, all) {
            let file = place.join(source);
            if is_run || is_script(&file) {
                self.add_named_file(&file);
            }
        }
        if !is_interpreter(&program.name) {
            for operand in list_operands(&program.name, &program.arguments) {
                let file = place.join(operand);
                if is_script(&file) {
                    self.add_named_file(&file);
                } else if operand.contains('/') {
                    self.add_program_directory(&file);
                }
            }
        }
    }

    fn add_program(&mut self, program: &StartedProgram, directory: &Path, depth: u32) {
        let is_word = |word: &&String| !word.is_empty() && !word.contains(['/', '-', '=', ' ']);
        let words = program.arguments.iter().filter(is_word);
        let libraries = program.variables.iter().filter(|(name, _)| name == "PYTHONPATH");
        for library in libraries.flat_map(|(_, value)| value.split(':')) {
            // Most unknown beginnings are the project directory.
            let library = library.strip_prefix("‹?›/").unwrap_or(library);
            if !library.is_empty() && !library.contains('‹') {
                self.add_shadows(list_shadow_files("python", &directory.join(library)));
            }
        }
        for name in std::iter::once(&program.name).chain(words) {
            self.add_shadows(list_shadow_files(name, directory));
            self.found.programs.insert(name.clone());
            self.add_runner_files(name, directory);
        }
        for file in list_named_files(&program.name, &program.arguments) {
            self.add_named_file(&directory.join(file));
        }
        if depth >= DEEPEST {
            return;
        }
        let targets = find_target_commands(program, directory).into_iter();
        let scripts = find_package_scripts(program, directory);
        for named in targets.chain(scripts).chain(find_table_commands(program, directory)) {
            let files: Vec<String> =
                named.files.iter().filter_map(|it| self.name_file(it)).collect();
            self.found.files.extend(files);
            let room = MOST_NAMED_COMMANDS.saturating_sub(self.named);
            for text in named.texts.into_iter().take(room) {
                self.named += 1;
                let directories = vec![named.directory.clone()];
                self.open.push_back(CommandText { text, directories, depth: depth + 1 });
            }
        }
    }

    /// Adds the files of a directory of checks, which a program such as `go run` runs as a whole.
    fn add_program_directory(&mut self, directory: &Path) {
        let inside = directory.join("_");
        if !self.name_file(&inside).is_some_and(|it| is_below(&it, &CHECK_FOLDERS)) {
            return;
        }
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.take(MOST_FILES) {
            self.add_named_file(&entry.path());
        }
    }

    /// Adds names that no file may get; existing files of these names are only reported.
    fn add_shadows(&mut self, files: Vec<PathBuf>) {
        for file in files {
            let Some(path) = self.name_file(&file) else { continue };
            if file.symlink_metadata().is_ok() {
                self.found.files.insert(path);
            } else {
                self.found.shadows.insert(path);
            }
        }
    }

    /// Adds the names of standard modules that a Python script imports: a file of such a name beside it
    /// comes first. Elsewhere than among checks it may be the work, so only a new one is reported.
    fn add_imported_names(&mut self, script: &Path, text: &str) {
        let beside = script.parent().unwrap_or(self.project);
        self.add_shadows(list_shadow_files("python", beside));
        let names = list_imported_names(text, beside);
        if self.name_file(script).is_some_and(|it| is_below(&it, &CHECK_FOLDERS)) {
            self.add_shadows(names);
        } else {
            let new = names.iter().filter(|it| it.symlink_metadata().is_err());
            let new: Vec<String> = new.filter_map(|it| self.name_file(it)).collect();
            self.found.files.extend(new);
        }
    }

    /// Adds the files that define what a program runs, and existing files that its recipes name.
    fn add_runner_files(&mut self, program: &str, directory: &Path) {
        for file in list_runner_files(program, directory) {
            let Some(path) = self.name_file(&file.path) else { continue };
            let is_known = self.found.scripts.contains(&path) || !self.found.files.insert(path);
            if is_known || !file.is_recipe {
                continue;
            }
            let text = bounded_read::read_file(&file.path, MOST_BYTES).unwrap_or_default();
            for word in split_code(&String::from_utf8_lossy(&text)) {
                self.add_named_file(&directory.join(word));
            }
        }
    }

    /// Adds an existing file that decides what a program does. Documents are none.
    fn add_named_file(&mut self, file: &Path) {
        let file = normalize_lexically(file);
        let is_document = file.extension().is_some_and(|it| it == "md" || it == "txt");
        let Some(path) = self.name_file(&file).filter(|_| file.is_file() && !is_document) else {
            return;
        };
        let count = self.found.scripts.len() + self.found.files.len();
        let is_known = self.found.scripts.contains(&path);
        if !is_known && count < MOST_NAMED_FILES && !is_generated(self.project, &file) {
            self.found.files.insert(path);
        }
    }

    /// Adds a file that a script or recipe runs.
    fn add_file(&mut self, file: &Path, depth: u32) {
        let Some(path) = self.name_file(file).filter(|_| file.is_file()) else { return };
        // What was only named before may turn out to be run.
        if self.found.scripts.contains(&path)
            || is_generated(self.project, file)
            || !self.opened.insert(path.clone())
        {
            return;
        }
        let is_shell = self.open_script(file, depth + 1);
        if is_shell && is_below(&path, &CHECK_FOLDERS) && !file.is_symlink() {
            self.found.scripts.insert(path);
        } else {
            self.found.files.insert(path);
        }
    }

    /// Adds a file that a script in another language loads: both are among the checks, or it is only
    /// reported. Elsewhere than among checks and tests it is most likely what is checked.
    fn add_module(&mut self, file: &Path, script: &Path, depth: u32) {
        let Some(path) = self.name_file(file).filter(|_| !file.is_symlink()) else { return };
        let is_check = is_below(&path, &CHECK_FOLDERS);
        if !is_check && !is_below(&path, &TEST_FOLDERS) {
            return;
        }
        let by_check = self.name_file(script).is_some_and(|it| is_below(&it, &CHECK_FOLDERS));
        let list =
            if is_check && by_check { &mut self.found.scripts } else { &mut self.found.files };
        if list.insert(path) {
            self.open_script(file, depth + 1);
        }
    }

    /// Follows a shell script, and the modules of a script in another language. Returns whether it is one.
    fn open_script(&mut self, file: &Path, depth: u32) -> bool {
        let Ok(bytes) = bounded_read::read_file(file, MOST_BYTES) else { return false };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let first = text.lines().next().unwrap_or_default();
        let is_named = file.extension().is_some_and(|it| it == "sh" || it == "bash");
        let is_shell = match first.strip_prefix("#!") {
            Some(program) => program
                .split(['/', ' '])
                .any(|it| matches!(it, "sh" | "bash" | "dash" | "zsh" | "ksh")),
            None => is_named,
        };
        if depth > DEEPEST || self.followed >= MOST_FILES {
            return is_shell;
        }
        self.followed += 1;
        if is_shell {
            let beside = file.parent().unwrap_or(self.project).to_owned();
            let mut directories = vec![self.project.to_owned(), beside];
            directories.dedup();
            self.open.push_back(CommandText { text, directories, depth });
        } else {
            for module in list_modules(file, &text, self.project) {
                self.add_module(&module, file, depth);
            }
            if is_python(file, &text) {
                self.add_imported_names(file, &text);
            }
        }
        is_shell
    }

    /// Returns a path relative to the project directory, if it is in it.
    fn name_file(&self, file: &Path) -> Option<String> {
        let file = normalize_lexically(file);
        Some(file.strip_prefix(self.project).ok()?.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_script_from_outside_is_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("there");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("ci/check.py", "import json, app\nfrom os.path import join\n");
        write("app.py", "#!/usr/bin/env python3\nimport queue\n");
        write("check.sh", "#!/bin/sh\n[ -f .env ] && . ./.env\ntest -f a.txt\n");
        write("plain.sh", "test -f a.txt\n");
        write("check.jq", ".");
        let project = Project::new(root.clone(), Vec::new());
        let read = |command: &str| read_gate_definition(&project, &[command]);
        let is_shadow = |command: &str, path: &str| read(command).shadows.contains(path);
        let is_named = |command: &str, path: &str| read(command).files.contains(path);
        assert!(is_shadow("python3 ci/check.py", "ci/json.py"));
        assert!(is_shadow("python3 ci/check.py", "ci/unittest.py"));
        assert!(!is_shadow("python3 ci/check.py", "ci/app.py"), "it may be the work");
        assert!(!is_shadow("python3 app.py", "queue.py") && is_named("python3 app.py", "queue.py"));
        assert!(is_shadow("PYTHONPATH=src python3 app.py", "src/sitecustomize.py"));
        for value in ["src", "src:$PYTHONPATH", "$PWD/src", "$ROOT/src:lib"] {
            let command = format!("export PYTHONPATH={value}; python3 app.py");
            assert!(is_shadow(&command, "src/sitecustomize.py"), "{command}");
        }
        assert!(is_named("./check.sh", ".env"));
        for command in
            ["mytool check.sh", "sh -c 'retry 3 check.sh'", "cp check.sh /tmp/x && /tmp/x"]
        {
            assert!(is_named(command, "check.sh"), "{command}");
        }
        assert!(is_named("cp plain.sh /tmp/x; sh /tmp/x", "plain.sh"));
        assert!(is_named("install -m 755 check.sh /tmp/ && check.sh", "check.sh"));
        assert!(is_named("jq -e -f check.jq data.json", "check.jq"));
        let checked = [
            "shellcheck check.sh",
            "uv run ruff check app.py",
            "npx prettier --check app.py",
            "cp check.sh /tmp/x",
            "cat check.sh",
            "git diff --exit-code check.sh",
        ];
        for command in checked {
            let found = read(command);
            assert!(!found.files.contains("check.sh"), "{command}: {found:?}");
            assert!(!found.files.contains("app.py"), "{command}: {found:?}");
        }
    }

    /// Makes a project in which many runners lead to the same scripts.
    fn make_runner_project(directory: &Path) -> Project {
        let root = directory.canonicalize().expect("there");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("ci/x.sh", "#!/bin/sh\n. ci/y.sh\n");
        write("ci/y.sh", "#!/bin/sh\ntrue\n");
        write("ci/x.py", "true\n");
        write("ci/go/main.go", "package main\n");
        write("lib/x.js", "");
        write("tests/x.py", "");
        write("Makefile", "test:\n\tcd web && npm test\n\tsh ci/x.sh\njs:\n\tnode lib/x.js\n");
        write("justfile", "test:\n    cd web && npm test\n    sh ci/x.sh\n");
        write("Rakefile", "task(:test) { sh 'ci/x.sh' }\n");
        write("tox.ini", "[testenv]\ncommands = bash ci/x.sh\n");
        write("noxfile.py", "def tests(session):\n    session.run('bash', 'ci/x.sh')\n");
        write("Taskfile.yml", "tasks:\n  test:\n    cmds: [sh ci/x.sh]\n");
        write("composer.json", r#"{"scripts":{"test":["@lint"],"lint":"sh ci/x.sh"}}"#);
        write("deno.json", r#"{"tasks":{"test":"sh ci/x.sh"}}"#);
        write("mise.toml", "[tasks.test]\nrun = 'sh ci/x.sh'\n");
        let tools = "[tool.pdm.scripts]\ntest = 'sh ci/x.sh'\n[tool.poe.tasks]\ntest = 'sh ci/x.sh'\n\
            [tool.hatch.envs.default.scripts]\ntest = 'sh ci/x.sh'\n";
        write("pyproject.toml", tools);
        write("Pipfile", "[scripts]\ntest = 'sh ci/x.sh'\n");
        let scripts =
            r#"{"scripts":{"test":"sh ci/x.sh","js":"node lib/x.js","prepare":"sh ci/x.sh"}}"#;
        write("package.json", scripts);
        write("web/package.json", r#"{"scripts":{"deep":"sh ../ci/x.sh"}}"#);
        write("compose.yaml", "");
        Project::new(root, Vec::new())
    }

    #[test]
    fn a_script_behind_a_runner_is_protected() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = make_runner_project(directory.path());
        // What runs a shell script among the checks through a target or by name protects it.
        for command in [
            "timeout 5 sh ci/x.sh",
            "make test",
            "make -j2 --no-print-directory test",
            "just test",
            "npm run test",
            "npm test -- --watch=false",
            "npm ci",
            "pnpm test",
            "yarn run test",
            "bun run test",
            "pnpm -r deep",
            "yarn workspaces foreach run deep",
            "turbo run deep",
            "npm-run-all test js",
            "concurrently 'npm:test' 'eslint .'",
            "composer test",
            "composer run-script test",
            "deno task test",
            "mise run test",
            "pdm run test",
            "poe test",
            "uv run poe test",
            "hatch run test",
            "pipenv run test",
            "poetry run sh ci/x.sh",
            "uv run ci/x.sh",
            "uv run make test",
            "bundle exec make test",
            "direnv exec . make test",
            "mise exec -- npm test",
            "nix develop -c make test",
            "npx -c 'sh ci/x.sh'",
            "pnpm exec timeout 5 ci/x.sh",
            "docker compose run app make test",
            "docker run --rm -v .:/w image sh -c 'make test'",
            "retry 3 npm test",
            "xvfb-run -a npm test",
            "sh -c 'uv run make test'",
        ] {
            let found = read_gate_definition(&project, &[command]);
            for script in ["ci/x.sh", "ci/y.sh"] {
                assert!(found.scripts.contains(script), "{command}: {found:?}");
            }
        }
    }

    #[test]
    fn what_else_a_runner_reads_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = make_runner_project(directory.path());
        // Everything else that decides what a gate does is reported.
        for (command, file) in [
            ("rake test", "ci/x.sh"),
            ("bundle exec rake test", "Rakefile"),
            ("tox -e py", "ci/x.sh"),
            ("uv run tox", "tox.ini"),
            ("nox -s tests", "ci/x.sh"),
            ("task test", "ci/x.sh"),
            ("make js", "lib/x.js"),
            ("npm run js", "lib/x.js"),
            ("npm test", "package.json"),
            ("npx jest", "jest.config.js"),
            ("npx jest", "package.json"),
            ("pnpm exec vitest run", "vitest.config.ts"),
            ("yarn jest", "jest.config.js"),
            ("bun test", "bunfig.toml"),
            ("uv run pytest tests/x.py", "pytest.ini"),
            ("uv run -m pytest tests/x.py", "conftest.py"),
            ("poetry run pytest", "pyproject.toml"),
            ("coverage run -m pytest", "pytest.ini"),
            ("pdm run test", "pyproject.toml"),
            ("composer test", "composer.json"),
            ("docker compose run app make test", "compose.yaml"),
            ("docker compose run app make test", "Makefile"),
            ("go run ./ci/go", "ci/go/main.go"),
        ] {
            let found = read_gate_definition(&project, &[command]);
            let is_found = found.files.contains(file) || found.scripts.contains(file);
            assert!(is_found, "{command}: no {file} in {found:?}");
        }
        let module = read_gate_definition(&project, &["uv run -m ci.x"]);
        assert!(module.scripts.contains("ci/x.py"), "{module:?}");
        // Files that are checked are no part of what checks them.
        for command in ["npx eslint lib/x.js", "uv run ruff check ci/x.py", "shellcheck ci/x.sh"] {
            let found = read_gate_definition(&project, &[command]);
            for file in ["lib/x.js", "ci/x.py", "ci/x.sh"] {
                let is_found = found.files.contains(file) || found.scripts.contains(file);
                assert!(!is_found, "{command}: {found:?}");
            }
        }
    }

    #[test]
    fn scripts_and_recipes_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("there");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("check.sh", "#!/bin/sh\n. ci/lib.sh\npython3 app.py\n./tool.sh; make test\n");
        write("ci/rules.py", "import app, helpers\n");
        write("ci/helpers.py", "");
        write("ci/lib.sh", "\"$(dirname \"$0\")\"/ci/more.sh\n");
        write("ci/more.sh", "true\n");
        write("app.py", "");
        write("tool.sh", "true\n");
        write("tests/run.py", "");
        write("Makefile", "test:\n\t@python3 tests/run.py && sh scripts/style.sh\n");
        write("scripts/style.sh", "npm run lint\n");
        write("package.json", r#"{"scripts":{"lint":"eslint ."}}"#);
        write(".npmrc", "");
        let project = Project::new(root.clone(), Vec::new());
        let list = |it: &BTreeSet<String>| it.iter().cloned().collect::<Vec<_>>();
        let found = read_gate_definition(&project, &["python3 -m ci.rules"]);
        assert_eq!(list(&found.scripts), ["ci/helpers.py", "ci/rules.py"]);
        assert!(!found.files.contains("app.py"), "{found:?}");
        let found = read_gate_definition(&project, &["./check.sh"]);
        assert_eq!(
            list(&found.scripts),
            ["check.sh", "ci/lib.sh", "ci/more.sh", "scripts/style.sh"]
        );
        assert_eq!(
            list(&found.files),
            [
                ".eslintignore",
                ".eslintrc",
                ".eslintrc.cjs",
                ".eslintrc.js",
                ".eslintrc.json",
                ".eslintrc.yaml",
                ".eslintrc.yml",
                ".npmrc",
                "Makefile",
                "app.py",
                "eslint.config.cjs",
                "eslint.config.js",
                "eslint.config.mjs",
                "eslint.config.ts",
                "package.json",
                "tests/run.py",
                "tool.sh",
            ]
        );
        for name in ["GNUmakefile", "unittest.py", ".yarnrc.yml"] {
            assert!(found.shadows.contains(name), "{name}: {:?}", found.shadows);
        }
        assert!(found.programs.contains("eslint"), "{:?}", found.programs);
    }
}
