//! Objects of the repository, written and looked up without a process.
//!
//! Small objects that ralph makes itself (trees, checkpoints) are stored as loose objects, as git
//! would, but not compressed. Not here: reading objects other than commits with a file of their
//! own, and repositories with another hash than SHA-1, which git is asked about.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use crate::bounded_read;

/// The id of an object.
pub(super) type ObjectId = [u8; 20];

/// The most bytes in one stored block of a deflate stream.
const BLOCK: usize = 0xffff;

/// Longer commits are left to git.
const LARGEST_COMMIT: u16 = u16::MAX;

/// Where a pack index of version 2 has its table of first bytes, and the ids after it.
const FANOUT: u64 = 8;
const IDS: u64 = FANOUT + 256 * 4;

/// How many directories may borrow from each other; git follows five levels.
const MOST_OBJECT_DIRECTORIES: usize = 32;

/// Enough for a list of them.
const LARGEST_LIST: u64 = 1 << 20;

/// The object database of a repository.
#[derive(Debug)]
pub(super) struct ObjectStore {
    /// Where objects are written, and then the directories that it borrows from.
    directories: Vec<PathBuf>,
    packs: Vec<File>,
}

impl ObjectStore {
    /// Opens the objects of a git directory, and those that it borrows.
    pub(super) fn open(common: &Path) -> Self {
        let directories = list_object_directories(common.join("objects"));
        let entries = |directory: &PathBuf| fs::read_dir(directory.join("pack"));
        let entries = directories.iter().flat_map(entries).flatten().flatten();
        let indexes = entries.map(|entry| entry.path());
        let indexes = indexes.filter(|path| path.extension().is_some_and(|it| it == "idx"));
        let packs = indexes.filter_map(|path| open_pack_index(&path)).collect();
        Self { directories, packs }
    }

    /// Returns whether there is an object with this id.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.directories.iter().any(|it| build_path(it, id).is_file())
            || self.packs.iter().any(|pack| find_in_pack(pack, id).unwrap_or(false))
    }

    /// Writes an object, unless it is there, and returns its id.
    pub(super) fn write(&self, kind: &str, content: &[u8]) -> io::Result<ObjectId> {
        let id = hash_object(kind, content);
        if self.contains(&id) {
            return Ok(id);
        }
        let own = self.directories.first().ok_or(io::ErrorKind::NotFound)?;
        let path = build_path(own, &id);
        let directory = path.parent().unwrap_or(own);
        fs::create_dir_all(directory)?;
        let header = format_header(kind, content);
        let mut file = tempfile::Builder::new().prefix("tmp_obj_").tempfile_in(directory)?;
        file.write_all(&build_zlib_stream(&[header.as_bytes(), content].concat()))?;
        // git makes its objects read-only, and does not sync loose ones either.
        file.as_file().set_permissions(Permissions::from_mode(0o444))?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(id),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(id),
            Err(error) => Err(error.error),
        }
    }

    /// Reads a commit that has a file of its own.
    pub(super) fn read_commit(&self, id: &ObjectId) -> Option<Vec<u8>> {
        let mut paths = self.directories.iter().map(|directory| build_path(directory, id));
        let read = |path: PathBuf| bounded_read::read_file(&path, LARGEST_COMMIT.into()).ok();
        let stream = paths.find_map(read)?;
        let mut object = decompress_to_vec_zlib_with_limit(&stream, LARGEST_COMMIT.into()).ok()?;
        let header = object.iter().position(|byte| *byte == 0)? + 1;
        let content = object.split_off(header);
        (hash_object("commit", &content) == *id).then_some(content)
    }
}

fn build_path(directory: &Path, id: &ObjectId) -> PathBuf {
    let hex = format_id(id);
    directory.join(&hex[..2]).join(&hex[2..])
}

/// Returns an object directory and those that it borrows from.
pub(super) fn list_object_directories(own: PathBuf) -> Vec<PathBuf> {
    let mut open = vec![own];
    let mut found: Vec<PathBuf> = Vec::new();
    while let Some(directory) = open.pop() {
        let directory = directory.canonicalize().unwrap_or(directory);
        if found.contains(&directory) || found.len() == MOST_OBJECT_DIRECTORIES {
            continue;
        }
        let text = bounded_read::read_beginning(&directory.join("info/alternates"), LARGEST_LIST);
        for line in text.unwrap_or_default().split(|byte| *byte == b'\n') {
            if !line.is_empty() && !line.starts_with(b"#") {
                open.push(directory.join(OsStr::from_bytes(line)));
            }
        }
        found.push(directory);
    }
    found
}

/// Returns the id of an object.
pub(super) fn hash_object(kind: &str, content: &[u8]) -> ObjectId {
    let mut hasher = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hasher.update(format_header(kind, content).as_bytes());
    hasher.update(content);
    let mut id = ObjectId::default();
    id.copy_from_slice(hasher.finish().as_ref());
    id
}

/// Returns an id as text.
pub(super) fn format_id(id: &ObjectId) -> String {
    let mut text = String::with_capacity(id.len() * 2);
    for byte in id {
        text += &format!("{byte:02x}");
    }
    text
}

/// Parses an id.
pub(super) fn parse_id(text: &str) -> Option<ObjectId> {
    let mut id = ObjectId::default();
    if text.len() != id.len() * 2 || !text.is_ascii() {
        return None;
    }
    for (byte, place) in id.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[place..place + 2], 16).ok()?;
    }
    Some(id)
}

fn format_header(kind: &str, content: &[u8]) -> String {
    format!("{kind} {}\0", content.len())
}

/// Returns a zlib stream that holds some bytes as they are.
fn build_zlib_stream(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let count = bytes.len().div_ceil(BLOCK).max(1);
    for number in 0..count {
        let block = &bytes[number * BLOCK..bytes.len().min((number + 1) * BLOCK)];
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(number + 1 == count));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    stream.extend_from_slice(&(high << 16 | low).to_be_bytes());
    stream
}

/// Opens the index of a pack, if it is one of version 2.
fn open_pack_index(path: &Path) -> Option<File> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 8];
    file.read_exact(&mut head).ok()?;
    (head == *b"\xfftOc\0\0\0\x02").then_some(file)
}

fn find_in_pack(index: &File, id: &ObjectId) -> io::Result<bool> {
    let read_count = |number: u8| -> io::Result<u64> {
        let mut count = [0; 4];
        index.read_exact_at(&mut count, FANOUT + u64::from(number) * 4)?;
        Ok(u32::from_be_bytes(count).into())
    };
    let mut low = if id[0] == 0 { 0 } else { read_count(id[0] - 1)? };
    let mut high = read_count(id[0])?;
    while low < high {
        let middle = low + (high - low) / 2;
        let mut found = ObjectId::default();
        index.read_exact_at(&mut found, IDS + middle * 20)?;
        match found.cmp(id) {
            std::cmp::Ordering::Equal => return Ok(true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_ids_that_git_gives_them() {
        let id = format_id(&hash_object("tree", b""));
        assert_eq!(id, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let id = format_id(&hash_object("blob", b"hello\n"));
        assert_eq!(id, "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn a_stream_has_as_many_blocks_as_it_needs() {
        for (length, blocks) in [(0, 1), (1, 1), (BLOCK, 1), (BLOCK + 1, 2)] {
            let stream = build_zlib_stream(&vec![7; length]);
            assert_eq!(stream.len(), 2 + blocks * 5 + length + 4, "{length}");
        }
        assert_eq!(build_zlib_stream(b"abc"), b"\x78\x01\x01\x03\0\xfc\xffabc\x02\x4d\x01\x27");
    }
}
