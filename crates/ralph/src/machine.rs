//! Checks what a run needs of the machine apart from its agents: git, a state directory, staying
//! awake, and what hooks need.
//!
//! Not here: agents, and how findings look.

use ralph_agents as agents;
use ralph_core::recipe::AgentChoice;
use ralph_core::version::Version;
use ralph_io::awake::Awake;
use ralph_io::git::Discovery;
use ralph_io::process::Watch;
use ralph_io::store::layout::try_writing;
use ralph_io::store::{clutter, runs};
use ralph_io::versions::{Place, Versions};
use ralph_ui::checkup::{Detail, Finding, Health};
use ralph_ui::size::Bytes;
use serde_json::{Value, json};

use crate::plugin;
use crate::project::Project;
use crate::settings::Loaded;

/// From this many bytes or runs on, a hint says how to remove old runs.
const MUCH: u64 = 1_000_000_000;
const MANY: usize = 100;

/// The result of one check.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) finding: Finding,
}

impl Check {
    /// Returns a check without details or hints.
    pub(crate) fn new(name: &'static str, health: Health, title: impl Into<String>) -> Self {
        let title = title.into();
        let finding = Finding { health, title, details: Vec::new(), hints: Vec::new() };
        Self { name, finding }
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.finding.hints.push(hint.into());
        self
    }

    /// Returns the check as JSON.
    pub(crate) fn facts(&self) -> Value {
        let Finding { health, title, details, hints } = &self.finding;
        let health = match health {
            Health::Good => "good",
            Health::Doubtful => "doubtful",
            Health::Bad => "bad",
            Health::Absent => "absent",
        };
        let details: Vec<&String> = details
            .iter()
            .map(|detail| match detail {
                Detail::Words(text) | Detail::Verbatim(text) => text,
            })
            .collect();
        json!({
            "name": self.name,
            "health": health,
            "title": title,
            "details": details,
            "hints": hints,
        })
    }
}

/// Runs all checks.
pub(crate) fn look(project: &Project, loaded: &Loaded) -> Vec<Check> {
    let mut checks = vec![git(project), repository(project), state(project, loaded)];
    checks.extend(runs(project, loaded));
    checks.push(sleep(project, loaded));
    checks
}

fn git(project: &Project) -> Check {
    let watch = Watch::detached();
    let place = Place { directory: &project.directory, env: &project.env, watch: &watch };
    // Not cached: git answers within milliseconds.
    match (project.find_program("git"), Versions::open(None).of("git", place)) {
        (Ok(_), Some(version)) => Check::new("git", Health::Good, format!("git {version}")),
        (Ok(_), None) => Check::new("git", Health::Doubtful, "git does not say its version")
            .hint("reinstall git"),
        (Err(reason), _) => Check::new("git", Health::Bad, format!("git cannot run: {reason}"))
            .hint("install git: without it nothing is committed, compared or undone"),
    }
}

fn repository(project: &Project) -> Check {
    const NAME: &str = "repository";
    match project.discover(&Watch::detached()) {
        Ok(Discovery::Repository(repository)) => {
            let top = repository.top().display();
            Check::new(NAME, Health::Good, format!("the repository is {top}"))
        }
        Ok(Discovery::None | Discovery::NoGit) => {
            Check::new(NAME, Health::Doubtful, "this is no git repository")
                .hint("run `git init`, so that work can be compared, committed and undone")
        }
        Err(error) => Check::new(NAME, Health::Bad, error.message),
    }
}

fn state(project: &Project, loaded: &Loaded) -> Check {
    const NAME: &str = "state";
    let root = match project.state_root(loaded) {
        Ok(root) => root,
        Err(complaint) => return Check::new(NAME, Health::Bad, complaint.message),
    };
    let shown = root.display();
    match try_writing(&root) {
        Ok(()) => Check::new(NAME, Health::Good, format!("state is kept in {shown}")),
        Err(error) => {
            Check::new(NAME, Health::Bad, format!("state cannot be kept in {shown}: {error}"))
                .hint("make it writable, or name another place as `stateDir`")
        }
    }
}

/// Reports how much disk space the runs of this directory use, if there are any.
fn runs(project: &Project, loaded: &Loaded) -> Option<Check> {
    let layout = project.layout(loaded).ok()?;
    let count = runs::runs(layout.state()).len();
    let bytes = clutter::size(&layout.runs());
    let title = match count {
        0 => return None,
        1 => format!("1 run takes {}", Bytes(bytes)),
        _ => format!("{count} runs take {}", Bytes(bytes)),
    };
    let check = Check::new("runs", Health::Good, title);
    let is_much = bytes >= MUCH || count >= MANY;
    Some(if is_much { check.hint("`ralph clean` removes old ones") } else { check })
}

fn sleep(project: &Project, loaded: &Loaded) -> Check {
    const NAME: &str = "sleep";
    if !loaded.settings.prevent_sleep {
        let title = "the machine may sleep during a run: `preventSleep` is off";
        return Check::new(NAME, Health::Absent, title);
    }
    match Awake::program(&project.directory, &project.env) {
        Ok(program) => {
            let program = program.display();
            Check::new(NAME, Health::Good, format!("the machine is kept awake by {program}"))
        }
        Err(reason) => {
            let title = format!("the machine may sleep during a run: {reason}");
            Check::new(NAME, Health::Doubtful, title).hint("switch off sleep before a long run")
        }
    }
}

/// Checks that ralph's hooks can work in Claude Code: its version, the plugin, and the binary that
/// the hooks call.
pub(crate) fn hooks(project: &Project, loaded: &Loaded, claude: &AgentChoice) -> Check {
    const NAME: &str = "hooks";
    let command = &claude.command;
    if project.find_program(command).is_err() {
        let title = format!("hooks need Claude Code, and `{command}` is not installed");
        return Check::new(NAME, Health::Absent, title);
    }
    if !claude.capabilities.plugin.is_there() {
        let title = format!("{} is too old for ralph's hooks", claude.shown());
        let oldest = agents::oldest_with_plugin();
        return Check::new(NAME, Health::Doubtful, title)
            .hint(format!("update it to {oldest} or newer; ralph judges the work all the same"));
    }
    if let Err(reason) = own_binary(project) {
        let title = format!("hooks cannot call ralph: {reason}");
        return Check::new(NAME, Health::Bad, title).hint("reinstall ralph");
    }
    let root = match project.state_root(loaded) {
        Ok(root) => root,
        Err(complaint) => return Check::new(NAME, Health::Bad, complaint.message),
    };
    let plugin = plugin::for_runs(&root);
    let place = plugin.place().display();
    match (plugin.is_intact(), try_writing(plugin.place())) {
        (true, _) => Check::new(NAME, Health::Good, format!("hooks are in {place}")),
        (false, Ok(())) => {
            Check::new(NAME, Health::Good, format!("hooks are written by the next run to {place}"))
        }
        (false, Err(error)) => {
            Check::new(NAME, Health::Bad, format!("hooks cannot be written to {place}: {error}"))
                .hint("make it writable, or name another place as `stateDir`")
        }
    }
}

/// Starts this binary as a hook would, and compares its version.
fn own_binary(project: &Project) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let watch = Watch::detached();
    let place = Place { directory: &project.directory, env: &project.env, watch: &watch };
    let reported = Versions::open(None).of(&exe.to_string_lossy(), place);
    if reported != Version::find(env!("CARGO_PKG_VERSION")) {
        return Err(format!("`{}` does not answer as this version", exe.display()));
    }
    Ok(())
}
