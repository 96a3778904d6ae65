//! The environment of children: what they inherit, what is added, what is taken away.
//!
//! Children started directly inherit everything except what is denied; those in a sandbox inherit
//! only known harmless variables and those of their own agent. Not here: which variables an agent
//! needs, which its adapter knows.

use std::collections::BTreeMap;
use std::ffi::OsString;

use globset::{Glob, GlobSetBuilder};
use ralph_agents as agents;
use ralph_model::agent::AgentKind;
use ralph_model::sandbox::{GateCredentials, NetworkMode};

/// Environment variables; neither names nor values need to be UTF-8.
pub type Variables = Vec<(OsString, OsString)>;

/// Removes the variables that match a pattern of `deny`, then adds those of `add`.
///
/// An invalid glob matches nothing; the settings refuse those earlier.
pub fn adjust_variables(
    base: &[(OsString, OsString)],
    deny: &[String],
    add: &BTreeMap<String, String>,
) -> Variables {
    let mut globs = GlobSetBuilder::new();
    for glob in deny.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
        globs.add(glob);
    }
    let denied = globs.build().unwrap_or_default();
    let mut variables: BTreeMap<OsString, OsString> =
        base.iter().filter(|(name, _)| !denied.is_match(name)).cloned().collect();
    variables.extend(add.iter().map(|(name, value)| (name.into(), value.into())));
    variables.into_iter().collect()
}

/// A child in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxChild {
    /// An agent; see [`agents::detect_program_kind`].
    Agent(AgentKind),
    /// A gate that runs for such an agent.
    Gate(AgentKind, GateCredentials),
}

/// Returns the variables that a child in a sandbox may inherit: the usual ones, those of its own
/// agent, and those in `names`, where a `*` at the end matches anything.
///
/// What is denied or added by the settings comes on top, see [`adjust_variables`].
pub fn filter_inherited(
    base: &[(OsString, OsString)],
    child: SandboxChild,
    names: &[String],
) -> Variables {
    let own = match child {
        SandboxChild::Agent(kind) | SandboxChild::Gate(kind, GateCredentials::Given) => {
            agents::find_adapter(kind).env
        }
        SandboxChild::Gate(_, GateCredentials::Withheld) => None,
    };
    let own = own.map(|own| [own.login, own.variables]).unwrap_or_default();
    let is_allowed = |name: &str| {
        let mut known = list_usual_names().chain(own.into_iter().flatten().copied());
        known.any(|pattern| matches_pattern(pattern, name))
            || names.iter().any(|it| matches_pattern(it, name))
    };
    // A name that is not UTF-8 is in no list.
    base.iter().filter(|(name, _)| name.to_str().is_some_and(is_allowed)).cloned().collect()
}

/// Returns the environment of gates: sets `CI`, because otherwise test runners that watch for
/// changes never exit, and without a network keeps package managers from trying for minutes. What
/// the user has set stays.
pub fn for_gates(mut base: Variables, network: NetworkMode) -> Variables {
    let no_retries: &[_] = match network {
        NetworkMode::None => &NO_RETRIES,
        NetworkMode::Host | NetworkMode::Proxy => &[],
    };
    for (name, value) in [("CI", "1")].iter().chain(no_retries) {
        if !base.iter().any(|(known, _)| known == name) {
            base.push((name.into(), value.into()));
        }
    }
    base
}

/// Makes package managers try once. npm alone waits for 70 seconds otherwise.
const NO_RETRIES: [(&str, &str); 4] = [
    ("npm_config_fetch_retries", "0"),
    ("PIP_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("CARGO_NET_RETRY", "0"),
];

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Variables for paths, locale, terminal, compilers and runtimes, separated by spaces. None of
/// them holds a secret; `CARGO_*` would include one.
const USUAL: [&str; 11] = [
    // User, paths, terminal.
    "PATH HOME USER LOGNAME SHELL TZ LANG LANGUAGE LC_* TERM COLORTERM NO_COLOR FORCE_COLOR \
     CLICOLOR CLICOLOR_FORCE CI XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME",
    // Set by ralph for its own hooks and servers in the sandbox.
    "RALPH_RUN_ID RALPH_ROLE RALPH_ITERATION RALPH_ASK RALPH_TASK RALPH_ACTIVE \
     RALPH_CONTEXT_WINDOW RALPH_SLOT",
    // Git.
    "GIT_AUTHOR_* GIT_COMMITTER_* GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM",
    // Certificates.
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE \
     NIX_SSL_CERT_FILE",
    // Rust.
    "CARGO_HOME CARGO_TARGET_DIR CARGO_INCREMENTAL CARGO_TERM_COLOR CARGO_NET_OFFLINE \
     CARGO_BUILD_JOBS RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS RUSTDOCFLAGS RUST_BACKTRACE RUST_LOG",
    // Go.
    "GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOTOOLCHAIN GOOS GOARCH CGO_ENABLED",
    // Java and Android.
    "JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME ANDROID_HOME \
     ANDROID_SDK_ROOT SDKMAN_DIR",
    // JavaScript.
    "NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME PNPM_HOME BUN_INSTALL DENO_DIR COREPACK_HOME NODE_PATH \
     NODE_ENV NODE_OPTIONS PLAYWRIGHT_BROWSERS_PATH CYPRESS_CACHE_FOLDER",
    // Python.
    "PYENV_ROOT PYENV_VERSION VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE POETRY_HOME \
     PIPX_HOME UV_CACHE_DIR WORKON_HOME PRE_COMMIT_HOME POETRY_CACHE_DIR PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED \
     PYTHONIOENCODING",
    // Ruby, PHP, Elixir, Haskell, OCaml, .NET, and version managers.
    "RBENV_ROOT RBENV_VERSION GEM_HOME GEM_PATH BUNDLE_PATH COMPOSER_HOME MIX_HOME HEX_HOME \
     GHCUP_INSTALL_BASE_PREFIX STACK_ROOT OPAMROOT OPAM_SWITCH_PREFIX DOTNET_ROOT NUGET_PACKAGES ASDF_DIR \
     ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR \
     HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES",
    // C.
    "CC CXX CPP AR LD CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS PKG_CONFIG_PATH \
     LD_LIBRARY_PATH LIBRARY_PATH CPATH CMAKE_PREFIX_PATH CCACHE_DIR SCCACHE_DIR",
];

fn list_usual_names() -> impl Iterator<Item = &'static str> {
    USUAL.into_iter().flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use ralph_core::checking::secret::is_secret_name;

    use super::*;

    #[track_caller]
    fn check(child: SandboxChild, names: &[&str], set: &[&str], expect: &[&str]) {
        let base: Variables = set.iter().map(|name| (name.into(), "1".into())).collect();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let found = filter_inherited(&base, child, &names);
        let found: Vec<String> =
            found.into_iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        assert_eq!(found, expect, "{child:?} {names:?}");
    }

    #[test]
    fn a_child_in_a_sandbox_inherits_harmless_variables_and_its_own() {
        let set = [
            "PATH",
            "HOME",
            "LC_ALL",
            "CARGO_HOME",
            "CARGO_REGISTRY_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_REGION",
            "SSH_AUTH_SOCK",
            "GH_TOKEN",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "RALPH_ACTIVE",
            "RALPH_SANDBOX_BACKEND",
            "HTTPS_PROXY",
            "MINE",
        ];
        let usual = ["PATH", "HOME", "LC_ALL", "CARGO_HOME", "RALPH_ACTIVE"];
        let with = |own: &[&'static str]| -> Vec<&'static str> {
            set.into_iter().filter(|it| usual.contains(it) || own.contains(it)).collect()
        };
        let claude = with(&["AWS_REGION", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]);
        for (child, names, expect) in [
            (SandboxChild::Agent(AgentKind::Text), &[][..], with(&[])),
            (SandboxChild::Agent(AgentKind::Claude), &[], claude.clone()),
            (SandboxChild::Agent(AgentKind::Codex), &[], with(&["OPENAI_API_KEY"])),
            (SandboxChild::Agent(AgentKind::Copilot), &[], with(&["GH_TOKEN"])),
            (
                SandboxChild::Agent(AgentKind::Sim),
                &["MINE", "AWS_*"],
                with(&["MINE", "AWS_REGION", "AWS_SECRET_ACCESS_KEY"]),
            ),
            (SandboxChild::Gate(AgentKind::Claude, GateCredentials::Withheld), &[], with(&[])),
            (
                SandboxChild::Gate(AgentKind::Claude, GateCredentials::Withheld),
                &["MINE"],
                with(&["MINE"]),
            ),
            (SandboxChild::Gate(AgentKind::Claude, GateCredentials::Given), &[], claude),
            (SandboxChild::Agent(AgentKind::Text), &["*"], set.to_vec()),
        ] {
            check(child, names, &set, &expect);
        }
    }

    #[test]
    fn usual_variables_are_neither_secret_nor_an_agents_own() {
        for name in list_usual_names() {
            assert!(!is_secret_name(name), "{name}");
            for own in agents::ADAPTERS.iter().filter_map(|adapter| adapter.env) {
                let mut own = own.login.iter().chain(own.variables);
                assert!(!own.any(|pattern| matches_pattern(pattern, name)), "{name}");
            }
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_not_inherited() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(vec![b'L', b'C', b'_', 0xff]);
        let base = vec![(odd, "1".into()), ("LC_X".into(), OsString::from_vec(vec![0xff]))];
        let found =
            filter_inherited(&base, SandboxChild::Agent(AgentKind::Text), &["*".to_owned()]);
        assert_eq!(found, base[1..]);
    }

    #[test]
    fn denied_variables_go_and_added_ones_win() {
        let base: Variables =
            [("A_API_KEY", "1"), ("PATH", "/bin"), ("CLAUDECODE", "1"), ("B", "old")]
                .map(|(name, value)| (name.into(), value.into()))
                .to_vec();
        let deny = ["*_API_KEY".to_owned(), "CLAUDE*".to_owned(), "[".to_owned()];
        let add = BTreeMap::from([("B".to_owned(), "new".to_owned())]);
        let expect: Variables = [("B", "new"), ("PATH", "/bin")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
        assert_eq!(adjust_variables(&base, &deny, &add), expect);
    }
}
