//! Reads the process table: parents, children, and which processes carry a run's id.
//!
//! Only Linux has `/proc`; on other systems nothing is found, and ralph can only signal the process
//! groups that it created.
//!
//! Not here: signals. `sweep` ends what this finds.

use rustix::process::Pid;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{find_process, is_ignored, list_children, list_processes};
#[cfg(target_os = "linux")]
pub(super) use linux::{find_process, is_ignored, list_children, list_processes};

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: Pid,
    /// The parent's pid; `None` for the first process.
    pub parent: Option<Pid>,
    /// The id of its process group.
    pub group: Option<Pid>,
    /// When it started; together with the pid, this identifies a process uniquely.
    pub started: u64,
    pub life: Life,
}

/// Whether a process still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It runs, sleeps or is stopped.
    Alive,
    /// It has exited, but its parent has not reaped it.
    Zombie,
}

impl Process {
    /// Returns whether its environment holds the variable with the value.
    ///
    /// The environment is the one it was started with. That of other users' processes cannot be
    /// read; ralph must not end those.
    pub(super) fn has_variable(&self, variable: &str, value: &str) -> bool {
        let wanted = format!("{variable}={value}");
        self.has_entry(|entry| entry == wanted.as_bytes())
    }

    /// Returns whether its environment holds the variable, with any value.
    pub(super) fn has_any_value(&self, variable: &str) -> bool {
        let wanted = format!("{variable}=");
        self.has_entry(|entry| entry.starts_with(wanted.as_bytes()))
    }

    fn has_entry(&self, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let file = format!("/proc/{}/environ", self.pid.as_raw_pid());
        std::fs::read(file)
            .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(is_wanted))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;

    use rustix::process::Pid;

    use super::{Life, Process};

    /// Returns the living and dead children of a process.
    ///
    /// The kernel keeps one list per thread. A list is complete unless a child leaves while it
    /// is read, so callers that need certainty ask again.
    pub(in super::super) fn list_children(parent: Pid) -> Vec<Process> {
        let threads = format!("/proc/{}/task", parent.as_raw_pid());
        let mut children = Vec::new();
        for thread in fs::read_dir(threads).into_iter().flatten().flatten() {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(list) => children.extend(list.split_ascii_whitespace().filter_map(parse_pid)),
                // A thread may end in between. If the file does not exist at all (the kernel was
                // built without it), the whole table has to be read.
                Err(error) if error.kind() == io::ErrorKind::NotFound && thread.path().exists() => {
                    return list_processes()
                        .filter(|process| process.parent == Some(parent))
                        .collect();
                }
                Err(_) => {}
            }
        }
        children.into_iter().filter_map(find_process).collect()
    }

    /// Returns every process that can be seen.
    pub(in super::super) fn list_processes() -> impl Iterator<Item = Process> {
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| find_process(parse_pid(entry.file_name().to_str()?)?))
    }

    /// Returns the table's entry of one process.
    pub(in super::super) fn find_process(pid: Pid) -> Option<Process> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        parse(pid, &stat)
    }

    /// Returns whether this process was started with a signal ignored, as `nohup` does.
    pub(in super::super) fn is_ignored(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    fn parse_pid(text: &str) -> Option<Pid> {
        // A pid of 0 or below would address whole groups.
        text.parse().ok().filter(|&pid| pid > 0).and_then(Pid::from_raw)
    }

    /// Parses a `stat` line. The program's name is in parentheses and may contain anything, so the
    /// fields are counted from the last parenthesis.
    fn parse(pid: Pid, stat: &[u8]) -> Option<Process> {
        let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
        let fields = std::str::from_utf8(&stat[after_name..]).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let life = match fields.next()? {
            "Z" | "X" | "x" => Life::Zombie,
            _ => Life::Alive,
        };
        let parent = parse_pid(fields.next()?);
        let group = parse_pid(fields.next()?);
        // State, parent and group are fields 3 to 5 of the line; the start is field 22.
        let started = fields.nth(16)?.parse().ok()?;
        Some(Process { pid, parent, group, started, life })
    }

    #[cfg(test)]
    mod tests {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn no_line_names_a_whole_group(stat in "1 \\(a\\)( S| Z| -?[0-9]{1,20}|[ -~]){0,30}\n?") {
                if let Some(process) = parse(rustix::process::getpid(), stat.as_bytes()) {
                    let is_real = |pid: Option<Pid>| pid.is_none_or(|pid| pid.as_raw_pid() > 0);
                    prop_assert!(is_real(process.parent) && is_real(process.group));
                }
            }
        }

        #[test]
        fn a_program_name_cannot_forge_the_fields() {
            let pid = Pid::from_raw(42).expect("42 is a pid");
            let line = b"42 (a) Z 1 (b)) S 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5555 1 2\n";
            let expected = Process {
                pid,
                parent: Pid::from_raw(7),
                group: Pid::from_raw(8),
                started: 5555,
                life: Life::Alive,
            };
            assert_eq!(parse(pid, line), Some(expected));
        }

        #[test]
        fn this_process_is_in_the_table() {
            let own = rustix::process::getpid();
            let found = find_process(own).expect("we run");
            assert_eq!(found.parent, rustix::process::getppid());
            assert_eq!(found.life, Life::Alive);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use rustix::process::Pid;

    use super::Process;

    /// Returns nothing: there is no table to read.
    pub(in super::super) fn list_children(_parent: Pid) -> Vec<Process> {
        Vec::new()
    }

    /// Returns nothing: there is no table to read.
    pub(in super::super) fn list_processes() -> impl Iterator<Item = Process> {
        std::iter::empty()
    }

    /// Returns nothing: there is no table to read.
    pub(in super::super) fn find_process(_pid: Pid) -> Option<Process> {
        None
    }

    /// Returns false: unknown without a table.
    pub(in super::super) fn is_ignored(_signal: i32) -> bool {
        false
    }
}
