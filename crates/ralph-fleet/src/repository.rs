//! The repository of a fleet, and the name of its queue.
//!
//! A node takes jobs of one queue only, and reads them from the remote that it was given. So a
//! user who reaches the server can start only jobs that are in that repository.

use std::env;
use std::path::Path;
use std::process::Command;

use ralph_model::fingerprint::Fingerprint;

use crate::error::FleetError;

/// The git remote that jobs and results go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetRepository {
    pub(crate) url: String,
}

impl FleetRepository {
    /// Returns the stated repository, else the one of the job, else `origin` of this directory.
    pub(crate) fn find(stated: Option<String>) -> Result<Self, FleetError> {
        let known = stated.or_else(|| env::var("RALPH_REMOTE").ok().filter(|it| !it.is_empty()));
        known.or_else(find_origin).map(|url| Self { url }).ok_or(FleetError::NoRepository)
    }

    /// Returns the name of the queue: the same for all spellings of a URL, and without its login.
    pub(crate) fn name_queue(&self) -> String {
        let place = normalize_url(&self.url);
        let name = place.rsplit('/').next().unwrap_or_default();
        let name: String =
            name.chars().filter(|it| it.is_ascii_alphanumeric() || "-_.".contains(*it)).collect();
        let print = Fingerprint::from_texts([place.as_str()]).0;
        format!("ralph-{name}-{}", &print[..8])
    }
}

fn find_origin() -> Option<String> {
    let output = Command::new("git").args(["remote", "get-url", "origin"]).output().ok()?;
    let url = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !url.is_empty()).then_some(url)
}

/// Returns host and path of a URL, or a path: `git@host:a/b.git` is `https://host/a/b`.
fn normalize_url(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let local = url.strip_prefix("file://").unwrap_or(url);
    if let Some((_, rest)) = url.split_once("://").filter(|_| local == url) {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.rsplit('@').next().unwrap_or(host);
        let host = host.split(':').next().unwrap_or(host);
        return format!("{}/{path}", host.to_lowercase());
    }
    // The short form of ssh has a colon before the first slash.
    if let Some((host, path)) = local.split_once(':').filter(|(host, _)| !host.contains('/')) {
        let host = host.rsplit('@').next().unwrap_or(host);
        return format!("{}/{}", host.to_lowercase(), path.trim_start_matches('/'));
    }
    let path = Path::new(local).canonicalize().or_else(|_| Path::new(url).canonicalize());
    path.map_or_else(|_| local.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_repository_have_one_queue_without_the_login() {
        let queue = |url: &str| FleetRepository { url: url.to_owned() }.name_queue();
        let first = queue("git@Example.com:team/parser.git");
        for same in [
            "https://example.com/team/parser",
            "https://user:secret@example.com/team/parser.git/",
            "ssh://git@example.com:22/team/parser.git",
        ] {
            assert_eq!(queue(same), first, "{same}");
        }
        assert!(first.starts_with("ralph-parser-"), "{first}");
        for other in ["https://example.com/team/lexer", "https://example.org/team/parser"] {
            assert_ne!(queue(other), first, "{other}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("list.git");
        std::fs::create_dir(&path).expect("a directory");
        let path = path.to_str().expect("text");
        assert_eq!(queue(path), queue(&format!("file://{path}")));
        assert!(queue(path).starts_with("ralph-list"), "{}", queue(path));
    }
}
