//! The project directory and what is known of it before a run: settings, environment, state.
//!
//! Not here: the repository, and anything that changes a file.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_agents as agents;
use ralph_core::child::NotStarted;
use ralph_core::gate::Check;
use ralph_core::glob::Pattern;
use ralph_core::guard::lexical;
use ralph_core::outcome::ExitStatus;
use ralph_core::ports::VcsError;
use ralph_core::prompt::role::{PRD, PROJECT_PROMPT, RolePrompt};
use ralph_core::prompt::run::RunPrompt;
use ralph_core::recipe::{AgentChoice, AgentKind, Origin, Recipe};
use ralph_io::git::{Discovery, Repository};
use ralph_io::process::{self, Limits, Spawn, Stdin, Watch};
use ralph_io::store::Lock;
use ralph_io::store::files::read_prompt;
use ralph_io::store::layout::{self, Layout, LayoutError};

use crate::cli::CommonArgs;
use crate::complaint::Complaint;
use crate::gate_scripts;
use crate::settings::{self, Files, FlagValue, Loaded, LocalSettings, Loosening, Sources};
use crate::trust::demands::{Ground, find_demands};
use crate::trust::{Subject, Trust};

/// A project directory.
#[derive(Debug)]
pub(crate) struct Project {
    /// Canonical path.
    pub(crate) directory: PathBuf,
    /// The environment ralph was started with.
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Project {
    /// Opens the directory that the command line names.
    pub(crate) fn open(common: &CommonArgs) -> Result<Self, Complaint> {
        let named = common.directory();
        let directory = named.canonicalize().map_err(|error| {
            Complaint::input(format!(
                "cannot open the project directory `{}`: {error}",
                named.display()
            ))
            .hint("-C names the directory to work in")
        })?;
        if !directory.is_dir() {
            return Err(Complaint::input(format!("`{}` is not a directory", named.display())));
        }
        Ok(Self { directory, env: env::vars_os().collect() })
    }

    /// Opens the directory for work. Fails if it belongs to a project above it, whose settings and
    /// gates would not apply here, unless the command line names the directory.
    pub(crate) fn open_for_work(common: &CommonArgs) -> Result<Self, Complaint> {
        let project = Self::open(common)?;
        let steps = common.project_dir.is_none().then(|| project_above(&project.directory));
        let Some(steps) = steps.flatten() else { return Ok(project) };
        let above = vec![".."; steps].join("/");
        let command = env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
        Err(Complaint::input(format!(
            "this directory belongs to the project in `{above}`, whose settings and gates would not \
             hold here"
        ))
        .hint(format!("`ralph -C {above} {command}` works on that project"))
        .hint(format!("`ralph -C . {command}` takes this directory for a project of its own")))
    }

    /// Reads the settings: files, environment, flags. Fails if the project's files loosen anything
    /// that the user has not accepted.
    pub(crate) fn settings(
        &self,
        config: Option<&Path>,
        flags: Vec<FlagValue>,
    ) -> Result<Loaded, Complaint> {
        let loaded = self.settings_as_written(config, flags)?;
        let refused = self.refused(config, &loaded)?;
        if refused.is_empty() {
            return Ok(loaded);
        }
        let own = self.user_settings().map_or_else(
            || "your own settings".to_owned(),
            |path| format!("your own settings, `{}`", path.display()),
        );
        let message = "the settings of this project reach beyond it, and you do not trust it:";
        let given = config.map(|path| format!(" --config {}", path.display())).unwrap_or_default();
        Err(Complaint::input(format!("{message}\n{}", self.listed(refused)))
            .hint(format!("`ralph trust{given}` accepts it for this project"))
            .hint(format!("or put it into {own}, for all projects")))
    }

    /// Reads the settings without the trust check, for commands that start neither agents nor gates.
    pub(crate) fn settings_as_written(
        &self,
        config: Option<&Path>,
        flags: Vec<FlagValue>,
    ) -> Result<Loaded, Complaint> {
        self.load(self.user_settings().as_deref(), config, flags, &self.env)
    }

    /// Reads the settings of the project's files only.
    pub(crate) fn settings_of_project(&self) -> Result<Loaded, Complaint> {
        self.load(None, None, Vec::new(), &[])
    }

    /// Returns the settings without any file, for a settings file with mistakes that is to be replaced.
    pub(crate) fn settings_without_files(&self) -> Result<Loaded, Complaint> {
        settings::load(Sources::default().with_environment(self.env.clone()))
            .map_err(|error| Complaint::input(error.to_string()))
    }

    /// Reads the settings without the user's own, for a demo project.
    pub(crate) fn settings_alone(&self) -> Result<Loaded, Complaint> {
        self.load(None, None, Vec::new(), &self.env)
    }

    fn load(
        &self,
        user: Option<&Path>,
        config: Option<&Path>,
        flags: Vec<FlagValue>,
        env: &[(OsString, OsString)],
    ) -> Result<Loaded, Complaint> {
        let config = config.map(|path| self.directory.join(path));
        let files =
            |local| Files { user, project: &self.directory, config: config.as_deref(), local };
        let load = |local, flags: Vec<FlagValue>| {
            settings::read_sources(files(local)).and_then(|mut sources| {
                sources.flags = flags;
                settings::load(sources.with_environment(env.to_vec()))
            })
        };
        let mut local = LocalSettings::InProject;
        if settings::local_file(&self.directory).symlink_metadata().is_ok() {
            let without = load(LocalSettings::Recorded(None), Vec::new());
            local = self.local_settings_now(without.ok().as_ref());
        }
        let mut loaded = load(local, flags).map_err(|error| {
            let mistakes = self.seen_from_here(&error.to_string());
            Complaint::input(match error.problems.len() {
                1 => format!("there is a mistake in the settings:\n{mistakes}"),
                count => format!("there are {count} mistakes in the settings:\n{mistakes}"),
            })
        })?;
        let find_program = |name: &str| self.find_program(name).ok();
        let ground = Ground { directory: &self.directory, find_program: &find_program };
        loaded.loosenings.extend(find_demands(&loaded, &ground));
        Ok(loaded)
    }

    /// Returns where the local settings come from: while a run is active, from its copy.
    fn local_settings_now(&self, without: Option<&Loaded>) -> LocalSettings {
        let stated = without.and_then(|loaded| loaded.settings.state_dir.as_ref());
        let stated = stated.map(|path| self.directory.join(path));
        let Ok(root) = layout::state_root(stated.as_deref(), |name| env::var_os(name)) else {
            return LocalSettings::InProject;
        };
        let mut above = self.directory.ancestors();
        let top = above.find(|it| it.join(".git").exists()).unwrap_or(&self.directory);
        match Layout::locate(&self.directory, top, &root) {
            Ok(layout) if Lock::look(layout.state()).is_some() => {
                settings::recorded_local_settings(layout.state())
            }
            Ok(_) | Err(_) => LocalSettings::InProject,
        }
    }

    /// Returns the path of the user's own settings, whether the file exists or not.
    pub(crate) fn user_settings(&self) -> Option<PathBuf> {
        settings::user_file(|name| self.variable(name))
    }

    /// Returns the loosenings that the user has not accepted.
    pub(crate) fn refused<'a>(
        &self,
        config: Option<&Path>,
        loaded: &'a Loaded,
    ) -> Result<Vec<&'a Loosening>, Complaint> {
        if loaded.loosenings.is_empty() {
            return Ok(Vec::new());
        }
        let config = self.given_config(config);
        let subject = self.subject(config.as_deref());
        match Trust::read(|name| self.variable(name)) {
            Ok(trust) => Ok(trust.refused(subject, &loaded.loosenings)),
            // Without a home directory there is no trust file.
            Err(_) if self.user_settings().is_none() => Ok(loaded.loosenings.iter().collect()),
            Err(complaint) => Err(complaint),
        }
    }

    /// Returns this project as a trust subject.
    pub(crate) fn subject<'a>(&'a self, config: Option<&'a Path>) -> Subject<'a> {
        Subject { project: &self.directory, config }
    }

    /// Returns the canonical path of a settings file given on the command line.
    pub(crate) fn given_config(&self, config: Option<&Path>) -> Option<PathBuf> {
        let path = self.directory.join(config?);
        Some(path.canonicalize().unwrap_or(path))
    }

    /// Lists loosenings, one per line, with paths relative to the project directory.
    pub(crate) fn listed<'a>(&self, loosenings: impl IntoIterator<Item = &'a Loosening>) -> String {
        let lines: Vec<String> = loosenings.into_iter().map(ToString::to_string).collect();
        self.seen_from_here(&lines.join("\n"))
    }

    /// Makes paths in a text relative to the project directory.
    pub(crate) fn seen_from_here(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.directory.display()), "")
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.env.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    }

    /// Fails if an agent of the recipe is missing, before anything is written or paid.
    pub(crate) fn agents_are_there(&self, recipe: &Recipe) -> Result<(), Complaint> {
        for agent in recipe.asked() {
            self.find_agent(agent)?;
            self.files_are_usable(agent)?;
        }
        Ok(())
    }

    /// Returns the program of an agent, or its scenario file.
    pub(crate) fn find_agent(&self, agent: &AgentChoice) -> Result<PathBuf, Complaint> {
        match agent.kind.origin() {
            Origin::BuiltIn => {
                let scenario = self.directory.join(&agent.command);
                if scenario.is_file() {
                    return Ok(scenario);
                }
                let scenario = scenario.display();
                Err(Complaint::input(format!("there is no scenario file `{scenario}`")))
            }
            Origin::Product | Origin::Command => {
                self.find_program(&agent.command).map_err(|reason| {
                    let message = format!("the agent cannot run: {reason}");
                    Complaint::new(ExitStatus::AgentFailed, message)
                        .hint(agents::install_hint(agent.kind, &agent.command))
                })
            }
        }
    }

    /// Fails if a file of an agent is missing or invalid.
    fn files_are_usable(&self, agent: &AgentChoice) -> Result<(), Complaint> {
        if let Some(file) = &agent.mcp_config {
            let path = self.directory.join(file);
            let shown = file.display();
            let text = fs::read_to_string(&path).map_err(|error| {
                Complaint::input(format!("cannot read the MCP servers in `{shown}`: {error}"))
                    .hint("`mcp.coding` and `mcp.memory` name such files")
            })?;
            agents::mcp_servers(&text).map_err(|error| {
                let complaint = Complaint::of(ExitStatus::BadInput, &error);
                let message = format!("cannot use the MCP servers in `{shown}`: {error}");
                Complaint { message, ..complaint }
                    .hint("for none at all it holds {\"mcpServers\": {}}")
            })?;
        }
        if let Some(file) = &agent.system_prompt {
            read_prompt(&self.directory, file).map_err(|error| {
                Complaint::input(error.message).hint("`agent.systemPromptFile` names it")
            })?;
        }
        Ok(())
    }

    /// Fails if the program of a gate is missing: no iteration could make the gate pass.
    ///
    /// Only a plain program name is looked up. A path may be a script that the agent is to write.
    pub(crate) fn gates_are_there(&self, recipe: &Recipe) -> Result<(), Complaint> {
        for gate in &recipe.gates {
            let command = match &gate.check {
                Check::Command(command) => command,
                Check::Agent(_) => continue,
            };
            let Some(program) = plain_program(command) else { continue };
            if self.find_program(program).is_err() {
                let message = format!("the gate `{command}` cannot run: `{program}` was not found");
                return Err(Complaint::input(message)
                    .hint(format!("install `{program}`, or fix the command in the settings")));
            }
        }
        Ok(())
    }

    /// Returns the programs that a run needs in an image or VM.
    pub(crate) fn programs_of(recipe: &Recipe) -> Vec<&str> {
        let asked = recipe.asked().into_iter().filter(|agent| agent.kind != AgentKind::Sim);
        let mut programs: Vec<&str> = asked.map(|agent| agent.command.as_str()).collect();
        programs.extend(recipe.gates.iter().filter_map(|gate| match &gate.check {
            Check::Command(command) => plain_program(command),
            Check::Agent(_) => None,
        }));
        programs.push("sh");
        programs.sort_unstable();
        programs.dedup();
        programs
    }

    /// Returns the file of a program on the `PATH`.
    pub(crate) fn find_program(&self, name: &str) -> Result<PathBuf, NotStarted> {
        process::find_program(&self.program(name))
    }

    /// Protects the settings themselves, the scripts that gates run, and the files with the agents'
    /// instructions; only the settings can lift this. An agent that could change those could make
    /// every gate pass.
    pub(crate) fn lock(&self, recipe: &mut Recipe, loaded: &Loaded) {
        let settings = [".ralph/settings.json", ".ralph/settings.local.json"].map(str::to_owned);
        let named = loaded.files.iter().filter_map(|file| {
            Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
        });
        let commands = recipe.gates.iter().filter_map(|gate| match &gate.check {
            Check::Command(command) => Some(command.as_str()),
            Check::Agent(_) => None,
        });
        let mut scripts = gate_scripts::protected(self, commands);
        scripts.retain(|path| !recipe.unprotected.iter().any(|it| it.matches(path)));
        let orders = self.orders(recipe, loaded);
        let started = self.started_by_settings(loaded);
        let all = settings.into_iter().chain(named).chain(scripts.iter().cloned()).chain(orders);
        let all = all.chain(started);
        let paths: BTreeSet<String> = all.collect();
        recipe.locked = paths.iter().filter_map(|path| Pattern::exactly(path)).collect();
        recipe.protect.extend(recipe.locked.iter().cloned());
        recipe.gate_scripts = scripts;
    }

    /// Protects the same for `ralph run`, if there are gates that the agent could make pass that way.
    pub(crate) fn lock_for_prompt(&self, recipe: &mut Recipe, loaded: &Loaded) {
        if !recipe.gates.is_empty() {
            self.lock(recipe, loaded);
        }
    }

    /// Returns the files of the project that the settings start or pass to agents: the programs of
    /// `scm` and of agents, and the lists of MCP servers.
    fn started_by_settings(&self, loaded: &Loaded) -> Vec<String> {
        let settings = &loaded.settings;
        let sections = settings.agents.sections();
        let commands = sections.iter().map(|(_, section)| &section.command);
        let commands = commands.chain([&settings.agent.command, &settings.scm.command]).flatten();
        // A plain name is looked up on the `PATH`.
        let programs = commands.filter(|command| command.contains('/'));
        let files =
            programs.chain([&settings.mcp.coding, &settings.mcp.memory].into_iter().flatten());
        files
            .map(|file| lexical(&self.directory.join(file)))
            .filter(|file| file.is_file())
            .filter_map(|file| {
                Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
            })
            .collect()
    }

    /// Returns the files with the agents' instructions, existing or not: no agent may instruct the next.
    fn orders(&self, recipe: &Recipe, loaded: &Loaded) -> Vec<String> {
        let prompts = self.directory.join(&loaded.settings.prompts_dir);
        let names = RolePrompt::ALL.map(RolePrompt::name).into_iter();
        let names = names.chain(RunPrompt::ALL.map(RunPrompt::name));
        let templates = names.map(|name| prompts.join(format!("{name}.md")));
        let companions = recipe.task_work().map(|work| {
            let list = self.directory.join(&work.file);
            [PROJECT_PROMPT, PRD].map(|name| list.with_file_name(name))
        });
        let files = templates.chain(companions.into_iter().flatten());
        files
            .filter_map(|file| {
                Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
            })
            .collect()
    }

    fn program(&self, name: &str) -> Spawn {
        Spawn {
            program: name.into(),
            args: Vec::new(),
            cwd: self.directory.clone(),
            env: self.env.clone(),
            stdin: Stdin::Null,
            limits: Limits::default(),
        }
    }

    /// Finds the repository that contains the project.
    pub(crate) fn repository(&self, watch: &Watch) -> Result<Option<Repository>, Complaint> {
        match self.discover(watch) {
            Ok(Discovery::Repository(repository)) => Ok(Some(*repository)),
            Ok(Discovery::None | Discovery::NoGit) => Ok(None),
            Err(error) => Err(Complaint::new(ExitStatus::GitFailed, error.message)),
        }
    }

    /// Finds git and the repository.
    pub(crate) fn discover(&self, watch: &Watch) -> Result<Discovery, VcsError> {
        Repository::discover(&self.directory, self.env.clone(), watch.clone())
    }

    /// Returns where the state and the files of the project are.
    pub(crate) fn layout(&self, loaded: &Loaded) -> Result<Layout, Complaint> {
        let repository = self.repository(&Watch::detached())?;
        self.layout_in(loaded, repository.as_ref())
    }

    /// Returns where the state and the files of the project are, in a known repository.
    pub(crate) fn layout_in(
        &self,
        loaded: &Loaded,
        repository: Option<&Repository>,
    ) -> Result<Layout, Complaint> {
        let top = repository.map_or(self.directory.as_path(), Repository::top);
        Layout::locate(&self.directory, top, &self.state_root(loaded)?)
            .map_err(|error| complain_of_layout(&error))
    }

    /// Returns the directory that holds the state of all projects.
    pub(crate) fn state_root(&self, loaded: &Loaded) -> Result<PathBuf, Complaint> {
        let stated = loaded.settings.state_dir.as_ref().map(|path| self.directory.join(path));
        layout::state_root(stated.as_deref(), |name| env::var_os(name))
            .map_err(|error| complain_of_layout(&error))
    }
}

/// Returns how many levels up the enclosing project is, if it is not the directory itself.
fn project_above(directory: &Path) -> Option<usize> {
    const MARKS: [&str; 3] =
        [".ralph/settings.json", ".ralph/settings.local.json", "ralph/tasks.json"];
    let is_project = |place: &Path| MARKS.iter().any(|mark| place.join(mark).is_file());
    let top = directory.ancestors().position(|it| it.join(".git").exists())?;
    let found = directory.ancestors().take(top + 1).position(is_project)?;
    (found > 0).then_some(found)
}

/// Shell builtins and keywords.
const SHELL_WORDS: [&str; 46] = [
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "done", "echo",
    "elif", "else", "esac", "eval", "exec", "exit", "export", "false", "fg", "fi", "for",
    "getopts", "hash", "if", "jobs", "kill", "local", "printf", "pwd", "read", "readonly",
    "return", "set", "shift", "test", "then", "times", "trap", "true", "type", "ulimit", "umask",
    "unset", "until",
];

/// Returns the program that a shell command starts with, if it is a plain name.
fn plain_program(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let is_plain = word
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "-_.+".contains(character));
    (is_plain && !SHELL_WORDS.contains(&word) && !["wait", "while"].contains(&word)).then_some(word)
}

/// Returns the error for a state or project directory that cannot be used.
pub(crate) fn complain_of_layout(error: &LayoutError) -> Complaint {
    Complaint::of(ExitStatus::BadInput, error)
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
            assert_eq!(plain_program(command), expect, "{command}");
        }
    }
}
