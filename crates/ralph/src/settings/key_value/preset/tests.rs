//! Tests of presets.

use expect_test::{Expect, expect};

use super::*;

/// Reads lines such as `AGENT_TYPE=claude`.
#[track_caller]
fn check(lines: &str, expected: &Expect) {
    let value = |name: &str| {
        let lead = format!("{name}=");
        lines.lines().find_map(|line| line.trim().strip_prefix(&lead))
    };
    let preset = read_preset(&AgentVariables {
        kind: value(TYPE),
        cli: value(CLI),
        args: value(ARGS).map(AgentArgs::Text),
        format: value(FORMAT),
        response: value(RESPONSE),
        display: value(DISPLAY),
        has_delta_filter: false,
    });
    let mut shown = Vec::new();
    let mut show = |key: &str, value: Option<String>| {
        shown.extend(value.map(|value| format!("{key} {value}")));
    };
    show("kind", preset.kind.map(|(_, it)| it));
    show("command", preset.command.map(|(_, it)| it));
    show("flags", preset.flags.map(|(_, it)| it.join(" ")));
    show("streams", preset.streams.map(|(_, it)| it.to_string()));
    show("response", preset.response.map(|(_, it)| it));
    show("display", preset.display.map(|(_, it)| it));
    for (name, message) in preset.problems {
        show("problem", Some(format!("{name}: {message}")));
    }
    for (_, message) in preset.warnings {
        show("warning", Some(message));
    }
    expected.assert_eq(&shown.join("; "));
}

#[test]
fn a_type_alone_is_enough() {
    for (kind, expect) in [
        ("amp", expect!["kind amp; command amp"]),
        ("claude", expect!["kind claude; command claude"]),
        ("cline", expect!["kind cline; command cline"]),
        ("codex", expect!["kind codex; command codex"]),
        ("text", expect!["kind text; command cline"]),
        (" AMP ", expect!["kind AMP; command amp"]),
        ("custom", expect!["kind custom"]),
    ] {
        check(&format!("AGENT_TYPE={kind}"), &expect);
    }
    check("", &expect![""]);
}

#[test]
fn what_is_given_counts_more_than_the_type() {
    check(
        "AGENT_TYPE=claude\nAGENT_CLI=/opt/wrapper",
        &expect!["kind claude; command /opt/wrapper"],
    );
    check(
        "AGENT_TYPE=claude\nAGENT_ARGS=-p --model 'my model'",
        &expect!["kind claude; command claude; flags -p --model my model"],
    );
    check(
        "AGENT_TYPE=text\nAGENT_CLI=my-agent --fast\nAGENT_ARGS=-x",
        &expect!["kind text; command my-agent; flags --fast -x"],
    );
    check(
        "AGENT_CLI=claude --model opus\nAGENT_ARGS=--verbose",
        &expect!["command claude; flags --model opus --verbose"],
    );
}

#[test]
fn words_that_belong_before_the_flags_of_an_adapter_are_refused() {
    check(
        "AGENT_TYPE=claude\nAGENT_CLI=npx -y @anthropic-ai/claude-code",
        &expect![
            "kind claude; command npx; flags -y @anthropic-ai/claude-code; problem AGENT_CLI: the flags of claude would come between `npx` and `-y`; put the command into a script, and name that"
        ],
    );
    check("AGENT_CLI=npx -y tool", &expect!["command npx; flags -y tool"]);
    check("AGENT_TYPE=text\nAGENT_CLI=env A=1 x", &expect!["kind text; command env; flags A=1 x"]);
}

#[test]
fn codex_gets_its_subcommand_once() {
    for args in ["exec --json -m o3 -", "e --json -m o3", "--json -m o3"] {
        check(
            &format!("AGENT_TYPE=codex\nAGENT_ARGS={args}"),
            &expect!["kind codex; command codex; flags --json -m o3"],
        );
    }
    check("AGENT_CLI=codex exec\nAGENT_ARGS=--json", &expect!["command codex; flags --json"]);
}

#[test]
fn text_is_asked_for_where_that_can_be_done() {
    check(
        "AGENT_TYPE=claude\nAGENT_OUTPUT_FORMAT=text\nAGENT_ARGS=--model opus",
        &expect!["kind claude; command claude; flags --output-format text --model opus"],
    );
    check(
        "AGENT_TYPE=codex\nAGENT_OUTPUT_FORMAT=TEXT",
        &expect!["kind codex; command codex; streams false"],
    );
    check(
        "AGENT_TYPE=text\nAGENT_CLI=mine\nAGENT_OUTPUT_FORMAT=text",
        &expect!["kind text; command mine"],
    );
    check(
        "AGENT_TYPE=amp\nAGENT_OUTPUT_FORMAT=text",
        &expect![
            "kind amp; command amp; warning AGENT_OUTPUT_FORMAT=text has no effect on amp: its events are read, and shown as text"
        ],
    );
    check(
        "AGENT_OUTPUT_FORMAT=xml",
        &expect![[r#"problem AGENT_OUTPUT_FORMAT: expected json or text, found "xml""#]],
    );
}

#[test]
fn filters_count_for_programs_that_are_not_known() {
    check(
        "AGENT_CLI=mine\nAGENT_RESPONSE_FILTER=jq -r '.text'",
        &expect!["kind custom; command mine; response .text"],
    );
    check(
        "AGENT_TYPE=text\nAGENT_CLI=mine\nAGENT_OUTPUT_FORMAT=json",
        &expect![
            "kind text; command mine; streams true; problem AGENT_OUTPUT_FORMAT: the JSON of a program that is not known needs AGENT_RESPONSE_FILTER, which selects its answer"
        ],
    );
    check(
        "AGENT_TYPE=text\nAGENT_CLI=mine\nAGENT_DISPLAY_FILTER=sed s/a/b/",
        &expect![
            "kind text; command mine; warning AGENT_DISPLAY_FILTER has no effect on an agent of type text, which is read without it"
        ],
    );
    // A filter that only jq supports is no mistake if it is not used.
    check(
        "AGENT_TYPE=claude\nAGENT_RESPONSE_FILTER=gsub(\"a\"; \"b\")",
        &expect![
            "kind claude; command claude; warning AGENT_RESPONSE_FILTER has no effect on an agent of type claude, which is read without it"
        ],
    );
    check(
        "AGENT_CLI=mine\nAGENT_RESPONSE_FILTER=.a\nAGENT_DISPLAY_FILTER=jq -f x.jq",
        &expect![
            "kind custom; command mine; response .a; problem AGENT_DISPLAY_FILTER: `jq -f` cannot be followed; write the filter without it"
        ],
    );
}
