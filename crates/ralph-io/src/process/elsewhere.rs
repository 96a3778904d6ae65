//! Looks at processes that are none of ours.
//!
//! Not here: ending any of them.

use std::fs;
use std::path::Path;

/// Returns whether a program of this name is running somewhere below a directory, as far as the
/// system shows. Where it shows nothing, the answer is yes: the careful one.
pub fn is_running_in(program: &str, directory: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().map(|entry| entry.path()).any(|process| {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        name.trim() == program
            && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    })
}

/// Returns whether a process was stopped by a signal, as far as the system shows.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    // The name of a program may hold brackets; the last one ends it.
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_name_and_place() {
        let here = std::env::current_dir().expect("a directory");
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        assert!(is_running_in(own.trim(), &here));
        assert!(!is_running_in("no such program", &here));
        assert!(!is_running_in(own.trim(), Path::new("/nowhere")));
    }
}
