//! Which variables of ralph's own environment reach a cell.
//!
//! Not here: what an agent's adapter adds, which is meant for it.

use std::ffi::{OsStr, OsString};

use crate::environment::Variables;

/// What programs need to find themselves and each other. None of them carries a secret.
const USUAL: [&str; 41] = [
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CI",
    "COLORTERM",
    "DOTNET_ROOT",
    "EDITOR",
    "FORCE_COLOR",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "MANPATH",
    "NO_COLOR",
    "NODE_ENV",
    "NVM_*",
    "PATH",
    "PYENV_*",
    "RALPH_*",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SOURCE_DATE_EPOCH",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "XDG_STATE_HOME",
];

/// Returns the variables that a cell may have: the usual ones, and those whose name is in `more`,
/// where a `*` at the end stands for anything.
pub fn admitted(environment: &[(OsString, OsString)], more: &[String]) -> Variables {
    let is_admitted = |name: &OsStr| {
        let name = name.to_string_lossy();
        let patterns = USUAL.into_iter().chain(more.iter().map(String::as_str));
        patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
    };
    environment.iter().filter(|(name, _)| is_admitted(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_outside_unless_they_are_named() {
        let environment: Variables = ["PATH", "LC_ALL", "AWS_SECRET", "MY_TOKEN", "MY_FLAG", "X"]
            .map(|name| (name.into(), "1".into()))
            .to_vec();
        for (more, expect) in [
            (vec![], vec!["PATH", "LC_ALL"]),
            (vec!["MY_*", "X"], vec!["PATH", "LC_ALL", "MY_TOKEN", "MY_FLAG", "X"]),
        ] {
            let more: Vec<String> = more.into_iter().map(str::to_owned).collect();
            let names: Vec<OsString> =
                admitted(&environment, &more).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expect);
        }
    }
}
