//! What defines the gates of a run: the scripts that they run, directly or through other scripts, the
//! files that say what they run, and names that would change what their programs do.
//!
//! Not here: what is protected of it (`locked_paths`), and which files one command runs
//! (`gate_scripts`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use ralph_guard::{
    ScriptLocation, ShellState, StartedProgram, find_scripts_in_file, list_programs,
    normalize_lexically,
};
use ralph_io::bounded_read;

use crate::gate_scripts::{self, is_generated};
use crate::make_recipe::find_named_commands;
use crate::project::Project;
use crate::runner_files::{list_modules, list_named_files, list_runner_files, split_code};
use crate::shadow_names::list_shadow_files;

/// How many scripts and recipes may call each other.
const DEEPEST: u32 = 4;

/// Most files that are followed.
const MOST_FILES: usize = 64;

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

struct GateReader<'a> {
    project: &'a Path,
    found: GateDefinition,
    open: VecDeque<CommandText>,
}

impl GateReader<'_> {
    fn read_text(&mut self, text: &CommandText) {
        for directory in &text.directories {
            let start = ShellState {
                cwd: directory.to_string_lossy().into_owned(),
                home: std::env::var("HOME").ok(),
                variables: BTreeMap::new(),
            };
            for program in list_programs(&text.text, &start) {
                let place = program.directory.clone().unwrap_or_else(|| directory.clone());
                self.add_program(&program, &place, text.depth);
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
        }
    }

    fn add_program(&mut self, program: &StartedProgram, directory: &Path, depth: u32) {
        let is_word = |word: &&String| !word.is_empty() && !word.contains(['/', '-', '=', ' ']);
        let words = program.arguments.iter().filter(is_word);
        for name in std::iter::once(&program.name).chain(words) {
            for file in list_shadow_files(name, directory) {
                let Some(path) = self.name_file(&file) else { continue };
                if file.symlink_metadata().is_ok() {
                    self.found.files.insert(path);
                } else {
                    self.found.shadows.insert(path);
                }
            }
            self.found.programs.insert(name.clone());
            self.add_runner_files(name, directory);
        }
        for file in list_named_files(&program.name, &program.arguments) {
            self.add_named_file(&directory.join(file));
        }
        if depth >= DEEPEST {
            return;
        }
        if let Some(named) = find_named_commands(program, directory) {
            let files: Vec<String> =
                named.files.iter().filter_map(|it| self.name_file(it)).collect();
            self.found.files.extend(files);
            let directories = vec![named.directory];
            self.open.push_back(CommandText { text: named.text, directories, depth: depth + 1 });
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
        let is_known = self.found.scripts.contains(&path) || self.found.files.contains(&path);
        if is_known || is_generated(self.project, file) {
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
        let count = self.found.scripts.len() + self.found.files.len();
        if depth > DEEPEST || count >= MOST_FILES {
            return is_shell;
        }
        if is_shell {
            let beside = file.parent().unwrap_or(self.project).to_owned();
            let mut directories = vec![self.project.to_owned(), beside];
            directories.dedup();
            self.open.push_back(CommandText { text, directories, depth });
        } else {
            for module in list_modules(file, &text, self.project) {
                self.add_module(&module, file, depth);
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
    use std::fs;

    use super::*;

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
