//! Tests of the schema: what it accepts is what the types read, and it shows nothing useless.

use serde_json::json;

use super::*;
use crate::settings::check::check_document;
use crate::settings::path::JsonPath;
use crate::settings::schema_model::SettingShape;

#[track_caller]
fn accepts(document: &Value) {
    let shape = SettingShape::from_schema(&build_json_schema());
    assert_eq!(check_document(document, &JsonPath::default(), &shape, &shape), Vec::new());
}

#[test]
fn a_small_file_is_accepted() {
    let document = json!({
        "maximumIterations": 10,
        "completionResponse": "DONE",
        "outputTruncateChars": 5000,
        "streamAgentOutput": true,
        "includeIterationCountInPrompt": false,
        "agent": {"command": "claude", "flags": ["--model opus", "--no-auto-compact"]},
        "guardrails": [
            {"command": "make lint", "failAction": "APPEND", "hint": "Fix lint errors only."},
            {"command": "make test", "failAction": "APPEND"},
        ],
        "scm": {"command": "git", "tasks": ["commit", "push"]},
    });
    accepts(&document);
    serde_json::from_value::<Settings>(document).expect("the types read it");
}

/// After a change of the settings, `UPDATE_EXPECT=1` writes the file again.
#[test]
fn the_saved_shape_is_that_of_the_schema() {
    let shape = SettingShape::from_schema(&make_schema());
    let text = serde_json::to_string(&shape).expect("JSON").replace("},\"", "},\n\"") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/settings/schema/shape.json");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &text).expect("written");
        return;
    }
    assert_eq!(
        SettingShape::from_saved(SAVED_SHAPE),
        Some(shape),
        "UPDATE_EXPECT=1 writes it again"
    );
    assert_eq!(SAVED_SHAPE, text);
}

/// Returns a document with every key of a shape set to something.
fn sample(shape: &SettingShape) -> Value {
    match shape {
        SettingShape::Object { entries, free, .. } => {
            let mut object: serde_json::Map<String, Value> =
                entries.iter().map(|(key, entry)| (key.clone(), sample(entry))).collect();
            if let Some(free) = free {
                object.insert("FREE".into(), sample(free));
            }
            object.into()
        }
        SettingShape::List(items) => json!([sample(items), sample(items)]),
        SettingShape::Text { .. } => "text".into(),
        SettingShape::SpanText => "1h30m".into(),
        SettingShape::SizeText => "8G".into(),
        SettingShape::Choice { words, .. } => words[0].as_str().into(),
        SettingShape::Number { .. } => 7.into(),
        SettingShape::Boolean => true.into(),
        SettingShape::Null => Value::Null,
        // The last alternative but null: the object of limits, the number of a duration.
        SettingShape::Either(alternatives) => {
            alternatives.iter().rfind(|it| **it != SettingShape::Null).map_or(Value::Null, sample)
        }
    }
}

#[test]
fn a_file_with_every_key_is_accepted_and_read() {
    let document = sample(&SettingShape::from_schema(&build_json_schema()));
    accepts(&document);
    let settings: Settings = serde_json::from_value(document.clone()).expect("the types read it");
    let keys = document.as_object().expect("an object").len();
    let written = serde_json::to_value(&settings).expect("settings can be written");
    // All but `$schema`, which is for editors.
    assert_eq!(written.as_object().expect("an object").len(), keys - 1);
    accepts(&written);
}

#[test]
fn the_defaults_are_accepted() {
    accepts(&serde_json::to_value(Settings::default()).expect("settings can be written"));
}

#[test]
fn every_setting_is_described() {
    fn walk(schema: &Value, path: &str, bare: &mut Vec<String>) {
        for (key, entry) in schema["properties"].as_object().into_iter().flatten() {
            if entry.get("description").is_none() && key != "soft" && key != "hard" {
                bare.push(format!("{path}.{key}"));
            }
            walk(entry, &format!("{path}.{key}"), bare);
        }
    }
    let schema = build_json_schema();
    let mut bare = Vec::new();
    walk(&schema, "", &mut bare);
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        walk(definition, name, &mut bare);
    }
    assert_eq!(bare, Vec::<String>::new());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["title"], "ralph settings");
}

#[test]
fn defaults_of_whole_sections_are_left_out() {
    let schema = build_json_schema();
    assert_eq!(schema["properties"]["agents"].get("default"), None);
    assert_eq!(schema["properties"]["commit"].get("default"), None);
    assert_eq!(schema["properties"]["delaySeconds"]["default"], 0);
}
