//! Masking of data that arrives in pieces, wherever they are split.
//!
//! Bytes that may be the beginning of a secret are held back until the next piece, but never a
//! complete line, so that readers of lines do not wait. Not here: what a secret is.

use std::borrow::Cow;
use std::io::{self, Write};

use ralph_core::checking::secret::MASK;

use super::shapes::{FollowingText, SecretShape};
use super::{Masker, SearchResult, keep_last_two};

/// Masks one stream.
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    /// Bytes that may be the beginning of a secret.
    held: Vec<u8>,
    /// The two bytes before those.
    context: [u8; 2],
    /// The shape of a masked secret whose end has not arrived yet.
    inside: Option<&'static SecretShape>,
}

impl MaskStream {
    pub(super) fn new(masker: Masker) -> Self {
        Self { masker, held: Vec::new(), context: [0; 2], inside: None }
    }

    /// Takes the next bytes, and returns what can be released.
    pub fn mask_next<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = self.skip_masked(bytes);
        if self.held.is_empty() {
            return self.mask_and_hold(Cow::Borrowed(bytes));
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.mask_and_hold(Cow::Owned(joined))
    }

    /// Returns the bytes that were held back. Must be called at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.inside = None;
        let held = std::mem::take(&mut self.held);
        let context = std::mem::take(&mut self.context);
        self.masker.mask_bytes_after(context, &held).into_owned()
    }

    /// Skips the rest of a secret that was masked already.
    fn skip_masked<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(shape) = self.inside else { return bytes };
        let rest = bytes.iter().position(|byte| !shape.allows_byte(*byte));
        if rest.is_some() {
            self.inside = None;
        }
        &bytes[rest.unwrap_or(bytes.len())..]
    }

    fn mask_and_hold<'a>(&mut self, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let beginning = self.masker.find_possible_start(&bytes);
        let mut clean = Vec::new();
        let mut done = 0;
        let mut hold = beginning;
        let mut scan = self.masker.start_scan(self.context, &bytes, FollowingText::MoreMayCome);
        loop {
            match scan.find_merged(done) {
                SearchResult::Hit(found, None) if found.end > beginning => {
                    // It may be part of a longer pattern.
                    hold = beginning.min(found.start);
                    break;
                }
                SearchResult::Hit(found, continued) => {
                    clean.extend_from_slice(&bytes[done..found.start]);
                    clean.extend_from_slice(MASK.as_bytes());
                    done = found.end;
                    hold = hold.max(done);
                    self.inside = continued;
                }
                SearchResult::Open { start } => {
                    hold = hold.min(start);
                    break;
                }
                SearchResult::Nothing => break,
            }
        }
        self.held.extend_from_slice(&bytes[hold..]);
        self.context = keep_last_two(self.context, &bytes[..hold]);
        match bytes {
            Cow::Borrowed(bytes) if done == 0 => Cow::Borrowed(&bytes[..hold]),
            bytes @ (Cow::Borrowed(_) | Cow::Owned(_)) => {
                clean.extend_from_slice(&bytes[done..hold]);
                Cow::Owned(clean)
            }
        }
    }
}

/// Masks what is written to another writer, such as a terminal or a log.
#[derive(Debug)]
pub struct MaskWriter<W: Write> {
    stream: MaskStream,
    inner: W,
}

impl<W: Write> MaskWriter<W> {
    /// Returns a writer in front of another one.
    pub fn new(masker: &Masker, inner: W) -> Self {
        Self { stream: masker.new_stream(), inner }
    }
}

impl<W: Write> Write for MaskWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.stream.mask_next(bytes))?;
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
