//! Applies the guard's settings to its findings.

use ralph_model::guard_policy::{GuardMode, GuardPolicy};

use super::category::GuardCategory;
use super::{GuardFindings, GuardRefusal};

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardDecision {
    Pass,
    /// Allow the call and warn the agent.
    Warn(GuardRefusal),
    Deny(GuardRefusal),
}

/// Returns whether a command begins with the words of an entry.
fn has_command_prefix(argv: &[String], entry: &str) -> bool {
    let words: Vec<&str> = entry.split_whitespace().collect();
    !words.is_empty() && argv.len() >= words.len() && argv.iter().zip(&words).all(|(a, b)| a == b)
}

/// Decides on a call.
///
/// The settings cannot switch off the rules of loop integrity, nor the hook's own rules.
pub fn decide_call(policy: &GuardPolicy, findings: &GuardFindings) -> GuardDecision {
    let firm = |refusal: &&GuardRefusal| {
        refusal.category == GuardCategory::LoopIntegrity
            || policy.deny.iter().any(|entry| entry == refusal.rule)
    };
    if let Some(refusal) = findings.refusals.iter().find(firm) {
        // For a command that removes the whole project, `fs.remove-project` is the clearer
        // reason.
        let whole = findings.refusals.iter().find(|it| it.rule == "fs.remove-project");
        let whole = whole.filter(|refusal| !is_allowed(policy, refusal));
        return GuardDecision::Deny(whole.unwrap_or(refusal).clone());
    }
    if let Some(denied) = find_denied(policy, findings) {
        return GuardDecision::Deny(denied);
    }
    let rest = findings.refusals.iter().find(|refusal| !is_allowed(policy, refusal));
    match (rest, policy.mode) {
        (None, _) | (Some(_), GuardMode::Off) => GuardDecision::Pass,
        (Some(refusal), GuardMode::Warn) => GuardDecision::Warn(refusal.clone()),
        (Some(refusal), GuardMode::Deny) => GuardDecision::Deny(refusal.clone()),
    }
}

/// Returns whether the settings allow the refusal's rule, or the beginning of its command.
fn is_allowed(policy: &GuardPolicy, refusal: &GuardRefusal) -> bool {
    policy
        .allow
        .iter()
        .any(|entry| entry == refusal.rule || has_command_prefix(&refusal.argv, entry))
}

/// Returns the refusal of a command that the settings deny.
fn find_denied(policy: &GuardPolicy, findings: &GuardFindings) -> Option<GuardRefusal> {
    let commands = findings.lowered.commands.iter();
    let mut argvs = commands
        .map(|command| command.argv.iter().map(ToString::to_string).collect::<Vec<String>>());
    let argv =
        argvs.find(|argv| policy.deny.iter().any(|entry| has_command_prefix(argv, entry)))?;
    GuardRefusal::from_hook_rule("loop.denied", &argv.join(" "))
}
