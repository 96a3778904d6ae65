//! Lowering: a shell text becomes the plain list of the commands that it runs.
//!
//! Words are resolved as far as the text itself tells what they are; wrappers such as `sudo` are
//! peeled off; text that is handed to another shell is lowered in its turn. Not here: what a
//! command does to files, and whether it may.

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

/// Lowers a text.
///
/// Always ends, and never fails: what cannot be lowered is in [`Lowered::trouble`], beside
/// everything that was found until then.
pub fn lower(text: &str, start: &Start) -> Lowered {
    let mut walker = walk::Walker::new(start);
    walker.whole(text);
    walker.finish()
}
