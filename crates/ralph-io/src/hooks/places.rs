//! Where paths lead: absolute, with links followed as far as there is something.
//!
//! Not here: which places are protected.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::active::Active;
use ralph_core::guard::{Placed, Protected, Target, lexical};

/// What a path in a command is relative to.
#[derive(Debug, Clone)]
pub struct Standpoint {
    /// The agent's current directory.
    pub cwd: PathBuf,
    /// The user's home.
    pub home: Option<OsString>,
}

impl Standpoint {
    /// Returns the places that a target names: by the letter, and through links.
    pub fn place(&self, target: Target) -> Placed {
        let directory = self.absolute(&self.cwd, &target.directory);
        let said = self.absolute(&directory, &target.said);
        let mut places = vec![lexical(&said)];
        let resolved = resolved(&said);
        if resolved != places[0] {
            places.push(resolved);
        }
        Placed { target, places }
    }

    fn absolute(&self, base: &Path, said: &str) -> PathBuf {
        let here = self.cwd.to_string_lossy();
        let home = self.home.as_ref().map(|home| home.to_string_lossy()).unwrap_or_default();
        for (name, value) in [
            ("$PWD", &here),
            ("${PWD}", &here),
            ("$CLAUDE_PROJECT_DIR", &here),
            ("${CLAUDE_PROJECT_DIR}", &here),
            ("$HOME", &home),
            ("${HOME}", &home),
            ("~", &home),
        ] {
            if let Some(rest) = said.strip_prefix(name)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return PathBuf::from(format!("{value}{rest}"));
            }
        }
        base.join(said)
    }
}

/// Returns what is protected in an active run.
pub fn protected<S>(active: &Active<S>, active_file: &Path) -> Protected {
    let spellings = |path: &Path| {
        let mut spellings = vec![lexical(path)];
        let resolved = resolved(path);
        if resolved != spellings[0] {
            spellings.push(resolved);
        }
        spellings
    };
    let spelled = |path: Option<&Path>| path.map(spellings).unwrap_or_default();
    Protected {
        project: spelled(active.project.as_deref()),
        state: spelled(active_file.parent()),
        tasks_file: spelled(active.tasks_file.as_deref()),
        keeper: active.keeper,
        patterns: active.protect.clone(),
    }
}

/// Returns where a path leads. What is not there yet is where its directory leads.
fn resolved(path: &Path) -> PathBuf {
    for there in path.ancestors() {
        if let Ok(real) = there.canonicalize() {
            let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
            return lexical(&real.join(rest));
        }
    }
    lexical(path)
}

#[cfg(test)]
mod tests {
    use ralph_core::guard::Deed;

    use super::*;

    #[test]
    fn links_are_followed_as_far_as_there_is_something() {
        let directory = tempfile::tempdir().expect("a directory");
        let cwd = directory.path().canonicalize().expect("there");
        std::fs::create_dir_all(cwd.join(".ralph/prompts")).expect("directories");
        std::os::unix::fs::symlink(".ralph", cwd.join("innocent")).expect("a link");
        let standpoint = Standpoint { cwd: cwd.clone(), home: Some("/home/me".into()) };
        for (said, directory, expect) in [
            ("innocent/settings.json", "", vec!["innocent/settings.json", ".ralph/settings.json"]),
            ("a/../b", "", vec!["b"]),
            ("settings.json", "innocent", vec!["innocent/settings.json", ".ralph/settings.json"]),
            ("../x", "innocent/prompts", vec!["innocent/x", ".ralph/x"]),
            ("$PWD/x", "", vec!["x"]),
        ] {
            let target =
                Target { said: said.into(), directory: directory.into(), deed: Deed::Write };
            let expect: Vec<PathBuf> = expect.into_iter().map(|path| cwd.join(path)).collect();
            assert_eq!(standpoint.place(target).places, expect, "{said}");
        }
        let home = Target { said: "~/x".into(), directory: String::new(), deed: Deed::Write };
        assert_eq!(standpoint.place(home).places, [PathBuf::from("/home/me/x")]);
    }
}
