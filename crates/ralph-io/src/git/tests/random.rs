//! Random users, random agents: whatever they do, neither a rollback nor a failure branch nor a
//! restored history loses anything.

use super::*;

/// Each takes about a fifth of a second; hundreds were run while this was written.
fn worlds(first: u64) -> std::ops::Range<u64> {
    first..first + if is_quick() { 3 } else { 10 }
}

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

const COMMANDS: [&[&str]; 18] = [
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
    &["commit", "--quiet", "--amend", "--message", "agent: amended"],
    &["reset", "--quiet", "--soft", "HEAD~1"],
    &["checkout", "--quiet", "--orphan", "orphan"],
    &["branch", "--quiet", "-D", "main"],
    &["update-ref", "-d", "HEAD"],
    &["merge", "--quiet", "--allow-unrelated-histories", "other"],
    &["rebase", "--quiet", "other"],
    &["cherry-pick", "other"],
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

/// A random world in which a random agent was at work.
struct Aftermath {
    world: World,
    git: GitVcs,
    checkpoint: Checkpoint,
    /// The paths in the checkpoint's tree.
    noted: Vec<PathBuf>,
    /// What the user had.
    users: Users,
    before: BTreeMap<PathBuf, String>,
    /// What the agent made of it.
    worst: BTreeMap<PathBuf, String>,
    /// The commits that were checked out or on a branch.
    tips: Vec<String>,
}

impl Aftermath {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let world = if chance.below(5) == 0 { World::empty() } else { World::new() };
        for _ in 0..chance.below(6) {
            chance.act(&world);
        }
        // A run does not begin in the middle of something.
        if let Some(operation) = world.repository().operation() {
            world.git(&[operation, "--quit"]);
        }
        let mut git =
            if seed.is_multiple_of(2) { world.open() } else { world.open_with_git_alone() };
        let checkpoint = git.create_checkpoint(&mark(3), CheckpointDepth::Tree).expect("noted");
        let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = &checkpoint else {
            unreachable!("a tree in {checkpoint:?}");
        };
        let noted = world.git(&["ls-tree", "-r", "--name-only", tree]);
        let noted = noted.lines().map(PathBuf::from).collect();
        let (users, before) = (world.users(), plain_files(&world));
        for _ in 0..=chance.below(12) {
            chance.act(&world);
        }
        let worst = plain_files(&world);
        // Some agents leave nothing that git takes for a repository.
        let listed = world
            .try_git(&world.top(), &["for-each-ref", "--format=%(objectname)", "refs/heads"])
            .unwrap_or_default();
        let mut tips: Vec<String> = listed.lines().map(str::to_owned).collect();
        tips.extend(world.try_git(&world.top(), &["rev-parse", "--verify", "HEAD"]));
        Self { world, git, checkpoint, noted, users, before, worst, tips }
    }

    /// Asserts that the files are those of the checkpoint, but for ignored ones, and that what is
    /// gone can be had from a ref.
    fn files_are_back(&self, seed: u64) {
        let after = plain_files(&self.world);
        for path in &self.noted {
            assert_eq!(after.get(path), self.before.get(path), "{seed}: {path:?} is as it was");
        }
        for path in after.keys().filter(|path| !self.noted.contains(path)) {
            let args = ["check-ignore", "--no-index", path.to_str().expect("text")];
            let ignored = self.world.try_git(&self.world.top(), &args);
            assert!(ignored.is_ok() || path.starts_with(".ralph"), "{seed}: {path:?} is ignored");
        }
        let refs = self.world.ralphs_refs();
        for (path, text) in self.worst.iter().filter(|(path, text)| after.get(*path) != Some(*text))
        {
            let path = path.to_str().expect("text");
            let is_kept = refs.iter().any(|name| {
                let spec = format!("{name}:{path}");
                let kept = self.world.try_git(&self.world.top(), &["cat-file", "blob", &spec]);
                kept.as_deref() == Ok(text.trim_end())
            });
            assert!(is_kept, "{seed}: {path} is kept");
        }
    }

    /// Asserts that what is checked out, staged and stashed is as it was, and that no commit is
    /// lost.
    fn history_is_back(&self, seed: u64) {
        let (now, users) = (self.world.users(), &self.users);
        assert_eq!(
            (&now.index, &now.head, &now.stash),
            (&users.index, &users.head, &users.stash),
            "{seed}"
        );
        assert_eq!(now.config, users.config, "{seed}");
        assert_eq!(self.world.repository().operation(), None, "{seed}");
        // Other branches are the agent's to move; nothing is lost by that.
        let is_own = |line: &&String| {
            line.split(' ').next().is_some_and(|name| users.head.trim_end().ends_with(name))
        };
        assert!(users.branches.iter().filter(is_own).all(|it| now.branches.contains(it)), "{seed}");
        for tip in &self.tips {
            let missing = self.world.git(&["rev-list", "--count", tip, "--not", "--all"]);
            assert_eq!(missing, "0", "{seed}: {tip}");
        }
    }
}

#[test]
fn no_agent_makes_a_rollback_lose_anything() {
    for seed in worlds(0) {
        let mut after = Aftermath::new(seed);
        let back = after.git.roll_back(&mark(3), &after.checkpoint);
        back.unwrap_or_else(|error| unreachable!("{seed}: {error}"));
        after.files_are_back(seed);
        after.history_is_back(seed);
    }
}

#[test]
fn no_agent_makes_a_failure_branch_lose_anything() {
    for seed in worlds(100) {
        let mut after = Aftermath::new(seed);
        let seen =
            after.git.observe(&after.checkpoint, &[]).expect("observed").expect("a repository");
        let TreeId(work) = seen.tree;
        let order = failure_branch_order(3, &after.checkpoint);
        let failed_work = after
            .git
            .save_to_failure_branch(&order)
            .unwrap_or_else(|error| unreachable!("{seed}: {error}"));
        after.files_are_back(seed);
        after.history_is_back(seed);
        let world = &after.world;
        let report_files =
            world.git(&["diff-tree", "-r", "--name-status", &work, &failed_work.commit.0]);
        assert_eq!(report_files, "A\tfailure/state.md", "{seed}");
        let now = world.users();
        assert_eq!(world.open().save_to_failure_branch(&order), Ok(failed_work), "{seed}");
        assert_eq!(world.users(), now, "{seed}");
    }
}

#[test]
fn no_agent_makes_a_restored_history_lose_anything() {
    for seed in worlds(200) {
        let mut after = Aftermath::new(seed);
        let kept = after.git.reset_history(&mark(3), &after.checkpoint);
        let kept = kept.unwrap_or_else(|error| unreachable!("{seed}: {error}"));
        assert_eq!(plain_files(&after.world), after.worst, "{seed}");
        if kept.is_none() {
            // Nothing had moved, so what is staged is the agent's.
            after.users.index = after.world.users().index;
        }
        after.history_is_back(seed);
        let again = after.world.open().reset_history(&mark(3), &after.checkpoint);
        assert_eq!(again, Ok(kept), "{seed}");
    }
}

#[test]
fn what_every_agent_did_is_reported_as_git_alone_sees_it() {
    for seed in worlds(300) {
        let Aftermath { world, checkpoint, .. } = Aftermath::new(seed);
        let mut git = world.open();
        let apart = git.observe(&checkpoint, &[]).map(|seen| seen.expect("a repository"));
        let mut joined = world.open_with_git_alone();
        let together = joined.observe(&checkpoint, &[]).map(|seen| seen.expect("a repository"));
        assert_eq!(together, apart, "{seed}");
        let since_head = match checkpoint {
            Checkpoint::Git { head, branch, .. } => Checkpoint::Git { head, branch, tree: None },
            Checkpoint::None => Checkpoint::None,
        };
        assert_eq!(joined.observe(&since_head, &[]), git.observe(&since_head, &[]), "{seed}");
    }
}
