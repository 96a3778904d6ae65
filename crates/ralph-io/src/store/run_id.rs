//! New run ids such as `20261114-231500-k3f9`: sorted by time, never reused.
//!
//! Not here: the directories of runs (`layout`).

use std::fs::DirBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use ralph_model::ids::RunId;
use ralph_model::units::Timestamp;

use super::layout::{LayoutError, ProjectLayout, RunDir};

/// Letters and digits that are not easily confused.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A million ids per second are possible; so many collisions mean that something else is wrong.
const TRIES: u32 = 100;

/// Creates the directory of a new run, under an unused id.
pub fn create_run(layout: &ProjectLayout, now: Timestamp) -> Result<(RunId, RunDir), LayoutError> {
    let refused = |run: &RunDir, source| LayoutError::Refused {
        doing: "create",
        path: run.path().to_owned(),
        source,
    };
    let mut tries = 0;
    loop {
        let id = new_run_id(now);
        let run = layout.run_dir(&id);
        tries += 1;
        match DirBuilder::new().mode(0o700).create(run.path()) {
            Ok(()) => return Ok((id, run)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(error) => return Err(refused(&run, error)),
        }
    }
}

/// Returns an id for a run that begins now, in local time.
fn new_run_id(now: Timestamp) -> RunId {
    let moment = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    let local = moment.to_zoned(crate::clock::find_local_zone());
    // std seeds its hasher with random bytes from the system.
    let random = RandomState::new().hash_one(now.0);
    let suffix: String = (0..4_u64)
        .map(|place| ALPHABET[usize::try_from(random >> (place * 5) & 31).unwrap_or(0)])
        .map(char::from)
        .collect();
    RunId(format!("{}-{suffix}", local.strftime("%Y%m%d-%H%M%S")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_fresh_and_say_when_the_run_began() {
        let directory = tempfile::tempdir().expect("a directory");
        let layout =
            ProjectLayout::for_project(directory.path(), directory.path(), directory.path());
        let layout = layout.expect("located");
        layout.prepare_state().expect("prepared");
        let now = Timestamp(1_794_700_000_000);
        let ids: BTreeSet<RunId> =
            (0..50).map(|_| create_run(&layout, now).expect("made").0).collect();
        assert_eq!(ids.len(), 50);
        for RunId(id) in ids {
            let (time, chance) = id.split_at(16);
            assert!(time.starts_with("202611"), "{id}");
            assert_eq!(time.as_bytes()[8], b'-', "{id}");
            assert!(chance.bytes().all(|byte| ALPHABET.contains(&byte)), "{id}");
            assert_eq!(chance.len(), 4, "{id}");
        }
    }
}
