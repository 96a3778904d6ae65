//! Where paths lead: absolute, with links resolved as far as the path exists.
//!
//! Not here: which paths are protected.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_guard::{GuardContext, ProtectedPlaces, normalize_lexically};
use ralph_model::hook_state::HookState;

/// Directories for temporary files.
const TEMPORARY: [&str; 6] =
    ["/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders", "/var/folders"];

/// Returns the environment that the guard checks commands against in an active run.
pub fn build_surroundings<S>(
    active: &HookState<S>,
    active_file: &Path,
    cwd: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> GuardContext<'static> {
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let mut variables = BTreeMap::new();
    for name in ["USER", "LOGNAME", "TMPDIR", "SHELL", "XDG_RUNTIME_DIR"] {
        variables.extend(text(name).map(|value| (name.to_owned(), value)));
    }
    let project = active.project.as_ref().map(|project| project.display().to_string());
    variables.extend(project.map(|project| ("CLAUDE_PROJECT_DIR".to_owned(), project)));
    // ralph under any name counts as `ralph`.
    variables.insert("RALPH_EXE".to_owned(), "ralph".to_owned());
    variables.insert("RALPH_ACTIVE".to_owned(), active_file.display().to_string());
    let mut temporary: Vec<PathBuf> = TEMPORARY.iter().map(PathBuf::from).collect();
    temporary.extend(text("TMPDIR").map(PathBuf::from).filter(|it| it.components().count() > 2));
    GuardContext {
        protected: build_protected(active, active_file),
        home: text("HOME").filter(|home| home.starts_with('/')),
        cwd: cwd.to_string_lossy().into_owned(),
        temporary,
        variables,
        resolve: &resolve_path,
    }
}

/// Returns the protected paths of an active run.
fn build_protected<S>(active: &HookState<S>, active_file: &Path) -> ProtectedPlaces {
    let spellings = |path: &Path| {
        let mut spellings = vec![normalize_lexically(path)];
        let resolved = resolve_path(path);
        if resolved != spellings[0] {
            spellings.push(resolved);
        }
        spellings
    };
    let spelled = |path: Option<&Path>| path.map(spellings).unwrap_or_default();
    ProtectedPlaces {
        project: spelled(active.project.as_deref()),
        state: spelled(active_file.parent()),
        tasks_file: spelled(active.tasks_file.as_deref()),
        keeper: active.keeper,
        patterns: active.protect.clone(),
    }
}

/// Resolves a path. A path that does not exist yet is resolved through its parent directory.
fn resolve_path(path: &Path) -> PathBuf {
    for there in path.ancestors() {
        if let Ok(real) = there.canonicalize() {
            let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
            return normalize_lexically(&real.join(rest));
        }
    }
    normalize_lexically(path)
}

#[cfg(test)]
mod tests {
    use ralph_guard::{GuardedToolCall, decide_call, inspect_call};
    use ralph_model::guard_policy::GuardPolicy;
    use ralph_model::ids::RunId;
    use ralph_model::units::Timestamp;

    use super::*;

    #[test]
    fn links_are_followed_as_far_as_there_is_something() {
        let directory = tempfile::tempdir().expect("a directory");
        let cwd = directory.path().canonicalize().expect("there");
        std::fs::create_dir_all(cwd.join(".ralph/prompts")).expect("directories");
        std::os::unix::fs::symlink(".ralph", cwd.join("innocent")).expect("a link");
        std::os::unix::fs::symlink("/etc", cwd.join("system")).expect("a link");
        let active = HookState {
            project: Some(cwd.clone()),
            ..HookState::new(RunId("r".into()), 1, Timestamp(1))
        };
        let around = build_surroundings(&active, Path::new("/state/p/active.json"), &cwd, |name| {
            (name == "HOME").then(|| "/home/me".into())
        });
        for (command, expect) in [
            ("rm innocent/settings.json", Some("loop.settings")),
            ("cd innocent && rm settings.json", Some("loop.settings")),
            ("cd innocent/prompts && rm ../x", Some("loop.own-files")),
            ("echo x > system/hosts", Some("sysconf.etc")),
            ("rm a/../b", None),
            ("rm \"$PWD/x\"", None),
            ("rm ~/x", Some("fs.remove-outside")),
        ] {
            let findings = inspect_call(&GuardedToolCall::Shell(command.into()), &around);
            let found = match decide_call(&GuardPolicy::default(), &findings) {
                ralph_guard::GuardDecision::Pass => None,
                ralph_guard::GuardDecision::Warn(it) | ralph_guard::GuardDecision::Deny(it) => {
                    Some(it.rule)
                }
            };
            assert_eq!(found, expect, "{command}");
        }
    }
}
