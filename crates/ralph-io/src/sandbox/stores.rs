//! Table of what toolchains and package managers keep in a home directory: what a child sees
//! read-only, which of it holds credentials and stays hidden, and which directories it gets of its
//! own.
//!
//! Not here: where these are mounted, and what the user adds (`sandbox.home`).

/// A part of the home that is visible, read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Store {
    /// Relative to the home directory.
    pub(super) path: &'static str,
    /// Files in it that hold credentials. They appear as empty files.
    pub(super) secrets: &'static [&'static str],
}

const fn store(path: &'static str) -> Store {
    Store { path, secrets: &[] }
}

const fn keeping(path: &'static str, secrets: &'static [&'static str]) -> Store {
    Store { path, secrets }
}

/// Toolchains and package stores. If a tool does not accept an empty file as its credentials, or
/// writes next to its packages, only the packages are listed.
pub(super) const STORES: [Store; 102] = [
    // Programs and version managers.
    store("bin"),
    store("n"),
    store(".local/bin"),
    store(".local/lib"),
    store(".local/share/claude"),
    store(".asdf"),
    store(".local/share/mise"),
    store(".proto"),
    // Git.
    keeping(".config/git", &["credentials"]),
    store(".gitconfig"),
    store(".gitignore"),
    store(".gitignore_global"),
    // Rust.
    keeping(".cargo", &["credentials", "credentials.toml"]),
    store(".rustup"),
    // Go.
    store("go"),
    store(".goenv"),
    // JavaScript.
    keeping(".nvm", &[".npmrc"]),
    keeping(".volta", &[".npmrc"]),
    keeping(".npm-global", &["etc/npmrc"]),
    store(".fnm"),
    store(".local/share/fnm"),
    store(".nodenv"),
    store(".n"),
    store(".npm/_cacache"),
    store(".npm/_npx"),
    store(".yarn/berry"),
    store(".config/yarn/global"),
    store(".cache/yarn"),
    store(".cache/node"),
    store(".local/share/pnpm"),
    store(".cache/pnpm"),
    store(".bun"),
    store(".deno"),
    store(".cache/deno"),
    // Browsers for tests.
    store(".cache/ms-playwright"),
    store(".cache/Cypress"),
    store(".cache/puppeteer"),
    store(".cache/selenium"),
    // Python.
    store(".pyenv"),
    store(".virtualenvs"),
    store(".local/share/virtualenvs"),
    store(".local/share/pypoetry"),
    store(".cache/pypoetry"),
    store(".cache/pip"),
    store(".local/pipx"),
    store(".local/share/pipx"),
    store(".local/share/uv"),
    store(".local/share/hatch"),
    store(".cache/pre-commit"),
    store(".cache/prek"),
    // Ruby.
    store(".rbenv"),
    store(".rvm"),
    store(".gem/ruby"),
    store(".local/share/gem/ruby"),
    store(".bundle/cache"),
    store(".bundle/plugin"),
    // PHP.
    store(".phpenv"),
    store(".composer/vendor"),
    store(".composer/cache"),
    store(".config/composer/vendor"),
    store(".cache/composer"),
    // Java, Kotlin, Scala.
    store(".sdkman"),
    store(".jenv"),
    store(".jdks"),
    store(".m2/repository"),
    store(".m2/wrapper"),
    store(".gradle/jdks"),
    store(".konan"),
    store(".ivy2/cache"),
    store(".ivy2/local"),
    store(".cache/coursier"),
    store(".local/share/coursier"),
    // .NET.
    store(".dotnet"),
    store(".nuget/packages"),
    store(".local/share/NuGet"),
    // Haskell, OCaml, Elixir, Julia, Lean.
    store(".ghcup"),
    keeping(".stack", &["upload/credentials.json"]),
    store(".cabal/packages"),
    store(".cabal/store"),
    store(".cabal/bin"),
    store(".local/state/cabal/store"),
    store(".cache/cabal/packages"),
    store(".opam"),
    store(".mix"),
    store(".hex/packages"),
    store(".julia/packages"),
    store(".julia/artifacts"),
    store(".julia/registries"),
    store(".julia/environments"),
    store(".julia/juliaup"),
    store(".juliaup"),
    store(".elan"),
    // Dart, C and C++, Perl, Lua, build tools.
    store(".pub-cache/hosted"),
    store(".pub-cache/git"),
    store(".pub-cache/bin"),
    store(".pub-cache/global_packages"),
    keeping(".conan2", &["credentials.json", ".conan.db", "localdb.encrypted"]),
    store(".cache/vcpkg"),
    store("perl5"),
    store(".plenv"),
    store(".luarocks"),
    store(".cache/bazelisk"),
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
pub(super) fn is_harmless(settings: &str) -> bool {
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
    fn settings_with_credentials_are_recognized() {
        for (text, expect) in [
            ("nodejs 20.1.0\npython 3.12.1\n", true),
            ("gem: --no-document\n:sources:\n- https://rubygems.org\n", true),
            (":sources:\n- https://ann:pw@gems.example.com\n", false),
            ("[env]\nGITHUB_TOKEN = \"x\"\n", false),
            ("[tools]\nnode = \"20\"\n[settings]\nurl = \"https://a.example/@scope\"\n", true),
            ("password: x", false),
        ] {
            assert_eq!(is_harmless(text), expect, "{text}");
        }
    }
}
