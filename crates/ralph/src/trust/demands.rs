//! Finds settings of a project that make ralph run or read something; all need the user's trust.
//!
//! A gate runs in the sandbox without login and keys, so its command is harmless. The settings here
//! run something outside the sandbox, get the user's login, or read a file outside the project.
//! Each demand carries a digest of the value and of the file it names. Not here: which keys are
//! checked (`settings::classes`), and what the user accepted.

use std::path::{Component, Path, PathBuf};

use ralph_agents::{self as agents, McpTransport};
use ralph_core::checking::secret::{mask_command_line, mask_document};
use ralph_io::bounded_read;
use ralph_model::agent::{AgentChoice, AgentKind, AgentOrigin};
use ralph_model::ids::Role;
use ralph_model::text::{quote_for_shell, quote_word};
use serde_json::{Value, json};

use crate::recipe;
use crate::settings::classes::{self, KeyClass};
use crate::settings::path::{JsonPath, JsonPathStep};
use crate::settings::types::agent::AgentSettings;
use crate::settings::types::gate::GateSetting;
use crate::settings::{LoadedSettings, Loosening, LooseningCause, Settings, find_work_tree_top};

/// The program that may run `scm.tasks` without trust: git, whose hooks are off there. Others run
/// hooks that a project can bring along.
const SCM_PROGRAM: &str = "git";

/// Tasks that they may run without trust: no options, no other remotes.
const SCM_TASKS: [&str; 3] = ["commit", "push", "push origin"];

/// Variables that only change how output looks. A trailing `*` matches any rest.
///
/// Every other variable can do harm: the launcher of the sandbox starts with the variables of its
/// child (`LD_PRELOAD`), and a variable can make an agent send its key to another host.
const HARMLESS_VARIABLES: [&str; 13] = [
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "TERM",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// A file of MCP servers is some kilobytes.
const LARGEST_MCP_FILE: u64 = 1 << 20;

/// The project that the settings apply to.
pub(crate) struct DemandContext<'a> {
    pub(crate) directory: &'a Path,
    /// Finds a program; a plain name is looked up on the `PATH`.
    pub(crate) find_program: &'a dyn Fn(&str) -> Option<PathBuf>,
}

/// The effect of a setting.
struct DemandEffect {
    /// The rest of a sentence that begins with the key.
    text: String,
    /// Further identity: the target of a path, or the other half of a call.
    context: String,
    /// File of the project whose content is part of the identity.
    file: Option<PathBuf>,
}

impl DemandEffect {
    fn new(text: String) -> Self {
        Self { text, context: String::new(), file: None }
    }
}

/// Returns the demands of the project's own settings.
pub(crate) fn find_demands(loaded: &LoadedSettings, ground: &DemandContext<'_>) -> Vec<Loosening> {
    let document = serde_json::to_value(&loaded.settings).unwrap_or_default();
    let mut demands = Vec::new();
    for (pattern, class) in classes::list_key_classes() {
        if class == KeyClass::Harmless {
            continue;
        }
        for (path, value) in expand_pattern(&document, &pattern) {
            let Some(origin) = loaded.find_project_origin(&path) else { continue };
            let Some(effect) = judge_setting(class, &path, value, &loaded.settings, ground) else {
                continue;
            };
            let name = path.keys().next_back().unwrap_or_default().to_owned();
            let identity = format!("{value}\0{}", effect.context);
            demands.push(Loosening {
                key: path.to_string(),
                asks: mask_document(&json!({ name.clone(): value }))[name].clone(),
                origin: origin.clone(),
                cause: LooseningCause::Demand {
                    effect: effect.text,
                    digest: bounded_read::compute_digest(&identity, effect.file.as_deref()),
                },
            });
        }
    }
    demands
}

/// Returns every value at a pattern such as `gates[].agent.command`.
fn expand_pattern<'a>(document: &'a Value, pattern: &str) -> Vec<(JsonPath, &'a Value)> {
    let mut found = vec![(JsonPath::default(), document)];
    for part in pattern.split('.') {
        let (key, is_list) = match part.strip_suffix("[]") {
            Some(key) => (key, true),
            None => (part, false),
        };
        found = found
            .into_iter()
            .flat_map(|(path, value)| match (key, value) {
                ("*", Value::Object(entries)) => {
                    entries.iter().map(|(key, value)| (path.join_key(key), value)).collect()
                }
                (key, Value::Object(entries)) => {
                    entries.get(key).map(|value| (path.join_key(key), value)).into_iter().collect()
                }
                (_, _) => Vec::new(),
            })
            .flat_map(|(path, value)| match (is_list, value) {
                (false, value) => vec![(path, value)],
                (true, Value::Array(items)) => {
                    let items = items.iter().enumerate();
                    items.map(|(index, item)| (path.join_index(index), item)).collect()
                }
                (true, _) => Vec::new(),
            })
            .collect();
    }
    found.retain(|(_, value)| !value.is_null());
    found
}

fn judge_setting(
    class: KeyClass,
    path: &JsonPath,
    value: &Value,
    settings: &Settings,
    ground: &DemandContext<'_>,
) -> Option<DemandEffect> {
    let text = value.as_str().unwrap_or_default();
    let agent = || find_agent(settings, path);
    match class {
        KeyClass::Harmless => None,
        #[cfg(test)]
        KeyClass::Bounded => None,
        KeyClass::ProjectPath => ground.judge_path(text),
        KeyClass::McpFile => Some(ground.judge_servers(text)),
        KeyClass::ScmCommand => ground.judge_scm_command(text),
        KeyClass::ScmTasks => judge_scm_tasks(settings),
        // As the command behind a name, `local` is a program.
        KeyClass::WorkerHost => (text != "local" || path.keys().count() > 2).then(|| {
            let text = "would run workers with a command outside of the sandbox, as you".to_owned();
            DemandEffect::new(text)
        }),
        KeyClass::AgentCommand => ground.judge_agent_command(text, &agent()),
        KeyClass::AgentKind => judge_agent_kind(&agent()),
        KeyClass::AgentFlags => judge_flags(&agent()),
        KeyClass::AgentVariable => {
            let name = path.keys().next_back().unwrap_or_default();
            judge_variable(name, value)
        }
        KeyClass::AgentPermissions => {
            let is_looser =
                value == &Value::Bool(true) && settings.agent.skip_permissions == Some(false);
            is_looser.then(|| {
                DemandEffect::new("would let this agent use its tools without asking".to_owned())
            })
        }
    }
}

/// Returns the agent that a section of the settings describes, with its defaults.
fn find_agent(settings: &Settings, path: &JsonPath) -> AgentSettings {
    match path.0.as_slice() {
        [JsonPathStep::Key(top), JsonPathStep::Key(name), ..] if top == "agents" => {
            let sections = settings.agents.sections();
            let section = sections.iter().find(|(key, _)| key == name);
            section.map_or_else(AgentSettings::default, |(_, section)| {
                section.with_defaults_from(&settings.agent)
            })
        }
        [JsonPathStep::Key(top), JsonPathStep::Index(index), ..] if top == "gates" => {
            let gate = settings.gates.get(*index);
            gate.and_then(|gate| find_gate_agent(settings, gate)).unwrap_or_default()
        }
        _ => settings.agent.clone(),
    }
}

/// Returns the agent that a gate names, with its defaults.
pub(super) fn find_gate_agent(settings: &Settings, gate: &GateSetting) -> Option<AgentSettings> {
    let base = settings.choose_agent_for(Role::Review);
    gate.agent.as_ref().map(|own| own.with_defaults_from(&base))
}

/// Returns the product whose login the agent's program gets, if any.
pub(super) fn find_login(agent: &AgentSettings) -> Option<AgentKind> {
    let command = agent.command.as_deref()?;
    let kind = agents::detect_program_kind(&AgentChoice::new(recipe::find_kind(agent)?, command));
    agents::find_adapter(kind).env.map(|_| kind)
}

impl DemandContext<'_> {
    fn judge_path(&self, named: &str) -> Option<DemandEffect> {
        let real = resolve_path(&self.directory.join(named));
        if self.is_inside(&real) {
            return None;
        }
        let shown = real.display().to_string();
        let text = if self.directory.join(named) == real {
            format!("would make ralph read `{shown}`, outside of the project")
        } else {
            format!("is {named:?}: would make ralph read `{shown}`, outside of the project")
        };
        Some(DemandEffect { context: shown, ..DemandEffect::new(text) })
    }

    fn judge_servers(&self, named: &str) -> DemandEffect {
        let file = self.directory.join(named);
        let read = bounded_read::read_beginning(&file, LARGEST_MCP_FILE).ok();
        let text = read.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let servers = agents::parse_mcp_servers(&text).unwrap_or_default();
        let listed: Vec<String> = servers
            .iter()
            .map(|server| match &server.transport {
                McpTransport::Stdio { command, args, .. } => {
                    let arguments: Vec<String> =
                        [command].into_iter().chain(args).cloned().collect();
                    format!("`{}`", quote_for_shell(&mask_command_line(&arguments)))
                }
                McpTransport::Remote { url, .. } => {
                    format!("`{}`", mask_document(&json!(url))).replace('"', "")
                }
            })
            .collect();
        let what = if listed.is_empty() { "none yet".to_owned() } else { listed.join(", ") };
        let target = resolve_path(&file);
        let place = if self.is_inside(&target) {
            format!("`{named}`")
        } else {
            format!("`{}`, outside of the project", target.display())
        };
        let text = format!("would give the agent the MCP servers of {place}: {what}");
        DemandEffect { text, context: target.display().to_string(), file: Some(file) }
    }

    fn judge_scm_command(&self, command: &str) -> Option<DemandEffect> {
        let found = (self.find_program)(command);
        let is_of_project = found.as_deref().is_some_and(|file| self.is_program_inside(file));
        if command == SCM_PROGRAM && !is_of_project {
            return None;
        }
        let program = quote_word(command);
        let text = format!("would run `{program}` outside of the sandbox, as you");
        Some(DemandEffect { file: found.filter(|_| is_of_project), ..DemandEffect::new(text) })
    }

    fn judge_agent_command(&self, command: &str, agent: &AgentSettings) -> Option<DemandEffect> {
        if recipe::find_kind(agent)?.origin() == AgentOrigin::BuiltIn {
            return None;
        }
        let found = (self.find_program)(command);
        let is_of_project = found.as_deref().is_some_and(|file| self.is_program_inside(file));
        let program = quote_word(command);
        let with = find_login(agent)
            .map(|kind| format!(", with your login and keys for {}", kind.name()))
            .unwrap_or_default();
        if is_of_project {
            let text =
                format!("would start `{program}`, a program of the project, as an agent{with}");
            return Some(DemandEffect { file: found, ..DemandEffect::new(text) });
        }
        if command.contains('/') {
            let text = format!("would start the program `{program}` as an agent{with}");
            return Some(DemandEffect::new(text));
        }
        judge_agent_kind(agent)
    }

    /// Returns whether a file is in the work tree, by its path or by its resolved path.
    fn is_program_inside(&self, file: &Path) -> bool {
        let file = self.directory.join(file);
        self.is_inside(&file) || self.is_inside(&resolve_path(&file))
    }

    fn is_inside(&self, path: &Path) -> bool {
        let top = find_work_tree_top(self.directory);
        path.starts_with(top) || path.starts_with(resolve_path(top))
    }
}

/// Judges a kind that gives a product's login to a program of another name.
fn judge_agent_kind(agent: &AgentSettings) -> Option<DemandEffect> {
    let command = agent.command.as_deref()?;
    let kind = recipe::find_kind(agent)?;
    let is_another =
        agents::find_adapter(kind).env.is_some() && agents::infer_agent_kind(command) != kind;
    is_another.then(|| {
        let (program, name) = (quote_word(command), kind.name());
        let text = format!("would start `{program}` with your login and keys for {name}");
        DemandEffect { context: format!("{name} {program}"), ..DemandEffect::new(text) }
    })
}

fn judge_flags(agent: &AgentSettings) -> Option<DemandEffect> {
    let kind = find_login(agent)?;
    let flags = agent.flags.clone().unwrap_or_default();
    if agents::has_only_model_flags(&flags) {
        return None;
    }
    let (name, words) = (kind.name(), quote_for_shell(&mask_command_line(&flags)));
    let text = format!("would call {name}, which has your login, with `{words}`");
    Some(DemandEffect { context: name.to_owned(), ..DemandEffect::new(text) })
}

fn judge_variable(name: &str, value: &Value) -> Option<DemandEffect> {
    let is_harmless = HARMLESS_VARIABLES.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *known,
    });
    if is_harmless {
        return None;
    }
    let shown = mask_document(&json!({ name: value }))[name].clone();
    Some(DemandEffect::new(format!("would set the variable {name} to {shown} for an agent")))
}

fn judge_scm_tasks(settings: &Settings) -> Option<DemandEffect> {
    let command = settings.scm.command.as_deref().unwrap_or("git");
    let beyond: Vec<String> = settings
        .scm
        .tasks
        .iter()
        .map(|task| task.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|task| !SCM_TASKS.contains(&task.as_str()))
        .map(|task| format!("`{command} {task}`"))
        .collect();
    let text = format!("would run {} outside of the sandbox, as you", beyond.join(", "));
    (!beyond.is_empty())
        .then(|| DemandEffect { context: command.to_owned(), ..DemandEffect::new(text) })
}

/// Resolves links in a path, also if its end does not exist yet.
fn resolve_path(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        let Ok(real) = above.canonicalize() else { continue };
        let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
        let mut resolved = real;
        for part in rest.components() {
            match part {
                Component::ParentDir => {
                    resolved.pop();
                }
                Component::Normal(name) => resolved.push(name),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        return resolved;
    }
    path.to_owned()
}
