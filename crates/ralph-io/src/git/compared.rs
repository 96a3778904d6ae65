//! A survey and the difference of its tree in one sandbox: starting a sandbox costs more than the
//! commands.
//!
//! Not here: what the difference means (`diff`, `scan`), and how everything is added (`shadow`).

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand, NotRun};
use super::repository::GitRepository;
use super::scan::{PATCH, PATIENCE};

/// What git is asked for in one script.
pub(super) enum SurveyQuery<'a> {
    Tree,
    /// The tree, and its difference from another one.
    Difference {
        /// The other tree.
        from: &'a str,
        /// Receives the list of changes, then the patch, in pieces.
        sink: &'a mut dyn FnMut(&[u8]),
    },
}

/// Whether the difference was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffOutput {
    /// All of it; empty if both trees are the same.
    Printed,
    /// Nothing that could be used.
    Missing,
}

/// The result of adding everything to an index.
#[derive(Debug)]
pub(super) struct AddResult {
    pub(super) ran: FinishedCommand,
    /// The tree, if it was asked for and written.
    pub(super) tree: Option<(String, DiffOutput)>,
}

impl AddResult {
    /// Runs the command that adds to an index, and in the same script those that print its tree and
    /// the difference. A difference that takes too long is not asked for again.
    pub(super) fn run_script<'a>(
        repository: &GitRepository,
        call: impl Fn() -> GitCommand<'a>,
        query: &mut SurveyQuery<'_>,
    ) -> Result<Self, VcsError> {
        if let SurveyQuery::Difference { from, sink } = query
            && is_object_id(from)
        {
            let commands = repository.commands.clone().with_patience(PATIENCE);
            let mut first = FirstOutputLine::default();
            let call = call().with_script(build_difference_script(from));
            match commands.run_streaming(call, &mut |bytes| sink(first.consume(bytes))) {
                Ok(ran) => return Ok(first.into_result(ran)),
                // How far it got is unknown. The plain command below reports what is wrong.
                Err(
                    NotRun::NotFound
                    | NotRun::TimedOut { .. }
                    | NotRun::Interrupted
                    | NotRun::Other { .. },
                ) => {}
            }
        }
        *query = SurveyQuery::Tree;
        let ran = repository.commands.run(call().with_script("{this} && exec {git} write-tree"))?;
        let mut first = FirstOutputLine::default();
        first.consume(&ran.stdout);
        let tree = first.tree_id().map(|tree| (tree, DiffOutput::Missing));
        Ok(Self { ran, tree })
    }
}

/// Returns a script that runs a command, then prints the tree of the index and its difference from
/// another one.
fn build_difference_script(tree: &str) -> String {
    let options = PATCH.join(" ");
    format!(
        "{{this}} && tree=$({{git}} write-tree) && echo \"$tree\" && {{ [ \"$tree\" = {tree} ] || \
         exec {{git}} diff-tree -r --raw -z {options} {tree} \"$tree\"; }}"
    )
}

/// The first line of an output.
#[derive(Debug, Default)]
struct FirstOutputLine {
    line: Vec<u8>,
    is_whole: bool,
}

impl FirstOutputLine {
    /// Consumes the bytes of the line, and returns the rest.
    fn consume<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.is_whole {
            return bytes;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        self.is_whole = end.is_some();
        let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        self.line.extend_from_slice(line);
        rest
    }

    /// Returns the tree id in the line.
    fn tree_id(&self) -> Option<String> {
        let id = std::str::from_utf8(&self.line).ok()?.strip_suffix('\n')?;
        is_object_id(id).then(|| id.to_owned())
    }

    fn into_result(self, mut ran: FinishedCommand) -> AddResult {
        let tree = self.tree_id().map(|tree| match ran.code {
            0 => (tree, DiffOutput::Printed),
            // The tree was written all the same.
            _ => (tree, DiffOutput::Missing),
        });
        if tree.is_some() {
            ran.code = 0;
        }
        AddResult { ran, tree }
    }
}

/// Returns whether a text is an object id, which needs no quoting in a shell.
pub(super) fn is_object_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_separated_from_the_rest_wherever_it_is_cut() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let output = format!("{id}\n:100644 a\nb\0");
        for size in 1..=output.len() {
            let mut first = FirstOutputLine::default();
            let mut rest = Vec::new();
            for piece in output.as_bytes().chunks(size) {
                rest.extend_from_slice(first.consume(piece));
            }
            assert_eq!(rest, b":100644 a\nb\0", "in pieces of {size}");
            assert_eq!(first.tree_id().as_deref(), Some(id));
        }
    }

    #[test]
    fn a_line_that_is_cut_or_something_else_names_no_tree() {
        for line in ["", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "error\n", "$(true)\n"] {
            let mut first = FirstOutputLine::default();
            assert_eq!(first.consume(line.as_bytes()), b"");
            assert_eq!(first.tree_id(), None, "{line:?}");
        }
    }
}
