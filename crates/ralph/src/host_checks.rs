//! Checks what a run needs of the machine apart from its agents: git, a state directory, staying
//! awake, and what hooks need.
//!
//! Not here: agents, and how findings look.

use ralph_agents as agents;
use ralph_io::git::{RepositoryDiscovery, check_can_clone};
use ralph_io::process::Watch;
use ralph_io::sleep_inhibitor::SleepInhibitor;
use ralph_io::store::layout::check_writable;
use ralph_io::store::{cleanup, runs};
use ralph_io::versions::{ProgramContext, Versions};
use ralph_model::agent::AgentChoice;
use ralph_model::version::Version;
use ralph_ui::doctor_report::{Detail, DoctorFinding, Health};
use ralph_ui::size::ByteSize;
use serde_json::{Value, json};

use crate::plugin;
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::toolchain_files;

/// From this many bytes or runs on, a hint says how to remove old runs.
const MANY_BYTES: u64 = 1_000_000_000;
const MANY_RUNS: usize = 100;

/// The result of one check.
pub(crate) struct HostCheck {
    pub(crate) name: &'static str,
    pub(crate) finding: DoctorFinding,
}

impl HostCheck {
    /// Returns a check without details or hints.
    pub(crate) fn new(name: &'static str, health: Health, title: impl Into<String>) -> Self {
        let title = title.into();
        let finding = DoctorFinding { health, title, details: Vec::new(), hints: Vec::new() };
        Self { name, finding }
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.finding.hints.push(hint.into());
        self
    }

    /// Returns the check as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let DoctorFinding { health, title, details, hints } = &self.finding;
        let health = match health {
            Health::Good => "good",
            Health::Warning => "doubtful",
            Health::Bad => "bad",
            Health::Absent => "absent",
        };
        let details: Vec<&String> = details
            .iter()
            .map(|detail| match detail {
                Detail::Text(text) | Detail::Verbatim(text) => text,
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
pub(crate) fn check_host(project: &Project, loaded: &LoadedSettings) -> Vec<HostCheck> {
    let mut checks: Vec<HostCheck> = toolchain_files::find_mismatches(project)
        .into_iter()
        .map(|it| HostCheck::new(it.name, Health::Warning, it.title).with_hint(it.hint))
        .collect();
    let warnings = loaded.warnings.iter();
    checks.extend(warnings.map(|it| HostCheck::new("settings", Health::Warning, it.as_str())));
    checks.extend([check_git(project), check_repository(project), check_state(project, loaded)]);
    checks.extend(check_clones(project, loaded));
    checks.extend(check_runs(project, loaded));
    checks.push(check_sleep(project, loaded));
    checks
}

fn check_git(project: &Project) -> HostCheck {
    let watch = Watch::new_detached();
    let place = ProgramContext { directory: &project.directory, env: &project.env, watch: &watch };
    // Not cached: git answers within milliseconds.
    match (project.find_program("git"), Versions::open(None).find_version("git", place)) {
        (Ok(_), Some(version)) => HostCheck::new("git", Health::Good, format!("git {version}")),
        (Ok(_), None) => HostCheck::new("git", Health::Warning, "git does not report its version")
            .with_hint("reinstall git"),
        (Err(reason), _) => HostCheck::new("git", Health::Bad, format!("git cannot run: {reason}"))
            .with_hint("install git: without it nothing is committed, compared or undone"),
    }
}

fn check_repository(project: &Project) -> HostCheck {
    const NAME: &str = "repository";
    match project.discover_repository(&Watch::new_detached()) {
        Ok(RepositoryDiscovery::Repository(repository)) => {
            let top = repository.top().display();
            HostCheck::new(NAME, Health::Good, format!("the repository is {top}"))
        }
        Ok(found) => match (project.find_git_problem(), found) {
            (Some(problem), _) => {
                let check = HostCheck::new(NAME, Health::Bad, problem.message);
                problem.hints.into_iter().fold(check, HostCheck::with_hint)
            }
            // The line about git says how to fix that.
            (None, RepositoryDiscovery::NoGit) => {
                HostCheck::new(NAME, Health::Warning, "git cannot look for a repository here")
            }
            (None, _) => HostCheck::new(NAME, Health::Warning, "this is not a git repository")
                .with_hint("run `git init`, so that work can be compared, committed and undone"),
        },
        Err(error) => HostCheck::new(NAME, Health::Bad, error.message),
    }
}

/// Reports why there can be no clones for `--jobs`, such as because of submodules or Git LFS.
fn check_clones(project: &Project, loaded: &LoadedSettings) -> Option<HostCheck> {
    let repository = project.find_repository(&Watch::new_detached()).ok()??;
    let parallel = &loaded.settings.parallel;
    let obstacle = check_can_clone(&repository, &parallel.build_clone_policy()).err()?;
    let health = if parallel.jobs > 1 { Health::Warning } else { Health::Absent };
    let title = format!("`ralph build --jobs` does not work here: {}", obstacle.reason);
    let check = HostCheck::new("jobs", health, title);
    Some(obstacle.hint.into_iter().fold(check, HostCheck::with_hint))
}

fn check_state(project: &Project, loaded: &LoadedSettings) -> HostCheck {
    const NAME: &str = "state";
    let root = match project.find_state_root(loaded) {
        Ok(root) => root,
        Err(complaint) => return HostCheck::new(NAME, Health::Bad, complaint.message),
    };
    let shown = root.display();
    match check_writable(&root) {
        Ok(()) => HostCheck::new(NAME, Health::Good, format!("state is kept in {shown}")),
        Err(error) => {
            HostCheck::new(NAME, Health::Bad, format!("state cannot be kept in {shown}: {error}"))
                .with_hint("make it writable, or name another place as `stateDir`")
        }
    }
}

/// Reports how much disk space the runs of this directory use, if there are any.
fn check_runs(project: &Project, loaded: &LoadedSettings) -> Option<HostCheck> {
    let layout = project.find_layout(loaded).ok()?;
    let count = runs::list_runs(layout.state()).len();
    let bytes = cleanup::measure_directory(&layout.runs_path());
    let title = match count {
        0 => return None,
        1 => format!("1 run takes {}", ByteSize(bytes)),
        _ => format!("{count} runs take {}", ByteSize(bytes)),
    };
    let check = HostCheck::new("runs", Health::Good, title);
    let is_much = bytes >= MANY_BYTES || count >= MANY_RUNS;
    Some(if is_much { check.with_hint("`ralph clean` removes old ones") } else { check })
}

fn check_sleep(project: &Project, loaded: &LoadedSettings) -> HostCheck {
    const NAME: &str = "sleep";
    if !loaded.settings.prevent_sleep {
        let title = "the machine may sleep during a run: `preventSleep` is off";
        return HostCheck::new(NAME, Health::Absent, title);
    }
    match SleepInhibitor::find_inhibitor(&project.directory, &project.env) {
        Ok(program) => {
            let program = program.display();
            HostCheck::new(NAME, Health::Good, format!("the machine is kept awake by {program}"))
        }
        Err(reason) => {
            let title = format!("the machine may sleep during a run: {reason}");
            HostCheck::new(NAME, Health::Warning, title)
                .with_hint("switch off sleep before a long run")
        }
    }
}

/// Checks that ralph's hooks can work in Claude Code: its version, the plugin, and the binary that
/// the hooks call.
pub(crate) fn check_hooks(
    project: &Project,
    loaded: &LoadedSettings,
    claude: &AgentChoice,
) -> HostCheck {
    const NAME: &str = "hooks";
    let command = &claude.command;
    if project.find_program(command).is_err() {
        let title = format!("hooks need Claude Code, and `{command}` is not installed");
        return HostCheck::new(NAME, Health::Absent, title);
    }
    if !claude.capabilities.plugin.is_supported() {
        let title = format!("{} is too old for ralph's hooks", claude.display_name());
        let oldest = agents::OLDEST_PLUGIN_VERSION;
        return HostCheck::new(NAME, Health::Warning, title).with_hint(format!(
            "update it to {oldest} or newer; ralph judges the work all the same"
        ));
    }
    if let Err(reason) = check_own_binary(project) {
        let title = format!("hooks cannot call ralph: {reason}");
        return HostCheck::new(NAME, Health::Bad, title).with_hint("reinstall ralph");
    }
    let root = match project.find_state_root(loaded) {
        Ok(root) => root,
        Err(complaint) => return HostCheck::new(NAME, Health::Bad, complaint.message),
    };
    let plugin = plugin::for_runs(&root);
    let place = plugin.path().display();
    match (plugin.is_intact(), check_writable(plugin.path())) {
        (true, _) => HostCheck::new(NAME, Health::Good, format!("hooks are in {place}")),
        (false, Ok(())) => HostCheck::new(
            NAME,
            Health::Good,
            format!("hooks are written by the next run to {place}"),
        ),
        (false, Err(error)) => HostCheck::new(
            NAME,
            Health::Bad,
            format!("hooks cannot be written to {place}: {error}"),
        )
        .with_hint("make it writable, or name another place as `stateDir`"),
    }
}

/// Starts this binary as a hook would, and compares its version.
fn check_own_binary(project: &Project) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let watch = Watch::new_detached();
    let place = ProgramContext { directory: &project.directory, env: &project.env, watch: &watch };
    let reported = Versions::open(None).find_version(&exe.to_string_lossy(), place);
    if reported != Version::find_in(env!("CARGO_PKG_VERSION")) {
        return Err(format!("`{}` is not this version of ralph any more", exe.display()));
    }
    Ok(())
}
