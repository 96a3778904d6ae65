//! Tests of layers and of whole error reports.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use ralph_model::ids::Role;
use serde_json::json;

use super::*;
use crate::settings::check::tests::shorten_kinds;
use crate::settings::problem::Position;
use crate::settings::types::quantity::DurationSetting;

fn file(path: &str, text: &str) -> SettingsFile {
    SettingsFile { path: path.into(), text: text.into(), author: FileAuthor::Project }
}

fn base(text: &str) -> SettingsSources {
    SettingsSources { base: Some(file(".ralph/settings.json", text)), ..SettingsSources::default() }
}

fn with_local(text: &str, local: &str) -> SettingsSources {
    SettingsSources { local: Some(file(".ralph/settings.local.json", local)), ..base(text) }
}

fn env(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
}

fn position(line: usize, column: usize, name: &str) -> SettingOrigin {
    SettingOrigin::File { path: name.into(), position: Position { line, column } }
}

#[track_caller]
fn fails(sources: SettingsSources, expected: &Expect) {
    let mistakes = load_settings(sources).expect_err("a mistake").to_string();
    expected.assert_eq(&shorten_kinds(&mistakes));
}

#[test]
fn globs_that_cannot_be_read_are_located() {
    let text = "{\n  \"protect\": [\"src/**\", \"[\"],\n  \"secrets\": { \"allow\": [\"[\"] }\n}";
    let error = load_settings(base(text)).expect_err("two mistakes").to_string();
    for expect in
        [".ralph/settings.json:2:25: `protect[1]`", ".ralph/settings.json:3:26: `secrets.allow[0]`"]
    {
        assert!(error.contains(expect), "{expect}: {error}");
    }
}

#[test]
fn without_any_source_there_are_the_defaults() {
    let loaded = load_settings(SettingsSources::default()).expect("defaults");
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.find_origin("maxTurns"), &SettingOrigin::Default);
}

#[test]
fn later_layers_win_and_every_value_knows_its_origin() {
    let sources = SettingsSources {
        env: env(&[("RALPH_MAX_TURNS", "30"), ("RALPH_MODEL", "opus"), ("HOME", "/")]),
        flags: vec![FlagSetting::new("--model", "agent.model", json!("haiku"))],
        ..with_local(
            "{\n \"agent\": {\"command\": \"claude\", \"flags\": [\"--model opus\"]},\n \"maxTurns\": 5,\n \"commitPrefix\": \"x\"\n}",
            "{\"agent\": {\"flags\": [\"--verbose\"]},\n \"maxTurns\": 6}",
        )
    };
    let loaded = load_settings(sources).expect("valid");
    let agent = &loaded.settings.agent;
    assert_eq!(agent.command.as_deref(), Some("claude"));
    assert_eq!(agent.flags, Some(vec!["--verbose".into()]));
    assert_eq!(agent.model.as_deref(), Some("haiku"));
    assert_eq!(loaded.settings.max_turns, Some(30));
    let origins = [
        ("agent.command", position(2, 23, ".ralph/settings.json")),
        ("agent.flags", position(1, 21, ".ralph/settings.local.json")),
        ("agent.flags[0]", position(1, 22, ".ralph/settings.local.json")),
        ("agent.model", SettingOrigin::Flag { name: "--model".into() }),
        ("maxTurns", SettingOrigin::Env { name: "RALPH_MAX_TURNS".into() }),
        ("commitPrefix", position(4, 18, ".ralph/settings.json")),
        ("agent.skipPermissions", SettingOrigin::Default),
    ];
    for (path, origin) in origins {
        assert_eq!(loaded.find_origin(path), &origin, "{path}");
    }
    let files: Vec<PathBuf> =
        [".ralph/settings.json", ".ralph/settings.local.json"].map(Into::into).to_vec();
    assert_eq!((loaded.files, loaded.warnings), (files, Vec::new()));
}

/// Each takes the square of its length if every key is looked for among all others.
#[test]
fn a_file_of_many_keys_is_read_in_time() {
    let keys = |count: usize| (0..count).map(|number| (format!("K{number}"), json!("x")));
    let vars: Map<String, Value> = keys(5_000).collect();
    let loaded = load_settings(base(&json!({ "vars": vars }).to_string())).expect("valid");
    assert_eq!(
        loaded.find_origin("vars.K4999").to_string().split(':').next(),
        Some(".ralph/settings.json")
    );
    let unknown: Map<String, Value> = keys(5_000).collect();
    let error = load_settings(base(&Value::from(unknown).to_string())).expect_err("unknown keys");
    assert_eq!(error.problems.len(), 5_000);
}

#[test]
fn a_shorter_list_leaves_no_origin_behind() {
    let loaded = load_settings(with_local(r#"{"protect": ["a", "b"]}"#, r#"{"protect": ["c"]}"#));
    let origins = loaded.expect("valid").origins;
    assert!(!origins.contains_key(&JsonPath::parse("protect[1]")));
}

#[test]
fn five_mistakes_are_reported_at_once() {
    fails(
        base(
            r#"{
  "maximumIterations": "ten",
  "maxTurn": 3,
  "agent": { "command": "claude", "kind": "cluade" },
  "guardrails": [
    { "command": "make test", "failAction": "APEND" },
    { "hint": "no command" }
  ],
  "timeouts": { "idle": "10 minutes" }
}"#,
        ),
        &expect![[r#"
            .ralph/settings.json:2:24: `maximumIterations`: expected a whole number of at least 1, found "ten"
            .ralph/settings.json:3:3: unknown key `maxTurn` (did you mean `maxTurns`?)
            .ralph/settings.json:4:43: `agent.kind`: expected KINDS, found "cluade" (did you mean "claude"?)
            .ralph/settings.json:6:45: `guardrails[0].failAction`: expected "APPEND", "PREPEND" or "REPLACE", found "APEND" (did you mean "APPEND"?)
            .ralph/settings.json:7:5: `guardrails[1]`: `command` is missing
            .ralph/settings.json:9:25: `timeouts.idle`: `10 minutes` is not a duration; write for example "90s", "12m" or "1h30m""#]],
    );
}

#[test]
fn mistakes_of_all_layers_come_together() {
    fails(
        SettingsSources {
            env: env(&[("RALPH_MAX_ITERATIONS", "many"), ("RALPH_GUARDRAILS", "make")]),
            flags: vec![FlagSetting::new("--review-cap", "review.cap", json!(0))],
            ..with_local("{\"scm\": {\"tasks\": [\"commit\"]}, \"a\": 1}", "{\n\"agent\": 3\n}")
        },
        &expect![[r#"
            RALPH_GUARDRAILS: expected a list as JSON: expected value at line 1 column 1
            .ralph/settings.json:1:32: unknown key `a`
            .ralph/settings.local.json:2:10: `agent`: expected an object, found 3
            RALPH_MAX_ITERATIONS: expected a whole number of at least 1, found "many"
            --review-cap: expected a whole number of at least 1, found 0
            .ralph/settings.json:1:19: `scm.tasks`: needs `scm.command`, such as "git""#]],
    );
}

#[test]
fn an_object_and_a_word_name_both_places() {
    fails(
        with_local("{\n  \"agent\": {\"command\": \"x\"}}", "{\"agent\": \"claude\"}"),
        &expect![[
            r#".ralph/settings.local.json:1:11: `agent`: expected an object, found "claude" (it is an object at .ralph/settings.json:2:12)"#
        ]],
    );
}

#[test]
fn a_broken_file_does_not_make_the_rest_look_wrong() {
    fails(
        with_local("{\"scm\": {\"command\": \"git\"},}", "{\"scm\": {\"tasks\": [\"commit\"]}}"),
        &expect![
            ".ralph/settings.json:1:28: not valid JSON: trailing comma (remove the comma after the last entry)"
        ],
    );
    fails(
        base("{\"scm\": {\"command\": 5, \"tasks\": [\"commit\"]}}"),
        &expect![".ralph/settings.json:1:21: `scm.command`: expected a string, found 5"],
    );
    fails(base("[]"), &expect![".ralph/settings.json:1:1: expected an object, found a list"]);
}

#[test]
fn a_single_limit_is_the_hard_one_and_layers_merge() {
    let loaded = load_settings(with_local(
        r#"{"timeouts": {"test": "3m", "global": {"soft": "10m"}}}"#,
        r#"{"timeouts": {"global": 1200}}"#,
    ))
    .expect("valid");
    let timeouts = &loaded.settings.timeouts;
    let pair = |soft, hard| (DurationSetting::from_mins(soft), DurationSetting::from_mins(hard));
    // The default soft limit of 5m goes down with the hard one.
    assert_eq!((timeouts.test.soft, timeouts.test.hard), pair(3, 3));
    assert_eq!((timeouts.global.soft, timeouts.global.hard), pair(10, 20));
    assert_eq!(loaded.find_origin("timeouts.test.hard"), &position(1, 23, ".ralph/settings.json"));
}

#[test]
fn a_soft_limit_beyond_the_hard_one_is_a_mistake() {
    fails(
        with_local(r#"{"timeouts": {"test": {"soft": "20m"}}}"#, r#"{"timeouts": {"spec": "0s"}}"#),
        &expect![[r"
            .ralph/settings.json:1:32: `timeouts.test.soft`: the soft limit 20m is longer than the hard limit 10m
            .ralph/settings.local.json:1:23: `timeouts.spec.hard`: must be longer than 0"]],
    );
}

#[test]
fn null_unsets_what_an_earlier_layer_set() {
    let loaded = load_settings(with_local(
        r#"{"agent": {"model": "opus"}}"#,
        r#"{"agent": {"model": null}}"#,
    ));
    assert_eq!(loaded.expect("valid").settings.agent.model, None);
}

#[test]
fn a_key_value_file_is_recognized_by_its_content() {
    let given = |path: &str, text: &str| SettingsSources {
        base: Some(file(path, text)),
        ..SettingsSources::default()
    };
    let loaded = load_settings(given("ralph.conf", "# c\nRALPH_MAX_TURNS=7\n")).expect("valid");
    assert_eq!(loaded.settings.max_turns, Some(7));
    assert_eq!(loaded.find_origin("maxTurns"), &position(2, 17, "ralph.conf"));
    let loaded = load_settings(given("ralph.conf", "\n {\"maxTurns\": 7}")).expect("valid");
    assert_eq!(loaded.settings.max_turns, Some(7));
    fails(given("x.json", "A=1"), &expect!["x.json:1:1: not valid JSON: expected value"]);
    fails(
        given("ralph.conf", "RALPH_MAX_TURNS=ten\nRALPH_VALIDATION_COMMANDS=(\n 'a'\n ''\n)"),
        &expect![[r#"
            ralph.conf:1:17: `maxTurns`: expected a whole number of at least 1, found "ten"
            ralph.conf:4:2: `gates[1].command`: must not be blank"#]],
    );
}

#[test]
fn of_two_names_for_a_setting_the_newer_counts() {
    let sources = SettingsSources {
        env: env(&[
            ("RALPH_MAXIMUM_ITERATIONS", "3"),
            ("RALPH_MAX_ITERATIONS", "4"),
            ("RALPH_ZZ", "1"),
        ]),
        ..SettingsSources::default()
    };
    let loaded = load_settings(sources).expect("valid");
    assert_eq!(loaded.settings.maximum_iterations, Some(3));
    expect![[r"
        RALPH_MAXIMUM_ITERATIONS counts, RALPH_MAX_ITERATIONS does not
        RALPH_ZZ is not a setting"]]
    .assert_eq(&loaded.warnings.join("\n"));
}

#[test]
fn secrets_are_masked_in_print_and_in_errors() {
    let loaded = load_settings(base(r#"{"agent": {"env": {"API_KEY": "abc"}}}"#)).expect("valid");
    let shown = loaded.masked_json();
    assert!(shown.contains("\"API_KEY\": \"***\"") && !shown.contains("abc"), "{shown}");
    assert!(!shown.contains("null"), "{shown}");
    fails(
        base(r#"{"agent": {"env": {"API_KEY": 12345}}}"#),
        &expect![
            ".ralph/settings.json:1:31: `agent.env.API_KEY`: expected a string, found a number"
        ],
    );
}

#[test]
fn a_role_may_have_its_own_agent() {
    let text = r#"{"agent": {"command": "claude", "model": "opus"}, "agents": {"review": {"model": "haiku"}}}"#;
    let settings = load_settings(base(text)).expect("valid").settings;
    assert_eq!(settings.choose_agent_for(Role::Review).model.as_deref(), Some("haiku"));
    assert_eq!(settings.choose_agent_for(Role::Fix).model.as_deref(), Some("opus"));
    assert_eq!(settings.choose_agent_for(Role::Fix).skip_permissions, Some(true));
}

fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<u8>().prop_map(Value::from),
        Just(Value::Null),
        prop::collection::vec(any::<u8>(), 0..2).prop_map(Value::from),
    ];
    // Few keys, so that documents meet.
    let object = |inner| {
        prop::collection::btree_map("[a-c]", inner, 0..3)
            .prop_map(|entries| Value::Object(entries.into_iter().collect()))
    };
    let tree = leaf.prop_recursive(3, 12, 3, move |inner| object(inner.boxed()));
    object(tree.boxed())
}

/// Returns any document that a shape accepts.
fn fitting(shape: &SettingShape) -> BoxedStrategy<Value> {
    match shape {
        SettingShape::Object { entries, free, required } => {
            let mut parts: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
            for (key, entry) in entries {
                let key = key.clone();
                let is_required = required.contains(&key);
                let entry = fitting(entry).prop_map(move |value| (key.clone(), value));
                parts.push(if is_required {
                    entry.prop_map(Some).boxed()
                } else {
                    prop::option::weighted(0.3, entry).boxed()
                });
            }
            if let Some(free) = free {
                let entry = ("\\PC{0,4}", fitting(free));
                parts.push(prop::option::of(entry).boxed());
            }
            parts.prop_map(|entries| Value::Object(entries.into_iter().flatten().collect())).boxed()
        }
        SettingShape::List(items) => {
            prop::collection::vec(fitting(items), 0..3).prop_map(Value::from).boxed()
        }
        SettingShape::Text { .. } => "\\PC{1,6}".prop_map(Value::from).boxed(),
        SettingShape::SpanText => "[1-9]h([1-9]m)?".prop_map(Value::from).boxed(),
        SettingShape::SizeText => "[1-9][KMGT]".prop_map(Value::from).boxed(),
        SettingShape::Choice { words, .. } => {
            prop::sample::select(words.clone()).prop_map(Value::from).boxed()
        }
        SettingShape::Number { .. } => prop_oneof![Just(json!(1)), Just(json!(1000))].boxed(),
        SettingShape::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        SettingShape::Null => Just(Value::Null).boxed(),
        SettingShape::Either(alternatives) => {
            prop::strategy::Union::new(alternatives.iter().map(fitting)).boxed()
        }
    }
}

proptest! {
    // Each case builds the schema again; this many keep the test under a second or two.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_is_associative(a in any_object(), b in any_object(), c in any_object()) {
        let left = merge_documents(&a, &b).and_then(|ab| merge_documents(&ab, &c));
        let right = merge_documents(&b, &c).and_then(|bc| merge_documents(&a, &bc));
        prop_assert_eq!(left.ok(), right.ok());
    }

    #[test]
    fn what_the_checker_accepts_the_types_read(
        document in fitting(&build_setting_shape()),
        local in fitting(&build_setting_shape()),
    ) {
        let result = load_settings(with_local(&document.to_string(), &local.to_string()));
        if let Err(error) = result {
            let text = error.to_string();
            prop_assert!(!text.contains("cannot be read") && !text.contains("conflicts with"), "{text}");
        }
    }

    #[test]
    fn no_text_makes_loading_panic(text in "\\PC*|[{}\\[\\]\":,a-z0-9 \n]*", name in "x(\\.json|\\.conf)") {
        let _ = load_settings(SettingsSources { base: Some(file(&name, &text)), local: Some(file("l.json", &text)), ..SettingsSources::default() });
    }
}

/// The user's file, then the project's.
fn with_user(user: &str, project: &str) -> SettingsSources {
    let user = SettingsFile { author: FileAuthor::User, ..file("/home/u/settings.json", user) };
    SettingsSources { user: Some(user), ..base(project) }
}

#[test]
fn the_users_settings_lie_under_the_projects() {
    let sources = with_user(r#"{"maxTurns": 7, "commitPrefix": "u"}"#, r#"{"maxTurns": 9}"#);
    let loaded = load_settings(sources).expect("valid");
    assert_eq!((loaded.settings.max_turns, loaded.settings.commit_prefix.as_str()), (Some(9), "u"));
    assert_eq!(loaded.find_origin("commitPrefix").to_string(), "/home/u/settings.json:1:33");
    assert_eq!(loaded.files.len(), 2);
    fails(
        with_user(r#"{"maxTurn": 7}"#, "{}"),
        &expect!["/home/u/settings.json:1:2: unknown key `maxTurn` (did you mean `maxTurns`?)"],
    );
}

#[test]
fn what_a_project_loosens_is_listed_with_both_places() {
    #[track_caller]
    fn check(sources: SettingsSources, expected: &Expect) {
        let loaded = load_settings(sources).expect("valid");
        let lines: Vec<String> = loaded.loosenings.iter().map(ToString::to_string).collect();
        expected.assert_eq(&lines.join("\n"));
    }
    let user = r#"{"sandbox": {"git": "ro", "network": {"allow": ["a.example"], "deny": ["x"]}}}"#;
    let project = r#"{"sandbox": {"git": null, "backend": "none", "image": "i",
        "network": {"allow": ["a.example", "b.example"], "deny": ["y"]}, "limits": {"pids": 9}}}"#;
    let listed = expect![[r#"
        .ralph/settings.json:1:38: `sandbox.backend` asks for "none"; your bound is "auto" (default)
        .ralph/settings.json:1:21: `sandbox.git` takes away the value; your bound is "ro" (/home/u/settings.json:1:21)
        .ralph/settings.json:1:55: `sandbox.image` asks for "i"; your bound is `not set` (default)
        .ralph/settings.json:2:30: `sandbox.network.allow` adds "b.example"; your bound is ["a.example"] (/home/u/settings.json:1:48)"#]];
    check(with_user(user, project), &listed);
    let loaded = load_settings(with_user(user, project)).expect("valid");
    assert_eq!(loaded.settings.sandbox.network.deny, ["x", "y"], "what is closed stays closed");
    // The same words of the user's own are no loosening.
    check(with_user(project, project), &expect![""]);
    check(with_user(project, "{}"), &expect![""]);
    let given = SettingsSources { local: None, ..with_user("{}", project) };
    let given = SettingsSources {
        base: given.base.map(|base| SettingsFile { author: FileAuthor::User, ..base }),
        ..given
    };
    check(given, &expect![""]);
    // A flag or a variable in its place is the user's word again.
    let over = SettingsSources {
        env: env(&[("RALPH_SANDBOX_BACKEND", "none"), ("RALPH_SANDBOX_NETWORK_ALLOW", "[]")]),
        flags: vec![
            FlagSetting::new("--git", "sandbox.git", json!("agent")),
            FlagSetting::new("--image", "sandbox.image", json!("j")),
        ],
        ..with_user(user, project)
    };
    check(over, &expect![""]);
    let off = |project: &str| with_user(r#"{"sandbox": {"backend": "none"}}"#, project);
    check(off(project), &expect![""]);
    check(
        off(r#"{"stateDir": "s"}"#),
        &expect![[
            r#".ralph/settings.json:1:14: `stateDir` asks for "s"; your bound is `not set` (default)"#
        ]],
    );
    // The local file is the project's as well.
    let local = SettingsSources {
        local: Some(file("l.json", r#"{"sandbox": {"fallback": "guard"}}"#)),
        ..SettingsSources::default()
    };
    check(
        local,
        &expect![[
            r#"l.json:1:26: `sandbox.fallback` asks for "guard"; your bound is "stop" (default)"#
        ]],
    );
}
