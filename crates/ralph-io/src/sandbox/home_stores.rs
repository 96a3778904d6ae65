//! Table of what toolchains and package managers keep in a home directory: what a child sees
//! read-only, which of it holds credentials and stays hidden, and which directories it gets of its
//! own.
//!
//! Not here: where these are mounted, and what the user adds (`sandbox.home`).

use std::path::{Path, PathBuf};

/// A part of the home that is visible, read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HomeStore {
    /// Relative to the home directory.
    pub(super) path: &'static str,
    /// Files in it that hold credentials. They appear as empty files.
    pub(super) secrets: &'static [&'static str],
}

const fn show_store(path: &'static str) -> HomeStore {
    HomeStore { path, secrets: &[] }
}

const fn show_store_except(path: &'static str, secrets: &'static [&'static str]) -> HomeStore {
    HomeStore { path, secrets }
}

/// Toolchains and package stores. If a tool does not accept an empty file as its credentials, or
/// writes next to its packages, only the packages are listed.
pub(super) const STORES: [HomeStore; 102] = [
    // Programs and version managers.
    show_store("bin"),
    show_store("n"),
    show_store(".local/bin"),
    show_store(".local/lib"),
    show_store(".local/share/claude"),
    show_store(".asdf"),
    show_store(".local/share/mise"),
    show_store(".proto"),
    // Git.
    show_store_except(".config/git", &["credentials"]),
    show_store(".gitconfig"),
    show_store(".gitignore"),
    show_store(".gitignore_global"),
    // Rust.
    show_store_except(".cargo", &["credentials", "credentials.toml"]),
    show_store(".rustup"),
    // Go.
    show_store("go"),
    show_store(".goenv"),
    // JavaScript.
    show_store_except(".nvm", &[".npmrc"]),
    show_store_except(".volta", &[".npmrc"]),
    show_store_except(".npm-global", &["etc/npmrc"]),
    show_store(".fnm"),
    show_store(".local/share/fnm"),
    show_store(".nodenv"),
    show_store(".n"),
    show_store(".npm/_cacache"),
    show_store(".npm/_npx"),
    show_store(".yarn/berry"),
    show_store(".config/yarn/global"),
    show_store(".cache/yarn"),
    show_store(".cache/node"),
    show_store(".local/share/pnpm"),
    show_store(".cache/pnpm"),
    show_store(".bun"),
    show_store(".deno"),
    show_store(".cache/deno"),
    // Browsers for tests.
    show_store(".cache/ms-playwright"),
    show_store(".cache/Cypress"),
    show_store(".cache/puppeteer"),
    show_store(".cache/selenium"),
    // Python.
    show_store(".pyenv"),
    show_store(".virtualenvs"),
    show_store(".local/share/virtualenvs"),
    show_store(".local/share/pypoetry"),
    show_store(".cache/pypoetry"),
    show_store(".cache/pip"),
    show_store(".local/pipx"),
    show_store(".local/share/pipx"),
    show_store(".local/share/uv"),
    show_store(".local/share/hatch"),
    show_store(".cache/pre-commit"),
    show_store(".cache/prek"),
    // Ruby.
    show_store(".rbenv"),
    show_store(".rvm"),
    show_store(".gem/ruby"),
    show_store(".local/share/gem/ruby"),
    show_store(".bundle/cache"),
    show_store(".bundle/plugin"),
    // PHP.
    show_store(".phpenv"),
    show_store(".composer/vendor"),
    show_store(".composer/cache"),
    show_store(".config/composer/vendor"),
    show_store(".cache/composer"),
    // Java, Kotlin, Scala.
    show_store(".sdkman"),
    show_store(".jenv"),
    show_store(".jdks"),
    show_store(".m2/repository"),
    show_store(".m2/wrapper"),
    show_store(".gradle/jdks"),
    show_store(".konan"),
    show_store(".ivy2/cache"),
    show_store(".ivy2/local"),
    show_store(".cache/coursier"),
    show_store(".local/share/coursier"),
    // .NET.
    show_store(".dotnet"),
    show_store(".nuget/packages"),
    show_store(".local/share/NuGet"),
    // Haskell, OCaml, Elixir, Julia, Lean.
    show_store(".ghcup"),
    show_store_except(".stack", &["upload/credentials.json"]),
    show_store(".cabal/packages"),
    show_store(".cabal/store"),
    show_store(".cabal/bin"),
    show_store(".local/state/cabal/store"),
    show_store(".cache/cabal/packages"),
    show_store(".opam"),
    show_store(".mix"),
    show_store(".hex/packages"),
    show_store(".julia/packages"),
    show_store(".julia/artifacts"),
    show_store(".julia/registries"),
    show_store(".julia/environments"),
    show_store(".julia/juliaup"),
    show_store(".juliaup"),
    show_store(".elan"),
    // Dart, C and C++, Perl, Lua, build tools.
    show_store(".pub-cache/hosted"),
    show_store(".pub-cache/git"),
    show_store(".pub-cache/bin"),
    show_store(".pub-cache/global_packages"),
    show_store_except(".conan2", &["credentials.json", ".conan.db", "localdb.encrypted"]),
    show_store(".cache/vcpkg"),
    show_store("perl5"),
    show_store(".plenv"),
    show_store(".luarocks"),
    show_store(".cache/bazelisk"),
];

/// Settings of tools. Each is visible only if it contains nothing that looks like a credential.
pub(super) const SETTINGS: [&str; 9] = [
    ".tool-versions",
    ".asdfrc",
    ".config/mise/config.toml",
    ".prototools",
    ".gemrc",
    ".config/pypoetry/config.toml",
    ".nvmrc",
    ".node-version",
    ".python-version",
];

/// Returns whether settings contain nothing that looks like a credential.
pub fn is_free_of_credentials(settings: &str) -> bool {
    let text = settings.to_ascii_lowercase();
    let has_login = text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '"', '\'', ' ', '\n']).next().unwrap_or_default();
        authority.contains('@')
    });
    let words =
        ["password", "passwd", "passphrase", "token", "secret", "api_key", "apikey", "auth"];
    !has_login && !words.iter().any(|word| text.contains(word))
}

/// Variables that locate stores, and the credential files in these.
pub(super) const STORE_VARIABLES: [(&str, &[&str]); 27] = [
    ("CARGO_HOME", &["credentials", "credentials.toml"]),
    ("RUSTUP_HOME", &[]),
    ("GOPATH", &[]),
    ("GOMODCACHE", &[]),
    ("NVM_DIR", &[".npmrc"]),
    ("FNM_DIR", &[]),
    ("VOLTA_HOME", &[".npmrc"]),
    ("PNPM_HOME", &[]),
    ("BUN_INSTALL", &[]),
    ("DENO_DIR", &[]),
    ("COREPACK_HOME", &[]),
    ("PLAYWRIGHT_BROWSERS_PATH", &[]),
    ("CYPRESS_CACHE_FOLDER", &[]),
    ("PYENV_ROOT", &[]),
    ("PIPX_HOME", &[]),
    ("WORKON_HOME", &[]),
    ("PRE_COMMIT_HOME", &[]),
    ("RBENV_ROOT", &[]),
    ("GEM_HOME", &["credentials"]),
    ("SDKMAN_DIR", &[]),
    ("DOTNET_ROOT", &[]),
    ("NUGET_PACKAGES", &[]),
    ("STACK_ROOT", &["upload/credentials.json"]),
    ("OPAMROOT", &[]),
    ("MIX_HOME", &[]),
    ("ASDF_DATA_DIR", &[]),
    ("MISE_DATA_DIR", &[]),
];

/// Directories of the home that tools use as caches. A child gets persistent ones of its own there.
pub(super) const CACHES: [&str; 4] = [".cache", ".gradle", ".julia", ".npm"];

/// Where the cache of jest is kept.
pub(super) const JEST_CACHE: &str = "jest";

/// Returns the directory in which jest keeps its cache by default: the temporary directory, and the
/// user's id in base 36.
pub(super) fn build_jest_path(temporary: &Path, user: u32) -> PathBuf {
    let (mut rest, mut digits) = (user, String::new());
    loop {
        digits.extend(char::from_digit(rest % 36, 36));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    temporary.join(format!("jest_{}", digits.chars().rev().collect::<String>()))
}

/// Gradle writes next to its packages, and can read them from a second, read-only place.
pub(super) const GRADLE_PACKAGES: &str = ".gradle/caches";
/// Where the packages are visible.
pub(super) const GRADLE_SHOWN: &str = ".cache/gradle-packages";
pub(super) const GRADLE_VARIABLE: &str = "GRADLE_RO_DEP_CACHE";

/// The distributions of Gradle's wrapper. It writes a lock next to each, so their files are shown
/// one by one.
pub(super) const GRADLE_DISTRIBUTIONS: &str = ".gradle/wrapper/dists";

/// Variables that locate such a cache directory elsewhere.
pub(super) const CACHE_VARIABLES: [&str; 7] = [
    "XDG_CACHE_HOME",
    "GOCACHE",
    "CCACHE_DIR",
    "SCCACHE_DIR",
    "CARGO_TARGET_DIR",
    "GRADLE_USER_HOME",
    "UV_CACHE_DIR",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_credentials_are_in_no_store_or_are_hidden() {
        for file in [
            ".cargo/credentials",
            ".cargo/credentials.toml",
            ".config/git/credentials",
            ".git-credentials",
            ".netrc",
            ".npmrc",
            ".nvm/.npmrc",
            ".yarnrc.yml",
            ".config/yarn/.npmrc",
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".gradle/gradle.properties",
            ".gradle/init.gradle",
            ".ivy2/.credentials",
            ".sbt/.credentials",
            ".sbt/1.0/credentials.sbt",
            ".gem/credentials",
            ".bundle/config",
            ".composer/auth.json",
            ".config/composer/auth.json",
            ".nuget/NuGet/NuGet.Config",
            ".config/pypoetry/auth.toml",
            ".pypirc",
            ".config/pip/pip.conf",
            ".pub-cache/credentials.json",
            ".config/dart/pub-credentials.json",
            ".hex/hex.config",
            ".stack/upload/credentials.json",
            ".cabal/config",
            ".conan2/credentials.json",
            ".config/gh/hosts.yml",
            ".ssh/id_ed25519",
            ".aws/credentials",
            ".docker/config.json",
            ".kube/config",
            ".config/gcloud/credentials.db",
        ] {
            let is_seen = STORES.iter().any(|store| {
                let below = file.strip_prefix(store.path).and_then(|it| it.strip_prefix('/'));
                file == store.path
                    || below.is_some_and(|it| !it.contains("..") && !store.secrets.contains(&it))
            });
            assert!(!is_seen && !SETTINGS.contains(&file), "{file}");
        }
    }

    #[test]
    fn the_cache_of_jest_is_named_by_the_user() {
        for (user, expect) in [(0, "jest_0"), (35, "jest_z"), (1000, "jest_rs"), (1001, "jest_rt")]
        {
            let path = build_jest_path(Path::new("/tmp"), user);
            assert_eq!(path, Path::new("/tmp").join(expect));
        }
    }

    #[test]
    fn settings_with_credentials_are_recognized() {
        for (text, expect) in [
            ("nodejs 20.1.0\npython 3.12.1\n", true),
            ("gem: --no-document\n:sources:\n- https://rubygems.org\n", true),
            (":sources:\n- https://ann:pw@gems.example.com\n", false),
            ("[env]\nGITHUB_TOKEN = \"x\"\n", false),
            ("[tools]\nnode = \"20\"\n[settings]\nurl = \"https://a.example/@scope\"\n", true),
            ("password: x", false),
        ] {
            assert_eq!(is_free_of_credentials(text), expect, "{text}");
        }
    }
}
