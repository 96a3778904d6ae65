//! Measures surveying a work tree, compared with the bare git commands for the same.
//!
//! Both work on their own index next to the user's, in the same repository and in turns,
//! with one changed file before each. `cargo bench` prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ralph_core::ports::{CheckpointDepth, Vcs as _};
use ralph_io::git::{GitRepository, GitVcs, RepositoryDiscovery};
use ralph_io::process::Watch;
use ralph_io::store::ProjectLayout;
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::run::IterationMark;
use ralph_model::worktree::{Checkpoint, TreeId};
use ralph_testkit::measure::{Times, calculate_ratio, measure_time};

/// Files per directory, as in a large project.
const PER_DIRECTORY: usize = 100;

fn main() {
    for (files, rounds) in [(100, 41), (10_000, 21), (100_000, 9)] {
        let place = Place::with_files(files);
        compare(&place, files, rounds);
    }
}

/// A repository in a temporary directory, and a directory for a run.
struct Place {
    directory: tempfile::TempDir,
    env: Vec<(OsString, OsString)>,
}

impl Place {
    fn with_files(files: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = std::env::var_os("PATH").expect("set");
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), path)];
        for (name, value) in [
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "User"),
            ("GIT_AUTHOR_EMAIL", "user@example.com"),
            ("GIT_COMMITTER_NAME", "User"),
            ("GIT_COMMITTER_EMAIL", "user@example.com"),
        ] {
            env.push((name.into(), value.into()));
        }
        let place = Self { directory, env };
        fs::create_dir(place.project()).expect("made");
        fs::create_dir(place.directory.path().join("run")).expect("made");
        // As every run does.
        let state = place.directory.path().join("state");
        let layout = ProjectLayout::for_project(&place.project(), &place.project(), &state)
            .expect("a layout");
        layout.prepare_project().expect("made");
        for number in 0..files {
            let path = place.file(number);
            if number % PER_DIRECTORY == 0 {
                fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            }
            fs::write(path, format!("file {number}\n")).expect("written");
        }
        for args in [
            ["init", "--quiet", "--initial-branch=main"].as_slice(),
            &["-c", "core.looseCompression=0", "add", "--all"],
            &["commit", "--quiet", "--message", "Begin"],
            &["repack", "--quiet", "-a", "-d", "--window=0"],
        ] {
            place.git(args);
        }
        fs::copy(place.project().join(".git/index"), place.bare_index()).expect("copied");
        place
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn bare_index(&self) -> PathBuf {
        self.directory.path().join("bare.index")
    }

    fn file(&self, number: usize) -> PathBuf {
        let directory = self.project().join(format!("directory-{:04}", number / PER_DIRECTORY));
        directory.join(format!("file-{number:06}.txt"))
    }

    fn git(&self, args: &[&str]) -> String {
        self.run(Command::new("git").args(args))
    }

    /// Runs git on the index that the bare commands have.
    fn bare(&self, args: &[&str]) -> String {
        self.run(Command::new("git").args(args).env("GIT_INDEX_FILE", self.bare_index()))
    }

    fn run(&self, command: &mut Command) -> String {
        let command = command.current_dir(self.project()).stdin(Stdio::null());
        for (name, value) in &self.env {
            command.env(name, value);
        }
        let end = command.output().expect("it starts");
        assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
        String::from_utf8_lossy(&end.stdout).trim_end().to_owned()
    }

    fn open(&self) -> GitVcs {
        match GitRepository::discover(&self.project(), self.env.clone(), Watch::new_detached()) {
            Ok(RepositoryDiscovery::Repository(repository)) => {
                GitVcs::new(*repository, self.directory.path().join("run"))
            }
            other => unreachable!("a repository, not {other:?}"),
        }
    }
}

fn compare(place: &Place, files: usize, rounds: usize) {
    let mut git = place.open();
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut iteration = 0;
    let mut change = |path: &Path| {
        iteration += 1;
        fs::write(path, format!("changed {iteration}\n")).expect("written");
        IterationNumber(iteration)
    };
    // The first round copies the index and reads what is not in memory yet.
    for round in 0..=rounds {
        let path = place.file(round * files / (rounds + 1));
        let number = change(&path);
        let mark = IterationMark { run: RunId("bench".to_owned()), iteration: number, task: None };
        let (took, checkpoint) = measure_time(|| {
            git.create_checkpoint(&mark, CheckpointDepth::Tree).expect("a checkpoint")
        });
        let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = &checkpoint else {
            unreachable!("a tree in {checkpoint:?}");
        };
        let (bare_took, bare_tree) =
            measure_time(|| bare_checkpoint(place, "refs/bare/checkpoint"));
        assert_eq!(*tree, bare_tree);
        change(&path);
        let (observing, seen) =
            measure_time(|| git.observe(&checkpoint, &[]).expect("an observation"));
        assert_eq!(seen.expect("a repository").files.len(), 1);
        let (bare_observing, lines) = measure_time(|| bare_observation(place, tree));
        assert_eq!(lines, 1);
        if round > 0 {
            for (times, took) in times.iter_mut().zip([took, bare_took, observing, bare_observing])
            {
                times.push(took);
            }
        }
    }
    let [checkpoint, bare_checkpoint, observation, bare_observation] =
        times.map(|times| Times::from(times).median());
    for (what, ours, bare) in
        [("checkpoint", checkpoint, bare_checkpoint), ("observe", observation, bare_observation)]
    {
        let ratio = calculate_ratio(ours, bare);
        println!("{what}, {files} files: ralph {ours:.2?}, bare git {bare:.2?}, ratio {ratio:.2}");
    }
}

/// Saves everything in the work tree on a ref, with what is checked out and whether anything is
/// staged.
fn bare_checkpoint(place: &Place, name: &str) -> String {
    let head = place.git(&["rev-parse", "HEAD"]);
    place.bare(&["add", "--all"]);
    let tree = place.bare(&["write-tree"]);
    place.git(&["diff-index", "--cached", "--quiet", "HEAD"]);
    let commit = place.git(&["commit-tree", &tree, "-p", &head, "-m", "checkpoint"]);
    place.git(&["update-ref", name, &commit]);
    tree
}

/// Looks at what changed since a tree, and at what is checked out.
fn bare_observation(place: &Place, since: &str) -> usize {
    place.git(&["rev-parse", "HEAD"]);
    place.bare(&["add", "--all"]);
    let tree = place.bare(&["write-tree"]);
    place.git(&["diff-tree", "-r", "--raw", since, &tree]).lines().count()
}
