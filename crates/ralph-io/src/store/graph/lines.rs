//! The lines of a knowledge graph's file: `{"type":"entity",…}` and `{"type":"relation",…}`.
//!
//! Other programs write the file too, so reading is tolerant: unknown fields are kept with their
//! line, lines of other types are kept, and unreadable ones are returned as they are, so that they
//! can be moved to another file. Not here: where the file is, and when it is written.

use std::borrow::Cow;

use ralph_core::memory::graph::{Entity, Graph, Relation};
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Deserializer, Map, Value};

/// The content of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct GraphContent {
    pub(super) graph: Graph,
    /// Objects that are neither entities nor relations.
    pub(super) others: Vec<Map<String, Value>>,
    /// Lines that cannot be read.
    pub(super) damaged: Vec<DamagedLine>,
}

/// A line, or the end of one, that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DamagedLine {
    /// The line number, from 1.
    pub(super) line: usize,
    pub(super) bytes: Vec<u8>,
}

/// Parses a file.
pub(super) fn parse_lines(bytes: &[u8]) -> GraphContent {
    let mut content = GraphContent::default();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if content.add_usual(bytes).is_some() {
            continue;
        }
        let Err(rest) = content.add_line(bytes) else { continue };
        // JavaScript can split a surrogate pair and write the halves; Rust strings cannot hold
        // them.
        let whole = replace_lone_surrogates(rest);
        if matches!(&whole, Cow::Owned(whole) if content.add_line(whole).is_ok()) {
            continue;
        }
        content.damaged.push(DamagedLine { line, bytes: rest.to_vec() });
    }
    content
}

/// Formats a file. It ends with a newline, so that a line appended by another program is a line.
pub(super) fn format_lines(graph: &Graph, others: &[Map<String, Value>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entity in &graph.entities {
        push_line(&mut bytes, &GraphLine(entity));
    }
    for relation in &graph.relations {
        push_line(&mut bytes, &GraphLine(relation));
    }
    for other in others {
        push_line(&mut bytes, other);
    }
    bytes
}

fn push_line(bytes: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *bytes, line).expect("text and values from JSON are JSON");
    bytes.push(b'\n');
}

/// A line in the usual form: one object with only known fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UsualLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    name: Option<String>,
    entity_type: Option<String>,
    observations: Option<Vec<String>>,
    from: Option<String>,
    to: Option<String>,
    relation_type: Option<String>,
}

impl GraphContent {
    /// Adds a line in the usual form: three times as fast as parsing it into values, which matters
    /// with a million observations.
    fn add_usual(&mut self, line: &[u8]) -> Option<()> {
        match serde_json::from_slice(line).ok()? {
            UsualLine {
                r#type,
                name: Some(name),
                entity_type: Some(entity_type),
                observations: Some(observations),
                from: None,
                to: None,
                relation_type: None,
            } if r#type == "entity" => {
                let extra = Map::new();
                self.graph.entities.push(Entity { name, entity_type, observations, extra });
            }
            UsualLine {
                r#type,
                name: None,
                entity_type: None,
                observations: None,
                from: Some(from),
                to: Some(to),
                relation_type: Some(relation_type),
            } if r#type == "relation" => {
                let extra = Map::new();
                self.graph.relations.push(Relation { from, to, relation_type, extra });
            }
            UsualLine { .. } => return None,
        }
        Some(())
    }

    /// Adds the objects of a line, usually one. If a writer left no newline at the end and another
    /// appended, there are two. Returns the part that is no object as an error.
    fn add_line<'a>(&mut self, line: &'a [u8]) -> Result<(), &'a [u8]> {
        let mut objects = Deserializer::from_slice(line).into_iter::<Map<String, Value>>();
        loop {
            let begin = objects.byte_offset();
            match objects.next() {
                None => return Ok(()),
                Some(Ok(object)) => self.add_object(object).ok_or(&line[begin..])?,
                Some(Err(_)) => return Err(&line[begin..]),
            }
        }
    }

    fn add_object(&mut self, mut object: Map<String, Value>) -> Option<()> {
        match object.get("type").and_then(Value::as_str) {
            Some("entity") => {
                object.shift_remove("type");
                let entity = Entity {
                    name: into_text(object.shift_remove("name")?)?,
                    entity_type: object
                        .shift_remove("entityType")
                        .map_or(Some(String::new()), into_text)?,
                    observations: object
                        .shift_remove("observations")
                        .map_or(Some(vec![]), into_texts)?,
                    extra: object,
                };
                self.graph.entities.push(entity);
            }
            Some("relation") => {
                object.shift_remove("type");
                let relation = Relation {
                    from: into_text(object.shift_remove("from")?)?,
                    to: into_text(object.shift_remove("to")?)?,
                    relation_type: object
                        .shift_remove("relationType")
                        .map_or(Some(String::new()), into_text)?,
                    extra: object,
                };
                self.graph.relations.push(relation);
            }
            Some(_) | None => self.others.push(object),
        }
        Some(())
    }
}

fn into_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

fn into_texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.into_iter().map(into_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            None
        }
    }
}

/// Replaces each half of a surrogate pair without its other half by the replacement character.
fn replace_lone_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    let unit = |at: usize| -> Option<u32> {
        let escape = json.get(at..at + 6)?;
        let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut whole = Cow::Borrowed(json);
    let mut at = 0;
    while at < json.len() {
        at += match (json[at], unit(at), unit(at + 6)) {
            (b'\\', Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff), _) => {
                whole.to_mut()[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (b'\\', _, _) => 2,
            (_, _, _) => 1,
        };
    }
    whole
}

/// An item as a line of the file.
struct GraphLine<'a, T>(&'a T);

impl Serialize for GraphLine<'_, Entity> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("type", "entity")?;
        line.serialize_entry("name", &self.0.name)?;
        line.serialize_entry("entityType", &self.0.entity_type)?;
        line.serialize_entry("observations", &self.0.observations)?;
        for (key, value) in &self.0.extra {
            line.serialize_entry(key, value)?;
        }
        line.end()
    }
}

impl Serialize for GraphLine<'_, Relation> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("type", "relation")?;
        line.serialize_entry("from", &self.0.from)?;
        line.serialize_entry("to", &self.0.to)?;
        line.serialize_entry("relationType", &self.0.relation_type)?;
        for (key, value) in &self.0.extra {
            line.serialize_entry(key, value)?;
        }
        line.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Parses a text and compares what is written back, and what could not be read.
    #[track_caller]
    fn check(text: &[u8], expect: &str, damaged: &[(usize, &[u8])]) {
        let content = parse_lines(text);
        let written = format_lines(&content.graph, &content.others);
        assert_eq!(String::from_utf8_lossy(&written), expect);
        let found: Vec<(usize, &[u8])> =
            content.damaged.iter().map(|it| (it.line, it.bytes.as_slice())).collect();
        assert_eq!(found, damaged);
    }

    const ADA: &str =
        r#"{"type":"entity","name":"Ada","entityType":"person","observations":["writes"]}"#;
    const BOB: &str = r#"{"type":"entity","name":"Bob","entityType":"person","observations":[]}"#;
    const KNOWS: &str = r#"{"type":"relation","from":"Ada","to":"Bob","relationType":"knows"}"#;

    #[test]
    fn a_parsed_graph_is_written_back() {
        let three = format!("{ADA}\n{BOB}\n{KNOWS}\n");
        check(three.as_bytes(), &three, &[]);
        // Without the last newline, with those of Windows, with a mark, in another order.
        check(three.trim_end().as_bytes(), &three, &[]);
        check(three.replace('\n', "\r\n").as_bytes(), &three, &[]);
        check(format!("\u{feff}{KNOWS}\n\n  \n{ADA}\n{BOB}").as_bytes(), &three, &[]);
        check(b"", "", &[]);
    }

    #[test]
    fn unknown_fields_and_lines_are_kept() {
        let extended = ADA.replace('}', r#","since":1843,"of":{"a":[1,null]}}"#);
        let related = KNOWS.replace('}', r#","from_when":1,"name":"x"}"#);
        let other = r#"{"type":"note","text":"x"}"#;
        let untyped = r#"{"from":"Ada"}"#;
        let file = format!("{extended}\n{related}\n{other}\n{untyped}\n");
        check(file.as_bytes(), &file, &[]);
        let odd = BOB.replace('}', r#","from":7,"relationType":null}"#) + "\n";
        check(odd.as_bytes(), &odd, &[]);
        let twice = BOB.replace(r#""name":"Bob""#, r#""name":"Cy","name":"Bob""#);
        check(twice.as_bytes(), &format!("{BOB}\n"), &[]);
    }

    #[test]
    fn fields_that_are_missing_are_empty() {
        check(
            br#"{"type":"entity","name":"Ada"}"#,
            "{\"type\":\"entity\",\"name\":\"Ada\",\"entityType\":\"\",\"observations\":[]}\n",
            &[],
        );
    }

    #[test]
    fn damage_costs_nothing_but_itself() {
        let torn = &ADA[..30];
        let ada = format!("{ADA}\n");
        check(format!("{ADA}\n{torn}").as_bytes(), &ada, &[(2, torn.as_bytes())]);
        check(format!("{torn}\n{ADA}").as_bytes(), &ada, &[(1, torn.as_bytes())]);
        check(format!("{ADA}{torn}").as_bytes(), &ada, &[(1, torn.as_bytes())]);
        check(format!("{ADA}{BOB}").as_bytes(), &format!("{ADA}\n{BOB}\n"), &[]);
        for damage in [
            &b"nonsense"[..],
            b"5",
            b"[]",
            b"\xff\xfe",
            b"\0\0\0\0",
            br#"{"type":"entity"}"#,
            br#"{"type":"entity","name":7}"#,
            br#"{"type":"entity","name":"x","observations":["a",1]}"#,
            br#"{"type":"relation","from":"x"}"#,
        ] {
            check(&[damage, b"\n", ADA.as_bytes()].concat(), &ada, &[(1, damage)]);
        }
    }

    #[test]
    fn half_a_character_costs_nothing_but_itself() {
        for (written, read) in [
            (r"cut \ud83d", "cut \u{fffd}"),
            (r"\ude00 cut", "\u{fffd} cut"),
            (r"\ud83d\ude00 whole, \ud83d\ud83d\ude00", "😀 whole, \u{fffd}😀"),
            (r"\\ud83d is text, \uD83D", "\\ud83d is text, \u{fffd}"),
        ] {
            let line = ADA.replace("writes", written);
            let content = parse_lines(line.as_bytes());
            assert_eq!(content.damaged, [], "{written}");
            assert_eq!(json!(content.graph.entities[0].observations), json!([read]));
        }
    }
}
