//! The files that define what programs of gates run: configurations of test runners and linters, and
//! the recipes of task runners. A change of one can make a gate pass without the work, and tasks may
//! have to change it, so it is reported and not protected.
//!
//! Not here: names that projects have no reason to add (`shadow_names`), and what `make`, `just` and
//! package managers run (`makefile_commands`).

use std::path::{Path, PathBuf};

use ralph_guard::{StartedProgram, is_interpreter, normalize_lexically};

/// The files of a program, whether they exist or not.
struct RunnerRule {
    programs: &'static [&'static str],
    files: &'static [&'static str],
    /// Whether the files name commands, so that files named in them count too.
    is_recipe: bool,
}

const fn new_config(
    programs: &'static [&'static str],
    files: &'static [&'static str],
) -> RunnerRule {
    RunnerRule { programs, files, is_recipe: false }
}

const fn new_recipe(
    programs: &'static [&'static str],
    files: &'static [&'static str],
) -> RunnerRule {
    RunnerRule { programs, files, is_recipe: true }
}

const RULES: &[RunnerRule] = &[
    new_recipe(&["tox"], &["tox.ini", "tox.toml"]),
    new_recipe(&["nox"], &["noxfile.py"]),
    new_recipe(&["task", "go-task"], &["Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml"]),
    new_recipe(&["rake", "rails"], &["Rakefile", "rakefile"]),
    new_recipe(&["invoke", "inv"], &["tasks.py"]),
    new_recipe(&["pre-commit", "prek"], &[".pre-commit-config.yaml"]),
    new_recipe(&["lefthook"], &["lefthook.yml", "lefthook.yaml", ".lefthook.yml"]),
    new_recipe(&["composer"], &["composer.json"]),
    new_recipe(&["deno"], &["deno.json", "deno.jsonc"]),
    new_recipe(&["mise"], &["mise.toml", ".mise.toml"]),
    new_recipe(&["docker", "docker-compose", "podman"], &["Dockerfile"]),
    new_recipe(
        &["docker", "docker-compose", "podman"],
        &[
            "compose.yaml",
            "compose.yml",
            "docker-compose.yml",
            "docker-compose.yaml",
            "compose.override.yaml",
            "docker-compose.override.yml",
        ],
    ),
    new_recipe(&["ant"], &["build.xml"]),
    new_recipe(&["lint-staged"], &[".lintstagedrc", ".lintstagedrc.json", "package.json"]),
    new_config(&["lerna"], &["lerna.json"]),
    new_config(&["pnpm"], &["pnpm-workspace.yaml"]),
    new_config(&["bun"], &["bunfig.toml"]),
    new_config(
        &["uv", "poetry", "pdm", "hatch", "rye", "pixi", "pipenv", "poe", "tox", "nox"],
        &["pyproject.toml", "hatch.toml", "pixi.toml", "Pipfile"],
    ),
    new_config(&["black", "isort", "bandit", "ty"], &["pyproject.toml", ".isort.cfg"]),
    new_recipe(&["grunt"], &["Gruntfile.js", "Gruntfile.cjs"]),
    new_recipe(&["gulp"], &["gulpfile.js", "gulpfile.mjs"]),
    new_recipe(&["mage"], &["magefile.go"]),
    new_config(&["turbo"], &["turbo.json"]),
    new_config(&["nx"], &["nx.json"]),
    new_config(
        &["pytest", "py.test", "tox", "nox", "hatch"],
        &["pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "conftest.py"],
    ),
    new_config(&["coverage"], &[".coveragerc", "pyproject.toml", "setup.cfg", "tox.ini"]),
    new_config(&["mypy"], &["mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"]),
    new_config(&["ruff"], &["ruff.toml", ".ruff.toml", "pyproject.toml"]),
    new_config(&["flake8", "pylint"], &[".flake8", ".pylintrc", "setup.cfg", "tox.ini"]),
    new_config(&["pyright"], &["pyrightconfig.json", "pyproject.toml"]),
    new_config(
        &["jest"],
        &[
            // A section of it may have the configuration.
            "package.json",
            "jest.config.js",
            "jest.config.ts",
            "jest.config.mjs",
            "jest.config.cjs",
            "jest.config.json",
        ],
    ),
    new_config(
        &["vitest"],
        &[
            "vitest.config.js",
            "vitest.config.ts",
            "vitest.config.mts",
            "vite.config.js",
            "vite.config.ts",
            "vite.config.mts",
            "vitest.workspace.ts",
        ],
    ),
    new_config(
        &["mocha"],
        &[
            ".mocharc.js",
            ".mocharc.cjs",
            ".mocharc.json",
            ".mocharc.yml",
            ".mocharc.yaml",
            "package.json",
        ],
    ),
    new_config(&["ava"], &["ava.config.js", "ava.config.mjs", "package.json"]),
    new_config(&["nyc", "c8"], &[".nycrc", ".nycrc.json", ".c8rc.json", "package.json"]),
    new_config(&["karma"], &["karma.conf.js", "karma.conf.ts"]),
    new_config(&["cypress"], &["cypress.config.js", "cypress.config.ts"]),
    new_config(
        &["prettier"],
        &[
            ".prettierrc",
            ".prettierrc.json",
            ".prettierrc.js",
            ".prettierrc.yml",
            "prettier.config.js",
            "prettier.config.mjs",
            ".prettierignore",
            "package.json",
        ],
    ),
    new_config(
        &["stylelint"],
        &[".stylelintrc", ".stylelintrc.json", "stylelint.config.js", ".stylelintignore"],
    ),
    new_config(&["playwright"], &["playwright.config.js", "playwright.config.ts"]),
    new_config(
        &["eslint"],
        &[
            "eslint.config.js",
            "eslint.config.mjs",
            "eslint.config.cjs",
            "eslint.config.ts",
            ".eslintrc",
            ".eslintrc.js",
            ".eslintrc.cjs",
            ".eslintrc.json",
            ".eslintrc.yml",
            ".eslintrc.yaml",
            ".eslintignore",
            "package.json",
        ],
    ),
    new_config(&["biome"], &["biome.json", "biome.jsonc"]),
    new_config(&["tsc", "ts-node", "tsx"], &["tsconfig.json"]),
    new_config(
        &["cargo"],
        &["Cargo.toml", "clippy.toml", ".clippy.toml", ".config/nextest.toml", "build.rs"],
    ),
    new_config(&["golangci-lint"], &[".golangci.yml", ".golangci.yaml", ".golangci.toml"]),
    new_config(&["go"], &["go.mod"]),
    new_config(&["rspec"], &[".rspec", "spec/spec_helper.rb"]),
    new_config(&["bundle", "rails"], &["Gemfile", ".bundle/config"]),
    new_config(&["rubocop"], &[".rubocop.yml"]),
    new_config(
        &["phpunit", "phpstan"],
        &[
            "phpunit.xml",
            "phpunit.xml.dist",
            "phpunit.dist.xml",
            "phpstan.neon",
            "phpstan.neon.dist",
            "phpstan.dist.neon",
        ],
    ),
    new_config(
        &["mvn", "mvnw"],
        &["pom.xml", ".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml"],
    ),
    new_config(
        &["gradle", "gradlew"],
        &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
        ],
    ),
    new_config(&["dotnet"], &["Directory.Build.props", "Directory.Build.targets", "global.json"]),
    new_config(&["mix"], &["mix.exs", "test/test_helper.exs"]),
    new_config(&["cmake", "ctest"], &["CMakeLists.txt", "CMakePresets.json"]),
    new_config(&["meson"], &["meson.build"]),
    new_config(&["bazel", "bazelisk"], &["MODULE.bazel", "WORKSPACE", ".bazelrc", "BUILD.bazel"]),
    new_config(&["sbt"], &["build.sbt"]),
    new_config(&["swift"], &["Package.swift"]),
    new_config(&["zig"], &["build.zig"]),
    new_config(&["dart", "flutter"], &["dart_test.yaml", "pubspec.yaml", "analysis_options.yaml"]),
    new_config(&["shellcheck"], &[".shellcheckrc"]),
];

/// A file that defines what a program runs.
pub(crate) struct RunnerFile {
    pub(crate) path: PathBuf,
    pub(crate) is_recipe: bool,
}

/// Returns the files of a program that starts in a directory.
pub(crate) fn list_runner_files(program: &str, directory: &Path) -> Vec<RunnerFile> {
    let rules = RULES.iter().filter(|rule| rule.programs.contains(&program));
    let files = rules.flat_map(|rule| rule.files.iter().map(|file| (file, rule.is_recipe)));
    files.map(|(file, is_recipe)| RunnerFile { path: directory.join(file), is_recipe }).collect()
}

/// Programs whose options name what they work on, not what they do.
const PLAIN_PROGRAMS: [&str; 29] = [
    "test", "[", "[[", "grep", "egrep", "fgrep", "rg", "diff", "cmp", "cat", "ls", "stat", "wc",
    "head", "tail", "find", "rm", "mkdir", "touch", "echo", "printf", "sort", "cc", "gcc", "clang",
    "g++", "c++", "rustc", "tar",
];

/// Programs that check, format or describe the files among their arguments, and run none of them.
const CHECKERS: [&str; 49] = [
    "git",
    "sed",
    "awk",
    "jq",
    "chmod",
    "file",
    "dos2unix",
    "md5sum",
    "sha256sum",
    "zip",
    "rsync",
    "scp",
    "shellcheck",
    "shfmt",
    "bashate",
    "checkbashisms",
    "black",
    "ruff",
    "flake8",
    "pylint",
    "mypy",
    "pyright",
    "ty",
    "isort",
    "bandit",
    "yapf",
    "autopep8",
    "pytest",
    "py.test",
    "bats",
    "prettier",
    "eslint",
    "oxlint",
    "biome",
    "standard",
    "dprint",
    "tsc",
    "rubocop",
    "perlcritic",
    "perltidy",
    "phpcs",
    "php-cs-fixer",
    "phpstan",
    "psalm",
    "codespell",
    "typos",
    "cspell",
    "pre-commit",
    "semgrep",
];

/// Programs that copy files to the last of their operands.
const COPYING: [&str; 4] = ["cp", "mv", "install", "ln"];

/// Returns whether a program only reads the files among its arguments.
fn reads_only(program: &str) -> bool {
    PLAIN_PROGRAMS.contains(&program) || CHECKERS.contains(&program)
}

/// Returns the operands of a program that may run them, if they are scripts.
pub(crate) fn list_operands<'a>(
    program: &str,
    arguments: &'a [String],
) -> impl Iterator<Item = &'a String> {
    let is_checker = |name: &str| CHECKERS.contains(&name);
    // Also through others, as in `uv run ruff`.
    let is_plain = reads_only(program)
        || COPYING.contains(&program)
        || arguments.iter().any(|it| is_checker(it));
    arguments.iter().filter(move |it| !is_plain && !it.is_empty() && !it.starts_with('-'))
}

/// Returns the files that a program copies to where another one starts or reads them, each with
/// whether an interpreter runs the copy.
pub(crate) fn find_copied_file<'a>(
    program: &'a StartedProgram,
    all: &[StartedProgram],
) -> Vec<(&'a str, bool)> {
    let mut operands = program.arguments.iter().filter(|it| !it.starts_with('-'));
    let target = operands.next_back().filter(|_| COPYING.contains(&program.name.as_str()));
    let Some(target) = target else { return Vec::new() };
    let find_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let list_runs = |source: &'a String| {
        let within = format!("{}/{}", target.trim_end_matches('/'), find_name(source));
        let copies = [target.clone(), within];
        let is_used = |it: &&StartedProgram| {
            !COPYING.contains(&it.name.as_str())
                && (copies.iter().any(|copy| find_name(copy) == it.name)
                    || !reads_only(&it.name)
                        && it.arguments.iter().any(|word| copies.contains(word)))
        };
        let mut uses = all.iter().filter(is_used).peekable();
        uses.peek()?;
        Some((source.as_str(), uses.any(|it| is_interpreter(&it.name))))
    };
    operands.filter_map(list_runs).collect()
}

/// Options of checkers that take no value: what follows is what they check.
const SWITCHES: [&str; 7] =
    ["--", "--check", "--fix", "--diff", "--exit-code", "--quiet", "--verbose"];

/// Returns the words of a program's arguments that may name a file that decides what it does: values
/// of options, and quoted words in code.
pub(crate) fn list_named_files(program: &str, arguments: &[String]) -> Vec<String> {
    if PLAIN_PROGRAMS.contains(&program) {
        return Vec::new();
    }
    if program == "jq" {
        let find_file = |words: &[String]| match words {
            [flag, file] if matches!(flag.as_str(), "-f" | "--from-file") => Some(file.clone()),
            _ => None,
        };
        return arguments.windows(2).filter_map(find_file).collect();
    }
    let mut found = Vec::new();
    let mut is_value = false;
    for word in arguments {
        if word.contains(['(', '"', '\'', ' ']) {
            found.extend(split_code(word));
        } else if let Some((_, value)) = word.split_once('=').filter(|_| word.starts_with('-')) {
            found.push(value.to_owned());
        } else if is_value && !word.starts_with('-') {
            found.push(word.clone());
        }
        is_value =
            word.starts_with('-') && !SWITCHES.contains(&word.as_str()) && !word.contains('=');
    }
    found
}

/// Returns the words of code or of a recipe that may be paths.
pub(crate) fn split_code(text: &str) -> impl Iterator<Item = String> {
    let is_path = |it: char| it.is_alphanumeric() || "/._-+@".contains(it);
    text.split(move |it: char| !is_path(it))
        .filter(|word| word.contains(['.', '/']) && word.len() > 2)
        .map(str::to_owned)
}

/// Words that load other files in scripts of several languages.
const LOADING_WORDS: [&str; 8] =
    ["import", "require", "load", "source", "include", "exec", "open", "use"];

/// Returns the extension of a script, or the one that its first line implies.
fn find_extension<'a>(script: &'a Path, text: &str) -> Option<&'a str> {
    let of_shebang = text.lines().next().and_then(|line| {
        let program = line.strip_prefix("#!")?.rsplit(['/', ' ']).next()?;
        let languages = [("python", "py"), ("node", "js"), ("ruby", "rb"), ("perl", "pl")];
        languages.iter().find_map(|(name, end)| program.starts_with(name).then_some(*end))
    });
    script.extension().and_then(|it| it.to_str()).or(of_shebang)
}

/// Returns whether a script is in Python.
pub(crate) fn is_python(script: &Path, text: &str) -> bool {
    find_extension(script, text) == Some("py")
}

/// Returns existing files that a script in another language than shell may load: those that lines which
/// load something name, with or without the extension of the script.
pub(crate) fn list_modules(script: &Path, text: &str, project: &Path) -> Vec<PathBuf> {
    let Some(extension) = find_extension(script, text) else { return Vec::new() };
    let beside = script.parent().unwrap_or(project);
    let loading = text.lines().filter(|line| LOADING_WORDS.iter().any(|word| line.contains(word)));
    let words = loading.flat_map(|line| {
        line.split(|it: char| !(it.is_alphanumeric() || "/._-".contains(it)))
            .filter(|word| !word.is_empty())
    });
    let mut found = Vec::new();
    for word in words {
        let module = word.replace('.', "/");
        for name in
            [word.to_owned(), format!("{word}.{extension}"), format!("{module}.{extension}")]
        {
            let files = [beside, project].map(|it| normalize_lexically(&it.join(&name)));
            for file in files {
                if file != script && file.is_file() && !found.contains(&file) {
                    found.push(file);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_and_words_in_code_are_named() {
        let list = |program: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            list_named_files(program, &words)
        };
        assert_eq!(list("psql", &["-f", "ci/check.sql", "db"]), ["ci/check.sql"]);
        assert_eq!(list("jest", &["--config=ci/jest.json", "a.test.js"]), ["ci/jest.json"]);
        // A word that is no file has no effect.
        let code = "exec(open('check.py').read())";
        assert_eq!(list("python3", &["-c", code]), ["check.py", ".read"]);
        assert_eq!(list("node", &["-e", "require(\"./check.js\")"]), ["./check.js"]);
        assert_eq!(list("test", &["-f", "a.txt"]), [""; 0]);
    }

    #[test]
    fn modules_of_a_script_are_files_that_it_loads() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        std::fs::create_dir(project.join("ci")).expect("made");
        for file in
            ["ci/check.py", "ci/rules.py", "helpers.py", "ci/check.js", "ci/lib.js", "app.py"]
        {
            std::fs::write(project.join(file), "").expect("written");
        }
        let list = |script: &str, text: &str| -> Vec<String> {
            let files = list_modules(&project.join(script), text, project);
            let names = files.iter().filter_map(|it| it.strip_prefix(project).ok());
            names.map(|it| it.display().to_string()).collect()
        };
        let python = "import os\nfrom ci.rules import all\nimport helpers\nprint('app')\n";
        assert_eq!(list("ci/check.py", python), ["ci/rules.py", "helpers.py"]);
        assert_eq!(list("ci/check.js", "const l = require('./lib')\n"), ["ci/lib.js"]);
        let by_line = "#!/usr/bin/env python3\nimport helpers\n";
        assert_eq!(list("ci/check", by_line), ["helpers.py"]);
        assert_eq!(list("ci/check", "import helpers\n"), [""; 0]);
    }

    #[test]
    fn a_runner_has_its_configuration() {
        let names = |program: &str| -> Vec<String> {
            let files = list_runner_files(program, Path::new("/p"));
            files.iter().map(|it| it.path.display().to_string()).collect()
        };
        assert!(names("pytest").contains(&"/p/pytest.ini".to_owned()));
        assert!(names("cargo").contains(&"/p/Cargo.toml".to_owned()));
        assert_eq!(names("grep"), [""; 0]);
    }
}
