//! Machines and projects in unusual states.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ralph_testkit::sealed::{Running, Sealed};

use super::{backends, inside, script};
use crate::{repository, sealed};

/// Returns the `ralph sandbox exec` command, to be changed.
fn exec(sealed: &Sealed, backend: &str, words: &[&str]) -> Command {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["sandbox", "exec", "--backend", backend, "--network", "none", "--"]).args(words);
    command
}

#[test]
fn without_user_namespaces_the_native_backend_says_so() {
    // In a user namespace of the test, further ones can be forbidden.
    let sealed = sealed();
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let body = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && {ralph} sandbox exec --backend native \
         --network none -- true"
    );
    let mut command = sealed.build_command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &body]);
    let ran = Running::start_command(command).wait_for_end();
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    for words in ["`native` does not work here", "cannot create namespaces", "hint:"] {
        assert!(ran.stderr.contains(words), "no {words:?} in {}", ran.stderr);
    }
}

#[test]
fn without_namespaces_auto_takes_landlock() {
    if !backends().contains(&"landlock") {
        return;
    }
    let sealed = sealed();
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let body = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && {ralph} sandbox exec --backend auto \
         --network none -- printenv RALPH_SANDBOX"
    );
    let mut command = sealed.build_command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &body]);
    let ran = Running::start_command(command).wait_for_end();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "landlock\n"), "{}", ran.stderr);
}

#[test]
fn bubblewrap_must_be_there_and_not_in_the_project() {
    let sealed = sealed();
    let mut command = exec(&sealed, "bwrap", &["true"]);
    command.env("PATH", sealed.bin_dir());
    let ran = Running::start_command(command).wait_for_end();
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("`bwrap` is not on the PATH"), "{}", ran.stderr);
    let fake = sealed.project_dir().join("bwrap");
    fs::write(&fake, "#!/bin/sh\nexit 0\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&fake, mode).expect("a mode");
    let mut command = exec(&sealed, "bwrap", &["true"]);
    command.env("PATH", sealed.project_dir());
    let ran = Running::start_command(command).wait_for_end();
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("is inside the project"), "{}", ran.stderr);
}

#[test]
fn bubblewrap_without_isolation_fails_its_self_test() {
    let sealed = sealed();
    let pretender = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n";
    sealed.write_program("bwrap", pretender);
    let ran = script(&sealed, "bwrap", "echo ran > marker");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("it failed the sandbox self-test"), "{}", ran.stderr);
    assert!(!sealed.project_dir().join("marker").exists());
}

#[test]
fn bubblewrap_that_fails_once_is_started_once_more() {
    let sealed = sealed();
    let real = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
    let real = real.into_iter().find(|it| Path::new(it).exists());
    let works = inside(&sealed, "bwrap", &["true"]).code == Some(0);
    let (Some(real), true) = (real, works) else {
        assert!(std::env::var_os("CI").is_none(), "CI must have a bwrap that works");
        return;
    };
    let left = sealed.root().join("failures-left");
    let failing = format!(
        "#!/bin/sh\nif test -s {0}; then\n  sed -i 1d {0}\n  \
         echo 'bwrap: Unable to apply mount flags: remount \"/x\": No such file or directory' >&2\n  \
         exit 1\nfi\nexec {real} \"$@\"\n",
        left.display()
    );
    sealed.write_program("bwrap", &failing);
    let run = |failures: usize| {
        fs::write(&left, "x\n".repeat(failures)).expect("written");
        script(&sealed, "bwrap", "echo ran >> marker; exit 1")
    };
    let count_runs = || fs::read_to_string(sealed.project_dir().join("marker")).unwrap_or_default();
    let quiet = run(0);
    assert_eq!((quiet.code, count_runs().as_str()), (Some(1), "ran\n"), "{}", quiet.stderr);
    // A program that fails with the same code is not started again.
    let once = run(1);
    assert_eq!((once.code, count_runs().as_str()), (Some(1), "ran\nran\n"), "{}", once.stderr);
    let twice = run(2);
    assert_eq!((twice.code, count_runs().as_str()), (Some(125), "ran\nran\n"), "{}", twice.stderr);
    assert!(twice.stderr.contains("bwrap set up no sandbox"), "{}", twice.stderr);
}

#[test]
fn a_home_behind_a_link_is_hidden_all_the_same() {
    for backend in backends() {
        let sealed = sealed();
        let (home, link) = (sealed.root().join("home"), sealed.root().join("link"));
        fs::write(home.join("canary"), "canary").expect("written");
        symlink(&home, &link).expect("a link");
        for spelling in [&home, &link] {
            let mut command = exec(
                &sealed,
                backend,
                &["sh", "-c", "cat ~/canary || cat $0/canary", &spelling.to_string_lossy()],
            );
            command.env("HOME", &link);
            let ran = Running::start_command(command).wait_for_end();
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{backend}");
        }
    }
}

#[test]
fn project_in_home_is_visible_and_its_siblings_are_not() {
    for backend in backends() {
        let sealed = sealed();
        let home = sealed.root().join("home");
        fs::create_dir_all(home.join("work/project")).expect("a directory");
        fs::write(home.join("work/canary"), "canary").expect("written");
        let mut command =
            exec(&sealed, backend, &["sh", "-c", "echo x > made; cat ../canary ../../canary"]);
        command.current_dir(home.join("work/project"));
        let ran = Running::start_command(command).wait_for_end();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{backend}: {}", ran.stderr);
        assert!(home.join("work/project/made").exists(), "{backend}: {}", ran.stderr);
    }
}

#[test]
fn a_project_that_is_too_much_is_refused() {
    for (directory, words) in [
        ("home", "it is your home directory"),
        ("", "it contains your home directory"),
        ("/", "it is the root directory"),
    ] {
        let sealed = sealed();
        let mut command = exec(&sealed, "native", &["true"]);
        command.current_dir(sealed.root().join(directory));
        let ran = Running::start_command(command).wait_for_end();
        assert_eq!(ran.code, Some(2), "{directory}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{directory}: {}", ran.stderr);
    }
}

#[test]
fn a_work_tree_whose_repository_is_elsewhere() {
    for backend in backends() {
        for (mode, expect) in [("ro", "refused"), ("agent", "committed")] {
            let sealed = repository();
            let tree = sealed.root().join("tree");
            sealed.run_git(&["worktree", "add", "-q", &tree.to_string_lossy()]);
            let body = "git status --short > /dev/null || exit 9; echo x > new && git add new && \
                        git commit -qm New && echo committed || echo refused; \
                        echo x > .git && echo swapped; \
                        echo x > ../project/.git/hooks/added && echo added; true";
            fs::create_dir_all(tree.join(".ralph")).expect("a directory");
            fs::write(
                tree.join(".ralph/settings.json"),
                format!(r#"{{"sandbox": {{"git": "{mode}"}}}}"#),
            )
            .expect("written");
            let mut command = exec(&sealed, backend, &["sh", "-c", body]);
            command.current_dir(&tree);
            let ran = Running::start_command(command).wait_for_end();
            let open = match (backend, mode) {
                ("landlock", "ro") => "refused\nswapped\n".to_owned(),
                ("landlock", _) => "committed\nswapped\nadded\n".to_owned(),
                _ => format!("{expect}\n"),
            };
            assert_eq!((ran.code, ran.stdout), (Some(0), open), "{backend} {mode}: {}", ran.stderr);
        }
    }
}

#[test]
fn temporary_files_and_files_are_bounded() {
    for backend in backends() {
        let sealed = sealed();
        sealed.write_file(
            ".ralph/settings.json",
            r#"{"sandbox": {"limits": {"tmp": "1M", "file": "2M"}}}"#,
        );
        let body = "dd if=/dev/zero of=big bs=64k count=64 2> /dev/null; wc -c < big; \
                    dd if=/dev/zero of=/tmp/big bs=64k count=64 2> /dev/null; wc -c < /tmp/big";
        let ran = script(&sealed, backend, body);
        let expect = if backend == "landlock" { "2097152\n" } else { "2097152\n1048576\n" };
        assert_eq!(ran.stdout, expect, "{backend}: {}", ran.stderr);
    }
}

#[test]
fn processes_are_bounded() {
    let program = "
import os, sys, time
started = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        started += 1
except OSError:
    pass
print(started)
";
    for user in super::world::User::all() {
        for backend in backends().into_iter().filter(|it| *it != "landlock") {
            let world = super::world::World::new(user);
            world.sealed.write_file("fork.py", program);
            world
                .sealed
                .write_file(".ralph/settings.json", r#"{"sandbox": {"limits": {"pids": 24}}}"#);
            let ran = world.inside(backend, &["/usr/bin/python3", "fork.py"]);
            let started: u32 = ran.stdout.trim().parse().unwrap_or(u32::MAX);
            assert!(started <= 24, "{backend} {user:?}: {started} {}", ran.stderr);
        }
    }
}
