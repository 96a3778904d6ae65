//! Tools of a Python project, run in its environment if it has a lock file. Only tools that the
//! project mentions.

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
    let prefix = lock.map_or("", |(_, prefix)| prefix);
    // A tool with its own file, or mentioned in a shared one.
    let sign = |files: &[&'static str], patterns: &[&str]| -> Option<&'static str> {
        directory.find_first(files).or_else(|| {
            MANIFESTS.into_iter().find(|name| {
                let text = directory.read_text(name).unwrap_or_default();
                patterns.iter().any(|word| text.contains(word))
            })
        })
    };
    let tests = [
        (sign(&["pytest.ini", "conftest.py"], &["pytest"]), "pytest"),
        (sign(&["tox.ini"], &["[tool.tox", "[tox"]), "tox"),
        (sign(&["noxfile.py"], &[]), "nox"),
        (sign(&["manage.py"], &[]), "python manage.py test"),
    ];
    let test = tests.into_iter().find_map(|(place, command)| Some((place?, command)));
    let lints = [
        (sign(&["ruff.toml", ".ruff.toml"], &["[tool.ruff"]), "ruff check ."),
        (sign(&[".flake8"], &["[flake8]"]), "flake8"),
        (sign(&["mypy.ini", ".mypy.ini"], &["[tool.mypy", "[mypy]"]), "mypy ."),
        (sign(&["pyrightconfig.json"], &["[tool.pyright"]), "pyright"),
    ];
    let test = test.map(|(place, command)| directory.new_test(format!("{prefix}{command}"), place));
    let lints = lints.into_iter().filter_map(|(place, command)| {
        Some(directory.new_lint(format!("{prefix}{command}"), place?))
    });
    test.into_iter().chain(lints).collect()
}
