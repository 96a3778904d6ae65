//! A small repository in memory: trees of files, commits with parents, branches, and refs that
//! keep removed work. It behaves as the real one promises.
//!
//! Not here: when it is changed, and what goes wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ralph_core::ports::FailureBranchOrder;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::run::IterationMark;
use ralph_model::task::TaskList;
use ralph_model::worktree::{Checkpoint, CommitId, History, TreeDiff, TreeId};

use super::recipe::TEST_LIST;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    Text(Rc<str>),
    List(Rc<TaskList>),
}

impl FileContent {
    /// Returns a text content.
    pub fn from_text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// Returns whether the content is a text that contains a fragment.
    pub fn has_text(&self, fragment: &str) -> bool {
        match self {
            Self::Text(text) => text.contains(fragment),
            Self::List(_) => false,
        }
    }
}

/// How many tests the project has at first.
const FIRST_TESTS: u64 = 5;

/// Returns how many tests a gate runs on a tree.
pub fn count_tests(tree: &Tree) -> u64 {
    match tree.get(TEST_LIST) {
        Some(FileContent::Text(text)) => text.lines().count() as u64,
        Some(FileContent::List(_)) | None => FIRST_TESTS,
    }
}

/// A work tree.
pub type Tree = BTreeMap<String, FileContent>;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedCommit {
    pub tree: usize,
    pub parent: Option<usize>,
    pub message: String,
    /// The mark of the iteration it belongs to; `None` if ralph did not make it.
    pub mark: Option<IterationMark>,
}

/// What a ref keeps: a tree, and the commit that was checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptState {
    pub tree: usize,
    pub head: Option<usize>,
}

/// The branch that is checked out at first.
pub const MAIN: &str = "refs/heads/main";

/// A branch of the user that no run is about.
pub const USERS_BRANCH: &str = "refs/heads/users";

/// A repository and its work tree.
#[derive(Debug)]
pub struct SimulatedRepository {
    /// Every tree that was ever referred to.
    trees: Vec<Rc<Tree>>,
    pub commits: Vec<SimulatedCommit>,
    /// The commit that is checked out.
    pub head: Option<usize>,
    /// The branch that is checked out.
    pub branch: String,
    /// Other branches, including those that were left.
    pub branches: BTreeMap<String, Option<usize>>,
    pub work: Tree,
    /// The refs that keep removed work.
    pub kept: BTreeMap<String, KeptState>,
    /// The failure branches, with the orders that created them.
    pub failure_branches: Vec<(FailureBranchOrder, usize)>,
    /// The trees of checkpoints.
    checkpoint_trees: BTreeSet<usize>,
    /// The tree that is held during a read-only agent call.
    held: Option<usize>,
}

impl SimulatedRepository {
    /// Returns a repository with one commit of a tree.
    pub fn new(work: Tree) -> Self {
        let message = "the beginning".to_owned();
        Self {
            trees: vec![Rc::new(work.clone())],
            commits: vec![SimulatedCommit { tree: 0, parent: None, message, mark: None }],
            head: Some(0),
            branch: MAIN.to_owned(),
            branches: BTreeMap::from([(USERS_BRANCH.to_owned(), Some(0))]),
            work,
            kept: BTreeMap::new(),
            failure_branches: Vec::new(),
            checkpoint_trees: BTreeSet::new(),
            held: None,
        }
    }

    /// Records the tree of a checkpoint.
    pub fn note_checkpoint(&mut self, tree: &TreeId) {
        self.checkpoint_trees.extend(parse_tree_id(tree));
    }

    /// Holds the tree of a checkpoint instead of the one held before.
    pub fn hold_tree(&mut self, to: &Checkpoint) {
        self.held = RepositoryState::from_checkpoint(to, self).map(|place| place.tree);
    }

    /// Returns whether a tree is referenced, so that no cleanup removes it.
    pub fn is_referenced(&self, tree: usize) -> bool {
        self.held == Some(tree)
            || self.checkpoint_trees.contains(&tree)
            || self.commits.iter().any(|commit| commit.tree == tree)
            || self.kept.values().any(|kept| kept.tree == tree)
    }

    /// Returns whether a file is in the work tree, or in a referenced tree.
    pub fn has_path(&self, path: &str) -> bool {
        let has = |tree: &usize| self.trees.get(*tree).is_some_and(|tree| tree.contains_key(path));
        let commits = self.commits.iter().map(|commit| commit.tree);
        self.work.contains_key(path)
            || commits.chain(self.kept.values().map(|kept| kept.tree)).any(|tree| has(&tree))
    }

    /// Returns the number of the work tree.
    pub fn number_work_tree(&mut self) -> usize {
        if let Some(at) = self.trees.iter().rposition(|tree| **tree == self.work) {
            return at;
        }
        self.trees.push(Rc::new(self.work.clone()));
        self.trees.len() - 1
    }

    /// Returns the tree in which only these paths are taken from the work tree, and whether it
    /// differs from the checked-out one.
    pub fn select_paths(&mut self, is_one: impl Fn(&str) -> bool) -> (usize, TreeDiff) {
        let head = self.head_tree();
        let mut tree: Tree = (*head).clone();
        tree.retain(|path, _| !is_one(path));
        let ones = self.work.iter().filter(|(path, _)| is_one(path));
        tree.extend(ones.map(|(path, content)| (path.clone(), content.clone())));
        let changes = if tree == *head { TreeDiff::Clean } else { TreeDiff::Dirty };
        let at = self.trees.iter().rposition(|it| **it == tree).unwrap_or_else(|| {
            self.trees.push(Rc::new(tree));
            self.trees.len() - 1
        });
        (at, changes)
    }

    /// Returns a tree by its number.
    pub fn find_tree(&self, number: usize) -> Rc<Tree> {
        self.trees.get(number).cloned().unwrap_or_default()
    }

    /// Returns the checked-out tree.
    pub fn head_tree(&self) -> Rc<Tree> {
        self.head.map(|head| self.find_tree(self.commits[head].tree)).unwrap_or_default()
    }

    /// Returns whether the work tree differs from the checked-out commit.
    pub fn changes(&self) -> TreeDiff {
        if *self.head_tree() == self.work { TreeDiff::Clean } else { TreeDiff::Dirty }
    }

    /// Returns a checkpoint of the repository.
    pub fn checkpoint(&mut self) -> Checkpoint {
        let tree = self.number_work_tree();
        Checkpoint::Git {
            head: self.head.map(format_commit_id),
            branch: Some(self.branch.clone()),
            tree: Some(format_tree_id(tree)),
        }
    }

    /// Makes a commit of a tree.
    pub fn make_commit(
        &mut self,
        tree: usize,
        message: &str,
        mark: Option<IterationMark>,
    ) -> usize {
        let parent = self.head;
        self.commits.push(SimulatedCommit { tree, parent, message: message.to_owned(), mark });
        self.head = Some(self.commits.len() - 1);
        self.commits.len() - 1
    }

    /// Returns what happened to the history since a commit and a branch.
    pub fn compare_history(&self, head: Option<usize>, branch: Option<&str>) -> History {
        if branch != Some(self.branch.as_str()) {
            return History::Rewritten;
        }
        let place = self.list_ancestors(self.head).position(|at| Some(at) == head);
        match (place, head) {
            (Some(0), _) => History::Same,
            (Some(commits), _) => {
                History::Advanced { commits: u32::try_from(commits).unwrap_or(u32::MAX) }
            }
            (None, _) => History::Rewritten,
        }
    }

    /// Returns a commit and its ancestors.
    pub fn list_ancestors(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(from, move |at| self.commits[*at].parent)
    }

    /// Resets to a state after keeping what that removes, and returns the ref.
    pub fn reset_to(&mut self, to: &RepositoryState, name: &str) -> Option<String> {
        let tree = self.number_work_tree();
        let has_moved = self.head != to.head || to.branch != self.branch;
        let first = self.kept.contains_key(name).then(|| name.to_owned());
        if tree == to.tree && !has_moved {
            return first;
        }
        let kept = self.keep_state(name, KeptState { tree, head: self.head });
        self.work = (*self.find_tree(to.tree)).clone();
        self.set_head(to);
        first.or(Some(kept))
    }

    /// Checks out a branch at a commit without changing the work tree.
    pub fn set_head(&mut self, to: &RepositoryState) {
        if self.branch != to.branch {
            self.branches.insert(self.branch.clone(), self.head);
        }
        self.branch.clone_from(&to.branch);
        self.head = to.head;
    }

    /// Stores something on a ref, or on the next free one of that name with a number.
    pub fn keep_state(&mut self, name: &str, what: KeptState) -> String {
        let mut free = name.to_owned();
        let mut number = 1;
        while self.kept.contains_key(&free) {
            number += 1;
            free = format!("{name}-{number}");
        }
        self.kept.insert(free.clone(), what);
        free
    }

    /// Resets everything outside a scope to a state, after keeping what that removes.
    pub fn restore_paths(
        &mut self,
        to: &RepositoryState,
        is_restored: &dyn Fn(&str) -> bool,
        name: &str,
    ) -> Option<String> {
        let (now, target) = (self.number_work_tree(), self.find_tree(to.tree));
        let mut confined: Tree = (*target).clone();
        confined.retain(|path, _| is_restored(path));
        let left = self.work.iter().filter(|(path, _)| !is_restored(path));
        confined.extend(left.map(|(path, content)| (path.clone(), content.clone())));
        let first = self.kept.contains_key(name).then(|| name.to_owned());
        if confined == self.work {
            return first;
        }
        let kept = self.keep_state(name, KeptState { tree: now, head: self.head });
        self.work = confined;
        first.or(Some(kept))
    }

    /// Restores the user's branch. Returns whether it was gone.
    pub fn restore_users_branch(&mut self) -> bool {
        self.branches.insert(USERS_BRANCH.to_owned(), Some(0)).is_none()
    }

    /// Gives the files that are to be replaced the content of a tree.
    pub fn replace_files(&mut self, tree: usize, is_replaced: &dyn Fn(&str) -> bool) {
        let tree = self.find_tree(tree);
        self.work.retain(|path, _| !is_replaced(path));
        let replaced = tree.iter().filter(|(path, _)| is_replaced(path));
        self.work.extend(replaced.map(|(path, content)| (path.clone(), content.clone())));
    }

    /// Commits the work tree on a failure branch. Does nothing if that was done before.
    pub fn make_failure_branch(&mut self, order: &FailureBranchOrder) -> usize {
        if let Some((_, commit)) =
            self.failure_branches.iter().find(|(it, _)| it.mark == order.mark)
        {
            return *commit;
        }
        let tree = self.number_work_tree();
        let (head, mark) = (self.head, Some(order.mark.clone()));
        let commit = self.make_commit(tree, &order.message, mark);
        self.head = head;
        let mut order = order.clone();
        while self.branches.contains_key(&format!("refs/heads/{}", order.branch)) {
            order.branch.push_str("-2");
        }
        self.branches.insert(format!("refs/heads/{}", order.branch), Some(commit));
        self.failure_branches.push((order, commit));
        commit
    }

    /// Returns which files differ between two trees.
    pub fn list_touched(from: &Tree, to: &Tree) -> Vec<FileTouched> {
        let mut touched = Vec::new();
        for path in from.keys().chain(to.keys().filter(|path| !from.contains_key(*path))) {
            let action = match (from.get(path), to.get(path)) {
                (Some(before), Some(after)) if before == after => continue,
                (Some(_), Some(_)) => FileAction::Modified,
                (Some(_), None) => FileAction::Deleted,
                (None, _) => FileAction::Created,
            };
            touched.push(FileTouched { path: path.clone(), action });
        }
        touched
    }

    /// Returns whether a commit can be reached from the checked-out commit or from any ref.
    pub fn is_reachable(&self, commit: usize) -> bool {
        let kept = self.kept.values().map(|kept| kept.head);
        let mut tips = self.branches.values().copied().chain(kept).chain([self.head]);
        tips.any(|tip| self.list_ancestors(tip).any(|at| at == commit))
    }
}

/// A state to reset to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryState {
    /// The commit that is checked out.
    pub head: Option<usize>,
    /// The branch that is checked out.
    pub branch: String,
    pub tree: usize,
}

impl RepositoryState {
    /// Reads a checkpoint; `None` if there is nothing to reset to.
    pub fn from_checkpoint(
        checkpoint: &Checkpoint,
        repository: &SimulatedRepository,
    ) -> Option<Self> {
        let Checkpoint::Git { head, branch, tree } = checkpoint else { return None };
        let head = head.as_ref().and_then(parse_commit_id);
        let committed = || head.map(|head| repository.commits[head].tree);
        let tree = tree.as_ref().and_then(parse_tree_id).or_else(committed)?;
        Some(Self { head, branch: branch.clone()?, tree })
    }
}

/// Returns the id of a tree.
pub fn format_tree_id(number: usize) -> TreeId {
    TreeId(format!("tree-{number}"))
}

/// Returns the number of a tree.
pub fn parse_tree_id(TreeId(id): &TreeId) -> Option<usize> {
    id.strip_prefix("tree-")?.parse().ok()
}

/// Returns the id of a commit.
pub fn format_commit_id(number: usize) -> CommitId {
    CommitId(format!("commit-{number}"))
}

/// Returns the number of a commit.
pub fn parse_commit_id(CommitId(id): &CommitId) -> Option<usize> {
    id.strip_prefix("commit-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_referenced_while_something_leads_to_it() {
        let mut repository = SimulatedRepository::new(Tree::new());
        let write = |repository: &mut SimulatedRepository, text: &str| {
            repository.work.insert("file".to_owned(), FileContent::from_text(text));
            repository.number_work_tree()
        };
        assert!(repository.is_referenced(0), "a commit has it");
        let [one, two] = ["one", "two"].map(|text| write(&mut repository, text));
        assert!(!repository.is_referenced(one) && !repository.is_referenced(two));
        let at = |tree| Checkpoint::Git {
            head: Some(format_commit_id(0)),
            branch: Some(MAIN.to_owned()),
            tree: Some(format_tree_id(tree)),
        };
        repository.hold_tree(&at(one));
        assert!(repository.is_referenced(one));
        repository.hold_tree(&at(two));
        assert!(repository.is_referenced(two) && !repository.is_referenced(one));
        repository.note_checkpoint(&format_tree_id(one));
        assert!(repository.is_referenced(one));
    }
}
