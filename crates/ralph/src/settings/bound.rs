//! What a project may not loosen by itself: for every key of isolation, what "looser" means.
//!
//! The bound is what the user said, or else what is built in. A repository that somebody cloned
//! may ask for less than that, never for more. Pure: the merged values come in, what exceeds the
//! bound comes out. Not here: which layers are the user's (`layers`), and who trusts a project.

use serde_json::Value;

use super::path::JsonPath;
use super::types::quantity::Size;

/// What it means for a key to be looser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// One of some words, from the tightest to the loosest; those in one group are equal, and
    /// [`UNSET`] is no value.
    Order(&'static [&'static [&'static str]]),
    /// Whether something is given: `true` is looser.
    Given,
    /// A number or a size: more is looser.
    Most,
    /// A list of what is reachable: an entry that the bound does not cover is looser.
    Within(Cover),
    /// A list of what is closed: entries of a project come on top of those of the bound, so
    /// that it cannot be loosened at all.
    OnTop,
    /// Another value is looser, no value is not.
    Same,
}

/// When an entry of a bound covers one that is asked for.
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

/// The word for no value.
const UNSET: &str = "";

/// Every key that bounds what agents, gates and the project itself can reach.
const RULES: [(&str, Rule); 35] = [
    // `auto` takes the strongest that works, which may be the weakest enforced one.
    (
        "sandbox.backend",
        Rule::Order(&[
            &["sbx"],
            &["native", "bwrap"],
            &["container"],
            &["auto"],
            &["landlock"],
            &["guard"],
            &["none"],
        ]),
    ),
    ("sandbox.fallback", Rule::Order(&[&["stop"], &["guard"]])),
    // Not set it is `ro` or `agent`, by who commits.
    ("sandbox.git", Rule::Order(&[&["ro"], &["clone"], &[UNSET], &["agent"]])),
    ("sandbox.rw", Rule::Within(Cover::Path)),
    ("sandbox.ro", Rule::OnTop),
    ("sandbox.hide", Rule::OnTop),
    ("sandbox.home", Rule::Within(Cover::Path)),
    ("sandbox.env", Rule::Within(Cover::Name)),
    ("sandbox.unixSockets", Rule::Order(&[&["deny"], &["private"]])),
    // What is in an image sees the credentials of the agent.
    ("sandbox.image", Rule::Same),
    ("sandbox.gates.network", Rule::Order(NETWORKS)),
    ("sandbox.gates.credentials", Rule::Given),
    ("sandbox.network.mode", Rule::Order(NETWORKS)),
    ("sandbox.network.allow", Rule::Within(Cover::Host)),
    ("sandbox.network.deny", Rule::OnTop),
    ("sandbox.network.allowPrivate", Rule::Within(Cover::Exactly)),
    ("sandbox.limits.pids", Rule::Most),
    ("sandbox.limits.memory", Rule::Most),
    ("sandbox.limits.tmp", Rule::Most),
    ("sandbox.limits.file", Rule::Most),
    ("sandbox.limits.growth", Rule::Most),
    ("sandbox.limits.output", Rule::Most),
    ("guard.mode", Rule::Order(&[&["deny"], &["warn"], &["off"]])),
    ("guard.allow", Rule::Within(Cover::Exactly)),
    ("guard.deny", Rule::OnTop),
    ("agent.skipPermissions", Rule::Given),
    // What is trusted must not lie where an agent can write.
    ("stateDir", Rule::Same),
    // These run outside of any sandbox, or say to somebody what happens here.
    ("notify.command", Rule::Same),
    ("notify.webhook.url", Rule::Same),
    ("notify.webhook.topic", Rule::Same),
    ("notify.webhook.secretEnv", Rule::Same),
    ("notify.webhook.allowPrivate", Rule::Given),
    ("otel.enabled", Rule::Given),
    ("otel.endpoint", Rule::Same),
    // What a variable holds would be sent.
    ("otel.headersEnv", Rule::Same),
];

const NETWORKS: &[&[&str]] = &[&["none"], &["proxy"], &["host"]];

/// Returns every key that is bounded.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(key, _)| *key)
}

/// A key that goes beyond the bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Looser {
    /// The key.
    pub(crate) key: &'static str,
    /// What is asked for; of a list, the entries that the bound does not cover.
    pub(crate) asks: Value,
    /// What the bound says.
    pub(crate) bound: Value,
}

/// Returns what of merged settings is looser than the bound.
pub(crate) fn looser(bound: &Value, asked: &Value) -> Vec<Looser> {
    let beyond = |(key, rule): &(&'static str, Rule)| {
        let (bound, asked) = (at(bound, key), at(asked, key));
        let asks = rule.beyond(bound, asked)?;
        Some(Looser { key, asks, bound: bound.clone() })
    };
    RULES.iter().filter_map(beyond).collect()
}

/// Puts what the bound closes into a layer that sets the same list, so that it stays closed.
pub(crate) fn keep_closed(bound: &Value, layer: &mut Value) {
    for (key, rule) in &RULES {
        match rule {
            Rule::OnTop => {}
            Rule::Order(_) | Rule::Given | Rule::Most | Rule::Within(_) | Rule::Same => continue,
        }
        let pointer = format!("/{}", key.replace('.', "/"));
        let Some(Value::Array(entries)) = layer.pointer_mut(&pointer) else { continue };
        let closed = at(bound, key).as_array().cloned().unwrap_or_default();
        let added = std::mem::take(entries);
        *entries = closed;
        for entry in added {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
}

/// Returns the value of a key; null where there is none.
pub(crate) fn at<'a>(document: &'a Value, key: &str) -> &'a Value {
    JsonPath::parse(key)
        .keys()
        .try_fold(document, |value, key| value.get(key))
        .unwrap_or(&Value::Null)
}

impl Rule {
    /// Returns what goes beyond the bound, if anything does.
    fn beyond(self, bound: &Value, asked: &Value) -> Option<Value> {
        let is_looser = match self {
            Self::Order(groups) => rank(groups, asked) > rank(groups, bound),
            Self::Given => asked == &Value::Bool(true) && bound != &Value::Bool(true),
            Self::Most => amount(asked) > amount(bound),
            Self::Same => !asked.is_null() && asked != bound,
            Self::OnTop => false,
            Self::Within(cover) => {
                let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
                let covered = entries(bound);
                let beyond: Vec<Value> = entries(asked)
                    .into_iter()
                    .filter(|entry| !covered.iter().any(|by| cover.holds(by, entry)))
                    .collect();
                return (!beyond.is_empty()).then_some(Value::Array(beyond));
            }
        };
        is_looser.then(|| asked.clone())
    }
}

/// A word that is in no group is the loosest: a new one has to be placed first.
fn rank(groups: &[&[&str]], value: &Value) -> usize {
    let word = value.as_str().unwrap_or(UNSET);
    groups.iter().position(|group| group.contains(&word)).unwrap_or(groups.len())
}

fn amount(value: &Value) -> u64 {
    let amount = match value {
        Value::String(text) => Size::parse(text).map_or(u64::MAX, |size| size.0),
        Value::Number(number) => number.as_u64().unwrap_or(u64::MAX),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => u64::MAX,
    };
    // No limit.
    if amount == 0 { u64::MAX } else { amount }
}

impl Cover {
    fn holds(self, by: &Value, entry: &Value) -> bool {
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

/// By the letter, and therefore not with `..` in it.
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
