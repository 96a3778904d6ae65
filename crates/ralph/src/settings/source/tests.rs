//! Tests of reading settings files.

use std::fs;

use expect_test::expect;

use super::*;

fn shown(error: &SettingsError, directory: &Path) -> String {
    error.to_string().replace(&directory.display().to_string(), "DIR")
}

#[test]
fn a_project_without_settings_is_fine() {
    let directory = tempfile::tempdir().expect("a directory");
    let sources = read_sources(directory.path(), None).expect("nothing is fine");
    assert_eq!((sources.base, sources.local), (None, None));
}

#[test]
fn a_given_file_takes_the_place_of_the_project_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let ralph = directory.path().join(".ralph");
    fs::create_dir(&ralph).expect("created");
    fs::write(ralph.join("settings.json"), "{}").expect("written");
    fs::write(ralph.join("settings.local.json"), "{} ").expect("written");
    let given = directory.path().join("ralph.conf");
    fs::write(&given, "A=1").expect("written");
    let texts = |sources: Sources| [sources.base, sources.local].map(|it| it.map(|it| it.text));
    let read = |config| read_sources(directory.path(), config).expect("all can be read");
    assert_eq!(texts(read(None)), [Some("{}".into()), Some("{} ".into())]);
    assert_eq!(texts(read(Some(given.as_path()))), [Some("A=1".into()), Some("{} ".into())]);
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("folder")).expect("created");
    fs::write(path("bom"), b"\xef\xbb\xbf{}").expect("written");
    fs::write(path("utf16"), b"\xff\xfe{\0}\0").expect("written");
    fs::write(path("latin1"), b"{\n\"a\": \"\xe9\"}").expect("written");
    fs::write(path("huge"), vec![b' '; (1 << 20) + 1]).expect("written");
    let names = ["missing", "folder", "bom", "utf16", "latin1", "huge"];
    let lines: Vec<String> = names
        .iter()
        .map(|name| {
            let error = read_sources(directory.path(), Some(&path(name))).expect_err("unusable");
            shown(&error, directory.path())
        })
        .collect();
    expect![[r"
        DIR/missing: no such file
        DIR/folder: is a directory, not a settings file
        DIR/bom: begins with a byte-order mark (save it as UTF-8 without a byte-order mark)
        DIR/utf16: begins with a byte-order mark (save it as UTF-8 without a byte-order mark)
        DIR/latin1: is not UTF-8 text (line 2) (save it as UTF-8)
        DIR/huge: is larger than 1 MiB, too large for settings"]]
    .assert_eq(&lines.join("\n"));
}

#[cfg(unix)]
#[test]
fn a_pipe_or_dead_link_in_the_project_does_not_hang_or_vanish() {
    let directory = tempfile::tempdir().expect("a directory");
    let ralph = directory.path().join(".ralph");
    fs::create_dir(&ralph).expect("created");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        ralph.join("settings.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe can be made");
    std::os::unix::fs::symlink("nowhere", ralph.join("settings.local.json")).expect("linked");
    let error = read_sources(directory.path(), None).expect_err("neither can be used");
    expect![[r"
        DIR/.ralph/settings.json: is not a regular file
        DIR/.ralph/settings.local.json: cannot be read: No such file or directory (os error 2)"]]
    .assert_eq(&shown(&error, directory.path()));
}

#[test]
fn only_our_variables_are_taken() {
    let variables = [("PATH", "/bin"), ("RALPH_MODEL", "opus")].map(|(a, b)| (a.into(), b.into()));
    let sources = Sources::default().with_environment(variables);
    assert_eq!(sources.env, [("RALPH_MODEL".to_owned(), "opus".to_owned())]);
}
