//! The journals of workers on other machines, stored so that they are found like those of workers
//! on this one.

use std::io;
use std::path::Path;

use ralph_model::ids::WorkerId;

use super::layout::{
    CLONES_DIRECTORY, ProjectFile, RunDir, create_private_directories, format_state_name,
    write_json_unsynced,
};
use crate::atomic_file;

/// The state directory of imported runs is that of a clone in a slot that does not exist.
const NO_SLOT: &str = "s0";

/// Stores the journal of a worker, or a longer one. `top` is the work tree of its run.
pub fn import_journal(
    root: &Path,
    top: &Path,
    worker: &WorkerId,
    journal: &[u8],
) -> io::Result<()> {
    let name = format_state_name(top);
    let clone = root.join(CLONES_DIRECTORY).join(&name).join(NO_SLOT);
    let clone = clone.join(top.file_name().unwrap_or("project".as_ref()));
    let state = root.join(format!("remote-{name}"));
    let files = RunDir::from_path(state.join("runs").join(&worker.0));
    create_private_directories(files.path())?;
    write_json_unsynced(&state.join("project.json"), &ProjectFile { version: 1, path: clone })?;
    atomic_file::replace_unsynced(&files.journal_path(), journal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::layout::{find_worker_run, list_projects};

    #[test]
    fn an_imported_journal_is_found_and_its_place_is_no_project() {
        let directory = tempfile::tempdir().expect("a directory");
        let (root, worker) = (directory.path().join("state"), WorkerId("w".into()));
        let top = directory.path().join("app");
        for text in ["one\n", "one\ntwo\n"] {
            import_journal(&root, &top, &worker, text.as_bytes()).expect("stored");
            let found = find_worker_run(&root, &worker).expect("found");
            let journal = RunDir::from_path(found.state.join("runs/w")).journal_path();
            assert_eq!(std::fs::read_to_string(journal).expect("read"), text);
        }
        assert_eq!(list_projects(&root), []);
    }
}
