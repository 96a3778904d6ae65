//! Tools of a Python project, run in its environment: that of its lock file or `.venv`. Only tools
//! that the project mentions.

use std::path::Path;

use super::{ProjectCheck, ProjectDirectory};

/// Files with the settings of tools.
const MANIFESTS: [&str; 5] =
    ["pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt", "Pipfile"];

/// Returns the checks of a Python project.
pub(super) fn detect_python(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let locks = [
        ("uv.lock", "uv run "),
        ("poetry.lock", "poetry run "),
        ("pdm.lock", "pdm run "),
        ("Pipfile.lock", "pipenv run "),
    ];
    let lock = locks.iter().find(|(lock, _)| directory.has_here_or_above(lock));
    let manifest = directory.read_text("pyproject.toml").unwrap_or_default();
    let prefix = match lock {
        Some((_, prefix)) => prefix,
        None if manifest.contains("[tool.poetry") => "poetry run ",
        None => "",
    };
    let in_environment = |command: &str| {
        let program = command.split(' ').next().unwrap_or_default();
        if prefix.is_empty() && directory.has_file(&format!(".venv/bin/{program}")) {
            format!(".venv/bin/{command}")
        } else {
            format!("{prefix}{command}")
        }
    };
    // A tool with its own file, or mentioned in a shared one.
    let sign = |files: &[&'static str], patterns: &[&str]| -> Option<&'static str> {
        directory.find_first(files).or_else(|| {
            MANIFESTS.into_iter().find(|name| {
                let text = directory.read_text(name).unwrap_or_default();
                patterns.iter().any(|word| text.contains(word))
            })
        })
    };
    // In `tox.ini` it is what tox runs.
    let pytest = sign(&["pytest.ini", "conftest.py"], &["pytest"]).filter(|it| *it != "tox.ini");
    let tests = [
        (pytest, "pytest"),
        (sign(&["tox.ini"], &["[tool.tox", "[tox"]), "tox"),
        (sign(&["noxfile.py"], &[]), "nox"),
        (sign(&["manage.py"], &[]), "python manage.py test"),
    ];
    let test = tests.into_iter().find_map(|(place, command)| Some((place?.to_owned(), command)));
    let test = test.or_else(|| find_unittest(directory));
    let ruff = sign(&["ruff.toml", ".ruff.toml"], &["[tool.ruff"]);
    let mypy = sign(&["mypy.ini", ".mypy.ini"], &["[tool.mypy", "[mypy]"]);
    let sets = |place: Option<&str>, section: &str, keys: &[&str]| {
        let content = place.and_then(|place| directory.read_text(place)).unwrap_or_default();
        has_key(content, section, keys)
    };
    // A check does not change files, and does not check other files than those that are set.
    let fixes = sets(ruff, "ruff", &["fix"]);
    let names_files = sets(mypy, "mypy", &["files", "packages", "modules"]);
    let lints = [
        (ruff, if fixes { "ruff check --no-fix ." } else { "ruff check ." }),
        (sign(&[".flake8"], &["[flake8]"]), "flake8"),
        (mypy, if names_files { "mypy" } else { "mypy ." }),
        (sign(&["pyrightconfig.json"], &["[tool.pyright"]), "pyright"),
    ];
    let test = test.map(|(place, command)| directory.new_test(in_environment(command), &place));
    let lints = lints
        .into_iter()
        .filter_map(|(place, command)| Some(directory.new_lint(in_environment(command), place?)));
    test.into_iter().chain(lints).collect()
}

/// Returns the first file of tests that imports `unittest`, and the command that runs them: the
/// directory of the tests is named if it is no package, because then it is not searched.
fn find_unittest(directory: &ProjectDirectory<'_>) -> Option<(String, &'static str)> {
    let places = [
        ("", "python3 -m unittest"),
        ("tests/", "python3 -m unittest discover -s tests"),
        ("test/", "python3 -m unittest discover -s test"),
    ];
    places.into_iter().find_map(|(below, command)| {
        let file = directory.find_text(below, |name, text| {
            is_test_module(name)
                && text.lines().any(|line| {
                    ["import unittest", "from unittest"].iter().any(|it| line.starts_with(it))
                })
        })?;
        let is_package = directory.has_file(&format!("{below}__init__.py"));
        Some((file, if is_package { "python3 -m unittest" } else { command }))
    })
}

/// Returns whether this is the name of a file with tests for `unittest`.
pub(super) fn is_test_module(name: &str) -> bool {
    name.starts_with("test") && Path::new(name).extension().is_some_and(|it| it == "py")
}

/// Returns whether a tool's section of a TOML or INI file sets one of the keys to something other
/// than `false`. A file of the tool itself may have no sections.
fn has_key(text: &str, tool: &str, keys: &[&str]) -> bool {
    let mut is_within = true;
    text.lines().any(|line| {
        if let Some(section) = line.trim().strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_within = section == tool || section.strip_prefix("tool.") == Some(tool);
        }
        let value = line.split_once('=').filter(|(key, _)| keys.contains(&key.trim()));
        is_within && value.is_some_and(|(_, value)| value.trim() != "false")
    })
}
