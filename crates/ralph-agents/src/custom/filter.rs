//! Filters: what they are made of, and what they select in a line.
//!
//! A filter turns one value into any number of values. Selecting never fails: what does not fit,
//! such as a field of a number, selects nothing. It is bounded in time and memory, whatever the
//! line and the filter. Not here: the notation (`parse`).

use std::borrow::Cow;

use serde_json::{Number, Value};

/// A filter that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    /// `.`: the value itself.
    Here,
    /// A number, a word or a text without gaps.
    Literal(Value),
    /// A text with filters in its gaps.
    Text(Vec<Part>),
    /// Steps down from what another filter selects.
    Path(Box<Filter>, Vec<Step>),
    /// `[f]`: everything that is selected, as one list.
    List(Box<Filter>),
    /// `f | g`: each selects from what the one before selects.
    Pipe(Vec<Filter>),
    /// `f, g`: one after the other.
    Each(Vec<Filter>),
    /// `f // g`: the first that selects something other than `null` and `false`.
    Otherwise(Vec<Filter>),
    /// `f or g`.
    Any(Vec<Filter>),
    /// `f and g`.
    All(Vec<Filter>),
    /// `f == g`.
    Equal(Box<Filter>, Box<Filter>),
    /// `f != g`.
    Unequal(Box<Filter>, Box<Filter>),
    /// `f + g`: texts joined, numbers added.
    Sum(Vec<Filter>),
    /// `if f then g else h end`.
    If(Box<Filter>, Box<Filter>, Box<Filter>),
    /// `select(f)`: the value itself where `f` holds.
    Select(Box<Filter>),
    /// `not`.
    Not,
    /// `tostring`.
    ToText,
    /// `join(f)`: the elements of a list as one text.
    Join(Box<Filter>),
    /// `empty`: nothing.
    Nothing,
}

/// A part of a text with gaps.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// As it stands.
    Plain(String),
    /// A gap.
    Gap(Filter),
}

/// A step down into a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// `.name`.
    Field(String),
    /// `[0]`; from the end if negative.
    At(i64),
    /// `[]`: every element.
    Every,
}

/// How many steps one line may take: far more than any filter needs.
const MOST_STEPS: usize = 1 << 20;

/// How much one line may build anew: as much as a line may have.
const MOST_BYTES: usize = 16 << 20;

/// What is left for a line.
struct Budget {
    steps: usize,
    bytes: usize,
}

impl Budget {
    fn new() -> Self {
        Self { steps: MOST_STEPS, bytes: MOST_BYTES }
    }

    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    /// Pays for some bytes. Once something was too dear, nothing more is built.
    fn take(&mut self, bytes: usize) -> Option<()> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Pays for a whole value, without looking at more of it than can be paid for.
    fn pay(&mut self, value: &Value) -> Option<()> {
        /// What a value takes beside its text.
        const ONE: usize = 8;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(ONE),
            Value::String(text) => self.take(ONE + text.len()),
            Value::Array(items) => {
                self.take(ONE)?;
                items.iter().try_for_each(|item| self.pay(item))
            }
            Value::Object(fields) => {
                self.take(ONE)?;
                fields.iter().try_for_each(|(name, value)| {
                    self.take(name.len())?;
                    self.pay(value)
                })
            }
        }
    }

    /// Returns a value once more: for nothing if it stands in the line, else paid for.
    fn copy<'v>(&mut self, value: &Cow<'v, Value>) -> Option<Cow<'v, Value>> {
        match value {
            Cow::Borrowed(value) => Some(Cow::Borrowed(value)),
            Cow::Owned(value) => {
                self.pay(value)?;
                Some(Cow::Owned(value.clone()))
            }
        }
    }
}

type Values<'v> = Vec<Cow<'v, Value>>;

impl Filter {
    /// Returns what is selected in a line, as far as the budget goes.
    pub(super) fn select<'v>(&self, line: &'v Value) -> Values<'v> {
        self.run(&Cow::Borrowed(line), &mut Budget::new())
    }

    /// Returns what is selected as texts, as a person would want to read them; `null` is none.
    pub(super) fn texts(&self, line: &Value) -> Vec<String> {
        let mut budget = Budget::new();
        let values = self.run(&Cow::Borrowed(line), &mut budget);
        let text = |value: &Cow<'_, Value>| {
            budget.pay(value)?;
            text_of(value)
        };
        values.iter().filter_map(text).collect()
    }

    fn run<'v>(&self, input: &Cow<'v, Value>, budget: &mut Budget) -> Values<'v> {
        if !budget.step() {
            return Vec::new();
        }
        let truth = |is_true: bool| vec![Cow::Owned(Value::Bool(is_true))];
        match self {
            Self::Here => budget.copy(input).into_iter().collect(),
            Self::Literal(value) => vec![Cow::Owned(value.clone())],
            Self::Text(parts) => texts_of(parts, input, budget),
            Self::Path(from, steps) => {
                let mut values = from.run(input, budget);
                for step in steps {
                    values = values.iter().flat_map(|value| step.take(value, budget)).collect();
                }
                values
            }
            Self::List(filter) => list(filter.run(input, budget), budget).into_iter().collect(),
            Self::Pipe(stages) => {
                let Some((first, others)) = stages.split_first() else {
                    return Vec::new();
                };
                let mut values = first.run(input, budget);
                for stage in others {
                    values = values.iter().flat_map(|value| stage.run(value, budget)).collect();
                }
                values
            }
            Self::Each(filters) => {
                filters.iter().flat_map(|filter| filter.run(input, budget)).collect()
            }
            Self::Otherwise(filters) => otherwise(filters, input, budget),
            Self::Any(filters) => decide(filters, Settled::ByTruth, input, budget),
            Self::All(filters) => decide(filters, Settled::ByFalsehood, input, budget),
            Self::Equal(left, right) => {
                let (left, right) = (left.run(input, budget), right.run(input, budget));
                let equal = compare(&left, &right, budget).into_iter();
                equal.map(|is_equal| Cow::Owned(Value::Bool(is_equal))).collect()
            }
            Self::Unequal(left, right) => {
                let (left, right) = (left.run(input, budget), right.run(input, budget));
                let equal = compare(&left, &right, budget).into_iter();
                equal.map(|is_equal| Cow::Owned(Value::Bool(!is_equal))).collect()
            }
            Self::Sum(filters) => sum(filters, input, budget),
            Self::If(condition, then, other) => {
                let decisions = condition.run(input, budget);
                let chosen = decisions.iter().map(|it| if is_true(it) { then } else { other });
                chosen.flat_map(|filter| filter.run(input, budget)).collect()
            }
            Self::Select(condition) => {
                let decisions = condition.run(input, budget);
                let kept = decisions.iter().filter(|it| is_true(it));
                kept.filter_map(|_| budget.copy(input)).collect()
            }
            Self::Not => truth(!is_true(input)),
            Self::ToText => whole_text(input, budget).into_iter().collect(),
            Self::Join(separator) => {
                let separators = separator.run(input, budget);
                separators.iter().filter_map(|it| join(input, it, budget)).collect()
            }
            Self::Nothing => Vec::new(),
        }
    }
}

impl Step {
    fn take<'v>(&self, value: &Cow<'v, Value>, budget: &mut Budget) -> Values<'v> {
        if !budget.step() {
            return Vec::new();
        }
        match value {
            Cow::Borrowed(value) => {
                self.reach(value, budget).into_iter().map(Cow::Borrowed).collect()
            }
            // A list that a filter made.
            Cow::Owned(value) => {
                let found = self.reach(value, budget);
                let copy = |value: &Value| {
                    budget.pay(value)?;
                    Some(Cow::Owned(value.clone()))
                };
                found.into_iter().filter_map(copy).collect()
            }
        }
    }

    fn reach<'v>(&self, value: &'v Value, budget: &mut Budget) -> Vec<&'v Value> {
        const NULL: &Value = &Value::Null;
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => vec![fields.get(name).unwrap_or(NULL)],
            (Self::At(place), Value::Array(items)) => vec![at(items, *place).unwrap_or(NULL)],
            (Self::Field(_) | Self::At(_), Value::Null) => vec![NULL],
            (Self::Every, Value::Array(items)) => {
                items.iter().take_while(|_| budget.step()).collect()
            }
            (Self::Every, Value::Object(fields)) => {
                fields.values().take_while(|_| budget.step()).collect()
            }
            (Self::Field(_) | Self::At(_) | Self::Every, _) => Vec::new(),
        }
    }
}

fn at(items: &[Value], place: i64) -> Option<&Value> {
    let distance = usize::try_from(place.unsigned_abs()).ok()?;
    let place = if place < 0 { items.len().checked_sub(distance)? } else { distance };
    items.get(place)
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn otherwise<'v>(filters: &[Filter], input: &Cow<'v, Value>, budget: &mut Budget) -> Values<'v> {
    let Some((last, others)) = filters.split_last() else {
        return Vec::new();
    };
    for filter in others {
        let mut values = filter.run(input, budget);
        values.retain(|value| is_true(value));
        if !values.is_empty() {
            return values;
        }
    }
    last.run(input, budget)
}

/// What needs no further operand.
#[derive(Clone, Copy)]
enum Settled {
    ByTruth,
    ByFalsehood,
}

/// Decides by the operands in turn, until one settles it.
fn decide<'v>(
    filters: &[Filter],
    settled: Settled,
    input: &Cow<'v, Value>,
    budget: &mut Budget,
) -> Values<'v> {
    let settles = match settled {
        Settled::ByTruth => true,
        Settled::ByFalsehood => false,
    };
    let mut decisions = vec![!settles];
    for filter in filters {
        let mut next = Vec::new();
        for decision in decisions {
            if decision == settles {
                next.push(decision);
            } else {
                next.extend(filter.run(input, budget).iter().map(|value| is_true(value)));
            }
        }
        decisions = next;
    }
    decisions.into_iter().map(|decision| Cow::Owned(Value::Bool(decision))).collect()
}

fn compare(left: &Values<'_>, right: &Values<'_>, budget: &mut Budget) -> Vec<bool> {
    let mut found = Vec::new();
    for right in right {
        for left in left {
            if !budget.step() || budget.pay(left).is_none() {
                return found;
            }
            found.push(is_equal(left, right));
        }
    }
    found
}

/// Compares values; numbers by what they are, not by how they are written.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (left, right) => left == right,
    }
}

fn sum<'v>(filters: &[Filter], input: &Cow<'v, Value>, budget: &mut Budget) -> Values<'v> {
    let mut totals: Values<'v> = vec![Cow::Owned(Value::Null)];
    for filter in filters {
        let values = filter.run(input, budget);
        let mut next = Vec::new();
        for total in &totals {
            next.extend(values.iter().filter_map(|value| add(total, value, budget)));
        }
        totals = next;
    }
    totals
}

fn add<'v>(
    left: &Cow<'v, Value>,
    right: &Cow<'v, Value>,
    budget: &mut Budget,
) -> Option<Cow<'v, Value>> {
    if !budget.step() {
        return None;
    }
    match (left.as_ref(), right.as_ref()) {
        (Value::Null, _) => budget.copy(right),
        (_, Value::Null) => budget.copy(left),
        (Value::String(one), Value::String(two)) => {
            budget.take(one.len() + two.len())?;
            Some(Cow::Owned(Value::String(format!("{one}{two}"))))
        }
        (Value::Number(one), Value::Number(two)) => {
            let whole = one.as_u64().zip(two.as_u64()).and_then(|(one, two)| one.checked_add(two));
            let number = match whole {
                Some(whole) => Number::from(whole),
                None => Number::from_f64(one.as_f64()? + two.as_f64()?)?,
            };
            Some(Cow::Owned(Value::Number(number)))
        }
        (_, _) => None,
    }
}

fn list<'v>(values: Values<'v>, budget: &mut Budget) -> Option<Cow<'v, Value>> {
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        budget.pay(&value)?;
        items.push(value.into_owned());
    }
    Some(Cow::Owned(Value::Array(items)))
}

fn texts_of<'v>(parts: &[Part], input: &Cow<'v, Value>, budget: &mut Budget) -> Values<'v> {
    let mut texts = vec![String::new()];
    for part in parts {
        let values: Vec<String> = match part {
            Part::Plain(text) => vec![text.clone()],
            Part::Gap(filter) => {
                let values = filter.run(input, budget);
                let shown = |value: &Cow<'_, Value>| {
                    budget.pay(value)?;
                    Some(text_of(value).unwrap_or_else(|| "null".to_owned()))
                };
                values.iter().filter_map(shown).collect()
            }
        };
        let mut next = Vec::new();
        for text in &texts {
            for value in &values {
                if !budget.step() || budget.take(text.len() + value.len()).is_none() {
                    return Vec::new();
                }
                next.push(format!("{text}{value}"));
            }
        }
        texts = next;
    }
    texts.into_iter().map(|text| Cow::Owned(Value::String(text))).collect()
}

fn whole_text<'v>(value: &Cow<'v, Value>, budget: &mut Budget) -> Option<Cow<'v, Value>> {
    if value.is_string() {
        return budget.copy(value);
    }
    budget.pay(value)?;
    Some(Cow::Owned(Value::String(value.to_string())))
}

fn join<'v>(list: &Value, separator: &Value, budget: &mut Budget) -> Option<Cow<'v, Value>> {
    let (items, separator) = (list.as_array()?, separator.as_str()?);
    let mut joined = String::new();
    for (place, item) in items.iter().enumerate() {
        budget.pay(item)?;
        budget.take(separator.len())?;
        if place > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text_of(item).unwrap_or_default());
    }
    Some(Cow::Owned(Value::String(joined)))
}

/// Returns a value as text: a string as it is, anything else as JSON; nothing for `null`.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}
