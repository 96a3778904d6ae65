//! Ends what children left behind: daemons, processes with a session of their own, anything.
//!
//! [`Watch::install`](super::Watch::install) makes this process the subreaper that inherits
//! orphans, before its first child is started. So every descendant is either below a child that we
//! know or, once its parents are gone, an unregistered child of ours: an orphan. Checking our own
//! children is therefore complete, and with nothing left it costs some 20 µs, where reading the
//! table of all processes costs 12 µs for each of them. Orphans are ended one generation at a time:
//! their own children are handed to us next. And as only we can reap them, their pids cannot be
//! reused while we signal them.
//!
//! The processes of a run whose ralph has died have another parent; [`sweep_run`] finds those by
//! the environment variable that they carry, in the table of all processes.
//!
//! Not here: the end of the child itself (`supervise`).

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

use super::RUN_ID_VARIABLE;
use super::registry::{self, OrphanPolicy, Registry};
use super::tree::{self, Life, Process};

/// A process that exits by itself shortly after its parent is no leftover: a server that notices
/// the end of its input needs some 50 ms.
const SETTLE: Duration = Duration::from_millis(200);

/// The time between TERM and KILL for leftovers. The agent had its grace period; this is for
/// closing files.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// How many rounds of KILL are sent before giving up: each round takes one generation.
const KILL_ROUNDS: u32 = 50;

/// Whether the child's group was sent TERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TermSent {
    /// The group was sent TERM at least.
    ToGroup,
    /// The child exited by itself.
    NotSent,
}

/// Ends what the child with this group left behind; returns how many processes had to be signaled.
///
/// While other children are supervised, an orphan outside the group may be theirs: it is left to
/// the sweep after the last of them.
pub(super) fn end_leftovers(group: Pid, term_sent: TermSent) -> u32 {
    let start = Instant::now();
    let settle = match term_sent {
        TermSent::ToGroup => Duration::ZERO,
        TermSent::NotSent => SETTLE,
    };
    let mut notified = BTreeSet::new();
    let mut counted = BTreeSet::new();
    let mut kill_rounds = 0;
    let mut empty_scans = 0;
    let mut pause = Duration::from_millis(1);
    // A list of children can miss one while another one exits: only two empty scans are conclusive.
    while empty_scans < 2 && kill_rounds < KILL_ROUNDS {
        let elapsed = start.elapsed();
        kill_rounds += u32::from(elapsed >= settle + LEFTOVER_GRACE);
        let left = match scan_orphans(&registry::lock_registry(), group) {
            OrphanScan::Nothing => {
                empty_scans += 1;
                continue;
            }
            OrphanScan::Orphans(left) => left,
        };
        empty_scans = 0;
        for process in &left {
            let id = process.pid.as_raw_pid();
            let in_signaled_group = term_sent == TermSent::ToGroup && process.group == Some(group);
            if elapsed >= settle + LEFTOVER_GRACE {
                counted.insert(id);
                let _ = kill_process(process.pid, Signal::KILL);
            } else if elapsed >= settle && !in_signaled_group && notified.insert(id) {
                counted.insert(id);
                let _ = kill_process(process.pid, Signal::TERM);
                let _ = kill_process(process.pid, Signal::CONT);
            }
        }
        if !left.is_empty() {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
    // Where orphans cannot be listed, only the group can be reached.
    registry::signal_group(group, Signal::KILL);
    u32::try_from(counted.len()).unwrap_or(u32::MAX)
}

/// The result of one scan of our children.
enum OrphanScan {
    /// No orphans of this child.
    Nothing,
    /// The running orphans. Dead ones were reaped; their children show up in the next scan.
    Orphans(Vec<Process>),
}

fn scan_orphans(registry: &Registry, group: Pid) -> OrphanScan {
    let shared = registry.supervises_other_than(group);
    let mut orphans = registry.list_orphans();
    orphans.retain(|orphan| !shared || orphan.group == Some(group));
    if orphans.is_empty() {
        return OrphanScan::Nothing;
    }
    orphans.retain(|orphan| match orphan.life {
        Life::Alive => true,
        Life::Zombie => {
            registry::reap_orphan(orphan.pid);
            false
        }
    });
    OrphanScan::Orphans(orphans)
}

/// Makes this process adopt the orphans of its companions, and end none of them, also not after
/// other children. [`super::Watch::install`] is for processes that end theirs.
pub fn adopt_orphans() -> std::io::Result<()> {
    registry::lock_registry().adopt_orphans(OrphanPolicy::Keep)
}

/// Reaps orphans that have exited, and ends none: each worker ends its own processes.
pub fn reap_dead_orphans() {
    for orphan in registry::lock_registry().list_unknown_children() {
        if orphan.life == Life::Zombie {
            registry::reap_orphan(orphan.pid);
        }
    }
}

/// Ends every process that carries the id of a run, as after a crash of its ralph.
///
/// Returns how many there were. This process and its ancestors are never ended.
pub fn sweep_run(run_id: &str) -> u32 {
    end_run(run_id, &KnownGroups::default(), Duration::from_secs(2))
}

/// Process groups that a ralph has started, by the pids of their leaders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KnownGroups {
    pub(super) groups: BTreeSet<i32>,
    /// Worker hosts of the user. They end when their input does; their jobs may continue.
    pub(super) job_starters: BTreeSet<i32>,
}

/// Ends every process that belongs to a run: TERM, `grace`, KILL.
///
/// Worker hosts of the user have the time of `grace` to end by themselves.
pub(super) fn end_run(run_id: &str, known: &KnownGroups, grace: Duration) -> u32 {
    let spared = list_ancestors();
    let start = Instant::now();
    let mut signaled = BTreeSet::new();
    let mut kill_rounds = 0;
    while kill_rounds < KILL_ROUNDS {
        let mut table = list_without(&spared);
        let with_jobs = find_related(&table, &known.job_starters, |_| false);
        table.retain(|process| !with_jobs.contains(process));
        let starters = with_jobs.iter().filter(|process| {
            process.group.is_some_and(|it| known.job_starters.contains(&it.as_raw_pid()))
        });
        let starters: Vec<&Process> = starters.collect();
        let left = find_related(&table, &known.groups, |process| {
            signaled.contains(&(process.pid.as_raw_pid(), process.started))
                || (!run_id.is_empty() && process.has_variable(RUN_ID_VARIABLE, run_id))
        });
        if left.is_empty() && starters.is_empty() {
            break;
        }
        let elapsed = start.elapsed();
        for process in starters.iter().filter(|_| elapsed >= grace) {
            let _ = kill_process(process.pid, Signal::KILL);
        }
        for process in &left {
            let first_time = signaled.insert((process.pid.as_raw_pid(), process.started));
            if elapsed >= grace {
                let _ = kill_process(process.pid, Signal::KILL);
            } else if first_time {
                let _ = kill_process(process.pid, Signal::TERM);
                let _ = kill_process(process.pid, Signal::CONT);
            }
        }
        kill_rounds += u32::from(elapsed >= grace);
        thread::sleep(Duration::from_millis(20));
    }
    u32::try_from(signaled.len()).unwrap_or(u32::MAX)
}

/// Returns the running processes without `spared`, and without the groups that they share with
/// those.
fn list_without(spared: &[Process]) -> Vec<Process> {
    let is_spared = |process: &Process| spared.iter().any(|it| it.pid == process.pid);
    let is_theirs = |group: &Pid| spared.iter().any(|it| it.group == Some(*group));
    tree::list_processes()
        .filter(|process| process.life == Life::Alive && !is_spared(process))
        .map(|process| Process { group: process.group.filter(|it| !is_theirs(it)), ..process })
        .collect()
}

/// Returns the members and all processes related to them: their children, and those that share a
/// group with them.
///
/// So a process that cleared its environment is found by its parent or its group. A group counts
/// only if its leader is found or gone: a member that was put into a foreign group, such as that of
/// the user's shell, must not take that group with it.
fn find_related(
    table: &[Process],
    groups: &BTreeSet<i32>,
    mut is_member: impl FnMut(&Process) -> bool,
) -> Vec<Process> {
    let mut groups = groups.clone();
    let (mut found, mut others): (Vec<Process>, Vec<Process>) =
        table.iter().partition(|process| is_member(process));
    loop {
        let parents: BTreeSet<i32> = found.iter().map(|it| it.pid.as_raw_pid()).collect();
        let outsiders: BTreeSet<i32> = others.iter().map(|it| it.pid.as_raw_pid()).collect();
        let theirs = found.iter().filter_map(|it| it.group).map(Pid::as_raw_pid);
        groups.extend(theirs.filter(|leader| !outsiders.contains(leader)));
        let (related, unrelated): (Vec<Process>, Vec<Process>) =
            others.into_iter().partition(|process| {
                process.parent.is_some_and(|it| parents.contains(&it.as_raw_pid()))
                    || process.group.is_some_and(|it| groups.contains(&it.as_raw_pid()))
            });
        if related.is_empty() {
            return found;
        }
        found.extend(related);
        others = unrelated;
    }
}

/// Returns whether this process was started by an agent or a gate of a run, at any depth, and even
/// if its environment was cleared: orphans are children of the run's own process.
pub fn is_descendant_of(run_id: &str, holder: Option<u32>) -> bool {
    let line = list_ancestors();
    let is_holder = |process: &Process| {
        holder
            .is_some_and(|pid| i32::try_from(pid).is_ok_and(|pid| pid == process.pid.as_raw_pid()))
    };
    line.iter().any(|process| process.has_variable(RUN_ID_VARIABLE, run_id))
        || line.iter().skip(1).any(is_holder)
}

/// Returns whether this process was started by an agent or a gate of any run, even if the variable
/// was removed from its own environment.
pub fn is_descendant_of_any() -> bool {
    list_ancestors().iter().any(|process| process.has_any_value(RUN_ID_VARIABLE))
}

/// Returns this process and all its ancestors.
fn list_ancestors() -> Vec<Process> {
    let mut line: Vec<Process> = Vec::new();
    let mut next = Some(getpid());
    while let Some(process) = next.and_then(tree::find_process) {
        if line.contains(&process) {
            break;
        }
        line.push(process);
        next = process.parent;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a table from pid, parent and group.
    fn table(rows: &[[i32; 3]]) -> Vec<Process> {
        let row = |&[pid, parent, group]: &[i32; 3]| Process {
            pid: Pid::from_raw(pid).expect("not zero"),
            parent: Pid::from_raw(parent),
            group: Pid::from_raw(group),
            started: 0,
            life: Life::Alive,
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_family_hangs_together_by_parents_and_groups() {
        let rows = [
            // The user's shell and an editor.
            [10, 1, 10],
            [11, 10, 11],
            // A member, its child with a session of its own, and a grandchild of that.
            [20, 1, 20],
            [21, 20, 21],
            [22, 21, 21],
            // An orphan in the group of the grandchild, and the child of that.
            [23, 1, 21],
            [24, 23, 24],
            // Of a group that ralph had started.
            [31, 1, 30],
            // In the group of the user's shell.
            [40, 1, 10],
        ];
        let cases: [(&[i32], &[i32], &[i32]); 5] = [
            (&[40], &[], &[40]),
            (&[20], &[], &[20, 21, 22, 23, 24]),
            (&[24], &[], &[24]),
            (&[], &[30], &[31]),
            (&[], &[], &[]),
        ];
        for (members, groups, expected) in cases {
            let groups = groups.iter().copied().collect();
            let is_member = |it: &Process| members.contains(&it.pid.as_raw_pid());
            let mut found: Vec<i32> = find_related(&table(&rows), &groups, is_member)
                .iter()
                .map(|process| process.pid.as_raw_pid())
                .collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{members:?} {groups:?}");
        }
    }
}
