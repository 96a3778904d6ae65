//! Files that would run with the rights of their owner, and very many files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use crate::users_refs::{all_backends, ralph_in};
use crate::{always, repository};

#[test]
fn setuid_and_setgid_bits_do_not_stay() {
    for backend in all_backends() {
        let sealed = repository();
        let command = "cp /bin/true a; cp /bin/true b; chmod 4755 a; chmod 2755 b; true";
        let calls = always(json!([{ "run": { "command": command } }, { "claim": "DONE" }]));
        sealed.write_script(&calls, &json!({}));
        sealed.commit_all("Settings");
        let end = ralph_in(&sealed, backend, &["run", "-p", "base", "-m", "1"]).expect_code(0);
        for name in ["a", "b"] {
            let mode = fs::metadata(sealed.project_dir().join(name)).expect("a file").mode();
            assert_eq!(mode & 0o6000, 0, "{backend}, {name}: {mode:o}");
        }
        let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("the agent set setuid or setgid bits"), "{backend}: {shown}");
    }
}

#[test]
fn a_scratch_directory_has_room_for_a_bounded_number_of_files() {
    if !all_backends().contains(&"native") {
        return;
    }
    let sealed = repository();
    sealed.write_script(&always(json!([])), &json!({ "sandbox": { "limits": { "tmp": "8M" } } }));
    let make =
        "i=0; while [ $i -lt 6000 ]; do true > /tmp/$i || exit 7; i=$((i+1)); done 2>/dev/null";
    let words = ["sandbox", "exec", "--", "sh", "-c", make];
    let end = ralph_in(&sealed, "native", &words);
    assert_eq!(end.code, Some(7), "{}", end.stderr);
}
