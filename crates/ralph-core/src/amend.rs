//! Amendments: changes to the task list that an agent proposes in its handoff, and the guards
//! that decide which of them are made.
//!
//! Each stands for itself: a refused one does not take the others with it. Not here: when they
//! are applied, which is only after the gates passed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::handoff::Amendment;
use crate::ids::TaskId;
use crate::task::{Task, TaskChange, TaskFields, TaskList, TaskStatus};

/// An amendment and what became of it, for the audit log and the next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amended {
    /// What was proposed, in a few words.
    pub proposal: String,
    /// Why, in the agent's words.
    pub reason: String,
    /// Why it was refused; none if it was made.
    pub refusal: Option<String>,
}

/// What the amendments of one iteration come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Amendments {
    /// The changes to make.
    pub changes: Vec<TaskChange>,
    /// Every proposal with its fate, in order.
    pub log: Vec<Amended>,
}

/// Weighs the amendments of an iteration against the list as it is.
pub fn weigh(list: &TaskList, proposals: &[Amendment], current: &TaskId, limit: u32) -> Amendments {
    let mut amendments = Amendments::default();
    if proposals.is_empty() {
        // The usual case, in which a long list is neither copied nor checked.
        return amendments;
    }
    let mut list = list.clone();
    let mut known = list.validate().len();
    for proposal in proposals {
        let is_over = amendments.changes.len() >= limit as usize;
        let weighed = if is_over {
            Err(format!("an iteration may make at most {limit} changes to the list"))
        } else {
            change(&list, proposal, current).and_then(|change| {
                let mut amended = list.clone();
                amended.apply(&change).map_err(|error| error.to_string())?;
                let problems = amended.validate();
                if problems.len() > known {
                    let said: Vec<String> = problems
                        .iter()
                        .map(|problem| format!("task `{}` {}", problem.id, problem.fault))
                        .collect();
                    return Err(format!("the list would no longer be valid: {}", said.join("; ")));
                }
                known = problems.len();
                list = amended;
                Ok(change)
            })
        };
        let refusal = match weighed {
            Ok(change) => {
                amendments.changes.push(change);
                None
            }
            Err(refusal) => Some(refusal),
        };
        let (proposal, reason) = said(proposal);
        amendments.log.push(Amended { proposal, reason, refusal });
    }
    amendments
}

fn said(proposal: &Amendment) -> (String, String) {
    match proposal {
        Amendment::Add { task, after, reason } => {
            let id = task.get("id").and_then(Value::as_str).unwrap_or("?");
            let place = after.as_ref().map(|after| format!(" after {after}")).unwrap_or_default();
            (format!("add {id}{place}"), reason.clone())
        }
        Amendment::Modify { task_id, changes, reason } => {
            let keys: Vec<&str> =
                changes.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            (format!("modify {task_id}: {}", keys.join(", ")), reason.clone())
        }
        Amendment::Remove { task_id, reason } => (format!("remove {task_id}"), reason.clone()),
    }
}

fn change(list: &TaskList, proposal: &Amendment, current: &TaskId) -> Result<TaskChange, String> {
    match proposal {
        Amendment::Add { task, after, reason: _ } => {
            let task = Box::new(new_task(task)?);
            Ok(TaskChange::Add { task, after: after.clone() })
        }
        Amendment::Modify { task_id, changes, reason: _ } => {
            may_change(list, task_id, current)?;
            Ok(TaskChange::Modify { task: task_id.clone(), fields: Box::new(new_fields(changes)?) })
        }
        Amendment::Remove { task_id, reason: _ } => {
            may_change(list, task_id, current)?;
            Ok(TaskChange::Remove { task: task_id.clone() })
        }
    }
}

fn may_change(list: &TaskList, id: &TaskId, current: &TaskId) -> Result<(), String> {
    let task = list.task(id).ok_or_else(|| format!("there is no task `{id}`"))?;
    if id == current {
        return Err("the task that is being worked on cannot be changed".to_owned());
    }
    match task.status {
        TaskStatus::Done => Err("a task that is done stays as it is".to_owned()),
        TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Failed | TaskStatus::Skipped => {
            Ok(())
        }
    }
}

/// Reads a new task. It begins as every task does, whatever the agent says of its status.
fn new_task(value: &Value) -> Result<Task, String> {
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        if text.is_empty() {
            Err(format!("a new task needs `id`, `title` and `description`; `{key}` is missing"))
        } else {
            Ok(text.to_owned())
        }
    };
    let (id, title, description) = (text("id")?, text("title")?, text("description")?);
    let fields = fields_of(value);
    let mut task = Task::new(id, title);
    task.acceptance_criteria = fields.acceptance_criteria.unwrap_or_default();
    if task.acceptance_criteria.is_empty() {
        task.acceptance_criteria = vec![description.clone()];
    }
    task.description = description;
    task.order = fields.order;
    task.depends_on = fields.depends_on.unwrap_or_default();
    task.skills = fields.skills.unwrap_or_default();
    task.libraries = fields.libraries.unwrap_or_default();
    task.needs_docs = fields.needs_docs.unwrap_or_default();
    task.max_turns = fields.max_turns;
    task.max_retries = fields.max_retries;
    Ok(task)
}

/// Reads the fields that a task is to get.
fn new_fields(value: &Value) -> Result<TaskFields, String> {
    const OURS: [&str; 9] = [
        "status",
        "passes",
        "review_status",
        "reviewStatus",
        "review_count",
        "reviewCount",
        "review_feedback",
        "reviewFeedback",
        "retry_count",
    ];
    if let Some(key) = OURS.into_iter().find(|key| value.get(key).is_some()) {
        return Err(format!("`{key}` is not the agent's to set"));
    }
    let fields = fields_of(value);
    if fields == TaskFields::default() {
        return Err("it names no field that could be changed".to_owned());
    }
    Ok(fields)
}

/// Reads what can be read of a task's fields, in either spelling.
fn fields_of(value: &Value) -> TaskFields {
    let get = |snake: &str, camel: &str| value.get(snake).or_else(|| value.get(camel));
    let texts = |snake: &str, camel: &str| {
        let entries = get(snake, camel)?.as_array()?;
        Some(entries.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    let text = |key: &str| get(key, key).and_then(Value::as_str).map(str::to_owned);
    let number = |snake: &str, camel: &str| {
        get(snake, camel).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
    };
    TaskFields {
        title: text("title"),
        description: text("description"),
        acceptance_criteria: texts("acceptance_criteria", "acceptanceCriteria"),
        order: get("order", "priority").and_then(Value::as_i64),
        depends_on: texts("depends_on", "dependsOn")
            .map(|ids| ids.into_iter().map(TaskId).collect()),
        skills: texts("skills", "skills"),
        libraries: texts("libraries", "libraries"),
        needs_docs: get("needs_docs", "needsDocs").and_then(Value::as_bool),
        max_turns: number("max_turns", "maxTurns"),
        max_retries: number("max_retries", "maxRetries"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list() -> TaskList {
        let task = |id: &str, status, depends_on: &[&str]| Task {
            description: "d".into(),
            acceptance_criteria: vec!["c".into()],
            depends_on: depends_on.iter().map(|id| TaskId((*id).into())).collect(),
            status,
            ..Task::new(id, "t")
        };
        TaskList {
            tasks: vec![
                task("done", TaskStatus::Done, &[]),
                task("now", TaskStatus::InProgress, &[]),
                task("later", TaskStatus::Pending, &["now"]),
                task("last", TaskStatus::Pending, &["later"]),
            ],
            ..TaskList::default()
        }
    }

    #[track_caller]
    fn check(proposal: &Value, refusal: Option<&str>) {
        let proposal: Amendment = serde_json::from_value(proposal.clone()).expect("a proposal");
        let weighed = weigh(&list(), &[proposal], &TaskId("now".into()), 3);
        let said = weighed.log[0].refusal.as_deref();
        match (said, refusal) {
            (None, None) => assert_eq!(weighed.changes.len(), 1),
            (Some(said), Some(part)) => {
                assert!(said.contains(part), "{said}");
                assert!(weighed.changes.is_empty());
            }
            (said, expected) => panic!("{said:?}, not {expected:?}"),
        }
    }

    #[test]
    fn guards_decide_which_are_made() {
        let add = |task: Value| json!({"action": "add", "task": task, "reason": "r"});
        check(&add(json!({"id": "n", "title": "t", "description": "d"})), None);
        check(
            &json!({"action": "add", "after": "later", "reason": "r",
                "task": {"id": "n", "title": "t", "description": "d", "depends_on": ["later"]}}),
            None,
        );
        check(&add(json!({"id": "n", "title": "t"})), Some("`description` is missing"));
        check(
            &add(json!({"id": "done", "title": "t", "description": "d"})),
            Some("already a task"),
        );
        check(
            &add(json!({"id": "n", "title": "t", "description": "d", "depends_on": ["x"]})),
            Some("unknown task `x`"),
        );
        let modify = |id: &str, changes: Value| json!({"action": "modify", "task_id": id, "changes": changes, "reason": "r"});
        check(&modify("later", json!({"title": "new"})), None);
        check(&modify("done", json!({"title": "new"})), Some("done stays"));
        check(&modify("now", json!({"acceptance_criteria": ["less"]})), Some("worked on"));
        check(&modify("later", json!({"status": "done"})), Some("not the agent's"));
        check(&modify("later", json!({"depends_on": ["last"]})), Some("waits for itself"));
        check(&modify("later", json!({"nonsense": 1})), Some("no field"));
        let remove = |id: &str| json!({"action": "remove", "task_id": id, "reason": "r"});
        check(&remove("last"), None);
        check(&remove("later"), Some("depends on an unknown task"));
        check(&remove("done"), Some("done stays"));
        check(&remove("now"), Some("worked on"));
        check(&remove("gone"), Some("no task `gone`"));
    }

    #[test]
    fn a_new_task_begins_at_the_beginning() {
        let proposal = Amendment::Add {
            task: json!({"id": "n", "title": "t", "description": "d", "status": "done", "passes": true}),
            after: None,
            reason: "r".into(),
        };
        let weighed = weigh(&list(), &[proposal], &TaskId("now".into()), 3);
        let TaskChange::Add { task, .. } = &weighed.changes[0] else { panic!("it is an addition") };
        assert_eq!(task.status, TaskStatus::Pending);
        assert_eq!(task.acceptance_criteria, ["d"]);
    }

    #[test]
    fn the_others_are_made_although_one_is_refused() {
        let remove =
            |id: &str| Amendment::Remove { task_id: TaskId(id.into()), reason: "r".into() };
        let add = |id: &str| Amendment::Add {
            task: json!({"id": id, "title": "t", "description": "d"}),
            after: None,
            reason: "r".into(),
        };
        let proposals = [remove("done"), add("a"), remove("a"), add("b"), add("c")];
        let weighed = weigh(&list(), &proposals, &TaskId("now".into()), 3);
        let fates: Vec<bool> = weighed.log.iter().map(|it| it.refusal.is_none()).collect();
        assert_eq!(fates, [false, true, true, true, false]);
    }
}
