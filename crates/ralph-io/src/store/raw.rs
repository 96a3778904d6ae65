//! The agent's raw stream on disk, compressed.
//!
//! Not here: what the stream means, which the adapters know.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use zstd::stream::raw::{InBuffer, Operation as _, OutBuffer};

/// The fastest level shrinks a stream of JSON about eightfold; higher ones gain little more.
const COMPRESSION_LEVEL: i32 = 1;

/// How much of a stream is kept, uncompressed. Calls print some megabytes, a long night less than
/// this.
const MOST_BYTES: u64 = 256 << 20;

/// Writes a raw stream, up to a limit.
pub struct RawWriter {
    encoder: zstd::stream::write::Encoder<'static, File>,
    /// How many bytes may still be written.
    room: u64,
}

impl RawWriter {
    /// Creates a stream; replaces an earlier one at the path.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        let encoder = zstd::stream::write::Encoder::new(file, COMPRESSION_LEVEL)?;
        Ok(Self { encoder, room: MOST_BYTES })
    }

    /// Writes the next bytes, as far as there is room.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let kept = usize::try_from(self.room).map_or(bytes, |room| &bytes[..bytes.len().min(room)]);
        self.room -= kept.len() as u64;
        self.encoder.write_all(kept)
    }

    /// Passes everything to the system, so that it survives a crash of ralph.
    pub fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }

    /// Ends the stream.
    pub fn finish(self) -> io::Result<()> {
        self.encoder.finish().map(drop)
    }
}

/// Reads a raw stream. A truncated one ends where it was cut.
pub struct RawReader {
    decoder: zstd::stream::read::Decoder<'static, BufReader<File>>,
    end: Option<StreamEnd>,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    Finished,
    /// It was truncated by a crash or a full disk.
    Truncated,
}

impl RawReader {
    /// Opens a stream.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { decoder: zstd::stream::read::Decoder::new(File::open(path)?)?, end: None })
    }

    /// Returns how the stream ends, once all of it is read.
    pub fn end(&self) -> Option<StreamEnd> {
        self.end
    }
}

impl Read for RawReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.end.is_some() || buffer.is_empty() {
            return Ok(0);
        }
        match self.decoder.read(buffer) {
            Ok(0) => self.end = Some(StreamEnd::Finished),
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            // An incomplete frame, or bytes that a power failure left as zeros.
            Err(_) => self.end = Some(StreamEnd::Truncated),
        }
        Ok(0)
    }
}

/// Reads a raw stream as it grows. Nothing is read twice.
pub struct RawTail {
    file: File,
    decoder: zstd::stream::raw::Decoder<'static>,
    /// Compressed bytes, of which those in `held` are not decoded yet.
    piece: Vec<u8>,
    held: Range<usize>,
    offset: u64,
}

/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;

impl RawTail {
    /// Opens a stream at its beginning.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            decoder: zstd::stream::raw::Decoder::new()?,
            piece: vec![0; PIECE],
            held: 0..0,
            offset: 0,
        })
    }

    /// Returns how much of the file was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the current length of the file.
    pub fn length(&self) -> u64 {
        self.file.metadata().map_or(self.offset, |file| file.len())
    }
}

/// Returns 0 if there is nothing more yet; there may be later.
impl Read for RawTail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let mut taken = InBuffer::around(&self.piece[self.held.clone()]);
            let mut given = OutBuffer::around(&mut *buffer);
            self.decoder.run(&mut taken, &mut given)?;
            let (taken, given) = (taken.pos(), given.pos());
            self.held.start += taken;
            if given > 0 {
                return Ok(given);
            }
            if self.held.is_empty() {
                let count = self.file.read(&mut self.piece)?;
                self.held = 0..count;
                self.offset += count as u64;
            }
            if self.held.is_empty() {
                break;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> (Vec<u8>, Option<StreamEnd>) {
        let mut reader = RawReader::open(path).expect("opened");
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("never fails");
        (bytes, reader.end())
    }

    #[test]
    fn a_stream_comes_back_as_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent-1.ndjson.zst");
        let mut writer = RawWriter::create(&path).expect("created");
        writer.write(b"{\"a\":1}\n").expect("written");
        writer.flush().expect("flushed");
        // What was flushed is there although the stream is not finished.
        assert_eq!(read(&path), (b"{\"a\":1}\n".to_vec(), Some(StreamEnd::Truncated)));
        writer.write(b"\xff\n").expect("written");
        writer.finish().expect("finished");
        assert_eq!(read(&path), (b"{\"a\":1}\n\xff\n".to_vec(), Some(StreamEnd::Finished)));
    }

    #[test]
    fn a_stream_is_kept_up_to_its_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent-1.ndjson.zst");
        let mut writer = RawWriter::create(&path).expect("created");
        assert_eq!(writer.room, 256 * 1024 * 1024);
        writer.room = 10;
        for piece in [b"123456", b"789abc", b"defghi"] {
            writer.write(piece).expect("more than the limit is no error");
        }
        writer.finish().expect("finished");
        assert_eq!(read(&path), (b"123456789a".to_vec(), Some(StreamEnd::Finished)));
    }

    #[test]
    fn a_stream_is_read_once_while_it_grows() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent-1.ndjson.zst");
        let mut writer = RawWriter::create(&path).expect("created");
        let mut tail = RawTail::open(&path).expect("opened");
        let (mut whole, mut seen) = (Vec::new(), Vec::new());
        for number in 0..300_u32 {
            // Noise, so that pieces of the file are of all sizes.
            let noise: Vec<u8> =
                (0..number * 7).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
            writer.write(&noise).expect("written");
            whole.extend_from_slice(&noise);
            if number % 3 == 0 {
                writer.flush().expect("flushed");
                tail.read_to_end(&mut seen).expect("readable");
                assert_eq!(seen.len(), whole.len(), "what was flushed is there");
            }
        }
        writer.finish().expect("finished");
        tail.read_to_end(&mut seen).expect("readable");
        assert!(seen == whole, "it is the same");
        assert_eq!((tail.offset(), tail.read(&mut [0; 9]).expect("readable")), (tail.length(), 0));
        std::fs::write(&path, b"no stream").expect("written");
        assert!(RawTail::open(&path).expect("opened").read(&mut [0; 9]).is_err());
    }

    #[test]
    fn a_stream_cut_anywhere_gives_a_prefix() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent-1.ndjson.zst");
        let mut writer = RawWriter::create(&path).expect("created");
        let mut whole = Vec::new();
        for number in 0..20 {
            let line = format!("{{\"number\":{number}}}\n");
            writer.write(line.as_bytes()).expect("written");
            writer.flush().expect("flushed");
            whole.extend_from_slice(line.as_bytes());
        }
        writer.finish().expect("finished");
        let compressed = std::fs::read(&path).expect("readable");
        let mut longest = 0;
        for length in 0..compressed.len() {
            std::fs::write(&path, &compressed[..length]).expect("written");
            let (bytes, _) = read(&path);
            assert!(whole.starts_with(&bytes), "cut at {length}");
            longest = longest.max(bytes.len());
        }
        assert_eq!(longest, whole.len());
    }
}
