//! Random users, random agents: whatever they do, the way back loses nothing.

use super::*;

/// Each takes about a fifth of a second; a thousand were run while this was written.
const WORLDS: u64 = 15;

const PATHS: [&str; 12] = [
    "a.txt",
    "a.txt/below",
    "dir",
    "dir/b.txt",
    "dir/c.log",
    "dir/.gitignore",
    "new/deep/file",
    "x.log",
    "target/ignored",
    "secret.env",
    ".gitignore",
    ".ralph/state.json",
];

const TEXTS: [&str; 5] = ["a\n", "1\n", "2\n", "*.log\n", "*.env\n/dir\n"];

const COMMANDS: [&[&str]; 10] = [
    &["add", "--all"],
    &["add", "--force", "--all", "--", ":(exclude).ralph"],
    &["commit", "--quiet", "--message", "agent"],
    &["commit", "--quiet", "--all", "--message", "agent"],
    &["checkout", "--quiet", "-b", "other"],
    &["checkout", "--quiet", "--force", "main"],
    &["checkout", "--quiet", "--detach"],
    &["rm", "--quiet", "--cached", "-r", "--force", "."],
    &["reset", "--quiet"],
    &["mv", "--force", "dir", "moved"],
];

/// A stream of numbers that is the same on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    fn act(&mut self, world: &World) {
        let path = world.at(PATHS[self.below(PATHS.len())]);
        let text = TEXTS[self.below(TEXTS.len())];
        match self.below(4) {
            0 | 1 => put(&path, text),
            2 => clear(&path),
            _ => drop(world.try_git(&world.top(), COMMANDS[self.below(COMMANDS.len())])),
        }
    }
}

fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).expect("removed"),
        Ok(_) => fs::remove_file(path).expect("removed"),
        Err(_) => {}
    }
}

fn put(path: &Path, text: &str) {
    clear(path);
    let parent = path.parent().expect("a directory");
    for ancestor in parent.ancestors().take_while(|ancestor| !ancestor.ends_with("project")) {
        if ancestor.is_file() {
            clear(ancestor);
        }
    }
    fs::create_dir_all(parent).expect("made");
    fs::write(path, text).expect("written");
}

/// Returns the files by path, without directories, which git does not know.
fn plain_files(world: &World) -> BTreeMap<PathBuf, String> {
    let mut files = files(&world.top());
    files.retain(|_, text| text != "directory");
    files
}

#[test]
fn no_agent_makes_the_way_back_lose_anything() {
    for seed in 0..WORLDS {
        let mut chance = Chance(seed);
        let world = World::new();
        for _ in 0..chance.below(6) {
            chance.act(&world);
        }
        let mut git = world.open();
        let checkpoint = git.checkpoint(&mark(3), Depth::Tree).expect("noted");
        let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = &checkpoint else {
            unreachable!("a tree in {checkpoint:?}");
        };
        let (users, before) = (world.users(), plain_files(&world));
        let noted = world.git(&["ls-tree", "-r", "--name-only", tree]);
        let noted: Vec<&Path> = noted.lines().map(Path::new).collect();
        for _ in 0..=chance.below(12) {
            chance.act(&world);
        }
        let worst = plain_files(&world);
        git.rollback(&mark(3), &checkpoint).unwrap_or_else(|error| unreachable!("{seed}: {error}"));
        let after = plain_files(&world);

        for path in &noted {
            assert_eq!(after.get(*path), before.get(*path), "{seed}: {path:?} is as it was");
        }
        for path in after.keys().filter(|path| !noted.contains(&path.as_path())) {
            let ignored = world.try_git(
                &world.top(),
                &["check-ignore", "--no-index", path.to_str().expect("text")],
            );
            assert!(ignored.is_ok() || path.starts_with(".ralph"), "{seed}: {path:?} is ignored");
        }
        let refs = world.ralphs_refs();
        for (path, text) in worst.iter().filter(|(path, text)| after.get(*path) != Some(*text)) {
            let path = path.to_str().expect("text");
            let is_kept = refs.iter().any(|name| {
                let kept =
                    world.try_git(&world.top(), &["cat-file", "blob", &format!("{name}:{path}")]);
                kept.as_deref() == Ok(text.trim_end())
            });
            assert!(is_kept, "{seed}: {path} is kept");
        }
        let now = world.users();
        assert_eq!(
            (&now.index, &now.head, &now.stash),
            (&users.index, &users.head, &users.stash),
            "{seed}"
        );
        // Other branches are the agent's to move; nothing is lost by that.
        let is_own = |line: &&String| {
            line.split(' ').next().is_some_and(|name| users.head.trim_end().ends_with(name))
        };
        assert!(users.branches.iter().filter(is_own).all(|it| now.branches.contains(it)), "{seed}");
    }
}
