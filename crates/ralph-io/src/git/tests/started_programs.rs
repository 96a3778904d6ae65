//! Programs that git's configuration names, and which of them git starts for ralph.

use std::collections::BTreeSet;

use super::super::command::{GitCommand, GitStartRule, STARTED_BY_GIT};
use super::*;

/// What ralph's own git calls do about each setting: not taken from the table of the product, so
/// that a row that is lost there is noticed.
const EXPECTED: [(&str, &[&str]); 5] = [
    ("off", &["core.hooksPath", "core.fsmonitor", "log.showSignature"]),
    (
        "in the sandbox",
        &[
            "gc.recentObjectsHook",
            "filter.x.clean",
            "filter.x.smudge",
            "filter.x.process",
            "merge.x.driver",
            "trailer.x.command",
            "trailer.x.cmd",
        ],
    ),
    (
        "not used",
        &[
            "diff.external",
            "diff.x.command",
            "diff.x.textconv",
            "core.editor",
            "sequence.editor",
            "core.pager",
            "alias.push",
            "submodule.x.update",
            "core.alternateRefsCommand",
            "pager.log",
            "interactive.diffFilter",
            "difftool.x.cmd",
            "mergetool.x.cmd",
            "tar.x.command",
            "uploadpack.packObjectsHook",
        ],
    ),
    (
        "of the user",
        &[
            "gpg.program",
            "gpg.ssh.program",
            "gpg.x509.program",
            "gpg.ssh.defaultKeyCommand",
            "remote.origin.receivepack",
            "remote.origin.uploadpack",
            "core.sshCommand",
            "core.gitProxy",
            "core.askPass",
            "credential.helper",
            "credential.x.helper",
        ],
    ),
    ("off by name", &["hook.x.command"]),
];

fn describe_rule(rule: GitStartRule) -> &'static str {
    match rule {
        GitStartRule::Off(_) => "off",
        GitStartRule::OffByName => "off by name",
        GitStartRule::InSandbox => "in the sandbox",
        GitStartRule::NotUsed => "not used",
        GitStartRule::OfUser => "of the user",
    }
}

#[test]
fn the_table_has_every_setting_that_starts_a_program() {
    let expected: BTreeSet<(&str, &str)> = EXPECTED
        .iter()
        .flat_map(|(rule, settings)| settings.iter().map(|it| (*it, *rule)))
        .collect();
    let table = STARTED_BY_GIT.iter().map(|(setting, rule)| (*setting, describe_rule(*rule)));
    assert_eq!(table.collect::<BTreeSet<_>>(), expected);
}

/// Names a program in every setting; each writes the name of its setting to a file.
fn name_all_programs(world: &World, log: &Path) {
    for setting in EXPECTED.iter().flat_map(|(_, settings)| settings.iter().copied()) {
        let value = match setting {
            "core.hooksPath" => world.at("hooks").display().to_string(),
            "log.showSignature" => "true".to_owned(),
            // A value without this mark is no program.
            "alias.push" | "submodule.x.update" => format!("!echo {setting} >> {}", log.display()),
            _ => format!("echo {setting} >> {}; cat #", log.display()),
        };
        world.git(&["config", setting, &value]);
    }
    for event in ["reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
        world.git(&["config", "--add", "hook.x.event", event]);
    }
    for hook in ["post-checkout", "reference-transaction", "pre-commit", "pre-push"] {
        world
            .script(&format!("hooks/{hook}"), &format!("echo core.hooksPath >> {}", log.display()));
    }
    world.write(".git/info/attributes", "*.txt filter=x diff=x merge=x\n");
}

#[test]
fn git_starts_only_the_programs_that_ralph_needs() {
    let world = World::new();
    let log = world.directory.path().join("started");
    name_all_programs(&world, &log);
    let mut git = world.open();
    world.write("a.txt", "of the user\n");
    git.repository.list_dirty().expect("listed");
    git.set_aside(&mark(1).run).expect("set aside").expect("a ref");
    let checkpoint = git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("recorded");
    world.write("a.txt", "work\n");
    let seen = git.observe(&checkpoint, &[]).expect("observed").expect("a repository");
    let Checkpoint::Git { tree: Some(before), .. } = &checkpoint else { panic!("a tree") };
    git.diff_trees(before, &seen.tree, 1000).expect("a patch");
    git.replace_files(before, &|path| path == "a.txt").expect("replaced");
    world.write("a.txt", "work\n");
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    world.write("a.txt", "more\n");
    git.save_to_failure_branch(&failure_branch_order(2, &checkpoint)).expect("saved");
    git.repository().list_last_commits(5).expect("listed");
    git.restore_set_aside(&mark(1).run).expect("restored");
    // A clone whose configuration names programs as well.
    let (clone, commit) = merges::make_clone(&world, "s1");
    for (setting, _) in STARTED_BY_GIT.iter().filter(|(it, _)| *it != "core.hooksPath") {
        let value = format!("echo clone-{setting} >> {}; cat #", log.display());
        world.git_in(&clone, &["config", setting, &value]);
    }
    merges::fetch(&mut git, &clone, &commit);
    let onto = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("recorded");
    git.merge_candidate(&mark(3), &onto, &merges::candidate(&commit)).expect("merged");
    let started = fs::read_to_string(&log).unwrap_or_default();
    let started: BTreeSet<&str> = started.lines().collect();
    let allowed: BTreeSet<&str> = EXPECTED[1].1.iter().copied().collect();
    assert!(started.is_subset(&allowed), "{started:?}");
    assert!(!started.is_empty(), "the test sees programs");
}

#[test]
fn hooks_in_the_configuration_are_off_in_every_call() {
    let world = World::new();
    for name in ["lint", "a.b"] {
        world.git(&["config", &format!("hook.{name}.command"), "./evil.sh"]);
    }
    let git = world.open();
    for name in ["lint", "a.b"] {
        let key = format!("hook.{name}.enabled");
        let calls = [
            GitCommand::new_plumbing(&git.repository.top, &["config", &key]),
            GitCommand::new_user_call("git", &git.repository.top).with_args(["config", &key]),
        ];
        for call in calls {
            assert_eq!(git.repository.commands.run_for_line(call), Ok("false".to_owned()), "{key}");
        }
    }
}

#[test]
fn git_does_not_look_into_submodules_with_the_configuration_of_others() {
    let world = World::new();
    let module = world.directory.path().join("module");
    fs::create_dir(&module).expect("made");
    world.git_in(&module, &["init", "--quiet"]);
    fs::write(module.join("s.txt"), "s\n").expect("written");
    world.git_in(&module, &["add", "--all"]);
    world.git_in(&module, &["commit", "--quiet", "-m", "module"]);
    let (url, allow) = (module.to_str().expect("text"), "protocol.file.allow=always");
    world.git(&["-c", allow, "submodule", "--quiet", "add", "--", url, "sub"]);
    world.git(&["commit", "--quiet", "-m", "A submodule"]);
    let log = world.directory.path().join("started");
    let sub = world.at("sub");
    let filter = format!("echo filter >> {}; cat", log.display());
    world.git_in(&sub, &["config", "filter.x.clean", &filter]);
    fs::write(world.at(".git/modules/sub/info/attributes"), "* filter=x\n").expect("written");
    let mut git = world.open();
    let before = git.survey_tree().expect("surveyed").expect("a tree").tree;
    world.write("sub/s.txt", "changed\n");
    assert_eq!(git.survey_tree().expect("surveyed").expect("a tree").tree, before);
    assert!(!log.exists(), "git looked into the submodule");
    // The commit in it counts.
    world.git_in(&sub, &["commit", "--quiet", "--all", "-m", "Further"]);
    fs::remove_file(&log).expect("written by the commit");
    assert_ne!(git.survey_tree().expect("surveyed").expect("a tree").tree, before);
    // Another repository in its place does not.
    world.git_in(&sub, &["reset", "--quiet", "--hard", "HEAD~1"]);
    assert_eq!(git.survey_tree().expect("surveyed").expect("a tree").tree, before);
    let elsewhere = world.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    copy_directory(&world.at(".git/modules/sub"), &elsewhere);
    world.git_in(&sub, &["commit", "--quiet", "--allow-empty", "-m", "Elsewhere"]);
    world.write("sub/.git", &format!("gitdir: {}\n", elsewhere.display()));
    world.write("sub/s.txt", "changed again\n");
    let _ = fs::remove_file(&log);
    assert_eq!(git.survey_tree().expect("surveyed").expect("a tree").tree, before);
    assert!(!log.exists(), "git looked into the other repository");
}
