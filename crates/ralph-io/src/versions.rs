//! The versions of installed programs, cached until the program changes.
//!
//! Starting an agent CLI just to read its version costs up to a second; a run reads the cache
//! file instead. The cache may be lost or damaged at any time: programs are then asked again. Not
//! here: what a version can do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_model::child::Ending;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::version::Version;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::environment::{self, Variables};
use crate::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output, find_program};
use crate::store::layout::{create_private_directories, write_json};

/// Programs print their version within a second; node on a busy machine takes several.
const PATIENCE: Duration = Duration::from_secs(20);

/// A version is in the first lines of the output.
const MAX_BYTES: usize = 64 * 1024;

/// The launcher of a version manager stays the same while the program behind it changes.
const LONGEST_MEMORY: Millis = Millis::from_mins(24 * 60);

/// Variables that keep programs from updating themselves and from coloring output.
const QUIET: [(&str, &str); 4] = [
    ("DISABLE_AUTOUPDATER", "1"),
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("NO_COLOR", "1"),
];

/// The cached versions, and how to find out others.
#[derive(Debug)]
pub struct Versions {
    file: Option<PathBuf>,
    known: BTreeMap<PathBuf, CachedVersion>,
}

/// The cache file, with one entry for each program.
#[derive(Debug, Default, Serialize, Deserialize)]
struct VersionCacheFile {
    version: u32,
    programs: BTreeMap<PathBuf, CachedVersion>,
}

/// The file's size and time when it was asked, and its version; none if it printed no version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CachedVersion {
    size: u64,
    modified: i64,
    asked: Timestamp,
    #[serde(rename = "said")]
    answer: Option<Version>,
}

/// The format version of the cache file.
const FORM: u32 = 1;

/// Where and with which environment programs run.
#[derive(Debug, Clone, Copy)]
pub struct ProgramContext<'a> {
    pub directory: &'a Path,
    pub env: &'a [(OsString, OsString)],
    pub watch: &'a Watch,
}

impl Versions {
    /// Reads the cache file in a cache directory; without a directory nothing is cached.
    pub fn open(cache: Option<PathBuf>) -> Self {
        let file = cache.map(|directory| directory.join("agents.json"));
        let memory: Option<VersionCacheFile> = file
            .as_ref()
            .and_then(|file| fs::read(file).ok())
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let known = memory.filter(|memory| memory.version == FORM).map(|memory| memory.programs);
        Self { file, known: known.unwrap_or_default() }
    }

    /// Returns the version of a program; runs it unless its version is cached.
    pub fn find_version(&mut self, program: &str, place: ProgramContext<'_>) -> Option<Version> {
        let spawn = build_version_spawn(program, place);
        let (path, now) = identify_program(&spawn)?;
        if let Some(known) = self.find_fresh(&path, &now) {
            return known.answer;
        }
        let captured = capture_output(&spawn, place.watch, MAX_BYTES);
        let text = |bytes: &[u8]| Version::find_in(&String::from_utf8_lossy(bytes));
        // An error message about the flag may contain the version of something else.
        let said = captured
            .end
            .ending
            .is_success()
            .then(|| text(&captured.stdout).or_else(|| text(&captured.stderr)))
            .flatten();
        self.known.insert(path, CachedVersion { answer: said, ..now });
        self.write_cache();
        said
    }

    /// Returns the cached version of a program; starts nothing.
    pub fn find_cached_version(&self, program: &str, place: ProgramContext<'_>) -> Option<Version> {
        let (path, now) = identify_program(&build_version_spawn(program, place))?;
        self.find_fresh(&path, &now)?.answer
    }

    fn find_fresh(&self, path: &Path, now: &CachedVersion) -> Option<&CachedVersion> {
        self.known.get(path).filter(|known| {
            let age = now.asked.0.saturating_sub(known.asked.0);
            let is_young = age >= 0 && age.cast_unsigned() <= LONGEST_MEMORY.0;
            is_young && (known.size, known.modified) == (now.size, now.modified)
        })
    }

    /// Writes the cache file. Losing it costs a second.
    fn write_cache(&self) {
        let Some(file) = &self.file else { return };
        let memory = VersionCacheFile { version: FORM, programs: self.known.clone() };
        let _ = file
            .parent()
            .map_or(Ok(()), create_private_directories)
            .and_then(|()| write_json(file, &memory));
    }
}

/// Runs a program that reports something and returns what it printed, if it exits with an error.
pub fn capture_refusal(
    program: &str,
    args: &[&'static str],
    place: ProgramContext<'_>,
) -> Option<String> {
    let args = args.iter().map(Into::into).collect();
    let spawn = Spawn { args, ..build_version_spawn(program, place) };
    let captured = capture_output(&spawn, place.watch, MAX_BYTES);
    let text = [captured.stdout, captured.stderr].concat();
    let has_failed = matches!(captured.end.ending, Ending::Exited { code } if code != 0);
    has_failed.then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Returns ralph's cache directory: `$XDG_CACHE_HOME/ralph`, else `~/.cache/ralph`.
pub fn find_cache_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|directory| directory.join("ralph"))
}

fn build_version_spawn(program: &str, place: ProgramContext<'_>) -> Spawn {
    let quiet = QUIET.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env: Variables = environment::adjust_variables(place.env, &[], &BTreeMap::from(quiet));
    Spawn {
        program: program.into(),
        args: vec!["--version".into()],
        // Version managers choose by directory, so it must be the one the agent works in.
        cwd: place.directory.to_owned(),
        env,
        stdin: StdinSource::Null,
        limits: ProcessLimits {
            hard: Some(PATIENCE),
            grace: Duration::from_millis(500),
            ..ProcessLimits::default()
        },
    }
}

/// Returns the program file with links resolved, and its current size and time.
fn identify_program(spawn: &Spawn) -> Option<(PathBuf, CachedVersion)> {
    let path = find_program(spawn).ok()?.canonicalize().ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let modified = metadata.mtime().saturating_mul(1_000_000_000) + metadata.mtime_nsec();
    let now = CachedVersion { size: metadata.size(), modified, asked: clock::now(), answer: None };
    Some((path, now))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Bench {
        directory: tempfile::TempDir,
        watch: Watch,
        env: Variables,
    }

    impl Bench {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let path = format!("{}:/usr/bin:/bin", directory.path().display());
            let env = vec![("PATH".into(), path.into())];
            Self { directory, watch: Watch::new_detached(), env }
        }

        fn program(&self, text: &str) {
            let path = self.directory.path().join("agent");
            fs::write(&path, format!("#!/bin/sh\necho x >> asked\n{text}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }

        fn cache(&self) -> PathBuf {
            self.directory.path().join("cache/ralph")
        }

        fn versions(&self) -> Versions {
            Versions::open(Some(self.cache()))
        }

        fn place(&self) -> ProgramContext<'_> {
            ProgramContext { directory: self.directory.path(), env: &self.env, watch: &self.watch }
        }

        fn asked(&self) -> usize {
            let asked = fs::read_to_string(self.directory.path().join("asked"));
            asked.unwrap_or_default().lines().count()
        }
    }

    #[test]
    fn a_program_is_asked_once_until_it_changes() {
        let bench = Bench::new();
        bench.program("echo 'agent 1.2.3 (Test)'");
        assert_eq!(bench.versions().find_cached_version("agent", bench.place()), None);
        assert_eq!(bench.asked(), 0);
        for _ in 0..3 {
            let version = bench.versions().find_version("agent", bench.place());
            assert_eq!(version, Some(Version::new(1, 2, 3)));
        }
        assert_eq!(bench.asked(), 1);
        let remembered = bench.versions().find_cached_version("agent", bench.place());
        assert_eq!(remembered, Some(Version::new(1, 2, 3)));
        bench.program("echo 'agent 1.10.0 (Test)'");
        let version = bench.versions().find_version("agent", bench.place());
        assert_eq!((version, bench.asked()), (Some(Version::new(1, 10, 0)), 2));
    }

    #[test]
    fn a_program_that_says_no_version_is_remembered_as_well() {
        for text in ["exit 1", "echo hello", "echo 'unknown option in node 22.1.0' >&2; exit 2"] {
            let bench = Bench::new();
            bench.program(text);
            assert_eq!(bench.versions().find_version("agent", bench.place()), None, "{text}");
            assert_eq!(bench.versions().find_version("agent", bench.place()), None, "{text}");
            assert_eq!(bench.asked(), 1, "{text}");
        }
        let bench = Bench::new();
        assert_eq!(bench.versions().find_version("no-such-agent", bench.place()), None);
    }

    #[test]
    fn garbage_and_outdated_entries_are_asked_again() {
        let bench = Bench::new();
        bench.program("echo 1.2.3");
        let file = bench.cache().join("agents.json");
        for garbage in ["", "{", "[]", r#"{"version":1,"programs":{"/x":7}}"#, r#"{"version":9}"#] {
            fs::create_dir_all(bench.cache()).expect("a directory");
            fs::write(&file, garbage).expect("written");
            let version = bench.versions().find_version("agent", bench.place());
            assert_eq!(version, Some(Version::new(1, 2, 3)), "{garbage}");
        }
        let before = bench.asked();
        let mut versions = bench.versions();
        for known in versions.known.values_mut() {
            known.asked = Timestamp(known.asked.0 - 25 * 3_600_000);
        }
        versions.find_version("agent", bench.place());
        assert_eq!(bench.asked(), before + 1);
    }

    #[test]
    fn a_cache_that_cannot_be_written_only_costs_time() {
        let bench = Bench::new();
        bench.program("echo 1.2.3");
        for cache in [None, Some(PathBuf::from("/proc/ralph"))] {
            let mut versions = Versions::open(cache);
            assert_eq!(versions.find_version("agent", bench.place()), Some(Version::new(1, 2, 3)));
        }
    }

    #[test]
    fn the_cache_has_its_place() {
        let of = |set: &[(&str, &str)]| {
            find_cache_directory(|name| {
                set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).into())
            })
        };
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.cache/ralph".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Some("/c/ralph".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "c")]), None);
    }
}
