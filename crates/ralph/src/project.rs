//! The project directory and what is known of it before a run: settings, environment, state.
//!
//! Not here: the repository, and anything that changes a file.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::{env, fs};

use ralph_agents as agents;
use ralph_core::nearest::find_nearest;
use ralph_core::ports::VcsError;
use ralph_io::git::{GitRepository, RepositoryDiscovery, find_unusable_git_dir};
use ralph_io::process::{self, ProcessLimits, Spawn, StdinSource, Watch};
use ralph_io::store::RunLock;
use ralph_io::store::files::read_prompt;
use ralph_io::store::layout::{self, ProjectLayout};
use ralph_model::agent::{AgentChoice, AgentOrigin};
use ralph_model::child::NotStarted;
use ralph_model::gate::GateCheck;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::Recipe;
use ralph_model::sandbox::SandboxPolicy;

use crate::cli::CommonArgs;
use crate::cli_error::CliError;
use crate::enclosing_project::{SETTINGS_FILES, STATE_FILE, find_project_above};
use crate::package_hosts::{self, find_project_hosts};
use crate::settings::{
    self, FlagSetting, LoadedSettings, LocalSettings, Loosening, SettingsPaths, SettingsSources,
};
use crate::trust::agent_code::find_agent_code;
use crate::trust::demands::{DemandContext, find_demands};
use crate::trust::{TrustStore, TrustSubject};

/// A project directory.
#[derive(Debug)]
pub(crate) struct Project {
    /// Canonical path.
    pub(crate) directory: PathBuf,
    /// The environment ralph was started with.
    pub(crate) env: Vec<(OsString, OsString)>,
    repository: RefCell<RepositorySearch>,
}

/// How far the search for the repository is.
#[derive(Debug, Default)]
enum RepositorySearch {
    #[default]
    NotBegun,
    /// It runs while the settings are read: git takes as long as they do.
    Begun(JoinHandle<Result<RepositoryDiscovery, VcsError>>),
    Found(Box<GitRepository>),
}

impl Project {
    /// Returns the project in a directory with a canonical path.
    pub(crate) fn new(directory: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self { directory, env, repository: RefCell::default() }
    }

    /// Opens the directory that the command line names.
    pub(crate) fn open(common: &CommonArgs) -> Result<Self, CliError> {
        let named = common.directory();
        let directory = named.canonicalize().map_err(|error| {
            CliError::for_input(format!(
                "cannot open the project directory `{}`: {error}",
                named.display()
            ))
            .with_hint("-C names the directory to work in")
        })?;
        if !directory.is_dir() {
            return Err(CliError::for_input(format!("`{}` is not a directory", named.display())));
        }
        Ok(Self::new(directory, env::vars_os().collect()))
    }

    /// Opens the project that a directory belongs to: the nearest one above it with settings or
    /// runs, unless the command line names a directory. For commands that start no work.
    pub(crate) fn open_nearest(common: &CommonArgs) -> Result<Self, CliError> {
        let project = Self::open(common)?;
        let is_named = common.project_dir.is_some();
        let steps = find_project_above(&project.directory, &[&SETTINGS_FILES[..], &[STATE_FILE]]);
        match steps.filter(|_| !is_named).and_then(|it| project.directory.ancestors().nth(it)) {
            Some(above) => Ok(Self::new(above.to_owned(), project.env)),
            None => Ok(project),
        }
    }

    /// Opens the directory for work. Fails if it belongs to a project above it, whose settings and
    /// gates would not apply here, unless the command line names the directory: only `ralph init`,
    /// which may mean either.
    pub(crate) fn open_for_work(common: &CommonArgs) -> Result<Self, CliError> {
        let project = Self::open(common)?;
        let steps = common
            .project_dir
            .is_none()
            .then(|| find_project_above(&project.directory, &[&SETTINGS_FILES]));
        let Some(steps) = steps.flatten() else {
            project.begin_search();
            return Ok(project);
        };
        let above = vec![".."; steps].join("/");
        let command = env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
        Err(CliError::for_input(format!(
            "this directory belongs to the project in `{above}`, whose settings and gates would not \
             apply here"
        ))
        .with_hint(format!("`ralph -C {above} {command}` works on that project"))
        .with_hint(format!("`ralph -C . {command}` uses this directory as a separate project")))
    }

    /// Reads the settings: files, environment, flags. Fails if the project's files loosen anything
    /// that the user has not accepted.
    pub(crate) fn load_trusted_settings(
        &self,
        config: Option<&Path>,
        flags: Vec<FlagSetting>,
    ) -> Result<LoadedSettings, CliError> {
        let loaded = self.load_settings(config, flags)?;
        let refused = self.find_untrusted(config, &loaded)?;
        if refused.is_empty() {
            return Ok(loaded);
        }
        let own = self.user_settings_file().map_or_else(
            || "your own settings".to_owned(),
            |path| format!("your own settings, `{}`", path.display()),
        );
        let message = "the settings of this project need your trust:";
        let given = config.map(|path| format!(" --config {}", path.display())).unwrap_or_default();
        Err(CliError::for_input(format!("{message}\n{}", self.list_loosenings(refused)))
            .with_hint(format!("`ralph trust{given}` accepts it for this project"))
            .with_hint(format!("or put it into {own}, for all projects")))
    }

    /// Reads the settings without the trust check, for commands that start neither agents nor gates.
    pub(crate) fn load_settings(
        &self,
        config: Option<&Path>,
        flags: Vec<FlagSetting>,
    ) -> Result<LoadedSettings, CliError> {
        self.load_sources(self.user_settings_file().as_deref(), config, flags, &self.env)
    }

    /// Reads the settings of the project's files only.
    pub(crate) fn load_project_settings(&self) -> Result<LoadedSettings, CliError> {
        self.load_sources(None, None, Vec::new(), &[])
    }

    /// Returns the settings without any file, for a settings file with mistakes that is to be replaced.
    pub(crate) fn load_settings_without_files(&self) -> Result<LoadedSettings, CliError> {
        settings::load_settings(SettingsSources::default().with_environment(self.env.clone()))
            .map_err(|error| CliError::for_input(error.to_string()))
    }

    /// Reads the settings without the user's own, for a demo project.
    pub(crate) fn load_settings_without_user(&self) -> Result<LoadedSettings, CliError> {
        self.load_sources(None, None, Vec::new(), &self.env)
    }

    fn load_sources(
        &self,
        user: Option<&Path>,
        config: Option<&Path>,
        flags: Vec<FlagSetting>,
        env: &[(OsString, OsString)],
    ) -> Result<LoadedSettings, CliError> {
        let config = config.map(|path| self.directory.join(path));
        let files = |local| SettingsPaths {
            user,
            project: &self.directory,
            config: config.as_deref(),
            local,
        };
        let load = |local, flags: Vec<FlagSetting>| {
            settings::read_sources(files(local)).and_then(|mut sources| {
                sources.flags = flags;
                settings::load_settings(sources.with_environment(env.to_vec()))
            })
        };
        let mut local = LocalSettings::InProject;
        if settings::find_local_settings_path(&self.directory).symlink_metadata().is_ok() {
            let without = load(LocalSettings::Recorded(None), Vec::new());
            local = self.find_local_settings(without.ok().as_ref());
        }
        let mut loaded = load(local, flags).map_err(|error| {
            let mistakes = self.with_relative_paths(&error.to_string());
            CliError::for_input(match error.problems.len() {
                1 => format!("there is a mistake in the settings:\n{mistakes}"),
                count => format!("there are {count} mistakes in the settings:\n{mistakes}"),
            })
        })?;
        let find_program = |name: &str| self.find_program(name).ok();
        let ground = DemandContext { directory: &self.directory, find_program: &find_program };
        loaded.loosenings.extend(find_demands(&loaded, &ground));
        loaded.loosenings.extend(find_agent_code(&loaded.settings, &self.directory));
        loaded.loosenings.extend(find_project_hosts(&loaded.settings, &self.directory));
        Ok(loaded)
    }

    /// Adds the servers of package managers to a policy that wants them. Returns warnings.
    pub(crate) fn add_package_hosts(&self, policy: &mut SandboxPolicy) -> Vec<String> {
        package_hosts::add_package_hosts(policy, &self.directory, &self.env)
    }

    /// Returns where the local settings come from: while a run is active, from its copy.
    fn find_local_settings(&self, without: Option<&LoadedSettings>) -> LocalSettings {
        let stated = without.and_then(|loaded| loaded.settings.state_dir.as_ref());
        let stated = stated.map(|path| self.directory.join(path));
        let Ok(root) = layout::find_state_root(stated.as_deref(), |name| env::var_os(name)) else {
            return LocalSettings::InProject;
        };
        let mut above = self.directory.ancestors();
        let top = above.find(|it| it.join(".git").exists()).unwrap_or(&self.directory);
        match ProjectLayout::for_project(&self.directory, top, &root) {
            Ok(layout) if RunLock::find_holder(layout.state()).is_some() => {
                settings::read_recorded_local_settings(layout.state())
            }
            Ok(_) | Err(_) => LocalSettings::InProject,
        }
    }

    /// Returns the path of the user's own settings, whether the file exists or not.
    pub(crate) fn user_settings_file(&self) -> Option<PathBuf> {
        settings::find_user_settings_path(|name| self.find_env_variable(name))
    }

    /// Returns the loosenings that the user has not accepted.
    pub(crate) fn find_untrusted<'a>(
        &self,
        config: Option<&Path>,
        loaded: &'a LoadedSettings,
    ) -> Result<Vec<&'a Loosening>, CliError> {
        if loaded.loosenings.is_empty() {
            return Ok(Vec::new());
        }
        let config = self.resolve_config(config);
        let subject = self.trust_subject(config.as_deref());
        match TrustStore::load(|name| self.find_env_variable(name)) {
            Ok(trust) => Ok(trust.find_refused(subject, &loaded.loosenings)),
            // Without a home directory there is no trust file.
            Err(_) if self.user_settings_file().is_none() => Ok(loaded.loosenings.iter().collect()),
            Err(complaint) => Err(complaint),
        }
    }

    /// Returns this project as a trust subject.
    pub(crate) fn trust_subject<'a>(&'a self, config: Option<&'a Path>) -> TrustSubject<'a> {
        TrustSubject { project: &self.directory, config }
    }

    /// Returns the canonical path of a settings file given on the command line.
    pub(crate) fn resolve_config(&self, config: Option<&Path>) -> Option<PathBuf> {
        let path = self.directory.join(config?);
        Some(path.canonicalize().unwrap_or(path))
    }

    /// Lists loosenings, one per line, with paths relative to the project directory.
    pub(crate) fn list_loosenings<'a>(
        &self,
        loosenings: impl IntoIterator<Item = &'a Loosening>,
    ) -> String {
        let lines: Vec<String> = loosenings.into_iter().map(ToString::to_string).collect();
        self.with_relative_paths(&lines.join("\n"))
    }

    /// Makes paths in a text relative to the project directory.
    pub(crate) fn with_relative_paths(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.directory.display()), "")
    }

    fn find_env_variable(&self, name: &str) -> Option<OsString> {
        self.env.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    }

    /// Fails if an agent of the recipe is missing, before anything is written or paid.
    pub(crate) fn check_agents_exist(&self, recipe: &Recipe) -> Result<(), CliError> {
        for agent in recipe.callable_agents() {
            self.find_agent(agent)?;
            self.check_agent_files(agent)?;
        }
        Ok(())
    }

    /// Returns the program of an agent, or its scenario file.
    pub(crate) fn find_agent(&self, agent: &AgentChoice) -> Result<PathBuf, CliError> {
        match agent.kind.origin() {
            AgentOrigin::BuiltIn => {
                let scenario = self.directory.join(&agent.command);
                if scenario.is_file() {
                    return Ok(scenario);
                }
                let scenario = scenario.display();
                Err(CliError::for_input(format!("there is no scenario file `{scenario}`")))
            }
            AgentOrigin::Product | AgentOrigin::Command => {
                self.find_program(&agent.command).map_err(|reason| {
                    let message = format!("the agent cannot run: {reason}");
                    if let Some((program, args)) = agent.command.split_once(' ')
                        && self.find_program(program).is_ok()
                    {
                        let hint = format!(
                            "write {args:?} into `agent.flags`, and only {program:?} into `agent.command`"
                        );
                        return CliError::new(ExitStatus::AgentFailed, message).with_hint(hint);
                    }
                    let known = agents::list_products().map(|adapter| adapter.kind.name());
                    let meant = find_nearest(&agent.command, known);
                    let meant = meant.filter(|it| *it != agent.command);
                    let meant = meant.map(|it| format!("did you mean `{it}`?"));
                    let install = agents::find_install_hint(agent.kind, &agent.command);
                    let complaint = CliError::new(ExitStatus::AgentFailed, message);
                    meant.into_iter().chain([install]).fold(complaint, CliError::with_hint)
                })
            }
        }
    }

    /// Fails if a file of an agent is missing or invalid.
    fn check_agent_files(&self, agent: &AgentChoice) -> Result<(), CliError> {
        if let Some(file) = &agent.mcp_config {
            let path = self.directory.join(file);
            let shown = file.display();
            let text = fs::read_to_string(&path).map_err(|error| {
                CliError::for_input(format!("cannot read the MCP servers in `{shown}`: {error}"))
                    .with_hint("`mcp.coding` and `mcp.memory` name such files")
            })?;
            agents::parse_mcp_servers(&text).map_err(|error| {
                let complaint = CliError::from_error(ExitStatus::BadInput, &error);
                let message = format!("cannot use the MCP servers in `{shown}`: {error}");
                CliError { message, ..complaint }
                    .with_hint("to use no servers, write this into it: {\"mcpServers\": {}}")
            })?;
        }
        if let Some(file) = &agent.system_prompt {
            read_prompt(&self.directory, file).map_err(|error| {
                CliError::for_input(error.message).with_hint("`agent.systemPromptFile` names it")
            })?;
        }
        Ok(())
    }

    /// Fails if the program of a gate is missing: no iteration could make the gate pass.
    ///
    /// Only a plain program name is looked up. A path may be a script that the agent is to write.
    pub(crate) fn check_gates_exist(&self, recipe: &Recipe) -> Result<(), CliError> {
        for gate in &recipe.gates {
            let command = match &gate.check {
                GateCheck::Command(command) => command,
                GateCheck::Agent(_) => continue,
            };
            let Some(program) = find_plain_program(command) else { continue };
            if self.find_program(program).is_err() {
                let message = format!("the gate `{command}` cannot run: `{program}` was not found");
                return Err(CliError::for_input(message).with_hint(format!(
                    "install `{program}`, or fix the command in the settings"
                )));
            }
        }
        Ok(())
    }

    /// Returns the programs that a run needs in an image or VM.
    pub(crate) fn list_programs_needed_by(recipe: &Recipe) -> Vec<&str> {
        let asked = recipe
            .callable_agents()
            .into_iter()
            .filter(|agent| agent.kind.origin() != AgentOrigin::BuiltIn);
        let mut programs: Vec<&str> = asked.map(|agent| agent.command.as_str()).collect();
        programs.extend(recipe.gates.iter().filter_map(|gate| match &gate.check {
            GateCheck::Command(command) => find_plain_program(command),
            GateCheck::Agent(_) => None,
        }));
        programs.push("sh");
        programs.sort_unstable();
        programs.dedup();
        programs
    }

    /// Returns the file of a program on the `PATH`.
    pub(crate) fn find_program(&self, name: &str) -> Result<PathBuf, NotStarted> {
        process::find_program(&self.build_program_spawn(name))
    }

    fn build_program_spawn(&self, name: &str) -> Spawn {
        Spawn {
            program: name.into(),
            args: Vec::new(),
            cwd: self.directory.clone(),
            env: self.env.clone(),
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        }
    }

    /// Finds the repository that contains the project.
    pub(crate) fn find_repository(&self, watch: &Watch) -> Result<Option<GitRepository>, CliError> {
        let discovered = match self.repository.take() {
            RepositorySearch::Found(repository) => {
                self.repository.replace(RepositorySearch::Found(repository.clone()));
                return Ok(Some((*repository).with_watch(watch.clone())));
            }
            RepositorySearch::Begun(search) => match search.join() {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(_)) | Err(_) => self.discover_repository(watch),
            },
            RepositorySearch::NotBegun => self.discover_repository(watch),
        };
        match discovered {
            Ok(RepositoryDiscovery::Repository(repository)) => {
                let repository = repository.with_watch(watch.clone());
                self.repository.replace(RepositorySearch::Found(Box::new(repository.clone())));
                Ok(Some(repository))
            }
            Ok(RepositoryDiscovery::NotFound | RepositoryDiscovery::NoGit) => Ok(None),
            Err(error) => Err(CliError::from_git_error(error)),
        }
    }

    /// Finds the repository for work, like [`Project::find_repository`]. Fails if there is one that
    /// git cannot use: without it, nothing would be committed or undone.
    pub(crate) fn find_repository_for_work(
        &self,
        watch: &Watch,
    ) -> Result<Option<GitRepository>, CliError> {
        match self.find_repository(watch)? {
            Some(repository) => Ok(Some(repository)),
            None => self.find_git_problem().map_or(Ok(None), Err),
        }
    }

    /// Returns what is wrong if no repository is found although there is a `.git`.
    pub(crate) fn find_git_problem(&self) -> Option<CliError> {
        let git_dir = find_unusable_git_dir(&self.directory, &self.env)?;
        let shown = git_dir.display();
        let refuse = |message: String| CliError::new(ExitStatus::GitFailed, message);
        Some(match self.find_program("git") {
            Err(reason) => refuse(format!(
                "there is a repository, `{shown}`, and git cannot be started: {reason}"
            ))
            .with_hint("install git, or add its directory to the PATH"),
            Ok(_) => refuse(format!("`{shown}` is damaged: git finds no repository in it"))
                .with_hint("`git status` reports what git says about it")
                .with_hint("restore it from a backup, or clone the repository again"),
        })
    }

    /// Begins to look for the repository while other work is done.
    fn begin_search(&self) {
        let (directory, env) = (self.directory.clone(), self.env.clone());
        let search = move || GitRepository::discover(&directory, env, Watch::new_detached());
        if let Ok(search) = thread::Builder::new().name("find-git".to_owned()).spawn(search) {
            self.repository.replace(RepositorySearch::Begun(search));
        }
    }

    /// Finds git and the repository.
    pub(crate) fn discover_repository(
        &self,
        watch: &Watch,
    ) -> Result<RepositoryDiscovery, VcsError> {
        GitRepository::discover(&self.directory, self.env.clone(), watch.clone())
    }

    /// Returns where the state and the files of the project are.
    pub(crate) fn find_layout(&self, loaded: &LoadedSettings) -> Result<ProjectLayout, CliError> {
        let repository = self.find_repository(&Watch::new_detached())?;
        self.find_layout_in(loaded, repository.as_ref())
    }

    /// Returns where the state and the files of the project are, in a known repository.
    pub(crate) fn find_layout_in(
        &self,
        loaded: &LoadedSettings,
        repository: Option<&GitRepository>,
    ) -> Result<ProjectLayout, CliError> {
        let top = repository.map_or(self.directory.as_path(), GitRepository::top);
        ProjectLayout::for_project(&self.directory, top, &self.find_state_root(loaded)?)
            .map_err(CliError::from_input_error)
    }

    /// Returns the directory that holds the state of all projects.
    pub(crate) fn find_state_root(&self, loaded: &LoadedSettings) -> Result<PathBuf, CliError> {
        let stated = loaded.settings.state_dir.as_ref().map(|path| self.directory.join(path));
        layout::find_state_root(stated.as_deref(), |name| env::var_os(name))
            .map_err(CliError::from_input_error)
    }
}

/// Shell builtins and keywords.
const SHELL_WORDS: [&str; 46] = [
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "done", "echo",
    "elif", "else", "esac", "eval", "exec", "exit", "export", "false", "fg", "fi", "for",
    "getopts", "hash", "if", "jobs", "kill", "local", "printf", "pwd", "read", "readonly",
    "return", "set", "shift", "test", "then", "times", "trap", "true", "type", "ulimit", "umask",
    "unset", "until",
];

/// Returns the path of this program.
pub(crate) fn find_own_executable() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|error| {
        let message = format!("cannot find ralph's own executable: {error}");
        CliError::new(ExitStatus::Incomplete, message)
    })
}

/// Returns the program that a shell command starts with, if it is a plain name.
pub(crate) fn find_plain_program(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let is_plain = word
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "-_.+".contains(character));
    (is_plain && !SHELL_WORDS.contains(&word) && !["wait", "while"].contains(&word)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_looked_up() {
        for (command, expect) in [
            ("make test", Some("make")),
            ("cargo test && echo ok", Some("cargo")),
            ("./check", None),
            ("CI=1 make", None),
            ("if true; then make; fi", None),
            ("test -f x", None),
            ("[ -f x ]", None),
            ("(make)", None),
            ("! grep x", None),
            ("\"my tool\"", None),
            ("  ", None),
        ] {
            assert_eq!(find_plain_program(command), expect, "{command}");
        }
    }
}
