//! Tools of a Python project, called through its environment where a lock file names one.
//!
//! Not here: tools that nothing in the project mentions.

use super::{Directory, Found};

/// Where projects keep the settings of their tools.
const MANIFESTS: [&str; 5] =
    ["pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt", "Pipfile"];

/// Returns what a Python project is checked with.
pub(super) fn checks(directory: &Directory<'_>) -> Vec<Found> {
    let locks = [
        ("uv.lock", "uv run "),
        ("poetry.lock", "poetry run "),
        ("pdm.lock", "pdm run "),
        ("Pipfile.lock", "pipenv run "),
    ];
    let lock = locks.iter().find(|(lock, _)| directory.has_here_or_above(lock));
    let prefix = lock.map_or("", |(_, prefix)| prefix);
    // What has a file of its own, or is mentioned in one for several tools.
    let sign = |files: &[&'static str], words: &[&str]| -> Option<&'static str> {
        directory.first(files).or_else(|| {
            MANIFESTS.into_iter().find(|name| {
                let text = directory.text(name).unwrap_or_default();
                words.iter().any(|word| text.contains(word))
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
    let test = test.map(|(place, command)| directory.test(format!("{prefix}{command}"), place));
    let lints = lints
        .into_iter()
        .filter_map(|(place, command)| Some(directory.lint(format!("{prefix}{command}"), place?)));
    test.into_iter().chain(lints).collect()
}
