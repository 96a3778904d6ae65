//! `--config` with a file of `KEY=VALUE` lines, through the built binary: what each name does, and
//! that nothing in the file is ever executed.

use std::fs;
use std::os::unix::fs::symlink;

use ralph_testkit::sealed::{Finished, Sealed};
use serde_json::{Value, json};

use crate::dialects::{arguments, stand_in};
use crate::sealed;

/// A prompt that contains the completion response, which agents may echo.
const PROMPT: &str = "Do it.\nWhen all is \"done\", say <response>DONE</response>.";

/// Does not complete in its first call, and completes in the second.
const SECOND_TIME: &str =
    "if [ \"$call\" = 1 ]; then say 'Not yet.'; else say '<response>DONE</response>'; fi";

fn run(sealed: &Sealed, config: &str) -> Finished {
    sealed.write_file("config", config);
    // An invalid config cannot be trusted; the run reports its errors.
    sealed.run_ralph(&["trust", "--yes", "--config", "config"]);
    sealed.run_ralph(&["run", "-p", PROMPT, "--config", "config"])
}

fn recipe(sealed: &Sealed) -> Value {
    sealed.find_events("run_started")[0]["recipe"].clone()
}

#[test]
fn a_type_is_enough_to_drive_its_program_and_to_read_it() {
    for (kind, program, expect) in [
        ("amp", "amp", "--stream-json --dangerously-allow-all -x"),
        (
            "claude",
            "claude",
            "-p --output-format stream-json --verbose --dangerously-skip-permissions",
        ),
        ("cline", "cline", "--json Do it."),
        ("codex", "codex", "exec --json -s workspace-write"),
        ("text", "cline", ""),
    ] {
        let sealed = sealed();
        stand_in(&sealed, kind, program, SECOND_TIME);
        let end = run(&sealed, &format!("AGENT_TYPE=\"{kind}\"\n")).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 2, "{kind}: {}", end.stderr);
        let agent = &recipe(&sealed)["agent"];
        assert_eq!((&agent["kind"], &agent["command"]), (&json!(kind), &json!(program)));
        let calls = arguments(&sealed);
        assert!(calls[0].join(" ").starts_with(expect), "{kind}: {calls:?}");
        let asked = fs::read_to_string(sealed.root().join("prompt")).expect("it was asked");
        assert_eq!(asked.trim_end(), PROMPT, "{kind}");
        assert!(end.stderr.contains("Not yet."), "{kind}: {}", end.stderr);
    }
}

#[test]
fn a_wrapper_is_driven_and_read_as_its_type() {
    for kind in ["amp", "claude", "cline", "codex"] {
        let sealed = sealed();
        stand_in(&sealed, kind, "real", SECOND_TIME);
        sealed.write_program(
            "my wrapper",
            "#!/bin/sh\necho wrapped >> ../wrapped\nexec real \"$@\"\n",
        );
        let wrapper = sealed.bin_dir().join("my wrapper");
        let config = format!("AGENT_TYPE={kind}\nAGENT_CLI=\"'{}'\"\n", wrapper.display());
        run(&sealed, &config).expect_code(0);
        assert_eq!(sealed.find_events("replied")[0]["reply"]["text"], "Not yet.", "{kind}");
        assert_eq!(recipe(&sealed)["agent"]["kind"], kind);
        let calls = arguments(&sealed);
        assert!(calls[0].iter().any(|word| word.contains("json")), "{kind}: {calls:?}");
        let noted = fs::read_to_string(sealed.root().join("wrapped")).expect("it was called");
        assert!(noted.lines().count() >= 2, "{kind}: {noted}");
    }
}

#[test]
fn arguments_join_those_of_the_type() {
    for (kind, args, expect, never) in [
        ("claude", "-p --verbose --model 'opus x'", vec!["-p", "--model", "opus x"], "-p -p"),
        ("claude", "--print --output-format stream-json", vec!["--print"], "-p "),
        (
            "codex",
            "exec --json --sandbox read-only -",
            vec!["exec", "--json", "read-only"],
            "exec exec",
        ),
        ("amp", "-x --dangerously-allow-all --stream-json", vec!["-x", "--stream-json"], "-x -x"),
        ("cline", "--json -m fast", vec!["--json", "-m", "fast"], "--json --json"),
        ("text", "--one \"two words\"", vec!["--one", "two words"], "--json"),
    ] {
        let sealed = sealed();
        stand_in(&sealed, kind, "agent-cli", "say '<response>DONE</response>'");
        let config = format!(
            "AGENT_TYPE={kind}\nAGENT_CLI=agent-cli\nAGENT_ARGS='{}'\n",
            args.replace('\'', "'\\''")
        );
        run(&sealed, &config).expect_code(0);
        let words = arguments(&sealed).remove(0);
        for word in expect {
            let count = words.iter().filter(|it| *it == word).count();
            assert_eq!(count, 1, "{kind} {args}: {word} in {words:?}");
        }
        assert!(!words.join(" ").contains(never), "{kind} {args}: {words:?}");
    }
}

#[test]
fn program_arguments_keep_their_order() {
    let sealed = sealed();
    stand_in(&sealed, "text", "mine", "say '<response>DONE</response>'");
    run(&sealed, "AGENT_CLI=\"env MARK=1 mine --fast 'a b'\"\nAGENT_ARGS=last\n").expect_code(0);
    assert_eq!(arguments(&sealed), [["--fast", "a b", "last"]]);
    // The adapter's flags would be inserted between the arguments.
    run(&sealed, "AGENT_TYPE=claude\n\nAGENT_CLI=\"npx -y claude-code\"\n")
        .expect_code(2)
        .expect_stderr(
            "config:3:11: AGENT_CLI: the flags of claude would come between `npx` and `-y`",
        );
    assert_eq!(sealed.runs().len(), 1);
}

#[test]
fn text_output_is_requested_read_and_shown() {
    let sealed = sealed();
    stand_in(&sealed, "text", "claude", SECOND_TIME);
    let end = run(&sealed, "AGENT_TYPE=claude\nAGENT_OUTPUT_FORMAT=text\n").expect_code(0);
    assert!(end.stderr.contains("Not yet."), "{}", end.stderr);
    assert!(arguments(&sealed)[0].join(" ").contains("--output-format text"));
    let sealed = crate::sealed();
    stand_in(&sealed, "text", "mine", SECOND_TIME);
    let config = "AGENT_TYPE=text\nAGENT_CLI=mine\nAGENT_OUTPUT_FORMAT=text\n";
    let end = run(&sealed, config).expect_code(0);
    assert!(end.stderr.contains("Not yet."), "{}", end.stderr);
    let sealed = crate::sealed();
    stand_in(&sealed, "amp", "amp", SECOND_TIME);
    let end = run(&sealed, "AGENT_TYPE=amp\nAGENT_OUTPUT_FORMAT=text\n").expect_code(0);
    let reported = end.stderr.replace("\n  ", " ");
    assert!(
        reported.contains("config:2: AGENT_OUTPUT_FORMAT=text has no effect on amp"),
        "{reported}"
    );
    assert!(reported.contains("Not yet."), "{reported}");
}

/// Prints its own kind of JSON lines; one of them echoes the prompt.
const TALKER: &str = r#"#!/bin/sh
cat > /dev/null
echo 'loading model'
echo '{"type":"user","text":"say <response>DONE</response>"}'
echo '{"type":"assistant","content":[{"type":"text","text":"Working."},{"type":"tool_use","name":"ls"}]}'
echo '{"type":"assistant","content":[{"type":"text","text":"<response>DONE</response>"}]}'
"#;

#[test]
fn filters_are_read_from_their_jq_commands() {
    let response =
        r#"select(.type == "assistant") | .content[]? | select(.type == "text") | .text"#;
    let display = r#"if .type == "assistant" then (.content[]? | if .type == "tool_use" then "[" + .name + "]" else .text // empty end) else empty end"#;
    for (response, display) in [
        (response.to_owned(), format!("jq -rj --unbuffered '{display}'")),
        (
            format!("jq -r '{response}'"),
            format!("jq -r --unbuffered '{display}' 2>/dev/null || true"),
        ),
        (
            format!("jq -Rr 'fromjson? | {response}'"),
            format!("grep --line-buffered '^{{' | jq -rj '{display}'"),
        ),
    ] {
        let sealed = sealed();
        sealed.write_program("talker", TALKER);
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let config = format!(
            "AGENT_TYPE=text\nAGENT_CLI=talker\nAGENT_OUTPUT_FORMAT=json\n\
             AGENT_RESPONSE_FILTER=\"{}\"\nAGENT_DISPLAY_FILTER=\"{}\"\n",
            quoted(&response),
            quoted(&display)
        );
        let end = run(&sealed, &config).expect_code(0);
        let shown = end.stderr;
        assert!(shown.contains("Working.\n") && shown.contains("[ls]\n"), "{shown}");
        let reply = &sealed.find_events("replied")[0]["reply"];
        assert_eq!(reply["text"], "<response>DONE</response>", "{config}");
    }
}

#[test]
fn unsupported_filters_are_reported_with_position() {
    let sealed = sealed();
    sealed.write_program("talker", TALKER);
    let lead = "AGENT_TYPE=text\nAGENT_CLI=talker\nAGENT_OUTPUT_FORMAT=json\n";
    for (line, expect) in [
        (
            "AGENT_RESPONSE_FILTER=\"jq -f filter.jq\"",
            "config:4:23: AGENT_RESPONSE_FILTER: `jq -f` cannot be followed",
        ),
        (
            "AGENT_RESPONSE_FILTER='jq .text; touch ../ran'",
            "config:4:23: AGENT_RESPONSE_FILTER: `.text;` is shell syntax",
        ),
        (
            "AGENT_RESPONSE_FILTER='.text | gsub(\"a\"; \"b\")'",
            "config:4:23: `agent.responseFilter`: at character 9",
        ),
        (
            "AGENT_RESPONSE_FILTER=.text\nAGENT_DISPLAY_FILTER='touch ../ran'",
            "config:5:22: `agent.displayFilter`: at character 7: expected the end of the filter",
        ),
        (
            "",
            "config:3:21: AGENT_OUTPUT_FORMAT: the JSON of a program that is not known needs AGENT_RESPONSE_FILTER",
        ),
    ] {
        run(&sealed, &format!("{lead}{line}\n")).expect_code(2).expect_stderr(expect);
    }
    assert!(!sealed.root().join("ran").exists());
    assert_eq!(sealed.runs().len(), 0);
    // If they are not used, they are not errors.
    stand_in(&sealed, "claude", "claude", "say '<response>DONE</response>'");
    let end = run(&sealed, "AGENT_TYPE=claude\nAGENT_DISPLAY_FILTER='touch ../ran | jq -f x'\n");
    let reported = end.expect_code(0).stderr.replace("\n  ", " ");
    assert!(
        reported
            .contains("config:2: AGENT_DISPLAY_FILTER has no effect on an agent of type claude"),
        "{reported}"
    );
    assert!(!sealed.root().join("ran").exists());
}

#[test]
fn the_other_names_are_settings_and_variables() {
    let sealed = sealed();
    stand_in(&sealed, "text", "mine", "say '<response>DONE</response>'");
    run(
        &sealed,
        "AGENT_TYPE=text\nAGENT_CLI=mine\nSPECS_DIR=docs/specs\nMAX_RETRIES=7\nPROJECT_GOAL=\"Ship: it's \\\"v2\\\"\"\nEMPTY=\nRALPH_MAX_ITERATIONS=4\n",
    )
    .expect_code(0);
    let recipe = recipe(&sealed);
    assert_eq!(recipe["retries"]["max"], 7);
    assert_eq!(recipe["limits"]["iterations"], 4);
    assert_eq!(
        recipe["prompt"]["vars"],
        json!({ "PROJECT_GOAL": "Ship: it's \"v2\"", "EMPTY": "", "SPECS_DIR": "docs/specs" })
    );
    for (line, expect) in [
        ("MAX_RETRIES=many", "config:1:13: `retries.max`: expected a whole number"),
        ("MAX_RETRIES=-1", "config:1:13: `retries.max`"),
        ("MAX_RETRIES=1.5", "config:1:13: `retries.max`"),
        ("AGENT_TYPE=clod", "config:1:12: `agent.kind`"),
        (
            "AGENT_OUTPUT_FORMAT=xml",
            "config:1:21: AGENT_OUTPUT_FORMAT: expected json or text, found \"xml\"",
        ),
        ("AGENT_ARGS=\"it's open\"", "config:1:12: AGENT_ARGS: a closing ' is missing"),
    ] {
        run(&sealed, &format!("{line}\n")).expect_code(2).expect_stderr(expect);
    }
    run(&sealed, "").expect_code(2).expect_stderr("No agent is set.");
    assert_eq!(sealed.runs().len(), 1);
}

#[test]
fn flags_and_variables_count_more_than_the_file() {
    let sealed = sealed();
    stand_in(&sealed, "text", "mine", "say 'Hm.'");
    sealed.write_file("config", "AGENT_CLI=mine\nMAX_RETRIES=7\nRALPH_MAX_ITERATIONS=4\n");
    sealed.run_ralph(&["run", "-p", "x", "--config", "config", "-m", "1"]).expect_code(1);
    assert_eq!(recipe(&sealed)["limits"]["iterations"], 1);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "x", "--config", "config", "-m", "1"]).env("RALPH_RETRIES_MAX", "2");
    ralph_testkit::sealed::Running::start_command(command).wait_for_end().expect_code(1);
    assert_eq!(recipe(&sealed)["retries"]["max"], 2);
}

#[test]
fn the_forms_that_people_write_are_read() {
    let sealed = sealed();
    stand_in(&sealed, "text", "mine", "say '<response>DONE</response>'");
    let config = "# Agent\r\n\r\n\texport AGENT_TYPE='text'\t# the type\r\n  AGENT_CLI=mine\r\n\
                  AGENT_ARGS=\"--a \\\r\n  --b\"\r\nA=1\r\nA=2\r\nEMPTY=\r\nQUOTED=\"\"\r\n#last line";
    let end = run(&sealed, config).expect_code(0);
    assert!(
        end.stderr.contains("config:7: A is set again on line 8, which counts"),
        "{}",
        end.stderr
    );
    let vars = json!({ "A": "2", "EMPTY": "", "QUOTED": "", "SPECS_DIR": "specs" });
    assert_eq!(recipe(&sealed)["prompt"]["vars"], vars);
    assert_eq!(arguments(&sealed), [["--a", "--b"]]);
}

/// The tests of `settings::key_value` have all of the syntax.
#[test]
fn nothing_in_the_file_is_ever_run() {
    let sealed = sealed();
    stand_in(&sealed, "text", "mine", "say '<response>DONE</response>'");
    sealed.write_file("evil.sh", "touch ../ran\n");
    let lines = [
        ("AGENT_CLI=mine", ""),
        ("A=$(touch ../ran)", "2:3"),
        ("A=\"`touch ../ran`\"", "3:4"),
        ("A=x; touch ../ran", "4:4"),
        ("A=x > ../ran", "5:5"),
        ("source evil.sh", "6:1"),
        ("touch ../ran", "7:1"),
        ("A=<(touch ../ran)", "8:3"),
        ("A=(x $(touch ../ran))", "9:6"),
        ("MAX_RETRIES=z", "10:13"),
    ];
    let end = run(&sealed, &lines.map(|(line, _)| format!("{line}\n")).concat()).expect_code(2);
    for (line, place) in lines {
        assert!(end.stderr.contains(&format!("  config:{place}")), "{line}: {}", end.stderr);
    }
    assert!(!sealed.root().join("ran").exists());
    assert_eq!(sealed.runs().len(), 0);
    assert_eq!(arguments(&sealed).len(), 0);
}

#[test]
fn unreadable_config_is_reported_with_a_hint() {
    let sealed = sealed();
    let file = |name: &str, bytes: &[u8]| {
        fs::write(sealed.project_dir().join(name), bytes).expect("written");
    };
    file("bom", b"\xef\xbb\xbfAGENT_CLI=mine\n");
    file("utf-16", b"\xff\xfeA\0=\0x\0\n\0");
    file("latin-1", b"AGENT_CLI=mine\nNAME=caf\xe9\n");
    file("huge", &b"A=x\n".repeat(300_000));
    fs::create_dir(sealed.project_dir().join("folder")).expect("a directory");
    symlink("nowhere", sealed.project_dir().join("dangling")).expect("a link");
    for (name, expect) in [
        ("bom", "save it as UTF-8 without a byte-order mark"),
        ("utf-16", "begins with a byte-order mark"),
        ("latin-1", "is not UTF-8 text (line 2)"),
        ("huge", "is larger than 1 MiB"),
        ("folder", "is a directory"),
        ("dangling", "cannot be read"),
        ("missing", "no such file"),
    ] {
        let end = sealed.run_ralph(&["run", "-p", "x", "--config", name]).expect_code(2);
        let reported = end.stderr.replace("\n  ", " ");
        assert!(reported.contains(name) && reported.contains(expect), "{name}: {reported}");
    }
    assert_eq!(sealed.runs().len(), 0);
}
