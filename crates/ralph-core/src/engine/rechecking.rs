//! Before an iteration is judged, and before an agent is asked about it: what the gates were run
//! on must still be what is there. A gate may rewrite files (`eslint --fix`), and gates run code
//! that agents wrote.

use super::{Engine, Trouble, ViewKind};
use crate::choose;
use crate::event::{Checkpoint, Event, UNCOMMITTED_FILES};
use crate::gate::GateResult;
use crate::run::Iteration;

/// How often all gates run again in an iteration. A formatter is done after one more round, and
/// two that depend on each other after two.
const MOST_ROUNDS: u32 = 2;

/// Whether what was checked is what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recheck {
    /// It is.
    Same,
    /// It is not: the gates have to run again, or the attempt has failed.
    Again,
}

impl Engine<'_> {
    /// Compares the work tree with the one that the gates were run on, if ralph is going to commit
    /// it. If files were changed, all gates run again on what is there now.
    pub(super) fn recheck_tree(&mut self) -> Result<Recheck, Trouble> {
        let is_due = |current: &Iteration| {
            let is_run = |it: &GateResult| it.log.is_some();
            choose::needs_recheck(&self.state, current) && current.gates.iter().any(is_run)
        };
        let (Some(true), Some(seen)) = (self.current(is_due), self.state.as_seen()) else {
            return Ok(Recheck::Same);
        };
        let now = match self.behind.take() {
            Some(now) => Some(now),
            None => self.ports.vcs.survey()?,
        };
        let is_same = |tree| matches!(&seen, Checkpoint::Git { tree: Some(it), .. } if it == tree);
        match now {
            Some(now) if !is_same(&now.tree) => self.start_gates_again(&seen, "the gates"),
            now => {
                self.behind = now;
                Ok(Recheck::Same)
            }
        }
    }

    /// Looks at the work tree again after files were changed behind the agent, so that all gates
    /// run on what is there now. Fails the attempt if that was done often enough. Changes of the
    /// task list and its notes alone are not looked at by gates.
    pub(super) fn start_gates_again(
        &mut self,
        seen: &Checkpoint,
        who: &str,
    ) -> Result<Recheck, Trouble> {
        let Some(now) = self.ports.vcs.changed_since(seen, &[])? else {
            return Ok(Recheck::Same);
        };
        let files = now.files.iter().map(|file| file.path.as_str());
        let mut paths: Vec<&str> = files.filter(|path| !self.is_document(path)).collect();
        if paths.is_empty() && now.more_files == 0 {
            return Ok(Recheck::Same);
        }
        paths.truncate(UNCOMMITTED_FILES);
        if self.current(|current| current.rounds) >= Some(MOST_ROUNDS) {
            let output = format!(
                "These files change each time {who} run, so what passed is never what would be \
                 committed. Make sure that a second run changes nothing; add files that are \
                 generated to `.gitignore`:\n- {}",
                paths.join("\n- ")
            );
            let result = choose::not_a_gate(choose::UNSTABLE, output);
            self.record(Event::GateChecked { result })?;
            self.publish(ViewKind::Gates)?;
            return Ok(Recheck::Again);
        }
        let text = format!("{who} changed files, so all gates run again: {}", paths.join(", "));
        self.warn(text)?;
        self.observe()?;
        Ok(Recheck::Again)
    }
}
