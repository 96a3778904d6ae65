//! Restores the agent's configuration in the project if the agent itself adds a `$schema` to it.
//!
//! Such a change is not part of the work: it would be committed with it, and reported as a change
//! of an autorun file. Not here: all other changes, which are the work's.

use std::path::{Path, PathBuf};

use ralph_agents as agents;
use ralph_agents::configuration::{ConfigFormat, adds_only_schema};
use ralph_model::agent::AgentKind;

use crate::{atomic_file, bounded_read};

/// Larger files are not configuration.
const LARGEST: u64 = 1024 * 1024;

/// The content of the configuration files before a call.
pub(super) struct ConfigBefore(Vec<(PathBuf, Vec<u8>)>);

impl ConfigBefore {
    pub(super) fn read(project: &Path, kind: AgentKind) -> Self {
        let files = agents::find_adapter(kind).project_code.iter();
        let files = files.filter(|file| file.format == ConfigFormat::Json);
        let files = files.filter_map(|file| {
            let path = project.join(file.file);
            let content = bounded_read::read_within(project, &path, LARGEST).ok()?;
            Some((path, content))
        });
        Self(files.collect())
    }

    /// Restores the files to which only a `$schema` was added, and returns a warning for each.
    pub(super) fn restore(self, project: &Path) -> Vec<String> {
        let rewritten = self.0.into_iter().filter(|(path, before)| {
            bounded_read::read_within(project, path, LARGEST)
                .is_ok_and(|after| adds_only_schema(before, &after))
                && std::fs::symlink_metadata(path).is_ok_and(|about| {
                    about.is_file()
                        && atomic_file::replace_with(path, before, about.permissions()).is_ok()
                })
        });
        let name = |path: &Path| path.strip_prefix(project).unwrap_or(path).display().to_string();
        rewritten
            .map(|(path, _)| {
                let name = name(&path);
                format!("the agent added `$schema` to `{name}`, which was restored; add it yourself to avoid this")
            })
            .collect()
    }
}
