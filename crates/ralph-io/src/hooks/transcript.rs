//! How much of its context window a session uses, from the tail of its transcript.
//!
//! A transcript is an append-only file of JSON lines; the record of each answer has the final token
//! counts. Not here: windows and thresholds (the core).

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ralph_model::units::Tokens;
use rustix::fs::OFlags;
use serde::Deserialize;

/// How much of the end is read, in steps: an answer is usually in the last few records, unless a
/// tool has printed a lot since. Reading a quarter of a megabyte at once takes a third of a
/// millisecond more, which is half the time of starting a process.
const TAILS: [u64; 4] = [32 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024];

/// English text has about four characters to a token.
const BYTES_PER_TOKEN: u64 = 4;

/// The use of the context window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextUsage {
    /// How many tokens are in the window.
    pub tokens: Tokens,
    /// The model; none if the number is only an estimate.
    pub model: Option<String>,
}

/// Reads the usage from the last answer in a transcript; estimates it from the size if no record
/// has it. None if there is no transcript.
pub fn read_context_usage(path: &Path) -> Option<ContextUsage> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let length = metadata.len();
    for tail in TAILS {
        let tail = tail.min(length);
        let bytes = read_tail(&mut file, length, tail)?;
        // The tail begins in the middle of a line, unless it is the whole file.
        let lines = if tail == length { bytes.as_slice() } else { skip_first_line(&bytes) };
        if let Some(usage) = find_last_usage(lines) {
            return Some(usage);
        }
        if tail == length {
            break;
        }
    }
    Some(ContextUsage { tokens: Tokens(length / BYTES_PER_TOKEN), model: None })
}

fn read_tail(file: &mut File, length: u64, tail: u64) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(length - tail)).ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(tail).ok()?);
    file.take(tail).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn skip_first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &bytes[end + 1..])
}

/// Returns the usage of the last answer. A line that is still being written does not parse, and the
/// one before it counts.
fn find_last_usage(lines: &[u8]) -> Option<ContextUsage> {
    lines.rsplit(|byte| *byte == b'\n').filter(|line| may_have_usage(line)).find_map(parse_usage)
}

/// Returns whether a line may be the record of an answer, without parsing it.
fn may_have_usage(line: &[u8]) -> bool {
    let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
    line.len() > 2 && has(b"\"usage\"") && has(b"\"assistant\"")
}

fn parse_usage(line: &[u8]) -> Option<ContextUsage> {
    let record: TranscriptRecord = serde_json::from_slice(line).ok()?;
    let message = record.message.filter(|_| record.kind == "assistant" && !record.is_sidechain)?;
    let figures = message.usage?;
    let tokens = [
        figures.input_tokens,
        figures.cache_read_input_tokens,
        figures.cache_creation_input_tokens,
        figures.output_tokens,
    ];
    let tokens = tokens.into_iter().flatten().fold(0, u64::saturating_add);
    // Messages of the CLI itself, such as an API error, are recorded as answers that used nothing.
    (tokens > 0).then_some(ContextUsage { tokens: Tokens(tokens), model: message.model })
}

#[derive(Deserialize)]
struct TranscriptRecord {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "isSidechain")]
    is_sidechain: bool,
    message: Option<TranscriptMessage>,
}

#[derive(Deserialize)]
struct TranscriptMessage {
    model: Option<String>,
    usage: Option<TokenCounts>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names are the transcript's")]
struct TokenCounts {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn answer(tokens: u64) -> String {
        format!(
            r#"{{"isSidechain":false,"message":{{"model":"m","usage":{{"input_tokens":3,"cache_read_input_tokens":{tokens},"output_tokens":7}}}},"type":"assistant"}}"#
        )
    }

    #[track_caller]
    fn check(text: &str, expect: Option<(u64, Option<&str>)>) {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let usage = read_context_usage(file.path());
        let read = usage.as_ref().map(|it| (it.tokens.0, it.model.as_deref()));
        assert_eq!(read, expect);
    }

    #[test]
    fn the_last_answer_counts() {
        let (first, last) = (answer(100), answer(200));
        check(&format!("{first}\n{last}\n"), Some((210, Some("m"))));
        check(&format!("{first}\n{{\"type\":\"user\"}}\n"), Some((110, Some("m"))));
        // One that is being written.
        check(&format!("{first}\n{}", &last[..60]), Some((110, Some("m"))));
        check(&format!("{first}\n{last}"), Some((210, Some("m"))));
        // A sidechain's, and a message of the CLI itself.
        let other = last.replace("\"isSidechain\":false", "\"isSidechain\":true");
        let nothing = r#"{"type":"assistant","message":{"model":"<synthetic>","usage":{"input_tokens":0,"output_tokens":0}}}"#;
        check(&format!("{first}\n{other}\n{nothing}\n"), Some((110, Some("m"))));
    }

    #[test]
    fn an_answer_far_from_the_end_is_found_and_then_estimated() {
        let noise = |bytes: usize| format!("{{\"type\":\"x\",\"y\":\"{}\"}}\n", "z".repeat(bytes));
        let first = answer(100);
        check(&format!("{first}\n{}", noise(900 * 1024)), Some((110, Some("m"))));
        check(&format!("{first}\n{}", noise(3 << 20)), Some((110, Some("m"))));
        let text = format!("{first}\n{}", noise(5 << 20));
        check(&text, Some((text.len() as u64 / 4, None)));
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "[\\[\\]{}\":,a-z0-9 \n-]{0,60}", cut in 0usize..200) {
            let whole = format!("{line}{}{line}", answer(5));
            let cut = cut.min(whole.len());
            let _ = find_last_usage(line.as_bytes());
            let _ = find_last_usage(&whole.as_bytes()[..cut]);
        }
    }

    #[test]
    fn a_missing_or_odd_transcript_is_ignored() {
        check("", Some((0, None)));
        check("garbage\n\n\"usage\" \"assistant\"\n", Some((7, None)));
        assert_eq!(read_context_usage(Path::new("/nowhere/at/all")), None);
        assert_eq!(read_context_usage(Path::new("/tmp")), None);
        assert_eq!(read_context_usage(Path::new("/dev/zero")), None);
    }
}
