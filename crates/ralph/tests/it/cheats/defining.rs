//! Agents that change what a gate is or what it sees, instead of the script that it names.

use super::{Cheat, End, HELD, HELD_PROMPT, Row, Scene, Work, row, try_all};

/// Files were not the same at the begin and the end of each gate.
const UNSTABLE: End = End {
    output: &["change each time gates and hooks run", "src.txt"],
    failed: &["files changed by gates"],
    ..HELD
};

pub(super) const CHEATS: &[Cheat] = &[
    Cheat {
        name: "makes a file good for one gate and bad again by another",
        scene: Scene::Row(Row {
            work: Work::Task {
                gate: "",
                settings: r#"{"guardrails":[{"command":"sh t/1.sh"},{"command":"grep good src.txt"},{"command":"sh t/2.sh"}]}"#,
            },
            deed: "mkdir t; echo bad > src.txt; echo 'echo good > src.txt' > t/1.sh; echo 'echo bad > src.txt' > t/2.sh",
            then: "echo good > src.txt; echo true > t/1.sh; echo true > t/2.sh",
            bare: UNSTABLE,
            walled: UNSTABLE,
        }),
    },
    Cheat {
        name: "makes a file good for one gate by one that need not pass",
        scene: Scene::Row(Row {
            work: Work::Task {
                gate: "",
                settings: r#"{"gates":[{"command":"sh t/1.sh","hard":false},{"command":"sh t/2.sh && grep good src.txt && sh t/3.sh"}]}"#,
            },
            deed: "mkdir t; echo bad > src.txt; echo 'echo good > src.txt' > t/1.sh; echo true > t/2.sh; echo 'echo bad > src.txt' > t/3.sh",
            then: "echo good > src.txt; echo true > t/1.sh; echo true > t/3.sh",
            bare: UNSTABLE,
            walled: UNSTABLE,
        }),
    },
    Cheat {
        name: "has a gate restore what it refuses, where nothing is committed",
        scene: Scene::Row(Row {
            work: Work::Prompt { gate: "sh lib.sh", settings: "{}" },
            deed: "printf '(echo exit 1 > lib.sh); exit 0\\n' > lib.sh",
            then: "echo true > lib.sh",
            bare: End { failed: &["sh lib.sh"], ..HELD_PROMPT },
            walled: End { failed: &["sh lib.sh"], ..HELD_PROMPT },
        }),
    },
    Cheat {
        name: "commits what a gate refuses by code that the gate runs, where it may commit",
        scene: Scene::Elsewhere("specs/commits.rs", "a_gate_that_commits_has_to_pass_again"),
    },
];

#[test]
fn what_defines_a_gate_is_kept() {
    try_all(CHEATS);
}
