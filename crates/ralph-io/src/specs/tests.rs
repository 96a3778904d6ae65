//! Specs folders, good and bad.

use std::os::unix::fs::symlink;

use expect_test::{Expect, expect};

use super::*;

/// A project in a directory of its own.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(directory.path().join("project/specs")).expect("made");
        Self(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let place = self.path().join("specs").join(path);
        fs::create_dir_all(place.parent().expect("one above")).expect("made");
        fs::write(place, bytes).expect("written");
    }

    fn link(&self, to: impl AsRef<Path>, path: &str) {
        symlink(to, self.path().join("specs").join(path)).expect("a link");
    }

    fn survey(&self) -> Result<Specs, SpecsError> {
        survey_specs(&self.path(), Path::new("specs"))
    }

    #[track_caller]
    fn refused(&self, directory: &str, expect: &Expect) {
        let error = survey_specs(&self.path(), Path::new(directory)).expect_err("refused");
        let text = format!("{error}\nhint: {}\n", error.hint());
        expect.assert_eq(&text.replace(&*self.0.path().to_string_lossy(), "/tmp"));
    }
}

#[test]
fn specifications_are_counted() {
    let project = Project::new();
    project.write("a.md", "# A\n");
    project.write("deep/er/b.txt", "B");
    project.write("empty.md", "");
    project.write("blank.md", " \n\t\n");
    project.write(".hidden.md", "no");
    project.write(".git/config", "no");
    project.write("picture.png", b"\x89PNG\r\n\x1a\n\0\0");
    let expect = Specs { files: 2, bytes: 5, ..Specs::default() };
    assert_eq!(project.survey().expect("specs"), expect);
    assert_eq!(expect.warnings(Path::new("specs")), Vec::<String>::new());
    let absolute = survey_specs(&project.path(), &project.path().join("specs/deep"));
    assert_eq!(absolute.expect("specs").files, 1);
}

#[test]
fn a_folder_without_specifications_is_refused_with_a_remedy() {
    let project = Project::new();
    project.refused(
        "nowhere",
        &expect![[r"
            there is no directory `nowhere` with specifications
            hint: write down in Markdown files there what is to be built; the setting `specsDir` names another directory
        "]],
    );
    project.write(".hidden.md", "no");
    project.write("empty.md", "\u{feff}");
    project.refused(
        "specs",
        &expect![[r"
            `specs` has no specification in it
            hint: write down in Markdown files there what is to be built
        "]],
    );
    project.refused(
        "specs/empty.md",
        &expect![[r"
            `specs/empty.md` is not a directory
            hint: the setting `specsDir` names the directory with the specifications
        "]],
    );
    project.refused(
        "specs/empty.md/below",
        &expect![[r"
            `specs/empty.md/below` is not a directory
            hint: the setting `specsDir` names the directory with the specifications
        "]],
    );
    project.write("latin.md", b"gr\xfc\xdfe");
    project.refused(
        "specs",
        &expect![[r"
            `specs` has no specification that can be read: `specs/latin.md` (not UTF-8)
            hint: save the specifications as UTF-8 text
        "]],
    );
}

#[test]
fn specifications_are_in_the_project_and_not_all_of_it() {
    let project = Project::new();
    project.write("a.md", "a");
    project.refused(
        "specs/..",
        &expect![[r"
            `specs/..` is the project directory itself, not one for specifications
            hint: the setting `specsDir` names the directory with the specifications
        "]],
    );
    fs::create_dir(project.0.path().join("else")).expect("made");
    project.link("../../else", "out");
    project.refused(
        "specs/out",
        &expect![[r"
            `specs/out` leads out of the project, to `/tmp/else`
            hint: move the specifications into the project; the setting `specsDir` names their directory
        "]],
    );
    project.link("../specs", "within");
    assert_eq!(survey_specs(&project.path(), Path::new("specs/within")).expect("specs").files, 1);
}

#[test]
fn links_to_files_are_read_and_loops_are_not_walked() {
    let project = Project::new();
    project.write("a.md", "a");
    project.link("a.md", "b.md");
    project.link("..", "up");
    project.link("loop", "loop");
    project.link("/dev/zero", "zero");
    let pipe = project.path().join("specs/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    project.link("pipe", "to-pipe");
    let specs = project.survey().expect("specs");
    assert_eq!((specs.files, specs.is_more), (2, false));
    assert_eq!(specs.unreadable.len(), 1, "{:?}", specs.unreadable);
    assert!(specs.unreadable[0].starts_with("`specs/loop` ("), "{:?}", specs.unreadable);
}

#[test]
fn files_that_are_not_text_are_listed_up_to_a_limit() {
    let project = Project::new();
    project.write("a.md", "a");
    // A character cut off by the read limit is no mistake, one at the end of the file is.
    let cut = format!("{}ä and more", "x".repeat(64 * 1024 - 1));
    project.write("cut.md", cut);
    for name in ["1", "2", "3", "4"] {
        project.write(name, b"\xff");
    }
    project.write("5", b"half \xc3");
    project.write("6", b"\xff\xfea\0b\0");
    project.write("7/8", b"\xff");
    let specs = project.survey().expect("specs");
    assert_eq!(specs.files, 2);
    let warnings = specs.warnings(Path::new("specs")).join("\n");
    expect!["not everything in `specs` can be read as text, and agents may miss what it says: `specs/1` (not UTF-8), `specs/2` (not UTF-8), `specs/3` (not UTF-8), `specs/4` (not UTF-8), `specs/5` (not UTF-8), and 2 more; save it as UTF-8"].assert_eq(&warnings);
}

#[test]
fn the_walk_of_an_enormous_folder_ends() {
    let project = Project::new();
    project.write("a.md", "a");
    project.write(&format!("{}b.md", "d/".repeat(DEEPEST - 1)), "b");
    let specs = project.survey().expect("specs");
    assert_eq!((specs.files, specs.is_more), (2, false));
    project.write(&format!("{}c.md", "d/".repeat(DEEPEST)), "c");
    let specs = project.survey().expect("specs");
    assert_eq!((specs.files, specs.is_more), (2, true));

    let project = Project::new();
    for number in 0..=MOST_ENTRIES {
        project.write(&format!("{number}"), "x");
    }
    let specs = project.survey().expect("specs");
    assert_eq!((specs.files, specs.is_more), (10_000, true));
    expect!["`specs` is enormous (more than 10000 files): agents read only part of it; split it, or name in the plan what matters"]
        .assert_eq(&specs.warnings(Path::new("specs")).join("\n"));
    let large = Specs { files: 1, bytes: 3 * HUGE_BYTES + 7, ..Specs::default() };
    expect!["`specs` is enormous (more than 3 MiB): agents read only part of it; split it, or name in the plan what matters"]
        .assert_eq(&large.warnings(Path::new("specs")).join("\n"));
}
