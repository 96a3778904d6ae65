//! Rules on paths: devices, removing and writing.

use std::path::{Path, PathBuf};

use super::{CheckedPath, GuardRule, new_path_rule};
use crate::access::AccessMode;
use crate::category::GuardCategory;
use crate::place::{GlobExtent, PathLocation};

const INSIDE: &str = "Work inside the project, or in a temporary directory.";

/// Rules on devices; they are checked before all other rules on paths.
pub(super) const DEVICES: &[GuardRule] = &[
    new_path_rule(
        "revshell.dev-tcp",
        GuardCategory::RemoteAccess,
        "connects the shell to the network",
        "Use a program that is made for the request, such as `curl`.",
        |it| it.is_below(&["/dev/tcp", "/dev/udp"]),
    ),
    new_path_rule(
        "disk.device",
        GuardCategory::Disk,
        "writes to a device",
        "Write to a file in the project.",
        |it| it.changes_path() && it.is_below(&["/dev"]) && !it.is_below(&HARMLESS_DEVICES),
    ),
];

const HARMLESS_DEVICES: [&str; 11] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/tty",
    "/dev/fd",
    "/dev/shm",
    "/dev/random",
    "/dev/urandom",
];

/// Files in a home directory that are run at login or when a shell starts.
const STARTUP: [&str; 22] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".local/share/systemd",
    ".xinitrc",
    ".xsession",
    ".xprofile",
    ".pam_environment",
    "Library/LaunchAgents",
];

/// System directories and files that start programs.
const SYSTEM_STARTUP: [&str; 13] = [
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.hourly",
    "/etc/cron.weekly",
    "/etc/crontab",
    "/var/spool/cron",
    "/etc/systemd",
    "/etc/init.d",
    "/etc/rc.local",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/bash.bashrc",
    "/Library/LaunchDaemons",
];

/// Paths in a home directory that hold keys or settings of agents.
const SENSITIVE: [&str; 14] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".gitconfig",
    ".config/git",
    ".config/gh",
    ".claude",
    ".codex",
    ".cargo/config.toml",
];

/// Rules on writing and removing.
pub(super) const RULES: &[GuardRule] = &[
    new_path_rule(
        "priv.sudoers",
        GuardCategory::Privilege,
        "changes who may become root",
        "Do the work with the rights you have.",
        |it| {
            it.changes_path()
                && it.is_below(&["/etc/sudoers", "/etc/sudoers.d", "/etc/pam.d", "/etc/doas.conf"])
        },
    ),
    new_path_rule(
        "persist.startup-files",
        GuardCategory::Persistence,
        "is run at every login or shell start",
        "Put what the project needs into a script of the project.",
        |it| {
            it.changes_path()
                && (it.is_in_home(&STARTUP) || it.is_below(&SYSTEM_STARTUP))
                && !it.is_whole_home()
        },
    ),
    new_path_rule(
        "persist.git-hooks",
        GuardCategory::Persistence,
        "is run by git later",
        "Put checks into a script of the project; ralph runs them as gates.",
        |it| it.placed.mode == AccessMode::Write && it.is_in_project(&[".git/hooks"]),
    ),
    new_path_rule(
        "git.repository-files",
        GuardCategory::Git,
        "belongs to git itself",
        "Use git's own commands.",
        |it| {
            it.changes_path()
                && it.placed.places().iter().any(|place| {
                    place.components().any(|part| part.as_os_str() == ".git")
                        && place.file_name().is_some_and(|name| name != ".git")
                        && it.contains_place(place)
                })
        },
    ),
    new_path_rule(
        "git.remove-repository",
        GuardCategory::Git,
        "removes the history of the project",
        "Leave `.git` alone; a commit that is wrong can be reverted.",
        |it| {
            let names_it = |project: &PathBuf| {
                let git = project.join(".git");
                match &it.placed.location {
                    // `*` does not match names that begin with a dot.
                    PathLocation::In { directories, .. } => {
                        directories.iter().any(|place| place.starts_with(&git))
                    }
                    PathLocation::At(_) | PathLocation::Unknown => it.placed.affects_root(&git),
                }
            };
            it.placed.mode == AccessMode::Remove
                && !it.is_above_project()
                && it.context.protected.project.iter().any(names_it)
        },
    ),
    new_path_rule(
        "fs.remove-project",
        GuardCategory::Filesystem,
        "removes the whole project, or everything in it",
        "Remove only what you made, by name.",
        |it| it.placed.mode == AccessMode::Remove && it.is_above_project(),
    ),
    new_path_rule(
        "fs.remove-outside",
        GuardCategory::Filesystem,
        "removes files outside the project",
        INSIDE,
        |it| it.placed.mode == AccessMode::Remove && it.is_outside(),
    ),
    new_path_rule(
        "path.sensitive",
        GuardCategory::SensitivePath,
        "holds keys, or settings of other programs",
        "Leave it alone, and say in your answer what is missing.",
        |it| it.changes_path() && it.is_in_home(&SENSITIVE) && it.is_outside(),
    ),
    new_path_rule(
        "sysconf.etc",
        GuardCategory::SystemConfiguration,
        "belongs to the system's configuration",
        "Configure the project, not the machine.",
        |it| {
            it.changes_path()
                && it.is_below(&["/etc", "/proc", "/sys", "/boot", "/private/etc", "/var/lib"])
                && it.is_outside()
        },
    ),
    new_path_rule(
        "path.outside",
        GuardCategory::SensitivePath,
        "is outside the project",
        INSIDE,
        |it| it.placed.mode == AccessMode::Write && it.is_outside(),
    ),
    new_path_rule(
        "unresolvable.remove",
        GuardCategory::Unresolvable,
        "removes files that the guard cannot determine from the command",
        "Name what is to be removed, or set the variable in the same command.",
        |it| {
            let recursive = it.checked_command.is_some_and(|checked| {
                checked.is_program(&["rm"])
                    && (checked.has_short_flag('r')
                        || checked.has_short_flag('R')
                        || checked.has_word(&["--recursive"]))
                    || checked.is_program(&["shred", "srm"])
            });
            it.placed.mode == AccessMode::Remove
                && it.placed.location == PathLocation::Unknown
                && recursive
        },
    ),
];

impl CheckedPath<'_> {
    /// Returns whether the path is written or removed.
    pub(super) fn changes_path(&self) -> bool {
        matches!(self.placed.mode, AccessMode::Write | AccessMode::Remove)
    }

    /// Returns whether it is at or below one of the given absolute paths.
    pub(super) fn is_below(&self, roots: &[&str]) -> bool {
        let is_below = |place: &PathBuf| roots.iter().any(|root| place.starts_with(root));
        self.placed.places().iter().any(is_below)
    }

    /// Returns whether it is at or below one of the given paths in any user's home directory.
    pub(super) fn is_in_home(&self, below: &[&str]) -> bool {
        self.placed.places().iter().any(|place| {
            self.find_homes(place).iter().any(|home| {
                place
                    .strip_prefix(home)
                    .is_ok_and(|rest| below.iter().any(|it| rest.starts_with(it)))
            })
        })
    }

    /// Returns the home directories that contain a path: the user's, or another user's by its name.
    pub(super) fn find_homes(&self, place: &Path) -> Vec<PathBuf> {
        let mut homes: Vec<PathBuf> = self.context.home.iter().map(PathBuf::from).collect();
        homes.push("/root".into());
        for root in ["/home", "/Users"] {
            let user = place.strip_prefix(root).ok().and_then(|rest| rest.components().next());
            homes.extend(user.map(|user| Path::new(root).join(user)));
        }
        homes.retain(|home| place.starts_with(home));
        homes
    }

    /// Returns whether it is at or below one of the given paths in the project.
    fn is_in_project(&self, below: &[&str]) -> bool {
        let project = &self.context.protected.project;
        self.placed.places().iter().any(|place| {
            project.iter().any(|project| below.iter().any(|it| place.starts_with(project.join(it))))
        })
    }

    fn contains_place(&self, place: &Path) -> bool {
        self.context.protected.project.iter().any(|project| place.starts_with(project))
    }

    /// Returns whether it is a home directory or a parent of one.
    fn is_whole_home(&self) -> bool {
        let home = self.context.home.as_deref().map(Path::new);
        home.is_some_and(|home| self.placed.places().iter().any(|place| home.starts_with(place)))
    }

    /// Returns whether it is the project directory or a parent of it.
    fn is_above_project(&self) -> bool {
        let project = &self.context.protected.project;
        match &self.placed.location {
            PathLocation::At(places) => {
                places.iter().any(|place| project.iter().any(|it| it.starts_with(place)))
            }
            PathLocation::In { directories, extent: GlobExtent::All, .. } => {
                directories.iter().any(|place| project.iter().any(|it| it.starts_with(place)))
            }
            PathLocation::In { extent: GlobExtent::Matching, .. } | PathLocation::Unknown => false,
        }
    }

    /// Returns whether it is outside the project and temporary directories, and not a device.
    fn is_outside(&self) -> bool {
        let is_whole = |place: &Path, root: &Path| {
            place == root
                && match &self.placed.location {
                    PathLocation::At(_) => true,
                    PathLocation::In { extent, .. } => *extent == GlobExtent::All,
                    PathLocation::Unknown => false,
                }
        };
        self.placed.places().iter().any(|place| {
            let home = self.context.home.as_deref().map(Path::new);
            let temporary = self.context.temporary.iter().any(|root| {
                // A home in a temporary directory counts as a home.
                let is_home =
                    home.is_some_and(|home| home.starts_with(root) && place.starts_with(home));
                let is_whole = self.placed.mode == AccessMode::Remove && is_whole(place, root);
                place.starts_with(root) && !is_whole && !is_home
            });
            let is_device = HARMLESS_DEVICES.iter().any(|device| place.starts_with(device));
            !self.contains_place(place) && !temporary && !is_device
        })
    }
}
