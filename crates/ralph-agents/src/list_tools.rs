//! Hides the calls by which an agent changes its to-do list: the list itself is shown.
//!
//! Only the display changes; the calls count as usual. Not here: reading the list.

use ralph_model::agent_output::{AgentEvent, ToolOutcome};

/// The tools that change or read a to-do list, without case and underscores.
const LIST_TOOLS: [&str; 9] = [
    "todowrite",
    "todoread",
    "taskcreate",
    "taskupdate",
    "tasklist",
    "writetodos",
    "updateplan",
    "todolist",
    "managetodolist",
];

/// More open calls than any agent has.
const MOST_HELD: usize = 64;

/// Holds back the calls of list tools until their end shows whether they brought a list.
#[derive(Debug, Default)]
pub(super) struct ListToolFilter {
    held: Vec<(String, AgentEvent)>,
}

impl ListToolFilter {
    /// Returns what is shown for the events of a line, if that differs.
    pub(super) fn filter_events(&mut self, events: &[AgentEvent]) -> Option<Vec<AgentEvent>> {
        let is_held = |id: &str| self.held.iter().any(|(held, _)| held == id);
        let is_list_call = |event: &AgentEvent| {
            matches!(event, AgentEvent::ToolStarted { name, .. } if is_list_tool(name))
                || matches!(event, AgentEvent::ToolEnded { id, .. } if is_held(id))
        };
        if !events.iter().any(is_list_call) {
            return None;
        }
        let has_list = events.iter().any(|event| matches!(event, AgentEvent::Todo { .. }));
        let mut shown = Vec::new();
        for event in events {
            if let AgentEvent::ToolStarted { id, name, .. } = event
                && is_list_tool(name)
            {
                self.held.truncate(MOST_HELD);
                self.held.push((id.clone(), event.clone()));
                continue;
            }
            if let AgentEvent::ToolEnded { id, outcome, .. } = event
                && let Some(at) = self.held.iter().position(|(held, _)| held == id)
            {
                let (_, started) = self.held.remove(at);
                if has_list && *outcome == ToolOutcome::Ok {
                    continue;
                }
                shown.push(started);
            }
            shown.push(event.clone());
        }
        Some(shown)
    }
}

fn is_list_tool(name: &str) -> bool {
    let plain: String = name.chars().filter(|it| *it != '_').collect();
    LIST_TOOLS.contains(&plain.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use ralph_model::agent_output::Speaker;

    use super::*;

    fn started(id: &str, name: &str) -> AgentEvent {
        let (id, name, summary) = (id.to_owned(), name.to_owned(), String::new());
        AgentEvent::ToolStarted { id, name, summary, speaker: Speaker::Agent }
    }

    fn ended(id: &str, outcome: ToolOutcome) -> AgentEvent {
        AgentEvent::ToolEnded { id: id.to_owned(), outcome, output: String::new() }
    }

    #[test]
    fn the_calls_of_list_tools_are_shown_only_if_they_bring_no_list() {
        let todo = AgentEvent::Todo { items: Vec::new() };
        let mut filter = ListToolFilter::default();
        assert_eq!(filter.filter_events(&[started("1", "Bash")]), None);
        assert_eq!(filter.filter_events(&[started("2", "TodoWrite")]), Some(vec![]));
        assert_eq!(filter.filter_events(&[ended("1", ToolOutcome::Ok)]), None);
        let line = [ended("2", ToolOutcome::Ok), todo.clone()];
        assert_eq!(filter.filter_events(&line), Some(vec![todo.clone()]));
        for line in [vec![ended("3", ToolOutcome::Error), todo], vec![ended("3", ToolOutcome::Ok)]]
        {
            assert_eq!(filter.filter_events(&[started("3", "todo_write")]), Some(vec![]));
            let shown = filter.filter_events(&line).expect("shown in another way");
            assert_eq!(shown[0], started("3", "todo_write"));
            assert_eq!(shown[1..], line);
        }
    }
}
