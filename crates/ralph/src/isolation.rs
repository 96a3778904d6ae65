//! The sandbox of a run: the backend that works here, and how agents, gates and git start in it.
//!
//! Not here: the walls, and what the user wants of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::glob::Pattern;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::{AgentKind, Recipe};
use ralph_core::sandbox::model_hosts::model_hosts;
use ralph_core::sandbox::reach::{Misread, Reach};
use ralph_core::sandbox::{Backend, Credentials, NetworkMode, Policy};
use ralph_io::agents;
use ralph_io::confined::Confined;
use ralph_io::environment::{self, Child, Variables};
use ralph_io::git::Repository;
use ralph_io::process::{Space, Watch};
use ralph_io::sandbox::proxy::{Handover, Proxy, Service};
use ralph_io::sandbox::{
    Cage, Chosen, Door, FurnishError, Handed, Launcher, Places, Refusal, Surroundings, Tenant,
    Wall, choose, look,
};

use crate::complaint::Complaint;
use crate::remembering::MEMORY_FILE;

/// Where things lie that a sandbox has to do with.
pub(crate) struct Site<'a> {
    /// The project directory.
    pub(crate) project: &'a Path,
    /// Its repository.
    pub(crate) repository: Option<&'a Repository>,
    /// The state of the project.
    pub(crate) state: &'a Path,
    /// The state of all projects.
    pub(crate) state_root: PathBuf,
    /// The directory of the run, or another one for passing things.
    pub(crate) run: &'a Path,
    /// ralph's own environment.
    pub(crate) env: &'a [(OsString, OsString)],
    /// ralph's own signals.
    pub(crate) watch: &'a Watch,
}

/// How the children of a run are started.
pub(crate) struct Isolation {
    /// What enforces it.
    pub(crate) backend: Backend,
    /// What people must know of it.
    pub(crate) warnings: Vec<String>,
    cage: Option<Cage>,
    names: Vec<String>,
    way_out: Option<WayOut>,
    output: u64,
    space: Space,
}

/// What who signs commits must know.
const UNSIGNED: &str = "commits are not signed: no key is in the sandbox; sign them afterwards";

/// The proxy, with what must live as long as children use it.
struct WayOut {
    proxy: Proxy,
    _handover: Handover,
    _service: Service,
}

impl Isolation {
    /// Finds what enforces the isolation that a run is to have, and makes it ready.
    pub(crate) fn begin(site: &Site<'_>, recipe: &Recipe) -> Result<Self, Complaint> {
        let kinds: Vec<AgentKind> = recipe.asked().into_iter().map(agents::program_kind).collect();
        Self::of(site, tightened(recipe), &kinds, opened(recipe))
    }

    /// Finds what enforces a policy for agents of these kinds, and makes it ready.
    pub(crate) fn of(
        site: &Site<'_>,
        policy: Policy,
        kinds: &[AgentKind],
        opened: Vec<PathBuf>,
    ) -> Result<Self, Complaint> {
        let wall = match chosen(site, &policy)? {
            Chosen::Enforced(wall) => wall,
            Chosen::Guard { instead_of } => {
                let mut warning = "nothing but the command guard keeps the agent from the rest of \
                                   this machine, and that can be got around"
                    .to_owned();
                if let Some(failed) = instead_of.first() {
                    warning.push_str(&format!(" ({}: {})", failed.backend, failed.why));
                }
                return Ok(Self::without(Backend::Guard, warning));
            }
            Chosen::Nothing => {
                let warning = "there is no sandbox: agent and gates can do whatever you can";
                return Ok(Self::without(Backend::None, warning.to_owned()));
            }
        };
        let (door, way_out) = match way_out(site, &policy, kinds)? {
            Some((door, way_out)) => (Some(door), Some(way_out)),
            None => (None, None),
        };
        let backend = wall.backend();
        let (names, output) = (policy.env.clone(), policy.limits.output);
        let places = places(site, opened)?;
        let mut roots = vec![places.project.clone()];
        roots.extend(policy.rw.iter().map(|said| places.named(said)));
        let kept = vec![places.state.clone()];
        let space = Space::new(roots, policy.limits.growth, kept);
        let cage = Cage::new(wall, policy, places, door);
        let cell = cage.cell(&Handed::default()).map_err(|error| complain(&error))?;
        let mut warnings = cell.notes;
        if site.repository.is_some_and(Repository::signs) {
            warnings.push(UNSIGNED.to_owned());
        }
        Ok(Self { backend, warnings, cage: Some(cage), names, way_out, output, space })
    }

    /// Returns how many bytes a child may print, where that is bounded.
    pub(crate) fn output(&self) -> Option<u64> {
        self.cage.as_ref().map(|_| self.output)
    }

    /// Returns how much of the disk a child may take, where that is bounded.
    pub(crate) fn space(&self) -> Option<Space> {
        self.cage.as_ref().map(|_| self.space.clone())
    }

    /// Returns the cage for a tenant; nothing where there are no walls.
    pub(crate) fn cage(&self, tenant: Tenant) -> Option<Cage> {
        self.cage.as_ref().map(|cage| cage.with_tenant(tenant))
    }

    fn without(backend: Backend, warning: String) -> Self {
        Self {
            backend,
            warnings: vec![warning],
            cage: None,
            names: Vec::new(),
            way_out: None,
            output: 0,
            space: Space::new(Vec::new(), 0, Vec::new()),
        }
    }

    /// Returns what agents are kept in.
    pub(crate) fn agents(&self, state: &Path) -> Option<Confined> {
        let cage = self.cage.as_ref()?;
        Some(Confined {
            launcher: Launcher::Caged(cage.with_tenant(Tenant::Agent)),
            names: self.names.clone(),
            state: state.to_owned(),
            proxy: self.way_out.as_ref().map(|way_out| way_out.proxy.clone()),
            output: self.output,
            space: self.space.clone(),
        })
    }

    /// Returns how gates start, and what of an environment they inherit.
    pub(crate) fn gates(
        &self,
        recipe: &Recipe,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        let kind = agents::program_kind(&recipe.agent);
        self.tenant(Tenant::Gate, Child::Gate(kind, recipe.sandbox.gates.credentials), env)
    }

    /// Returns how git starts, and what of an environment it inherits; nothing where it starts
    /// directly.
    pub(crate) fn git(&self, env: &[(OsString, OsString)]) -> Option<(Launcher, Variables)> {
        self.cage.as_ref()?;
        let child = Child::Gate(AgentKind::Sim, Credentials::Withheld);
        Some(self.tenant(Tenant::Git, child, env))
    }

    fn tenant(
        &self,
        tenant: Tenant,
        child: Child,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        match &self.cage {
            Some(cage) => (
                Launcher::Caged(cage.with_tenant(tenant)),
                environment::allowed(env, child, &self.names),
            ),
            None => (Launcher::Direct, env.to_vec()),
        }
    }
}

/// Returns the policy with what the run itself protects.
fn tightened(recipe: &Recipe) -> Policy {
    let mut policy = recipe.sandbox.clone();
    policy.ro.extend(recipe.protect.iter().filter_map(plain_path));
    policy
}

/// Returns the one path, or the one directory, that a pattern stands for; other patterns cannot be
/// made walls of, and are looked at after each call.
fn plain_path(pattern: &Pattern) -> Option<String> {
    let text = pattern.as_str();
    let text = text.strip_prefix('/').unwrap_or(text);
    let text = text.strip_suffix("/**").or(text.strip_suffix('/')).unwrap_or(text);
    let is_plain = !text.is_empty() && !text.contains(['*', '?', '[', '{', '!', '\\']);
    // A bare name matches in every directory.
    let is_anchored = pattern.as_str().trim_end_matches('/').contains('/');
    (is_plain && is_anchored).then(|| text.to_owned())
}

/// Returns the files among ralph's own that agents write.
fn opened(recipe: &Recipe) -> Vec<PathBuf> {
    let plan = recipe.plan.as_ref().map(|plan| plan.file.clone());
    let memory = recipe.memory.as_ref().map(|_| PathBuf::from(MEMORY_FILE));
    plan.into_iter().chain(recipe.draft.clone()).chain(memory).collect()
}

/// Refuses a run that nothing here can isolate as it is to be.
pub(crate) fn look_for(site: &Site<'_>, recipe: &Recipe) -> Result<(), Complaint> {
    chosen(site, &recipe.sandbox).map(drop)
}

/// Returns the backend for a policy.
fn chosen(site: &Site<'_>, policy: &Policy) -> Result<Chosen<Wall>, Complaint> {
    let around = surroundings(site)?;
    choose(policy, |backend| look(backend, &around)).map_err(|refusal| refused(&refusal))
}

/// Returns what looking at a backend needs.
fn surroundings(site: &Site<'_>) -> Result<Surroundings, Complaint> {
    Ok(Surroundings {
        ralph: own_executable()?,
        project: site.project.to_owned(),
        state_root: site.state_root.clone(),
        env: site.env.to_vec(),
        watch: site.watch.clone(),
    })
}

fn refused(refusal: &Refusal) -> Complaint {
    refusal.hints().into_iter().fold(Complaint::input(refusal.to_string()), Complaint::hint)
}

/// Returns where things lie.
fn places(site: &Site<'_>, opened: Vec<PathBuf>) -> Result<Places, Complaint> {
    let variable = |name: &str| {
        site.env.iter().find_map(|(known, value)| (known == name).then(|| value.clone()))
    };
    let project = site.project.to_owned();
    Ok(Places {
        work_tree: site.repository.map_or_else(|| project.clone(), |it| it.top().to_owned()),
        project,
        history: site.repository.map(Repository::history_directories).unwrap_or_default(),
        state: site.state.to_owned(),
        run: site.run.to_owned(),
        agent_state: Vec::new(),
        home: variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        path: variable("PATH").unwrap_or_default(),
        executable: own_executable()?,
        opened,
    })
}

fn own_executable() -> Result<PathBuf, Complaint> {
    std::env::current_exe().map_err(|error| {
        let message = format!("cannot find ralph's own executable: {error}");
        Complaint::new(ExitStatus::Incomplete, message)
    })
}

/// Turns a cell that cannot be into a complaint.
pub(crate) fn complain(error: &FurnishError) -> Complaint {
    let complaint = Complaint::of(ExitStatus::BadInput, error);
    match error {
        FurnishError::ProjectIsTooMuch { .. } => {
            complaint.hint("work in a directory of its own; --no-sandbox goes on without isolation")
        }
        FurnishError::NoProxy => complaint.hint("--network none does without"),
        FurnishError::Missing { .. } => complaint,
    }
}

/// Starts the proxy, where the network goes through one.
fn way_out(
    site: &Site<'_>,
    policy: &Policy,
    kinds: &[AgentKind],
) -> Result<Option<(Door, WayOut)>, Complaint> {
    let modes = [policy.network.mode, policy.gates.network];
    if !modes.contains(&NetworkMode::Proxy) {
        return Ok(None);
    }
    let own: Vec<String> = kinds.iter().flat_map(|kind| endpoints(*kind, site.env)).collect();
    let hosts = kinds.iter().flat_map(|kind| model_hosts(*kind).iter().copied());
    let hosts: Vec<&str> = hosts.chain(own.iter().map(String::as_str)).collect();
    let reach = Reach::read(&policy.network, &hosts).map_err(|misread| misread_hosts(&misread))?;
    let proxy = Proxy::new(reach);
    let cannot = |error: std::io::Error| {
        let message = format!("the sandbox's proxy cannot be started: {error}");
        Complaint::new(ExitStatus::Incomplete, message)
    };
    let handover = Handover::open(&proxy, &site.run.join("proxy.sock")).map_err(cannot)?;
    let (service, port) = proxy.listen().map_err(cannot)?;
    let door = Door { handover: handover.path().to_owned(), forwards: proxy.forwards(), port };
    Ok(Some((door, WayOut { proxy, _handover: handover, _service: service })))
}

fn misread_hosts(misread: &[Misread]) -> Complaint {
    let words: Vec<String> =
        misread.iter().map(|it| format!("`{}`: {}", it.place, it.what)).collect();
    Complaint::input(words.join("; "))
}

/// Returns the hosts that the user's own environment sends an agent to instead of its vendor's.
fn endpoints(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let own = environment::allowed(env, Child::Agent(kind), &[]);
    let common = environment::allowed(env, Child::Agent(AgentKind::Sim), &[]);
    own.iter()
        .filter(|variable| !common.contains(variable))
        .filter_map(|(_, value)| host_of(value.to_str()?))
        .collect()
}

/// Returns host and port of an address, as a pattern for them.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { host.to_owned() } else { format!("{host}:{default}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_found() {
        for (url, expect) in [
            ("https://api.example.com/v1", Some("api.example.com:443")),
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("http://user:pass@gateway.example:81/x?y#z", Some("gateway.example:81")),
            ("https://[::1]:8443/", Some("[::1]:8443")),
            ("socks5://example.com", None),
            ("sk-not-a-url", None),
        ] {
            assert_eq!(host_of(url).as_deref(), expect, "{url}");
        }
    }

    #[test]
    fn only_patterns_for_one_place_become_walls() {
        for (text, expect) in [
            ("/tests/api.rs", Some("tests/api.rs")),
            ("tests/**", Some("tests")),
            ("specs/a/", Some("specs/a")),
            ("Makefile", None),
            ("/Makefile", Some("Makefile")),
            ("**/*.lock", None),
            ("src/{a,b}.rs", None),
        ] {
            let pattern = Pattern::new(text).expect("a pattern");
            assert_eq!(plain_path(&pattern).as_deref(), expect, "{text}");
        }
    }
}
