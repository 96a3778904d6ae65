//! From specifications to code with every agent preset, with a `KEY=VALUE` file for each.

use ralph_testkit::effort;
use ralph_testkit::sealed::Sealed;
use serde_json::json;

use super::{PLAN, commit_all};
use crate::dialects::stand_in;
use crate::repository;

/// Plans in its second call; then does one item in each call, and completes with the last.
const WORKER: &str = r"
plan=.ralph/implementation_plan.md
done_with() {
    echo $1 > $1.txt
    sed 's/- \[ \] '$1'/- [x] '$1'/' $plan > ../plan && cat ../plan > $plan
    git add -A && git commit -q -m $1
}
case $RALPH_ROLE,$call in
plan,1) say 'Reading.';;
plan,*) printf -- '- [ ] One\n- [ ] Two\n' > $plan; git add $plan && git commit -q -m Plan
        say '<promise>COMPLETE</promise>';;
build,3) done_with One; say 'One is done.';;
build,*) done_with Two; say 'All is done: <promise>COMPLETE</promise>';;
prompt,*) say 'Tidy. <promise>COMPLETE</promise>';;
esac";

fn scene(kind: &str, config: &str) -> Sealed {
    let sealed = repository();
    let program = if kind == "text" { "plain-agent" } else { kind };
    stand_in(&sealed, kind, program, WORKER);
    sealed.write_file("docs/specs/one.md", "# One\n\nThere is `One.txt`.\n");
    sealed.write_file("config", config);
    sealed.write_file(".gitignore", "/.ralph/logs/\n/.ralph/state.json\n");
    commit_all(&sealed, "Specify");
    sealed
}

/// The prompts contain the signal; an agent that echoes them has not completed.
#[test]
fn specifications_become_a_plan_and_the_plan_becomes_code() {
    let kinds = [
        ("amp", "AGENT_ARGS=\"-x --dangerously-allow-all --stream-json\"\n"),
        ("text", "AGENT_CLI=plain-agent\nAGENT_OUTPUT_FORMAT=text\n"),
        ("claude", "AGENT_ARGS=\"--model opus\"\n"),
        ("cline", ""),
        ("codex", "AGENT_ARGS=\"exec --json --full-auto -\"\n"),
    ];
    for (kind, more) in kinds.into_iter().take(effort::choose_count(5, 2)) {
        let config =
            format!("AGENT_TYPE={kind}\n{more}SPECS_DIR=docs/specs\nMAX_RETRIES=1\nTONE=brief\n");
        let sealed = scene(kind, &config);
        sealed.trust_project(&["--config", "config"]);
        let end = sealed.run_ralph(&["plan", "3", "--config", "config"]);
        assert_eq!(end.code, Some(0), "{kind}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("iteration_started").len(), 2, "{kind}:\n{}", end.stderr);
        assert!(sealed.prompts()[0].contains("docs/specs/"), "{kind}");
        assert!(sealed.prompts()[0].contains("<promise>COMPLETE</promise>"), "{kind}");
        assert_eq!(sealed.read_file(PLAN), "- [ ] One\n- [ ] Two\n", "{kind}");

        let end = sealed.run_ralph(&["build", "5", "--config", "config"]);
        assert_eq!(end.code, Some(0), "{kind}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("iteration_started").len(), 2, "{kind}:\n{}", end.stderr);
        assert_eq!(sealed.read_file(PLAN), "- [x] One\n- [x] Two\n", "{kind}");
        assert_eq!(sealed.subjects(), ["Two", "One", "Plan", "Specify", "Begin"], "{kind}");
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{kind}");
        let recipe = &sealed.find_events("run_started")[0]["recipe"];
        assert_eq!(
            (&recipe["agent"]["kind"], &recipe["retries"]["max"]),
            (&json!(kind), &json!(1))
        );

        sealed.write_file("tidy.md", "Be ${TONE} in ${MODE}.\nThen say ${SIGNAL}.\n");
        commit_all(&sealed, "Ask");
        let end = sealed.run_ralph(&["prompt", "tidy.md", "2", "--config", "config"]);
        assert_eq!(end.code, Some(0), "{kind}:\n{}", end.stderr);
        let expect = "Be brief in prompt.\nThen say <promise>COMPLETE</promise>.\n";
        assert_eq!(sealed.prompts(), [expect], "{kind}");
        assert_eq!(sealed.survivors(), [""; 0], "{kind}");
    }
}

/// An agent that only echoes its prompt, forever.
#[test]
fn an_echo_alone_completes_nothing() {
    let sealed = repository();
    stand_in(&sealed, "amp", "parrot", "say 'I am at it.'");
    sealed.write_file("specs/one.md", "# One\n");
    sealed.write_file(PLAN, "- [x] One\n");
    sealed.write_file("ask.md", "Say <promise>COMPLETE</promise>\n");
    sealed.write_file("config", "AGENT_TYPE=amp\nAGENT_CLI=parrot\n");
    sealed.write_file(".gitignore", "/.ralph/logs/\n/.ralph/state.json\n");
    commit_all(&sealed, "Specify");
    sealed.trust_project(&["--config", "config"]);
    for words in [["plan", "2"].as_slice(), &["build", "2"], &["prompt", "ask.md", "2"]] {
        let end = sealed.run_ralph(&[words, &["--config", "config"]].concat());
        assert_eq!(end.code, Some(1), "{words:?}:\n{}", end.stderr);
        assert!(end.stderr.contains("not complete after 2 iterations"), "{}", end.stderr);
        let raw = sealed.run_ralph(&["log", "--raw"]).expect_code(0).stdout;
        assert!(raw.contains("<promise>COMPLETE</promise>"), "{words:?}: {raw}");
    }
}
