//! The object of an ordinary commit, written without a start of git.
//!
//! Whatever is unusual (names, dates, encodings, several parents, objects kept elsewhere) is left to
//! `git commit-tree`. Not here: signed commits, and the branch.

use std::iter;

use jiff::Timestamp;

use super::identity::Author;
use super::object_store::{format_id, parse_id};
use super::repository::GitRepository;
use crate::clock;

impl GitRepository {
    /// Writes a commit and returns its id. None if git has to make it.
    pub(super) fn write_plain_commit(
        &self,
        tree: &str,
        parent: Option<&str>,
        message: &str,
    ) -> Option<String> {
        if self.config.find("i18n.commitencoding").is_some() || message.contains('\0') {
            return None;
        }
        let objects = self.open_objects()?;
        let is_there = |id: &str| parse_id(id).is_some_and(|id| objects.contains(&id));
        if !iter::once(tree).chain(parent).all(is_there) {
            return None;
        }
        let [author, committer] = ["author", "committer"].map(|role| self.format_signature(role));
        let (author, committer) = (author?, committer?);
        let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
        let end = if message.ends_with('\n') { "" } else { "\n" };
        let content = format!(
            "tree {tree}\n{parent}author {author}\ncommitter {committer}\n\n{message}{end}"
        );
        objects.write("commit", content.as_bytes()).ok().map(|id| format_id(&id))
    }

    /// Returns the author or the committer of a commit made now. None if git would change the name.
    pub(super) fn format_signature(&self, role: &str) -> Option<String> {
        Some(format!("{} {}", format_person(&self.find_person(role)?)?, format_time()?))
    }
}

/// Returns a name and address as they stand in a commit. None if git would change them.
fn format_person(Author { name, email }: &Author) -> Option<String> {
    let is_plain = |text: &str| {
        let mut chars = text.chars();
        let ends = [chars.next(), chars.next_back()];
        ends.into_iter().flatten().all(char::is_alphanumeric)
            && text.chars().all(|it| it.is_alphanumeric() || " .-_+@'".contains(it))
            && !text.is_empty()
    };
    (is_plain(name) && is_plain(email)).then(|| format!("{name} <{email}>"))
}

/// Returns the time as it stands in a commit: seconds, and the offset of the local zone.
fn format_time() -> Option<String> {
    let now = Timestamp::from_millisecond(clock::now().0).ok()?;
    let offset = clock::find_local_zone().to_offset(now).seconds() / 60;
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    Some(format!("{} {sign}{hours:02}{minutes:02}", now.as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_would_change_are_left_to_it() {
        let person = |name: &str, email: &str| {
            format_person(&Author { name: name.into(), email: email.into() })
        };
        assert_eq!(
            person("Zoë O'Neil-Smith", "zoe+x@example.org").as_deref(),
            Some("Zoë O'Neil-Smith <zoe+x@example.org>")
        );
        for name in ["", " Ann", "Ann.", "A <b>", "\"Ann\"", "Ann\n", "Ann,", "'"] {
            assert_eq!(person(name, "a@example.org"), None, "{name:?}");
            assert_eq!(person("Ann", name), None, "{name:?}");
        }
    }
}
