//! What the settings make of the guard's findings.

use serde::{Deserialize, Serialize};

use super::category::Category;
use super::{Findings, Refusal};

/// The settings of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// What becomes of a call that a rule refuses.
    pub mode: GuardMode,
    /// Rules and commands that are allowed all the same.
    pub allow: Vec<String>,
    /// Rules and commands that are denied in any mode.
    pub deny: Vec<String>,
}

/// What becomes of a call that a rule refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// It is not made.
    #[default]
    Deny,
    /// It is made, and the agent hears of it.
    Warn,
    /// It is made.
    Off,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nobody minds.
    Pass,
    /// It is made, and the agent is told.
    Warn(Refusal),
    /// It is not made.
    Deny(Refusal),
}

impl Policy {
    /// Decides on a call.
    ///
    /// The rules of loop integrity hold whatever the settings say, as do those by which the hook
    /// itself refuses.
    pub fn decide(&self, findings: &Findings) -> Decision {
        let firm = |refusal: &&Refusal| {
            refusal.category == Category::LoopIntegrity
                || self.deny.iter().any(|entry| entry == refusal.rule)
        };
        if let Some(refusal) = findings.refusals.iter().find(firm) {
            // Where everything would go, there are better words than that ralph's files would.
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

    /// Returns whether the rule of a refusal is allowed, or how its command begins.
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
