//! Structured answers: asking for one in words, and finding one in the words of an agent.
//!
//! Not here: agents that are held to a schema by a flag of theirs, and whether an answer is what
//! its schema demands. Who asked for it checks that.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

/// The JSON Schema of an answer.
///
/// It is made once and shared: one of ours is a hundred small maps, and thousands of letters in
/// every prompt that shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(Arc<Parts>);

#[derive(Debug, PartialEq)]
struct Parts {
    value: Value,
    /// The schema as people and agents read it.
    shown: String,
}

impl Schema {
    /// Returns a schema.
    pub fn new(value: Value) -> Self {
        let shown = format!("{value:#}");
        Self(Arc::new(Parts { value, shown }))
    }
}

impl Deref for Schema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

/// A text with more braces than this that begin no object is no answer but a program.
const MOST_TRIES: usize = 10_000;

/// Returns a prompt that asks for an answer of a schema in words alone.
pub(crate) fn asked_in_words(prompt: &str, schema: &Schema) -> String {
    format!(
        "{}\n\nEnd your answer with one fenced code block marked `json`. It holds a single JSON \
         object that is valid under the JSON Schema below, and nothing follows it.\n\n\
         ```json-schema\n{}\n```\n",
        prompt.trim_end(),
        schema.0.shown
    )
}

/// Finds the structured answer in the words of an agent: the object in the last block marked
/// `json`, else the last object that stands anywhere. `schema` is what was asked for; an agent
/// that repeats it has not answered.
pub fn find(words: &str, schema: &Value) -> Option<Value> {
    let is_answer = |value: &Value| value != schema;
    fenced(words, is_answer).or_else(|| bare(words, is_answer))
}

/// Looks behind every mark of a block, the last one first. Where an object ends is its own
/// matter: its texts may hold fences.
fn fenced(words: &str, is_answer: impl Fn(&Value) -> bool) -> Option<Value> {
    // Only ASCII letters change, so positions stay.
    let lower = words.to_ascii_lowercase();
    let marks = lower.rmatch_indices("```json").chain(lower.rmatch_indices("~~~json"));
    let mut starts: Vec<usize> = marks.map(|(at, mark)| at + mark.len()).collect();
    starts.sort_unstable();
    starts.into_iter().rev().take(MOST_TRIES).find_map(|start| {
        let rest = words.get(start..)?;
        // `jsonc` and `json5` are the same to an agent; `json-schema` is not.
        let rest = rest.strip_prefix(['c', 'C', '5', 'l', 'L']).unwrap_or(rest);
        let rest = rest.strip_prefix(|it: char| it.is_whitespace())?.trim_start();
        match object_at(rest) {
            Found::Object(value, _) if is_answer(&value) => Some(value),
            Found::Object(..) | Found::Cut | Found::Nothing => None,
        }
    })
}

/// Looks at every brace that is not part of an object before it.
fn bare(words: &str, is_answer: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut last = None;
    let mut at = 0;
    for _ in 0..MOST_TRIES {
        let Some(offset) = words[at..].find('{') else { break };
        at += offset;
        match object_at(&words[at..]) {
            Found::Object(value, length) => {
                at += length;
                // `{}` in a sentence is code, not an answer.
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                if !is_empty && is_answer(&value) {
                    last = Some(value);
                }
            }
            // The words end within it: what stands inside is a part of the answer, not it.
            Found::Cut => return last,
            Found::Nothing => at += 1,
        }
    }
    last
}

/// What a text begins with.
enum Found {
    /// A whole object of this many bytes.
    Object(Value, usize),
    /// An object that has no end.
    Cut,
    /// Something else.
    Nothing,
}

fn object_at(text: &str) -> Found {
    if !text.starts_with('{') {
        return Found::Nothing;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Found::Object(value, values.byte_offset()),
        Some(Err(error)) if error.is_eof() => Found::Cut,
        Some(Err(_)) | None => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[track_caller]
    fn check(words: &str, expect: Option<&Value>) {
        assert_eq!(find(words, &json!({ "type": "object" })).as_ref(), expect, "{words}");
    }

    #[test]
    fn an_answer_is_found_among_other_words() {
        let done = json!({ "status": "done" });
        for words in [
            r#"{"status":"done"}"#,
            "  \n{\"status\": \"done\"}\n",
            "I did it.\n\n```json\n{\"status\": \"done\"}\n```\n",
            "I did it.\n```JSON\n\n  {\"status\": \"done\"}\n```\nThat is all {really}.",
            "~~~json\n{\"status\":\"done\"}\n~~~",
            "```jsonc\n{\"status\":\"done\"}\n```",
            "```json {\"status\":\"done\"}```",
            "```\n{\"status\":\"done\"}\n```",
            "The answer is {\"status\":\"done\"}.",
            "fn main() { x }\n{\"status\":\"done\"}",
            "Use `{}` here. {\"status\":\"done\"} Or `{}`.",
            // The last block counts, and a block more than what stands bare.
            "```json\n{\"status\":\"begun\"}\n```\nLater:\n```json\n{\"status\":\"done\"}\n```",
            "```json\n{\"status\":\"done\"}\n```\nSee {\"other\": 1}.",
            // A block within a block.
            "````markdown\n```json\n{\"status\":\"done\"}\n```\n````",
            "```json\n{\"status\":\"done\"}",
            "```json\n[1, 2]\n```\n{\"status\":\"done\"}",
            "```json\nnot this\n```\n{\"status\":\"done\"}",
            // The schema repeated is no answer.
            "{\"status\":\"done\"}\n```json\n{\"type\": \"object\"}\n```",
            "{\"status\":\"done\"}\n```json-schema\n{\"type\": \"object\"}\n```",
        ] {
            check(words, Some(&done));
        }
        let with_fence = json!({ "notes": "run\n```json\n{\"a\": 1}\n```" });
        check(&format!("```json\n{with_fence}\n```"), Some(&with_fence));
        check("Ünïcode ```json\n{\"größe\": \"日本\"}\n```", Some(&json!({ "größe": "日本" })));
    }

    #[test]
    fn what_is_no_object_is_no_answer() {
        for words in [
            "",
            "Done.",
            "[1, 2, 3]",
            "{}",
            "{\"status\": done}",
            "```json\n\"done\"\n```",
            "{\"type\": \"object\"}",
            // Cut off: the part inside must not pass for the whole.
            "{\"status\": \"done\", \"parts\": {\"a\": 1}, \"rest",
            "{{{{",
        ] {
            check(words, None);
        }
    }

    #[test]
    fn a_prompt_asks_in_words() {
        let schema = Schema::new(json!({ "type": "object" }));
        let prompt = asked_in_words("Review it.\n", &schema);
        assert!(prompt.starts_with("Review it.\n\nEnd your answer with one fenced"), "{prompt}");
        assert_eq!(find(&prompt, &schema), None, "its echo is no answer");
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(words in "[{}\\[\\]\":,`~a-c\\\\\njsonä ]{0,60}") {
            let _ = find(&words, &json!({}));
        }

        #[test]
        fn an_answer_at_the_end_is_found(before in "[^{`~]{0,40}", text in "\\PC{0,20}") {
            let answer = json!({ "summary": text });
            let words = format!("{before}\n```json\n{answer:#}\n```\n");
            prop_assert_eq!(find(&words, &json!({})), Some(answer));
        }
    }
}
