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
}
