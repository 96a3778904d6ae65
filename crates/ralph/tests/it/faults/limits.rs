//! Limits of the system: open files, processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{RALPH, expect_clear_end, leave_out, script};
use crate::repository;

#[test]
fn too_few_open_files_end_a_run_that_can_be_resumed() {
    for limit in [5, 8, 10, 12, 14] {
        let sealed = repository();
        let actions =
            json!([{ "write": { "path": "work.txt", "text": "x\n" } }, { "claim": "DONE" }]);
        sealed.write_script(
            &json!([{ "do": actions }]),
            &json!({ "gates": [{ "command": "true" }], "commit": "ralph" }),
        );
        sealed.write_file(".gitignore", "/.ralph/\n");
        sealed.commit_all("Settings");
        let end = script(&sealed, &[], &format!("ulimit -n {limit}; exec \"$RALPH\" run -p base"));
        expect_clear_end(&format!("{limit} files"), &end, &[1, 2, 4, 5], &["Too many open files"]);
        assert_eq!(sealed.survivors(), [""; 0], "{limit}");
        let has_begun = !sealed.find_events("run_started").is_empty();
        let words = if has_begun { &["resume"][..] } else { &["run", "-p", "base"] };
        sealed.run_ralph(words).expect_code(0);
        assert_eq!(sealed.subjects(), ["ralph[1]: prompt", "Settings", "Begin"], "{limit}");
    }
}

/// A user that no other process on this machine has: processes are counted by user, and root has
/// no limit.
const OTHER_USER: u32 = 54_321;

#[test]
fn too_few_processes_end_a_run_that_can_be_resumed() {
    for limit in [1, 2, 4, 6, 7] {
        let sealed = crate::sealed();
        sealed.write_script(
            &json!([{ "do": [{ "claim": "DONE" }] }]),
            &json!({ "gates": [{ "command": "true" }], "retries": { "max": 1, "backoff": "10ms" } }),
        );
        let user = OTHER_USER.to_string();
        let limited = format!("--nproc={limit}");
        let ralph = sealed.bin_dir().join("ralph");
        let mut launcher = vec!["prlimit", &limited];
        if rustix::process::geteuid().is_root() {
            let other = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
            launcher = [&other[..], &launcher].concat();
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(sealed.root(), open).expect("a mode");
            // The other user may not access the build directory.
            if fs::hard_link(RALPH, &ralph).is_err() {
                fs::copy(RALPH, &ralph).expect("a copy");
            }
            let text = format!(
                "chown -R {user} \"$ROOT/home\" \"$ROOT/state\" \"$ROOT/tmp\" .; chmod 644 ../scenario.json; chown {user} \"$ROOT\""
            );
            script(&sealed, &[], &text).expect_code(0);
        } else {
            fs::hard_link(RALPH, &ralph)
                .or_else(|_| fs::copy(RALPH, &ralph).map(drop))
                .expect("it");
        }
        let unlimited: Vec<&str> = launcher
            .iter()
            .copied()
            .filter(|word| *word != "prlimit" && *word != limited)
            .collect();
        let run = |launcher: &[&str], words: &[&str]| {
            let all = [launcher, &[ralph.to_str().expect("text")], words].concat();
            let mut command = sealed.build_command(all[0]);
            command.args(&all[1..]);
            ralph_testkit::sealed::Running::start_command(command).wait_for_end()
        };
        let tried = run(&unlimited, &["--version"]);
        if tried.code != Some(0) {
            return leave_out("a limit on processes", &tried.stderr);
        }
        let end = run(&launcher, &["run", "-p", "base"]);
        let words = ["Resource temporarily unavailable", "Cannot fork"];
        expect_clear_end(&format!("{limit} processes"), &end, &[1, 2, 4, 5], &words);
        assert_eq!(sealed.survivors(), [""; 0], "{limit}");
        let has_begun = !sealed.find_events("run_started").is_empty();
        let words = if has_begun { &["resume"][..] } else { &["run", "-p", "base"] };
        let end = run(&unlimited, words);
        assert_eq!(end.code, Some(0), "{limit}: {}", end.stderr);
    }
}
