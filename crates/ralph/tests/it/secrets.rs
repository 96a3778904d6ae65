//! Secrets: masked wherever ralph writes, and refused in commits.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_io::store::raw::RawReader;
use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::repository;
use crate::users_refs::all_backends;

/// A secret in ralph's environment, and one in the agent's.
const CANARY: &str = "canary+7f/3a91-of-ralph";
const OTHER: &str = "sparrow-4711-of-agent";

/// A token that is recognized by its format.
const TOKEN: &str = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";

fn ralph(sealed: &Sealed, words: &[&str]) -> Finished {
    ralph_inside(sealed, "none", words)
}

fn ralph_inside(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("CANARY_TOKEN", CANARY).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

/// A shell command that prints the secrets in every encoding.
const PRINTS: &str = "for s in \"$CANARY_TOKEN\" \"$OTHER_SECRET\"; do \
     echo \"plain $s\"; printf %s \"$s\" | base64; printf x%s \"$s\" | base64; \
     printf xx%s \"$s\" | base64; printf %s \"$s\" | od -An -v -tx1 | tr -d ' \\n'; echo; \
     printf %s \"$s\" | sed 's|+|%2B|g;s|/|%2F|g'; done";

/// Texts that no file may contain: the secrets as they are, in base64, hexadecimal and URL
/// encoding.
fn forbidden() -> Vec<String> {
    let mut forms = Vec::new();
    for secret in [CANARY, OTHER] {
        forms.push(secret.to_owned());
        let digits: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        forms.push(digits.concat());
        forms.push(secret.replace('+', "%2B").replace('/', "%2F"));
    }
    // The base64 form, without the ends that depend on adjacent bytes.
    forms.extend(
        [
            "Y2FuYXJ5KzdmLzNhOTEtb2YtcmFscG",
            "NhbmFyeSs3Zi8zYTkxLW9mLXJhbHBo",
            "Y2FuYXJ5KzdmLzNhOTEtb2Y",
            "c3BhcnJvdy00NzExLW9mLWFnZW50",
            "NwYXJyb3ctNDcxMS1vZi1hZ2Vud",
            "zcGFycm93LTQ3MTEtb2YtYWdlbn",
        ]
        .map(str::to_owned),
    );
    forms.push(TOKEN.to_owned());
    forms
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found
}

/// Returns the content of a file, including raw streams.
fn content(path: &Path) -> String {
    let mut bytes = fs::read(path).expect("readable");
    if path.extension().is_some_and(|extension| extension == "zst") {
        bytes.clear();
        let mut reader = RawReader::open(path).expect("a stream");
        reader.read_to_end(&mut bytes).expect("readable");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn assert_nothing_leaked(sealed: &Sealed, ends: &[&Finished]) {
    let own = [sealed.project_dir().join(".ralph"), sealed.state_dir()];
    let mut seen = 0;
    for path in own.iter().flat_map(|place| files(place)).filter(|path| path.is_file()) {
        if path.ends_with("settings.json") {
            continue;
        }
        seen += 1;
        let text = content(&path);
        for form in forbidden() {
            assert!(!text.contains(&form), "{} holds {form}", path.display());
        }
    }
    assert!(seen > 5, "the run wrote {seen} files");
    for end in ends {
        for form in forbidden() {
            assert!(!end.stderr.contains(&form), "stderr shows {form}");
            assert!(!end.stdout.contains(&form), "stdout shows {form}");
        }
    }
    for message in sealed.run_git(&["log", "--all", "--format=%B"]).lines() {
        assert!(!forbidden().iter().any(|form| message.contains(form)), "{message}");
    }
}

#[test]
fn no_file_and_no_screen_shows_a_secret() {
    let sealed = repository();
    let says = format!("I found {CANARY}, {OTHER} and {TOKEN}.");
    let handoff = json!({ "handoff": {
        "task_completed": { "summary": says, "fully_complete": true },
        "key_decisions": [{ "decision": says, "rationale": TOKEN }]
    } });
    let work = |further: Value| {
        json!([
            { "run": { "command": "echo work >> work.txt" } },
            { "run": { "command": PRINTS, "show": "tool" } },
            { "delta": ["Half of it: ", &CANARY[..9], &CANARY[9..]] },
            { "stderr": &says },
            { "text": &says },
            further
        ])
    };
    let other = sealed.root().join("other-secret.txt");
    fs::write(&other, OTHER).expect("written");
    sealed.write_script(
        &json!([{ "do": work(handoff) }]),
        &json!({
            "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")], "env": { "OTHER_SECRET": OTHER } },
            "review": { "enabled": false },
            "gates": [{ "name": "leaky", "command": format!("OTHER_SECRET=$(cat {}); {PRINTS}; test $(wc -l < work.txt) -ge 2", other.display()) }],
        }),
    );
    let task = json!({ "id": "T1", "title": "One", "description": "Do it.", "status": "pending", "acceptance_criteria": ["a"] });
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task] }).to_string());
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    sealed.trust_project(&[]);
    let build = ralph(&sealed, &["build", "--verbose"]).expect_code(0);
    let report = ralph(&sealed, &["report"]).expect_code(0);
    let status = ralph(&sealed, &["status"]);
    assert!(build.stderr.contains("***"), "{}", build.stderr);
    assert!(sealed.prompts()[1].contains("plain ***"), "{}", sealed.prompts()[1]);
    assert_nothing_leaked(&sealed, &[&build, &report, &status]);
}

#[test]
fn everything_a_run_writes_is_for_its_owner_only() {
    let sealed = repository();
    sealed.write_script(
        &json!([{ "do": [{ "text": "Hello" }, { "claim": "DONE" }] }]),
        &json!({ "gates": [{ "name": "g", "command": "echo checked" }] }),
    );
    ralph(&sealed, &["run", "-p", "base"]).expect_code(0);
    // The index and copies of objects are git's, and in a directory closed to others.
    let users = [".ralph/settings.json".to_owned(), "index".to_owned()];
    let is_object = |path: &PathBuf| path.components().any(|it| it.as_os_str() == "git-objects");
    let mut places = files(&sealed.state_dir());
    places.extend(files(&sealed.project_dir().join(".ralph")));
    places.push(sealed.state_dir());
    let is_ours =
        |path: &PathBuf| !is_object(path) && !users.iter().any(|name| path.ends_with(name));
    for path in places.into_iter().filter(is_ours) {
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn agent_secrets_are_not_in_the_journal_and_resume_restores_them() {
    let sealed = repository();
    let settings = json!({
        "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")], "env": { "OTHER_SECRET": OTHER, "PLAIN": "x" } },
        "maximumIterations": 1,
    });
    let calls = json!([{ "do": [{ "run": { "command": "printf %s \"$OTHER_SECRET\" > seen.txt" } }, { "text": "Seen." }] }]);
    sealed.write_script(&calls, &settings);
    sealed.trust_project(&[]);
    ralph(&sealed, &["run", "-p", "base"]).expect_code(1);
    let started = &sealed.find_events("run_started")[0];
    assert_eq!(started["recipe"]["agent"]["env"], json!({ "OTHER_SECRET": "***", "PLAIN": "x" }));
    fs::remove_file(sealed.project_dir().join("seen.txt")).expect("removed");
    ralph(&sealed, &["resume", "--maximum-iterations", "2"]).expect_code(1);
    assert_eq!(sealed.read_file("seen.txt"), OTHER);
    sealed.write_script(&calls, &json!({}));
    let end = ralph(&sealed, &["resume", "--maximum-iterations", "3"]).expect_code(2);
    assert!(end.stderr.contains("OTHER_SECRET"), "{}", end.stderr);
}

#[test]
fn pages_mask_the_secrets_of_agents_or_leave_out_the_diff() {
    let sealed = repository();
    let settings = json!({
        "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")], "env": { "OTHER_SECRET": OTHER } },
        "maximumIterations": 1,
    });
    let command = "echo \"key = $OTHER_SECRET\" > config.txt; echo x > \"$OTHER_SECRET.txt\"";
    let calls = json!([{ "do": [{ "run": { "command": command } }, { "claim": "DONE" }] }]);
    sealed.write_script(&calls, &settings);
    sealed.trust_project(&[]);
    ralph(&sealed, &["run", "-p", "base"]);
    let page = ralph(&sealed, &["report", "--html", "-"]).expect_code(0).stdout;
    assert!(!page.contains(OTHER), "the page shows the secret: {page}");
    assert!(page.contains("+key = ***"), "{page}");
    // Without its value nothing can be masked, so nothing is shown.
    sealed.write_script(&calls, &json!({}));
    let page = ralph(&sealed, &["report", "--html", "-"]).expect_code(0).stdout;
    assert!(!page.contains(OTHER) && !page.contains("+key"), "{page}");
    let why = "The diff is not available: it may contain the secret `OTHER_SECRET`";
    assert!(page.contains(why), "{page}");
}

fn staged(commit: &str, agent_commits: &str) -> (Sealed, Value) {
    let sealed = repository();
    sealed.write_file(".gitignore", "/.ralph/\n");
    let clean = json!({ "when": { "promptContains": "hold secrets" }, "do": [
        { "run": { "command": format!("git rm -q --cached config.py 2>/dev/null; echo 'key = env()' > config.py; {agent_commits}") } },
        { "claim": "DONE" }
    ] });
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "Add it" }] },
        clean,
        { "do": [
            { "run": { "command": format!("printf 'a\\nkey = \"%s\"\\n' \"$CANARY_TOKEN\" > config.py; {agent_commits}") } },
            { "claim": "DONE" }
        ] }
    ]);
    let settings = match commit {
        "scm" => json!({ "scm": { "command": "git", "tasks": ["commit"] } }),
        who => json!({ "commit": who }),
    };
    sealed.write_script(&calls, &settings);
    sealed.commit_all("Settings");
    (sealed, calls)
}

#[test]
fn work_with_a_secret_is_refused_fed_back_and_never_committed() {
    for commit in ["ralph", "scm"] {
        let (sealed, _) = staged(commit, "true");
        let end = ralph(&sealed, &["run", "-p", "base"]).expect_code(0);
        let reported = sealed.prompts().into_iter().find(|it| it.contains("hold secrets"));
        let reported = reported.expect("feedback for the agent");
        assert!(reported.contains("- config.py:2: a known secret"), "{reported}");
        assert!(!reported.contains(CANARY));
        let history = sealed.run_git(&["log", "-p", "--all", "--format=%H"]);
        assert!(!history.contains(CANARY), "{commit}: {history}");
        assert!(history.contains("+key = env()"), "{commit}: {}", end.stderr);
    }
}

#[test]
fn a_secret_in_a_name_or_in_utf_16_is_not_committed() {
    let name = format!("mkdir -p d; echo x > d/{OTHER}.txt");
    let wide = |order: &str| {
        let units = OTHER.encode_utf16();
        let bytes: Vec<u8> = match order {
            "le" => units.flat_map(u16::to_le_bytes).collect(),
            _ => units.flat_map(u16::to_be_bytes).collect(),
        };
        let octal: Vec<String> = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        format!("printf '{}' > wide.txt", octal.concat())
    };
    let all = [name, wide("le"), wide("be")];
    let tried =
        all.iter().flat_map(|it| all_backends().into_iter().map(move |backend| (it, backend)));
    for (command, backend) in tried {
        let sealed = repository();
        let command = format!("echo ok > fine.txt; {command}");
        let calls = json!([{ "do": [{ "run": { "command": command } }, { "claim": "DONE" }] }]);
        sealed.write_script(
            &calls,
            &json!({
                "commit": "ralph",
                "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")],
                           "env": { "OTHER_SECRET": OTHER } },
            }),
        );
        sealed.write_file(".gitignore", "/.ralph/\n");
        sealed.commit_all("Settings");
        sealed.trust_project(&[]);
        let end = ralph_inside(&sealed, backend, &["run", "-p", "base", "-m", "1"]).expect_code(1);
        assert_eq!(sealed.subjects()[0], "Settings", "{backend}, {command}: {}", end.stderr);
        let refused = sealed.find_events("refused");
        assert_eq!(refused[0]["refusal"]["kind"], "secrets", "{command}");
        assert!(!end.stderr.contains(OTHER), "{}", end.stderr);
    }
}

#[test]
fn a_secret_between_invisible_characters_is_masked_on_disk() {
    for backend in all_backends() {
        let sealed = repository();
        let (start, rest) = OTHER.split_at(8);
        let prints = format!("printf '{start}\\033[0m{rest}\\n{start}\\342\\200\\213{rest}\\n'");
        let calls = json!([{ "do": [{ "run": { "command": prints, "show": "tool" } },
            { "write": { "path": "work.txt", "text": "work" } }, { "claim": "DONE" }] }]);
        sealed.write_script(
            &calls,
            &json!({
                "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")],
                           "env": { "OTHER_SECRET": OTHER } },
                "gates": [{ "name": "prints", "command": "cat printed" }],
            }),
        );
        let printed = format!("{start}\u{1b}[1m{rest}\n{start}\u{200b}{rest}\n");
        sealed.write_file("printed", &printed);
        sealed.trust_project(&[]);
        ralph_inside(&sealed, backend, &["run", "-p", "base", "-m", "1"]).expect_code(0);
        let own = sealed.state_dir();
        for path in files(&own).into_iter().filter(|path| path.is_file()) {
            let text = content(&path);
            let seen: String = text.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "");
            let seen = seen.replace('\u{200b}', "").replace("\\u001b[0m", "");
            assert!(!seen.contains(OTHER), "{backend}, {}: {text}", path.display());
        }
    }
}

#[test]
fn a_gate_with_the_name_of_a_refusal_is_another_thing() {
    let (sealed, calls) = staged("ralph", "true");
    let gate = json!({ "name": "secrets", "command": "true", "hint": "READ THE HANDBOOK" });
    sealed.write_script(&calls, &json!({ "commit": "ralph", "gates": [gate] }));
    ralph(&sealed, &["run", "-p", "base"]).expect_code(0);
    let kinds: Vec<Value> =
        sealed.find_events("refused").iter().map(|it| it["refusal"]["kind"].clone()).collect();
    assert_eq!(kinds, ["secrets"]);
    let results = sealed.find_events("gate_checked");
    assert!(results.iter().all(|it| it["result"]["status"] == "passed"), "{results:?}");
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("The work was refused (secrets)."), "{}", prompts[1]);
    assert!(!prompts[1].contains("READ THE HANDBOOK"), "{}", prompts[1]);
}

#[test]
fn a_secret_in_the_agents_own_commit_is_named_and_completion_refused() {
    let again = "git add -A && { git log -1 --format=%s | grep -q Mine && git commit -q --amend --no-edit || git commit -qm Mine; }";
    let (sealed, _) = staged("agent", again);
    ralph(&sealed, &["run", "-p", "base"]).expect_code(0);
    let verdicts = sealed.find_events("judged");
    assert_eq!(verdicts[0]["judgement"]["verdict"]["gates"], json!(["secrets"]));
    let history = sealed.run_git(&["log", "-p", "--format=%H"]);
    assert!(!history.contains(CANARY), "{history}");
}

#[test]
fn secret_patterns_can_be_allowed_but_known_values_cannot() {
    let sealed = repository();
    let text = |secret: &str| json!({ "write": { "path": "tests/fixture.txt", "text": secret } });
    let calls = json!([
        { "when": { "call": 1 }, "do": [text(TOKEN), { "claim": "DONE" }] },
        { "do": [text(CANARY), { "claim": "DONE" }] }
    ]);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.write_script(
        &calls,
        &json!({ "commit": "ralph", "secrets": { "allow": ["tests/**"] }, "maximumIterations": 1 }),
    );
    sealed.commit_all("Settings");
    ralph(&sealed, &["run", "-p", "base"]).expect_code(0);
    assert_eq!(sealed.read_file("tests/fixture.txt"), TOKEN);
    ralph(&sealed, &["run", "-p", "base"]).expect_code(1);
    assert_eq!(sealed.subjects().len(), 3);
}

/// The sample of jwt.io, and one that only has its shape.
const SAMPLE_JWT: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";

#[test]
fn public_samples_are_committed_and_the_end_names_the_setting_for_others() {
    let other = SAMPLE_JWT.replace("IkpvaG4gRG9l", "IkFubiBEb2Ui");
    for (token, code) in [(SAMPLE_JWT, 0), (other.as_str(), 1)] {
        let sealed = repository();
        let text = format!("token = '{token}'\n");
        let calls = json!([{ "do": [
            { "write": { "path": "tests/auth.py", "text": text } },
            { "write": { "path": "app/[id].ts", "text": text } },
            { "claim": "DONE" }
        ] }]);
        sealed.write_file(".gitignore", "/.ralph/\n");
        let further = json!({ "commit": "ralph", "secrets": { "allow": ["docs/**"] } });
        sealed.write_script(&calls, &further);
        sealed.commit_all("Settings");
        let end = ralph(&sealed, &["run", "-p", "base", "-m", "1"]).expect_code(code);
        let line = r#""secrets": { "allow": ["docs/**", "/app/\\[id\\].ts", "tests/auth.py"] }"#;
        assert_eq!(end.stderr.contains(line), code == 1, "{}", end.stderr);
        assert_eq!(sealed.subjects()[0] == "Settings", code == 1, "{}", end.stderr);
    }
}

#[test]
fn a_gate_with_a_secret_in_its_command_is_masked_and_runs_once() {
    let sealed = repository();
    let gate = format!("test \"{CANARY}\" != x");
    let gates = json!([{ "command": gate }, { "command": format!("{gate} && true") }]);
    let calls = json!([{ "do": [{ "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({ "gates": gates, "baseline": "require" }));
    let end = ralph(&sealed, &["run", "-p", "Do it."]).expect_code(0);
    assert!(!end.stderr.contains(CANARY), "{}", end.stderr);
    assert_eq!(sealed.find_events("baseline_checked").len(), 2);
}
