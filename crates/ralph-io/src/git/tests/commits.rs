//! Commits, and what they leave of the user's index.

use std::time::Duration;

use super::super::command::PATIENCE;
use super::super::head::HeadState;
use super::*;

#[test]
fn a_commit_has_the_surveyed_tree_and_the_trailers() {
    let world = World::new();
    world.write("a.txt", "changed\n");
    world.remove("dir/b.txt");
    world.write("new.txt", "new\n");
    world.write(".ralph/state.json", "runtime\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    // What changes after the survey was not checked, and is not committed.
    world.write("a.txt", "changed again\n");
    let commit = made(git.commit_tree(&order));
    assert_eq!(commit, world.git(&["rev-parse", "HEAD"]));
    let TreeId(tree) = order.tree.clone().expect("a tree");
    assert_eq!(world.git(&["rev-parse", "HEAD^{tree}"]), tree);
    expect_test::expect![[r"
        User <user@example.com>
        ralph: work

        Ralph-Run: 20261114-231500-k3f9
        Ralph-Iteration: 1"]]
    .assert_eq(&world.git(&["log", "-1", "--format=%an <%ae>%n%B"]));
    assert_eq!(world.git(&["diff", "--cached"]), "");
    assert_eq!(world.git(&["status", "--porcelain"]), " M a.txt\n?? .ralph/");
    // Asked again after a crash, it is not done twice.
    assert_eq!(made(world.open().commit_tree(&order)), commit);
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(world.ralphs_refs(), Vec::<String>::new());
}

#[test]
fn a_branch_is_moved_as_git_moves_it() {
    let world = World::new();
    let [first, tree, branch] =
        [&["HEAD"][..], &["HEAD^{tree}"], &["--symbolic-full-name", "HEAD"]]
            .map(|args| world.git(&[&["rev-parse"][..], args].concat()));
    let next = world.git(&["commit-tree", &tree, "-p", &first, "-m", "Next"]);
    let repository = world.repository();
    let head = repository.head().expect("read");
    let back = HeadState { commit: Some(next.clone()), ..head.clone() };
    assert!(repository.move_branch(&head, &next, "commit: Next\twith  spaces"));
    assert_eq!(world.git(&["rev-parse", "HEAD", &branch]), format!("{next}\n{next}"));
    for log in ["HEAD", &branch] {
        let last = world.git(&["reflog", "-1", "--format=%H %gn <%ge> %gs", log]);
        assert_eq!(last, format!("{next} User <user@example.com> commit: Next with spaces"));
    }
    assert!(!repository.move_branch(&head, &first, "from elsewhere"));
    for lock in ["HEAD.lock", &format!("{branch}.lock")] {
        let lock = world.at(".git").join(lock);
        fs::write(&lock, "").expect("written");
        assert!(!repository.move_branch(&back, &first, "while another git works"));
        fs::remove_file(&lock).expect("it is still there");
    }
    assert_eq!(world.git(&["rev-parse", "HEAD"]), next);
    world.git(&["pack-refs", "--all"]);
    assert!(repository.move_branch(&back, &first, "back"));
    assert_eq!(world.git(&["rev-parse", "HEAD", "HEAD@{1}"]), format!("{first}\n{next}"));
    world.git(&["checkout", "--quiet", "--detach"]);
    assert!(!repository.move_branch(&head, &next, "detached"));
    world.git(&["fsck", "--strict"]);
}

#[test]
fn a_commit_without_git_is_the_one_that_git_makes() {
    let world = World::new();
    let repository = world.repository();
    let tree = world.git(&["rev-parse", "HEAD^{tree}"]);
    let head = world.git(&["rev-parse", "HEAD"]);
    for (parent, message) in [(Some(&*head), "ralph: work\n\nRalph-Run: x"), (None, "Grüße\n")] {
        // Both may fall into different seconds, though hardly three times.
        let pair = || {
            let ours = repository.write_plain_commit(&tree, parent, message).expect("written");
            let parents = parent.map(|it| ["-p", it]);
            let mut args = vec!["commit-tree", &tree, "-m", message.trim_end()];
            args.extend(parents.iter().flatten());
            (ours, world.git(&args))
        };
        let is_same = (0..3).map(|_| pair()).any(|(ours, gits)| ours == gits);
        let (ours, gits) = pair();
        let show = |id: &str| world.git(&["cat-file", "-p", id]);
        assert!(is_same, "{}\n---\n{}", show(&ours), show(&gits));
    }
    world.git(&["fsck", "--strict"]);
    let missing = "1".repeat(40);
    assert_eq!(repository.write_plain_commit(&missing, None, "x"), None);
    world.git(&["config", "i18n.commitEncoding", "latin1"]);
    assert_eq!(world.repository().write_plain_commit(&tree, None, "x"), None);
}

#[test]
fn trailers_of_an_agents_making_are_not_taken_for_ours() {
    let world = World::new();
    let mut git = world.open();
    let forged = "done\n\nRalph-Run: 20261114-231500-k3f9\nRalph-Iteration: 1";
    world.git(&["commit", "--quiet", "--allow-empty", "-m", forged]);
    world.write("a.txt", "changed\n");
    let order = order_for(1, &mut git);
    let commit = made(git.commit_tree(&order));
    assert_eq!(world.git(&["rev-parse", "HEAD^{tree}"]), order.tree.expect("a tree").0);
    assert_eq!(commit, world.git(&["rev-parse", "HEAD"]));
}

#[test]
fn staged_changes_stay_or_are_kept_on_a_ref() {
    let world = World::new();
    world.write("same.txt", "staged\n");
    world.write("differs.txt", "staged\n");
    world.write("reverted.txt", "committed\n");
    world.git(&["add", "reverted.txt"]);
    world.git(&["commit", "--quiet", "-m", "second"]);
    world.write("reverted.txt", "staged\n");
    world.git(&["add", "--all"]);
    world.write("reverted.txt", "committed\n");
    world.write("differs.txt", "in the work tree\n");
    let mut git = world.open();
    let order = order_for(7, &mut git);
    made(git.commit_tree(&order));
    // The commit passed `differs.txt` over as it was staged, so that is kept; `reverted.txt` is
    // staged as before.
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "reverted.txt");
    let kept = format!("refs/ralph/kept/{}/7-index", mark(7).run);
    assert_eq!(world.ralphs_refs(), std::slice::from_ref(&kept));
    assert_eq!(world.git(&["show", &format!("{kept}:differs.txt")]), "staged");
}

#[test]
fn changes_staged_after_our_commit_are_seen_at_the_next() {
    let world = World::new();
    let mut git = world.open();
    for iteration in 1..=2 {
        world.write("a.txt", &format!("changed {iteration}\n"));
        let order = order_for(iteration, &mut git);
        made(git.commit_tree(&order));
    }
    world.write("a.txt", "changed once more\n");
    let order = order_for(3, &mut git);
    world.write("late.txt", "staged\n");
    world.git(&["add", "late.txt"]);
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "late.txt");
    world.write("late.txt", "in the work tree\n");
    let order = order_for(4, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    let kept = format!("refs/ralph/kept/{}/4-index:late.txt", mark(4).run);
    assert_eq!(world.git(&["show", &kept]), "staged");
}

#[test]
fn an_index_in_which_the_agent_added_everything_is_left_alone() {
    let world = World::new();
    world.write("a.txt", "changed\n");
    world.git(&["add", "--all"]);
    let before = fs::read(world.at(".git/index")).expect("readable");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(fs::read(world.at(".git/index")).expect("readable"), before);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn runtime_files_that_an_agent_staged_are_not_committed() {
    let world = World::new();
    world.write(".ralph/state.json", "runtime\n");
    world.write(".ralph/settings.json", "mine\n");
    world.git(&["add", "--all"]);
    let mut git = world.open();
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    let committed = world.git(&["ls-tree", "-r", "--name-only", "HEAD", ".ralph/"]);
    assert_eq!(committed, ".ralph/settings.json");
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), ".ralph/state.json");
}

#[test]
fn nothing_to_commit_is_not_an_error() {
    let world = World::new();
    world.write(".ralph/state.json", "runtime\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    assert_eq!(git.commit_tree(&order), Ok(CommitResult::Nothing));
}

#[test]
fn hooks_run_and_may_refuse() {
    for hook in ["prepare-commit-msg", "commit-msg"] {
        let world = World::new();
        world.script(
            &format!(".git/hooks/{hook}"),
            "echo 'not \u{1b}[31mgood\u{1b}[0m enough' >&2; exit 3",
        );
        world.write("a.txt", "changed\n");
        let before = world.users();
        let mut git = world.open();
        let order = order_for(1, &mut git);
        match git.commit_tree(&order) {
            Ok(CommitResult::MessageRefused { output }) => {
                assert!(output.contains("not good enough"), "{hook}: {output}");
            }
            other => unreachable!("{hook}: {other:?}"),
        }
        assert_eq!(world.users(), before, "{hook}");
        // Once fixed, the same order succeeds.
        world.remove(format!(".git/hooks/{hook}"));
        made(git.commit_tree(&order));
    }
}

#[test]
fn the_hook_before_a_commit_sees_the_tree_in_its_index_and_may_refuse() {
    let world = World::new();
    world.script(
        ".git/hooks/pre-commit",
        "git diff --cached --name-only; git diff --name-only; test \"$GIT_EDITOR\" = : && exit 3",
    );
    let mut git = world.open();
    world.write("a.txt", "changed\n");
    let tree = git.survey_tree().expect("surveyed").expect("a repository").tree;
    let before = world.users();
    let refused = HookResult::Refused { output: "a.txt".into() };
    assert_eq!(git.run_commit_hook(&tree), Ok(refused));
    assert_eq!(world.users(), before);
    world.script(".git/hooks/pre-commit", "echo formatted >a.txt; git add a.txt");
    assert_eq!(git.run_commit_hook(&tree), Ok(HookResult::Passed));
    assert_eq!(fs::read_to_string(world.at("a.txt")).expect("readable"), "formatted\n");
    assert_eq!(world.users().index, before.index, "the index of the user is not the hook's");
    world.remove(".git/hooks/pre-commit");
    assert_eq!(git.run_commit_hook(&tree), Ok(HookResult::Absent));
    // What is committed is what was ordered, whatever a hook did to the work tree.
    let order = order_for(1, &mut git);
    world.script(".git/hooks/commit-msg", "echo late >a.txt; git add a.txt");
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["show", "HEAD:a.txt"]), "formatted");
}

#[test]
fn a_hook_that_does_not_end_is_ended_at_its_limit() {
    assert_eq!(PATIENCE, Duration::from_secs(600), "docs/run.md says ten minutes");
    let world = World::new();
    for hook in ["pre-commit", "commit-msg"] {
        world.script(&format!(".git/hooks/{hook}"), "echo begun; exec sleep 600");
    }
    let mut git = world.open();
    git.repository.commands = git.repository.commands.clone().with_patience(Duration::from_secs(1));
    let limit =
        |output: &str| output.contains("begun") && output.contains("hook took longer than 1.0s");
    let tree = git.survey_tree().expect("surveyed").expect("a repository").tree;
    match git.run_commit_hook(&tree) {
        Ok(HookResult::Refused { output }) => assert!(limit(&output), "{output}"),
        other => unreachable!("{other:?}"),
    }
    match git.test_commit_hooks(&mark(1), Some("ralph: work")) {
        Ok(HookTrial::MessageRefused { output }) => assert!(limit(&output), "{output}"),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn hooks_are_tried_on_head() {
    let world = World::new();
    let mut git = world.open();
    assert_eq!(git.test_commit_hooks(&mark(1), Some("ralph: work")), Ok(HookTrial::Passed));
    world.write("a.txt", "the user's\n");
    world.script(".git/hooks/pre-commit", "git diff --cached --name-only; exit 1");
    let output = "the pre-commit hook ended with exit code 1 and no output".to_owned();
    let branch = Some("main".into());
    let refused = HookTrial::CommitRefused { output, branch };
    assert_eq!(git.test_commit_hooks(&mark(1), Some("ralph: work")), Ok(refused));
    world.script(".git/hooks/commit-msg", "head -n 1 \"$1\"; exit 1");
    let refused = HookTrial::MessageRefused { output: "ralph: work".into() };
    assert_eq!(git.test_commit_hooks(&mark(1), Some("ralph: work")), Ok(refused));
    assert_eq!(fs::read_to_string(world.at("a.txt")).expect("readable"), "the user's\n");
}

#[test]
fn a_missing_identity_is_an_error_with_gits_message() {
    let mut world = World::new();
    world.env.retain(|(name, _)| !name.to_string_lossy().contains("_EMAIL"));
    world.git(&["config", "user.useConfigOnly", "true"]);
    world.write("a.txt", "changed\n");
    let mut git = world.open();
    git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("needs no identity");
    let order = order_for(1, &mut git);
    let error = git.commit_tree(&order).expect_err("refused").to_string();
    assert!(error.contains("git commit-tree` failed (exit code 128)"), "{error}");
    let error = world.repository().check_identity().expect_err("no address").to_string();
    assert!(error.contains("git does not know who commits here"), "{error}");
    assert!(error.contains("hint: run `git config user.name`"), "{error}");
    assert!(error.contains("hint: run `git config user.name`"), "{error}");
}

#[test]
fn the_first_commit_and_a_detached_head_work() {
    let world = World::empty();
    world.write("a.txt", "a\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let first = made(git.commit_tree(&order));
    assert_eq!(made(world.open().commit_tree(&order)), first);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    world.git(&["checkout", "--quiet", "--detach"]);
    world.write("a.txt", "b\n");
    let order = order_for(2, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(world.git(&["rev-list", "--count", "main"]), "1");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_linked_work_tree_has_its_own_index() {
    let world = World::new();
    let linked = world.directory.path().join("linked");
    world.git(&["worktree", "add", "--quiet", linked.to_str().expect("text")]);
    fs::write(linked.join("a.txt"), "linked\n").expect("written");
    let before = world.users();
    let mut git = GitVcs::new(world.repository_of(&linked), world.directory.path().join("run"));
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(world.git_in(&linked, &["status", "--porcelain"]), "");
    let after = world.users();
    assert_eq!((after.index, after.files, after.head), (before.index, before.files, before.head));
}

#[test]
fn a_lock_of_another_git_is_named_with_a_remedy() {
    let world = World::new();
    world.write("a.txt", "changed\n");
    world.write(".git/index.lock", "");
    // A leftover of our own is not in the way.
    fs::write(world.directory.path().join("run/index.lock"), "").expect("written");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let error = git.commit_tree(&order).expect_err("refused").to_string();
    assert!(error.contains("index.lock': File exists"), "{error}");
    assert!(error.contains("hint: another git program is at work"), "{error}");
    // The commit was made; once the lock is gone, the index follows.
    world.remove(".git/index.lock");
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_message_is_taken_as_it_is() {
    let world = World::new();
    let mut git = world.open();
    for (iteration, message) in [
        (1, "# not a comment\n\nbody\n\nCo-Authored-By: A <a@example.com>"),
        (2, "-m 'quotes' $HOME ä"),
    ] {
        world.write("a.txt", message);
        let order = CommitOrder { message: message.into(), ..order_for(iteration, &mut git) };
        made(git.commit_tree(&order));
        let written = world.git(&["log", "-1", "--format=%B"]);
        assert!(written.starts_with(message), "{written}");
    }
    world.write("a.txt", "again\n");
    let order = CommitOrder { message: " \n".into(), ..order_for(3, &mut git) };
    git.commit_tree(&order).expect_err("empty");
}

#[test]
fn other_programs_commit_in_their_own_way() {
    let world = World::new();
    world.script("hg", "echo \"$@\" >said; exit 0");
    let mut git = world.open();
    let order = CommitOrder {
        mark: mark(1),
        message: "work".into(),
        tree: None,
        expected_head: None,
        command: world.at("hg").to_str().expect("text").into(),
    };
    made(git.commit_tree(&order));
    assert_eq!(fs::read_to_string(world.at("said")).expect("written"), "commit -m work\n");
}

#[test]
fn a_failed_push_reports_why() {
    let world = World::new();
    let mut git = world.open();
    let push = ["push", "nowhere", "main"].map(str::to_owned);
    let ScmResult::Failed { output } = git.run_scm("git", &push).expect("ran") else {
        unreachable!("there is no such remote");
    };
    assert!(output.contains("'nowhere' does not appear to be a git repository"), "{output}");
    assert_eq!(git.run_scm("git", &["status".to_owned()]), Ok(ScmResult::Done));
}

#[test]
fn a_commit_by_git_alone_is_the_one_that_was_ordered() {
    let world = World::new();
    let mut git = world.open_with_git_alone();
    for iteration in 1..=2 {
        world.write("a.txt", &format!("{iteration}\n"));
        let checkpoint =
            git.create_checkpoint(&mark(iteration), CheckpointDepth::Tree).expect("noted");
        world.write("dir/b.txt", &format!("{iteration}\n"));
        let order = order_for(iteration, &mut git);
        let commit = made(git.commit_tree(&order));
        assert_eq!(commit, world.git(&["rev-parse", "HEAD"]));
        assert_eq!(world.git(&["status", "--porcelain"]), "");
        let survey = git.survey_tree().expect("surveyed").expect("a repository");
        assert_eq!(survey.tree.0, world.git(&["rev-parse", "HEAD^{tree}"]));
        assert_eq!(survey.changes, TreeDiff::Clean);
        let name = format!("refs/ralph/checkpoints/{}/{iteration}", mark(1).run);
        let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = checkpoint else {
            unreachable!("a tree in {checkpoint:?}");
        };
        assert_eq!(world.git(&["rev-parse", &format!("{name}^{{tree}}")]), tree);
    }
}

#[test]
fn an_index_without_a_sum_does_not_become_the_users() {
    let world = World::new();
    let mut git = world.open();
    let index = world.at(".git/index");
    for (iteration, skips, has_sum) in [(1, "false", true), (2, "true", false)] {
        world.git(&["config", "index.skipHash", skips]);
        world.git(&["update-index", "--force-write-index"]);
        world.write("a.txt", skips);
        let order = order_for(iteration, &mut git);
        let call = git.repository.build_plumbing(&["update-index", "--force-write-index"]);
        let call = call.with_setting("index.skipHash=true").with_index(git.shadow.index_path());
        git.repository.commands.run_for_output(call).expect("written");
        assert!(!shadow::has_checksum(git.shadow.index_path()).expect("readable"), "{skips}");
        made(git.commit_tree(&order));
        assert_eq!(shadow::has_checksum(&index).ok(), Some(has_sum), "{skips}");
        assert_eq!(world.git(&["diff", "--cached"]), "");
        assert_eq!(world.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn commits_of_others_since_the_survey_are_not_undone() {
    let world = World::new();
    world.write("a.txt", "changed\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let before = world.git(&["rev-parse", "HEAD"]);
    world.write("mine.txt", "a person's\n");
    world.git(&["add", "mine.txt"]);
    world.git(&["commit", "--quiet", "-m", "mine", "--", "mine.txt"]);
    let moved = git.commit_tree(&order);
    assert!(matches!(moved, Ok(CommitResult::Moved { .. })), "{moved:?}");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "mine");
    // As a part of the work it is looked at, and committed with it.
    world.git(&["reset", "--quiet", "--soft", &before]);
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["show", "HEAD:mine.txt"]), "a person's");

    world.write("a.txt", "changed again\n");
    let order = order_for(2, &mut git);
    world.git(&["switch", "--quiet", "-c", "other"]);
    let moved = match git.commit_tree(&order) {
        Ok(CommitResult::Moved { now, .. }) => now.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(moved.starts_with("other at "), "{moved}");
}

/// Writes a program that signs as gpg does, unless there is a file next to the project.
fn signer(world: &World) -> String {
    world.script(
        ".git/gpg",
        "test -e ../locked && { echo no secret key >&2; exit 2; }\n\
         echo '[GNUPG:] SIG_CREATED ' >&2; cat >/dev/null\n\
         printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nabc\\n-----END PGP SIGNATURE-----\\n'",
    );
    let program = world.at(".git/gpg");
    world.git(&["config", "commit.gpgSign", "true"]);
    world.git(&["config", "gpg.program", program.to_str().expect("text")]);
    program.to_str().expect("text").to_owned()
}

#[test]
fn a_commit_that_cannot_be_signed_is_not_made_and_can_be_made_later() {
    let world = World::new();
    signer(&world);
    world.repository().check_identity().expect("it signs");
    let locked = world.directory.path().join("locked");
    fs::write(&locked, "").expect("written");
    let error = world.repository().check_identity().expect_err("locked").to_string();
    assert!(error.contains("could not be signed"), "{error}");
    world.write("a.txt", "changed\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let error = git.commit_tree(&order).expect_err("locked").to_string();
    assert!(error.contains("no secret key"), "{error}");
    assert!(error.contains("hint: "), "{error}");
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]), "1");
    fs::remove_file(locked).expect("removed");
    made(git.commit_tree(&order));
    assert!(world.git(&["cat-file", "commit", "HEAD"]).contains("\ngpgsig "));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_included_file_of_the_work_tree_cannot_name_another_program_that_signs() {
    let world = World::new();
    signer(&world);
    world.write("team.gitconfig", "[core]\n");
    world.git(&["config", "include.path", "../team.gitconfig"]);
    world.git(&["add", "--all"]);
    world.git(&["-c", "commit.gpgSign=false", "commit", "--quiet", "-m", "second"]);
    let mut git = world.open();
    git.create_checkpoint(&mark(1), CheckpointDepth::Tree).expect("noted");
    world.script("evil", "touch ../evil-ran; exit 1");
    world.write("team.gitconfig", "[gpg]\n\tprogram = ./evil\n[core]\n\thooksPath = .\n");
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert!(!world.directory.path().join("evil-ran").exists());
    assert!(world.git(&["cat-file", "commit", "HEAD"]).contains("\ngpgsig "));
}

#[test]
fn a_merge_in_progress_is_concluded() {
    let world = World::new();
    world.git(&["switch", "--quiet", "-c", "other"]);
    world.write("dir/b.txt", "other\n");
    world.git(&["commit", "--quiet", "--all", "-m", "other"]);
    world.git(&["switch", "--quiet", "main"]);
    world.write("a.txt", "main\n");
    world.git(&["commit", "--quiet", "--all", "-m", "main"]);
    world.git(&["merge", "--quiet", "--no-commit", "other"]);
    let mut git = world.open();
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    assert_eq!(world.git(&["log", "-1", "--format=%P"]).split(' ').count(), 2);
    assert_eq!(world.repository().operation(), None);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    let note = world.git(&["reflog", "-1", "--format=%gs"]);
    assert_eq!(note, "commit (merge): ralph: work");
}

#[test]
fn a_hook_without_a_shebang_and_one_in_another_directory_are_run() {
    let world = World::new();
    world.git(&["config", "core.hooksPath", "tools/hooks"]);
    world.write("tools/hooks/commit-msg", "echo \"$GIT_AUTHOR_EMAIL\" >> \"$1\"\n");
    let hook = world.at("tools/hooks/commit-msg");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).expect("set");
    // A file that is not executable is no hook.
    world.write("tools/hooks/pre-commit", "exit 1\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    made(git.commit_tree(&order));
    let message = world.git(&["log", "-1", "--format=%B"]);
    assert!(message.ends_with("\nuser@example.com"), "{message}");
}
