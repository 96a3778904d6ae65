//! Masking of what comes in pieces, wherever they are cut.
//!
//! What may be the beginning of a secret is held back until the next piece, but never a line that
//! is complete: the reader of lines waits for nothing. Not here: what a secret is.

use std::borrow::Cow;
use std::io::{self, Write};

use ralph_core::secret::MASK;

use super::shapes::{After, Shape};
use super::{Masker, Search, last_two};

/// Masks one stream.
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
    /// What was taken in before that.
    context: [u8; 2],
    /// The secret whose end has not come yet.
    inside: Option<&'static Shape>,
}

impl MaskStream {
    pub(super) fn new(masker: Masker) -> Self {
        Self { masker, held: Vec::new(), context: [0; 2], inside: None }
    }

    /// Takes in the next bytes, and returns what can be said already.
    pub fn feed<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = self.skip(bytes);
        if self.held.is_empty() {
            return self.clean(Cow::Borrowed(bytes));
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.clean(Cow::Owned(joined))
    }

    /// Returns what was held back when nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        self.inside = None;
        let held = std::mem::take(&mut self.held);
        let context = std::mem::take(&mut self.context);
        self.masker.bytes_after(context, &held).into_owned()
    }

    /// Leaves out the rest of a secret that was masked already.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(shape) = self.inside else { return bytes };
        let rest = bytes.iter().position(|byte| !shape.takes(*byte));
        if rest.is_some() {
            self.inside = None;
        }
        &bytes[rest.unwrap_or(bytes.len())..]
    }

    fn clean<'a>(&mut self, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let beginning = self.masker.beginning(&bytes);
        let mut clean = Vec::new();
        let mut done = 0;
        let mut hold = beginning;
        let mut look = self.masker.look(self.context, &bytes, After::MoreMayCome);
        loop {
            match look.search(done) {
                Search::Hit(found, None) if found.end > beginning => {
                    // It may be a part of something longer.
                    hold = beginning.min(found.start);
                    break;
                }
                Search::Hit(found, goes_on) => {
                    clean.extend_from_slice(&bytes[done..found.start]);
                    clean.extend_from_slice(MASK.as_bytes());
                    done = found.end;
                    hold = hold.max(done);
                    self.inside = goes_on;
                }
                Search::Open { start } => {
                    hold = hold.min(start);
                    break;
                }
                Search::Nothing => break,
            }
        }
        self.held.extend_from_slice(&bytes[hold..]);
        self.context = last_two(self.context, &bytes[..hold]);
        match bytes {
            Cow::Borrowed(bytes) if done == 0 => Cow::Borrowed(&bytes[..hold]),
            bytes @ (Cow::Borrowed(_) | Cow::Owned(_)) => {
                clean.extend_from_slice(&bytes[done..hold]);
                Cow::Owned(clean)
            }
        }
    }
}

/// Masks what is written to something, such as a terminal or a log.
#[derive(Debug)]
pub struct MaskWriter<W: Write> {
    stream: MaskStream,
    inner: W,
}

impl<W: Write> MaskWriter<W> {
    /// Returns a writer in front of another one.
    pub fn new(masker: &Masker, inner: W) -> Self {
        Self { stream: masker.stream(), inner }
    }
}

impl<W: Write> Write for MaskWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.stream.feed(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for MaskWriter<W> {
    /// Writes what was held back, if that is still possible.
    fn drop(&mut self) {
        let rest = self.stream.finish();
        let _ = self.inner.write_all(&rest).and_then(|()| self.inner.flush());
    }
}
