//! Decides on amendments: changes of the task list that an agent requests in its handoff.
//!
//! Agents add tasks; users change and remove them. So a change or a removal is kept as a
//! proposal for the user, unless the settings say `"amendments": "apply"`. Each amendment
//! is decided on its own: a refused one does not affect the others. Not here: applying
//! them, which happens only after the gates passed, and storing proposals.

use ralph_model::amendment::{AmendmentPolicy, AmendmentRecord, Proposal};
use ralph_model::handoff::Amendment;
use ralph_model::ids::TaskId;
use ralph_model::task::{Task, TaskChange, TaskFields, TaskList, TaskStatus};
use serde_json::Value;

use crate::tasks::validation::validate_list;

/// The result of the amendments of one iteration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AmendmentDecisions {
    pub changes: Vec<TaskChange>,
    /// Every amendment with its result, in order.
    pub log: Vec<AmendmentRecord>,
}

/// Decides on the amendments of an iteration against the list as it is.
pub fn decide_amendments(
    list: &TaskList,
    requested: &[Amendment],
    current: &TaskId,
    policy: AmendmentPolicy,
    limit: u32,
) -> AmendmentDecisions {
    let mut amendments = AmendmentDecisions::default();
    if requested.is_empty() {
        // The usual case, in which a long list is neither copied nor checked.
        return amendments;
    }
    let mut list = list.clone();
    for amendment in requested {
        let is_applied = match (amendment, policy) {
            (Amendment::Add { .. }, _) | (_, AmendmentPolicy::Apply) => {
                amendments.changes.len() < limit as usize
            }
            (
                Amendment::Modify { .. } | Amendment::Remove { .. } | Amendment::Unreadable { .. },
                AmendmentPolicy::Add,
            ) => false,
        };
        let checked = check_amendment(&list, amendment, Some(current));
        let amended = match checked {
            Err(refusal) => AmendmentRecord::new_refused(amendment, refusal),
            Ok(change) if is_applied => {
                // `check` has applied it to a copy already.
                let _ = list.apply_change(&change);
                amendments.changes.push(change);
                AmendmentRecord::new_applied(amendment)
            }
            Ok(_) => AmendmentRecord::new_proposed(amendment, &amendments.log),
        };
        amendments.log.push(amended);
    }
    amendments
}

/// Returns the change that an amendment asks for, if it fits the list.
fn check_amendment(
    list: &TaskList,
    amendment: &Amendment,
    current: Option<&TaskId>,
) -> Result<TaskChange, String> {
    let change = build_change(list, amendment, current)?;
    let mut amended = list.clone();
    amended.apply_change(&change).map_err(|error| error.to_string())?;
    let problems = validate_list(&amended);
    if problems.len() > validate_list(list).len() {
        let faults: Vec<String> = problems
            .iter()
            .map(|problem| format!("task `{}` {}", problem.id, problem.fault))
            .collect();
        return Err(format!("the list would no longer be valid: {}", faults.join("; ")));
    }
    Ok(change)
}

fn build_change(
    list: &TaskList,
    amendment: &Amendment,
    current: Option<&TaskId>,
) -> Result<TaskChange, String> {
    match amendment {
        Amendment::Add { task, after, reason: _ } => {
            let task = Box::new(parse_new_task(task)?);
            Ok(TaskChange::Add { task, after: after.clone() })
        }
        Amendment::Modify { task_id, changes, reason: _ } => {
            check_may_change(list, task_id, current)?;
            Ok(TaskChange::Modify { task: task_id.clone(), fields: Box::new(parse_new_fields(changes)?) })
        }
        Amendment::Remove { task_id, reason: _ } => {
            check_may_change(list, task_id, current)?;
            Ok(TaskChange::Remove { task: task_id.clone() })
        }
        Amendment::Unreadable { .. } => Err(
            "not understood: `action` is \"add\", with a `task`; \"modify\", with `task_id` and `changes`; or \"remove\", with `task_id`"
                .to_owned(),
        ),
    }
}

fn check_may_change(list: &TaskList, id: &TaskId, current: Option<&TaskId>) -> Result<(), String> {
    let task = list.find_task(id).ok_or_else(|| format!("there is no task `{id}`"))?;
    if Some(id) == current {
        return Err("the task that is being worked on cannot be changed".to_owned());
    }
    match task.status {
        TaskStatus::Done => Err("a task that is done stays as it is".to_owned()),
        TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Failed | TaskStatus::Skipped => {
            Ok(())
        }
    }
}

/// Reads a new task. It starts as pending, whatever status the agent gives it.
fn parse_new_task(value: &Value) -> Result<Task, String> {
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        if text.is_empty() {
            Err(format!("a new task needs `id`, `title` and `description`; `{key}` is missing"))
        } else {
            Ok(text.to_owned())
        }
    };
    let (id, title, description) = (text("id")?, text("title")?, text("description")?);
    let fields = parse_fields(value);
    let mut task = Task::new(id, title);
    task.acceptance_criteria = fields.acceptance_criteria.unwrap_or_default();
    if task.acceptance_criteria.is_empty() {
        task.acceptance_criteria = vec![description.clone()];
    }
    task.description = description;
    task.order = fields.order;
    task.depends_on = fields.depends_on.unwrap_or_default();
    task.touches = fields.touches.unwrap_or_default();
    task.skills = fields.skills.unwrap_or_default();
    task.libraries = fields.libraries.unwrap_or_default();
    task.needs_docs = fields.needs_docs.unwrap_or_default();
    task.max_turns = fields.max_turns;
    task.max_retries = fields.max_retries;
    Ok(task)
}

/// Reads the fields that a task is to get.
fn parse_new_fields(value: &Value) -> Result<TaskFields, String> {
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
    let fields = parse_fields(value);
    if fields == TaskFields::default() {
        return Err("it names no field that could be changed".to_owned());
    }
    Ok(fields)
}

/// Reads the valid fields of a task, in either spelling.
fn parse_fields(value: &Value) -> TaskFields {
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
        touches: texts("touches", "touches"),
        skills: texts("skills", "skills"),
        libraries: texts("libraries", "libraries"),
        needs_docs: get("needs_docs", "needsDocs").and_then(Value::as_bool),
        max_turns: number("max_turns", "maxTurns"),
        max_retries: number("max_retries", "maxRetries"),
    }
}

/// Returns the change of the list that carries it out, or why that is not possible.
pub fn accept_proposal(proposal: &Proposal, list: &TaskList) -> Result<TaskChange, String> {
    check_amendment(list, &proposal.amendment, None)
}

#[cfg(test)]
mod tests {
    use ralph_model::amendment::MAX_PROPOSALS;
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
    fn check_amendment(proposal: &Value, refusal: Option<&str>) {
        let proposal: Amendment = serde_json::from_value(proposal.clone()).expect("a proposal");
        let weighed = decide_amendments(
            &list(),
            &[proposal],
            &TaskId("now".into()),
            AmendmentPolicy::Apply,
            3,
        );
        let actual = weighed.log[0].refusal.as_deref();
        match (actual, refusal) {
            (None, None) => assert_eq!(weighed.changes.len(), 1),
            (Some(actual), Some(part)) => {
                assert!(actual.contains(part), "{actual}");
                assert!(weighed.changes.is_empty());
            }
            (actual, expected) => panic!("{actual:?}, not {expected:?}"),
        }
    }

    #[test]
    fn rules_decide_which_amendments_apply() {
        let add = |task: Value| json!({"action": "add", "task": task, "reason": "r"});
        check_amendment(&add(json!({"id": "n", "title": "t", "description": "d"})), None);
        check_amendment(
            &json!({"action": "add", "after": "later", "reason": "r",
                "task": {"id": "n", "title": "t", "description": "d", "depends_on": ["later"]}}),
            None,
        );
        check_amendment(&add(json!({"id": "n", "title": "t"})), Some("`description` is missing"));
        check_amendment(
            &add(json!({"id": "done", "title": "t", "description": "d"})),
            Some("already a task"),
        );
        check_amendment(
            &add(json!({"id": "n", "title": "t", "description": "d", "depends_on": ["x"]})),
            Some("unknown task `x`"),
        );
        let modify = |id: &str, changes: Value| json!({"action": "modify", "task_id": id, "changes": changes, "reason": "r"});
        check_amendment(&modify("later", json!({"title": "new"})), None);
        check_amendment(&modify("done", json!({"title": "new"})), Some("done stays"));
        check_amendment(
            &modify("now", json!({"acceptance_criteria": ["less"]})),
            Some("worked on"),
        );
        check_amendment(&modify("later", json!({"status": "done"})), Some("not the agent's"));
        check_amendment(
            &modify("later", json!({"depends_on": ["last"]})),
            Some("waits for itself"),
        );
        check_amendment(&modify("later", json!({"nonsense": 1})), Some("no field"));
        let remove = |id: &str| json!({"action": "remove", "task_id": id, "reason": "r"});
        check_amendment(&remove("last"), None);
        check_amendment(&remove("later"), Some("depends on an unknown task"));
        check_amendment(&remove("done"), Some("done stays"));
        check_amendment(&remove("now"), Some("worked on"));
        check_amendment(&remove("gone"), Some("no task `gone`"));
    }

    #[test]
    fn a_new_task_starts_as_pending() {
        let proposal = Amendment::Add {
            task: json!({"id": "n", "title": "t", "description": "d", "status": "done", "passes": true}),
            after: None,
            reason: "r".into(),
        };
        let weighed =
            decide_amendments(&list(), &[proposal], &TaskId("now".into()), AmendmentPolicy::Add, 3);
        let TaskChange::Add { task, .. } = &weighed.changes[0] else { panic!("it is an addition") };
        assert_eq!(task.status, TaskStatus::Pending);
        assert_eq!(task.acceptance_criteria, ["d"]);
    }

    fn remove(id: &str) -> Amendment {
        Amendment::Remove { task_id: TaskId(id.into()), reason: "r".into() }
    }

    fn add(id: &str) -> Amendment {
        Amendment::Add {
            task: json!({"id": id, "title": "t", "description": "d"}),
            after: None,
            reason: "r".into(),
        }
    }

    fn fates(requested: &[Amendment], policy: AmendmentPolicy, limit: u32) -> Vec<String> {
        let weighed = decide_amendments(&list(), requested, &TaskId("now".into()), policy, limit);
        let word = |amended: &AmendmentRecord| {
            let fate = amended.describe_result();
            fate.split([':', ' ']).next().unwrap_or_default().to_owned()
        };
        weighed.log.iter().map(word).collect()
    }

    #[test]
    fn one_refusal_does_not_affect_the_others() {
        let requested = [remove("done"), add("a"), remove("a"), add("b"), add("c")];
        let expect = ["refused", "applied", "applied", "applied", "proposed"];
        assert_eq!(fates(&requested, AmendmentPolicy::Apply, 3), expect);
    }

    #[test]
    fn agents_add_and_propose_everything_else() {
        let modify = Amendment::Modify {
            task_id: TaskId("later".into()),
            changes: json!({"acceptance_criteria": ["less"]}),
            reason: "hard".into(),
        };
        let unknown = Amendment::Unreadable { entry: "{\"action\":\"reorder\"}".into() };
        let requested = [modify, remove("last"), remove("done"), unknown, add("a"), add("b")];
        let expect = ["proposed", "proposed", "refused", "refused", "applied", "proposed"];
        assert_eq!(fates(&requested, AmendmentPolicy::Add, 1), expect);
    }

    #[test]
    fn a_flood_of_proposals_is_cut() {
        let requested: Vec<Amendment> = (0..25).map(|n| add(&format!("n{n}"))).collect();
        let fates = fates(&requested, AmendmentPolicy::Add, 0);
        assert_eq!(fates.iter().filter(|fate| *fate == "proposed").count(), MAX_PROPOSALS);
    }

    #[test]
    fn a_proposal_is_named_by_what_it_changes() {
        let other_words =
            Amendment::Remove { task_id: TaskId("last".into()), reason: "other words".into() };
        assert_eq!(Proposal::new(remove("last")).id, Proposal::new(other_words).id);
        assert_ne!(Proposal::new(remove("last")).id, Proposal::new(remove("later")).id);
        let accepted = accept_proposal(&Proposal::new(remove("last")), &list());
        assert_eq!(accepted, Ok(TaskChange::Remove { task: TaskId("last".into()) }));
        let refused = accept_proposal(&Proposal::new(remove("later")), &list());
        assert!(refused.is_err_and(|why| why.contains("unknown task")));
    }
}
