//! Kinds of repositories: worktrees, submodules, packages of a monorepo, hooks of frameworks, large
//! files, signatures.

use super::stage::ProjectStage;

const MAKEFILE: (&str, &str) =
    ("Makefile", "test:\n\tfor it in test_*.sh; do sh $$it || exit 1; done\n");
const FIRST_TEST: (&str, &str) = ("test_1.sh", "true\n");
const WORK: &str =
    "echo \"answer=$answer\" > answer.sh\necho '. ./answer.sh; test $answer = 42' > test_2.sh";

#[track_caller]
fn stage(what: &str, programs: &[&str], prepare: &str) -> Option<ProjectStage> {
    ProjectStage::new(what, &[&["make"], programs].concat(), &[MAKEFILE, FIRST_TEST], prepare)
}

#[test]
fn linked_worktree() {
    let Some(mut stage) = stage("worktree", &[], "git add -A; git commit --quiet -m Base") else {
        return;
    };
    stage.run_script("git worktree add --quiet -b feature ../tree");
    stage.directory = stage.sealed.root().join("tree");
    stage.build_one_task(&["make test"], WORK);
    assert_eq!(stage.run_script("git branch --show-current"), "feature\n");
    assert_eq!(stage.sealed.subjects(), ["Base", "Begin"], "the other branch is as it was");
}

#[test]
fn repository_with_a_submodule() {
    let prepare = "git init --quiet ../module; git -C ../module commit --quiet --allow-empty -m Module\n\
                   git -c protocol.file.allow=always submodule --quiet add -- $PWD/../module vendor-sub";
    let Some(stage) = stage("submodule", &[], prepare) else { return };
    stage.build_one_task(&["make test"], WORK);
    assert!(stage.run_script("git submodule status").starts_with(' '), "not moved");
}

#[test]
fn package_of_a_monorepo() {
    let prepare = "mkdir -p packages/shop; mv Makefile test_1.sh packages/shop\n\
                   echo 'shared=40' > shared.sh; echo '. ../../shared.sh; test $shared = 40' > packages/shop/test_0.sh";
    let Some(mut stage) = stage("monorepo", &[], prepare) else { return };
    stage.directory = stage.sealed.project_dir().join("packages/shop");
    // The counter of the agent is in the package.
    stage.run_script("sed -i s,^/calls,calls, ../../.gitignore");
    stage.build_one_task(&["make test"], WORK);
    let changed = stage.run_script("git show --name-only --format= HEAD");
    assert!(changed.lines().all(|it| it.starts_with("packages/shop/")), "{changed}");
}

#[test]
fn hooks_of_husky() {
    let prepare = "mkdir node_modules; cp -a $TOOLS/npm/node_modules/husky node_modules/\n\
                   echo '{ \"name\": \"shop\", \"private\": true }' > package.json\n\
                   node node_modules/husky/bin.js >/dev/null\n\
                   printf 'make test && echo ran > hook-ran\\n' > .husky/pre-commit; echo /hook-ran >> .gitignore";
    let Some(stage) = stage("husky", &["node", "pnpm"], prepare) else { return };
    stage.build_one_task(&["make test"], WORK);
    assert_eq!(stage.run_script("cat hook-ran"), "ran\n");
}

#[test]
fn hooks_of_pre_commit() {
    // A hook with an environment of its own, installed before.
    let prepare = "printf 'repos:\\n- repo: local\\n  hooks:\\n  - {id: check, name: check, language: python, \
                   entry: python -c \"import sys; print(sys.prefix)\", pass_filenames: false, verbose: true}\\n' \
                   > .pre-commit-config.yaml\n\
                   export PIP_NO_INDEX=1 PIP_FIND_LINKS=$TOOLS/wheels\n\
                   pre-commit install >/dev/null; pre-commit install-hooks >/dev/null";
    let Some(stage) = stage("pre-commit", &["pre-commit"], prepare) else { return };
    stage.build_one_task(&["make test"], WORK);
}

#[test]
fn large_files_in_lfs() {
    let prepare = "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null\n\
                   head -c 100000 /dev/zero > old.bin";
    let Some(stage) = stage("lfs", &["git-lfs"], prepare) else { return };
    stage.build_one_task(&["make test"], &format!("head -c 200000 /dev/zero > new.bin\n{WORK}"));
    let pointer = stage.run_script("git show HEAD:new.bin");
    assert!(pointer.starts_with("version https://git-lfs.github.com/spec/"), "{pointer}");
    assert_eq!(stage.run_script("wc -c < new.bin"), "200000\n");
    stage.run_script("git lfs fsck");
}

#[test]
fn commits_signed_with_an_ssh_key() {
    let prepare = "mkdir -m 700 ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519\n\
                   git config gpg.format ssh; git config user.signingKey ~/.ssh/id_ed25519.pub\n\
                   git config commit.gpgSign true";
    let Some(stage) = stage("ssh signatures", &["ssh-keygen"], prepare) else { return };
    stage.build_one_task(&["make test"], WORK);
    let commit = stage.run_script("git cat-file commit HEAD");
    assert!(commit.contains("BEGIN SSH SIGNATURE"), "{commit}");
}
