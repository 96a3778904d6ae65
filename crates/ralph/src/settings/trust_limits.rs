//! What a project may not loosen without trust: for every isolation key, what "looser" means.
//!
//! The bound is the user's own setting, or else the default. A cloned repository may ask for less
//! than that, never for more. Pure: takes the merged values, returns what exceeds the bound. Not
//! here: which layers are the user's (`layers`), and which projects are trusted.

use serde_json::Value;

use super::path::JsonPath;
use super::types::quantity::SizeSetting;

/// When a value of a key is looser than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LooserRule {
    /// One of these values, from the tightest to the loosest; values in one group are equal, and
    /// [`UNSET`] means no value.
    Order(&'static [&'static [&'static str]]),
    /// A permission: `true` is looser.
    Given,
    /// A number or a size: more is looser.
    Most,
    /// A list of allowed things: an entry that the bound does not cover is looser.
    Within(Cover),
    /// A list of forbidden things: entries of a project are added to those of the bound, so it
    /// cannot be loosened at all.
    Additive,
    /// Any other value is looser; no value is not.
    Same,
}

/// When an entry of the bound covers an entry that the project asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// When both are the same.
    Exactly,
    /// When it is the same path, or one above it.
    Path,
    /// When it is the same name, or its beginning with a `*`.
    Name,
    /// When it is the same host, or `*.` and its domain, with the same port.
    Host,
}

/// Stands for no value.
const UNSET: &str = "";

/// Every key that limits what agents, gates and the project itself can reach.
const RULES: [(&str, LooserRule); 40] = [
    // `auto` takes the strongest backend that works, which may be the weakest enforced one.
    (
        "sandbox.backend",
        LooserRule::Order(&[
            &["sbx"],
            &["native", "bwrap"],
            &["container"],
            &["auto"],
            &["landlock"],
            &["guard"],
            &["none"],
        ]),
    ),
    ("sandbox.fallback", LooserRule::Order(&[&["stop"], &["guard"]])),
    // Unset means `ro` or `agent`, depending on who commits.
    ("sandbox.git", LooserRule::Order(&[&["ro"], &[UNSET], &["agent"]])),
    ("sandbox.rw", LooserRule::Within(Cover::Path)),
    ("sandbox.ro", LooserRule::Additive),
    ("sandbox.hide", LooserRule::Additive),
    ("sandbox.home", LooserRule::Within(Cover::Path)),
    ("sandbox.env", LooserRule::Within(Cover::Name)),
    ("sandbox.unixSockets", LooserRule::Order(&[&["deny"], &["private"]])),
    // Programs in an image see the agent's credentials.
    ("sandbox.image", LooserRule::Same),
    ("sandbox.gates.network", LooserRule::Order(NETWORKS)),
    ("sandbox.gates.allow", LooserRule::Within(Cover::Host)),
    ("sandbox.gates.credentials", LooserRule::Given),
    ("sandbox.network.mode", LooserRule::Order(NETWORKS)),
    ("sandbox.network.allow", LooserRule::Within(Cover::Host)),
    ("sandbox.network.deny", LooserRule::Additive),
    ("sandbox.network.allowPrivate", LooserRule::Within(Cover::Exactly)),
    ("sandbox.network.packages", LooserRule::Given),
    ("sandbox.limits.pids", LooserRule::Most),
    ("sandbox.limits.memory", LooserRule::Most),
    ("sandbox.limits.tmp", LooserRule::Most),
    ("sandbox.limits.file", LooserRule::Most),
    ("sandbox.limits.growth", LooserRule::Most),
    ("sandbox.limits.output", LooserRule::Most),
    ("guard.mode", LooserRule::Order(&[&["deny"], &["warn"], &["off"]])),
    ("guard.allow", LooserRule::Within(Cover::Exactly)),
    ("guard.deny", LooserRule::Additive),
    ("agent.skipPermissions", LooserRule::Given),
    // Trusted state must not be where an agent can write.
    ("stateDir", LooserRule::Same),
    ("parallel.directory", LooserRule::Same),
    // Copies of ignored files, such as secrets, are where agents can read them.
    ("parallel.include", LooserRule::Within(Cover::Exactly)),
    ("parallel.setup", LooserRule::Same),
    // These run outside of any sandbox, or send data to others.
    ("notify.command", LooserRule::Same),
    ("notify.webhook.url", LooserRule::Same),
    ("notify.webhook.topic", LooserRule::Same),
    ("notify.webhook.secretEnv", LooserRule::Same),
    ("notify.webhook.allowPrivate", LooserRule::Given),
    ("otel.enabled", LooserRule::Given),
    ("otel.endpoint", LooserRule::Same),
    // The value of the variable would be sent.
    ("otel.headersEnv", LooserRule::Same),
];

const NETWORKS: &[&[&str]] = &[&["none"], &["proxy"], &["host"]];

/// Returns every key that is bounded.
pub(crate) fn list_bounded_keys() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(key, _)| *key)
}

/// A key that goes beyond the bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LooserKey {
    pub(crate) key: &'static str,
    /// The requested value; for a list, the entries that the bound does not cover.
    pub(crate) asks: Value,
    pub(crate) bound: Value,
}

/// Returns the keys of merged settings that are looser than the bound.
pub(crate) fn find_looser(bound: &Value, asked: &Value) -> Vec<LooserKey> {
    let beyond = |(key, rule): &(&'static str, LooserRule)| {
        let (bound, asked) = (find_value(bound, key), find_value(asked, key));
        let asks = rule.find_excess(bound, asked)?;
        Some(LooserKey { key, asks, bound: bound.clone() })
    };
    RULES.iter().filter_map(beyond).collect()
}

/// Adds the forbidden entries of the bound to a layer that sets the same list, so that they stay
/// forbidden.
pub(crate) fn keep_forbidden(bound: &Value, layer: &mut Value) {
    for (key, rule) in &RULES {
        match rule {
            LooserRule::Additive => {}
            LooserRule::Order(_)
            | LooserRule::Given
            | LooserRule::Most
            | LooserRule::Within(_)
            | LooserRule::Same => continue,
        }
        let pointer = format!("/{}", key.replace('.', "/"));
        let Some(Value::Array(entries)) = layer.pointer_mut(&pointer) else { continue };
        let closed = find_value(bound, key).as_array().cloned().unwrap_or_default();
        let added = std::mem::take(entries);
        *entries = closed;
        for entry in added {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
}

/// Returns the value of a key; null if it is missing.
pub(crate) fn find_value<'a>(document: &'a Value, key: &str) -> &'a Value {
    JsonPath::parse(key)
        .keys()
        .try_fold(document, |value, key| value.get(key))
        .unwrap_or(&Value::Null)
}

impl LooserRule {
    /// Returns what exceeds the bound, if anything does.
    fn find_excess(self, bound: &Value, asked: &Value) -> Option<Value> {
        let is_looser = match self {
            Self::Order(groups) => find_rank(groups, asked) > find_rank(groups, bound),
            Self::Given => asked == &Value::Bool(true) && bound != &Value::Bool(true),
            Self::Most => parse_amount(asked) > parse_amount(bound),
            Self::Same => !asked.is_null() && asked != bound,
            Self::Additive => false,
            Self::Within(cover) => {
                let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
                let covered = entries(bound);
                let beyond: Vec<Value> = entries(asked)
                    .into_iter()
                    .filter(|entry| !covered.iter().any(|by| cover.covers(by, entry)))
                    .collect();
                return (!beyond.is_empty()).then_some(Value::Array(beyond));
            }
        };
        is_looser.then(|| asked.clone())
    }
}

/// Returns the rank of a value. An unlisted value is the loosest, so a new one must be listed.
fn find_rank(groups: &[&[&str]], value: &Value) -> usize {
    let word = value.as_str().unwrap_or(UNSET);
    groups.iter().position(|group| group.contains(&word)).unwrap_or(groups.len())
}

fn parse_amount(value: &Value) -> u64 {
    let amount = match value {
        Value::String(text) => SizeSetting::parse(text).map_or(u64::MAX, |size| size.0),
        Value::Number(number) => number.as_u64().unwrap_or(u64::MAX),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => u64::MAX,
    };
    // No limit.
    if amount == 0 { u64::MAX } else { amount }
}

impl Cover {
    fn covers(self, by: &Value, entry: &Value) -> bool {
        let (Some(by), Some(entry)) = (by.as_str(), entry.as_str()) else { return by == entry };
        by == entry
            || match self {
                Self::Exactly => false,
                Self::Path => is_below(entry, by),
                Self::Name => by.strip_suffix('*').is_some_and(|start| entry.starts_with(start)),
                Self::Host => is_host_of(&entry.to_ascii_lowercase(), &by.to_ascii_lowercase()),
            }
    }
}

/// Compares paths textually; a path with `..` is never below another.
fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/'));
    !above.is_empty()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && path.split('/').all(|part| part != "..")
}

fn is_host_of(host: &str, pattern: &str) -> bool {
    let port = |text: &str| text.rsplit_once(':').map(|(_, port)| port.to_owned());
    let name = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    // An address in brackets has colons of its own; only the same one is the same.
    let is_named = |text: &str| text.matches(':').count() < 2;
    host == pattern
        || is_named(host)
            && is_named(pattern)
            && port(host) == port(pattern)
            && name(pattern)
                .strip_prefix('*')
                .is_some_and(|domain| domain.starts_with('.') && name(host).ends_with(domain))
}

#[cfg(test)]
mod tests;
