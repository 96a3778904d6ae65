//! Paths of the project as people read them: relative to its directory.
//!
//! Only where a tool call or a change names a file; commands and texts stay as the agent wrote them.

use std::path::Path;

use ralph_model::agent_output::AgentEvent;

/// What may precede a path in the summary of a call that changes several files.
const CHANGE_WORDS: [&str; 4] = ["add ", "update ", "delete ", "change "];

/// Shortens the paths below one directory.
#[derive(Debug)]
pub(super) struct PathShortener {
    /// The directory with a `/` at its end; empty where there is nothing to shorten.
    prefix: String,
}

impl PathShortener {
    pub(super) fn new(directory: &Path) -> Self {
        let prefix = directory.to_str().filter(|it| it.starts_with('/') && it.len() > 1);
        Self {
            prefix: prefix.map(|it| format!("{}/", it.trim_end_matches('/'))).unwrap_or_default(),
        }
    }

    /// Returns the events with short paths, or `None` if they are the same.
    pub(super) fn shorten_events(&self, events: &[AgentEvent]) -> Option<Vec<AgentEvent>> {
        let mut shown: Option<Vec<AgentEvent>> = None;
        for (at, event) in events.iter().enumerate() {
            if let Some(event) = self.shorten_event(event) {
                shown.get_or_insert_with(|| events.to_vec())[at] = event;
            }
        }
        shown
    }

    fn shorten_event(&self, event: &AgentEvent) -> Option<AgentEvent> {
        let short = match event {
            AgentEvent::ToolStarted { summary: text, .. }
            | AgentEvent::FileChanged { path: text }
            | AgentEvent::FileEdited { path: text, .. } => self.shorten_text(text)?,
            _ => return None,
        };
        let mut event = event.clone();
        if let AgentEvent::ToolStarted { summary: text, .. }
        | AgentEvent::FileChanged { path: text }
        | AgentEvent::FileEdited { path: text, .. } = &mut event
        {
            *text = short;
        }
        Some(event)
    }

    /// Returns the text without the directory where a path begins, or `None` if it is the same.
    fn shorten_text(&self, text: &str) -> Option<String> {
        if self.prefix.is_empty() || !text.contains(&self.prefix) {
            return None;
        }
        let mut short = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(&self.prefix) {
            let (before, from) = rest.split_at(at);
            short.push_str(before);
            let is_path = short.is_empty() || CHANGE_WORDS.iter().any(|it| short.ends_with(it));
            let after = &from[self.prefix.len()..];
            if !is_path || after.is_empty() {
                short.push_str(&self.prefix);
            }
            rest = after;
        }
        short.push_str(rest);
        (short != text).then_some(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let paths = PathShortener::new(Path::new("/home/me/shop"));
        assert_eq!(paths.shorten_text(text).as_deref().unwrap_or(text), expect);
    }

    #[test]
    fn paths_of_the_project_are_relative_and_commands_stay() {
        check("/home/me/shop/src/a.rs", "src/a.rs");
        check("update /home/me/shop/a.rs, add /home/me/shop/b.rs", "update a.rs, add b.rs");
        for same in [
            "/home/me/shop",
            "/home/me/shop/",
            "/home/me/shopping/a.rs",
            "/etc/passwd",
            "cd sub && rm /home/me/shop/a.rs",
            "",
        ] {
            check(same, same);
        }
        assert_eq!(PathShortener::new(Path::new("/")).shorten_text("/etc/passwd"), None);
    }
}
