//! What a request needs in addition to the state of the run: texts of the project, a patch, and
//! the last commits.
//!
//! They are read again for each request, because users edit them during a run. Not here: which ones
//! are needed, and what the request does with them.

use ralph_model::worktree::TreeId;

use crate::ports::{ProjectText, PromptError};

/// The patch that a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchRange {
    pub from: TreeId,
    pub to: TreeId,
    /// The most characters of it.
    pub chars: usize,
    /// Whether the request cannot be made without it.
    pub is_required: bool,
}

/// What has to be read for a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NeededMaterials {
    pub texts: Vec<ProjectText>,
    pub patch: Option<PatchRange>,
    /// How many of the last commits are named.
    pub commits: usize,
}

/// What was read for a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Materials {
    texts: Vec<(ProjectText, Result<Option<String>, PromptError>)>,
    pub(super) patch: String,
    /// Subjects of the last commits, newest first.
    pub(super) commits: Vec<String>,
}

impl Materials {
    /// Reads what is needed; `commits` are the subjects of the last ones. A patch that is not
    /// required is left empty where git cannot make it.
    pub fn read_needed<E>(
        needed: NeededMaterials,
        commits: Vec<String>,
        mut read_text: impl FnMut(&ProjectText) -> Result<Option<String>, PromptError>,
        read_patch: impl FnOnce(&PatchRange) -> Result<String, E>,
    ) -> Result<Self, E> {
        let patch = match needed.patch {
            Some(range) if range.is_required => read_patch(&range)?,
            Some(range) => read_patch(&range).unwrap_or_default(),
            None => String::new(),
        };
        let read = |text: ProjectText| {
            let found = read_text(&text);
            (text, found)
        };
        Ok(Self { texts: needed.texts.into_iter().map(read).collect(), patch, commits })
    }

    /// Returns a text as it was read; nothing for one that was not needed.
    pub(super) fn find_text(&self, wanted: &ProjectText) -> Result<Option<&str>, PromptError> {
        match self.texts.iter().find(|(text, _)| text == wanted) {
            Some((_, Ok(found))) => Ok(found.as_deref()),
            Some((_, Err(error))) => Err(error.clone()),
            None => Ok(None),
        }
    }

    /// Returns the files of the project that were read, with their path.
    pub(super) fn list_excerpts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().filter_map(|(text, found)| match (text, found) {
            (ProjectText::Excerpt { path, .. }, Ok(Some(found))) => {
                Some((path.as_str(), found.as_str()))
            }
            (_, _) => None,
        })
    }
}
