//! Lowering: turns shell text into the list of simple commands that it runs.
//!
//! Words are resolved as far as the text itself determines them; wrappers such as `sudo` are
//! removed; text that is passed to another shell is lowered too. Does not look at the files that a
//! command touches.

mod braces;
mod escapes;
mod expand;
mod launchers;
mod loops;
mod nested_code;
mod parameter;
mod parse;
mod printed_output;
mod simple;
mod walk;
mod wrappers;

#[cfg(test)]
mod tests;

pub use crate::command::{
    CommandExecution, Copies, LoweredScript, LoweringError, Redirect, RedirectMode, ShellCommand,
    ShellState,
};
pub use crate::word::Word;

pub(super) use crate::word::{STAR, UNKNOWN, has_marks, may_match};
pub(super) use launchers::is_launcher;
pub(super) use nested_code::{ShellSource, is_shell, parse_shell_source};
pub(super) use printed_output::{find_roots, new_find_placeholder, new_name_placeholder};

/// Lowers a shell text.
///
/// Always terminates and never fails: if the text cannot be lowered completely, `error` says why,
/// and the commands found so far are kept.
pub fn lower_text(text: &str, start: &ShellState) -> LoweredScript {
    let mut walker = walk::Walker::new(start);
    walker.walk_text(text);
    walker.finish()
}
