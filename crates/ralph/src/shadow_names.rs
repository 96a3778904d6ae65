//! Names of files that change what a program of a gate does although no command names them: `make`
//! prefers `GNUmakefile`, python imports `unittest.py` of the directory that it runs in.
//!
//! Not here: files that gates run (`gate_scripts`, `gate_definition`).

use std::path::{Path, PathBuf};

/// Names that a program reads before, or in place of, what it was meant to read.
struct ShadowRule {
    programs: &'static [&'static str],
    /// The rule holds if one of these exists there, or if there are none.
    beside: &'static [&'static str],
    names: &'static [&'static str],
}

/// Modules that python or its test runners import at their start, before any test, and that
/// projects have no reason to replace.
const PYTHON_NAMES: [&str; 20] = [
    "sitecustomize.py",
    "usercustomize.py",
    "unittest.py",
    "unittest/__init__.py",
    "pytest.py",
    "pytest/__init__.py",
    "_pytest/__init__.py",
    "pluggy.py",
    "pluggy/__init__.py",
    "argparse.py",
    "contextlib.py",
    "difflib.py",
    "functools.py",
    "importlib/__init__.py",
    "inspect.py",
    "os.py",
    "re.py",
    "shutil.py",
    "traceback.py",
    "warnings.py",
];

const RULES: [ShadowRule; 6] = [
    ShadowRule {
        programs: &["make", "gmake"],
        beside: &["Makefile", "makefile"],
        names: &["GNUmakefile", "makefile"],
    },
    ShadowRule { programs: &["rake"], beside: &["Rakefile"], names: &["rakefile"] },
    ShadowRule {
        programs: &["python", "pypy", "pytest", "py.test", "unittest", "tox", "nox", "coverage"],
        beside: &[],
        names: &PYTHON_NAMES,
    },
    ShadowRule {
        programs: &["npm", "npx", "pnpm", "yarn"],
        beside: &[],
        names: &[".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs"],
    },
    ShadowRule {
        programs: &["cargo", "rustc", "clippy-driver"],
        beside: &[],
        names: &["rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml"],
    },
    ShadowRule { programs: &["go"], beside: &[], names: &["go.work"] },
];

/// Returns the files that change what a program does in a directory, whether they exist or not.
pub(crate) fn list_shadow_files(program: &str, directory: &Path) -> Vec<PathBuf> {
    let base = program.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let is_there = |name: &&str| directory.join(name).is_file();
    let rules = RULES.iter().filter(|rule| rule.programs.contains(&base));
    let rules = rules.filter(|rule| rule.beside.is_empty() || rule.beside.iter().any(is_there));
    rules.flat_map(|rule| rule.names).map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_the_program_and_on_what_is_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let list = |program: &str| -> Vec<String> {
            let files = list_shadow_files(program, directory.path());
            let names = files.iter().filter_map(|it| it.strip_prefix(directory.path()).ok());
            names.map(|it| it.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(list("make"), [""; 0], "no Makefile, so nothing is shadowed");
        std::fs::write(directory.path().join("Makefile"), "").expect("written");
        assert_eq!(list("make"), ["GNUmakefile", "makefile"]);
        assert!(list("python3.12").contains(&"unittest.py".to_owned()));
        assert!(list("cargo").contains(&"rust-toolchain.toml".to_owned()));
        assert_eq!(list("grep"), [""; 0]);
    }
}
