//! What is shown of the history.

use ralph_model::units::Timestamp;

use super::*;

fn commit(world: &mut World, message: &str, seconds: &str) {
    world.env.push(("GIT_COMMITTER_DATE".into(), format!("{seconds} +0200").into()));
    world.git(&["commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", message]);
    world.env.pop();
}

fn subjects(world: &World, count: u32) -> Vec<String> {
    let lines = world.repository().list_last_commits(count).expect("listed");
    lines.into_iter().map(|line| line.subject).collect()
}

#[test]
fn commits_are_listed_newest_first() {
    let mut world = World::empty();
    assert_eq!(world.repository().list_last_commits(5), Ok(Vec::new()));
    commit(&mut world, "one\n\nbody", "1700000001");
    commit(&mut world, "two\nlines", "1700000002");
    commit(&mut world, "", "1700000003");
    let id = |revision: &str| world.git(&["rev-parse", "--short=9", revision]);
    let line = |revision: &str, seconds, subject: &str| CommitSummary {
        id: id(revision),
        at: Timestamp::from_seconds(seconds),
        subject: subject.to_owned(),
    };
    let expect = [
        line("HEAD", 1_700_000_003, ""),
        line("HEAD~1", 1_700_000_002, "two lines"),
        line("HEAD~2", 1_700_000_001, "one"),
    ];
    let repository = world.repository();
    assert_eq!(repository.list_last_commits(5).expect("listed"), expect);
    assert_eq!(repository.list_last_commits(2).expect("listed"), expect[..2]);
    assert_eq!(repository.list_last_commits(0).expect("listed"), []);
    world.git(&["checkout", "--quiet", "--detach", "HEAD~1"]);
    assert_eq!(world.repository().list_last_commits(5).expect("listed"), expect[1..]);
}

#[test]
fn subjects_are_read_in_the_reflog_where_it_has_all_of_them() {
    let mut world = World::empty();
    for (message, seconds) in [("one\n\nbody", "1700000001"), ("two", "1700000002")] {
        commit(&mut world, message, seconds);
    }
    let forge = |world: &World, old: &str, new: &str, message: &str| {
        let line = format!("{old} {new} A <a@example.org> 1700000009 +0000\t{message}\n");
        let log = world.at(".git/logs/HEAD");
        let known = fs::read_to_string(&log).expect("read");
        fs::write(&log, known + &line).expect("written");
    };
    let [one, two] = ["HEAD~1", "HEAD"].map(|it| world.git(&["rev-parse", it]));
    // What the reflog says, not git.
    let log = fs::read_to_string(world.at(".git/logs/HEAD")).expect("read");
    world.write(".git/logs/HEAD", &log.replace("commit: two", "commit: two of the reflog"));
    assert_eq!(world.repository().list_last_subjects(5), ["two of the reflog", "one"]);
    assert_eq!(world.repository().list_last_subjects(1), ["two of the reflog"]);
    forge(&world, &one, &two, "commit: a forged one");
    assert_eq!(world.repository().list_last_subjects(5), ["two", "one"]);
    commit(&mut world, "three", "1700000003");
    world.git(&["commit", "--quiet", "--amend", "--allow-empty", "-m", "3"]);
    assert_eq!(world.repository().list_last_subjects(5), ["3", "two", "one"]);
    fs::remove_file(world.at(".git/logs/HEAD")).expect("removed");
    assert_eq!(world.repository().list_last_subjects(5), ["3", "two", "one"]);
}

#[test]
fn settings_of_the_user_change_nothing() {
    let world = World::new();
    world.write("a.txt", "more\n");
    world.git(&["commit", "--quiet", "-am", "grüße"]);
    let before = world.repository().list_last_commits(5).expect("listed");
    assert_eq!(subjects(&world, 5), ["grüße", "first"]);
    world.script(".git/spy", "touch \"$(dirname \"$0\")/spied\"; cat");
    let spy = world.at(".git/spy").to_string_lossy().into_owned();
    world.git(&["notes", "add", "-m", "a note"]);
    for (name, value) in [
        ("log.showSignature", "true"),
        ("gpg.program", &spy),
        ("core.pager", &spy),
        ("pager.log", &spy),
        ("diff.external", &spy),
        ("color.ui", "always"),
        ("core.abbrev", "40"),
        ("format.pretty", "fuller"),
        ("format.notes", "true"),
        ("log.decorate", "full"),
        ("log.diffMerges", "on"),
        ("i18n.logOutputEncoding", "ISO-8859-1"),
    ] {
        world.git(&["config", name, value]);
    }
    assert_eq!(world.repository().list_last_commits(5), Ok(before));
    assert!(!world.at(".git/spied").exists());
}

#[test]
fn hostile_subjects_are_bounded() {
    let mut world = World::empty();
    commit(&mut world, "\u{1b}[31mred\tand\u{7}more", "1700000001");
    commit(&mut world, &"long ".repeat(20_000), "1700000002");
    let shown = subjects(&world, 5);
    assert_eq!(shown[0].chars().count(), 500, "{}", shown[0]);
    assert_eq!(shown[1], "\u{1b}[31mred\tand\u{7}more");
}

#[test]
fn a_repository_that_is_gone_is_an_error() {
    let world = World::new();
    let repository = world.repository();
    fs::remove_dir_all(world.at(".git")).expect("removed");
    let error = repository.list_last_commits(5).expect_err("refused").to_string();
    assert!(error.contains("not a git repository"), "{error}");
}
