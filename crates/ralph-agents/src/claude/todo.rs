//! The agent's to-do list: `TodoWrite` replaces it, the task tools change single items.
//!
//! Not here: the tool calls themselves.

use ralph_model::agent_output::{TodoItem, TodoState};

use super::wire::{Input, Todo, ToolUseResult};
use crate::json_events::MOST_ITEMS;

/// What a tool call changes in the list if it succeeds.
#[derive(Debug)]
pub(super) enum TodoChange {
    Write(Vec<(String, TodoItem)>),
    /// Adds the task that the result names.
    Create(String),
    Update {
        id: String,
        status: Option<String>,
        subject: Option<String>,
    },
    /// Replaces the list by the one in the result.
    List,
}

impl TodoChange {
    /// Returns the change of a tool call, if it is one of the to-do tools.
    pub(super) fn from_tool_call(tool: &str, input: &Input<'_>) -> Option<Self> {
        let subject = || input.subject.as_ref().map(|subject| subject.0.to_string());
        match tool {
            "TodoWrite" => Some(Self::Write(convert_items(input.todos.as_deref()?))),
            "TaskCreate" => Some(Self::Create(subject()?)),
            "TaskUpdate" => Some(Self::Update {
                id: input.task_id.clone()?,
                status: input.status.clone(),
                subject: subject(),
            }),
            "TaskList" => Some(Self::List),
            _ => None,
        }
    }
}

/// The list, with task ids, in order of creation.
#[derive(Debug, Default)]
pub(super) struct TodoList(Vec<(String, TodoItem)>);

impl TodoList {
    /// Applies a change that has succeeded. Returns the complete list if it differs.
    pub(super) fn apply_change(
        &mut self,
        change: TodoChange,
        result: Option<&ToolUseResult>,
    ) -> Option<Vec<TodoItem>> {
        let before = self.0.clone();
        match change {
            TodoChange::Write(items) => self.0 = items,
            TodoChange::Create(subject) => {
                let id = result.and_then(|it| it.task.as_ref()?.id.clone());
                let item = TodoItem { text: subject, state: TodoState::Pending };
                self.0.push((id.unwrap_or_default(), item));
            }
            TodoChange::Update { id, status, subject } => {
                self.update_item(&id, status.as_deref(), subject.as_deref());
            }
            TodoChange::List => {
                if let Some(tasks) = result.and_then(|it| it.tasks.as_ref()) {
                    self.0 = convert_items(tasks);
                }
            }
        }
        self.0.truncate(MOST_ITEMS);
        (self.0 != before).then(|| self.0.iter().map(|(_, item)| item.clone()).collect())
    }

    fn update_item(&mut self, id: &str, status: Option<&str>, subject: Option<&str>) {
        if status == Some("deleted") {
            self.0.retain(|(known, _)| known != id);
            return;
        }
        for (_, item) in self.0.iter_mut().filter(|(known, _)| known == id) {
            if let Some(status) = status {
                item.state = parse_state(status);
            }
            if let Some(subject) = subject {
                subject.clone_into(&mut item.text);
            }
        }
    }
}

fn convert_items(todos: &[Todo]) -> Vec<(String, TodoItem)> {
    todos
        .iter()
        .take(MOST_ITEMS)
        .map(|todo| {
            let text = todo.content.clone().unwrap_or_default();
            let state = parse_state(todo.status.as_deref().unwrap_or_default());
            (todo.id.clone().unwrap_or_default(), TodoItem { text, state })
        })
        .collect()
}

fn parse_state(status: &str) -> TodoState {
    match status {
        "completed" => TodoState::Done,
        "in_progress" => TodoState::Active,
        _ => TodoState::Pending,
    }
}
