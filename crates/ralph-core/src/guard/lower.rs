//! Lowering: turns shell text into the list of simple commands that it runs.
//!
//! Words are resolved as far as the text itself determines them; wrappers such as `sudo` are
//! removed; text that is passed to another shell is lowered too. Does not look at the files that a
//! command touches.

mod braces;
mod codec;
mod command;
mod expand;
mod fold;
mod parameter;
mod parse;
mod rounds;
mod simple;
mod walk;
mod within;
mod word;
mod wrap;

#[cfg(test)]
mod tests;

pub use command::{Command, Copies, Lowered, Redirect, RedirectMode, Setting, Start, Trouble};
pub use word::Word;

pub(super) use codec::{base64, hex};
pub(super) use fold::{find_roots, found_name, name_of_found};
pub(super) use within::{ShellWords, is_shell, shell_code};
pub(super) use word::{GLOBS, STAR, UNKNOWN};

/// Lowers a shell text.
///
/// Always terminates and never fails: if the text cannot be lowered completely, `error` says why,
/// and the commands found so far are kept.
pub fn lower(text: &str, start: &Start) -> Lowered {
    let mut walker = walk::Walker::new(start);
    walker.whole(text);
    walker.finish()
}
