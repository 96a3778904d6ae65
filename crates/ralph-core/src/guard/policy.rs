//! Applies the guard's settings to its findings.

use serde::{Deserialize, Serialize};

use super::category::Category;
use super::{Findings, Refusal};

/// The settings of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub mode: GuardMode,
    /// Rules and commands to allow in spite of a rule.
    pub allow: Vec<String>,
    /// Rules and commands to deny in any mode.
    pub deny: Vec<String>,
}

/// What happens to a call that a rule refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    #[default]
    Deny,
    /// Allows the call and warns the agent.
    Warn,
    Off,
}

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Pass,
    /// Allow the call and warn the agent.
    Warn(Refusal),
    Deny(Refusal),
}

impl Policy {
    /// Decides on a call.
    ///
    /// The settings cannot switch off the rules of loop integrity, nor the hook's own rules.
    pub fn decide(&self, findings: &Findings) -> Decision {
        let firm = |refusal: &&Refusal| {
            refusal.category == Category::LoopIntegrity
                || self.deny.iter().any(|entry| entry == refusal.rule)
        };
        if let Some(refusal) = findings.refusals.iter().find(firm) {
            // For a command that removes the whole project, `fs.remove-project` is the clearer
            // reason.
            let whole = findings.refusals.iter().find(|it| it.rule == "fs.remove-project");
            let whole = whole.filter(|refusal| !self.allows(refusal));
            return Decision::Deny(whole.unwrap_or(refusal).clone());
        }
        if let Some(denied) = self.denied(findings) {
            return Decision::Deny(denied);
        }
        let rest = findings.refusals.iter().find(|refusal| !self.allows(refusal));
        match (rest, self.mode) {
            (None, _) | (Some(_), GuardMode::Off) => Decision::Pass,
            (Some(refusal), GuardMode::Warn) => Decision::Warn(refusal.clone()),
            (Some(refusal), GuardMode::Deny) => Decision::Deny(refusal.clone()),
        }
    }

    /// Returns whether the settings allow the refusal's rule, or the beginning of its command.
    fn allows(&self, refusal: &Refusal) -> bool {
        self.allow.iter().any(|entry| entry == refusal.rule || begins(&refusal.argv, entry))
    }

    /// Returns the refusal of a command that the settings deny.
    fn denied(&self, findings: &Findings) -> Option<Refusal> {
        let commands = findings.lowered.commands.iter();
        let mut argvs = commands
            .map(|command| command.argv.iter().map(ToString::to_string).collect::<Vec<String>>());
        let argv = argvs.find(|argv| self.deny.iter().any(|entry| begins(argv, entry)))?;
        Refusal::by_hook("loop.denied", &argv.join(" "))
    }
}

/// Returns whether a command begins with the words of an entry.
fn begins(argv: &[String], entry: &str) -> bool {
    let words: Vec<&str> = entry.split_whitespace().collect();
    !words.is_empty() && argv.len() >= words.len() && argv.iter().zip(&words).all(|(a, b)| a == b)
}
