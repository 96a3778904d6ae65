//! Where and when the figures were taken.

use std::fs;
use std::process::Command;
use std::thread;

/// Returns a sentence about the machine and the day.
pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let processor = value_in("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = value_in("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or_else(String::new, |kibibytes| format!(", {} GiB", kibibytes.div_ceil(1 << 20)));
    let kernel = read("/proc/sys/kernel/osrelease");
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    let git = Command::new("git").arg("--version").output();
    let git = git.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "Machine: {cores} cores ({processor}){memory}, Linux {kernel}, {}, as {user}. Date: {}. \
         Load before: {}.",
        git.unwrap_or_else(|_| "no git".to_owned()),
        jiff::Zoned::now().date(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn value_in(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
