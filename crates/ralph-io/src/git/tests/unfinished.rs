//! Commits that were made when their run died, before they were reported.

use super::*;

/// What makes a commit another one, the subject that it has then, and how it is arranged.
type Case<'a> = (&'a str, &'a str, &'a dyn Fn(&World));

/// Commits a change of `a.txt` and leaves the index as it was before that, as a death does.
fn die_after_commit(world: &World) -> String {
    world.write("a.txt", "changed\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let index = fs::read(world.at(".git/index")).expect("readable");
    let commit = made(git.commit_tree(&order));
    fs::write(world.at(".git/index"), index).expect("written");
    assert_ne!(world.git(&["diff", "--cached", "--name-only"]), "", "the index lags behind");
    commit
}

#[test]
fn a_commit_is_finished() {
    const SIGN: &str = "echo '[GNUPG:] SIG_CREATED ' >&2; cat >/dev/null\n\
        printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nabc\\n-----END PGP SIGNATURE-----\\n'";
    let hook = |world: &World, name: &str, text: &str| {
        world.script(&format!(".git/hooks/{name}"), text);
    };
    let cases: [Case<'_>; 5] = [
        ("plain", "ralph: work", &|_| {}),
        ("with a trailer of a hook's", "ralph: work", &|world| {
            hook(world, "commit-msg", "git interpret-trailers --in-place --trailer 'Id: 7' \"$1\"");
        }),
        ("with a subject of a hook's", "[7] ralph: work", &|world| {
            hook(world, "commit-msg", "sed '1s/^/[7] /' \"$1\" >../m; cat ../m >\"$1\"");
        }),
        ("with a hook that prints and fails", "ralph: work", &|world| {
            hook(world, "post-commit", "echo too late; exit 1");
        }),
        ("signed, and shown so", "ralph: work", &|world| {
            hook(world, "gpg", SIGN);
            let program = world.at(".git/hooks/gpg");
            for (name, value) in [
                ("commit.gpgSign", "true"),
                ("log.showSignature", "true"),
                ("gpg.program", program.to_str().expect("text")),
            ] {
                world.git(&["config", name, value]);
            }
        }),
    ];
    for (what, subject, prepare) in cases {
        let world = World::new();
        prepare(&world);
        let commit = die_after_commit(&world);
        let found = world.open().finish_commit(&mark(1)).expect("looked at");
        assert_eq!(found, Some((CommitId(commit.clone()), subject.to_owned())), "{what}");
        assert_eq!(world.git(&["rev-parse", "HEAD"]), commit, "{what}");
        assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "", "{what}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{what}");
        let is_signed = world.git(&["cat-file", "commit", "HEAD"]).contains("\ngpgsig ");
        assert_eq!(is_signed, what.starts_with("signed"), "{what}");
    }
}

#[test]
fn changes_staged_in_between_survive_it() {
    let world = World::new();
    die_after_commit(&world);
    world.write("other.txt", "a person's\n");
    world.git(&["add", "other.txt"]);
    world.open().finish_commit(&mark(1)).expect("looked at").expect("found");
    assert_eq!(world.git(&["status", "--porcelain"]), "A  other.txt");
}

#[test]
fn a_commit_that_cannot_be_identified_is_not_taken_for_ours() {
    let world = World::new();
    world.script(".git/hooks/commit-msg", "echo 'all my own words' >\"$1\"");
    die_after_commit(&world);
    assert_eq!(world.open().finish_commit(&mark(1)), Ok(None));

    // Another program committed on top of it.
    let world = World::new();
    die_after_commit(&world);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "mine"]);
    assert_eq!(world.open().finish_commit(&mark(1)), Ok(None));

    // No commit was made at all, or one of another iteration.
    let world = World::new();
    assert_eq!(world.open().finish_commit(&mark(1)), Ok(None));
    die_after_commit(&world);
    assert_eq!(world.open().finish_commit(&mark(2)), Ok(None));
}

#[test]
fn a_commit_is_made_whatever_becomes_of_the_hook_after_it() {
    let opens: [fn(&World) -> GitVcs; 2] = [World::open, World::open_with_git_alone];
    for (open, hook) in opens.into_iter().zip(["kill -9 $PPID", "kill -15 $PPID; sleep 60"]) {
        let world = World::new();
        world.script(".git/hooks/post-commit", hook);
        world.write("a.txt", "changed\n");
        let mut git = open(&world);
        let order = order_for(1, &mut git);
        let commit = made(git.commit_tree(&order));
        assert_eq!(commit, world.git(&["rev-parse", "HEAD"]), "{hook}");
        assert_eq!(world.git(&["log", "-1", "--format=%s"]), "ralph: work", "{hook}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{hook}");
    }
}

#[test]
fn a_commit_whose_hook_died_is_not_made() {
    let world = World::new();
    world.script(".git/hooks/commit-msg", "kill -9 $PPID");
    world.write("a.txt", "changed\n");
    let mut git = world.open();
    let order = order_for(1, &mut git);
    let refused = git.commit_tree(&order);
    assert!(matches!(refused, Ok(CommitResult::MessageRefused { .. })), "{refused:?}");
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]), "1");
}
