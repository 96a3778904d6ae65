//! How much disk space a child uses: checked from time to time while it runs.
//!
//! Free space is checked often, since that costs next to nothing, and tells when a closer check is
//! due: a walk over the directories, whose cost decides how soon the next one may come. Neither is
//! a quota: what grows and shrinks between two checks is not seen, unlinked files show only as
//! missing free space, and what other programs write into these directories counts as well. Not
//! here: what follows from it (`limits`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ralph_model::child::Limit;

use super::pipes::ChildEvent;

/// How much disk space a child may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskLimit {
    /// The directories whose growth counts.
    pub roots: Vec<PathBuf>,
    /// By how many bytes they may grow together during one call.
    pub growth: u64,
    /// Further directories whose file systems must keep some free space.
    pub kept: Vec<PathBuf>,
}

impl DiskLimit {
    /// Returns limits for some directories, each counted once, and for further directories whose
    /// file systems must keep some free space.
    pub fn new(mut roots: Vec<PathBuf>, growth: u64, kept: Vec<PathBuf>) -> Self {
        roots.sort();
        roots.dedup();
        let all = roots.clone();
        roots.retain(|root| !all.iter().any(|above| root != above && root.starts_with(above)));
        Self { roots, growth, kept }
    }
}

/// How much must stay free for the journal, the logs and git; half of the free space at the start
/// if that is less.
const FREE_FLOOR: u64 = 256 << 20;

/// The time between two checks of free space: at first, and later on.
const SOONEST: Duration = Duration::from_millis(50);
const LATEST: Duration = Duration::from_secs(1);

/// Without a sign of growth, walks are at least this far apart; other programs may free what this
/// child uses.
const UNPROMPTED_PAUSE: Duration = Duration::from_secs(60);

/// Walks take at most this fraction of the time, with and without a sign of growth.
const PROMPTED_PART: u32 = 4;
const UNPROMPTED_PART: u32 = 50;

/// A tree with more entries is not walked to its end, and its growth is unknown.
const MOST_ENTRIES: u64 = 2_000_000;

/// Watches the disk while a child runs.
#[derive(Debug)]
pub(super) struct DiskGauge {
    shared: Arc<AtomicU8>,
    watcher: Option<Thread>,
}

const RUNNING: u8 = 0;
const GROWN: u8 = 1;
const FULL: u8 = 2;
const OVER: u8 = 3;

impl DiskGauge {
    /// Starts to watch. If no thread can be started, nothing is watched; the kernel's own limits
    /// still apply.
    pub(super) fn start(space: Option<&DiskLimit>, events: &SyncSender<ChildEvent>) -> Self {
        let shared = Arc::new(AtomicU8::new(RUNNING));
        let Some(space) = space.cloned() else { return Self { shared, watcher: None } };
        let (state, events) = (Arc::clone(&shared), events.clone());
        let started = thread::Builder::new().name("disk".to_owned()).spawn(move || {
            if let Some(found) = watch_disk(&space, &state) {
                let set =
                    state.compare_exchange(RUNNING, found, Ordering::SeqCst, Ordering::SeqCst);
                if set.is_ok() {
                    // The supervisor checks the gauge before every wait; a full channel means that
                    // it is awake.
                    let _ = events.try_send(ChildEvent::Wake);
                }
            }
        });
        Self { shared, watcher: started.ok().map(|handle| handle.thread().clone()) }
    }

    /// Returns the exceeded limit, if any.
    pub(super) fn exceeded_limit(&self) -> Option<Limit> {
        match self.shared.load(Ordering::SeqCst) {
            GROWN => Some(Limit::Growth),
            FULL => Some(Limit::Disk),
            _ => None,
        }
    }
}

impl Drop for DiskGauge {
    /// Makes the watcher exit; it checks at every entry of a walk. It is not waited for, as a file
    /// system may be slow.
    fn drop(&mut self) {
        self.shared.store(OVER, Ordering::SeqCst);
        if let Some(watcher) = &self.watcher {
            watcher.unpark();
        }
    }
}

/// Watches until a limit is exceeded or the gauge is dropped.
fn watch_disk(space: &DiskLimit, state: &AtomicU8) -> Option<u8> {
    let is_over = || state.load(Ordering::SeqCst) != RUNNING;
    let everywhere = || space.roots.iter().chain(&space.kept);
    let first = measure_free(everywhere());
    let floors = compute_floors(&first);
    let begun = Instant::now();
    let at_first = measure_used(&space.roots, &is_over);
    let mut walk = DiskWalk { took: begun.elapsed(), ended: Instant::now(), grown: 0 };
    let mut free_at_walk = first;
    let mut pause = SOONEST;
    while !is_over() {
        let now_free = measure_free(everywhere());
        if is_full(&floors, &now_free) {
            return Some(FULL);
        }
        if let Some(at_first) = at_first
            && walk.is_due(measure_drop(&free_at_walk, &now_free), space.growth)
        {
            let begun = Instant::now();
            let grown = measure_used(&space.roots, &is_over)?.saturating_sub(at_first);
            walk = DiskWalk { took: begun.elapsed(), ended: Instant::now(), grown };
            free_at_walk = now_free;
            if grown > space.growth {
                return Some(GROWN);
            }
        }
        thread::park_timeout(pause);
        pause = (pause * 2).min(LATEST);
    }
    None
}

/// The last walk.
struct DiskWalk {
    took: Duration,
    ended: Instant,
    grown: u64,
}

impl DiskWalk {
    /// Returns whether another walk is due, given how much free space has gone since.
    fn is_due(&self, gone: u64, growth: u64) -> bool {
        // Half of what is left: free and used space are not measured alike.
        let prompted = gone > growth.saturating_sub(self.grown) / 2;
        let rest = if prompted {
            self.took * PROMPTED_PART
        } else {
            UNPROMPTED_PAUSE.max(self.took * UNPROMPTED_PART)
        };
        self.ended.elapsed() >= rest
    }
}

/// Returns the free space on the file systems of some directories, by device.
fn measure_free<'a>(places: impl Iterator<Item = &'a PathBuf>) -> BTreeMap<u64, u64> {
    places
        .filter_map(|place| {
            let device = fs::metadata(place).ok()?.dev();
            let system = rustix::fs::statvfs(place).ok()?;
            Some((device, system.f_bavail.saturating_mul(system.f_frsize)))
        })
        .collect()
}

/// Returns how much must stay free, by device, given the free space at the start.
fn compute_floors(first: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    first.iter().map(|(device, free)| (*device, FREE_FLOOR.min(free / 2))).collect()
}

/// Returns whether any device has less free space than required.
fn is_full(floors: &BTreeMap<u64, u64>, free: &BTreeMap<u64, u64>) -> bool {
    free.iter().any(|(device, free)| floors.get(device).is_some_and(|floor| free < floor))
}

/// Returns by how much free space fell.
fn measure_drop(before: &BTreeMap<u64, u64>, now: &BTreeMap<u64, u64>) -> u64 {
    let falls =
        now.iter().filter_map(|(device, now)| Some(before.get(device)?.saturating_sub(*now)));
    falls.sum()
}

/// Returns how many bytes some directories use; none if they are too large, or the gauge is
/// dropped.
fn measure_used(roots: &[PathBuf], is_over: &dyn Fn() -> bool) -> Option<u64> {
    let mut entries = 0_u64;
    let mut bytes = 0_u64;
    for root in roots {
        let Ok(top) = fs::symlink_metadata(root) else { continue };
        let mut open: Vec<PathBuf> = Vec::new();
        bytes = bytes.saturating_add(measure_entry(&top));
        if top.is_dir() {
            open.push(root.clone());
        }
        while let Some(directory) = open.pop() {
            for (path, about) in list_directory(&directory) {
                entries += 1;
                if entries > MOST_ENTRIES || is_over() {
                    return None;
                }
                bytes = bytes.saturating_add(measure_entry(&about));
                // Other file systems below are not the project's, and may not respond.
                if about.is_dir() && about.dev() == top.dev() {
                    open.push(path);
                }
            }
        }
    }
    Some(bytes)
}

/// Lists a directory; skips entries that vanish in between.
fn list_directory(directory: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}

/// Returns how much disk space an entry uses. A file with several links counts in parts, so that
/// another link does not count as growth.
fn measure_entry(about: &fs::Metadata) -> u64 {
    let names = if about.is_dir() { 1 } else { about.nlink().max(1) };
    about.blocks().saturating_mul(512) / names
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn space(root: &Path, growth: u64) -> DiskLimit {
        DiskLimit::new(vec![root.join("."), root.to_owned()], growth, Vec::new())
    }

    #[test]
    fn a_tree_is_counted_once_by_its_disk_usage() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let never = || false;
        let empty = measure_used(&[root.to_owned()], &never).expect("small");
        fs::create_dir(root.join("a")).expect("made");
        fs::write(root.join("a/x"), vec![1; 100_000]).expect("written");
        fs::hard_link(root.join("a/x"), root.join("a/y")).expect("linked");
        std::os::unix::fs::symlink("/", root.join("a/everything")).expect("linked");
        let file = fs::File::create(root.join("holes")).expect("made");
        file.set_len(1 << 40).expect("long");
        let grown = measure_used(&[root.to_owned()], &never).expect("small") - empty;
        assert!((100_000..150_000).contains(&grown), "{grown}");
        assert_eq!(measure_used(&[root.join("none")], &never), Some(0));
        assert_eq!(measure_used(&[root.to_owned()], &|| true), None);
    }

    #[test]
    fn growth_is_found_while_it_happens_and_the_listener_woken() {
        let directory = tempfile::tempdir().expect("a directory");
        let (events, woken) = mpsc::sync_channel(1);
        let gauge = DiskGauge::start(Some(&space(directory.path(), 1 << 20)), &events);
        // Written again and again, as the first check may come late.
        for round in 0.. {
            fs::write(directory.path().join(round.to_string()), vec![1; 4 << 20]).expect("written");
            if woken.recv_timeout(Duration::from_millis(100)).is_ok() {
                break;
            }
            assert!(round < 50, "the supervisor was not woken");
        }
        assert_eq!(gauge.exceeded_limit(), Some(Limit::Growth));
    }

    #[test]
    fn nothing_is_watched_without_a_limit_and_nothing_found_without_growth() {
        let (events, _woken) = mpsc::sync_channel(1);
        assert_eq!(DiskGauge::start(None, &events).exceeded_limit(), None);
        let directory = tempfile::tempdir().expect("a directory");
        let gauge = DiskGauge::start(Some(&space(directory.path(), 1 << 30)), &events);
        assert_eq!(gauge.exceeded_limit(), None);
    }

    #[test]
    fn a_disk_is_full_below_a_floor_that_a_small_one_has_lower() {
        const MIB: u64 = 1 << 20;
        for (first, now, expect) in [
            (10_000, 257, false),
            (10_000, 255, true),
            (400, 201, false),
            (400, 199, true),
            (0, 0, false),
        ] {
            let at = |free: u64| BTreeMap::from([(1, free * MIB), (2, 9_000 * MIB)]);
            assert_eq!(is_full(&compute_floors(&at(first)), &at(now)), expect, "{first} {now}");
        }
        assert_eq!(
            measure_drop(&BTreeMap::from([(1, 9), (2, 5)]), &BTreeMap::from([(1, 4), (2, 8)])),
            5
        );
    }

    #[test]
    fn a_walk_is_due_by_its_cost_and_the_lost_space() {
        let ago = |seconds: u64| Instant::now().checked_sub(Duration::from_secs(seconds));
        let walk = |took: u64, since: u64, grown: u64| DiskWalk {
            took: Duration::from_secs(took),
            ended: ago(since).expect("a machine that runs for minutes"),
            grown,
        };
        for (walk, gone, expect) in [
            (walk(0, 1, 0), 60, true),
            (walk(0, 1, 0), 40, false),
            (walk(0, 1, 90), 6, true),
            (walk(1, 3, 0), 60, false),
            (walk(1, 5, 0), 60, true),
            (walk(0, 61, 0), 0, true),
            (walk(2, 61, 0), 0, false),
        ] {
            assert_eq!(walk.is_due(gone, 100), expect, "{gone}");
        }
    }
}
