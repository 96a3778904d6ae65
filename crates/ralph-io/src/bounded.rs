//! Files of others, read up to a bound, whatever stands in their place.
//!
//! Not here: what is made of the bytes.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the first bytes of a regular file, at most this many. Links are followed; directories,
/// pipes and devices are errors.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe would wait for a writer; this opens it at once, to be refused below.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_files_are_read_and_never_too_much_of_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "abc").expect("written");
        for (most, expect) in [(0, ""), (2, "ab"), (3, "abc"), (u64::MAX, "abc")] {
            let read = read_beginning(&at("file"), most).expect("read");
            assert_eq!(read, expect.as_bytes(), "{most}");
        }
        let pipe = at("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
        for (path, expect) in [
            (directory.path().to_owned(), "it is a directory"),
            (pipe, "it is not a regular file"),
            ("/dev/zero".into(), "it is not a regular file"),
        ] {
            let error = read_beginning(&path, 9).expect_err("refused");
            assert_eq!(error.to_string(), expect);
        }
        let error = read_beginning(&at("nothing"), 9).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
