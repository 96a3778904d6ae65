//! Finds processes that ralph did not start.
//!
//! Not here: ending any of them.

use std::fs;
use std::path::PathBuf;

/// Returns whether a program of this name is running below one of these directories. Returns true
/// if the system does not show that, which is the safe answer.
pub fn is_running_in(program: &str, directories: &[PathBuf]) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().map(|entry| entry.path()).any(|process| {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let is_there = |cwd: PathBuf| directories.iter().any(|it| cwd.starts_with(it));
        name.trim() == program && fs::read_link(process.join("cwd")).is_ok_and(is_there)
    })
}

/// Returns whether a process was stopped by a signal, as far as the system shows.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    // The name of a program may contain parentheses; the last one ends it.
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_name_and_place() {
        let here = std::env::current_dir().expect("a directory");
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        let nowhere = PathBuf::from("/nowhere");
        assert!(is_running_in(own.trim(), &[nowhere.clone(), here.clone()]));
        assert!(!is_running_in("no such program", &[here]));
        assert!(!is_running_in(own.trim(), &[nowhere]));
    }
}
