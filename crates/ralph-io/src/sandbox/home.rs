//! What stays visible of a hidden home directory: toolchains, and directories on the `PATH`.
//!
//! An allowlist. Everything else, such as keys, tokens and histories, is invisible. Not here: what
//! the user adds to it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Mount;
use super::home_stores::{
    CACHE_VARIABLES, CACHES, GRADLE_DISTRIBUTIONS, SETTINGS, STORE_VARIABLES, STORES,
    is_free_of_credentials,
};
use crate::bounded_read;

/// Settings of tools are short; longer files are not read.
const LARGEST_SETTINGS: u64 = 64 << 10;

/// Returns what stays visible of a home directory, resolved, and which files of that are hidden.
pub(super) fn find_visible(
    home: &Path,
    path: &OsStr,
    variables: &[(OsString, OsString)],
) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut shown: Vec<PathBuf> = STORES.iter().map(|store| home.join(store.path)).collect();
    let settings = SETTINGS.iter().map(|name| home.join(name));
    shown.extend(settings.filter(|path| {
        bounded_read::read_file(path, LARGEST_SETTINGS)
            .is_ok_and(|text| is_free_of_credentials(&String::from_utf8_lossy(&text)))
    }));
    let moved = find_moved_stores(home, variables);
    shown.extend(moved.iter().map(|(path, _)| path.clone()));
    for directory in std::env::split_paths(path).filter(|it| it.is_absolute()) {
        shown.extend(find_installation(home, &directory));
    }
    let mut resolved: Vec<PathBuf> =
        shown.iter().filter_map(|path| path.canonicalize().ok()).collect();
    resolved.retain(|path| path.starts_with(home) && path != home);
    let shown = keep_outermost(resolved);
    let moved = moved.iter().flat_map(|(path, names)| names.iter().map(|name| path.join(name)));
    let secrets = list_credential_files(home).chain(moved).filter(|path| path.is_file());
    (shown, secrets.filter_map(|path| path.canonicalize().ok()).collect())
}

/// Returns the files in stores that hold credentials.
fn list_credential_files(home: &Path) -> impl Iterator<Item = PathBuf> {
    STORES.iter().flat_map(move |store| {
        store.secrets.iter().map(move |name| home.join(store.path).join(name))
    })
}

/// Returns the stores that variables locate elsewhere in the home, with their credential files. A
/// variable that names more than a store shows nothing.
fn find_moved_stores(
    home: &Path,
    variables: &[(OsString, OsString)],
) -> Vec<(PathBuf, &'static [&'static str])> {
    const TOO_MUCH: [&str; 6] = ["", ".config", ".local", ".local/share", ".local/state", ".cache"];
    let is_store = |path: &PathBuf| {
        path.starts_with(home) && !TOO_MUCH.iter().any(|name| *path == home.join(name))
    };
    let value =
        |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let mut moved: Vec<(PathBuf, &'static [&'static str])> = Vec::new();
    for (name, secrets) in STORE_VARIABLES {
        let paths = value(name).into_iter().flat_map(std::env::split_paths);
        moved.extend(paths.map(|path| (path, secrets)));
    }
    for (name, usual) in [("XDG_CACHE_HOME", ".cache/"), ("XDG_DATA_HOME", ".local/share/")] {
        let Some(base) = value(name).map(Path::new) else { continue };
        moved.extend(
            STORES.iter().filter_map(|store| {
                Some((base.join(store.path.strip_prefix(usual)?), store.secrets))
            }),
        );
    }
    let resolved = moved
        .into_iter()
        .filter_map(|(path, secrets)| Some((path.canonicalize().ok().filter(is_store)?, secrets)));
    resolved.collect()
}

/// Returns the caches that a child gets of its own: those in the home, and those that variables
/// locate elsewhere in it, except for paths that are writable anyway. The caller fills in the host
/// directories.
pub(super) fn find_caches(
    home: &Path,
    variables: &[(OsString, OsString)],
    open: &[&Path],
) -> Vec<Mount> {
    let in_home = CACHES.iter().map(|name| (home.join(name), *name));
    let named = CACHE_VARIABLES.iter().filter_map(|name| {
        let (_, value) = variables.iter().find(|(known, _)| known == name)?;
        let path = PathBuf::from(value);
        let is_open = |open: &&Path| path.starts_with(open) || open.starts_with(&path);
        let is_elsewhere = path.is_absolute()
            && path.starts_with(home)
            && path != home
            && path.components().all(|part| part != Component::ParentDir)
            && !open.iter().any(is_open);
        is_elsewhere.then_some((path, *name))
    });
    let mut caches: Vec<(PathBuf, &str)> = in_home.chain(named).collect();
    // Outer ones first.
    caches.sort();
    caches.dedup_by(|one, other| one.0 == other.0);
    let mount = |(path, name): (PathBuf, &str)| Mount::Cache { path, source: name.into() };
    caches.into_iter().map(mount).collect()
}

/// Lists the files of the distributions that Gradle's wrapper has unpacked, without its locks.
pub(super) fn list_gradle_distributions(home: &Path) -> Vec<PathBuf> {
    let entries = |directory: PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == "lck");
    let hashes = entries(home.join(GRADLE_DISTRIBUTIONS)).flat_map(entries);
    hashes.flat_map(entries).filter(|path| !is_lock(path) && !path.is_symlink()).collect()
}

/// Returns what to show for a directory on the `PATH` in the home directory: if it is the `bin` of
/// an installation, the whole installation, because of its libraries.
fn find_installation(home: &Path, directory: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(directory).ok()?;
    if !real.starts_with(home) || real == home {
        return None;
    }
    let above = real.parent()?;
    // A `bin` directly in the home or in `~/.local` is not part of an installation.
    let is_shared = above == home || above == home.join(".local");
    let is_part = real.file_name().is_some_and(|name| name == "bin") && !is_shared;
    Some(if is_part { above.to_owned() } else { real })
}

/// Returns the directories on the `PATH` that are reached through links, under the names that they
/// have there: a link inside a scratch mount disappears, such as `/run/current-system` or
/// `~/.nix-profile`. If a link leads to an installation, the whole installation is shown; a target
/// that is hidden under its real path never is.
pub(super) fn find_linked_programs(home: Option<&Path>, path: &OsStr) -> Vec<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_private = |real: &Path| {
        real == Path::new("/")
            || home.as_ref().is_some_and(|home| {
                home.starts_with(real)
                    || real == home.join(".local")
                    || list_credential_files(home).any(|secret| secret.starts_with(real))
            })
    };
    let named = std::env::split_paths(path).filter(|it| it.is_absolute());
    let led = named.filter_map(|directory| {
        let real = fs::canonicalize(&directory).ok().filter(|real| *real != directory)?;
        let above = directory.parent()?;
        let real_above = fs::canonicalize(above).ok()?;
        let is_part = directory.file_name().is_some_and(|name| name == "bin")
            && real_above != above
            && real.parent() == Some(&real_above);
        let whole = (is_part && !is_private(&real_above)).then(|| above.to_owned());
        whole.or_else(|| (!is_private(&real)).then_some(directory))
    });
    led.collect()
}

/// Returns the paths without those that are inside others of them.
pub(super) fn keep_outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchains_and_the_path_are_visible_and_their_secrets_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().canonicalize().expect("there");
        for name in [".cargo/bin", ".ssh", "tools/node/bin", "tools/node/lib", ".local/bin", "mine"]
        {
            fs::create_dir_all(home.join(name)).expect("a directory");
        }
        fs::write(home.join(".cargo/credentials.toml"), "token").expect("written");
        let path = ["tools/node/bin", ".local/bin", "mine", ".", "none"].map(|it| home.join(it));
        let path =
            std::env::join_paths(path.iter().chain([&PathBuf::from("/usr/bin")])).expect("a PATH");
        let (shown, hidden) = find_visible(&home, &path, &[]);
        let relative = |paths: Vec<PathBuf>| -> Vec<String> {
            paths
                .iter()
                .filter_map(|path| path.strip_prefix(&home).ok()?.to_str().map(str::to_owned))
                .collect()
        };
        assert_eq!(relative(shown), [".cargo", ".local/bin", "mine", "tools/node"]);
        assert_eq!(relative(hidden), [".cargo/credentials.toml"]);
    }

    #[test]
    fn stores_named_by_variables_are_visible_and_broader_directories_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().canonicalize().expect("there");
        for name in [
            "rust/cargo",
            "gopath",
            ".local/share/keyrings",
            ".local/share/gems",
            "caches/pypoetry",
            "caches/other",
        ] {
            fs::create_dir_all(home.join(name)).expect("a directory");
        }
        fs::write(home.join("rust/cargo/credentials.toml"), "token").expect("written");
        fs::write(home.join(".gemrc"), "gem: --no-document").expect("written");
        fs::write(home.join(".tool-versions"), "token 1").expect("written");
        let variables = [
            ("CARGO_HOME", home.join("rust/cargo")),
            ("GOPATH", home.join("gopath")),
            ("GEM_HOME", home.join(".local/share/gems")),
            ("PIPX_HOME", home.join(".local/share")),
            ("PYENV_ROOT", home.clone()),
            ("XDG_CACHE_HOME", home.join("caches")),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let (shown, hidden) = find_visible(&home, OsStr::new(""), &variables);
        let names = [".gemrc", ".local/share/gems", "caches/pypoetry", "gopath", "rust/cargo"];
        assert_eq!(shown, names.map(|name| home.join(name)));
        assert_eq!(hidden, [home.join("rust/cargo/credentials.toml")]);
    }

    #[test]
    fn caches_come_from_the_home_and_from_variables() {
        let home = Path::new("/home/ann");
        let variables = [
            ("CARGO_TARGET_DIR", "/home/ann/targets"),
            ("CCACHE_DIR", "/home/ann/work/project/.ccache"),
            ("GOCACHE", "/var/cache/go"),
            ("SCCACHE_DIR", "/home/ann/../bob"),
            ("XDG_CACHE_HOME", "/home/ann/.cache"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let caches = find_caches(home, &variables, &[Path::new("/home/ann/work/project")]);
        let paths: Vec<&Path> = caches.iter().map(Mount::path).collect();
        let expect = [".cache", ".gradle", ".julia", ".npm", "targets"].map(|it| home.join(it));
        assert_eq!(paths, expect);
    }

    #[test]
    fn locks_of_gradle_are_not_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let unpacked = directory.path().join(".gradle/wrapper/dists/gradle-8-bin/abc");
        fs::create_dir_all(unpacked.join("gradle-8")).expect("a directory");
        for name in ["gradle-8-bin.zip.ok", "gradle-8-bin.zip.lck"] {
            fs::write(unpacked.join(name), "").expect("written");
        }
        let mut shown = list_gradle_distributions(directory.path());
        shown.sort();
        assert_eq!(shown, [unpacked.join("gradle-8"), unpacked.join("gradle-8-bin.zip.ok")]);
    }

    #[test]
    fn links_on_the_path_keep_their_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("there");
        for name in
            ["nix/sys/sw/bin", "nix/one/bin", "plain/bin", "run", "home/bin", "home/.cargo/bin"]
        {
            fs::create_dir_all(root.join(name)).expect("a directory");
        }
        for (to, name) in [
            ("nix/sys", "run/current-system"),
            ("nix/one", "home/.nix-profile"),
            ("plain/bin", "shortcut"),
            ("home", "run/home"),
            ("home/.cargo", "run/rust"),
        ] {
            std::os::unix::fs::symlink(root.join(to), root.join(name)).expect("a link");
        }
        for (entry, expect) in [
            ("run/current-system/sw/bin", Some("run/current-system/sw")),
            ("home/.nix-profile/bin", Some("home/.nix-profile")),
            ("shortcut", Some("shortcut")),
            ("plain/bin", None),
            ("none", None),
            // Not a directory that is hidden under its real path.
            ("run/home", None),
            ("run/home/bin", Some("run/home/bin")),
            ("run/rust/bin", Some("run/rust/bin")),
        ] {
            let expect: Vec<PathBuf> = expect.iter().map(|it| root.join(it)).collect();
            let found =
                find_linked_programs(Some(&root.join("home")), root.join(entry).as_os_str());
            assert_eq!(found, expect, "{entry}");
        }
    }
}
