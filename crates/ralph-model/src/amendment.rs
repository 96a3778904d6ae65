//! Amendments: changes of the task list that an agent requests in its handoff, with the decision on
//! each.
//!
//! Not here: the decision.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fingerprint::Fingerprint;
use crate::handoff::Amendment;

/// How many proposals one iteration may leave. More would hide the ones that matter.
pub const MAX_PROPOSALS: usize = 20;

/// How many digits of the fingerprint form the id: short to type, and unique among
/// hundreds.
const ID_DIGITS: usize = 6;

/// An amendment and its result, for the audit log and the next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmendmentRecord {
    pub proposal: String,
    pub reason: String,
    /// Why it was refused; none if it was applied or kept as a proposal.
    pub refusal: Option<String>,
    /// The proposal that waits for the user; none if it was applied or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<Box<Proposal>>,
}

/// A change of the task list that waits for the user's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Derived from the content: the same proposal has the same id in every run.
    pub id: String,
    pub amendment: Amendment,
}

impl Proposal {
    /// Returns the proposal to make this change.
    pub fn new(amendment: Amendment) -> Self {
        // The reason is worded differently each time, so it is not part of the id.
        let content = match &amendment {
            Amendment::Add { task, after, reason: _ } => json!(["add", task, after]),
            Amendment::Modify { task_id, changes, reason: _ } => {
                json!(["modify", task_id, changes])
            }
            Amendment::Remove { task_id, reason: _ } => json!(["remove", task_id]),
            Amendment::Unreadable { entry } => json!(["unreadable", entry]),
        };
        let digits = Fingerprint::from_texts([content.to_string().as_str()]).0;
        let end = &digits[digits.len() - ID_DIGITS..];
        Self { id: format!("P-{end}"), amendment }
    }

    /// Returns a short description of the change.
    pub fn summary(&self) -> String {
        describe_amendment(&self.amendment).0
    }

    /// Returns why the agent proposes it.
    pub fn reason(&self) -> String {
        describe_amendment(&self.amendment).1
    }
}

/// Which changes of the task list that agents ask for are applied without asking the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AmendmentPolicy {
    /// New tasks; changes and removals wait for `ralph tasks proposals accept`.
    #[default]
    Add,
    /// All of them.
    Apply,
}

impl AmendmentRecord {
    fn new(amendment: &Amendment) -> Self {
        let (proposal, reason) = describe_amendment(amendment);
        Self { proposal, reason, refusal: None, proposed: None }
    }

    pub fn new_applied(amendment: &Amendment) -> Self {
        Self::new(amendment)
    }

    pub fn new_refused(amendment: &Amendment, refusal: String) -> Self {
        Self { refusal: Some(refusal), ..Self::new(amendment) }
    }

    /// Keeps an amendment for the user, unless this iteration has left too many already.
    pub fn new_proposed(amendment: &Amendment, earlier: &[Self]) -> Self {
        let count = earlier.iter().filter(|amended| amended.proposed.is_some()).count();
        if count >= MAX_PROPOSALS {
            let refusal = format!("an iteration may leave at most {MAX_PROPOSALS} proposals");
            return Self::new_refused(amendment, refusal);
        }
        let proposed = Some(Box::new(Proposal::new(amendment.clone())));
        Self { proposed, ..Self::new(amendment) }
    }

    /// Returns the result as text for people.
    pub fn describe_result(&self) -> String {
        match (&self.refusal, &self.proposed) {
            (Some(refusal), _) => format!("refused: {refusal}"),
            (None, Some(proposed)) => format!("proposed as {}", proposed.id),
            (None, None) => "applied".to_owned(),
        }
    }
}

fn describe_amendment(amendment: &Amendment) -> (String, String) {
    match amendment {
        Amendment::Add { task, after, reason } => {
            let text = |key: &str| task.get(key).and_then(Value::as_str).unwrap_or("?");
            let place = after.as_ref().map(|after| format!(" after {after}")).unwrap_or_default();
            (format!("add {}{place}", text("id")), reason.clone())
        }
        Amendment::Modify { task_id, changes, reason } => {
            let keys: Vec<&str> =
                changes.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            (format!("modify {task_id}: {}", keys.join(", ")), reason.clone())
        }
        Amendment::Remove { task_id, reason } => (format!("remove {task_id}"), reason.clone()),
        Amendment::Unreadable { entry } => (entry.clone(), String::new()),
    }
}
