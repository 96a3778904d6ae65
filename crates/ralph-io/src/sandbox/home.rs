//! What stays visible of a hidden home directory: toolchains, and where programs are looked for.
//!
//! An allowlist. What is not in it, such as keys, tokens and histories, is not there. Not here: what
//! the user adds to it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Toolchains, and what programs are configured by without secrets.
const TOOLCHAINS: [&str; 30] = [
    ".asdf",
    ".bun",
    ".cargo",
    ".config/git",
    ".deno",
    ".dotnet",
    ".fnm",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".ghcup",
    ".jenv",
    ".local/bin",
    ".local/lib",
    ".local/share/claude",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go",
    "bin",
];

/// Secrets that lie in them.
const SECRETS: [&str; 5] = [
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/git/credentials",
    ".nvm/.npmrc",
    ".volta/.npmrc",
];

/// Returns what stays visible of a home directory, resolved, and what of that is hidden after all.
pub(super) fn visible(home: &Path, path: &OsStr) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut shown: Vec<PathBuf> = TOOLCHAINS.iter().map(|name| home.join(name)).collect();
    for directory in std::env::split_paths(path).filter(|it| it.is_absolute()) {
        shown.extend(installation(home, &directory));
    }
    let mut resolved: Vec<PathBuf> =
        shown.iter().filter_map(|path| path.canonicalize().ok()).collect();
    resolved.retain(|path| path.starts_with(home) && path != home);
    let shown = outermost(resolved);
    let secrets = SECRETS.iter().map(|name| home.join(name)).filter(|path| path.is_file());
    (shown, secrets.filter_map(|path| path.canonicalize().ok()).collect())
}

/// Returns what belongs to a directory on the `PATH` in the home directory: where it is the `bin` of
/// an installation, that whole installation, for its libraries.
fn installation(home: &Path, directory: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(directory).ok()?;
    if !real.starts_with(home) || real == home {
        return None;
    }
    let above = real.parent()?;
    // A `bin` right below the home, or that of `~/.local`, stands for itself.
    let is_shared = above == home || above == home.join(".local");
    let is_part = real.file_name().is_some_and(|name| name == "bin") && !is_shared;
    Some(if is_part { above.to_owned() } else { real })
}

/// Returns the directories on the `PATH` that links lead to, by the names that they have there: a
/// link in a place that is made empty is gone, such as `/run/current-system` or `~/.nix-profile`.
/// Where it leads to an installation, that whole installation; never to what is hidden under its
/// real name.
pub(super) fn linked(home: Option<&Path>, path: &OsStr) -> Vec<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_private = |real: &Path| {
        real == Path::new("/")
            || home.as_ref().is_some_and(|home| {
                let secrets = SECRETS.iter().map(|name| home.join(name));
                home.starts_with(real)
                    || real == home.join(".local")
                    || secrets.into_iter().any(|secret| secret.starts_with(real))
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

/// Returns the paths without those that lie in others of them.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
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
        let (shown, hidden) = visible(&home, &path);
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
            // Not what is hidden under another name.
            ("run/home", None),
            ("run/home/bin", Some("run/home/bin")),
            ("run/rust/bin", Some("run/rust/bin")),
        ] {
            let expect: Vec<PathBuf> = expect.iter().map(|it| root.join(it)).collect();
            let found = linked(Some(&root.join("home")), root.join(entry).as_os_str());
            assert_eq!(found, expect, "{entry}");
        }
    }
}
