//! `ralph init`: the documents and settings of a workflow.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use expect_test::expect;
use ralph_testkit::sealed::{Finished, Sealed};

use crate::{repository, sealed};

const DOCUMENTS: [&str; 4] =
    ["ralph/prd.md", "ralph/tasks.json", "ralph/progress.txt", "ralph/prompt.md"];

fn init(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.ralph(&[&["init", "--workflow", "tasks"], words].concat())
}

#[test]
fn a_fresh_project_gets_everything() {
    let sealed = repository();
    sealed.write("Cargo.toml", "[package]\nname = \"x\"\n");
    let end = init(&sealed, &["--name", "Search in notes"]).expect_code(0);
    expect![[r#"
        wrote   ralph/prd.md
        wrote   ralph/tasks.json
        wrote   ralph/progress.txt
        wrote   ralph/prompt.md
        wrote   .ralph/settings.json
        wrote   .ralph/schema.json
        added   /ralph/*.bak to .gitignore

        After every story these must succeed: cargo test

        Next:
          1. Write down in ralph/prd.md what is to be built.
          2. Name your agent in .ralph/settings.json: "agent": { "command": "claude" }
          3. ralph plan     cuts it into stories
          4. ralph build    does them, one verified commit at a time
    "#]]
    .assert_eq(&end.stdout);
    expect![[r#"
        {
          "project": "Search in notes",
          "branchName": "ralph/search-in-notes",
          "description": "",
          "verifyCommands": ["cargo test"],
          "userStories": []
        }
    "#]]
    .assert_eq(&sealed.read("ralph/tasks.json"));
    assert!(sealed.read("ralph/prd.md").starts_with("# Search in notes\n"));
    let progress = sealed.read("ralph/progress.txt");
    assert!(progress.contains("\nPRD: Search in notes\n"), "{progress}");
    assert!(progress.contains("\nStarted: 20"), "{progress}");
    assert!(progress.contains("\n## Codebase Patterns\n\n---\n"), "{progress}");
    assert_eq!(sealed.read(".gitignore"), "/ralph/*.bak\n");
    let mode = |path: &str| fs::metadata(sealed.project().join(path)).expect("there").permissions();
    assert_eq!(mode("ralph/prd.md").mode() & 0o600, 0o600);
    // What was written can be used at once.
    sealed.ralph(&["tasks", "validate"]).expect_code(0);
    sealed.ralph(&["tasks", "add", "A title", "--criterion", "It is there"]).expect_code(0);
    sealed.ralph(&["doctor"]).expect_code(4);
    let ignored = sealed.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!ignored.contains(".bak"), "{ignored}");
}

#[test]
fn the_schema_is_the_one_that_settings_name() {
    let sealed = sealed();
    init(&sealed, &["--name", "x"]).expect_code(0);
    let printed = sealed.ralph(&["init", "--print-schema"]).expect_code(0).stdout;
    assert_eq!(sealed.read(".ralph/schema.json"), printed);
    assert!(sealed.read(".ralph/settings.json").contains("\"$schema\": \"./schema.json\""));
    assert!(!sealed.project().join(".gitignore").exists(), "there is no repository");
}

#[test]
fn what_is_there_is_kept_and_said() {
    let sealed = repository();
    sealed.write("ralph/prd.md", "# Mine\n");
    sealed.write(".gitignore", "/target");
    sealed.write(".ralph/settings.json", "{ \"agent\": { \"command\": \"claude\" } }\n");
    let end = init(&sealed, &["--name", "x"]).expect_code(0);
    for line in
        ["kept    ralph/prd.md\n", "kept    .ralph/settings.json\n", "--force", "\"workflow\""]
    {
        assert!(end.stdout.contains(line), "{}", end.stdout);
    }
    assert_eq!(sealed.read("ralph/prd.md"), "# Mine\n");
    assert_eq!(sealed.read(".gitignore"), "/target\n/ralph/*.bak\n");
    assert!(!end.stdout.contains("Name your agent"), "{}", end.stdout);
    let before: Vec<String> = DOCUMENTS.map(|path| sealed.read(path)).into();
    let again = init(&sealed, &["--name", "other"]).expect_code(0);
    assert!(!again.stdout.contains("wrote"), "{}", again.stdout);
    assert_eq!(DOCUMENTS.map(|path| sealed.read(path)).to_vec(), before);
    assert_eq!(sealed.read(".gitignore"), "/target\n/ralph/*.bak\n");
}

#[test]
fn force_keeps_the_old_ones_beside() {
    let sealed = repository();
    init(&sealed, &["--name", "First"]).expect_code(0);
    sealed.write("ralph/prd.md", "Mine, first.\n");
    init(&sealed, &["--name", "Second", "--force"]).expect_code(0);
    assert_eq!(sealed.read("ralph/prd.md.bak"), "Mine, first.\n");
    assert!(sealed.read("ralph/tasks.json").contains("ralph/second"));
    assert!(!sealed.project().join("ralph/tasks.json.bak").exists(), "nobody wrote into that one");
    sealed.write("ralph/prd.md", "Mine, second.\n");
    let end = init(&sealed, &["--name", "Third", "--force"]).expect_code(0);
    assert!(end.stdout.contains("the old one is ralph/prd.md.2.bak"), "{}", end.stdout);
    assert_eq!(sealed.read("ralph/prd.md.bak"), "Mine, first.\n");
    assert_eq!(sealed.read("ralph/prd.md.2.bak"), "Mine, second.\n");
}

#[test]
fn without_a_name_the_directory_gives_it() {
    let sealed = sealed();
    init(&sealed, &[]).expect_code(0);
    assert!(sealed.read("ralph/tasks.json").contains("\"branchName\": \"ralph/project\""));
}

#[test]
fn silly_names_write_nothing() {
    for name in ["", "  ", "?!", "a\nb", &"x".repeat(300)] {
        let sealed = sealed();
        init(&sealed, &["--name", name]).expect_code(2).expect_stderr("--name");
        assert_eq!(fs::read_dir(sealed.project()).expect("readable").count(), 0, "{name:?}");
    }
}

#[test]
fn odd_places_are_refused() {
    let sealed = sealed();
    sealed.write("ralph", "a file");
    init(&sealed, &["--name", "x"])
        .expect_code(2)
        .expect_stderr("is a file, and must be a directory");
    assert_eq!(sealed.read("ralph"), "a file");

    fs::remove_file(sealed.project().join("ralph")).expect("removed");
    fs::create_dir(sealed.root().join("elsewhere")).expect("a directory");
    symlink(sealed.root().join("elsewhere"), sealed.project().join("ralph")).expect("a link");
    init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr("is a link");
    let through = fs::read_dir(sealed.root().join("elsewhere")).expect("readable").count();
    assert_eq!(through, 0);

    fs::remove_file(sealed.project().join("ralph")).expect("removed");
    fs::remove_dir_all(sealed.project().join(".ralph")).expect("removed");
    sealed.write(".ralph", "a file");
    init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr(".ralph");
    assert!(!sealed.project().join("ralph").exists(), "nothing is written by halves");
}

#[test]
fn a_link_in_place_of_a_document_is_not_written_through() {
    let sealed = sealed();
    let target = sealed.root().join("precious");
    fs::write(&target, "precious").expect("written");
    fs::create_dir(sealed.project().join("ralph")).expect("a directory");
    symlink(&target, sealed.project().join("ralph/prd.md")).expect("a link");
    init(&sealed, &["--name", "x", "--force"]).expect_code(0);
    assert_eq!(fs::read_to_string(&target).expect("there"), "precious");
    assert!(sealed.read("ralph/prd.md").starts_with("# x\n"));
}

#[test]
fn a_directory_that_cannot_be_written_is_said() {
    let sealed = sealed();
    let readonly = fs::Permissions::from_mode(0o555);
    fs::set_permissions(sealed.project(), readonly).expect("a mode");
    // Root may write anywhere.
    let is_refused = fs::write(sealed.project().join("probe"), "").is_err();
    if is_refused {
        init(&sealed, &["--name", "x"]).expect_code(2).expect_stderr("annot create");
    }
    fs::set_permissions(sealed.project(), fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn other_ways_to_begin_are_not_there_yet() {
    let sealed = sealed();
    sealed.ralph(&["init"]).expect_code(2).expect_stderr("--workflow tasks --name FEATURE");
    sealed.ralph(&["init", "--workflow", "specs"]).expect_code(2).expect_stderr("available yet");
    sealed.ralph(&["init", "--workflow", "waterfall"]).expect_code(2);
    sealed.ralph(&["init", "--name", "x"]).expect_code(2);
    assert_eq!(fs::read_dir(sealed.project()).expect("readable").count(), 0);
}
