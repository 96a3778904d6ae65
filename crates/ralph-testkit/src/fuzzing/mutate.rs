//! A small mutator: bytes, words of a language, and the structure of JSON.
//!
//! Everything follows from a seed, so that a failure can be seen again. Not here: finding out which
//! mutations reach new code, which is libFuzzer's business.

use serde_json::{Map, Number, Value};

use super::{FuzzForm, FuzzTarget};

/// Longer inputs cost time in a debug build and find no more.
const LONGEST: usize = 2 * 1024;

/// Changes inputs at random.
pub(super) struct Mutator {
    state: u64,
}

impl Mutator {
    /// Returns a mutator whose choices follow from a number.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn number(&mut self) -> u64 {
        // xorshift64*: small, and good enough to choose.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Returns a number below another one; 0 below 0.
    pub(super) fn below(&mut self, most: usize) -> usize {
        if most == 0 { 0 } else { usize::try_from(self.number()).unwrap_or(0) % most }
    }

    /// Returns one of several inputs, changed in a few places.
    pub(super) fn input(&mut self, target: &FuzzTarget, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        // A window of a long seed, so that its end is tried as well.
        if bytes.len() > LONGEST {
            let start = self.below(bytes.len() - LONGEST);
            bytes = bytes[start..start + LONGEST].to_vec();
        }
        for _ in 0..=self.below(4) {
            let is_structured = self.below(2) == 0;
            match target.form {
                FuzzForm::Json if is_structured => self.json(&mut bytes),
                FuzzForm::JsonLines if is_structured => self.json_line(&mut bytes),
                FuzzForm::Bytes | FuzzForm::Json | FuzzForm::JsonLines => {
                    self.bytes(&mut bytes, target, seeds);
                }
            }
        }
        bytes.truncate(2 * LONGEST);
        bytes
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = if self.below(2) == 0 { 4 } else { length };
        start..start + self.below((length - start).min(longest) + 1)
    }

    fn bytes(&mut self, bytes: &mut Vec<u8>, target: &FuzzTarget, seeds: &[Vec<u8>]) {
        let range = self.range(bytes.len());
        let words: Vec<&str> = target.all_words().collect();
        match self.below(9) {
            0 => {
                if let Some(byte) = bytes.get_mut(range.start) {
                    *byte ^= 1 << self.below(8);
                }
            }
            1 => drop(bytes.splice(range, [[0, 0xff, 0x80, b'\n', b'"', b'{'][self.below(6)]])),
            2 => bytes.truncate(range.start),
            3 => drop(bytes.drain(range)),
            4 => {
                let piece = bytes[range.clone()].repeat(self.below(50));
                bytes.splice(range, piece.into_iter().take(LONGEST));
            }
            5 => {
                let other = &seeds[self.below(seeds.len())];
                let piece = other[self.range(other.len())].to_vec();
                bytes.splice(range, piece);
            }
            _ if words.is_empty() => bytes.reverse(),
            6 => {
                let word = words[self.below(words.len())];
                bytes.splice(range, word.bytes().collect::<Vec<_>>().repeat(self.below(400)));
            }
            _ => {
                let word = words[self.below(words.len())];
                bytes.splice(range.start..range.start, word.bytes());
            }
        }
    }

    fn json_line(&mut self, bytes: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = bytes.split(|it| *it == b'\n').map(<[u8]>::to_vec).collect();
        let (one, other) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(6) {
            0 => drop(lines.remove(one)),
            1 => lines.insert(other, lines[one].clone()),
            2 => lines.swap(one, other),
            _ => self.json(&mut lines[one]),
        }
        *bytes = lines.join(&b'\n');
    }

    fn json(&mut self, bytes: &mut Vec<u8>) {
        if let Ok(mut document) = serde_json::from_slice(bytes) {
            self.value(&mut document);
            *bytes = document.to_string().into_bytes();
        }
    }

    /// Changes a value somewhere below another one.
    fn value(&mut self, value: &mut Value) {
        let is_here = self.below(5) == 0;
        match value {
            Value::Array(values) if !values.is_empty() && !is_here => {
                let (one, other) = (self.below(values.len()), self.below(values.len()));
                match self.below(8) {
                    0 => drop(values.remove(one)),
                    1 => values.insert(other, values[one].clone()),
                    2 => values.swap(one, other),
                    _ => self.value(&mut values[one]),
                }
            }
            Value::Object(fields) if !fields.is_empty() && !is_here => self.field(fields),
            _ => *value = self.other(value),
        }
    }

    fn field(&mut self, fields: &mut Map<String, Value>) {
        let at = self.below(fields.len());
        let Some(key) = fields.keys().nth(at).cloned() else { return };
        match self.below(10) {
            0 => drop(fields.remove(&key)),
            1 => {
                let value = fields.remove(&key).unwrap_or_default();
                fields.insert(format!("{key}x"), value);
            }
            2 => {
                let other = fields.values().nth(self.below(fields.len())).cloned();
                fields.insert(key, other.unwrap_or_default());
            }
            _ => {
                if let Some(value) = fields.get_mut(&key) {
                    self.value(value);
                }
            }
        }
    }

    /// Returns something else in the place of a value.
    fn other(&mut self, value: &Value) -> Value {
        let mut deep = value.clone();
        match self.below(12) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::from(u64::MAX),
            3 => Value::from(i64::MIN),
            4 => Number::from_f64(1e308).map_or(Value::Null, Value::Number),
            5 => Value::from(self.number() % 7),
            6 => Value::from(""),
            7 => Value::from("\u{1f600}\u{0}\u{2028}\\\"".repeat(self.below(9))),
            8 => Value::Array(vec![value.clone(); self.below(4)]),
            9 => {
                for _ in 0..self.below(140) {
                    deep = Value::Array(vec![deep]);
                }
                deep
            }
            10 => Value::Object(Map::from_iter([("type".to_owned(), deep)])),
            _ => match value {
                Value::String(text) => Value::from(text.chars().rev().collect::<String>()),
                Value::Number(number) => Value::from(number.as_i64().unwrap_or(0).wrapping_neg()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => deep,
            },
        }
    }
}
