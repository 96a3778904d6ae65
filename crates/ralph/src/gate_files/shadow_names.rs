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

/// Modules of Python's standard library that scripts import.
#[rustfmt::skip]
const STANDARD_MODULES: [&str; 147] = [
    "abc", "argparse", "array", "ast", "asyncio", "base64", "bdb", "binascii", "bisect", "bz2",
    "cProfile", "calendar", "cmath", "cmd", "code", "codecs", "codeop", "collections", "colorsys",
    "compileall", "concurrent", "configparser", "contextlib", "contextvars", "copy", "copyreg",
    "csv", "ctypes", "dataclasses", "datetime", "dbm", "decimal", "difflib", "dis", "doctest",
    "email", "encodings", "enum", "fcntl", "filecmp", "fileinput", "fnmatch", "fractions", "ftplib",
    "functools", "genericpath", "getopt", "getpass", "gettext", "glob", "graphlib", "grp", "gzip",
    "hashlib", "heapq", "hmac", "html", "http", "imaplib", "importlib", "inspect", "io",
    "ipaddress", "json", "keyword", "linecache", "locale", "logging", "lzma", "mailbox", "math",
    "mimetypes", "mmap", "multiprocessing", "netrc", "ntpath", "numbers", "opcode", "operator",
    "optparse", "os", "pathlib", "pdb", "pickle", "pkgutil", "platform", "plistlib", "posixpath",
    "pprint", "profile", "pstats", "pty", "queue", "quopri", "random", "re", "reprlib", "resource",
    "runpy", "sched", "secrets", "select", "selectors", "shlex", "shutil", "signal",
    "site", "smtplib", "socket", "socketserver", "sqlite3", "ssl", "stat", "statistics", "string",
    "struct", "subprocess", "sysconfig", "syslog", "tarfile", "tempfile", "termios", "textwrap",
    "threading", "timeit", "token", "tokenize", "tomllib", "trace", "traceback", "tracemalloc",
    "types", "typing", "unicodedata", "unittest", "urllib", "uuid", "venv", "warnings", "wave",
    "weakref", "xml", "xmlrpc", "zipfile", "zipimport", "zlib", "zoneinfo",
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
        programs: &["npm", "npx", "pnpm", "yarn", "bun", "bunx"],
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

/// Returns the files in a directory that a Python script there would import in place of the standard
/// modules that it means, whether they exist or not.
pub(crate) fn list_imported_names(text: &str, directory: &Path) -> Vec<PathBuf> {
    let imported = text.lines().filter_map(|line| {
        let line = line.trim();
        line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")?.split(" import").next())
    });
    let words = imported.flat_map(|list| list.split(','));
    let names = words.map(|it| it.trim().split([' ', '.', ';']).next().unwrap_or_default());
    let names = names.filter(|it| STANDARD_MODULES.contains(it));
    names
        .flat_map(|it| [format!("{it}.py"), format!("{it}/__init__.py")])
        .map(|file| directory.join(file))
        .collect()
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

    #[test]
    fn documentation_lists_the_names() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gates.md");
        let page = std::fs::read_to_string(page).expect("a page");
        let (_, table) = page.split_once("## Names that change a gate").expect("a table");
        for rule in &RULES {
            // Of the modules of python only examples.
            let names = if rule.names == PYTHON_NAMES { &rule.names[..3] } else { rule.names };
            let start = format!("| {}", rule.programs[0].trim_matches('`'));
            let row = table.lines().find(|it| it.replace('`', "").starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("no row {start}"));
            for name in names {
                assert!(row.contains(&format!("`{name}`")), "{name} is not in {row}");
            }
        }
    }

    #[test]
    fn imports_of_standard_modules_are_found() {
        let text = "import json as j, app\nfrom os.path import join\nprint('import re')\n";
        let files = list_imported_names(text, Path::new("ci"));
        let files: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
        assert_eq!(files, ["ci/json.py", "ci/json/__init__.py", "ci/os.py", "ci/os/__init__.py"]);
    }
}
