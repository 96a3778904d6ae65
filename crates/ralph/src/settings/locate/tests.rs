//! Tests of `locate`.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::settings::path::JsonPathStep;

#[track_caller]
fn check(text: &str, expected: &Expect) {
    let problems = read_json(Path::new("s.json"), text).expect_err("the text is not valid");
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn syntax_errors_name_line_column_and_remedy() {
    check(
        "{\n  \"a\": 1,\n}",
        &expect![
            "s.json:3:1: not valid JSON: trailing comma (remove the comma after the last entry)"
        ],
    );
    check(
        "{\n  // no\n  \"a\": 1\n}",
        &expect![
            "s.json:2:3: not valid JSON: key must be a string (JSON has no comments; remove it)"
        ],
    );
    check(
        "{\n  \"a\": 1 # no\n}",
        &expect![
            "s.json:2:10: not valid JSON: expected `,` or `}` (JSON has no comments; remove it)"
        ],
    );
    check(
        "{'a': 1}",
        &expect![
            "s.json:1:2: not valid JSON: key must be a string (JSON strings need double quotes)"
        ],
    );
    check(
        "{a: 1}",
        &expect!["s.json:1:2: not valid JSON: key must be a string (keys need double quotes)"],
    );
    check(
        "{\"é\": True}",
        &expect![
            "s.json:1:7: not valid JSON: expected value (write `true`, `false` and `null` in lower case)"
        ],
    );
    check(
        "{\"a\": 1\n \"b\": 2}",
        &expect![
            "s.json:2:2: not valid JSON: expected `,` or `}` (is there a comma missing before this?)"
        ],
    );
    check(
        "{\"a\": [1\n",
        &expect![
            "s.json:2:1: not valid JSON: EOF while parsing a list (a closing bracket or quote is missing)"
        ],
    );
    check("{} {}", &expect!["s.json:1:4: not valid JSON: trailing characters"]);
    check(" \n", &expect!["s.json: the file is empty (write `{}` for no settings, or remove it)"]);
}

#[test]
fn a_key_set_twice_names_both_lines() {
    check(
        "{\n \"a\": {\"b\": 1,\n  \"b\": 2},\n \"c\": 1,\n \"c\": 1\n}",
        &expect![[r"
            s.json:3:3: `a.b` is set twice, on line 2 and on line 3 (remove one of them)
            s.json:5:2: `c` is set twice, on line 4 and on line 5 (remove one of them)"]],
    );
}

#[test]
fn positions_count_characters() {
    let text = "{\"ü\": [true,\n  {\"x\": \"😀\", \"y\": null}]}";
    let (_, located) = read_json(Path::new("s.json"), text).expect("valid");
    let shown: Vec<String> = located
        .positions()
        .map(|(path, spot)| {
            let EntryPosition { key, value } = spot;
            format!("{path} {}:{} {}:{}", key.line, key.column, value.line, value.column)
        })
        .collect();
    expect![[r"
         1:1 1:1
        ü 1:2 1:7
        ü[0] 1:8 1:8
        ü[1] 2:3 2:3
        ü[1].x 2:4 2:9
        ü[1].y 2:14 2:19"]]
    .assert_eq(&shown.join("\n"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,4}|[\"\\\\\n{}\\[\\],: ]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,3}|[\"\\\\\n{}\\[\\],: ]{0,3}", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn text_at(text: &str, position: Position) -> String {
    let line = text.split('\n').nth(position.line - 1).expect("the line exists");
    let rest: String = line.chars().skip(position.column - 1).collect();
    let after: Vec<&str> = text.split('\n').skip(position.line).collect();
    format!("{rest}\n{}", after.join("\n"))
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(entries) => entries.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

proptest! {
    #[test]
    fn every_position_points_at_its_key_and_value(document in any_json(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&document)
        } else {
            serde_json::to_string(&document)
        }.expect("a value can be written");
        let (read, located) = read_json(Path::new("s.json"), &text).expect("valid");
        prop_assert_eq!(&read, &document);
        prop_assert_eq!(located.positions().count(), count(&document));
        for (path, spot) in located.positions() {
            if let Some(JsonPathStep::Key(key)) = path.0.last() {
                let written = serde_json::to_string(key).expect("a key can be written");
                prop_assert!(text_at(&text, spot.key).starts_with(&written));
            }
            let mut value = &document;
            for step in &path.0 {
                value = match step {
                    JsonPathStep::Key(key) => &value[key],
                    JsonPathStep::Index(index) => &value[index],
                };
            }
            let at = text_at(&text, spot.value);
            let first = serde_json::Deserializer::from_str(&at).into_iter::<Value>().next();
            prop_assert_eq!(first.expect("a value").expect("valid"), value.clone());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*|[{}\\[\\]\",:a1 \n\\\\/'#]*") {
        let _ = read_json(Path::new("s.json"), &text);
    }

    #[test]
    fn no_damage_to_a_valid_file_makes_the_reader_panic(at in 0..80_usize, with in "\\PC{0,3}") {
        let valid = "{\"agent\": {\"flags\": [\"--model opus\", \"é\"]},\n \"maximumIterations\": 10}";
        let cut = valid.char_indices().map(|(index, _)| index).nth(at).unwrap_or(valid.len());
        let text = format!("{}{with}{}", &valid[..cut], valid[cut..].get(1..).unwrap_or_default());
        let _ = read_json(Path::new("s.json"), &text);
    }
}
