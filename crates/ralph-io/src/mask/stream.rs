//! Masking of data that arrives in pieces, wherever they are split.
//!
//! Bytes that may be the beginning of a secret are held back until the next piece, but never a
//! complete line, so that readers of lines do not wait. Not here: what a secret is.

use std::borrow::Cow;
use std::io::{self, Write};

use ralph_core::checking::secret::shapes::{FollowingText, SecretShape};

use super::visible::measure_invisible;
use super::{Masker, keep_last_two, replace_spans};

/// More than this is not held back: a secret may have any number of characters of no width in it.
const MOST_HELD: usize = 128 * 1024;

/// Masks one stream.
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    /// Bytes that may be the beginning of a secret.
    held: Vec<u8>,
    /// The two bytes before those, and the two visible ones.
    contexts: [[u8; 2]; 2],
    /// The shape of a masked secret whose end has not arrived yet.
    inside: Option<&'static SecretShape>,
}

impl MaskStream {
    pub(super) fn new(masker: Masker) -> Self {
        Self { masker, held: Vec::new(), contexts: [[0; 2]; 2], inside: None }
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
        let contexts = std::mem::take(&mut self.contexts);
        self.masker.mask_bytes_after(contexts, &held).into_owned()
    }

    /// Skips the rest of a secret that was masked already.
    fn skip_masked<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(shape) = self.inside else { return bytes };
        let is_allowed = |place: usize| bytes.get(place).is_some_and(|it| shape.allows_byte(*it));
        let mut at = 0;
        while at < bytes.len() {
            if is_allowed(at) {
                at += 1;
                continue;
            }
            match measure_invisible(&bytes[at..]) {
                Some(length) if is_allowed(at + length) => at += length,
                Some(_) | None => {
                    self.inside = None;
                    break;
                }
            }
        }
        &bytes[at..]
    }

    fn mask_and_hold<'a>(&mut self, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let mut end = FollowingText::MoreMayCome;
        let mut found = self.masker.find_all(self.contexts, &bytes, end);
        if bytes.len() - found.hold > MOST_HELD {
            end = FollowingText::Ended;
            found = self.masker.find_all(self.contexts, &bytes, end);
        }
        let hold = found.hold;
        self.inside = found.continued.or(self.inside.take().filter(|_| bytes.is_empty()));
        self.held.extend_from_slice(&bytes[hold..]);
        self.contexts = [keep_last_two(self.contexts[0], &bytes[..hold]), found.visible];
        match (replace_spans(&bytes[..hold], &found.secrets), bytes) {
            (Some(clean), _) => Cow::Owned(clean),
            (None, Cow::Borrowed(bytes)) => Cow::Borrowed(&bytes[..hold]),
            (None, Cow::Owned(mut bytes)) => {
                bytes.truncate(hold);
                Cow::Owned(bytes)
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
