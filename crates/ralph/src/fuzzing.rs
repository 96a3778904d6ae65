//! Fuzz targets for the private parsers of this crate: settings, hook inputs and memory calls.
//!
//! Run by the tests below. Not here: the targets of public parsers, which are in the test kit.

use ralph_model::units::Millis;
use ralph_testkit::fuzzing::{
    FuzzForm, FuzzTarget, check_mutations, check_repetitions, check_seeds, in_file,
};

use crate::commands;
use crate::settings::types::quantity::{DurationSetting, SizeSetting};
use crate::settings::{
    FileAuthor, LoadedSettings, Settings, SettingsFile, SettingsSources, load_settings,
};

const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "settings",
        run: json,
        form: FuzzForm::Json,
        seeds: &["examples"],
        words: &[
            "\0",
            "//",
            "/*",
            "*/",
            "\"agent\"",
            "\"flags\"",
            "\"gates\"",
            "\"command\"",
            "\"timeouts\"",
            "\"hard\"",
            "\"soft\"",
            "\"1h30m\"",
            "\"budget\"",
            "\"maxCostUsd\"",
            "\"sandbox\"",
            "\"network\"",
            "\"allow\"",
            "\"*.example.com:443\"",
            "\"protect\"",
            "\"**/*.rs\"",
            "\"env\"",
            "\"limits\"",
            "\"memory\"",
            "\"8G\"",
            "\"notify\"",
            "\"webhook\"",
            "\"review\"",
            "\"roles\"",
            "\"guard\"",
            "\nRALPH_AGENT=",
            "\nRALPH_BUDGET_MAX_COST_USD=",
            "\nRALPH_GATES=",
        ],
    },
    FuzzTarget {
        name: "key-value",
        run: key_value,
        form: FuzzForm::Bytes,
        seeds: &["examples/specs/config", "examples/specs/cases"],
        words: &[
            "=",
            "\n",
            "#",
            "\"",
            "'",
            "\\",
            "$",
            "${",
            "}",
            "$(",
            ")",
            "`",
            "export ",
            "=(",
            "+=(",
            "AGENT_CMD=",
            "AGENT_ARGS=",
            "AGENT_PRESET=",
            "claude",
            "codex",
            "amp",
            "PROMPT=",
            "jq -r '",
            ".type",
            "select(",
            "| ",
            "\\n",
            "\r\n",
            "MAX_ITERATIONS=",
            "TIMEOUT=",
            "12m",
        ],
    },
    FuzzTarget {
        name: "quantities",
        run: quantities,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &["1h", "30m", "90s", "500ms", "2d", "366d", "8G", "64MiB", "512k", " ", "."],
    },
    FuzzTarget {
        name: "memory-calls",
        run: call_memory,
        form: FuzzForm::JsonLines,
        seeds: &["crates/ralph/tests/data/memory/calls.jsonl"],
        words: &[
            "\"name\":",
            "\"arguments\":",
            "\"create_entities\"",
            "\"create_relations\"",
            "\"add_observations\"",
            "\"delete_entities\"",
            "\"delete_observations\"",
            "\"delete_relations\"",
            "\"read_graph\"",
            "\"search_nodes\"",
            "\"open_nodes\"",
            "\"entities\":",
            "\"relations\":",
            "\"observations\":",
            "\"query\":",
            "\"names\":",
            "\"entityName\":",
            "\"contents\":",
            "\"entityNames\":",
            "\"deletions\":",
        ],
    },
    FuzzTarget {
        name: "hooks",
        run: commands::hook::fuzz_input,
        form: FuzzForm::Json,
        seeds: &["crates/ralph/tests/data/hooks"],
        words: &[
            "\"session_id\":",
            "\"transcript_path\":",
            "\"cwd\":",
            "\"hook_event_name\":",
            "\"tool_name\":",
            "\"tool_input\":",
            "\"Bash\"",
            "\"command\":",
            "\"Write\"",
            "\"file_path\":",
            "\"Edit\"",
            "\"MultiEdit\"",
            "\"NotebookEdit\"",
            "\"Read\"",
            "\"stop_hook_active\":",
            "\"source\":",
            "\"compact\"",
            "\"agent_id\":",
            "\"usage\":",
            "\"input_tokens\":",
            "\"message\":",
            "18446744073709551615",
        ],
    },
];

fn source(path: &str, text: &str, author: FileAuthor) -> Option<SettingsFile> {
    (!text.is_empty()).then(|| SettingsFile { path: path.into(), text: text.to_owned(), author })
}

/// The project's file; behind zero bytes the user's, the local one, and the environment.
fn json(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(4, '\0');
    let mut part = || parts.next().unwrap_or_default();
    let (base, user, local, environment) = (part(), part(), part(), part());
    let env = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    check(SettingsSources {
        user: source("/home/dev/.config/ralph/settings.json", user, FileAuthor::User),
        base: source("settings.json", base, FileAuthor::Project),
        local: source("settings.local.json", local, FileAuthor::Project),
        env: env.collect(),
        flags: Vec::new(),
    });
}

fn key_value(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let base = source("ralph.conf", &text, FileAuthor::User);
    check(SettingsSources { base, ..SettingsSources::default() });
}

fn check(sources: SettingsSources) {
    match load_settings(sources) {
        Err(error) => {
            assert!(!error.problems.is_empty(), "an error says what is wrong");
            assert!(!error.to_string().is_empty());
        }
        Ok(loaded) => {
            let LoadedSettings { settings, loosenings, origins, .. } = &loaded;
            assert!(loosenings.iter().all(|it| !it.to_string().is_empty()));
            assert!(origins.keys().all(|path| !path.to_string().is_empty()));
            serde_json::from_str::<serde_json::Value>(&loaded.masked_json()).expect("JSON");
            let written = serde_json::to_string(settings).expect("settings are JSON");
            let again: Settings = serde_json::from_str(&written).expect("settings read back");
            assert_eq!(*settings, again, "what is written reads the same");
        }
    }
}

fn quantities(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(span) = DurationSetting::parse(&text) {
        assert_eq!(DurationSetting::parse(&span.to_string()), Ok(span));
    }
    if let Ok(size) = SizeSetting::parse(&text) {
        assert_eq!(SizeSetting::parse(&size.to_string()), Ok(size));
    }
    if let Ok(number) = text.trim().parse::<u64>() {
        assert!(!Millis(number).to_string().is_empty());
    }
    let _ = serde_json::from_slice::<DurationSetting>(bytes);
    let _ = serde_json::from_slice::<SizeSetting>(bytes);
}

fn call_memory(bytes: &[u8]) {
    in_file("memory.jsonl", b"", |path| commands::mcp::fuzz_calls(path, bytes));
}

#[test]
fn no_seed_and_no_mutation_breaks_a_private_parser() {
    for (target, number) in TARGETS.iter().zip(1..) {
        check_seeds(target);
        check_mutations(target, number);
        check_repetitions(target);
    }
}
