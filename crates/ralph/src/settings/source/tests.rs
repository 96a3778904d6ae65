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
    let sources = read_sources(files(directory.path(), None)).expect("nothing is fine");
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
    let texts =
        |sources: SettingsSources| [sources.base, sources.local].map(|it| it.map(|it| it.text));
    let read = |config| read_sources(files(directory.path(), config)).expect("all can be read");
    assert_eq!(texts(read(None)), [Some("{}".into()), Some("{} ".into())]);
    assert_eq!(texts(read(Some(given.as_path()))), [Some("A=1".into()), Some("{} ".into())]);
}

#[test]
fn local_settings_that_a_run_recorded_take_the_place_of_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (project, state) = (directory.path().join("project"), directory.path().join("state"));
    fs::create_dir_all(project.join(".ralph")).expect("created");
    fs::create_dir(&state).expect("created");
    assert_eq!(read_recorded_local_settings(&state), LocalSettings::InProject);
    for text in [None, Some("{}".to_owned())] {
        let _ = text.as_ref().map(|text| fs::write(find_local_settings_path(&project), text));
        record_local_settings(&project, &state).expect("recorded");
        let local = read_recorded_local_settings(&state);
        assert_eq!(local, LocalSettings::Recorded(text.clone()));
        // Nothing that appears there later is read, or is an error.
        let _ = fs::remove_file(find_local_settings_path(&project));
        fs::create_dir(find_local_settings_path(&project)).expect("created");
        let files = SettingsPaths { user: None, project: &project, config: None, local };
        let sources = read_sources(files).expect("readable");
        assert_eq!(sources.local.map(|file| file.text), text);
        fs::remove_dir(find_local_settings_path(&project)).expect("removed");
    }
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
            let error =
                read_sources(files(directory.path(), Some(&path(name)))).expect_err("unusable");
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
    let error = read_sources(files(directory.path(), None)).expect_err("neither can be used");
    expect![[r"
        DIR/.ralph/settings.json: is not a regular file
        DIR/.ralph/settings.local.json: cannot be read: No such file or directory (os error 2)"]]
    .assert_eq(&shown(&error, directory.path()));
}

#[test]
fn only_our_variables_are_taken() {
    let variables = [("PATH", "/bin"), ("RALPH_MODEL", "opus")].map(|(a, b)| (a.into(), b.into()));
    let sources = SettingsSources::default().with_environment(variables);
    assert_eq!(sources.env, [("RALPH_MODEL".to_owned(), "opus".to_owned())]);
}

fn files<'a>(project: &'a Path, config: Option<&'a Path>) -> SettingsPaths<'a> {
    SettingsPaths { user: None, project, config, local: LocalSettings::InProject }
}

#[test]
fn the_users_file_follows_the_usual_variables() {
    for (set, expect) in [
        (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")][..], Some("/c/ralph/settings.json")),
        (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")], Some("/h/.config/ralph/settings.json")),
        (&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")], Some("/h/.config/ralph/settings.json")),
        (&[("HOME", "h")], None),
        (&[], None),
    ] {
        let variable =
            |name: &str| set.iter().find(|(it, _)| *it == name).map(|(_, value)| value.into());
        assert_eq!(find_user_settings_path(variable), expect.map(PathBuf::from), "{set:?}");
    }
}

#[test]
fn files_in_the_work_tree_belong_to_the_project() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path().canonicalize().expect("a real path");
    let at = |name: &str| root.join(name);
    for name in ["tree/.git", "tree/part/.ralph", "mine"] {
        fs::create_dir_all(at(name)).expect("created");
    }
    for name in ["tree/part/.ralph/settings.json", "tree/given.json", "mine/settings.json"] {
        fs::write(at(name), "{}").expect("written");
    }
    std::os::unix::fs::symlink(at("mine/settings.json"), at("tree/link.json")).expect("a link");
    std::os::unix::fs::symlink(at("tree/given.json"), at("mine/link.json")).expect("a link");
    std::os::unix::fs::symlink(at("tree"), at("alias")).expect("a link");
    for (config, expect) in [
        ("tree/part/.ralph/settings.json", FileAuthor::Project),
        ("tree/given.json", FileAuthor::Project),
        ("tree/link.json", FileAuthor::Project),
        ("mine/link.json", FileAuthor::Project),
        ("alias/given.json", FileAuthor::Project),
        ("alias/link.json", FileAuthor::Project),
        ("mine/../tree/given.json", FileAuthor::Project),
        ("mine/settings.json", FileAuthor::User),
    ] {
        let (user, config) = (at("mine/settings.json"), at(config));
        let local = LocalSettings::InProject;
        let project = &at("tree/part");
        let files = SettingsPaths { user: Some(&user), project, config: Some(&config), local };
        let sources = read_sources(files).expect("all can be read");
        let authors = (sources.user.map(|it| it.author), sources.base.map(|it| it.author));
        assert_eq!(authors, (Some(FileAuthor::User), Some(expect)), "{config:?}");
        // A home inside the project is no place for the user's own word.
        let local = LocalSettings::InProject;
        let inside = SettingsPaths { user: Some(&config), project, config: None, local };
        let sources = read_sources(inside).expect("all can be read");
        assert_eq!(sources.user.map(|it| it.author), Some(expect), "{config:?}");
    }
}
