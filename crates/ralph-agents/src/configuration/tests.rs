//! What is copied from the user's own configuration of each agent, as tables.

use ralph_model::agent::AgentKind;

use super::*;
use crate::registry::find_adapter;

/// Returns an agent's copy of a file and its removed keys.
#[track_caller]
fn taken(kind: AgentKind, name: &str, text: &str) -> ImportedConfig {
    let files = find_adapter(kind).env.expect("it is known").configuration;
    let file = files.iter().find(|it| it.file == name).expect("one of its files");
    let taken = import_config(file, text.as_bytes());
    assert!(taken.is_understood, "{text}");
    taken
}

/// Checks the copy of a file: texts that are kept, texts that are removed, and what is reported.
#[track_caller]
fn check(kind: AgentKind, name: &str, text: &str, kept: &[&str], removed: &[&str], left: &[&str]) {
    let taken = taken(kind, name, text);
    let copy = String::from_utf8(taken.content).expect("text");
    for word in kept {
        assert!(copy.contains(word), "{word} of {copy}");
    }
    for word in removed {
        assert!(!copy.contains(word), "{word} in {copy}");
    }
    assert_eq!(taken.removed_keys, left, "{text}");
}

#[test]
fn settings_are_kept_and_programs_removed() {
    check(
        AgentKind::Codex,
        "config.toml",
        "model = \"m\"\nmodel_provider = \"corp\"\nmodel_reasoning_effort = \"low\"\nnotify = [\n\"say\",\n]\n\
         [model_providers.corp]\nbase_url = \"https://gw.example/v1\"\nenv_key = \"CORP_KEY\"\n\
         [mcp_servers.docs]\ncommand = \"docs\"\n[mcp_servers.docs.env]\nA = \"b\"\n\
         [profiles.fast]\nmodel = \"small\"\n[tui]\ntheme = \"x\"\n",
        &["model_provider", "low", "gw.example", "CORP_KEY", "profiles.fast"],
        &["say", "docs", "theme"],
        &["mcp_servers"],
    );
    check(
        AgentKind::Claude,
        "settings.json",
        r#"{"model": "sonnet", "env": {"ANTHROPIC_BASE_URL": "https://gw.example", "HTTPS_PROXY": "http://p"},
            "permissions": {"deny": ["WebFetch"]}, "apiKeyHelper": "key.sh", "hooks": {"Stop": []},
            "statusLine": {"command": "line.sh"}, "enabledPlugins": {"a@b": true}, "sandbox": {"enabled": true}}"#,
        &["sonnet", "gw.example", "WebFetch", "key.sh"],
        &["Stop", "line.sh", "a@b", "enabled", "http://p"],
        &["hooks", "enabledPlugins", "sandbox", "env/HTTPS_PROXY"],
    );
    for (kind, name) in [(AgentKind::Gemini, "GEMINI.md"), (AgentKind::Qwen, "QWEN.md")] {
        check(
            kind,
            "settings.json",
            r#"{// mine
                "security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"name": "m"},
                "tools": {"sandbox": "docker", "exclude": ["x"]}, "mcpServers": {"a": {"command": "srv"}},
                "hooks": {"AfterAgent": []},}"#,
            &["gemini-api-key", "\"m\"", "exclude"],
            &["docker", "srv", "AfterAgent"],
            &["hooks", "mcpServers", "tools/sandbox"],
        );
        check(kind, name, "Be brief.", &["Be brief."], &[], &[]);
    }
    check(
        AgentKind::Opencode,
        "opencode.json",
        r#"{"model": "corp/m", "provider": {"corp": {"options": {"baseURL": "https://gw.example"}}},
            "permission": {"bash": "allow"}, "mcp": {"a": {"command": ["srv"]}}, "plugin": ["p"]}"#,
        &["corp/m", "gw.example", "permission"],
        &["srv", "\"p\""],
        &["mcp", "plugin"],
    );
    check(
        AgentKind::Pi,
        "settings.json",
        r#"{"defaultProvider": "corp", "defaultModel": "m", "packages": ["npm:x"], "theme": "dark"}"#,
        &["corp", "\"m\""],
        &["npm:x", "dark"],
        &["packages"],
    );
    check(
        AgentKind::Amp,
        "settings.json",
        r#"{"amp.url": "https://gw.example", "amp.mcpServers": {"a": {"command": "srv"}}}"#,
        &["gw.example"],
        &["srv"],
        &["amp.mcpServers"],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_copied_as_it_is() {
    let file = ConfigFile::for_whole_file("x.json", ConfigFormat::Json);
    for content in [&b"{"[..], b"[]", b"\xff"] {
        let taken = import_config(&file, content);
        assert_eq!((taken.content.as_slice(), taken.is_understood), (content, false));
    }
}

#[test]
fn addresses_and_variables_are_found() {
    let gateway = |name: &str| (name == "GATEWAY").then(|| "http://10.0.0.1:8080".to_owned());
    for (kind, name, text, expected, names) in [
        (
            AgentKind::Codex,
            "config.toml",
            "model_provider = \"corp\"\n[model_providers.corp]\nbase_url = \"https://gw.example/v1\"\n\
             env_key = \"CORP_KEY\"\nenv_http_headers = { X = \"CORP_TEAM\" }\n",
            &["https://gw.example/v1"][..],
            &["CORP_KEY", "CORP_TEAM"][..],
        ),
        (
            AgentKind::Opencode,
            "opencode.json",
            r#"{"$schema": "https://opencode.ai/config.json", "provider": {"corp": {"options":
                {"baseURL": "{env:GATEWAY}", "apiKey": "{env:CORP_KEY}"}}}}"#,
            &["http://10.0.0.1:8080"],
            &["CORP_KEY", "GATEWAY"],
        ),
        (
            AgentKind::Pi,
            "models.json",
            r#"{"providers": {"corp": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "CORP_KEY"}}}"#,
            &["http://127.0.0.1:9/v1"],
            &["CORP_KEY"],
        ),
        (
            AgentKind::Gemini,
            ".env",
            "# mine\nexport GOOGLE_GEMINI_BASE_URL=\"https://gw.example\"\nGEMINI_API_KEY=k\n",
            &["https://gw.example"],
            &[],
        ),
        (
            AgentKind::Qwen,
            "settings.json",
            r#"{"modelProviders": {"openai": [{"baseUrl": "https://gw.example", "envKey": "CORP_KEY"}]}}"#,
            &["https://gw.example"],
            &["CORP_KEY"],
        ),
    ] {
        let document = taken(kind, name, text).document;
        assert_eq!(collect_addresses(&document, gateway), expected, "{kind:?}");
        assert_eq!(collect_variables(&document), names, "{kind:?}");
    }
}

#[test]
fn an_added_schema_differs_from_other_changes() {
    let schema = r#""$schema": "https://opencode.ai/config.json""#;
    for (before, after, expect) in [
        (r#"{"model": "m"}"#, format!("{{\n  {schema},\"model\": \"m\"}}"), true),
        ("{\n  // mine\n  \"model\": \"m\",\n}", format!("{{{schema}, \"model\": \"m\"}}"), true),
        ("{}", format!("{{{schema},}}"), true),
        (r#"{"model": "m"}"#, r#"{"model": "m"}"#.to_owned(), false),
        (r#"{"model": "m"}"#, format!("{{{schema}, \"model\": \"n\"}}"), false),
        (r#"{"model": "m"}"#, format!("{{{schema}, \"model\": \"m\", \"mcp\": {{}}}}"), false),
        (r#"{"$schema": "x"}"#, format!("{{{schema}}}"), false),
        ("{", format!("{{{schema}"), false),
    ] {
        assert_eq!(adds_only_schema(before.as_bytes(), after.as_bytes()), expect, "{after}");
    }
}
