//! Build output directories above a project that is a part of its repository, such as the `target`
//! of a Cargo workspace.
//!
//! Not here: making them writable for agents and gates.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::diff::{join_with_zeros, split_at_zeros};
use super::repository::GitRepository;

/// The names that tools use. Other ignored directories hold editor settings, or secrets.
const OUTPUT_NAMES: [&str; 32] = [
    "target",
    "build",
    "dist",
    "out",
    "bin",
    "obj",
    "node_modules",
    ".gradle",
    ".kotlin",
    ".build",
    "_build",
    "dist-newstyle",
    ".stack-work",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".nx",
    ".parcel-cache",
    ".dart_tool",
    ".tox",
    ".nox",
    ".venv",
    "venv",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    "zig-cache",
    ".zig-cache",
    "zig-out",
    "coverage",
    "cmake-build-debug",
];

impl GitRepository {
    /// Returns the build output directories above a project in its work tree: those that exist, are
    /// ignored, and hold no tracked file; and the `target` of a Cargo workspace that the project is
    /// a member of, even if it does not exist yet.
    pub fn find_ignored_outputs(&self, project: &Path) -> Vec<PathBuf> {
        let levels = project.ancestors().skip(1).take_while(|it| it.starts_with(&self.top));
        let mut found: Vec<PathBuf> = Vec::new();
        for level in levels {
            let is_there =
                |path: &PathBuf| path.symlink_metadata().is_ok_and(|about| about.is_dir());
            found.extend(OUTPUT_NAMES.map(|name| level.join(name)).into_iter().filter(is_there));
            let target = level.join("target");
            if is_cargo_workspace(level)
                && project.join("Cargo.toml").is_file()
                && target.symlink_metadata().is_err()
            {
                found.push(target);
            }
        }
        if found.is_empty() {
            return found;
        }
        // With the slash, git treats a missing path as a directory.
        let named: Vec<Vec<u8>> =
            found.iter().map(|path| [path.as_os_str().as_bytes(), b"/"].concat()).collect();
        let call = self.build_plumbing(&["check-ignore", "-z", "--stdin"]);
        let asked = join_with_zeros(named.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let Ok(ignored) = self.commands.run(call.with_stdin(asked)) else { return Vec::new() };
        let ignored: Vec<&[u8]> = split_at_zeros(&ignored.stdout).collect();
        let mut index = 0;
        found.retain(|_| {
            index += 1;
            ignored.contains(&named[index - 1].as_slice())
        });
        found.retain(|path| !self.has_tracked_files(path));
        found
    }

    fn has_tracked_files(&self, directory: &Path) -> bool {
        let call =
            self.build_plumbing(&["ls-files", "-z", "--"]).with_args([directory.as_os_str()]);
        self.commands.run(call).map_or(true, |ran| ran.code != 0 || !ran.stdout.is_empty())
    }
}

fn is_cargo_workspace(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    text.lines().any(|line| line.trim_start().starts_with("[workspace"))
}
