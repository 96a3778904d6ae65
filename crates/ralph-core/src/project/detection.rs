//! Detects from a project's own files how it is checked: tests, lint, types.
//!
//! The result is a proposal without guesses: each command is found because a file mentions it, and
//! that file is reported too. Neither reads files nor runs the commands.

mod node;
mod python;
mod targets;
mod toolchains;

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::gate::GateKind;

/// With more parts than this, the proposal would not be useful.
const MOST_PARTS: usize = 4;

/// The files of a project that show how it is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectFiles {
    /// Paths relative to the project directory with `/`, and the text of those that were read.
    pub files: BTreeMap<String, String>,
    /// Names of files in parent directories, up to the top of the repository.
    pub parent_files: BTreeSet<String>,
}

/// A command that checks a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCheck {
    pub kind: GateKind,
    pub command: String,
    /// The file that mentions it, relative to the project directory.
    pub place: String,
}

/// Files whose text is needed.
pub const READ_FILES: [&str; 29] = [
    ".gitignore",
    ".mypy.ini",
    ".ruff.toml",
    "CMakeLists.txt",
    "Cargo.toml",
    "GNUmakefile",
    "Gemfile",
    "Justfile",
    "Makefile",
    "Makefile.in",
    "Pipfile",
    "Rakefile",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "deno.json",
    "deno.jsonc",
    "go.mod",
    "justfile",
    "makefile",
    "mypy.ini",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "requirements-dev.txt",
    "ruff.toml",
    "setup.cfg",
    "tox.ini",
    "turbo.json",
];

/// Returns whether the text of a file is needed; of all others the name is enough.
pub fn needs_text(name: &str) -> bool {
    READ_FILES.contains(&name) || python::is_test_module(name)
}

/// Returns the commands that check a project. Targets of its Makefile or justfile come first;
/// without those, the usual commands of its tools. If the top directory has none, its parts are
/// searched.
pub fn detect_checks(tree: &ProjectFiles) -> Vec<ProjectCheck> {
    let found = detect_in_directory(&ProjectDirectory { tree, path: "" });
    if !found.is_empty() {
        return found;
    }
    let parts = find_parts(tree);
    let found =
        parts.iter().map(|path| (path, detect_in_directory(&ProjectDirectory { tree, path })));
    let found = found.filter(|(_, found)| !found.is_empty()).take(MOST_PARTS);
    found
        .flat_map(|(path, found)| {
            let within = |it: ProjectCheck| ProjectCheck {
                command: format!("cd {path} && {}", it.command),
                ..it
            };
            found.into_iter().map(within).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the directories below the top that hold files, in order, without directories inside
/// another part.
fn find_parts(tree: &ProjectFiles) -> Vec<String> {
    let directories: BTreeSet<&str> = tree
        .files
        .keys()
        .filter_map(|path| path.rsplit_once('/').map(|(above, _)| above))
        .collect();
    let is_plain = |path: &str| {
        path.chars().all(|it| it.is_ascii_alphanumeric() || "-_./".contains(it))
            && !path.split('/').any(|part| part.starts_with('.') || part.is_empty())
    };
    let mut parts: Vec<String> = Vec::new();
    for path in directories.into_iter().filter(|it| is_plain(it)) {
        let is_within = parts.iter().any(|it| path.starts_with(&format!("{it}/")));
        if !is_within && !detect_in_directory(&ProjectDirectory { tree, path }).is_empty() {
            parts.push(path.to_owned());
        }
    }
    parts
}

fn detect_in_directory(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let own = targets::detect_targets(directory);
    if !own.is_empty() {
        return own;
    }
    let found = [
        toolchains::detect_rust(directory),
        node::detect_node(directory),
        toolchains::detect_deno(directory),
        toolchains::detect_go(directory),
        python::detect_python(directory),
        toolchains::detect_java(directory),
        toolchains::detect_dotnet(directory),
        toolchains::detect_ruby(directory),
        toolchains::detect_php(directory),
        toolchains::detect_elixir(directory),
        toolchains::detect_cmake(directory),
        toolchains::detect_meson(directory),
    ]
    .concat();
    if found.is_empty() { toolchains::detect_autotools(directory) } else { found }
}

/// One directory of a tree.
struct ProjectDirectory<'a> {
    tree: &'a ProjectFiles,
    path: &'a str,
}

impl ProjectDirectory<'_> {
    fn join_path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Returns the first file in this directory, or in a directory below it, whose name and text
    /// match.
    fn find_text(&self, below: &str, matches: impl Fn(&str, &str) -> bool) -> Option<String> {
        let files = self.tree.files.iter();
        let start = self.join_path(below);
        files
            .filter_map(|(path, text)| Some((path.strip_prefix(&start)?, text)))
            .find(|(name, text)| !name.contains('/') && matches(name, text))
            .map(|(name, _)| format!("{below}{name}"))
    }

    /// Returns the text of a file.
    fn read_text(&self, name: &str) -> Option<&str> {
        self.tree.files.get(&self.join_path(name)).map(String::as_str)
    }

    /// Returns the first of the given files that exists.
    fn find_first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.tree.files.contains_key(&self.join_path(name)))
    }

    fn has_file(&self, name: &str) -> bool {
        self.find_first(&[name]).is_some()
    }

    /// Returns whether a file exists here or in a parent directory: a lock file serves a whole
    /// tree.
    fn has_here_or_above(&self, name: &str) -> bool {
        let mut path = self.path;
        loop {
            let place = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            if self.tree.files.contains_key(&place) {
                return true;
            }
            match (path, path.rsplit_once('/')) {
                ("", _) => return self.tree.parent_files.contains(name),
                (_, Some((above, _))) => path = above,
                (_, None) => path = "",
            }
        }
    }

    /// Returns the name of a file here with one of the given endings.
    fn find_by_ending(&self, endings: &[&str]) -> Option<&str> {
        let prefix = self.join_path("");
        let names = self.tree.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        names
            .filter(|name| !name.contains('/'))
            .find(|name| endings.iter().any(|ending| name.ends_with(ending)))
    }

    fn new_test(&self, command: impl Into<String>, name: &str) -> ProjectCheck {
        ProjectCheck { kind: GateKind::Test, command: command.into(), place: self.join_path(name) }
    }

    fn new_lint(&self, command: impl Into<String>, name: &str) -> ProjectCheck {
        ProjectCheck { kind: GateKind::Lint, command: command.into(), place: self.join_path(name) }
    }

    /// Returns a command that runs a script or target of this name.
    fn new_named(&self, target: &str, command: String, name: &str) -> ProjectCheck {
        match target {
            "test" | "check" | "tests" | "test:ci" => self.new_test(command, name),
            _ => self.new_lint(command, name),
        }
    }
}

#[cfg(test)]
mod tests;
