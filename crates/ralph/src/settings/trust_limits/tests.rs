//! Every key, both ways.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::settings::schema::build_json_schema;
use crate::settings::schema_model::SettingShape;
use crate::settings::types::Settings;

fn with(key: &str, value: Value) -> Value {
    JsonPath::parse(key).wrap(value)
}

/// Asserts that `asked` is looser than `bound`, and what of it; and that the way back is not.
#[track_caller]
fn loosens(key: &str, bound: Value, asked: Value, beyond: &Value) {
    let (bound, asked) = (with(key, bound), with(key, asked));
    let found: Vec<(&str, Value)> =
        find_looser(&bound, &asked).into_iter().map(|it| (it.key, it.asks)).collect();
    assert_eq!(found, [(key, beyond.clone())], "{key}: {bound} -> {asked}");
    fits(key, find_value(&asked, key).clone(), find_value(&bound, key).clone());
}

#[track_caller]
fn fits(key: &str, bound: Value, asked: Value) {
    let (bound, asked) = (with(key, bound), with(key, asked));
    assert_eq!(find_looser(&bound, &asked), [], "{key}: {bound} -> {asked}");
}

#[test]
fn values_have_an_order() {
    let orders: [(&str, &[&str]); 7] = [
        ("sandbox.backend", &["sbx", "native", "container", "auto", "landlock", "guard", "none"]),
        ("sandbox.fallback", &["stop", "guard"]),
        ("sandbox.git", &["ro", "agent"]),
        ("sandbox.unixSockets", &["deny", "private"]),
        ("sandbox.network.mode", &["none", "proxy", "host"]),
        ("sandbox.gates.network", &["none", "proxy", "host"]),
        ("guard.mode", &["deny", "warn", "off"]),
    ];
    for (key, words) in orders {
        for (index, tight) in words.iter().enumerate() {
            fits(key, json!(tight), json!(tight));
            for loose in &words[index + 1..] {
                loosens(key, json!(tight), json!(loose), &json!(loose));
            }
        }
    }
    fits("sandbox.backend", json!("native"), json!("bwrap"));
    fits("sandbox.backend", json!("bwrap"), json!("native"));
    // Not set, the one who commits decides.
    loosens("sandbox.git", json!("ro"), json!(null), &json!(null));
    loosens("sandbox.git", json!(null), json!("agent"), &json!("agent"));
    // A value that is not listed is the loosest.
    loosens("sandbox.backend", json!("none"), json!("novel"), &json!("novel"));
}

#[test]
fn credentials_images_and_state_are_not_the_projects_to_choose() {
    loosens("sandbox.gates.credentials", json!(false), json!(true), &json!(true));
    fits("sandbox.gates.credentials", json!(true), json!(true));
    let key = "sandbox.gates.allow";
    loosens(key, json!([]), json!(["localhost:5432"]), &json!(["localhost:5432"]));
    fits(key, json!(["localhost:5432"]), json!(["localhost:5432"]));
    for key in ["sandbox.image", "stateDir"] {
        for bound in [json!(null), json!("mine")] {
            let (bound, asked) = (with(key, bound), with(key, json!("theirs")));
            assert_eq!(find_looser(&bound, &asked)[0].asks, json!("theirs"));
        }
        fits(key, json!("mine"), json!("mine"));
        fits(key, json!("mine"), json!(null));
    }
}

#[test]
fn limits_may_be_lowered() {
    for name in ["memory", "tmp", "file", "growth", "output"] {
        let key = format!("sandbox.limits.{name}");
        loosens(&key, json!("2G"), json!("2049M"), &json!("2049M"));
        loosens(&key, json!(1024), json!("2K"), &json!("2K"));
        fits(&key, json!("1K"), json!(1024));
    }
    loosens("sandbox.limits.pids", json!(512), json!(513), &json!(513));
    // No limit at all.
    loosens("sandbox.limits.memory", json!("8G"), json!(0), &json!(0));
}

#[test]
fn lists_of_what_is_reachable_may_shrink() {
    for key in [
        "sandbox.rw",
        "sandbox.home",
        "sandbox.env",
        "sandbox.network.allow",
        "sandbox.network.allowPrivate",
        "guard.allow",
    ] {
        loosens(key, json!([]), json!(["a", "b"]), &json!(["a", "b"]));
        loosens(key, json!(["a"]), json!(["b", "a"]), &json!(["b"]));
        fits(key, json!(["a", "b"]), json!(["b"]));
        fits(key, json!(["a"]), json!([]));
        fits(key, json!(["a"]), json!(null));
    }
}

#[test]
fn entries_cover_what_is_below_them() {
    for (key, by, entry, is_covered) in [
        ("sandbox.rw", "/data", "/data/cache", true),
        ("sandbox.rw", "/data/", "/data/cache", true),
        ("sandbox.rw", "~/.cache", "~/.cache/x", true),
        ("sandbox.rw", "/data", "/database", false),
        ("sandbox.rw", "/data", "/data/../etc", false),
        ("sandbox.rw", "/data/cache", "/data", false),
        ("sandbox.rw", "", "/data", false),
        ("sandbox.home", ".config", ".config/gh", true),
        ("sandbox.home", ".config/gh", ".config", false),
        ("sandbox.env", "AWS_*", "AWS_REGION", true),
        ("sandbox.env", "AWS_*", "AWS_S3_*", true),
        ("sandbox.env", "AWS_REGION", "AWS_*", false),
        ("sandbox.env", "AWS_", "AWS_REGION", false),
        ("sandbox.network.allow", "*.example.org", "a.example.org", true),
        ("sandbox.network.allow", "*.Example.org", "*.a.example.ORG", true),
        ("sandbox.network.allow", "*.example.org", "example.org", false),
        ("sandbox.network.allow", "*.example.org", "badexample.org", false),
        ("sandbox.network.allow", "*.example.org", "a.example.org:8443", false),
        ("sandbox.network.allow", "*.example.org:80", "a.example.org:80", true),
        ("sandbox.network.allow", "a.example.org", "*.example.org", false),
        ("sandbox.network.allow", "A.example.org", "a.example.org", true),
        ("sandbox.network.allow", "[::1]:80", "[::2]:80", false),
        ("sandbox.network.allowPrivate", "10.0.0.0/8", "10.1.0.0/16", false),
        ("guard.allow", "git *", "git push", false),
    ] {
        let found = find_looser(&with(key, json!([by])), &with(key, json!([entry])));
        assert_eq!(found.is_empty(), is_covered, "{key}: {by} covers {entry}");
    }
}

#[test]
fn entries_the_user_forbade_stay_forbidden() {
    for key in ["sandbox.ro", "sandbox.hide", "sandbox.network.deny", "guard.deny"] {
        let bound = with(key, json!(["a", "b"]));
        for (set, expect) in
            [(json!(["c", "a"]), json!(["a", "b", "c"])), (json!([]), json!(["a", "b"]))]
        {
            let mut layer = with(key, set);
            keep_forbidden(&bound, &mut layer);
            assert_eq!(find_value(&layer, key), &expect);
            assert_eq!(find_looser(&bound, &layer), []);
        }
        let mut silent = json!({ "sandbox": { "git": "ro" } });
        keep_forbidden(&bound, &mut silent);
        assert_eq!(silent, json!({ "sandbox": { "git": "ro" } }), "nothing is added");
    }
}

#[test]
fn the_defaults_fit_themselves() {
    let defaults = serde_json::to_value(Settings::default()).expect("JSON");
    assert_eq!(find_looser(&defaults, &defaults), []);
    assert_eq!(find_looser(&Value::Null, &Value::Null), []);
}

#[test]
fn every_key_of_isolation_has_its_rule() {
    fn leaves(shape: &SettingShape, path: &str, found: &mut BTreeSet<String>) {
        if let SettingShape::Object { entries, .. } = shape {
            for (key, entry) in entries {
                leaves(entry, &format!("{path}.{key}"), found);
            }
        } else {
            found.insert(path.to_owned());
        }
    }
    let root = SettingShape::from_schema(&build_json_schema());
    for section in ["sandbox", "guard"] {
        let Some(shape) = root.find_entry(section) else { continue };
        let mut in_schema = BTreeSet::new();
        leaves(shape, section, &mut in_schema);
        let in_rules: BTreeSet<String> = list_bounded_keys()
            .filter(|key| key.split('.').next() == Some(section))
            .map(str::to_owned)
            .collect();
        assert_eq!(in_schema, in_rules, "say in RULES what looser means for each key");
    }
}

/// Returns the keys and the texts of the rows of "What is looser" in the documentation. A key that
/// begins with a dot is one of the section of the key before it.
fn read_documented_rows() -> Vec<(Vec<String>, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trust.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let (_, table) = page.split_once("## What is looser").expect("a table");
    let (table, _) = table.split_once("\n## ").expect("its end");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let read_keys = |cell: &str| {
        let mut section = String::new();
        let words = cell.split(", ").map(|it| it.trim_matches('`').to_owned());
        let whole = words.map(|word| {
            if word.starts_with('.') {
                return format!("{section}{word}");
            }
            section = word.split('.').next().unwrap_or_default().to_owned();
            word
        });
        whole.collect::<Vec<_>>()
    };
    rows.map(|(keys, text)| (read_keys(keys), text.trim_end_matches(['|', ' ']).to_owned()))
        .collect()
}

#[test]
fn documentation_says_what_is_looser_for_each_key() {
    let rows = read_documented_rows();
    let fits = |pattern: &str, key: &str| match pattern.strip_suffix('*') {
        Some(start) => key.starts_with(start),
        None => pattern == key,
    };
    for pattern in rows.iter().flat_map(|(keys, _)| keys) {
        assert!(list_bounded_keys().any(|key| fits(pattern, key)), "`{pattern}` has no rule");
    }
    // The permissions of an agent are among what runs something.
    for (key, rule) in RULES.iter().filter(|(key, _)| *key != "agent.skipPermissions") {
        let of_key: Vec<&String> = rows
            .iter()
            .filter(|(keys, _)| keys.iter().any(|pattern| fits(pattern, key)))
            .map(|(_, text)| text)
            .collect();
        let [text] = of_key.as_slice() else { panic!("docs/trust.md: `{key}`: {of_key:?}") };
        let values = |names: &[&str]| {
            let shown = names.iter().map(|it| match *it {
                UNSET => "not set".to_owned(),
                name => format!("`{name}`"),
            });
            shown.collect::<Vec<_>>().join(" or ")
        };
        let expect = match rule {
            LooserRule::Order(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| values(group)).collect();
                groups.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
            }
            LooserRule::Given => "`false`, `true`".to_owned(),
            LooserRule::Most => "less, more".to_owned(),
            LooserRule::Within(_) => "an entry that".to_owned(),
            LooserRule::Additive => "never looser".to_owned(),
            LooserRule::Same => "any other than yours".to_owned(),
        };
        assert!(text.starts_with(&expect), "docs/trust.md: `{key}`: {expect} is not in {text}");
    }
}
